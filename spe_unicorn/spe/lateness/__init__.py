"""What a legal implementation does later than at once."""
