"""What compiled hooks and Python share: a state in four parts, and what its numbers mean."""
