"""Records as JSON Lines: one object a line, packets that a record lacks left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

from spe_unicorn.arch.operation import Calls
from spe_unicorn.output.names import (
    DATA_SOURCES,
    event_names,
    operation_name,
    state_bits,
    state_name,
)
from spe_unicorn.spe.packets import (
    COUNTER_NAMES,
    VA_MASK,
    DataAddress,
    InstructionAddress,
    PhysicalAddress,
    canonical_address,
)
from spe_unicorn.spe.record import Indexed, PlacedRecord, Record, decode_stream

_MASK = (1 << 64) - 1
_MANY = 1 << 12
"""Bytes of records from which on they are read as arrays."""
_COUNTER_INDEXES = {name: index for index, name in COUNTER_NAMES.items()}


def record_object(
    record: Record, offset: int, cpu: int = 0, calls: Calls | None = None
) -> dict[str, Any]:
    """:func:`record_dict` with the record's place: its ``offset`` in the stream of ``cpu``.

    ``calls`` led to it, the last one first, None where that is not told.
    """
    result = {"offset": offset, "cpu": cpu, **record_dict(record)}
    if calls is not None:
        result["calls"] = [hex(address) for address in calls]
    return result


def record_dict(record: Record) -> dict[str, Any]:
    """One record as a plain dictionary of what JSON can hold (docs/reference/outputs.md).

    Addresses are hexadecimal text, since many readers of JSON lose bits of large numbers.
    """
    result: dict[str, Any] = {}
    if record.pc is not None:
        result |= of_pc(record.pc.value)
    if record.op_class is not None:
        result |= of_operation(record.op_class, record.op_payload)
    result |= of_events(record.events)
    if record.counters:
        result |= of_counters(*record.counters)
    if record.target is not None:
        result |= of_branch("target", record.target.value)
    if record.previous_target is not None:
        result |= of_branch("previous_target", record.previous_target.value)
    if record.va is not None:
        result |= of_va(record.va.value)
    if record.pa is not None:
        result |= of_pa(record.pa.value)
    if record.addresses:
        result["addresses"] = {str(index): hex(value) for index, value in record.addresses}
    if record.data_source is not None:
        result |= of_data_source(record.data_source)
    if record.context_el1 is not None:
        result["context_el1"] = record.context_el1
    if record.context_el2 is not None:
        result["context_el2"] = record.context_el2
    if record.timestamp is not None:
        result["timestamp"] = record.timestamp
    return result


# What is said of one packet, by its payload


def of_pc(payload: int) -> dict[str, Any]:
    """Where the operation is."""
    pc = InstructionAddress(payload)
    where = hex(canonical_address(payload))
    return {"pc": where, "el": pc.EL, "state": state_name(pc.NS, pc.NSE)}


def of_operation(op_class: int, payload: int) -> dict[str, Any]:
    """What kind of operation it is."""
    name = operation_name(op_class, payload)
    return {"op": name, "op_class": op_class, "op_payload": payload}


def of_events(events: int) -> dict[str, Any]:
    """What happened."""
    return {"events": event_names(events), "events_raw": events}


def of_counters(*counters: tuple[int, int]) -> dict[str, Any]:
    """How long it took: indexes and cycles, in the order of the indexes."""
    return {"counters": {COUNTER_NAMES.get(index, str(index)): value for index, value in counters}}


def of_branch(name: str, payload: int) -> dict[str, Any]:
    """Where a branch goes, or went."""
    target = InstructionAddress(payload)
    return {
        name: hex(canonical_address(payload)),
        f"{name}_el": target.EL,
        f"{name}_state": state_name(target.NS, target.NSE),
    }


def of_va(payload: int) -> dict[str, Any]:
    """The virtual address of data."""
    return {"va": hex(canonical_address(payload)), "va_tag": DataAddress(payload).TAG}


def of_pa(payload: int) -> dict[str, Any]:
    """The physical address of data."""
    pa = PhysicalAddress(payload)
    space = state_name(pa.NS, pa.NSE)
    return {"pa": hex(pa.PA), "pa_space": space, "pa_checked": bool(pa.CH), "pa_tag": pa.PAT}


def of_data_source(source: int) -> dict[str, Any]:
    """Where data came from."""
    name = DATA_SOURCES.get(source)
    return {"data_source": source} | ({"data_source_name": name} if name else {})


def record_json(record: Record, offset: int, cpu: int = 0, calls: Calls | None = None) -> str:
    """:func:`record_object` as one line of JSON, without the newline."""
    return json.dumps(record_object(record, offset, cpu, calls))


class BadLineError(ValueError):
    """A line that no JSONLinesWriter wrote; the message is half a sentence."""


def record_from_line(line: bytes | str) -> tuple[Record, int, int, Calls | None]:
    """The record that a line describes, its offset, its cpu, and the calls that led to it.

    That is :func:`record_json` backwards.
    Sizes of payloads are not in the line: the events and the data source get the smallest that
    hold them. Raises BadLineError.
    """
    try:
        found = json.loads(line)
        calls = found.get("calls")
        led = None if calls is None else tuple(int(address, 16) & _MASK for address in calls)
        return _record(found), int(found["offset"]), int(found["cpu"]), led
    except KeyError as error:
        raise BadLineError(f"it has no key {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise BadLineError(" ".join(str(error).split())) from None


def _record(found: dict[str, Any]) -> Record:
    events = int(found["events_raw"])
    source = found.get("data_source")
    counters = ((_COUNTER_INDEXES.get(k, k), v) for k, v in found.get("counters", {}).items())
    va, pa = found.get("va"), found.get("pa")
    return Record(
        events=events,
        events_size=next(size for size in (1, 2, 4, 8) if not events >> 8 * size or size == 8),
        op_class=found.get("op_class"),
        op_payload=found.get("op_payload", 0),
        pc=_instruction_address(found, "pc", "el", "state"),
        target=_instruction_address(found, "target", "target_el", "target_state"),
        va=None if va is None else DataAddress.of(TAG=found["va_tag"], VA=int(va, 16) & VA_MASK),
        pa=None
        if pa is None
        else PhysicalAddress.of(
            **state_bits(found["pa_space"]),
            CH=int(found["pa_checked"]),
            PAT=found["pa_tag"],
            PA=int(pa, 16),
        ),
        previous_target=_instruction_address(
            found, "previous_target", "previous_target_el", "previous_target_state"
        ),
        addresses=_indexed((k, int(v, 16)) for k, v in found.get("addresses", {}).items()),
        context_el1=found.get("context_el1"),
        context_el2=found.get("context_el2"),
        counters=_indexed(counters),
        data_source=source,
        data_source_size=2 if source is not None and source > 0xFF else 1,
        timestamp=found.get("timestamp"),
    )


def _instruction_address(
    found: dict[str, Any], address: str, el: str, state: str
) -> InstructionAddress | None:
    if address not in found:
        return None
    value = int(found[address], 16) & VA_MASK
    return InstructionAddress.of(VA=value, EL=found[el], **state_bits(found[state]))


def _indexed(values: Iterable[tuple[str | int, int]]) -> Indexed:
    return tuple(sorted((int(index), value) for index, value in values))


class JSONLinesWriter:
    """Writes each record as a line. Offsets count the bytes of the records of each cpu.

    ``calls`` says whether the calls that led to each record are told.
    """

    def __init__(self, file: BinaryIO, *, calls: bool = False) -> None:
        self._file = file
        self._tells_calls = calls
        self._offsets: dict[int, int] = {}

    def write(self, record: bytes, cpu: int = 0, calls: Sequence[Calls] = ()) -> None:
        """Add whole records. Raises ValueError for bytes that are none."""
        offset = self._offsets.get(cpu, 0)
        led = iter(calls) if self._tells_calls else None
        if len(record) >= _MANY:
            from spe_unicorn.output.json_lines import lines_of  # what it needs takes a while

            self._file.writelines(lines_of(record, offset, cpu, led))
            self._offsets[cpu] = offset + len(record)
            return
        for placed in decode_stream(record):
            if not isinstance(placed, PlacedRecord):
                raise ValueError(f"not a record: {placed.reason} at {placed.offset:#x}")
            here = None if led is None else next(led, ())
            line = record_json(placed.record, offset + placed.start, cpu, here)
            self._file.write(line.encode() + b"\n")
        self._offsets[cpu] = offset + len(record)

    def manage(self, ticks: int, data_lost: bool, kind: int = 0, cpu: int = 0) -> None:
        """Add nothing: the format has no place for management events."""
        del ticks, data_lost, cpu

    def block(self, ticks: int, address: int, size: int | None, place: int, cpu: int = 0) -> None:
        """There is no place for it."""

    def interrupt(self, ticks: int, intid: int, ends: bool, cpu: int = 0) -> None:
        """There is no place for it."""

    def close(self) -> None:
        """Complete the file; harmless when done before."""
        self._file.close()
