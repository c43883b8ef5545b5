"""Arm's Statistical Profiling Extension (SPE) on the Unicorn engine."""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes longer to import than all that the command does first
if TYPE_CHECKING:
    from spe_unicorn.plugin.attach import attach

__all__ = ["attach"]


def __getattr__(name: str) -> object:
    """Import the engine only when it is asked for: the command line mostly needs none."""
    if name == "attach":
        from spe_unicorn.plugin.attach import attach

        return attach
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
