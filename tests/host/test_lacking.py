"""Instructions that the engine lacks: counted, sampled, trapped as those that it has."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ISAR1_EL1, ID_AA64ZFR0_EL1
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.accelerators import OPTION
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
    assert (isar1.I8MM, isar1.BF16, zfr0.I8MM, zfr0.BF16, zfr0.SVEver) == (1, 1, 1, 1, 0)


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
    assert cpu.state.lacking != 0
    assert vector(cpu, 3, 2048) == int.from_bytes(
        (3 * 4 * 127 * 2).to_bytes(4, "little") * (size // 4), "little"
    )
