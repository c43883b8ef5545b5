"""What the access rules said, in words."""

from __future__ import annotations

from spe_unicorn.arch.access import Allowed, NVMem, SystemAccessTrap, Verdict


def outcome(verdict: Verdict) -> str:
    """What a verdict does, without why."""
    if isinstance(verdict, Allowed):
        return f"accesses {verdict.register.__name__}"
    if isinstance(verdict, SystemAccessTrap):
        return f"traps to EL{verdict.target_el} with EC {verdict.ec:#04x}"
    if isinstance(verdict, NVMem):
        return f"accesses memory at VNCR_EL2.BADDR + {verdict.offset:#x}"
    return "is UNDEFINED"
