"""Where blocks stand in the tables, and how long they can be."""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import routine

BLOCKS: Final = 1 << 18
"""Entries of the block table, direct-mapped by address and length.

The key is the address XOR the number of operations: an operation that the engine knows to trap
ends its block, so what traps decides how long a block is.
"""
ALIGNMENT: Final = 2
"""Shift of an address: instructions have four bytes."""
LENGTH: Final = 9
"""Bits by which a block's length is shifted there: blocks side by side, which loops alternate
between, have slots of their own."""
SPREAD: Final = -7046029254386353131
"""An odd number: its products by two epochs differ, and in all bits."""
NOT_IN_TABLE: Final = 62
"""The bit of an entry of ``quick`` for a block that is harmless, and that the table does not hold:
its weight and its row of ``tallies`` are not known."""
CODE_WORDS: Final = 1 << 10
"""Operations of the longest block."""
LANES: Final = 8
"""Events of words that compiled code adds up at once."""
ROW: Final = LANES // 2 + 1
"""Words of a row of the table `tallies`: two lanes each, and all ones where the block ends with a
conditional branch whose way matters."""


@routine
def slot_of(address: int, operations: int) -> int:
    """Where a block stands in the block table."""
    return (address >> ALIGNMENT ^ operations << LENGTH) & BLOCKS - 1
