"""What perf is told of each record besides its packets: an ordinary sample.

perf makes samples of its own from the packets, but of memory accesses and misses only, and with
addresses that its ``annotate`` does not find in the firmware's file. Ordinary samples serve all of
its commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from spe_unicorn.spe.packets import (
    CounterIndex,
    DataAddress,
    Event,
    InstructionAddress,
    OperationClass,
    canonical_address,
)
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream


class PerfSample(NamedTuple):
    """A record as an ordinary sample has it.

    ``thread`` is the last CONTEXTIDR of the record, None without one. ``pc`` and ``va`` are
    canonical 64-bit addresses, ``timestamp`` is in ticks of the system counter, ``latency`` in
    cycles; they are 0 where the record does not say. ``data_source`` is a ``perf_mem_data_src``.
    """

    thread: int | None
    pc: int
    va: int
    timestamp: int
    latency: int
    data_source: int


def perf_samples(data: bytes) -> Iterator[PerfSample]:
    """The samples of whole records; those without a PC are left out."""
    return (sample for sample in samples_of_all(data) if sample is not None)


def samples_of_all(data: bytes) -> Iterator[PerfSample | None]:
    """The samples of whole records; None for a record without a PC."""
    position = 0
    for match in _RECORD.finditer(data):
        if match.start() != position:
            break  # a record in an order that is not ours
        position = match.end()
        yield _quickly(match)
    for placed in decode_stream(data, position):
        if isinstance(placed, PlacedRecord):
            pc = placed.record.pc
            yield None if pc is None else _sample(placed.record, pc)


_SOURCES = 4096
"""Different packets of which it is remembered what they say."""
_RECORD = re.compile(
    rb"(?:\x64(?P<el1>.{4}))?(?:\x65(?P<el2>.{4}))?"
    rb"(?:\x98(?P<total>..))?(?:[\x20-\x23][\x98-\x9F]..|[\x99-\x9F]..)*"
    rb"(?:\xB0(?P<pc>.{8}))?(?:\xB1.{8})?(?:\xB2(?P<va>.{8}))?"
    rb"(?:[\x20-\x23][\xB0-\xB7].{8}|[\xB3-\xB7].{8})*"
    rb"(?:\x43(?P<source>.)|\x53(?P<wide_source>..))?"
    rb"(?:(?P<type>[\x48-\x4A].))?"
    rb"(?:\x42(?P<events>.)|\x52(?P<events2>..)|\x62(?P<events4>.{4})|\x72(?P<events8>.{8}))"
    rb"(?:\x71(?P<time>.{8})|\x01)\x00*",
    re.DOTALL,
)
"""A record with its packets in the order of our records: a scan far faster than decoding."""


def _quickly(match: re.Match[bytes]) -> PerfSample | None:
    el1, el2, total, pc, va, source, wide, type_, one, two, four, eight, time = match.groups()
    if pc is None:
        return None
    context = el2 or el1
    return PerfSample(
        None if context is None else int.from_bytes(context, "little"),
        canonical_address(int.from_bytes(pc, "little")),
        0 if va is None else canonical_address(int.from_bytes(va, "little")),
        0 if time is None else int.from_bytes(time, "little"),
        0 if total is None else int.from_bytes(total, "little"),
        _source_of(type_, one or two or four or eight, source or wide),
    )


@lru_cache(maxsize=_SOURCES)
def _source_of(type_: bytes | None, events: bytes, source: bytes | None) -> int:
    """What :func:`_data_source` says of packets: most records have those of many others."""
    return _data_source(
        None if type_ is None else type_[0] & 3,
        0 if type_ is None else type_[1],
        int.from_bytes(events, "little"),
        None if source is None else int.from_bytes(source, "little"),
    )


def _sample(record: Record, pc: InstructionAddress) -> PerfSample:
    context = record.context_el1 if record.context_el2 is None else record.context_el2
    va = DataAddress(0) if record.va is None else record.va
    return PerfSample(
        context,
        canonical_address(pc.value),
        canonical_address(va.value),
        record.timestamp or 0,
        record.counter(CounterIndex.TOTAL) or 0,
        _data_source(record.op_class, record.op_payload, record.events, record.data_source),
    )


# perf_mem_data_src, from the Linux document perf_event_open(2): shifts and values of its fields.
_OPERATION_NONE, _LOAD, _STORE = 1, 2, 4
_LEVEL = 5
_LEVEL_NONE, _HIT, _MISS = 1, 2, 4
_L1, _L2, _L3, _LOCAL_RAM, _REMOTE_CACHE = 8, 0x20, 0x40, 0x80, 0x400
_SNOOP, _SNOOP_NONE = 19, 1
_LOCK, _LOCK_NONE = 24, 1
_TLB = 26
_TLB_NONE, _TLB_HIT, _TLB_MISS, _TLB_LEVEL1, _TLB_WALKER = 1, 2, 4, 8, 0x20

_LEVELS = {
    0x0: _L1,
    0x8: _L2,
    0x9: _L2,  # a core beside this one
    0xA: _L3,
    0xB: _L3,
    0xC: _L3,
    0xD: _REMOTE_CACHE,
    0xE: _LOCAL_RAM,
}
"""Where an access hit, by the data sources of the Neoverse cores."""


def _data_source(op_class: int | None, payload: int, events: int, source: int | None) -> int:
    if op_class != OperationClass.LOAD_STORE:
        return (
            _OPERATION_NONE
            | _LEVEL_NONE << _LEVEL
            | _SNOOP_NONE << _SNOOP
            | _LOCK_NONE << _LOCK
            | _TLB_NONE << _TLB
        )
    if source in _LEVELS:
        level = _LEVELS[source] | _HIT
    elif events & Event.L1D_ACCESS:
        level = _L1 | (_MISS if events & Event.L1D_MISS else _HIT)
    else:
        level = _LEVEL_NONE
    if events & Event.TLB_WALK:
        tlb = _TLB_WALKER | _TLB_MISS
    else:
        tlb = _TLB_LEVEL1 | _TLB_HIT if events & Event.TLB_ACCESS else _TLB_NONE
    return (
        (_STORE if payload & 1 else _LOAD)
        | level << _LEVEL
        | _SNOOP_NONE << _SNOOP
        | _LOCK_NONE << _LOCK
        | tlb << _TLB
    )
