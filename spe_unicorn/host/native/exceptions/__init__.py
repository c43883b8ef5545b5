"""Exceptions and returns within a run of the engine, and instructions that the engine lacks."""
