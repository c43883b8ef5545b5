"""Exceptions: entry, return, routing, syndromes."""
