"""What compiled code and Python share of inline counting, and how they write bytes of code."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, layout, pointer_to, routine


class InlineRecord:
    """What lasts, then what is of the block that is being replaced, then again what lasts."""

    sites: int
    """Address of the table of sites."""
    hook: int
    """The hook that stubs call."""
    place: int
    """An address of translated code."""
    free: int
    """Of the memory for stubs the first free byte."""
    begin: int
    """Its first byte."""
    end: int
    """Its end."""
    seen: int
    """The marks for which a block is never replaced."""
    patched: int
    """How many blocks were replaced."""
    refused: int
    """How many blocks were refused."""
    anew: int
    """How often a block was written anew."""
    engine: int
    """Address of the engine."""
    state: int
    """Address of the `State`."""
    address: int
    """The block's address, as all fields up to ``count`` are of the block."""
    size: int
    """Its size in bytes."""
    number: int
    """What it is to count: see :func:`counts`."""
    weight: int
    """Its members of the population."""
    row: int
    """Address of its row of ``tallies``, 0 for none."""
    check: int
    """The engine's check after the call of the hook."""
    after: int
    """The address after the replaced bytes."""
    code_end: int
    """The end of its code, 0 if that is unknown."""
    members_back: int
    """Addresses of parts of its stub, as the next four: see ``written``."""
    back: int
    entry: int
    first: int
    count: int
    common: int
    """Where ``accesses`` has written ``common``, and in the next field ``common_store``."""
    common_store: int
    recent: int
    """Where ``recent`` begins, 0 for none."""
    model: int
    """``State.model``, 0 without a core model."""
    predictor: int
    """``State.predictor``, 0 without a core model."""
    resolve_at: int
    """``cores.predictor.resolve_at``."""
    mispredicted: int
    """``State.mispredicted``."""
    flow_next: int
    """Of the block: ``State.flow_next`` after it; 0 where no last branch is kept."""
    ending: int
    """Of the block: ``State.ending`` while it runs."""
    lookup: int
    """The engine's function by which indirect branches go on, 0 if it is not known."""
    looked_up: int
    """The code in its place, 0 where it is not written yet."""
    page_bits: int
    """Bits of an address within a page of the engine's TLB."""
    reset_dirty: int
    """The engine's ``tlb_reset_dirty``, for a core model."""
    cpu: int
    """The engine's CPU, for a core model."""
    registers: int
    """Where the engine has X0 to X30 and SP; 0 while that is not known."""
    told: int
    """The table of blocks that tell each time (``told``), 0 for none."""
    on_told: int
    """Whom: ``void f(user, int64_t address, int64_t word)``."""
    told_user: int
    tells: int
    """Of the block: whether it tells."""
    telling: int
    """And its word."""


INLINE: Final = layout(InlineRecord)
SITES: Final = 1 << 16


@routine
def number_at(at: int, size: int) -> int:
    """The number in ``size`` bytes of memory, lowest byte first. A number of 8 bytes has a sign."""
    data = array_at(pointer_to(at), (8,), np.uint8)
    value = int64(0)
    for n in range(size):
        value |= int64(data[n]) << 8 * n
    return value


@routine
def put(at: int, value: int, size: int) -> int:
    """Write the lowest ``size`` bytes of a number. Return the address after them."""
    data = array_at(pointer_to(at), (8,), np.uint8)
    for n in range(size):
        data[n] = value >> 8 * n & 0xFF
    return at + size


@routine
def near(distance: int) -> int:
    """A distance as jumps and calls hold it: its lowest 32 bits, with a sign."""
    return (distance << 32) >> 32


@routine
def counts(tally: int, weigh: int) -> int:
    """The number of what blocks of a run count beside operations.

    ``State.attend`` is this number, unless every block has to call the hook.

    ``tally`` and ``weigh`` are those of the state.
    """
    return 2 * tally + weigh
