"""A Linux guest: where its kernel comes from, its files, and what its console says of its end."""
