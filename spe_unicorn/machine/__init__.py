"""The board: memory, devices, loading and boot, above the host."""
