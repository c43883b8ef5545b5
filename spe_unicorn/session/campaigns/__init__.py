"""Many runs as one table: a plan, its runs, each in a process of its own, and what they came to."""
