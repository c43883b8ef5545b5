"""How firmware gets into memory, and what the guest begins with."""
