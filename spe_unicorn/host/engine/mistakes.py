"""Instruction words that the engine executes wrongly, for Python and compiled code.

They were found by comparing the engine with later releases of QEMU, word by word.
``host.pe.amended.mending`` carries them out rightly.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import routine

_ATOMIC_BITS, _LDSMAX, _LDSMIN = 0x3F20_FC00, 0x3820_4000, 0x3820_5000
"""Atomics without the bits of their size and ordering. ST forms are LD forms of XZR."""
_DOUBLEWORD: Final = 3


@routine
def acts_unsigned(word: int) -> bool:
    """Whether a word is LDSMAX or LDSMIN of 8, 16 or 32 bits, with any ordering.

    The engine compares what these are of without the sign.
    """
    kind = word & _ATOMIC_BITS
    return kind in (_LDSMAX, _LDSMIN) and word >> 30 & 3 != _DOUBLEWORD


@routine
def is_unallocated(word: int) -> bool:
    """Whether the engine executes a word that is no instruction.

    These are FNEG of a half-precision scalar, FMAXNMV, FMAXV, FMINNMV and FMINV of half-precision
    with an odd size, and modified immediates with op, o2 and all of cmode 1 (Arm ARM C4.1.97); and
    SMULH and UMULH whose Ra is not all ones, for which C6.2 leaves the choice.
    """
    if word & 0xFF60_8000 == 0x9B40_0000:
        return word >> 10 & 31 != 31
    odd_size = word & 0xBF7F_FC00
    return (
        word & 0xFFFF_FC00 == 0x7EF8_F800
        or odd_size == 0x0E70_C800
        or odd_size == 0x0E70_F800
        or word & 0xBFF8_FC00 == 0x2F00_FC00
    )


@routine
def copies_sign(word: int) -> bool:
    """Whether a word is FCVTZS of a half-precision scalar to fixed-point.

    The engine extends the result by its sign to 32 bits. Above 16 bits it is 0.
    """
    return word & 0xFFF0_FC00 == 0x5F10_FC00


@routine
def executes_wrongly(word: int) -> bool:
    """Whether the engine executes an operation wrongly, so that the host has to mend it."""
    return acts_unsigned(word) or is_unallocated(word) or copies_sign(word)
