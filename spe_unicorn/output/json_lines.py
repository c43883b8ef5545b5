"""Lines of JSON of many records: the text of ``jsonl.record_json``, some ten times faster.

Most packets say what others have said before them, so what is said of each is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

from spe_unicorn.arch.operation import Calls
from spe_unicorn.output.arrays import Has, RecordArrays, read_arrays
from spe_unicorn.output.jsonl import (
    of_branch,
    of_counters,
    of_data_source,
    of_events,
    of_operation,
    of_pa,
    of_pc,
    of_va,
    record_json,
)
from spe_unicorn.output.reader import Stream
from spe_unicorn.spe.packets import CounterIndex

_REMEMBERED: Final = 1 << 13
"""Different things said of packets."""
_COUNTER_COLUMNS: Final = ("total", "issue", "translation", "alternate_issue")
_COLUMNS: Final = [
    "offset",
    "has",
    "pc",
    "op_class",
    "op_payload",
    "events",
    "target",
    "previous_target",
    "va",
    "pa",
    "data_source",
    "context_el1",
    "context_el2",
    "timestamp",
]
_COUNTERS: Final = int(Has.TOTAL | Has.ISSUE | Has.TRANSLATION | Has.ALTERNATE_ISSUE)
_COUNTER_INDEXES: Final = (
    (int(Has.TOTAL), int(CounterIndex.TOTAL)),
    (int(Has.ISSUE), int(CounterIndex.ISSUE)),
    (int(Has.TRANSLATION), int(CounterIndex.TRANSLATION)),
    (int(Has.ALTERNATE_ISSUE), int(CounterIndex.ALTERNATE_ISSUE)),
)


def lines_of(data: bytes, offset: int, cpu: int, led: Iterator[Calls] | None) -> Iterator[bytes]:
    """The line of each record of a piece of a cpu's stream that begins at ``offset``.

    ``led`` are the calls that led to each, None where that is not told. Raises ValueError for bytes
    that are no records.
    """
    arrays, bad = read_arrays([Stream(cpu, offset, 0, memoryview(data))])
    if bad:
        _, wrong = bad[0]
        raise ValueError(f"not a record: {wrong.reason} at {wrong.offset:#x}")
    rare = {int(row) for rows, _ in arrays.rare.values() for row in rows}
    for row, text in enumerate(_texts(arrays, cpu)):
        calls = None if led is None else next(led, ())
        if row in rare:
            line = record_json(arrays.record(row), int(arrays.offset[row]), cpu, calls)
        elif calls is None:
            line = f"{{{text}}}"
        else:
            line = f"{{{text}, {_calls(calls)}}}"
        yield line.encode() + b"\n"


def _texts(arrays: RecordArrays, cpu: int) -> Iterator[str]:
    """What the line of each record has within its braces but for calls and rare packets."""
    columns = [getattr(arrays, name).tolist() for name in _COLUMNS]
    cycles = zip(*(getattr(arrays, name).tolist() for name in _COUNTER_COLUMNS), strict=True)
    for row in zip(*columns, cycles, strict=True):
        offset, has, pc, kind, payload, events, target, previous, va, pa, source, *more = row
        el1, el2, time, counters = more
        parts = [f'"offset": {offset}, "cpu": {cpu}']
        if has & _PC:
            parts.append(_said(of_pc, pc))
        if has & _OPERATION:
            parts.append(_said(of_operation, kind, payload))
        parts.append(_said(of_events, events))
        if has & _COUNTERS:
            parts.append(_counted(has & _COUNTERS, *counters))
        if has & _TARGET:
            parts.append(_said(of_branch, "target", target))
        if has & _PREVIOUS_TARGET:
            parts.append(_said(of_branch, "previous_target", previous))
        if has & _VA:
            parts.append(_said(of_va, va))
        if has & _PA:
            parts.append(_said(of_pa, pa))
        if has & _DATA_SOURCE:
            parts.append(_said(of_data_source, source))
        if has & _CONTEXT_EL1:
            parts.append(f'"context_el1": {el1}')
        if has & _CONTEXT_EL2:
            parts.append(f'"context_el2": {el2}')
        if has & _TIMESTAMP:
            parts.append(f'"timestamp": {time}')
        yield ", ".join(parts)


_PC: Final = int(Has.PC)
_OPERATION: Final = int(Has.OPERATION)
_TARGET: Final = int(Has.TARGET)
_PREVIOUS_TARGET: Final = int(Has.PREVIOUS_TARGET)
_VA: Final = int(Has.VA)
_PA: Final = int(Has.PA)
_DATA_SOURCE: Final = int(Has.DATA_SOURCE)
_CONTEXT_EL1: Final = int(Has.CONTEXT_EL1)
_CONTEXT_EL2: Final = int(Has.CONTEXT_EL2)
_TIMESTAMP: Final = int(Has.TIMESTAMP)


@lru_cache(maxsize=_REMEMBERED)
def _said(say: Callable[..., dict[str, Any]], *payloads: Any) -> str:
    """The text of what is said of a packet, without its braces."""
    return json.dumps(say(*payloads))[1:-1]


@lru_cache(maxsize=_REMEMBERED)
def _counted(has: int, *cycles: int) -> str:
    """The same of those counters of a record that ``has`` has."""
    pairs = zip(_COUNTER_INDEXES, cycles, strict=True)
    return _said(of_counters, *((index, value) for (bit, index), value in pairs if has & bit))


@lru_cache(maxsize=_REMEMBERED)
def _calls(calls: Calls) -> str:
    return json.dumps({"calls": [hex(address) for address in calls]})[1:-1]
