"""Names for addresses."""
