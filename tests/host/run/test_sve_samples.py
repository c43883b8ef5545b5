"""What records say of SVE operations: vector length, predicates, addresses."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from spe_unicorn.arch.operation import Active, Operation
from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.packets import Event, OperationClass
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, DATA = 0x4000_0000, 0x4010_0000
CPACR_EL1, ZCR_EL3 = astuple(system.CPACR_EL1.encoding), (3, 6, 1, 2, 0)
START = [a.movz(0, 0x33, 16), a.msr(CPACR_EL1, 0), a.ISB, *a.mov64(1, DATA), a.movz(3, 1)]
PARTIAL, EMPTY = Event.SVE_PARTIAL, Event.SVE_EMPTY

WHILE_ONE_S = 0x25A3_1FE0  # WHILELO P0.S, XZR, X3: with X3 = 1 the first of four elements
PTRUE_S = 0x2598_E3E1  # P1.S
PFALSE = 0x2518_E402  # P2.B
LD1W_P0, LD1W_P1, LD1W_P2 = 0xA540_A020, 0xA540_A420, 0xA540_A820  # LD1W {Z0.S}, Pn/Z, [X1]
ST1W_P0 = 0xE540_E020
ADD_P0, ADD_P1, ADD_P2 = 0x0480_0040, 0x0480_0440, 0x0480_0840  # ADD Z0.S, Pn/M, Z0.S, Z2.S
ADD = 0x04A2_0020  # ADD Z0.S, Z1.S, Z2.S
FADD_P1 = 0x6580_8440  # FADD Z0.S, P1/M, Z0.S, Z2.S
GATHER_P1 = 0x8500_4420  # LD1W {Z0.S}, P1/Z, [X1, Z0.S, UXTW]
LDR_Z = 0x8580_4020  # LDR Z0, [X1]
LDR_Z_1 = 0x8580_4420  # LDR Z0, [X1, #1, MUL VL]
TESTED = [
    *(LD1W_P0, LD1W_P1, LD1W_P2, ST1W_P0, ADD_P0, ADD_P1, ADD_P2, ADD, FADD_P1),
    *(LDR_Z, LDR_Z_1, GATHER_P1),
]
PROGRAM = [*START, WHILE_ONE_S, PTRUE_S, PFALSE, *TESTED, a.b(0)]


def sampled(
    program: list[int], runner: type[Runner] = Runner, period: int = 1
) -> dict[int, tuple[Operation, Record]]:
    """The operation and the record of each word that was sampled."""
    image = image_of({CODE: a.code(program)}, CODE)
    machine = Machine(image, runner=runner, period=period, core="max")
    machine.run(len(program))
    found = {}
    for operation, raw in zip(machine.operations, machine.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        found[operation.instruction.word] = (operation, placed.record)
    return found


EXPECTED = {
    # its class and payload with 128-bit vectors (EVL 2), events about predicates, its address
    LD1W_P0: (1, 0x2C, PARTIAL, DATA),
    LD1W_P1: (1, 0x2C, 0, DATA),
    LD1W_P2: (1, 0x2C, PARTIAL | EMPTY, None),
    ST1W_P0: (1, 0x2D, PARTIAL, DATA),
    ADD_P0: (0, 0x2C, PARTIAL, None),
    ADD_P1: (0, 0x2C, 0, None),
    ADD_P2: (0, 0x2C, PARTIAL | EMPTY, None),
    ADD: (0, 0x28, 0, None),
    FADD_P1: (0, 0x2E, 0, None),
    LDR_Z: (1, 0x28, 0, DATA),
    LDR_Z_1: (1, 0x28, 0, DATA + 16),
    GATHER_P1: (1, 0xAC, 0, DATA),  # its offsets are 0
}


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_records_tell_vector_length_predicates_and_addresses(runner: type[Runner]) -> None:
    found = sampled(PROGRAM, runner)
    for word, (op_class, payload, events, address) in EXPECTED.items():
        operation, record = found[word]
        assert (record.op_class, record.op_payload) == (OperationClass(op_class), payload), hex(
            word
        )
        assert record.events & (PARTIAL | EMPTY) == events, hex(word)
        assert operation.va == address, hex(word)


def test_active_elements_are_as_many_as_the_predicate_says() -> None:
    found = sampled(PROGRAM)
    assert [found[w][0].active for w in (ADD_P0, ADD_P1, ADD_P2)] == [
        Active.SOME,
        Active.ALL,
        Active.NONE,
    ]


def test_longer_vectors_are_told_and_reach_further() -> None:
    core = load_core("max")
    image = image_of({CODE: a.code([*START, LDR_Z_1, ADD, a.b(0)])}, CODE)
    machine = Machine(image, period=1, core=replace(core))
    cpu = machine.board.cpu
    for level in (1, 2, 3):  # ZCR_EL1, ZCR_EL2, ZCR_EL3: 512 bits
        encoding = replace(system.CPACR_EL1.encoding, op1=(0, 0, 4, 6)[level], crn=1, crm=2, op2=0)
        cpu.engine.set_system(encoding, 3)
    cpu.engine.rebuild()
    machine.run(len(START) + 2)
    load, add = machine.operations[-2:]
    assert (load.vector_bits, load.va) == (512, DATA + 64)
    record = read_record(machine.sampled[-1].record, 0)
    assert isinstance(record, PlacedRecord)
    assert (add.vector_bits, record.record.op_payload) == (512, 0x48)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [2, 3, 5, 7])
def test_sve_sampled_now_and_then_is_as_stepped(period: int) -> None:
    loop = [*TESTED, a.b(-4 * len(TESTED))]
    image = image_of({CODE: a.code([*START, WHILE_ONE_S, PTRUE_S, PFALSE, *loop])}, CODE)
    fast, reference = (
        Machine(image, runner=runner, period=period, core="max")
        for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(600).differences(reference.run(600)) == {}
    assert fast.operations == reference.operations
