"""Which returns from exceptions the engine gets wrong, for Python and compiled code.

The host executes an ERET that is illegal, or that returns with PSTATE.IL or to AArch32. Controls of
EL2 and EL3 decide what is legal. So Python works that out for each value of SPSR_ELx.M[3:0], by
``arch.exceptions.exception_return``, and compiled code looks the SPSR_ELx up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.compiled import routine

_MODES: Final = 1 << 4
_NOT_PLAIN: Final = int(SPSR.nRW.mask | SPSR.IL.mask)


def legal_returns(is_legal: Callable[[int, int], bool]) -> int:
    """``State.legal_returns``, by what ``is_legal`` says of an Exception level and an M[3:0]."""
    legal = 0
    for el in (1, 2, 3):
        for mode in range(_MODES):
            legal |= is_legal(el, mode) << _place(el, mode)
    return legal


@routine
def is_suspect(legal: int, el: int, spsr: int) -> bool:
    """Whether the host has to execute a return from ``el`` with such an SPSR_ELx."""
    return legal >> _place(el, spsr & 0xF) & 1 == 0 or spsr & _NOT_PLAIN != 0


@routine
def _place(el: int, mode: int) -> int:
    return (el - 1) * _MODES + mode
