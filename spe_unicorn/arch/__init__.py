"""The Arm rules, pure: no engine, no I/O, no clock."""
