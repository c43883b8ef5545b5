"""What to tell a user who looks for something that did not happen: no samples, no SPE, no instruction."""
