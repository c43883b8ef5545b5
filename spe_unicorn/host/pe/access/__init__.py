"""Accesses that the host makes in place of the engine: System registers, devices, AT; events."""
