"""Coverage of source lines, branches and functions: merged, written and read."""
