"""Performance monitors: so far, the junction at which PMU events arrive."""
