"""Instructions that the engine lacks, and those that it executes wrongly."""
