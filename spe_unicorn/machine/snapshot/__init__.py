"""A whole board, captured as plain data and put back."""
