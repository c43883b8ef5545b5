"""The calls that led a PE to a sampled operation."""
