"""Records by columns with names: the keys of JSON Lines, and symbols, as NumPy masked arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has, RecordArrays, canonical
from spe_unicorn.output.calls import NO_CHAIN, CallTable
from spe_unicorn.output.names import DATA_SOURCES, event_names, operation_name, state_name
from spe_unicorn.report.lines import Lines
from spe_unicorn.report.spaces import Spaces, function_or_nothing, names_at, symbol_or_nothing
from spe_unicorn.report.texts import texts
from spe_unicorn.symbols.places import Places
from spe_unicorn.symbols.table import printable

Masked = np.ma.MaskedArray[Any, Any]
Columns = dict[str, Masked]
"""Columns by name, all of one length. Masked elements are those that a record does not have."""

_INSTRUCTION_ADDRESSES = (
    ("pc", "", Has.PC),
    ("target", "target_", Has.TARGET),
    ("previous_target", "previous_target_", Has.PREVIOUS_TARGET),
)
_COUNTERS = (
    ("total", Has.TOTAL),
    ("issue", Has.ISSUE),
    ("translation", Has.TRANSLATION),
    ("alternate_issue", Has.ALTERNATE_ISSUE),
)


def named_columns(
    arrays: RecordArrays,
    places: Places | Spaces | None = None,
    *,
    lines: bool = True,
    calls: CallTable | None = None,
) -> Columns:
    """Columns named as the keys of docs/reference/outputs.md.

    Nested keys are joined by a dot (``counters.total``). Addresses are numbers here. ``events`` is
    text, words with spaces between them. With ``places`` there are ``symbol``, ``target_symbol``
    and ``va_symbol``, as ``name+0x10``, masked where there is none, and of the PC ``function``,
    the bytes from its start to the PC as ``function_offset`` and, with ``lines``, ``line``. Lines
    take reading the DWARF of the files. With ``calls`` there is a column of them, as tuples.
    """
    result: Columns = {"offset": _all(arrays.offset), "cpu": _all(arrays.cpu)}

    def put(name: str, values: Array, there: Array) -> None:
        result[name] = np.ma.masked_array(values, ~there)

    for name, prefix, bit in _INSTRUCTION_ADDRESSES:
        payloads, there = getattr(arrays, name), arrays.where(bit)
        put(name, canonical(payloads), there)
        put(f"{prefix}el", (payloads >> np.uint64(61) & np.uint64(3)).astype(np.uint8), there)
        put(f"{prefix}state", _states(payloads), there)
    operation = arrays.where(Has.OPERATION)
    kinds = arrays.op_class.astype(np.uint16) << 8 | arrays.op_payload
    put("op", texts(kinds, lambda kind: operation_name(kind >> 8, kind & 0xFF)), operation)
    put("op_class", arrays.op_class, operation)
    put("op_payload", arrays.op_payload, operation)
    result["events"] = _all(texts(arrays.events, lambda bits: " ".join(event_names(bits))))
    result["events_raw"] = _all(arrays.events)
    for name, bit in _COUNTERS:
        put(f"counters.{name}", getattr(arrays, name), arrays.where(bit))
    there = arrays.where(Has.VA)
    put("va", canonical(arrays.va), there)
    put("va_tag", (arrays.va >> np.uint64(56)).astype(np.uint8), there)
    there = arrays.where(Has.PA)
    put("pa", arrays.pa & np.uint64((1 << 56) - 1), there)
    put("pa_space", _states(arrays.pa), there)
    put("pa_checked", (arrays.pa >> np.uint64(62) & np.uint64(1)).astype(bool), there)
    put("pa_tag", (arrays.pa >> np.uint64(56) & np.uint64(15)).astype(np.uint8), there)
    there = arrays.where(Has.DATA_SOURCE)
    put("data_source", arrays.data_source, there)
    known = np.isin(arrays.data_source, list(DATA_SOURCES))
    put(
        "data_source_name",
        texts(arrays.data_source, lambda source: DATA_SOURCES.get(source, "")),
        there & known,
    )
    put("context_el1", arrays.context_el1, arrays.where(Has.CONTEXT_EL1))
    put("context_el2", arrays.context_el2, arrays.where(Has.CONTEXT_EL2))
    put("timestamp", arrays.timestamp, arrays.where(Has.TIMESTAMP))
    if calls:
        numbers = calls.of(arrays.cpu, arrays.where(Has.PC))
        chains = np.empty(len(calls.chains) + 1, object)  # the last one for NO_CHAIN
        chains[:] = [*calls.chains, ()]
        put("calls", chains[numbers], numbers != NO_CHAIN)
    if places:
        for name, symbol in (("pc", "symbol"), ("target", "target_symbol"), ("va", "va_symbol")):
            column = result[name]
            names = names_at(places, np.asarray(column.data), symbol_or_nothing)
            put(symbol, names, ~np.ma.getmaskarray(column) & (names != ""))
        _put_function(result, places, lines=lines)
    return result


def _put_function(result: Columns, places: Places | Spaces, *, lines: bool) -> None:
    """Add the function of each PC, how far the PC is behind its start, and the source line."""
    pcs = np.asarray(result["pc"].data)
    there = ~np.ma.getmaskarray(result["pc"])

    def put(name: str, values: Array, known: Array) -> None:
        result[name] = np.ma.masked_array(values, ~(there & known))

    functions = names_at(places, pcs, _function)
    known = functions != ""
    put("function", functions, known)
    offsets = np.zeros(len(pcs), np.uint64)
    offsets[known] = names_at(places, pcs, _offset)[known].astype(np.uint64)
    put("function_offset", offsets, known)
    if lines:
        found = names_at(places, pcs, Lines().at)
        put("line", found, found != "")


def _function(places: Places, address: int) -> str:
    return printable(function_or_nothing(places, address))


def _offset(places: Places, address: int) -> str:
    """How far an address is behind the start of its function, empty where there is none."""
    place = places.at(address)
    symbol = None if place is None else place.file.symbols.function_at(place.linked)
    return "" if place is None or symbol is None else str(place.linked - symbol.address)


def _all(values: Array) -> Masked:
    """A column in which every record has something."""
    return np.ma.masked_array(values, np.zeros(len(values), bool))


def _states(payloads: Array) -> npt.NDArray[np.object_]:
    """The Security state or address space of each payload: NS is bit 63, NSE bit 60."""
    bits = payloads >> np.uint64(62) & np.uint64(2) | payloads >> np.uint64(60) & np.uint64(1)
    return texts(bits, lambda both: state_name(both >> 1, both & 1))
