"""Instructions that the engine lacks: counted, sampled, trapped as those that it has."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ISAR1_EL1, ID_AA64ZFR0_EL1
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.accelerators import OPTION, wanted
from spe_unicorn.host.pe.amended.lacking import Lacking
from spe_unicorn.host.pe.vectors import vector
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions.rows import Row
from spe_unicorn.machine.board import Board
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

CODE = 0x4000_0000
BOTH: tuple[type[Runner], ...] = (Runner, ReferenceRunner)  # type: ignore[assignment]
CPACR, VBAR = astuple(system.CPACR_EL1.encoding), astuple(system.VBAR_EL1.encoding)
FPEN, ZEN = 0b11 << 20, 0b11 << 16
USDOT, BFDOT = 0x4E82_9C23, 0x6E42_FC23  # V3, V1, V2
USDOT_SVE, BFCVT_SVE = 0x4482_7823, 0x658A_A423  # Z3, Z1, Z2; BFCVT Z3.H, P1/M, Z1.S
SMMLA, BFMLALT = 0x4E82_A423, 0x6EC2_FC23
PTRUE = 0x2598_E3E1  # P1.S
ONES = 0x4F07_E7E1  # MOVI V1.16B, #255
TWOS = 0x4F00_E442  # MOVI V2.16B, #2
MOVE = 0x0E04_3C64  # UMOV W4, V3.S[0]
CORES = ("neoverse-v1", "neoverse-n2", "neoverse-v2", "cortex-x4", "max")
START = [*a.mov64(0, FPEN | ZEN), a.msr(CPACR, 0), a.ISB]
LOOP = [
    *(ONES, TWOS, USDOT, a.add_imm(5, 5, 1), BFDOT, USDOT_SVE, MOVE, SMMLA, BFMLALT),
    *(a.cbz(31, 8), USDOT, BFCVT_SVE, a.add(6, 6, 4), USDOT, a.ldr(7, 20), USDOT),
]


def looped(**options: object) -> Machine:
    code = [*START, PTRUE, *a.mov64(20, CODE), *LOOP, a.b(-4 * len(LOOP))]
    return Machine(image_of({CODE: a.code(code)}, CODE), **options)  # type: ignore[arg-type]


def ran(code: list[int], core: str, runner: type[Runner]) -> Board:
    board = board_at([*code, a.b(0)], el=1, core=load_core(core), runner=runner)
    board.run(len(code))
    return board


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("core", CORES)
def test_a_core_that_has_them_executes_them(core: str, runner: type[Runner]) -> None:
    code = [*START, ONES, TWOS, 0x4F00_E403, USDOT, MOVE]  # MOVI V3.16B, #0
    board = ran(code, core, runner)
    assert board.cpu.engine.x(4) == 4 * 255 * 2
    assert (board.cpu.pc, board.executed) == (RAM + 4 * len(code), len(code))
    read = board.cpu.registers.read
    isar1, zfr0 = read(ID_AA64ISAR1_EL1), read(ID_AA64ZFR0_EL1)
    assert (isar1.I8MM, isar1.BF16, zfr0.I8MM, zfr0.BF16) == (1, 1, 1, 1)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(
    "core", ["neoverse-n1", "generic", "neoverse-v1,FEAT_I8MM=off", "max,FEAT_I8MM=off"]
)
def test_on_one_that_has_not_they_are_undefined(core: str, runner: type[Runner]) -> None:
    code = [*a.mov64(0, RAM + 0x800), a.msr(VBAR, 0), *START, USDOT]
    board = ran(code, core, runner)
    assert board.cpu.pc == RAM + 0x800 + 0x200
    assert board.cpu.registers.raw(system.ESR_EL1) == 1 << 25
    read = board.cpu.registers.read
    isar1, zfr0 = read(ID_AA64ISAR1_EL1), read(ID_AA64ZFR0_EL1)
    assert (isar1.I8MM, zfr0.I8MM) == (0, 0)


def test_a_feature_can_be_added_to_any_core() -> None:
    board = ran([*START, ONES, TWOS, 0x4F00_E403, USDOT, MOVE], "neoverse-n1,FEAT_I8MM=on", Runner)
    assert board.cpu.engine.x(4) == 2040
    assert board.cpu.registers.read(ID_AA64ISAR1_EL1).I8MM == 1
    assert board.cpu.registers.read(ID_AA64ZFR0_EL1).I8MM == 0  # it has no SVE


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(
    ("enabled", "word", "trap"),
    [
        (0, BFDOT, EC.AdvSIMDFPAccessTrap),
        (FPEN, BFDOT, None),
        (FPEN, USDOT_SVE, EC.SVEAccessTrap),
        (ZEN, USDOT_SVE, EC.AdvSIMDFPAccessTrap),
        (FPEN | ZEN, USDOT_SVE, None),
    ],
)
def test_traps_come_before_it(
    enabled: int, word: int, trap: EC | None, runner: type[Runner]
) -> None:
    code = [
        *(*a.mov64(0, RAM + 0x800), a.msr(VBAR, 0), *a.mov64(0, enabled), a.msr(CPACR, 0), a.ISB),
        word,
    ]
    board = ran(code, "neoverse-v1", runner)
    assert board.executed == len(code)
    taken = board.cpu.registers.raw(system.ESR_EL1) >> 26 if board.cpu.pc == RAM + 0xA00 else None
    assert taken == trap
    assert (board.cpu.pc == RAM + 4 * len(code)) == (trap is None)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("core", ["neoverse-v1", "max"])
@pytest.mark.parametrize("period", [1, 3, 7, None])
def test_both_runners_come_to_the_same(core: str, period: int | None, model: str) -> None:
    fast, reference = (
        looped(runner=runner, period=period, core=core, model=model)
        for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(700).differences(reference.run(700)) == {}
    assert fast.operations == reference.operations
    assert fast.board.executed == 700


def test_records_tell_each_as_an_operation_of_its_kind() -> None:
    machine = looped(period=1, core="max")
    machine.run(60)
    found = {}
    for operation, raw in zip(machine.operations, machine.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        record = placed.record
        found[operation.instruction.word] = record.op_class, record.op_payload, record.events
    retired = 2
    other = OperationClass.OTHER
    for word, payload in (
        (USDOT, 0x04),  # SIMD
        (BFDOT, 0x06),  # SIMD, FP
        (USDOT_SVE, 0x28),  # SVE with EVL 2: 128 bits
        (BFCVT_SVE, 0x2E),  # SVE, FP, PRED
    ):
        assert found[word] == (other, payload, retired), hex(word)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_limit_ends_a_run_before_and_after_one(runner: type[Runner]) -> None:
    at = len(START) + 4
    for operations in range(at, at + 4):
        machine = looped(core="max", runner=runner)
        assert machine.run(operations).ending is Ending.LIMIT
        assert machine.board.cpu.pc == CODE + 4 * operations
        machine.run(3)
        assert machine.board.executed == operations + 3


def test_python_carries_out_the_first_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    plain = Lacking.carry_out

    def noted(self: Lacking, row: Row, word: int) -> None:
        seen.append(row.name)
        plain(self, row, word)

    monkeypatch.setattr(Lacking, "carry_out", noted)
    monkeypatch.setenv(OPTION, "inline")
    without = looped(core="max", period=7).run(700)
    assert len(seen) > 200
    seen.clear()
    monkeypatch.delenv(OPTION)
    assert looped(core="max", period=7).run(700).differences(without) == {}
    assert len(seen) < 50  # those that a step over the sampled operation leads to


@pytest.mark.parametrize("el", [1, 2, 3])
def test_vectors_have_the_length_of_their_level(el: int) -> None:
    """ZCR_EL1, ZCR_EL2 and ZCR_EL3 allow 256, 512 and 1024 bits: the shortest that counts holds."""
    code = [PTRUE, 0x2538_CFE1, 0x2538_C042, 0x2538_C003, *[USDOT_SVE] * 3, a.b(0)]
    board = board_at(code, el=el, core=load_core("max"))
    cpu = board.cpu
    for register, value in ((system.CPACR_EL1, FPEN | ZEN), (system.CPTR_EL3, 1 << 8)):
        cpu.registers.set_raw(register, value)
    for op1, length in ((0, 1), (4, 3), (6, 7)):
        cpu.engine.set_system(Encoding(3, op1, 1, 2, 0), length)
    cpu.engine.rebuild()
    board.run(7)
    size = {1: 32, 2: 64, 3: 128}[el]
    assert (cpu.state.lacking != 0) == wanted("instructions")
    assert vector(cpu, 3, 2048) == int.from_bytes(
        (3 * 4 * 127 * 2).to_bytes(4, "little") * (size // 4), "little"
    )


DATA = 0x4010_0000
PTRUE_D = 0x25D8_E3E1  # P1.D
LDNT1W, STNT1W = 0xC500_C000, 0xE500_2000
"""Of [Zn.D, Xm], with Zt and P0 as 0."""


def index_d(d: int, n: int, step: int) -> int:
    """INDEX Z<d>.D, X<n>, #step."""
    return 0x04E0_4400 | (step & 31) << 16 | n << 5 | d


@pytest.mark.parametrize("period", [None, 1])
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_gathers_and_scatters_access_memory(runner: type[Runner], period: int | None) -> None:
    """LDNT1W {Z3.D}, P1/Z, [Z1.D, X2] and STNT1W {Z3.D}, P1, [Z1.D, X3]."""
    load = LDNT1W | 2 << 16 | 1 << 10 | 1 << 5 | 3
    store = STNT1W | 3 << 16 | 1 << 10 | 1 << 5 | 3
    code = [
        *(*START, PTRUE_D, *a.mov64(1, DATA), a.movz(2, 4), a.movz(3, 64), index_d(1, 1, 8)),
        *(load, store, a.add_imm(6, 6, 1), a.b(-12)),
    ]
    data = b"".join(n.to_bytes(4, "little") for n in (1, 2, 3, 4, 5, 6))
    image = image_of({CODE: a.code(code), DATA: data}, CODE)
    machine = Machine(image, core="max", runner=runner, period=period)
    machine.run(len(code) + 40)
    cpu = machine.board.cpu
    assert vector(cpu, 3, 128) == 2 | 4 << 64
    assert machine.board.memory.read(DATA + 64, 12) == bytes((2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0))
    assert machine.board.memory.read(CODE, 4 * len(code)) == a.code(code)
    found = {o.instruction.word: o for o in machine.operations}
    assert (load in found) == (store in found) == bool(period)
    elements = {DATA + 4, DATA + 12, DATA + 64, DATA + 72}
    assert {found[word].va for word in found if word in (load, store)} <= elements


@pytest.mark.parametrize("address", [0x3_0000_0000, 1 << 50])
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_gather_faults_as_one_of_sve_does(runner: type[Runner], address: int) -> None:
    """LDNT1W {Z3.D}, P1/Z, [Z1.D, X2], and LD1W {Z3.D}, P1/Z, [X2, Z1.D], which the engine has.

    Nothing is at the first address, and the second one has more bits than physical addresses.
    """
    found = []
    for load in (LDNT1W | 2 << 16 | 1 << 10 | 1 << 5 | 3, 0xC541_C443):
        code = [
            *(*a.mov64(0, RAM + 0x800), a.msr(VBAR, 0), *START, PTRUE_D),
            *(*a.mov64(1, address), a.movz(2, 4), index_d(1, 1, 8), load),
        ]
        board = ran(code, "max", runner)
        registers = board.cpu.registers
        assert (board.cpu.pc, board.executed) == (RAM + 0xA00, len(code))
        assert registers.raw(system.ELR_EL1) == RAM + 4 * len(code) - 4
        esr = registers.raw(system.ESR_EL1)
        known = esr >> 10 & 1 == 0  # FnV
        found.append((esr, registers.raw(system.FAR_EL1) if known else None))
    assert found[0] == found[1]
    assert found[0][0] >> 26 == EC.DataAbort + 1


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("core", ["neoverse-n2", "neoverse-v2", "cortex-x4", "max"])
def test_cores_of_armv9_have_sve2(core: str, runner: type[Runner]) -> None:
    mul = 0x04A2_6023  # MUL Z3.S, Z1.S, Z2.S
    board = ran([*START, 0x25B8_C0E1, 0x25B8_C0C2, mul, MOVE], core, runner)  # DUP #7, DUP #6
    assert board.cpu.engine.x(4) == 42
    zfr0 = board.cpu.registers.read(ID_AA64ZFR0_EL1)
    assert (zfr0.SVEver, zfr0.BitPerm, zfr0.SM4) == (2 if core == "max" else 1, 1, 1)


@pytest.mark.parametrize("core", ["neoverse-v1", "generic", "max,FEAT_SVE2=off"])
def test_others_have_not(core: str) -> None:
    board = ran([*a.mov64(0, RAM + 0x800), a.msr(VBAR, 0), *START, 0x04A2_6023], core, Runner)
    assert board.cpu.registers.raw(system.ESR_EL1) == 1 << 25
    assert board.cpu.registers.read(ID_AA64ZFR0_EL1).SVEver == 0


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [1, 5, None])
def test_both_runners_come_to_the_same_with_sve2(period: int | None) -> None:
    """MUL, USRA, XAR, WHILEWR, BSL, MATCH, FADDP and a gather among other operations."""
    loop = [
        *(0x04A2_6023, a.add_imm(5, 5, 1), 0x4518_E424, 0x0420_3443 | 1 << 22, 0x25A2_3023),
        *(a.cbz(5, 8), 0x0422_3C23, 0x4522_8425, 0x6490_8443, a.subs(7, 5, 6), 0x25A2_1002),
        LDNT1W | 2 << 16 | 1 << 10 | 1 << 5 | 3,
    ]
    code = [
        *(*START, PTRUE_D, *a.mov64(1, DATA), a.movz(2, 4), index_d(1, 1, 8)),
        *(*loop, index_d(1, 1, 8), a.b(-4 * len(loop) - 4)),
    ]
    image = image_of({CODE: a.code(code), DATA: bytes(range(64))}, CODE)
    fast, reference = (
        Machine(image, core="neoverse-n2", runner=runner, period=period) for runner in BOTH
    )
    assert fast.run(500).differences(reference.run(500)) == {}
    assert fast.operations == reference.operations
