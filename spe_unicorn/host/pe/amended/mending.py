"""Carries out rightly what the engine executes wrongly (``host.engine.mistakes``).

Such an operation is stepped over, and the engine executes it: translation, faults, watchpoints and
all that it gets right are its own. Before anything else runs, the host puts right what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from unicorn import arm64_const as regs

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.host.engine.mistakes import acts_unsigned, copies_sign, executes_wrongly
from spe_unicorn.host.pe.cpu import UnicornCPU

Cure: TypeAlias = Callable[[], None]
"""What is to be done when the engine has executed the operation."""
_LEAST: Final = 1 << 12
"""The bit of the word that tells LDSMIN from LDSMAX."""
_STACK_POINTER: Final = 31


def stored_by_atomic(word: int, memory: int, operand: int) -> int | None:
    """Which of two operands of different signs LDSMAX or LDSMIN stores; None for equal signs.

    Both have the size that the word says. Arm ARM C6.2, LDSMAX: MemAtomic() with MemAtomicOp_SMAX
    and MemAtomicOp_SMIN.
    """
    sign = 1 << (8 << (word >> 30)) - 1
    if not (memory ^ operand) & sign:
        return None
    negative, other = (memory, operand) if memory & sign else (operand, memory)
    return negative if word & _LEAST else other


class Mending:
    """What one PE's engine executes wrongly."""

    TRANSIT = ("_cure",)

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self._cure: Cure | None = None

    def distance(self, code: tuple[Instruction, ...]) -> int:
        """How many operations of ``code`` come before the first that has to be mended."""
        if not self._cpu.whole:
            return len(code)
        return next((k for k, i in enumerate(code) if executes_wrongly(i.word)), len(code))

    def begin(self, word: int) -> None:
        """The engine is about to execute the operation ``word``, and nothing but that."""
        self._cure = None
        if self._cpu.whole and executes_wrongly(word):
            if acts_unsigned(word):
                self._cure = self._atomic(word)
            elif copies_sign(word):
                self._cure = partial(self._shorten, word & 31)

    def executed(self) -> None:
        """The engine has executed that operation."""
        if self._cure is not None:
            cure, self._cure = self._cure, None
            cure()

    def _shorten(self, number: int) -> None:
        """Leave the lowest 16 bits of a vector register alone."""
        uc, register = self._cpu.engine.uc, regs.UC_ARM64_REG_Q0 + number
        uc.reg_write(register, uc.reg_read(register) & 0xFFFF)

    def _atomic(self, word: int) -> Cure | None:
        cpu = self._cpu
        number, size = word >> 5 & 31, 1 << (word >> 30)
        address = cpu.engine.get(SP) if number == _STACK_POINTER else cpu.engine.x(number)
        memory = cpu.virtual.read(address, size)
        if memory is None:
            return None  # the operation faults, or a device answers
        operand = cpu.engine.x(word >> 16 & 31) & (1 << 8 * size) - 1
        stored = stored_by_atomic(word, int.from_bytes(memory, "little"), operand)
        if stored is None:
            return None
        data = stored.to_bytes(size, "little")

        def store() -> None:
            cpu.virtual.write(address, data)
            cpu.engine.forget_code(address, address + size)

        return store
