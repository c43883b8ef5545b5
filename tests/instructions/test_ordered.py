"""FEAT_LRCPC3 by hand: QEMU 7.2 lacks it."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ISAR1_EL1
from spe_unicorn.cores.profile import CoreError, load_core
from spe_unicorn.host.pe.vectors import set_vector, vector
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.guests import put
from tests.host.normal_memory import DATA, LOAD_FAULT, SCTLR, STORE_FAULT, machine
from tests.instructions.ordered_words import (
    LDAP1,
    LDAPR,
    LDAPUR,
    LDIAPP,
    QUAD,
    SECOND,
    STAYS,
    STILP,
    STL1,
    STLR,
    STLUR,
    WIDE,
)
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
RT2 = 16
BYTES = bytes(range(1, 65))
UNDEFINED = 1 << 25


def at(offset: int, size: int = 8) -> int:
    """What is at DATA, little-endian."""
    return int.from_bytes(BYTES[offset : offset + size], "little")


def ran(
    word: int, runner: type[Runner], base: int = DATA + 16, core: str = "max", *, nAA: bool = False
) -> Board:
    """X3 and X4 have numbers of their own, and each byte of V3 is 0xEE."""
    setting = [*a.mov64(1, base), *a.mov64(3, 0x1111_2222_3333_4444), *a.mov64(4, 0x5555 << 40)]
    setting += put(system.SCTLR_EL3, SCTLR | 0b101 | nAA << 6)
    setting += [*put(system.CPTR_EL3, 1 << 8), 0x4F07_E5C3]  # MOVI V3.16B, #0xEE
    board = machine([*setting, word, a.add_imm(9, 9, 1)], runner, checks=False, core=core)
    board.run(80)
    assert board.cpu.engine.x(9) == 1
    return board


def memory(board: Board) -> bytes:
    data = board.memory.read(DATA, 64)
    assert data is not None
    return data


@RUNNERS
@pytest.mark.parametrize(
    ("word", "first", "second", "moves"),
    [
        (LDIAPP | WIDE, at(16), at(24), 16),
        (LDIAPP, at(16, 4), at(20, 4), 8),
        (LDIAPP | WIDE | STAYS, at(16), at(24), 0),
        (LDIAPP | STAYS, at(16, 4), at(20, 4), 0),
    ],
)
def test_pairs_are_loaded(
    word: int, first: int, second: int, moves: int, runner: type[Runner]
) -> None:
    board = ran(word | 4 << RT2 | 3, runner)
    x = board.cpu.engine.x
    assert (x(3), x(4), x(1), x(20)) == (first, second, DATA + 16 + moves, 0)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "place", "size", "moves"),
    [
        (STILP | WIDE, 0, 8, -16),
        (STILP, 8, 4, -8),
        (STILP | WIDE | STAYS, 16, 8, 0),
        (STILP | STAYS, 16, 4, 0),
    ],
)
def test_pairs_are_stored(
    word: int, place: int, size: int, moves: int, runner: type[Runner]
) -> None:
    board = ran(word | 4 << RT2 | 3, runner)
    values = (0x1111_2222_3333_4444, 0x5555 << 40)
    stored = b"".join((v & (1 << 8 * size) - 1).to_bytes(size, "little") for v in values)
    expected = BYTES[:place] + stored + BYTES[place + 2 * size :]
    assert memory(board) == expected
    assert (board.cpu.engine.x(1), board.cpu.engine.x(20)) == (DATA + 16 + moves, 0)


@RUNNERS
def test_one_register_moves_its_base(runner: type[Runner]) -> None:
    for word, value, moved in ((LDAPR | WIDE, at(16), 8), (LDAPR, at(16, 4), 4)):
        x = ran(word | 3, runner).cpu.engine.x
        assert (x(3), x(1), x(20)) == (value, DATA + 16 + moved, 0)
    for word, size in ((STLR | WIDE, 8), (STLR, 4)):
        board = ran(word | 3, runner)
        stored = (0x1111_2222_3333_4444 & (1 << 8 * size) - 1).to_bytes(size, "little")
        assert memory(board) == BYTES[: 16 - size] + stored + BYTES[16:]
        assert board.cpu.engine.x(1) == DATA + 16 - size


@RUNNERS
@pytest.mark.parametrize("scale", range(5))
def test_vector_registers_with_an_offset(scale: int, runner: type[Runner]) -> None:
    """A load clears what is above. The offset is 9 bits with a sign, and scaled by nothing."""
    size, bits = 1 << scale, QUAD if scale == 4 else scale << 30
    board = ran(LDAPUR | bits | (-8 & 0x1FF) << 12 | 3, runner, DATA + 24)
    assert vector(board.cpu, 3, 128) == at(16, size)
    board = ran(STLUR | bits | 8 << 12 | 3, runner, DATA + 8)
    assert memory(board) == BYTES[:16] + bytes([0xEE]) * size + BYTES[16 + size :]
    assert board.cpu.engine.x(20) == 0


@RUNNERS
def test_a_lane_is_loaded_and_stored(runner: type[Runner]) -> None:
    ones = 0xEEEE_EEEE_EEEE_EEEE
    assert vector(ran(LDAP1 | 3, runner).cpu, 3, 128) == at(16) | ones << 64
    assert vector(ran(LDAP1 | SECOND | 3, runner).cpu, 3, 128) == ones | at(16) << 64
    for word in (STL1 | 3, STL1 | SECOND | 3):
        assert memory(ran(word, runner)) == BYTES[:16] + bytes([0xEE]) * 8 + BYTES[24:]


WORDS = [
    (LDIAPP | WIDE | 4 << RT2 | 3, 0, 16, LOAD_FAULT),
    (STILP | 4 << RT2 | 3, -8, 8, STORE_FAULT),
    (LDAPR | 3, 0, 4, LOAD_FAULT),
    (STLR | WIDE | 3, -8, 8, STORE_FAULT),
    (LDAPUR | QUAD | 4 << 12 | 3, 4, 16, LOAD_FAULT),
    (STLUR | 3 << 30 | 3, 0, 8, STORE_FAULT),
    (LDAP1 | 3, 0, 8, LOAD_FAULT),
    (STL1 | 3, 0, 8, STORE_FAULT),
]
"""With the offset of the access, its size, and its Alignment fault."""


@RUNNERS
@pytest.mark.parametrize(("word", "offset", "size", "fault"), WORDS)
def test_an_access_lies_within_16_bytes(
    word: int, offset: int, size: int, fault: int, runner: type[Runner]
) -> None:
    """UnalignedAccessFaults() with FEAT_LSE2; SCTLR_ELx.nAA allows it anywhere."""
    for begin in (1, 15):  # from DATA + 16 on
        for allowed in (False, True):
            base = DATA + 16 + begin - offset
            board = ran(word, runner, base, nAA=allowed)
            x = board.cpu.engine.x
            faults = begin + size > 16 and not allowed
            assert x(20) == faults
            if faults:
                assert (x(21), x(23), x(1)) == (fault, DATA + 16 + begin, base)
                assert (x(3), memory(board)) == (0x1111_2222_3333_4444, BYTES)
                assert vector(board.cpu, 3, 128) == int("EE" * 16, 16)


@RUNNERS
@pytest.mark.parametrize(("word", "offset", "size", "fault"), WORDS)
def test_a_fault_of_translation_leaves_all(
    word: int, offset: int, size: int, fault: int, runner: type[Runner]
) -> None:
    """Beyond 2 to the power of 39 the table translates nothing: a fault of level 0."""
    base = (1 << 40) + 16 - offset
    board = ran(word, runner, base)
    x = board.cpu.engine.x
    level_0 = fault & ~0x3F | 4
    assert (x(20), x(21), x(23), x(1)) == (1, level_0, base + offset, base)
    assert x(3) == 0x1111_2222_3333_4444
    assert vector(board.cpu, 3, 128) == int("EE" * 16, 16)


@RUNNERS
@pytest.mark.parametrize("core", ["max,FEAT_LRCPC3=off", "cortex-x4"])
def test_on_other_cores_they_are_undefined(core: str, runner: type[Runner]) -> None:
    for word, *_ in WORDS:
        board = ran(word, runner, core=core)
        assert (board.cpu.engine.x(20), board.cpu.engine.x(21)) == (1, UNDEFINED)
        assert memory(board) == BYTES
        assert board.cpu.registers.read(ID_AA64ISAR1_EL1).LRCPC < 3


def test_the_field_says_so() -> None:
    registers = board_at([a.NOP], core=load_core("max")).cpu.registers
    assert registers.read(ID_AA64ISAR1_EL1).LRCPC == 3
    with pytest.raises(CoreError, match="FEAT_LRCPC3 needs FEAT_LSE2"):
        load_core("neoverse-n1,FEAT_LRCPC3=on")


@RUNNERS
@pytest.mark.parametrize(
    ("word", "trap"), [(LDAPUR | 3, True), (STL1 | 3, True), (LDAPR | 3, False)]
)
def test_vector_registers_are_trapped(word: int, trap: bool, runner: type[Runner]) -> None:
    setting = [*put(system.VBAR_EL1, RAM + 0x800), *put(system.CPACR_EL1, 0), a.ISB]
    code = [*setting, *a.mov64(1, RAM + 0x2000), word, a.b(0)]
    board = board_at(code, el=1, core=load_core("max"), runner=runner)
    board.run(len(code) - 1)
    assert (board.cpu.pc == RAM + 0xA00) == trap
    if trap:
        assert board.cpu.registers.raw(system.ESR_EL1) >> 26 == EC.AdvSIMDFPAccessTrap


CODE = 0x4000_0000


def looped(**options: object) -> Machine:
    words = [word for word, *_ in WORDS]
    loop = [*a.mov64(1, CODE + 0x400), *words, a.add_imm(5, 5, 1)]
    code = [*put(system.CPACR_EL1, 0x33 << 16), a.ISB, *loop, a.b(-4 * len(loop))]
    image = image_of({CODE: a.code(code), CODE + 0x300: bytes(0x200)}, CODE)
    return Machine(image, core="max", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [1, 3, None])
def test_both_runners_come_to_the_same(period: int | None, model: str) -> None:
    fast, reference = (
        looped(runner=runner, period=period, model=model) for runner in (Runner, ReferenceRunner)
    )
    for machine_of in (fast, reference):
        set_vector(machine_of.board.cpu, 3, 0x1234, 128)
    assert fast.run(150).differences(reference.run(150)) == {}
    assert fast.operations == reference.operations


def test_records_tell_that_they_acquire_and_release() -> None:
    """AR is bit 4, with bit 1 for this kind of loads and stores."""
    loop = looped(period=1)
    loop.run(60)
    found = {}
    for operation, raw in zip(loop.operations, loop.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        found[operation.instruction.word] = placed.record.op_class, placed.record.op_payload
    for word, _, _, fault in WORDS[:4]:
        store = fault == STORE_FAULT
        assert found[word] == (OperationClass.LOAD_STORE, 1 << 4 | 1 << 1 | store)
