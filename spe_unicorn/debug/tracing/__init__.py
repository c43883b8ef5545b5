"""Traces: what happens on a board, a line each, as text or JSON Lines."""
