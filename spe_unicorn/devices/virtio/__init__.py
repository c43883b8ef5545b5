"""Virtio devices (Virtual I/O Device 1.2) behind the transport in memory, by split virtqueues."""
