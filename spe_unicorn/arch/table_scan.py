"""A look through all translation tables of a regime, for what a walk sees of one address only."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from spe_unicorn.arch.descriptors import PASpace
from spe_unicorn.arch.permissions import s1_output_space
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.regimes import TranslationContext
from spe_unicorn.arch.translation import output_address
from spe_unicorn.arch.walk_parameters import S1TTWParams

_NS_TABLE = 1 << 63


def maps_as_non_secure(
    context: TranslationContext, ranges: Sequence[tuple[int, int]], memory: PhysicalMemory
) -> bool:
    """Whether stage 1 of a Secure regime maps Non-secure addresses that lie in ``ranges``.

    Each range is its first address and the one behind it. Whether anybody may use the mapping does
    not matter.
    """
    if not context.s1_enabled or context.paspace is not PASpace.Secure:
        return False
    for params in (context.lower, context.upper):
        if params is None or params.epd or params.start_level is None:
            continue
        for descriptor, table_bits, output, size in _leaves(params, memory):
            if s1_output_space(context, descriptor, table_bits) is not PASpace.Secure and any(
                output < end and first < output + size for first, end in ranges
            ):
                return True
    return False


def _leaves(params: S1TTWParams, memory: PhysicalMemory) -> Iterator[tuple[int, int, int, int]]:
    """The leaf descriptors, what the tables above each say together, its address and size."""
    assert params.start_level is not None
    order = ">" if params.ee else "<"
    first_lsb = (3 - params.start_level) * params.stride + params.granule
    entries = 1 << params.iasize - first_lsb
    tables = [(params.base, params.start_level, entries, 0)]
    seen = set(tables)
    while tables:
        base, level, entries, table_bits = tables.pop()
        space = PASpace.NonSecure if table_bits & _NS_TABLE else PASpace.Secure
        data = memory.read(base, 8 * entries, space)
        if data is None:
            continue
        lsb = (3 - level) * params.stride + params.granule
        for descriptor in struct.unpack(f"{order}{entries}Q", data):
            if not descriptor & 1:
                continue
            if level < 3 and descriptor & 2:
                below = output_address(params, descriptor, params.granule)
                bits = table_bits | descriptor & _NS_TABLE
                table = (below, level + 1, 1 << params.stride, bits)
                if table not in seen:
                    seen.add(table)
                    tables.append(table)
            elif (level == 3) == bool(descriptor & 2) and level >= params.first_block_level:
                yield descriptor, table_bits, output_address(params, descriptor, lsb), 1 << lsb
