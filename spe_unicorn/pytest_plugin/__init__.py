"""Firmware regression with pytest: fixtures that hold a machine, and ELF files as tests."""
