"""Blocks that count themselves and tell somebody each time: a set of their addresses.

Who wants to be told has to know each address before a block there comes to count itself, or hear of
it by the hook until the code is forgotten.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import Words, array_at, int64, pointer_to, routine

TOLD: Final = 1 << 12
"""Words of the set. An address that is not in it is 0."""
_PROBES: Final = 16
_SPREAD: Final = 0x9E37_79B9
UNTOLD: Final = 1 << 18
"""Bytes of the table of addresses at which a block may count itself and tell nobody."""


@routine
def _place_of(words: Words, address: int) -> int:
    """The word of an address in a set, or a free one for it; -1 if there is none."""
    first = (address >> 2) * _SPREAD >> 12
    for n in range(_PROBES):
        place = first + n & (TOLD - 1)
        if words[place] == address or words[place] == 0:
            return place
    return int64(-1)


@routine
def is_told(told: int, address: int) -> bool:
    """Whether a set has an address; 0 is no set."""
    if told == 0:
        return False
    words = array_at(pointer_to(told), (TOLD,), np.int64)
    place = _place_of(words, address)
    return place >= 0 and words[place] == address


@routine
def tell(words: Words, address: int) -> bool:
    """Put an address into a set. Return False if it is full."""
    place = _place_of(words, address)
    if place < 0:
        return False
    words[place] = address
    return True


@routine
def tell_at(told: int, address: int) -> bool:
    """Put an address into the set at another one. Return False if it is full."""
    return tell(array_at(pointer_to(told), (TOLD,), np.int64), address)


@routine
def may_be_untold(untold: int, address: int) -> bool:
    """Whether a block at an address may count itself and tell nobody."""
    return array_at(pointer_to(untold), (UNTOLD,), np.uint8)[address >> 2 & (UNTOLD - 1)] != 0


@routine
def note_untold(untold: int, address: int) -> None:
    """A block at an address counts itself, and tells nobody."""
    array_at(pointer_to(untold), (UNTOLD,), np.uint8)[address >> 2 & (UNTOLD - 1)] = 1
