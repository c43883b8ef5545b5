"""Records as a table for people: one line a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from spe_unicorn.output.names import DATA_SOURCES, event_names, operation_name, printable
from spe_unicorn.spe.packets import CounterIndex, canonical_address
from spe_unicorn.spe.record import Record

Name = Callable[[int], str | None]
"""Gives an address its name, such as ``main+0x10``, or None."""

_HEADING = ("time", "cpu", "where", "operation", "cycles", "events", "address")
_ABSENT = "-"
_LOOKED_AT = 500
"""Rows from which the widths of the columns are taken; a longer cell later on moves its own row."""


def nameless(address: int) -> str | None:
    """The names where there are no symbols: none."""
    del address
    return None


def table(records: Iterable[tuple[Record, int]], name: Name = nameless) -> Iterator[str]:
    """Lines of a table, heading first, of records each with its cpu. They end without a newline.

    ``time`` is in ticks of the system counter, ``cycles`` is the total latency. The address is that
    of the data or of the target of a branch, the data source in parentheses.
    """
    rows = (_row(record, cpu, name) for record, cpu in records)
    first = [_HEADING, *islice(rows, _LOOKED_AT)]
    widths = [max(map(len, column)) for column in zip(*first, strict=True)]
    for row in chain(first, rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _row(record: Record, cpu: int, name: Name) -> tuple[str, ...]:
    cycles = record.counter(CounterIndex.TOTAL)
    return (
        _ABSENT if record.timestamp is None else str(record.timestamp),
        str(cpu),
        _ABSENT if record.pc is None else _place(record.pc.value, name),
        _ABSENT if record.op_class is None else operation_name(record.op_class, record.op_payload),
        _ABSENT if cycles is None else str(cycles),
        " ".join(event_names(record.events)),
        _address(record, name),
    )


def _place(payload: int, name: Name) -> str:
    address = canonical_address(payload)
    return printable(name(address) or hex(address))


def _address(record: Record, name: Name) -> str:
    text = ""
    if record.va is not None:
        text = f"data {_place(record.va.value, name)}"
    elif record.target is not None:
        text = f"to {_place(record.target.value, name)}"
    if record.data_source is not None:
        source = DATA_SOURCES.get(record.data_source, f"source {record.data_source:#x}")
        text = f"{text} ({source})".lstrip()
    return text
