"""What compiled code and Python share of inline counting, and what they write into code with."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from spe_unicorn.compiled import array_at, pointer_to, routine

INLINE: Final = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("sites", "hook", "place", "free", "begin", "end", "seen"),
            *("patched", "refused", "anew", "engine", "state"),
            *("address", "size", "number", "weight", "row", "check", "after", "code_end"),
            *("members_back", "back", "entry", "first", "count"),
            *("common", "common_store"),
        )
    ]
)
"""Lasting: the address of the table of sites; the hook that stubs call; where translated code was
seen; the first free byte for stubs, their first byte and the end of that memory; the marks for
which a block is never replaced; how many blocks were replaced and refused, and how often one was
written anew; the addresses of the engine and of the state.
Of the block that is being replaced: its address and size in bytes; what it is to count
(``counts``), its weight and the address of its row of ``tallies``, 0 for none; the engine's check,
where the block goes on, and where its code ends, 0 if that is unknown; where parts of its stub
stand. ``common`` and ``common_store`` are lasting, too: where ``accesses`` has written them."""
SITES: Final = 1 << 16


@routine
def number_at(at: Any, size: Any) -> Any:
    """The number in ``size`` bytes of memory, the lowest first; one of 8 bytes has a sign."""
    data = array_at(pointer_to(at), (8,), np.uint8)
    value = np.int64(0)
    for n in range(size):
        value |= np.int64(data[n]) << 8 * n
    return value


@routine
def put(at: Any, value: Any, size: Any) -> Any:
    """Write the lowest ``size`` bytes of a number; the address after them."""
    data = array_at(pointer_to(at), (8,), np.uint8)
    for n in range(size):
        data[n] = value >> 8 * n & 0xFF
    return at + size


@routine
def near(distance: Any) -> Any:
    """A distance of 32 bits with a sign, as jumps and calls have it."""
    return (distance << 32) >> 32


@routine
def counts(tally: Any, weigh: Any) -> Any:
    """What blocks of a run count beside operations, as a number: ``State.attend`` where none calls.

    ``tally`` and ``weigh`` are those of the state.
    """
    return 2 * tally + weigh
