"""Faults and interrupts put into a machine at a chosen operation, and at each of many."""
