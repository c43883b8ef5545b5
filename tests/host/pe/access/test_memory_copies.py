"""Memory copies and sets (FEAT_MOPS) on the machine: who may, and what stops them in the middle.

Expected values are worked out by hand from the pages of CPYP and SETP (Arm ARM C6.2),
CheckMOPSEnabled() and MismatchedCpySetTargetEL(). What is IMPLEMENTATION DEFINED is option A, with
1 to 16 bytes for a prologue and for an epilogue.
"""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ISAR2_EL1, ID_AA64MMFR1_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.guests import board as under_el2
from tests.host.guests import put, run
from tests.host.pe.access.copy_words import EPILOGUE, MAIN, PROLOGUE, STAGES, cpy, cpyf, setg, sets
from tests.host.pe.access.tag_words import ATA, DATA, SYNC, VECTORS, tag
from tests.host.pe.access.tagged_boards import READ_ONLY, UNMAPPED, UNTAGGED, USER, tagged
from tests.host.run.debug import debugged
from tests.host.uart_guests import UART
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
MAX = load_core("max")
MASK = (1 << 64) - 1
BYTES = bytes(n * 7 & 0xFF for n in range(0x3000))
READ_FAULT, WRITE_FAULT = 0x9600_0006, 0x9600_0046
"""Translation faults of level 2 at EL1."""
PERMISSION, WRITE, ALIGNMENT, TAG_CHECK = 0x9600_000E, 1 << 6, 0x9600_0021, 0x9600_0011
MEMORY_COPY, UNDEFINED = 0x27 << 26 | 1 << 25, 1 << 25
MSCEN = 1 << 33
PL011 = (0x11, 0x10, 0x14, 0x00, 0x0D, 0xF0, 0x05, 0xB1)


def three(to: int, source: int, size: int) -> list[int]:
    return [*a.mov64(1, to), *a.mov64(2, source), *a.mov64(3, size)]


def at_el1(
    code: list[int], runner: type[Runner], sctlr: int = 0, operations: int = 0, **options: object
) -> Board:
    """The board after ``code`` at EL1; vectors wait."""
    board, _ = tagged([*code, a.b(0)], runner, sctlr, core=MAX, **options)  # type: ignore[arg-type]
    board.memory.fill(DATA, BYTES[:0xC00])
    board.memory.fill(UNTAGGED, BYTES)
    board.run(operations or len(code))
    return board


def registers(board: Board) -> tuple[int, int, int]:
    return tuple(board.cpu.engine.x(n) for n in (1, 2, 3))  # type: ignore[return-value]


def fault(board: Board) -> tuple[int, int, int]:
    """The syndrome, the address, and which operation of three from the code's third last."""
    raw = board.cpu.registers.raw
    assert board.cpu.pc in (VECTORS + 0x200, VECTORS + 0x400)
    return raw(system.ESR_EL1), raw(system.FAR_EL1), raw(system.ELR_EL1)


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 40, 0x2345])
@pytest.mark.parametrize(
    ("op", "to", "source"),
    [
        (cpy, 0x105, 0x3007),
        (cpy, 0x105, 0x107),  # they overlap
        (cpy, 0x107, 0x105),  # backwards
        (cpyf, 0x107, 0x3005),
    ],
)
def test_a_copy(op: object, to: int, source: int, size: int, runner: type[Runner]) -> None:
    words = [op(stage, 1, 2, 3) for stage in STAGES]  # type: ignore[operator]
    code = [*three(UNTAGGED + to, UNTAGGED + source, size), *words, a.mrs(4, (3, 3, 4, 2, 0))]
    board = at_el1(code, runner)
    expected = bytearray(BYTES + bytes(0x4000))
    expected[to : to + size] = expected[source : source + size]
    assert board.memory.read(UNTAGGED, len(expected)) == expected
    back = op is cpy and source < to < source + size
    ends = (to, source) if back else (to + size, source + size)
    assert registers(board) == (UNTAGGED + ends[0], UNTAGGED + ends[1], 0)
    assert board.cpu.engine.x(4) == 0


@RUNNERS
@pytest.mark.parametrize("size", [0, 3, 0x1234])
def test_a_set(size: int, runner: type[Runner]) -> None:
    words = [sets(stage, 1, 3, n) for stage, n in zip(STAGES, (2, 2, 2), strict=True)]
    board = at_el1([*three(UNTAGGED + 0x7F5, 0x1A5, size), *words], runner)
    expected = bytearray(BYTES)
    expected[0x7F5 : 0x7F5 + size] = b"\xa5" * size
    assert board.memory.read(UNTAGGED, len(expected)) == expected
    assert registers(board) == (UNTAGGED + 0x7F5 + size, 0x1A5, 0)
    zeros = [sets(stage, 1, 3, 31) for stage in STAGES]
    board = at_el1([*three(UNTAGGED, 0, 33), *zeros], runner)
    assert board.memory.read(UNTAGGED, 34) == bytes(33) + BYTES[33:34]


@RUNNERS
def test_a_long_one_pauses_and_interrupts_come_between(runner: type[Runner]) -> None:
    """64 KiB are moved by one execution at most, and each is an operation."""
    code = [*three(UNTAGGED + 0x10_0000, UNTAGGED, 0x6_0000), *(cpyf(s, 1, 2, 3) for s in STAGES)]
    board = at_el1(code, runner, operations=len(code) - 1)
    end = UNTAGGED + 0x16_0000, UNTAGGED + 0x6_0000
    assert registers(board) == (*end, -(0x6_0000 - 16 - 0x1_0000) & MASK)
    left = board.executed
    board.run(4)
    assert registers(board) == (*end, -(0x6_0000 - 16 - 0x5_0000) & MASK)
    board.run(3)
    assert (registers(board), board.executed - left) == ((*end, 0), 7)
    assert board.memory.read(UNTAGGED + 0x10_0000, len(BYTES)) == BYTES


NOWHERE = UNMAPPED + 0x1000


@RUNNERS
@pytest.mark.parametrize(
    ("words", "to", "source", "size", "esr", "far", "after", "stage"),
    [
        # the source ends at a page that there is not, 0x53 bytes on
        (cpyf, UNTAGGED + 5, UNMAPPED - 0x53, 0x100, READ_FAULT, UNMAPPED, 0x53, MAIN),
        (cpyf, UNTAGGED + 5, UNMAPPED - 4, 0x100, READ_FAULT, UNMAPPED, 4, PROLOGUE),
        (cpyf, UNTAGGED, UNMAPPED - 24, 27, READ_FAULT, UNMAPPED, 24, EPILOGUE),
        (sets, READ_ONLY - 3, 0x55, 0x100, PERMISSION | WRITE, READ_ONLY, 3, MAIN),
        (sets, READ_ONLY - 0x1003, 0x55, 0x1100, PERMISSION | WRITE, READ_ONLY, 0x1003, MAIN),
        (cpyf, READ_ONLY - 0x21, UNTAGGED, 0x80, PERMISSION | WRITE, READ_ONLY, 0x21, MAIN),
    ],
)
def test_a_fault_in_the_middle(
    words: object,
    to: int,
    source: int,
    size: int,
    esr: int,
    far: int,
    after: int,
    stage: int,
    runner: type[Runner],
) -> None:
    """All that comes before has been moved, and the registers say so."""
    order = (1, 2, 3) if words is cpyf else (1, 3, 2)
    code = [*three(to, source, size), *(words(s, *order) for s in STAGES)]  # type: ignore[operator]
    board = at_el1(code, runner)
    found, address, link = fault(board)
    assert (found, address) == (esr, far)
    if stage == PROLOGUE:
        step = after if words is cpyf else 0
        assert registers(board) == (to + after, source + step, size - after)
    else:
        end = source + size if words is cpyf else source
        assert registers(board) == (to + size, end, after - size & MASK)
    words_there = board.memory.read(link, 4)
    assert words_there is not None
    assert int.from_bytes(words_there, "little") == code[len(code) - 3 + stage]
    moved = board.memory.read(to, after)
    assert moved == (
        b"\x55" * after if words is sets else moved if source > UNTAGGED else BYTES[:after]
    )
    spare = [board.cpu.engine.x(n) for n in range(4, 8)]
    assert spare == [0] * 4


@RUNNERS
def test_a_fault_of_a_copy_backwards(runner: type[Runner]) -> None:
    """It begins at the end: 0x20 bytes fit in the page beyond what is read alone."""
    to, source = UNTAGGED + 0x1F_FFF0, UNTAGGED + 0x1F_FF00
    code = [*three(to, source, 0x200), *(cpy(s, 1, 2, 3) for s in STAGES)]
    board = at_el1(code, runner)
    assert fault(board)[:2] == (PERMISSION | WRITE, to + 0x1FF)
    assert registers(board) == (to, source, 0x200)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "size", "carry", "iss"),
    [
        (cpy(MAIN, 1, 2, 3, 0b0110), -64, True, 3 << 16 | 0b0110 << 19),
        (cpyf(EPILOGUE, 1, 2, 3), -64, False, 1 << 16 | 1 << 18),
        (sets(MAIN, 1, 3, 2, 2), 64, False, 1 << 16 | 1 << 24 | 2 << 19),
    ],
)
def test_what_no_prologue_left(
    word: int, size: int, carry: bool, iss: int, runner: type[Runner]
) -> None:
    flags = a.msr((3, 3, 4, 2, 0), 4)
    code = [*three(UNTAGGED, UNTAGGED, size & MASK), *a.mov64(4, carry << 29), flags, word]
    board = at_el1(code, runner)
    raw = board.cpu.registers.raw
    assert board.cpu.pc == VECTORS + 0x200
    assert raw(system.ESR_EL1) == MEMORY_COPY | iss | 1 << 10 | 2 << 5 | 3
    link = board.memory.read(raw(system.ELR_EL1), 4)
    assert link == word.to_bytes(4, "little")
    assert registers(board) == (UNTAGGED, UNTAGGED, size & MASK)


@RUNNERS
@pytest.mark.parametrize(
    ("hcrx", "taken"),
    [
        ({}, (1, UNDEFINED)),  # MSCEn is 0
        ({"MSCEn": 1}, (0, 0)),
        ({"MSCEn": 1, "MCE2": 1}, (1, MEMORY_COPY | 1 << 16 | 1 << 18 | 1 << 10 | 2 << 5 | 3)),
    ],
)
def test_el2_lets_el1(hcrx: dict[str, int], taken: tuple[int, int], runner: type[Runner]) -> None:
    """UNDEFINED goes to EL1, whose vectors are those of EL2 here, at the same level."""
    guest = [*put(system.VBAR_EL1, RAM + 0x8000), *three(RAM + 0x7000, RAM, 32)]
    wrong = "MCE2" in hcrx
    guest += [cpyf(EPILOGUE if wrong else PROLOGUE, 1, 2, 3)]
    value = system.HCRX_EL2.of(**hcrx).value
    board = under_el2({system.HCRX_EL2: value}, guest, runner, core=MAX)
    board.memory.fill(RAM + 0x8200, a.code([0xD400_0002, a.b(0)]))  # HVC
    if wrong:
        assert run(board)[:2] == taken
        return
    board.run(200)
    esr = board.cpu.registers.raw(system.ESR_EL1)
    if taken[0]:
        assert esr == UNDEFINED
    else:
        assert (board.cpu.engine.x(20), board.cpu.engine.x(3)) == (0, -16 & MASK)


@RUNNERS
@pytest.mark.parametrize("enabled", [False, True])
def test_el0_needs_mscen(enabled: bool, runner: type[Runner]) -> None:
    user = [*three(USER - 0x800, USER, 8), *(cpyf(s, 1, 2, 3) for s in STAGES), a.svc(0)]
    code = [*put(system.ELR_EL1, USER), *put(system.SPSR_EL1, 0x3C0), a.ERET]
    board = at_el1(code, runner, enabled * MSCEN, len(code) + len(user), user=user)
    assert board.cpu.registers.raw(system.ESR_EL1) == (0x5600_0000 if enabled else UNDEFINED)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "esr"),
    [
        (cpyf(PROLOGUE, 1, 2, 3, 0b0001), 0x9600_004F),  # its store as EL0 would make it
        (cpyf(PROLOGUE, 1, 2, 3, 0b0010), 0x9600_000F),
        (cpyf(PROLOGUE, 1, 2, 3, 0b1100), None),
    ],
)
def test_unprivileged_accesses(word: int, esr: int | None, runner: type[Runner]) -> None:
    """EL0 has no access to these pages: a permission fault of level 3."""
    board = at_el1([*three(DATA + 0x800, DATA, 8), word], runner)
    if esr is None:
        assert registers(board)[2] == 0
    else:
        far = DATA + (0x800 if esr & WRITE else 0)
        assert fault(board)[:2] == (esr, far)


@RUNNERS
def test_setg_tags_what_it_sets(runner: type[Runner]) -> None:
    to = tag(6, DATA + 0x40)
    code = [*three(to, 0x77, 0x60), *(setg(s, 1, 3, 2) for s in STAGES)]
    board = at_el1(code, runner, ATA)
    assert registers(board) == (to + 0x60, 0x77, 0)
    assert board.memory.read(DATA + 0x40, 0x60) == b"\x77" * 0x60
    tags = board.cpu.tags
    assert tags is not None
    assert [tags.read(DATA + n) for n in range(0x30, 0xB0, 16)] == [0, *[6] * 6, 0]
    board = at_el1([*three(to | 8, 0x77, 0x60), setg(PROLOGUE, 1, 3, 2)], runner, ATA)
    assert fault(board)[:2] == (ALIGNMENT | WRITE, to | 8)


@RUNNERS
def test_tags_are_checked(runner: type[Runner]) -> None:
    """The source has the tag 3 for 32 bytes, and none after that; what it is for is said."""
    code = [*three(tag(3, DATA), 0x11, 0x20), *(setg(s, 1, 3, 2) for s in STAGES)]
    code += [*three(UNTAGGED, tag(3, DATA), 0x40), *(cpyf(s, 1, 2, 3) for s in STAGES)]
    board = at_el1(code, runner, ATA | SYNC)
    assert fault(board)[:2] == (TAG_CHECK, tag(3, DATA + 0x20))
    assert registers(board) == (UNTAGGED + 0x40, tag(3, DATA + 0x40), -0x30 & MASK)


def test_the_id_fields() -> None:
    for core, there in (("max", 1), ("max,FEAT_MOPS=off", 0), ("cortex-x4", 0)):
        board, _ = tagged([], Runner, core=load_core(core))
        read = board.cpu.registers.read
        assert int(read(ID_AA64ISAR2_EL1).MOPS) == there
        assert int(read(ID_AA64MMFR1_EL1).HCX) == (core != "cortex-x4")


def test_without_it_they_are_undefined() -> None:
    board, _ = tagged(
        [*three(DATA, DATA, 8), cpyf(PROLOGUE, 1, 2, 3), a.b(0)],
        Runner,
        core=load_core("max,FEAT_MOPS=off"),
    )
    board.run(20)
    assert board.cpu.registers.raw(system.ESR_EL1) == UNDEFINED


@RUNNERS
def test_devices_answer_bytes(runner: type[Runner]) -> None:
    """The PL011's identification, a byte of each register, and nothing between them."""
    code = [*three(RAM + 0x4000, UART + 0xFE0, 0x20), *(cpyf(s, 1, 2, 3) for s in STAGES)]
    board = board_at([*code, a.b(0)], core=MAX, runner=runner)
    board.run(20)
    assert registers(board) == (RAM + 0x4020, UART + 0x1000, 0)
    found = board.memory.read(RAM + 0x4000, 0x20)
    assert found == bytes(n for byte in PL011 for n in (byte, 0, 0, 0))


@RUNNERS
@pytest.mark.parametrize("write", [False, True])
def test_where_there_is_nothing(write: bool, runner: type[Runner]) -> None:
    there, nothing = RAM + 0x4000, 0x3F00_0000
    words = three(nothing, there, 9) if write else three(there, nothing, 9)
    code = [*put(system.VBAR_EL3, VECTORS), *words, cpyf(PROLOGUE, 1, 2, 3)]
    board = board_at(code, core=MAX, runner=runner)
    board.memory.fill(VECTORS + 0x200, a.code([a.b(0)]))
    board.run(20)
    raw = board.cpu.registers.raw
    assert raw(system.ESR_EL3) == 0x9600_0010 | write * WRITE
    assert raw(system.FAR_EL3) == nothing
    assert registers(board)[2] == 9


@RUNNERS
@pytest.mark.parametrize(
    ("watched", "kinds", "found"),
    [
        (debugged.DATA + 0x40, debugged.LOADS, (0, debugged.DATA + 0x40)),
        (debugged.DATA + 0x40, debugged.STORES, None),
        (debugged.DATA + 0x1A0, debugged.BOTH, (1, debugged.DATA + 0x1A0)),
        (debugged.DATA + 0x1A0, debugged.LOADS, None),
    ],
)
def test_watchpoints(
    watched: int, kinds: int, found: tuple[int, int] | None, runner: type[Runner]
) -> None:
    """The main instruction accesses both: it takes the exception before, and is skipped."""
    data = debugged.DATA
    code = [*three(data + 0x105, data + 5, 0xC0), *(cpyf(s, 1, 2, 3) for s in STAGES[:2])]
    control = 1 | debugged.EL0_AND_EL1 | debugged.EIGHT | kinds
    watching = {d.DBGWVRS[0]: watched, d.DBGWCRS[0]: control}
    taken, board = debugged.taken(code, watching, runner, core=MAX)
    assert board.cpu.engine.x(3) == -(0xC0 - 11 if found else 5) & MASK
    assert [(one.place, one.esr & WRITE, one.far) for one in taken] == (
        [(4 * len(code) - 4, found[0] * WRITE, found[1])] if found else []
    )


CODE = 0x4000_0000


def sampled(runner: type[Runner], **options: object) -> Machine:
    to, source = CODE + 0x1_0000, CODE
    loop = [
        *three(to + 3, source, 100),
        *(cpyf(s, 1, 2, 3) for s in STAGES),
        *three(to + 3, to, 100),  # backwards
        *(cpy(s, 1, 2, 3) for s in STAGES),
        *three(to + 0x8000, 0xFF, 0x2_1000),
        *(sets(s, 1, 3, 2) for s in STAGES),
    ]
    code = [*loop, a.b(-4 * len(loop))]
    image = image_of({CODE: a.code(code)}, CODE)
    machine = Machine(image, runner=runner, core="max", **options)  # type: ignore[arg-type]
    machine.run(150)
    return machine


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [1, 3, None])
@pytest.mark.parametrize("model", ["none", "cache"])
def test_both_runners_come_to_the_same(period: int | None, model: str) -> None:
    fast, reference = (sampled(r, period=period, model=model) for r in (Runner, ReferenceRunner))
    assert fast.run(100).differences(reference.run(100)) == {}
    assert fast.operations == reference.operations


@RUNNERS
def test_records_tell_them(runner: type[Runner]) -> None:
    """The operation type of a copy with the address of its source, of a set with the other one."""
    machine = sampled(runner, period=1)
    to, source = CODE + 0x1_0000, CODE
    expected = [
        *[(0x20, source), (0x20, source + 13), (0x20, source + 93)],
        *[(0x20, to)] * 3,
        *[(0x25, to + 0x8000), (0x25, to + 0x8010), (0x25, to + 0x1_8010)],
        *[(0x25, to + 0x2_8010), (0x25, to + 0x2_8FF0)],
    ]
    found = []
    for operation, raw in zip(machine.operations, machine.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        if operation.instruction.word & 0xFB20_0C00 == 0x1900_0400:
            record = placed.record
            assert record.op_class == 1
            assert record.va is not None
            found.append((record.op_payload, record.va.VA))
    assert found[: len(expected)] == expected


@RUNNERS
def test_an_execution_that_goes_on_is_no_branch(runner: type[Runner]) -> None:
    """FEAT_SPE_PBT: the last branch is that to the loop's beginning, whatever repeats itself."""
    machine = sampled(runner, period=1)
    behind = [n for n, operation in enumerate(machine.operations) if operation.pc == CODE][1]
    targets = set()
    for raw in machine.sampled[behind + 1 :]:
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        assert placed.record.previous_target is not None
        targets.add(placed.record.previous_target.VA)
    assert targets == {CODE}
