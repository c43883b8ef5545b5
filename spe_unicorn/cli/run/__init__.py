"""A run by command: its settings, its consoles and files, and what is said of it."""
