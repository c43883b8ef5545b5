"""What perf is told of each record besides its packets: an ordinary sample.

perf makes samples of its own from the packets, but of memory accesses and misses only, and with
addresses that its ``annotate`` does not find in the firmware's file. Ordinary samples serve all of
its commands.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Has, RecordArrays, canonical, read_arrays
from spe_unicorn.output.reader import Stream
from spe_unicorn.spe.packets import Event, OperationClass

_Numbers = npt.NDArray[Any]
NO_THREAD: Final = -1


class PerfSamples(NamedTuple):
    """Records as ordinary samples have them: an element for each that has a PC.

    ``row`` is the number of the record among all. ``thread`` is its last CONTEXTIDR, NO_THREAD
    without one. ``pc`` and ``va`` are canonical 64-bit addresses, ``timestamp`` is in ticks of the
    system counter, ``latency`` in cycles; they are 0 where the record does not say. ``data_source``
    is a ``perf_mem_data_src``.
    """

    row: _Numbers
    thread: _Numbers
    pc: _Numbers
    va: _Numbers
    timestamp: _Numbers
    latency: _Numbers
    data_source: _Numbers


def records_of(data: bytes) -> RecordArrays:
    """The records in a piece of a stream of whole records; its last one may be cut short."""
    return read_arrays([Stream(0, 0, 0, memoryview(data))])[0]


def perf_samples(all_of_them: RecordArrays) -> PerfSamples:
    """The samples of records."""
    rows = np.flatnonzero(all_of_them.where(Has.PC))
    records = all_of_them.take(rows)
    el1, el2 = records.where(Has.CONTEXT_EL1), records.where(Has.CONTEXT_EL2)
    thread = np.where(el1, records.context_el1.astype(np.int64), NO_THREAD)
    return PerfSamples(
        rows,
        np.where(el2, records.context_el2.astype(np.int64), thread),
        canonical(records.pc),
        np.where(records.where(Has.VA), canonical(records.va), np.uint64(0)),
        records.timestamp,
        records.total.astype(np.uint64),
        _data_source(records),
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

_LEVELS: Final = {
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


def _data_source(records: RecordArrays) -> _Numbers:
    """The ``perf_mem_data_src`` of each record."""
    events, source = records.events, records.data_source
    access = records.where(Has.OPERATION) & (records.op_class == OperationClass.LOAD_STORE)
    l1 = np.where(events & int(Event.L1D_MISS), _L1 | _MISS, _L1 | _HIT)
    level = np.where(access & (events & int(Event.L1D_ACCESS) != 0), l1, _LEVEL_NONE)
    tells = access & records.where(Has.DATA_SOURCE)
    for number, where in _LEVELS.items():
        level = np.where(tells & (source == number), where | _HIT, level)
    tlb = np.where(events & int(Event.TLB_ACCESS), _TLB_LEVEL1 | _TLB_HIT, _TLB_NONE)
    tlb = np.where(events & int(Event.TLB_WALK), _TLB_WALKER | _TLB_MISS, tlb)
    way = np.where(records.op_payload & 1, _STORE, _LOAD)
    result: _Numbers = (
        np.where(access, way, _OPERATION_NONE)
        | level << _LEVEL
        | _SNOOP_NONE << _SNOOP
        | _LOCK_NONE << _LOCK
        | np.where(access, tlb, _TLB_NONE) << _TLB
    )
    return result.astype(np.uint64)
