"""FEAT_LS64 by hand: QEMU 7.2 lacks it."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ISAR1_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.guests import board as under_el2
from tests.host.guests import put, run
from tests.host.normal_memory import DATA, LOAD_FAULT, STORE_FAULT, machine
from tests.host.pe.access import tag_words as tags
from tests.host.pe.access.tagged_boards import USER, tagged
from tests.host.run.debug.debugged import DATA as WATCHED
from tests.host.run.debug.debugged import taken
from tests.instructions.ordered_words import X1, watch, watched_esr
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
LD64B, ST64B = 0xF83F_D000, 0xF83F_9000
X6 = 6 << 5
UNDEFINED = 1 << 25
TRAP = 0x0A << 26 | 1 << 25 | 2
"""The syndrome of a trapped LD64B or ST64B."""
EN_ALS = 1 << 56
FIRST = 64 - DATA % 64
"""From DATA on, a multiple of 64."""
BLOCK = DATA + FIRST
CONTENTS = bytes(range(100, 164))
WORDS = [int.from_bytes(CONTENTS[n : n + 8], "little") for n in range(0, 64, 8)]


def ran(word: int, runner: type[Runner], address: int, base: int = 1, core: str = "max") -> Board:
    """X2 to X29 hold their numbers before, but for the base."""
    setting = [a.movz(n, n) for n in range(2, 20)]
    setting += [a.movz(n, n) for n in range(24, 30)] + a.mov64(base, address)
    board = machine([*setting, word, a.add_imm(30, 31, 5)], runner, checks=False, core=core)
    board.memory.fill(BLOCK, CONTENTS)
    board.run(90)
    return board


@RUNNERS
@pytest.mark.parametrize("base", [1, 2, 5, 9])
def test_eight_registers_are_loaded(base: int, runner: type[Runner]) -> None:
    """X2 to X9; the base may be one of them."""
    board = ran(LD64B | base << 5 | 2, runner, BLOCK, base)
    x = board.cpu.engine.x
    assert [x(n) for n in range(2, 10)] == WORDS
    assert (x(10), x(20)) == (10, 0)
    assert board.memory.read(BLOCK, 64) == CONTENTS


@RUNNERS
@pytest.mark.parametrize("base", [1, 8, 15])
def test_eight_registers_are_stored(base: int, runner: type[Runner]) -> None:
    board = ran(ST64B | base << 5 | 8, runner, BLOCK, base)
    values = [BLOCK if n == base else n for n in range(8, 16)]
    expected = b"".join(value.to_bytes(8, "little") for value in values)
    assert board.memory.read(BLOCK, 64) == expected
    assert board.memory.read(BLOCK + 64, 8) == bytes(8)
    assert (board.cpu.engine.x(base), board.cpu.engine.x(20)) == (BLOCK, 0)


@RUNNERS
@pytest.mark.parametrize(("word", "fault"), [(LD64B, LOAD_FAULT), (ST64B, STORE_FAULT)])
def test_what_faults_changes_nothing(word: int, fault: int, runner: type[Runner]) -> None:
    """64 bytes are aligned as such. Beyond the table's addresses there is a fault of level 0."""
    for address, esr in ((BLOCK + 32, fault), ((1 << 40) + 64, fault & ~0x3F | 4)):
        board = ran(word | X1 | 2, runner, address)
        x = board.cpu.engine.x
        assert (x(20), x(21), x(23)) == (1, esr, address)
        assert [x(n) for n in range(2, 10)] == list(range(2, 10))
        assert board.memory.read(BLOCK, 64) == CONTENTS


@RUNNERS
@pytest.mark.parametrize(
    ("core", "word"),
    [
        ("max", LD64B | X1 | 3),
        ("max", ST64B | X1 | 24),
        ("max", LD64B & ~(1 << 16) | X1 | 2),
        ("max", 0xF823_B000 | X1 | 4),  # ST64BV: FEAT_LS64_V
        ("max", 0xF823_A000 | X1 | 4),  # ST64BV0: FEAT_LS64_ACCDATA
        ("max,FEAT_LS64=off", LD64B | X1 | 2),
        ("cortex-x4", ST64B | X1 | 2),
    ],
)
def test_what_is_undefined(core: str, word: int, runner: type[Runner]) -> None:
    board = ran(word, runner, BLOCK, core=core)
    assert (board.cpu.engine.x(20), board.cpu.engine.x(21)) == (1, UNDEFINED)
    assert (core == "max") == board.cpu.registers.read(ID_AA64ISAR1_EL1).LS64


@RUNNERS
@pytest.mark.parametrize("word", [LD64B, ST64B])
def test_el2_lets_el1(word: int, runner: type[Runner]) -> None:
    """HCRX_EL2.EnALS, which has no effect while SCR_EL3.HXEn is 0."""
    guest = [*a.mov64(1, RAM + 0x8000), word | X1 | 2]
    for enabled in (0, 1):
        value = system.HCRX_EL2.of(EnALS=enabled).value
        board = under_el2({system.HCRX_EL2: value}, guest, runner, core=load_core("max"))
        count, esr, elr = run(board)
        assert count == 1 - enabled
        if not enabled:
            assert (esr, elr) == (TRAP, RAM + 0x1000 + 4 * (len(guest) - 1))


@RUNNERS
@pytest.mark.parametrize("enabled", [False, True])
def test_el1_lets_el0(enabled: bool, runner: type[Runner]) -> None:
    user = [*a.mov64(1, USER - 0x800), LD64B | X1 | 2, ST64B | X1 | 2, a.svc(0)]
    code = [*put(system.ELR_EL1, USER), *put(system.SPSR_EL1, 0x3C0), a.ERET]
    board, before = tagged(code, runner, EN_ALS * enabled, user=user, core=load_core("max"))
    board.run(before + len(code) + len(user))
    esr = board.cpu.registers.raw(system.ESR_EL1)
    assert esr == (0x5600_0000 if enabled else TRAP)


@RUNNERS
@pytest.mark.parametrize("word", [LD64B, ST64B])
def test_a_watchpoint_stops_before_the_access(word: int, runner: type[Runner]) -> None:
    esr = watched_esr(stores=word == ST64B)
    for watched, stops in ((WATCHED + 56, True), (WATCHED + 64, False)):
        registers = watch(watched)
        code = [a.movz(8, 7), word | X6 | 8]
        found, board = taken(code, registers, runner, core=load_core("max"))
        assert [(one.place, one.esr, one.far) for one in found] == (
            [(4, esr, watched)] if stops else []
        )
        if stops:
            assert board.memory.read(WATCHED, 256) == bytes(range(256))
            assert board.cpu.engine.x(8) == 7


@RUNNERS
@pytest.mark.parametrize("word", [LD64B, ST64B])
@pytest.mark.parametrize("fails", [False, True])
def test_tags_are_checked(word: int, fails: bool, runner: type[Runner]) -> None:
    code = [*a.mov64(7, tags.DATA), *a.mov64(8, tags.tag(4))]
    code += [tags.stg(8, 7, 16 * n) for n in range(4)]
    code += [*a.mov64(6, tags.tag(7 if fails else 4, tags.DATA)), word | X6 | 8, a.b(0)]
    board, before = tagged(code, runner, tags.ATA | tags.SYNC, core=load_core("max"))
    board.run(before + len(code) + 4)
    registers = board.cpu.registers
    assert (board.cpu.pc == tags.VECTORS + 0x200) == fails
    if fails:
        write = tags.WRITE if word == ST64B else 0
        assert registers.raw(system.ESR_EL1) == tags.ESR_CHECK | write
        assert registers.raw(system.FAR_EL1) == tags.tag(7, tags.DATA)
        assert board.memory.read(tags.DATA, 64) == bytes(64)


CODE = 0x4000_0000


def looped(**options: object) -> Machine:
    loop = [*a.mov64(1, CODE + 0x400), LD64B | X1 | 8, a.add_imm(8, 8, 1), ST64B | X1 | 8]
    image = image_of({CODE: a.code([*loop, a.b(-4 * len(loop))]), CODE + 0x400: CONTENTS}, CODE)
    return Machine(image, core="max", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [1, 3, None])
def test_both_runners_come_to_the_same(period: int | None, model: str) -> None:
    fast, reference = (
        looped(runner=runner, period=period, model=model) for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(60).differences(reference.run(60)) == {}
    assert fast.operations == reference.operations
    assert fast.board.cpu.engine.x(8) == reference.board.cpu.engine.x(8) > WORDS[0]


def test_records_tell_loads_and_stores_of_general_registers() -> None:
    loop = looped(period=1)
    loop.run(20)
    found = {}
    for operation, raw in zip(loop.operations, loop.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        record = placed.record
        found[operation.instruction.word] = record.op_class, record.op_payload
    assert found[LD64B | X1 | 8] == (OperationClass.LOAD_STORE, 0)
    assert found[ST64B | X1 | 8] == (OperationClass.LOAD_STORE, 1)
