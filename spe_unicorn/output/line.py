"""A record in one line, for traces and tables."""

from __future__ import annotations

from spe_unicorn.output.names import (
    CONTEXTS,
    event_names,
    operation_name,
    state_name,
)
from spe_unicorn.spe.packets import COUNTER_NAMES, canonical_address
from spe_unicorn.spe.record import Record


def record_line(record: Record) -> str:
    """Everything that a record says, in the order in which a reader asks for it.

    The address of the code is left out: who prints the line knows its symbol.
    """
    words = []
    if record.pc is not None:
        words.append(f"EL{record.pc.EL} {state_name(record.pc.NS, record.pc.NSE)}")
    if record.op_class is not None:
        words.append(operation_name(record.op_class, record.op_payload))
    words.append("events " + ("+".join(event_names(record.events)) or "none"))
    words += [f"{COUNTER_NAMES.get(index, index)} {value}" for index, value in record.counters]
    for name, address in (
        ("target", record.target),
        ("previous target", record.previous_target),
        ("va", record.va),
    ):
        if address is not None:
            words.append(f"{name} {canonical_address(address.value):#x}")
    if record.pa is not None:
        words.append(f"pa {record.pa.PA:#x}")
    if record.data_source is not None:
        words.append(f"source {record.data_source:#x}")
    for index, context in enumerate((record.context_el1, record.context_el2)):
        if context is not None:
            words.append(f"{CONTEXTS[index]} {context:#x}")
    if record.timestamp is not None:
        words.append(f"time {record.timestamp}")
    return ", ".join(words)
