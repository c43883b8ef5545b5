"""What compiled code and Python share of inline counting, and how they write bytes of code."""

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
            *("predictor", "resolve_at", "ending"),
            *("reset_dirty", "cpu"),
        )
    ]
)
"""Two kinds of fields, in this order.

Lasting: the address of the table of sites; the hook that stubs call; an address of translated code;
of the memory for stubs the first free byte, the first byte and the end; the marks for which a block
is never replaced; how many blocks were replaced, how many were refused, and how often a block was
written anew; the addresses of the engine and of the state.

Of the block that is being replaced: its address and size in bytes; what it is to count
(``counts``); its weight; the address of its row of ``tallies``, 0 for none; the engine's check; the
address after the replaced bytes; the end of its code, 0 if that is unknown; the addresses of parts
of its stub.

Lasting again: the addresses at which ``accesses`` has written ``common`` and ``common_store``; for
a core model its words of the predictor and ``State.resolve_at``, both 0 without one. The next field
is of the block: ``State.ending`` while it runs. The last two are lasting, for a core model: the
addresses of the engine's ``tlb_reset_dirty`` and of its CPU."""
SITES: Final = 1 << 16


@routine
def number_at(at: Any, size: Any) -> Any:
    """The number in ``size`` bytes of memory, lowest byte first. A number of 8 bytes has a sign."""
    data = array_at(pointer_to(at), (8,), np.uint8)
    value = np.int64(0)
    for n in range(size):
        value |= np.int64(data[n]) << 8 * n
    return value


@routine
def put(at: Any, value: Any, size: Any) -> Any:
    """Write the lowest ``size`` bytes of a number. Return the address after them."""
    data = array_at(pointer_to(at), (8,), np.uint8)
    for n in range(size):
        data[n] = value >> 8 * n & 0xFF
    return at + size


@routine
def near(distance: Any) -> Any:
    """A distance as jumps and calls hold it: its lowest 32 bits, with a sign."""
    return (distance << 32) >> 32


@routine
def counts(tally: Any, weigh: Any) -> Any:
    """The number of what blocks of a run count beside operations.

    ``State.attend`` is this number, unless every block has to call the hook.

    ``tally`` and ``weigh`` are those of the state.
    """
    return 2 * tally + weigh
