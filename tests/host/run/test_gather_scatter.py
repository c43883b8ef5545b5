"""Gathers and scatters: where their words say that elements go, and which address is recorded.

The rule (Arm ARM D18.2): an element is chosen by chance from all of the vector; its address is
recorded if it is active, and none if it is not.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import astuple, replace

import pytest

from spe_unicorn.arch.operation import Extend, Family, VectorAccess
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.registers import system
from spe_unicorn.cores.cracking import Cracking
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.decode import decode
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.packets import Event
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

UXTW, SXTW, LSL = Extend.UXTW, Extend.SXTW, Extend.LSL
LOAD, STORE = Family.LOAD, Family.STORE

WORDS = [
    # word, text, family, bytes of a lane, where its elements go, general registers that it reads
    (0x8502_4420, "ld1w {z0.s}, p1/z, [x1, z2.s, uxtw]", LOAD, 4, (1, 2, 4, 0, UXTW, 0), {1}),
    (0x8562_4420, "ld1w {z0.s}, p1/z, [x1, z2.s, sxtw #2]", LOAD, 4, (1, 2, 4, 0, SXTW, 2), {1}),
    (0x84A2_0420, "ld1sh {z0.s}, p1/z, [x1, z2.s, uxtw #1]", LOAD, 4, (1, 2, 2, 0, UXTW, 1), {1}),
    (0x8442_4420, "ld1b {z0.s}, p1/z, [x1, z2.s, sxtw]", LOAD, 4, (1, 2, 1, 0, SXTW, 0), {1}),
    (0x8522_6420, "ldff1w {z0.s}, p1/z, [x1, z2.s, uxtw #2]", LOAD, 4, (1, 2, 4, 0, UXTW, 2), {1}),
    (0x8502_47E0, "ld1w {z0.s}, p1/z, [sp, z2.s, uxtw]", LOAD, 4, (31, 2, 4, 0, UXTW, 0), {31}),
    (0x8523_C440, "ld1w {z0.s}, p1/z, [z2.s, #12]", LOAD, 4, (None, 2, 4, 12, UXTW, 0), set()),
    (0x8501_A440, "ldnt1w {z0.s}, p1/z, [z2.s, x1]", LOAD, 4, (1, 2, 4, 0, UXTW, 0), {1}),
    (0xC5C2_C420, "ld1d {z0.d}, p1/z, [x1, z2.d]", LOAD, 8, (1, 2, 8, 0, LSL, 0), {1}),
    (0xC5E2_C420, "ld1d {z0.d}, p1/z, [x1, z2.d, lsl #3]", LOAD, 8, (1, 2, 8, 0, LSL, 3), {1}),
    (0xC502_4420, "ld1w {z0.d}, p1/z, [x1, z2.d, uxtw]", LOAD, 8, (1, 2, 4, 0, UXTW, 0), {1}),
    (0xC562_4420, "ld1w {z0.d}, p1/z, [x1, z2.d, sxtw #2]", LOAD, 8, (1, 2, 4, 0, SXTW, 2), {1}),
    (0xC5BF_C440, "ld1d {z0.d}, p1/z, [z2.d, #248]", LOAD, 8, (None, 2, 8, 248, LSL, 0), set()),
    (0xC581_C440, "ldnt1d {z0.d}, p1/z, [z2.d, x1]", LOAD, 8, (1, 2, 8, 0, LSL, 0), {1}),
    (0xC59F_C440, "ldnt1d {z0.d}, p1/z, [z2.d, xzr]", LOAD, 8, (None, 2, 8, 0, LSL, 0), set()),
    (0xE542_8420, "st1w {z0.s}, p1, [x1, z2.s, uxtw]", STORE, 4, (1, 2, 4, 0, UXTW, 0), {1}),
    (0xE562_C420, "st1w {z0.s}, p1, [x1, z2.s, sxtw #2]", STORE, 4, (1, 2, 4, 0, SXTW, 2), {1}),
    (0xE4A2_8420, "st1h {z0.d}, p1, [x1, z2.d, uxtw #1]", STORE, 8, (1, 2, 2, 0, UXTW, 1), {1}),
    (0xE502_C420, "st1w {z0.d}, p1, [x1, z2.d, sxtw]", STORE, 8, (1, 2, 4, 0, SXTW, 0), {1}),
    (0xE582_A420, "st1d {z0.d}, p1, [x1, z2.d]", STORE, 8, (1, 2, 8, 0, LSL, 0), {1}),
    (0xE5A2_A420, "st1d {z0.d}, p1, [x1, z2.d, lsl #3]", STORE, 8, (1, 2, 8, 0, LSL, 3), {1}),
    (0xE5C2_A440, "st1d {z0.d}, p1, [z2.d, #16]", STORE, 8, (None, 2, 8, 16, LSL, 0), set()),
    (0xE47F_A440, "st1b {z0.s}, p1, [z2.s, #31]", STORE, 4, (None, 2, 1, 31, UXTW, 0), set()),
    (0xE541_2440, "stnt1w {z0.s}, p1, [z2.s, x1]", STORE, 4, (1, 2, 4, 0, UXTW, 0), {1}),
    (0xE501_2440, "stnt1w {z0.d}, p1, [z2.d, x1]", STORE, 8, (1, 2, 4, 0, LSL, 0), {1}),
]


@pytest.mark.parametrize(
    ("word", "text", "family", "lane", "where", "reads"), WORDS, ids=[row[1] for row in WORDS]
)
def test_word_says_where_elements_go(
    word: int,
    text: str,
    family: Family,
    lane: int,
    where: tuple[int | None, int, int, int, Extend, int],
    reads: set[int],
) -> None:
    base, vector, size, offset, extend, shift = where
    found = decode(word)
    assert found.elements == VectorAccess(base, vector, size, offset, extend, shift)
    assert (found.family, found.lane, found.governor) == (family, lane, 1)
    assert found.gather_scatter
    assert found.access is None
    assert found.reads == sum(1 << register for register in reads)


# Executed. Z2 holds four offsets of 32 bits, Z3 two of 64, Z4 two addresses.

CODE, DATA, TABLE = 0x4000_0000, 0x4010_0000, 0x4010_8000
OFFSETS_S, OFFSETS_D = (0, 0x40, 0x84, 0xFFFF_FFFC), (0x100, 0x204)
ADDRESSES_D = (DATA + 0x300, DATA + 0x408)
TABLES = struct.pack("<4I2Q2Q", *OFFSETS_S, *OFFSETS_D, *ADDRESSES_D)
CPACR_EL1 = astuple(system.CPACR_EL1.encoding)
PTRUE_S, FIRST_S = 0x2598_E3E1, 0x25A3_1FE1  # PTRUE P1.S; WHILELO P1.S, XZR, X3 with X3 = 1
LDR_Z2, LDR_Z3, LDR_Z4 = 0x8580_4082, 0x8580_4483, 0x8580_4884  # LDR Zn, [X4, #n, MUL VL]
START = [
    *(a.movz(0, 0x33, 16), a.msr(CPACR_EL1, 0), a.ISB, *a.mov64(1, DATA), *a.mov64(4, TABLE)),
    *(a.movz(3, 1), LDR_Z2, LDR_Z3, LDR_Z4),
]
GATHER_S_SIGNED = 0x8542_4420  # LD1W {Z0.S}, P1/Z, [X1, Z2.S, SXTW]
GATHER_D = 0xC5C3_C420  # LD1D {Z0.D}, P1/Z, [X1, Z3.D]
GATHER_PLUS = 0xC5A2_C480  # LD1D {Z0.D}, P1/Z, [Z4.D, #16]
GATHER_INTO_OFFSETS = 0xC5C3_C423  # LD1D {Z3.D}, P1/Z, [X1, Z3.D]
SCATTER_S = 0xE542_C420  # ST1W {Z0.S}, P1, [X1, Z2.S, SXTW]
ROUNDS = 400


def run(
    predicate: int,
    word: int,
    runner: type[Runner] = Runner,
    core: Core | str = "max",
    seed: int = 0,
) -> Machine:
    """A program that executes ``word`` in each of its rounds, and reloads its offsets."""
    loop = [LDR_Z3, word, a.subs_imm(5, 5, 1), a.b_cond(a.NE, -12)]
    program = [*START, a.movz(5, ROUNDS), predicate, *loop, a.b(0)]
    image = image_of({CODE: a.code(program), TABLE: TABLES}, CODE)
    machine = Machine(image, runner=runner, period=1, core=core, seed=seed)
    machine.run(len(START) + 2 + 4 * ROUNDS)
    return machine


def addresses(machine: Machine, word: int) -> Counter[int | None]:
    """How often each address was recorded for a word, None for none; the same stands in records."""
    found: Counter[int | None] = Counter()
    for operation, sampled in zip(machine.operations, machine.sampled, strict=True):
        if operation.instruction.word != word:
            continue
        placed = read_record(sampled.record, 0)
        assert isinstance(placed, PlacedRecord)
        record = placed.record
        assert (None if record.va is None else record.va.VA) == operation.va == operation.pa
        assert (None if record.pa is None else record.pa.PA) == operation.pa
        found[operation.va] += 1
    assert found.total() == ROUNDS
    return found


def evenly(found: Counter[int | None], expected: set[int | None]) -> bool:
    """Whether those that are expected, and no others, came equally often, by five sigma."""
    n, k = found.total(), len(expected)
    sigma = (n / k * (1 - 1 / k)) ** 0.5
    return set(found) == expected and all(abs(c - n / k) < 5 * sigma for c in found.values())


SIGNED_S = {DATA, DATA + 0x40, DATA + 0x84, DATA - 4}
PLUS_D = {address + 16 for address in ADDRESSES_D}
WHERE_D = {DATA + offset for offset in OFFSETS_D}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (GATHER_S_SIGNED, SIGNED_S),
        (SCATTER_S, SIGNED_S),
        (GATHER_D, WHERE_D),
        (GATHER_PLUS, PLUS_D),
        (GATHER_INTO_OFFSETS, WHERE_D),
    ],
)
def test_address_is_that_of_any_element(
    runner: type[Runner], word: int, expected: set[int | None]
) -> None:
    assert evenly(addresses(run(PTRUE_S, word, runner), word), expected)


def test_chosen_element_that_is_inactive_has_no_address() -> None:
    found = addresses(run(FIRST_S, GATHER_S_SIGNED), GATHER_S_SIGNED)
    assert set(found) == {DATA, None}
    assert abs(found[DATA] - ROUNDS / 4) < 5 * (ROUNDS * 3 / 16) ** 0.5
    found = addresses(run(FIRST_S, GATHER_D), GATHER_D)  # the first of two lanes is active
    assert evenly(found, {DATA + OFFSETS_D[0], None})


def test_misalignment_is_that_of_the_element() -> None:
    machine = run(PTRUE_S, GATHER_D)
    told = {o.va: o.misaligned for o in machine.operations if o.instruction.word == GATHER_D}
    assert told == {DATA + 0x100: False, DATA + 0x204: True}


def test_choice_comes_from_the_seed() -> None:
    first, again, other = (
        [o.va for o in run(PTRUE_S, GATHER_D, seed=seed).operations] for seed in (1, 1, 2)
    )
    assert first == again != other


def test_numbers_at_a_place_of_a_stream_are_those_that_come_there() -> None:
    stream = RandomSource(3).stream("any")
    ahead = [stream.at(n) for n in range(5)]
    assert [stream.bits64() for _ in range(5)] == ahead


def test_divided_gather_has_the_address_of_each_share() -> None:
    halves = Cracking({"gather": ("access", "access")})
    core = replace(load_core("max"), cracking=halves)
    machine = run(PTRUE_S, GATHER_S_SIGNED, core=core)
    found: dict[int, Counter[int | None]] = {0: Counter(), 1: Counter()}
    for operation in machine.operations:
        if operation.instruction.word == GATHER_S_SIGNED:
            found[operation.instruction.part][operation.va] += 1
    assert evenly(found[0], {DATA, DATA + 0x40})
    assert evenly(found[1], {DATA + 0x84, DATA - 4})


def test_instructions_of_two_lanes_are_not_divided_by_three() -> None:
    thirds = Cracking({"gather": ("access", "access", "access")})
    (whole,) = thirds.parts(decode(GATHER_D))
    assert whole.elements == decode(GATHER_D).elements


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("core", ["max", "neoverse-v2"])
@pytest.mark.parametrize("period", [3, 11, 13])
def test_sampled_now_and_then_they_are_as_stepped(core: str, period: int) -> None:
    loop = [LDR_Z3, GATHER_S_SIGNED, SCATTER_S, GATHER_D, GATHER_INTO_OFFSETS, LDR_Z4, GATHER_PLUS]
    program = [*START, FIRST_S, *loop, a.b(-4 * len(loop))]
    image = image_of({CODE: a.code(program), TABLE: TABLES}, CODE)
    fast, reference = (
        Machine(image, runner=runner, period=period, core=core)
        for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(900).differences(reference.run(900)) == {}
    assert fast.operations == reference.operations
    events = {operation.active for operation in fast.operations}
    assert len(events) > 1


def test_gather_with_caches_has_its_source_whatever_element_is_chosen() -> None:
    program = [*START, FIRST_S, *[GATHER_S_SIGNED] * 40, a.b(0)]
    image = image_of({CODE: a.code(program), TABLE: TABLES}, CODE)
    machine = Machine(image, period=1, core="max", model="cache")
    machine.run(len(program) - 1)
    sources, shown = [], Counter[bool]()
    for sampled in machine.sampled[len(START) + 1 :]:
        placed = read_record(sampled.record, 0)
        assert isinstance(placed, PlacedRecord)
        sources.append(placed.record.data_source)
        shown[placed.record.va is not None] += 1
        assert placed.record.events & Event.L1D_ACCESS
    assert set(sources[1:]) == {0}  # the L1 cache has the line from the first on
    assert shown[True]
    assert shown[False]
