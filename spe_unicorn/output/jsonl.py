"""Records as JSON Lines: one object a line, packets that a record lacks left out."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from spe_unicorn.output.names import (
    COUNTERS,
    DATA_SOURCES,
    event_names,
    operation_name,
    state_name,
)
from spe_unicorn.spe.packets import InstructionAddress, canonical_address
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream


def record_object(record: Record, offset: int, cpu: int = 0) -> dict[str, Any]:
    """One record as what JSON can hold. ``offset`` is its place in the stream of ``cpu``.

    Addresses are hexadecimal text, since many readers of JSON lose bits of large numbers.
    """
    result: dict[str, Any] = {"offset": offset, "cpu": cpu}
    if record.pc is not None:
        result["pc"] = hex(canonical_address(record.pc.value))
        result["el"] = record.pc.EL
        result["state"] = state_name(record.pc.NS, record.pc.NSE)
    if record.op_class is not None:
        result["op"] = operation_name(record.op_class, record.op_payload)
        result["op_class"] = record.op_class
        result["op_payload"] = record.op_payload
    result["events"] = event_names(record.events)
    result["events_raw"] = record.events
    if record.counters:
        result["counters"] = {COUNTERS.get(i, str(i)): value for i, value in record.counters}
    _branch_address(result, "target", record.target)
    _branch_address(result, "previous_target", record.previous_target)
    if record.va is not None:
        result["va"] = hex(canonical_address(record.va.value))
        result["va_tag"] = record.va.TAG
    if record.pa is not None:
        result["pa"] = hex(record.pa.PA)
        result["pa_space"] = state_name(record.pa.NS, record.pa.NSE)
        result["pa_checked"] = bool(record.pa.CH)
        result["pa_tag"] = record.pa.PAT
    if record.addresses:
        result["addresses"] = {str(index): hex(value) for index, value in record.addresses}
    if record.data_source is not None:
        result["data_source"] = record.data_source
        if name := DATA_SOURCES.get(record.data_source):
            result["data_source_name"] = name
    if record.context_el1 is not None:
        result["context_el1"] = record.context_el1
    if record.context_el2 is not None:
        result["context_el2"] = record.context_el2
    if record.timestamp is not None:
        result["timestamp"] = record.timestamp
    return result


def record_json(record: Record, offset: int, cpu: int = 0) -> str:
    """:func:`record_object` as one line of JSON, without the newline."""
    return json.dumps(record_object(record, offset, cpu))


def _branch_address(result: dict[str, Any], name: str, address: InstructionAddress | None) -> None:
    if address is not None:
        result[name] = hex(canonical_address(address.value))
        result[f"{name}_el"] = address.EL
        result[f"{name}_state"] = state_name(address.NS, address.NSE)


class JSONLinesWriter:
    """Writes each record as a line. Offsets count the bytes of the records of each cpu."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._offsets: dict[int, int] = {}

    def write(self, record: bytes, cpu: int = 0) -> None:
        """Add one whole record. Raises ValueError for bytes that are none."""
        offset = self._offsets.get(cpu, 0)
        for placed in decode_stream(record):
            if not isinstance(placed, PlacedRecord):
                raise ValueError(f"not a record: {placed.reason} at {placed.offset:#x}")
            line = record_json(placed.record, offset + placed.start, cpu)
            self._file.write(line.encode() + b"\n")
        self._offsets[cpu] = offset + len(record)

    def close(self) -> None:
        """Complete the file; harmless when done before."""
        self._file.close()
