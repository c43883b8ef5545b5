"""Loads and stores of FEAT_SVE2p1 in guests, beside the pseudocode of their pages."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.pe.vectors import vector
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.packets import Event, OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.guests import put
from tests.instructions.sve2p1.memory_guests import (
    ALIGNMENT_FAULT,
    BYTES,
    CODE,
    CORE,
    LAST,
    LOOP,
    MIDDLE,
    PAGES_AT,
    ROOM,
    RUNNERS,
    TRANSLATION_FAULT,
    UNDEFINED,
    WRITES,
    execute,
    guest,
    random_vectors,
    registers,
)
from tests.instructions.sve2p1.memory_model import PAGES, Operands, Page, Vectors
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM


@pytest.mark.sweep
@RUNNERS
@pytest.mark.parametrize("size", [16, 32, 48, 64, 128, 256])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_does_what_its_page_says(page: Page, size: int, runner: type[Runner]) -> None:
    random = Random(f"{page.name} {size}")
    board = guest(8 * size, runner)
    for _ in range(6):
        o = page.random(random)
        if page.by_register and not page.gathers and o.m == o.n:
            continue
        v = random_vectors(random, size, page, o)
        expected = Vectors(size, list(v.z), list(v.p), list(v.x), dict(v.memory))
        page.operation(expected, o)
        execute(board, page.word(o), v)
        assert registers(board, size) == (expected.z, expected.p, expected.x)
        found = board.memory.read(BYTES, ROOM)
        assert found == bytes(expected.memory[BYTES + n] for n in range(ROOM))
        assert board.cpu.pc == CODE + 4


def test_words_are_those_of_an_assembler() -> None:
    """LLVM 19."""
    o = Operands(3, 5, 7, 9)
    words = {
        ("LD1Q", o): 0xC409_B4E3,
        ("ST1Q", o): 0xE429_34E3,
        ("LD3Q", o): 0xA529_94E3,
        ("ST4Q, immediate", o._replace(m=1)): 0xE4C1_14E3,
        ("LD1D.Q, immediate", o._replace(m=1)): 0xA591_34E3,
        ("ST1W.Q", o): 0xE509_54E3,
        ("LDNT1W x4", Operands(4, 8, 7, 9)): 0xA009_C0E5,
        ("STNT1B x2", Operands(2, 8, 7, 9)): 0xA029_00E3,
    }
    by_name = {page.name: page for page in PAGES}
    assert len(by_name) == len(PAGES)
    assert {key: by_name[key[0]].word(key[1]) for key in words} == words


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_only_active_elements_fault(page: Page, runner: type[Runner]) -> None:
    """The last element lies where no memory is mapped. A load that faults changes nothing."""
    size = 32
    board = guest(8 * size, runner, end=LAST)
    element = {"W": 4, "D": 8}[page.name[3]] if ".Q" in page.name else 16
    o = Operands(8, 8 if page.consecutive else 2, 1, 2 if page.by_register else 0)
    # of the last 16 bytes, or the last element that is widened, none are mapped
    moved = size * page.vectors * element // 16
    for is_active in (True, False):
        v = random_vectors(Random(1), size, page, o)
        v.x[1], v.x[2] = LAST - moved + element, 0
        v.p[o.g] = 0xFFFF_FFFF if is_active else 0xFFFF
        if page.gathers:
            v.z[1] = (LAST - 0x100) | LAST << 128
        elif page.consecutive:
            # bytes of all vectors, or all but the last 16
            v.p[o.g] = 0x8001 if is_active else size * page.vectors - 16 << 1 | 1
        before = board.cpu.engine.x(20)
        execute(board, page.word(o), v, 20)
        faulted = board.cpu.engine.x(20) != before
        assert faulted == is_active
        if is_active:
            write = 0 if page.name.startswith("LD") else WRITES
            assert board.cpu.engine.x(21) == TRANSLATION_FAULT | write
            assert board.cpu.engine.x(23) == LAST
            z, p, x = registers(board, size)
            assert (z, p, x) == (v.z, v.p, v.x)


ALIGNED_TO_8 = MIDDLE + 8


@RUNNERS
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", ["LD1Q", "ST1Q", "LD3Q", "ST2Q, immediate", "LD1D.Q"])
def test_a_quadword_is_aligned_to_16_where_alignment_is_checked(
    name: str, checked: bool, runner: type[Runner]
) -> None:
    """SCTLR_EL3.A. An element that is a doubleword in memory need not be aligned further."""
    page = next(page for page in PAGES if page.name == name)
    board = guest(256, runner, controls=0b111 if checked else 0b101)
    o = Operands(8, 2, 1, 2 if page.by_register else 0)
    v = random_vectors(Random(1), 32, page, o)
    v.x[1], v.x[2], v.p[2] = ALIGNED_TO_8, 0, 0xFFFF_FFFF
    if page.gathers:
        v.z[1] = MIDDLE | ALIGNED_TO_8 << 128
    execute(board, page.word(o), v, 20)
    if not checked or name == "LD1D.Q":
        assert board.cpu.engine.x(20) == 0
        return
    x = board.cpu.engine.x
    write = 0 if name.startswith("LD") else WRITES
    assert (x(20), x(21), x(23)) == (1, ALIGNMENT_FAULT | write, ALIGNED_TO_8)
    assert registers(board, 32) == (v.z, v.p, v.x)


@RUNNERS
@pytest.mark.parametrize("name", ["LD1Q", "ST1Q", "LD3Q", "ST2Q, immediate", "LD1D.Q"])
def test_a_quadword_in_device_memory_is_aligned_to_16(name: str, runner: type[Runner]) -> None:
    """The first byte that is in Device memory faults: MIDDLE begins its page."""
    page = next(page for page in PAGES if page.name == name)
    board = guest(256, runner, end=LAST)
    device = MIDDLE | 1 << 10 | 3  # Attr0
    board.memory.fill(PAGES_AT + 8 * (MIDDLE - RAM >> 12), device.to_bytes(8, "little"))
    o = Operands(8, 2, 1, 2 if page.by_register else 0)
    taken = 0
    for address, faults in ((MIDDLE + 8, MIDDLE + 8), (MIDDLE - 8, MIDDLE), (MIDDLE, None)):
        v = random_vectors(Random(1), 32, page, o)
        v.x[1], v.x[2], v.p[2] = address, 0, 0xFFFF_FFFF
        if page.gathers:
            v.z[1] = MIDDLE - 0x100 | address << 128
        execute(board, page.word(o), v, 20)
        x = board.cpu.engine.x
        if faults is None or name == "LD1D.Q":
            assert x(20) == taken
            continue
        taken += 1
        write = 0 if name.startswith("LD") else WRITES
        assert (x(20), x(21), x(23)) == (taken, ALIGNMENT_FAULT | write, faults)
        assert registers(board, 32) == (v.z, v.p, v.x)


@RUNNERS
@pytest.mark.parametrize("name", ["LD1Q", "ST1Q", "LD3Q", "ST2Q, immediate"])
def test_a_quadword_is_reversed_as_a_whole(name: str, runner: type[Runner]) -> None:
    """SCTLR_EL3.EE: BigEndianReverse() of the 16 bytes of Mem[]."""
    page = next(page for page in PAGES if page.name == name)
    board = guest(256, runner, controls=1 << 25)  # the MMU is off, as tables would be read so, too
    o = Operands(8, 2, 1, 2 if page.by_register else 0)
    v = random_vectors(Random(2), 32, page, o)
    v.x[1], v.x[2], v.p[2] = MIDDLE, 0, 0xFFFF_FFFF
    if page.gathers:
        v.z[1] = MIDDLE | MIDDLE + 0x40 << 128
    execute(board, page.word(o), v)
    raw = board.memory.read(MIDDLE, 0x60)
    assert raw is not None
    first = int.from_bytes(raw[:16], "big")
    assert vector(board.cpu, 8, 128) == first


@RUNNERS
@pytest.mark.parametrize(
    ("core", "word"),
    [
        (CORE, 0xA4BF_94E3),  # LD2Q with XZR
        (CORE, 0xE51F_54E3),  # ST1W to memory of quadwords, with XZR
        (CORE, 0xA009_84E6),  # LD1B of four from Z6 on
        (CORE, 0xA051_1CE2),  # LD1B of two with bit 20 and an immediate
        (CORE, 0xA109_00E2),  # strided, of SME2
        ("max,FEAT_SVE2p1=off", 0xC409_B4E3),
        ("max,FEAT_SVE2p1=off", 0xA009_00E2),
        ("neoverse-v2", 0xA591_34E3),
    ],
)
def test_what_is_undefined(core: str, word: int, runner: type[Runner]) -> None:
    board = guest(128, runner, core)
    page = PAGES[0]
    execute(board, word, random_vectors(Random(3), 16, page, Operands(3, 5, 7, 9)), 20)
    assert (board.cpu.engine.x(20), board.cpu.engine.x(21)) == (1, UNDEFINED)


@RUNNERS
def test_samples_say_what_they_are(runner: type[Runner]) -> None:
    """Vectors of 256 bits have EVL 3. Of two vectors the counter has the first three bytes active.

    A gather, structures, and a store: SG, SVE, PRED and LDST (D18.2).
    """
    code = [
        *(*put(system.CPACR_EL1, 0b11 << 20 | 0b11 << 16), *a.mov64(0, 1)),
        *(a.msr((3, 0, 1, 2, 0), 0), a.ISB, *a.mov64(7, RAM + 0x8000), *a.mov64(1, 3)),
        *(0x2518_E3E2, 0x05E0_38E7),  # PTRUE P2.B; MOV Z7.D, X7
        0x2521_4FF0,  # WHILELO PN8.B, XZR, X1, VLx2
        *(*LOOP, a.b(-4 * len(LOOP))),
    ]
    one = Machine(image_of({RAM: a.code(code)}, RAM), runner=runner, core=CORE, period=1)
    one.run(len(code) + 4)
    found = {}
    for operation, raw in zip(one.operations, one.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        record = placed.record
        partly = bool(record.events & Event.SVE_PARTIAL)
        va = operation.va
        found[operation.instruction.word] = record.op_class, record.op_payload, partly, va
    sve, sg, stores = 3 << 4 | 1 << 3 | 1 << 2, 1 << 7, 1
    cls, at = OperationClass.LOAD_STORE, RAM + 0x8000
    assert [found[word] for word in LOOP] == [
        (cls, sve | sg, False, at),
        (cls, sve, False, at),
        (cls, sve | stores, True, at),
    ]
