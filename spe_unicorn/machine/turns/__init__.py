"""How turns go to compiled code, and come back."""
