"""SPE on somebody else's ``Uc``."""
