"""Arm's Statistical Profiling Extension (SPE) on the Unicorn engine."""
