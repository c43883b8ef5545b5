"""Turns of several PEs in compiled code."""
