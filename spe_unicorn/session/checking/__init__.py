"""Checks of memory: what a program does to its code, its stacks, and memory nobody has written."""
