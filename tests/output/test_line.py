from __future__ import annotations

from spe_unicorn.output.line import record_line
from spe_unicorn.spe.packets import (
    DataAddress,
    Event,
    InstructionAddress,
    OperationClass,
    PhysicalAddress,
)
from spe_unicorn.spe.record import Record

EL1_NON_SECURE = 0xA0 << 56


def test_a_load_is_told_in_one_line():
    record = Record(
        events=Event.RETIRED | Event.L1D_MISS,
        op_class=OperationClass.LOAD_STORE,
        op_payload=0,
        pc=InstructionAddress(EL1_NON_SECURE | 0x4000_0000),
        va=DataAddress(0x5008),
        pa=PhysicalAddress(1 << 63 | 0x6008),
        counters=((0, 20), (1, 3), (2, 1)),
        context_el1=7,
        data_source=8,
        timestamp=99,
    )
    assert record_line(record) == (
        "EL1 non-secure, load general, events retired+l1d_miss, total 20, issue 3,"
        " translation 1, va 0x5008, pa 0x6008, source 0x8, CONTEXTIDR_EL1 0x7, time 99"
    )


def test_a_branch_shows_its_target():
    record = Record(
        events=Event.RETIRED,
        op_class=OperationClass.BRANCH,
        op_payload=1,
        target=InstructionAddress(EL1_NON_SECURE | 0x4000_0040),
    )
    assert record_line(record) == "branch conditional, events retired, target 0x40000040"


def test_what_is_not_there_is_left_out():
    assert record_line(Record(events=0)) == "events none"
