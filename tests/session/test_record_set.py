"""Picking records."""

from __future__ import annotations

import pytest

from spe_unicorn.session.record_set import RecordSet
from spe_unicorn.spe.packets import DataAddress, Event, InstructionAddress, OperationClass
from spe_unicorn.spe.record import Record, encode

LOAD = Record(
    events=Event.RETIRED | Event.L1D_MISS,
    op_class=OperationClass.LOAD_STORE,
    op_payload=0,
    pc=InstructionAddress(0x1000 | 1 << 61),
    va=DataAddress(0x8000),
    counters=((0, 20),),
    data_source=0x8,
)
STORE = Record(
    events=Event.RETIRED,
    op_class=OperationClass.LOAD_STORE,
    op_payload=1,
    pc=InstructionAddress(0x1010),
    va=DataAddress(0x9000),
    counters=((0, 4),),
)
BRANCH = Record(
    events=Event.RETIRED | Event.MISPREDICTED,
    op_class=OperationClass.BRANCH,
    op_payload=1,
    pc=InstructionAddress(0x2000),
)


class Program:
    """A program of two functions."""

    def function(self, address: int) -> str | None:
        return {0x1000: "copy", 0x1010: "copy", 0x2000: "main"}.get(address)

    def check(self, name: str) -> None:
        if name not in ("copy", "main"):
            raise ValueError(f"no {name}")


@pytest.fixture
def records() -> RecordSet:
    return RecordSet([LOAD, STORE, BRANCH], Program())


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [LOAD, STORE, BRANCH]),
        ({"op": "load"}, [LOAD]),
        ({"op": "branch conditional"}, [BRANCH]),
        ({"op": "branch indirect"}, []),
        ({"pc": "copy"}, [LOAD, STORE]),
        ({"pc": 0x2000}, [BRANCH]),
        ({"pc": (0x1000, 0x1010)}, [LOAD]),
        ({"va": (0x9000, 0x9001)}, [STORE]),
        ({"el": 1}, [LOAD]),
        ({"event": "mispredicted"}, [BRANCH]),
        ({"source": "L2"}, [LOAD]),
        ({"min_latency": 5}, [LOAD]),
        ({"max_latency": 5}, [STORE]),
        ({"op": "load", "pc": "main"}, []),
    ],
    ids=str,
)
def test_records_are_picked_by(
    records: RecordSet, wanted: dict[str, object], found: list[Record]
) -> None:
    assert list(records.where(**wanted)) == found


def test_a_set_says_how_it_was_picked(records: RecordSet) -> None:
    assert repr(records.where(op="load").where(el=2)) == "<0 records where op='load', el=2>"
    assert records.where(op="load").count == 1


def test_what_no_record_can_have_is_refused(records: RecordSet) -> None:
    with pytest.raises(TypeError, match="not picked by 'lr': there are op, pc"):
        records.where(lr=1)
    with pytest.raises(ValueError, match="no event is called 'missed': there are"):
        records.where(event="missed")
    with pytest.raises(ValueError, match="no data source is called 'L9'"):
        records.where(source="L9")


def test_a_set_is_a_sequence(records: RecordSet) -> None:
    assert len(records) == 3
    assert records[0] == LOAD
    assert records[-1] == BRANCH
    assert list(records[1:]) == [STORE, BRANCH]
    assert records[1:].where(pc="copy").count == 1
    assert list(reversed(records)) == [BRANCH, STORE, LOAD]
    assert STORE in records
    with pytest.raises(IndexError):
        records[3]
    with pytest.raises(ValueError, match="no mein"):
        records.where(pc="mein")


def test_the_records_of_a_stream_are_a_set() -> None:
    stream = encode(LOAD, align=6) + encode(BRANCH, align=6)
    records = RecordSet.of(stream, Program())
    assert len(records) == 2
    assert records.raw == stream
    assert records.where(op="branch")[0].pc == BRANCH.pc
    assert [record.pc for record in records] == [LOAD.pc, BRANCH.pc]
    assert len(RecordSet.of(b"", Program())) == 0
