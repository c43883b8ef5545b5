"""Compiled code: the hooks that run inside the engine, and the state they share with Python."""
