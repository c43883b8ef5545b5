"""A look through all translation tables of a regime, for what a walk sees of one address only."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from spe_unicorn.arch.memory.regimes import TranslationContext
from spe_unicorn.arch.memory.translation import output_address
from spe_unicorn.arch.memory.walk_parameters import S1TTWParams
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.spaces import PASpace

_VALID, _TABLE_OR_PAGE, _NS = 1 << 0, 1 << 1, 1 << 5
_NS_TABLE = 1 << 63
_MOST_TABLES = 1 << 12
"""Tables that are looked through: 8 GiB in pages of 4 KiB."""


def maps_as_non_secure(
    context: TranslationContext, ranges: Sequence[tuple[int, int]], memory: PhysicalMemory
) -> bool:
    """Whether stage 1 of a Secure regime maps Non-secure addresses that lie in ``ranges``.

    Each range is its first address and the one after it. Whether anybody may use the mapping does
    not matter.
    """
    if not context.s1_enabled or context.paspace is not PASpace.Secure:
        return False
    return any(
        output < end and first < output + size
        for params in (context.lower, context.upper)
        if params is not None and not params.epd and params.start_level is not None
        for output, size in _non_secure(params, params.start_level, memory)
        for first, end in ranges
    )


def _non_secure(
    params: S1TTWParams, start_level: int, memory: PhysicalMemory
) -> Iterator[tuple[int, int]]:
    """The Non-secure blocks and pages of a range of addresses: where each is, and its size.

    If there are too many tables to look through, the last item covers all addresses.
    """
    order = ">" if params.ee else "<"
    first_lsb = (3 - start_level) * params.stride + params.granule
    left = _MOST_TABLES
    tables = [(params.base, start_level, 1 << params.iasize - first_lsb, False)]
    seen = set(tables)
    while tables:
        if not left:
            yield 0, 1 << 64
            return
        left -= 1
        base, level, entries, below_ns = tables.pop()
        space = PASpace.NonSecure if below_ns else PASpace.Secure
        data = memory.read(base, 8 * entries, space)
        if data is None:
            continue
        lsb = (3 - level) * params.stride + params.granule
        for descriptor in struct.unpack(f"{order}{entries}Q", data):
            if not descriptor & _VALID:
                continue
            if level < 3 and descriptor & _TABLE_OR_PAGE:
                address = output_address(params, descriptor, params.granule)
                ns = below_ns or bool(descriptor & _NS_TABLE)
                table = (address, level + 1, 1 << params.stride, ns)
                if table not in seen:
                    seen.add(table)
                    tables.append(table)
            elif descriptor & _NS or below_ns:
                page = bool(descriptor & _TABLE_OR_PAGE)
                if (level == 3) == page and level >= params.first_block_level:
                    yield output_address(params, descriptor, lsb), 1 << lsb
