"""Records as profiles that other programs open: stacks with counts, and taken branches."""
