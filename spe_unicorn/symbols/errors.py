"""What is wrong with an ELF file."""

from __future__ import annotations


class ElfError(ValueError):
    """A file that is no good ELF file; the message says what is wrong, after the file's name."""
