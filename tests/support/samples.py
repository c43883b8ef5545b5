"""Records of every sort, for tests of what writes and reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spe_unicorn.spe.packets import DataAddress, InstructionAddress, PhysicalAddress
from spe_unicorn.spe.record import Record, encode

ALIGN = 6


def pc(va: int, el: int = 1, ns: int = 1, nse: int = 0) -> InstructionAddress:
    return InstructionAddress.of(VA=va, EL=el, NS=ns, NSE=nse)


def load(address: int = 0x40000100, el: int = 1, **more: Any) -> Record:
    values: dict[str, Any] = {
        "counters": ((0, 13), (1, 2), (2, 1)),
        "pc": pc(address, el),
        "va": DataAddress.of(TAG=0x20, VA=0x40008008),
        "pa": PhysicalAddress.of(NS=1, PA=0x40008008),
        "data_source": 8,
        "op_class": 1,
        "events": 0x1E,
        "timestamp": 1000,
    }
    return Record(**{**values, **more})


def store(address: int = 0x40000104, el: int = 1, **more: Any) -> Record:
    values: dict[str, Any] = {
        "counters": ((0, 3), (1, 2), (2, 1)),
        "pc": pc(address, el),
        "va": DataAddress(0x40008010),
        "op_class": 1,
        "op_payload": 1,
        "events": 0x16,
        "timestamp": 1010,
    }
    return Record(**{**values, **more})


def branch(address: int = 0x40000108, el: int = 1, **more: Any) -> Record:
    values: dict[str, Any] = {
        "counters": ((0, 2), (1, 1)),
        "pc": pc(address, el),
        "target": pc(0x40000100, el),
        "op_class": 2,
        "op_payload": 1,
        "events": 0x82,
        "timestamp": 1020,
    }
    return Record(**{**values, **more})


def other(address: int = 0x4000010C, el: int = 1, **more: Any) -> Record:
    values: dict[str, Any] = {
        "pc": pc(address, el),
        "op_class": 0,
        "events": 0x02,
        "timestamp": 1030,
    }
    return Record(**{**values, **more})


def with_everything() -> Record:
    return Record(
        events=0x1020016,
        events_size=4,
        op_class=1,
        op_payload=0xBC,
        pc=pc(0xFF800010001000, 1, nse=1),
        target=pc(0xFF800010002000, 2),
        va=DataAddress(0xFFFF80001FFF0FF8),
        pa=PhysicalAddress.of(NS=1, CH=1, PAT=5, PA=0x80001008),
        previous_target=pc(0x400FF0, 3, ns=0),
        addresses=((5, 0x55), (16, 0x123456789A)),
        context_el1=0x1234,
        context_el2=0xABCD,
        counters=((0, 42), (1, 5), (2, 3), (4, 2), (17, 511)),
        data_source=0x1234,
        data_source_size=2,
        timestamp=2000,
    )


OTHER_TYPES = (0x00, 0x01, 0x02, 0x03, 0x04, 0x06, 0x08, 0x0E, 0x3A, 0x6C)
LOAD_STORE_TYPES = (
    *(0x00, 0x01, 0x04, 0x05, 0x10, 0x11, 0x14, 0x15, 0x30, 0x31, 0x20, 0x21, 0x25),
    *(0x40, 0x41, 0x44, 0x45, 0x06, 0x07, 0x0A, 0x0B, 0x12, 0x13, 0x16, 0x17, 0x1A, 0x1B),
    *(0x08, 0x09, 0xBC, 0x6D, 0x2C),
)
BRANCH_TYPES = (0, 1, 2, 3, 0x08, 0x09, 0x0A, 0x0C, 0x0E, 0x12, 0x16, 0x18, 0x19, 0x1A)


def of_every_sort() -> Iterator[Record]:
    """Every packet, every operation type, every event bit, every state; no two alike."""
    types = [(0, payload) for payload in OTHER_TYPES]
    types += [(1, payload) for payload in LOAD_STORE_TYPES]
    types += [(2, payload) for payload in BRANCH_TYPES]
    for number, (op_class, payload) in enumerate(types):
        yield other(0x40000000 + 4 * number, op_class=op_class, op_payload=payload)
    for bit in range(16):
        yield other(events=1 << bit, timestamp=None)
    for bit in range(32):
        yield other(events=1 << bit, events_size=4)
    for el, ns, nse in ((0, 1, 0), (1, 1, 0), (2, 1, 0), (1, 0, 0), (3, 0, 0), (1, 1, 1)):
        yield branch(pc=pc(0xFF800010001000, el, ns, nse), target=pc(0x400000, el, ns, nse))
    yield load()
    yield load(el=0, context_el1=7)
    yield store(context_el2=9)
    yield other(events=0, events_size=1, timestamp=None)
    yield other(events=1 << 50, events_size=8)
    yield with_everything()


def stream(records: Iterable[Record], align: int = ALIGN) -> bytes:
    return b"".join(encode(record, align) for record in records)
