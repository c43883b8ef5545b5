"""Many runs as one table: a plan names runs, each runs in its own process, each gives one row."""
