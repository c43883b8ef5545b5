"""Counting inline: blocks of translated code that count themselves (ADR 0030)."""
