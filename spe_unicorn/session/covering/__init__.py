"""The coverage of a machine: from what its PEs have executed to lines of source files."""
