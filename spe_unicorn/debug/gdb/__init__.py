"""GDB's remote serial protocol: a debugger outside holds the machine."""
