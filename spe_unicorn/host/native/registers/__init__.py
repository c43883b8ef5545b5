"""Registers in compiled code: System registers, and those of the UART."""
