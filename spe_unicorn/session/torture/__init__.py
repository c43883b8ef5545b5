"""A search over implementations that the architecture allows."""
