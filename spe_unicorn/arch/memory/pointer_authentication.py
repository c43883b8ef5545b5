"""Pointer authentication, as far as an address depends on it: where the code stands in a pointer.

The engine authenticates. Here is the address that comes out where it succeeds (Arm ARM D8.10).
"""

from __future__ import annotations

from spe_unicorn.arch.memory.regimes import context_at
from spe_unicorn.arch.pe import EL0, EL1, EL2, PE
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.rules.effective import el_is_in_host

_MASK = (1 << 64) - 1
_TOP_BYTE = 0xFF << 56
_SIZES = (25, 48)
"""The least and the most bits of an address that TxSZ can leave, as the engine has it."""


def authenticated_address(pe: PE, pointer: int, *, key_b: bool) -> int:
    """AuthDA() and AuthDB() of a data pointer whose code is right, 64 bits.

    Bits that hold the code become copies of bit 55. Nothing is changed where SCTLR_ELx disables
    the key.
    """
    host = pe.el == EL0 and el_is_in_host(pe, EL0)
    sctlr = pe.registers.read(banked.SCTLR[EL2 if host else max(pe.el, EL1)])
    if not (sctlr.EnDB if key_b else sctlr.EnDA):
        return pointer
    context = context_at(pe, pe.el)
    upper = bool(pointer >> 55 & 1)
    parameters = context.upper if upper and context.upper is not None else context.lower
    code = _MASK - ((1 << _bottom_bit(parameters.iasize)) - 1)
    if parameters.tbi:
        code &= ~_TOP_BYTE
    return pointer | code if upper else pointer & ~code


def _bottom_bit(iasize: int) -> int:
    """CalculateBottomPACBit(). The lowest bit of the code; a size out of range is a bound."""
    return min(max(iasize, _SIZES[0]), _SIZES[1])
