"""Core profiles as data, and the models that they name."""
