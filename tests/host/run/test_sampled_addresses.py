"""The addresses of sampled operations that say more than base and offset do."""

from __future__ import annotations

import struct
from dataclasses import astuple

import pytest
from unicorn.arm64_const import UC_ARM64_REG_X0

from spe_unicorn.arch.memory.pointer_authentication import authenticated_address
from spe_unicorn.arch.operation import Family, Operation, RegisterKind
from spe_unicorn.arch.registers.fgt import HFGITR_EL2
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
)
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MAIR_EL1,
    MDCR_EL2,
    SCTLR_EL1,
    TCR_EL1,
    TTBR0_EL1,
    VBAR_EL1,
    VNCR_EL2,
)
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.plugin.attach import attach
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from tests.host.nested_guests import CODE, DATA, VECTORS, guest_hypervisor
from tests.support import a64 as a
from tests.support.fakes import WITH_EL2, spe_pe
from tests.support.machine_runs import Machine, image_of
from tests.support.user_engine import CODE as USER_CODE
from tests.support.user_engine import DATA as USER_DATA
from tests.support.user_engine import MAX, engine

BUFFER = 0x4020_0000
HCR_OFFSET = 0x78
"""Where nested virtualization keeps HCR_EL2, from VNCR_EL2 on."""
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def records_of(machine: Machine) -> list[Record]:
    found = []
    for sampled in machine.sampled:
        placed = read_record(sampled.record, 0)
        assert isinstance(placed, PlacedRecord)
        found.append(placed.record)
    return found


# MRS and MSR that nested virtualization turns into accesses


@RUNNERS
def test_nested_accesses_have_a_type_and_addresses_of_their_own(runner: type[Runner]) -> None:
    machine = guest_hypervisor(runner, period=1)
    machine.board.memory.fill(DATA + HCR_OFFSET, b"\x12")
    machine.run(4)
    load, add, store, branch = records_of(machine)
    for record, payload in ((load, 0x30), (store, 0x31)):
        assert (record.op_class, record.op_payload) == (OperationClass.LOAD_STORE, payload)
        assert record.va is not None
        assert record.va.VA == DATA + HCR_OFFSET
        assert record.pa is not None
        assert record.pa.PA == DATA + HCR_OFFSET
    assert (add.op_class, branch.op_class) == (OperationClass.OTHER, OperationClass.BRANCH)
    assert add.va is branch.va is None
    assert machine.operations[0].instruction.family is Family.LOAD
    assert machine.board.cpu.engine.x(0) == 0x12


@RUNNERS
def test_nested_access_that_faults_has_its_address_and_the_exception(runner: type[Runner]) -> None:
    machine = guest_hypervisor(runner, period=1)
    machine.board.cpu.registers.set_raw(VNCR_EL2, 0x0B00_0000)  # nothing is there
    machine.board.memory.fill(VECTORS + 0x400, a.code([a.b(0)]))
    machine.run(1)
    (operation,) = machine.operations
    assert operation.exception
    assert (operation.va, operation.pa) == (0x0B00_0000 + HCR_OFFSET, None)
    assert operation.instruction.registers is RegisterKind.NESTED


@RUNNERS
@pytest.mark.parametrize("owner", [1, 2])
def test_nested_addresses_are_recorded_where_el2_is_profiled(
    runner: type[Runner], owner: int
) -> None:
    machine = guest_hypervisor(runner, period=None)
    registers = machine.board.cpu.registers
    registers.set_raw(MDCR_EL2, MDCR_EL2.of(E2PB=3 if owner == 1 else 0).value)
    for register, value in (
        (PMSIRR_EL1, PMSIRR_EL1.of(INTERVAL=1).value),  # a sample each 257 operations
        (PMSICR_EL1, 0),
        (PMSFCR_EL1, 0),
        (PMBSR_EL1, 0),
        (PMSCR_EL2, PMSCR_EL2.of(E2SPE=1, PA=1).value),
        (PMSCR_EL1, PMSCR_EL1.of(E1SPE=1, PA=1).value),
        (PMBPTR_EL1, BUFFER),
        (PMBLIMITR_EL1, BUFFER + 0x4000 | 1),
    ):
        registers.write(register, value)
    machine.board.pes[0].unit.reload()
    machine.run(257 * 8)
    found = [r for r in records_of(machine) if r.op_class == OperationClass.LOAD_STORE]
    assert [r.op_payload for r in found] == [0x30, 0x31] * 2
    for record in found:
        assert (record.va is not None, record.pa is not None) == (owner == 2, owner == 2)


# Loads that authenticate their pointer

LDRAA, LDRAB = 0xF820_0420, 0xF8A0_0420  # X0, [X1]
LDRAA_FURTHER = 0xF820_1C20  # LDRAA X0, [X1, #8]!
PACDA, PACDB = 0xDAC1_0801, 0xDAC1_0C01  # X1, X0: the modifier is X0
LOW, HIGH = DATA, 0xFFFF_FFFF_FFFF_0000


@pytest.mark.parametrize(
    ("pointer", "tbi", "expected"),
    [
        # T0SZ and T1SZ are 25: bits 54:39 hold the code, and bits 63:56 where they are no tag
        (0x0056_7800_0000_1000, 0, 0x0000_0000_0000_1000),
        (0xAB56_7800_0000_1000, 0, 0x0000_0000_0000_1000),
        (0xAB56_7800_0000_1000, 1, 0xAB00_0000_0000_1000),
        (0xAB7F_FF80_0000_1000, 0, 0x0000_0000_0000_1000),
        (0x0080_0000_0000_1000, 0, 0xFFFF_FF80_0000_1000),
        (0xABA5_5A7F_FFFF_F000, 0, 0xFFFF_FFFF_FFFF_F000),
        (0xABA5_5A7F_FFFF_F000, 1, 0xABFF_FFFF_FFFF_F000),
        (0x0000_0012_3456_7000, 0, 0x0000_0012_3456_7000),
    ],
)
def test_authentication_leaves_copies_of_bit_55(pointer: int, tbi: int, expected: int) -> None:
    pe = spe_pe(WITH_EL2)
    pe.registers.set_raw(TCR_EL1, TCR_EL1.of(T0SZ=25, T1SZ=25, TBI0=tbi, TBI1=tbi).value)
    for key_b in (False, True):
        assert authenticated_address(pe, pointer, key_b=key_b) == pointer  # no key is enabled
    pe.registers.set_raw(SCTLR_EL1, SCTLR_EL1.of(EnDA=1).value)
    assert authenticated_address(pe, pointer, key_b=False) == expected
    assert authenticated_address(pe, pointer, key_b=True) == pointer
    pe.registers.set_raw(SCTLR_EL1, SCTLR_EL1.of(EnDB=1).value)
    assert authenticated_address(pe, pointer, key_b=True) == expected


@pytest.mark.parametrize(("t0sz", "bits"), [(0, 48), (15, 48), (16, 48), (39, 25), (48, 25)])
def test_sizes_out_of_range_are_taken_as_the_bound(t0sz: int, bits: int) -> None:
    pe = spe_pe(WITH_EL2)
    pe.registers.set_raw(TCR_EL1, TCR_EL1.of(T0SZ=t0sz).value)
    pe.registers.set_raw(SCTLR_EL1, SCTLR_EL1.of(EnDA=1).value)
    everything = (1 << 64) - 1 & ~(1 << 55)
    assert authenticated_address(pe, everything, key_b=False) == (1 << bits) - 1


def loads_with_pointers(runner: type[Runner], program: list[int], period: int = 1) -> Machine:
    image = image_of({CODE: a.code(program), DATA: bytes(4096)}, CODE)
    machine = Machine(image, runner=runner, core="max", period=period)
    registers = machine.board.cpu.registers
    keys = SCTLR_EL1.of(EnDA=1, EnDB=1).value
    registers.set_raw(SCTLR_EL1, registers.raw(SCTLR_EL1) | keys)
    registers.set_raw(TCR_EL1, TCR_EL1.of(T0SZ=25, T1SZ=25).value)
    registers.set_raw(VBAR_EL1, VECTORS)
    machine.board.memory.fill(VECTORS + 0x200, a.code([a.b(0)]))
    machine.board.cpu.engine.rebuild()
    machine.board.handler.controls_written()
    return machine


def loads(machine: Machine) -> list[Operation]:
    return [o for o in machine.operations if o.instruction.family is Family.LOAD]


@RUNNERS
@pytest.mark.parametrize(("sign", "load"), [(PACDA, LDRAA), (PACDB, LDRAB)])
def test_authenticated_load_has_its_address_without_the_code(
    runner: type[Runner], sign: int, load: int
) -> None:
    # the modifier of LDRAA and LDRAB is 0
    program = [*a.mov64(1, DATA + 16), a.movz(0, 0), sign, load, LDRAA if load == LDRAA else load]
    machine = loads_with_pointers(runner, program)
    machine.run(len(program) - 1)
    pointer = machine.board.cpu.engine.x(1)
    assert pointer & 0xFFFF_FFFF == DATA + 16
    assert pointer != DATA + 16  # it was signed
    (operation,) = loads(machine)
    assert (operation.va, operation.pa, operation.exception) == (DATA + 16, DATA + 16, False)


@RUNNERS
def test_authenticated_load_that_moves_its_base(runner: type[Runner]) -> None:
    program = [*a.mov64(1, DATA), a.movz(0, 0), PACDA, LDRAA_FURTHER]
    machine = loads_with_pointers(runner, program)
    machine.run(len(program))
    (operation,) = loads(machine)
    assert operation.va == DATA + 8
    assert machine.board.cpu.engine.x(1) == DATA + 8


@RUNNERS
def test_authenticated_load_of_a_wrong_pointer_has_no_address(runner: type[Runner]) -> None:
    program = [*a.mov64(1, DATA), a.movz(0, 1), PACDA, LDRAA]  # signed for another modifier
    machine = loads_with_pointers(runner, program)
    machine.run(len(program))
    (operation,) = loads(machine)
    assert (operation.va, operation.pa, operation.exception) == (None, None, True)


@pytest.mark.parametrize("period", [5, 7, 11])
def test_authenticated_loads_now_and_then_are_as_stepped(period: int) -> None:
    loop = [*a.mov64(1, DATA), a.movz(0, 0), PACDA, LDRAA, a.add_imm(3, 3, 1)]
    program = [*loop, a.b(-4 * len(loop))]
    fast, reference = (
        loads_with_pointers(runner, program, period) for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(600).differences(reference.run(600)) == {}
    assert fast.operations == reference.operations
    assert {operation.va for operation in loads(fast)} == {DATA}


def test_nested_access_of_a_run_of_the_users_own_marks_no_sample() -> None:
    read_trap, read_id = a.mrs(0, astuple(HFGITR_EL2.encoding)), a.mrs(1, (3, 0, 9, 9, 7))
    words = [read_trap, read_id, a.NOP]
    uc = engine(words, MAX)
    spe = attach(uc, core="max")
    registers = spe.cpu.registers
    registers.set_raw(HCR_EL2, HCR_EL2.of(NV2=1, NV1=1, NV=1).value)
    registers.set_raw(VNCR_EL2, USER_DATA)
    uc.emu_start(USER_CODE, USER_CODE + 4)
    assert uc.reg_read(UC_ARM64_REG_X0) == int.from_bytes(
        uc.mem_read(USER_DATA + 0x1C8, 8), "little"
    )
    records: list[Record] = []
    spe.on_record(lambda record, raw: records.append(record))
    spe.program(interval=1)
    spe.emu_start(USER_CODE + 4, USER_CODE + 8)
    assert [(r.op_class, r.va) for r in records] == [(OperationClass.OTHER, None)]
    spe.emu_start(USER_CODE, USER_CODE + 4)
    assert [(r.op_class, r.op_payload) for r in records[1:]] == [(OperationClass.LOAD_STORE, 0x30)]


# Accesses that the MMU judges otherwise than others at the same Exception level

FOR_EL0, FOR_EL1, NOTHING = 0x4020_0000, 0x4040_0000, 0x4060_0000
TABLES = 0x4080_0000
BLOCK = 1 | 1 << 10  # valid, AF
EL0_MAY = 1 << 6
PAN_1, UAO_1 = 0xD500_419F, 0xD500_417F  # MSR PAN, #1; MSR UAO, #1


def ldtr(rt: int, rn: int) -> int:
    return 0xF840_0800 | rn << 5 | rt


def sttr(rt: int, rn: int) -> int:
    return 0xF800_0800 | rn << 5 | rt


def under_tables(code: list[int], runner: type[Runner], period: int) -> Machine:
    """Code under an MMU, with memory for EL0, memory for EL1 alone, and some that is not mapped.

    Registers from X2 on hold addresses in them; a synchronous exception skips its operation.
    """
    addresses = (FOR_EL0, FOR_EL1, FOR_EL0 + 1, NOTHING - 4)
    start = [word for n, address in enumerate(addresses) for word in a.mov64(2 + n, address)]
    elr = (3, 0, 4, 0, 1)
    handler = [a.mrs(20, elr), a.add_imm(20, 20, 4), a.msr(elr, 20), a.ERET]
    level2 = {0: CODE | BLOCK, 1: FOR_EL0 | BLOCK | EL0_MAY, 2: FOR_EL1 | BLOCK}
    image = image_of(
        {
            CODE: a.code([*start, *code]),
            CODE + 0x1200: a.code(handler),
            TABLES: struct.pack("<QQ", 0, TABLES + 0x1000 | 3),
            TABLES + 0x1000: struct.pack("<3Q", *(level2[n] for n in range(3))),
        },
        CODE,
    )
    machine = Machine(image, runner=runner, period=period, ram=16 << 20)
    registers = machine.board.cpu.registers
    registers.set_raw(VBAR_EL1, CODE + 0x1000)
    registers.set_raw(MAIR_EL1, 0xFF)
    registers.set_raw(TCR_EL1, 25 | 1 << 23 | 2 << 32)  # T0SZ, EPD1, 40 bits of PA
    registers.set_raw(TTBR0_EL1, TABLES)
    registers.set_raw(SCTLR_EL1, registers.raw(SCTLR_EL1) | 1)
    machine.board.handler.controls_written()
    return machine


@RUNNERS
def test_unprivileged_accesses_have_the_address_that_el0_would_reach(runner: type[Runner]) -> None:
    code = [
        *(ldtr(1, 2), sttr(1, 2), ldtr(1, 3), a.ldr(1, 3)),
        *(PAN_1, ldtr(1, 2), sttr(1, 2), a.ldr(1, 2), ldtr(1, 3), a.ldr(1, 3)),
        *(UAO_1, ldtr(1, 2), ldtr(1, 3), a.b(0)),
    ]
    machine = under_tables(code, runner, period=1)
    machine.run(100)
    seen = [(o.exception, o.va, o.pa) for o in machine.operations if o.va is not None]
    assert seen == [
        (False, FOR_EL0, FOR_EL0),
        (False, FOR_EL0, FOR_EL0),
        (True, FOR_EL1, None),  # EL0 may not
        (False, FOR_EL1, FOR_EL1),
        (False, FOR_EL0, FOR_EL0),  # PAN does not hold for accesses as EL0
        (False, FOR_EL0, FOR_EL0),
        (True, FOR_EL0, None),  # PAN
        (True, FOR_EL1, None),
        (False, FOR_EL1, FOR_EL1),
        (True, FOR_EL0, None),  # UAO makes it privileged: PAN
        (False, FOR_EL1, FOR_EL1),
    ]


@RUNNERS
def test_a_faulting_operation_has_no_physical_address(runner: type[Runner]) -> None:
    code = [a.ldadd(1, 6, 2), a.ldadd(1, 6, 4), a.ldr(1, 5, size=2), a.ldr(1, 5), a.b(0)]
    machine = under_tables(code, runner, period=1)
    machine.run(100)
    seen = [(o.exception, o.va, o.pa) for o in machine.operations if o.va is not None]
    assert seen == [
        (False, FOR_EL0, FOR_EL0),
        (True, FOR_EL0 + 1, None),  # misaligned
        (False, NOTHING - 4, NOTHING - 4),
        (True, NOTHING - 4, None),  # its second half is not mapped
    ]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [3, 7, 64])
def test_unprivileged_accesses_are_sampled_the_same_by_both_runners(period: int) -> None:
    loop = [PAN_1, ldtr(1, 2), a.add_imm(7, 7, 1), sttr(7, 2), a.ldr(6, 3), a.ldadd(1, 6, 4)]
    loop += [a.str_(7, 3), a.ldr(1, 2), a.b(-4 * (len(loop) + 2))]
    fast, plain = (under_tables(loop, runner, period) for runner in (Runner, ReferenceRunner))
    assert fast.run(5000).differences(plain.run(5000)) == {}
    assert any(o.va == FOR_EL0 and o.pa == FOR_EL0 for o in fast.operations)
