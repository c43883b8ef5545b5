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
def executes_wrongly(word: int) -> bool:
    """Whether the engine executes an operation wrongly, so that the host has to mend it."""
    return acts_unsigned(word)
