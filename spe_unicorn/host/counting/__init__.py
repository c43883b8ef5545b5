"""Counting: what the Performance Monitors of a PE count of what its engine executes."""
