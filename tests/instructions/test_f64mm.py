"""FEAT_F64MM: by hand, and its loads beside QEMU."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ZFR0_EL1
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.pe.vectors import predicate, set_predicate, set_vector, vector
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.guests import put
from tests.host.normal_memory import DATA, machine, map_pages
from tests.instructions.harness import BASE, QEMU, Case, here, lanes, on_qemu, one, random_state
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
FMMLA = 0x64E0_E400
ZIP1, ZIP2, UZP1, UZP2, TRN1, TRN2 = (0x05A0_0000 | n << 10 for n in (0, 1, 2, 3, 6, 7))
LD1ROB, LD1ROH, LD1ROW, LD1ROD = (0xA420_0000 | n << 23 for n in range(4))
IMMEDIATE = 1 << 13
SIZES = {LD1ROB: 1, LD1ROH: 2, LD1ROW: 4, LD1ROD: 8}
Z3, X1, P2 = 3, 1 << 5, 2 << 10
N, M, D = 1, 2, 3
ZCR_EL1, ZCR_EL3 = (3, 0, 1, 2, 0), (3, 6, 1, 2, 0)
OPERANDS = M << 16 | N << 5 | D
UNDEFINED = 1 << 25
TRANSLATION_FAULT = 0x9600_0007
"""Of a load at EL3, at the third level."""
IOC, IXC = 1, 16
DEFAULT = 0x7FF8_0000_0000_0000


def doubles(*values: float) -> int:
    return int.from_bytes(struct.pack(f"<{len(values)}d", *values), "little")


@pytest.mark.parametrize(
    ("n", "m", "addend", "expected", "fpsr"),
    [
        ((1, 2, 3, 4), (5, 6, 7, 8), (1, 0, 0, 0.5), (18, 23, 39, 53.5), 0),
        ((2.0**53, 1, 0, 0), (1, 1, 0, 0), (0, 0, 0, 0), (2.0**53, 0, 0, 0), IXC),
        ((1 + 2**-52, 0, 1, 1), (1 + 2**-52, 0, 0, -1), (0,) * 4, (1 + 2**-51, 0, 1 + 2**-52, -1),
         IXC),
        ((2.0**-600, 0, 0, 0), (2.0**-500, 0, 0, 0), (0,) * 4, (0, 0, 0, 0), 8 | IXC),
    ],
)  # fmt: skip
def test_products_of_matrices(
    n: tuple[float, ...],
    m: tuple[float, ...],
    addend: tuple[float, ...],
    expected: tuple[float, ...],
    fpsr: int,
) -> None:
    """A row of Zn by a row of Zm; each product and each sum is rounded to nearest."""
    operands = {N: doubles(*n), M: doubles(*m), D: doubles(*addend)}
    result = one(FMMLA | OPERANDS, operands, size=32)
    assert (result.z[D], result.fpsr) == (doubles(*expected), fpsr)


def test_infinity_by_zero_is_invalid() -> None:
    operands = {N: doubles(float("inf"), 0, 0, 0), M: doubles(0, 0, 1, 0), D: 0}
    result = one(FMMLA | OPERANDS, operands, size=32)
    assert result.z[D] == DEFAULT | 0x7FF0 << 112
    assert result.fpsr == IOC


def quadwords(*values: int) -> int:
    return lanes(*values, size=128)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (ZIP1, (1, 11, 2, 12)),
        (ZIP2, (3, 13, 4, 14)),
        (UZP1, (1, 3, 11, 13)),
        (UZP2, (2, 4, 12, 14)),
        (TRN1, (1, 11, 3, 13)),
        (TRN2, (2, 12, 4, 14)),
    ],
)
def test_permutations_of_quadwords(word: int, expected: tuple[int, ...]) -> None:
    """With a fifth quadword, which is in no pair, the result ends in zeros."""
    operands = {N: quadwords(1, 2, 3, 4, 5), M: quadwords(11, 12, 13, 14, 15)}
    for size, further in ((64, 0), (80, 0xFFFF << 512)):
        result = one(word | OPERANDS, {**operands, D: further}, size=size)
        assert result.z[D] == quadwords(*expected)


def test_a_product_of_matrices_ends_in_zeros_as_well() -> None:
    operands = {N: doubles(*(1,) * 6), M: doubles(*(1,) * 6), D: doubles(*(1,) * 6)}
    result = one(FMMLA | OPERANDS, operands, size=48)
    assert result.z[D] == doubles(3, 3, 3, 3)


# Loads


def place_of(board: Board, words: list[int]) -> int:
    """Where these words are in the guest's code."""
    found = board.memory.read(RAM, 0x1000)
    assert found is not None
    return RAM + found.index(a.code(words))


def ran(
    words: list[int], length: int, runner: type[Runner], core: str = "max", most: int = 0
) -> Board:
    """With vectors of so many bits.

    P2 has each element of 4 bytes but the second one, Z3 is ones.

    ``most`` is how much of RAM is mapped, where that is not all of it.
    """
    setting = [*put(system.CPTR_EL3, 1 << 8), *a.mov64(0, length // 128 - 1), a.msr(ZCR_EL3, 0)]
    board = machine([*setting, a.ISB, *words], runner, checks=False, core=core)
    if most:
        map_pages(board, PAGES, RAM + most)
    board.run(20)  # the machine's own, before these words
    board.cpu.pc = place_of(board, [*setting, a.ISB])
    board.run(len(setting) + 1)
    cpu = board.cpu
    set_vector(cpu, Z3, (1 << length) - 1, length)
    set_predicate(cpu, 2, 0xFFFF_FF0F, 32)
    assert board.run(200) is Ending.LIMIT
    return board


BYTES = bytes(range(1, 65))


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("length", [256, 384, 512, 2048])
@pytest.mark.parametrize("word", [LD1ROB, LD1ROH, LD1ROW, LD1ROD])
@pytest.mark.parametrize("immediate", [False, True])
def test_32_bytes_are_loaded_and_replicated(
    word: int, length: int, immediate: bool, runner: type[Runner]
) -> None:
    """From DATA + 32 on. An element is active by the bit of its lowest byte."""
    size = SIZES[word]
    code = word | P2 | X1 | Z3 | (IMMEDIATE | 1 << 16 if immediate else 4 << 16)
    setting = [*a.mov64(1, DATA), *a.mov64(4, 32 // size), *a.mov64(0, 7)]
    board = ran([*setting, code], length, runner)
    cpu = board.cpu
    expected = bytes(
        byte if 0xFFFF_FF0F >> n // size * size & 1 else 0 for n, byte in enumerate(BYTES[32:])
    )
    copies = length // 256
    assert vector(cpu, Z3, length) == int.from_bytes(expected * copies, "little")
    assert predicate(cpu, 2) & 0xFFFF_FFFF == 0xFFFF_FF0F
    x = cpu.engine.x
    assert (x(0), x(1), x(4), x(20)) == (7, DATA, 32 // size, 0)


@RUNNERS
@pytest.mark.parametrize(
    ("core", "length", "word"),
    [
        ("max", 128, LD1ROW | P2 | X1 | 4 << 16 | Z3),
        ("max", 128, FMMLA | OPERANDS),
        ("max", 128, TRN1 | OPERANDS),
        ("max", 256, LD1ROW | P2 | X1 | 31 << 16 | Z3),
        ("max", 256, 0x05A0_1000 | OPERANDS),
        ("max,FEAT_F64MM=off", 256, LD1ROW | P2 | X1 | 4 << 16 | Z3),
        ("max,FEAT_F64MM=off", 256, FMMLA | OPERANDS),
        ("neoverse-v1", 256, TRN1 | OPERANDS),
    ],
)
def test_what_is_undefined(core: str, length: int, word: int, runner: type[Runner]) -> None:
    """Vectors of 128 bits, XZR as an index, a permutation that there is not, other cores."""
    board = ran([*a.mov64(1, DATA), *a.mov64(4, 0), word, word], length, runner, core)
    cpu = board.cpu
    assert (cpu.engine.x(20), cpu.engine.x(21)) == (2, UNDEFINED)
    assert vector(cpu, Z3, length) == (1 << length) - 1
    assert (core == "max") == cpu.registers.read(ID_AA64ZFR0_EL1).F64MM


MAPPED, PAGES = 0xB000, RAM + 0xC000
"""How much of RAM, and the table of its pages."""


@RUNNERS
@pytest.mark.parametrize(
    ("governing", "fault"),
    [(0xFFFF_FF0F, 0), (0xFFFF, None), (0x1FFFF, 0), (0xF000_0000, 12)],
)
@pytest.mark.parametrize("immediate", [False, True])
def test_only_active_elements_fault(
    governing: int, fault: int | None, immediate: bool, runner: type[Runner]
) -> None:
    """16 of the 32 bytes are not mapped. Nothing changes but what an exception does."""
    last = RAM + MAPPED
    base = last - 16
    code = LD1ROW | P2 | X1 | Z3 | (IMMEDIATE | 2 << 16 if immediate else 0 << 16)
    setting = [*a.mov64(1, base - (64 if immediate else 0)), *a.mov64(0, 0)]
    words = [*setting, code]
    board = ran(words, 256, runner, most=MAPPED)
    cpu = board.cpu
    set_predicate(cpu, 2, governing, 32)
    set_vector(cpu, Z3, (1 << 256) - 1, 256)
    before = cpu.engine.x(20)
    cpu.pc = place_of(board, words) + 4 * len(words) - 4
    board.run(40)
    assert (cpu.engine.x(20) - before == 1) == (fault is not None)
    assert predicate(cpu, 2) & 0xFFFF_FFFF == governing
    assert cpu.engine.x(0) == 0
    if fault is not None:
        assert cpu.engine.x(21) == TRANSLATION_FAULT
        assert cpu.engine.x(23) == last + fault
        assert vector(cpu, Z3, 256) == (1 << 256) - 1


@pytest.mark.skipif(QEMU is None, reason="qemu-system-aarch64 is not installed")
@pytest.mark.parametrize("size", [16, 32, 48, 64, 256])
def test_loads_are_those_of_qemu(size: int, tmp_path: Path) -> None:
    """Random predicates and offsets, within what both guests have at the same addresses."""
    random = Random(size)
    cases: list[Case] = []
    for _ in range(60):
        state = random_state(random, size)
        kind = random.choice(list(SIZES))
        pick = random.randrange(3)
        x = list(state.x)
        x[1], x[4] = BASE + 0x1400 + random.randrange(256), random.randrange(64)
        word = kind | random.randrange(8) << 10 | X1 | random.randrange(32)
        word |= (4 << 16) if pick == 0 else IMMEDIATE | random.randrange(16) << 16
        if pick == 2:
            word = kind | random.randrange(8) << 10 | X1 | 31 << 16 | Z3  # UNDEFINED
        cases.append((word, state._replace(x=tuple(x))))
    assert here(cases, size) == on_qemu(cases, size, tmp_path)


CODE = 0x4000_0000


def sampled(period: int | None, **options: object) -> Machine:
    """A loop at EL1 with vectors of 256 bits."""
    words = [0x2598_E3E2, FMMLA | OPERANDS, UZP2 | OPERANDS, LD1ROD | P2 | X1 | 4 << 16 | Z3]
    words += [LD1ROB | IMMEDIATE | P2 | X1 | 15 << 16 | Z3, a.add_imm(5, 5, 1)]
    code = [
        *(*put(system.CPACR_EL1, 0x33 << 16), *a.mov64(0, 1), a.msr(ZCR_EL1, 0), a.ISB),
        *(*a.mov64(1, CODE + 256), *a.mov64(4, 1), *words, a.b(-4 * len(words))),
    ]
    image = image_of({CODE: a.code(code), CODE + 224: bytes(range(96))}, CODE)
    return Machine(image, period=period, **{"core": "max", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [1, 3, None])
def test_both_runners_come_to_the_same(period: int | None, model: str) -> None:
    fast, reference = (sampled(period, runner=r, model=model) for r in (Runner, ReferenceRunner))
    assert fast.run(150).differences(reference.run(150)) == {}
    assert fast.operations == reference.operations
    ours, theirs = (vector(one.board.cpu, Z3, 256) for one in (fast, reference))
    assert ours == theirs


def test_records_tell_them() -> None:
    """Vectors of 256 bits have EVL 3; LD1RO is a predicated load, from 32 bytes below X1."""
    loop = sampled(1)
    loop.run(60)
    found = {}
    for operation, raw in zip(loop.operations, loop.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        record = placed.record
        found[operation.instruction.word & 0xFFE0_E000] = record.op_class, record.op_payload
    sve = 1 << 3 | 3 << 4
    assert found[FMMLA & 0xFFE0_E000] == (OperationClass.OTHER, sve | 1 << 1)
    assert found[UZP2 & 0xFFE0_E000] == (OperationClass.OTHER, sve)
    assert found[LD1ROD] == (OperationClass.LOAD_STORE, sve | 1 << 2)
    assert found[LD1ROB | IMMEDIATE] == (OperationClass.LOAD_STORE, sve | 1 << 2)


def test_the_feature_goes_with_sve() -> None:
    features = load_core("max,FEAT_SVE=off").features
    assert not any("F64MM" in feature.value for feature in features)
