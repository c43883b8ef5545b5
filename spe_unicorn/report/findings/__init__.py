"""What the samples of a recording say should be done: rules and their evidence."""
