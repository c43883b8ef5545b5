"""Records in the columns of Arm's ``spe-parser``, so that what reads its files reads ours.

Three tables: ``ldst`` (loads and stores), ``br`` (branches), ``other``. Texts and numbers are those
of that tool: addresses are hexadecimal text, events are perf's names joined by colons. A text that
a record does not have is empty, a number 0, a truth False. Where the tool gives up on a record (a
data source or a type of operation that it does not know) or names a wrong address (those of the
lower half at EL2, of the upper half at EL1), the value is the true one here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has, RecordArrays, canonical
from spe_unicorn.report.spaces import Spaces, coded_at, symbol_or_nothing
from spe_unicorn.report.texts import Coded, said
from spe_unicorn.spe.packets import VA_MASK, Event, OperationClass
from spe_unicorn.symbols.places import Places

Table = dict[str, npt.NDArray[Any] | Coded]
"""Columns by name, in the order of the file. Texts are coded."""

EVENTS = {
    Event.EXCEPTION: "EXCEPTION-GEN",
    Event.RETIRED: "RETIRED",
    Event.L1D_ACCESS: "L1D-ACCESS",
    Event.L1D_MISS: "L1D-REFILL",
    Event.TLB_ACCESS: "TLB-ACCESS",
    Event.TLB_WALK: "TLB-REFILL",
    Event.NOT_TAKEN: "NOT-TAKEN",
    Event.MISPREDICTED: "MISPRED",
    Event.LLC_ACCESS: "LLC-ACCESS",
    Event.LLC_MISS: "LLC-REFILL",
    Event.REMOTE_ACCESS: "REMOTE-ACCESS",
    Event.MISALIGNED: "ALIGNMENT",
    1 << 12: "LATE-PREFETCH",
    Event.SVE_PARTIAL: "SVE-PARTIAL-PRED",
    Event.SVE_EMPTY: "SVE-EMPTY-PRED",
    # The tool leaves out what follows; the names are those of newer perf.
    Event.L2D_ACCESS: "L2D-ACCESS",
    Event.L2D_MISS: "L2D-MISS",
    Event.MODIFIED_HIT: "CACHE-DATA-MODIFIED",
    Event.RECENTLY_FETCHED: "RECENTLY-FETCHED",
    Event.SNOOPED: "DATA-SNOOPED",
    Event.STREAMING: "STREAMING-SVE-MODE",
    Event.SMCU: "SMCU",
}

_NOT_OF_OTHERS = {
    "REMOTE-ACCESS",
    "LLC-REFILL",
    "LLC-ACCESS",
    "TLB-REFILL",
    "TLB-ACCESS",
    "L1D-REFILL",
    "L1D-ACCESS",
}
"""Events that the tool leaves out of the table ``other``."""

_SOURCES = {
    0x0: "L1D",
    0x8: "L2D",
    0x9: "PEER-CPU",
    0xA: "LOCAL-CLUSTER",
    0xB: "LL-CACHE",
    0xC: "PEER-CLUSTER",
    0xD: "REMOTE",
    0xE: "DRAM",
}

_SUBCLASSES = {
    0x00: "GP-REG",
    0x04: "SIMD-FP",
    0x10: "UNSPEC-REG",
    0x14: "MTE-TAG",
    0x20: "MEMCPY",
    0x24: "MEMSET",
    0x30: "NV-SYSREG",
    0x40: "GCS",
    0x44: "GCS",
}
"""Subclasses of loads and stores by the payload without bit 0."""


def spe_parser_tables(
    arrays: RecordArrays, places: Places | Spaces | None = None
) -> dict[str, Table]:
    """The tables ``ldst``, ``br`` and ``other``; with ``places`` each has a last column ``symbol``.

    Records without an Operation Type are in none of them, as with the tool.
    """
    there = arrays.where(Has.OPERATION)
    kinds = {
        "ldst": (OperationClass.LOAD_STORE, _loads_and_stores),
        "br": (OperationClass.BRANCH, _branches),
        "other": (OperationClass.OTHER, _others),
    }
    symbols = None
    if places is not None:
        symbols = coded_at(places, canonical(arrays.pc), symbol_or_nothing)
        symbols = symbols.where(arrays.where(Has.PC), "")
    result = {}
    for name, (kind, columns) in kinds.items():
        rows = np.flatnonzero(there & (arrays.op_class == kind))
        result[name] = columns(arrays.take(rows))
        if symbols is not None:
            result[name]["symbol"] = Coded(symbols.names, symbols.numbers[rows])
    return result


def _loads_and_stores(arrays: RecordArrays) -> Table:
    payload = arrays.op_payload
    extended = payload & 0xE2 == 0x02
    sve = payload & 0x0A == 0x08
    return {
        "cpu": _numbers(arrays.cpu),
        "op": said(payload & 1, lambda store: "ST" if store else "LD"),
        **_place(arrays),
        "atomic": extended & (payload & 0x04 != 0),
        "excl": extended & (payload & 0x08 != 0),
        "ar": extended & (payload & 0x10 != 0),
        "subclass": said(payload, _subclass),
        "sve_evl": np.where(sve, _vector_length(payload), 0),
        "sve_pred": sve & (payload & 0x04 != 0),
        "sve_sg": sve & (payload & 0x80 != 0),
        "event": said(arrays.events, _events),
        **_latencies(arrays),
        "vaddr": _texts_where(arrays.va, arrays.where(Has.VA), _data_address),
        "xlat_lat": _numbers(arrays.translation),
        "paddr": _texts_where(arrays.pa, arrays.where(Has.PA), lambda pa: hex(pa & VA_MASK)),
        "data_source": _texts_where(
            arrays.data_source,
            arrays.where(Has.DATA_SOURCE),
            lambda source: _SOURCES.get(source, str(source)),
        ),
        **_context_and_time(arrays),
    }


def _branches(arrays: RecordArrays) -> Table:
    return {
        "cpu": _numbers(arrays.cpu),
        "op": _same("B", len(arrays)),
        **_place(arrays),
        "condition": arrays.op_payload & 1 != 0,
        "indirect": arrays.op_payload & 2 != 0,
        "event": said(arrays.events, _events),
        **_latencies(arrays),
        "br_tgt": _address(arrays.target, arrays.where(Has.TARGET)),
        "br_tgt_lvl": _level(arrays.target),
        "pbt": _address(arrays.previous_target, arrays.where(Has.PREVIOUS_TARGET)),
        "pbt_lvl": _level(arrays.previous_target),
        **_context_and_time(arrays),
    }


def _others(arrays: RecordArrays) -> Table:
    payload = arrays.op_payload
    sve = payload & 0x89 == 0x08
    plain = payload & 0x88 == 0
    return {
        "cpu": _numbers(arrays.cpu),
        "op": _same("OTHER", len(arrays)),
        **_place(arrays),
        "subclass": said(payload, _subclass_of_other),
        "sve_evl": np.where(sve, _vector_length(payload), 0),
        "sve_pred": sve & (payload & 0x04 != 0),
        "sve_fp": sve & (payload & 0x02 != 0),
        "condition": plain & (payload & 0x01 != 0),
        "event": said(arrays.events, _events_of_others),
        **_latencies(arrays),
        **_context_and_time(arrays),
    }


def _place(arrays: RecordArrays) -> Table:
    return {"pc": _address(arrays.pc, arrays.where(Has.PC)), "el": _level(arrays.pc)}


def _latencies(arrays: RecordArrays) -> Table:
    return {"issue_lat": _numbers(arrays.issue), "total_lat": _numbers(arrays.total)}


def _context_and_time(arrays: RecordArrays) -> Table:
    """The last context packet of a record, which is that of EL2 where there are two."""
    el2 = arrays.where(Has.CONTEXT_EL2)
    contexts = np.where(el2, arrays.context_el2, arrays.context_el1)
    return {
        "context": _texts_where(contexts, el2 | arrays.where(Has.CONTEXT_EL1), hex),
        "ts": _numbers(arrays.timestamp),
    }


def _numbers(values: Array) -> npt.NDArray[np.int64]:
    return values.astype(np.int64)


def _same(text: str, count: int) -> Coded:
    return Coded([text], np.zeros(count, np.int32))


def _texts_where(values: Array, there: Array, say: Callable[[int], str]) -> Coded:
    return said(values, say).where(there, "")


def _address(payloads: Array, there: Array) -> Coded:
    return _texts_where(canonical(payloads), there, hex)


def _data_address(payload: int) -> str:
    """The payload with its tag; the top byte of an address of the upper half is 0xff."""
    return hex(payload | 0xFF << 56 if payload >> 55 & 1 else payload)


def _level(payloads: Array) -> npt.NDArray[np.int64]:
    levels: npt.NDArray[np.int64] = (payloads >> np.uint64(61) & np.uint64(3)).astype(np.int64)
    return levels


def _vector_length(payload: Array) -> npt.NDArray[np.int64]:
    """EVL in bits, from bits 6:4."""
    bits: npt.NDArray[np.int64] = np.int64(32) << (payload >> 4 & 7).astype(np.int64)
    return bits


def _subclass(payload: int) -> str:
    if payload & 0xE2 == 0x02:
        return ""  # atomic, excl and ar say what it is
    if payload & 0x0A == 0x08:
        return "SVE"
    return _SUBCLASSES.get(payload & 0xFE, "")


def _subclass_of_other(payload: int) -> str:
    return {0x08: "SVE", 0x88: "SME"}.get(payload & 0x89, "OTHER")


def _names(events: int) -> list[str]:
    bits = (1 << bit for bit in range(events.bit_length()) if events >> bit & 1)
    return [EVENTS.get(bit, f"EVENT-{bit.bit_length() - 1}") for bit in bits]


def _events(events: int) -> str:
    return ":".join(_names(events))


def _events_of_others(events: int) -> str:
    return ":".join(sorted(set(_names(events)) - _NOT_OF_OTHERS))
