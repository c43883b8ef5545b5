"""Registers as declarations, a class each."""
