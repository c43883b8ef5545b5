"""The instructions that make an event, as a population: an ``arch.ports.Cracker``."""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.arch.operation import Instruction


class Members:
    """An instruction is as many members as ``count`` says; all of them are the whole of it."""

    def __init__(self, count: Callable[[Instruction], int]) -> None:
        self._count = count

    def parts(self, instruction: Instruction, /) -> tuple[Instruction, ...]:
        """The instruction, as often as it is a member."""
        return (instruction,) * self._count(instruction)
