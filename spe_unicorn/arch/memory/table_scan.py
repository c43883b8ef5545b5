"""A look through all translation tables of a regime, for what a walk sees of one address only."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spe_unicorn.arch.memory.descriptors import MemoryAttributes
from spe_unicorn.arch.memory.memory_attributes import s1_decode_memattrs
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
        each.output < end and first < each.output + each.size
        for params in (context.lower, context.upper)
        if params is not None and not params.epd and params.start_level is not None
        for each in _mapped(params, params.start_level, memory)
        if each.non_secure and not each.is_table
        for first, end in ranges
    )


@dataclass(frozen=True)
class Mapped:
    """What stage 1 maps: a block or page at ``output``, or a table, of ``size`` bytes.

    ``descriptor`` is 0 for the first table. ``non_secure`` is what descriptors of tables above say,
    together with its own. If there are too many tables, the last item covers all addresses, is no
    table and has ``descriptor`` None.
    """

    output: int
    size: int
    descriptor: int | None
    non_secure: bool
    is_table: bool


def attributes_mapped(
    context: TranslationContext, memory: PhysicalMemory
) -> Iterator[tuple[Mapped, MemoryAttributes | None]]:
    """All that stage 1 of a regime maps, and its memory attributes; None for tables.

    Whether anybody may use a mapping does not matter.
    """
    for params in (context.lower, context.upper) if context.s1_enabled else ():
        if params is None or params.epd or params.start_level is None:
            continue
        secure = context.paspace is PASpace.Secure
        for each in _mapped(params, params.start_level, memory, non_secure=not secure):
            plain = each.is_table or each.descriptor is None
            yield each, None if plain else s1_decode_memattrs(params, each.descriptor or 0)


def _mapped(
    params: S1TTWParams, start_level: int, memory: PhysicalMemory, *, non_secure: bool = False
) -> Iterator[Mapped]:
    """The tables, blocks and pages of a range of addresses."""
    order = ">" if params.ee else "<"
    first_lsb = (3 - start_level) * params.stride + params.granule
    left = _MOST_TABLES
    tables = [(params.base, start_level, 1 << params.iasize - first_lsb, non_secure)]
    seen = set(tables)
    while tables:
        if not left:
            yield Mapped(0, 1 << 64, None, non_secure=True, is_table=False)
            return
        left -= 1
        base, level, entries, below_ns = tables.pop()
        space = PASpace.NonSecure if below_ns else PASpace.Secure
        data = memory.read(base, 8 * entries, space)
        if data is None:
            continue
        yield Mapped(base, 8 * entries, 0, below_ns, is_table=True)
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
                continue
            page = bool(descriptor & _TABLE_OR_PAGE)
            if (level == 3) == page and level >= params.first_block_level:
                ns = below_ns or bool(descriptor & _NS)
                output = output_address(params, descriptor, lsb)
                yield Mapped(output, 1 << lsb, descriptor, ns, is_table=False)
