"""What compiled code notes of samples: the calls that led to them, members of wrong paths."""
