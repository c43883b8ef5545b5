"""What using an attachment raises: SPE is there no more, or what it raises has no vectors."""

from __future__ import annotations

from spe_unicorn.arch.access.verdicts import SystemAccessTrap


class DetachedError(RuntimeError):
    """SPE was detached from the engine."""


class TrappedAccessError(Exception):
    """An access to an SPE register was trapped to an Exception level that has no vectors.

    ``verdict`` is the rules' answer, with the rule that decided it.
    """

    def __init__(self, name: str, pc: int, verdict: SystemAccessTrap) -> None:
        super().__init__(
            f"the access to {name} at {pc:#x} traps to EL{verdict.target_el}, whose VBAR is not"
            f" set: {verdict.rule.text}"
        )
        self.verdict = verdict


class ProfilingExceptionError(Exception):
    """What SPE raises has no vectors at the Exception level that takes it, ``target_el``."""

    def __init__(self, what: str, target_el: int, pc: int) -> None:
        super().__init__(f"{what} before {pc:#x} is taken to EL{target_el}, whose VBAR is not set")
        self.target_el = target_el
