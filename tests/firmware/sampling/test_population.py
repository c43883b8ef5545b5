"""The sampled mix is the executed mix, whatever is counted and however intervals are chosen."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import spe
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.memory_map import RAM_BASE
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.random_programs import CPACR_EL1

CODE, DATA, BUFFER = RAM_BASE, RAM_BASE + 0x10_0000, RAM_BASE + 0x20_0000
BUFFER_SIZE = 2 << 20
START = [a.movz(0, 0x30, 16), a.msr(CPACR_EL1, 0), a.ISB, *a.mov64(1, DATA)]

LOOP = [
    (a.ldr9(2, 1, 8, a.POST), 2),  # a load, an addition to its base
    (a.ldr9(3, 1, -8, a.POST), 2),
    (a.ldr(4, 1, 16), 1),
    (a.str_(2, 1, 24), 2),  # a store's address and its data
    (a.pair(True, 5, 6, 1, 32), 2),
    (a.pair(False, 5, 6, 1, 48), 2),
    (a.pair(False, 5, 6, 1, 16, 0b11), 3),  # pre-index
    (a.sub_imm(1, 1, 16), 1),
    (a.mul(7, 4, 5), 1),
    (a.udiv(7, 7, 3), 1),
    (a.ldadd(4, 8, 1), 2),
    (a.ld1_two(0, 1), 2),
    (a.fadd(3, 4, 5), 1),
    (a.csel(8, 2, 3, 0), 1),
    (a.subs_imm(31, 8, 1), 1),
    (a.b_cond(0, 4), 1),  # to the next one, either way
    (a.NOP, 1),
]
"""A loop, with how many micro-operations a Neoverse N2 makes of each operation.

Neither 18 operations nor 27 micro-operations have a factor in common with 4 * 256 + 1.
"""
LOOP.append((a.b(-4 * len(LOOP)), 1))

MODES = ("fixed", "random", "random afterwards")
"""PMSIRR_EL1.RND = 0; 1 without FEAT_SPE_ERnd; 1 with it."""


def core(population: str, mode: str) -> Core:
    """A core with a population, of architecture instructions or micro-operations."""
    base = load_core("generic" if population == "instructions" else "neoverse-n2")
    ernd = {Feature.FEAT_SPE_ERnd}
    features = base.features | ernd if mode == "random afterwards" else base.features - ernd
    return replace(base, features=features)


def sampled(
    loop: list[int], operations: int, core: Core, mode: str, interval: int = 4, pmsfcr: int = 0
) -> Counter[tuple[int, int]]:
    """How often each place of an endless loop was sampled: operation and part, from 0."""
    image = image_of({CODE: a.code([*START, *loop])}, CODE)
    machine = Machine(image, core=core, seed=1)
    registers = machine.board.cpu.registers
    registers.write(spe.PMBPTR_EL1, BUFFER)
    registers.write(spe.PMBLIMITR_EL1, BUFFER + BUFFER_SIZE | 1)
    registers.write(spe.PMBSR_EL1, 0)
    registers.write(spe.PMSFCR_EL1, pmsfcr)
    registers.write(spe.PMSIRR_EL1, interval << 8 | (mode != "fixed"))
    registers.write(spe.PMSICR_EL1, 0)
    registers.write(spe.PMSCR_EL1, 0b10)  # E1SPE
    assert machine.run(operations).ending is Ending.LIMIT
    assert machine.board.unit.statistics.lost == 0
    start = CODE + 4 * len(START)
    return Counter(
        ((s.pc - start) // 4, o.instruction.part)
        for s, o in zip(machine.sampled, machine.operations, strict=True)
        if s.pc >= start
    )


def chi_square(found: Counter[tuple[int, int]], places: int) -> float:
    """How far counts are from equal ones, over ``places`` of which some may be missing."""
    expected = found.total() / places
    return (
        sum((n - expected) ** 2 / expected for n in found.values())
        + (places - len(found)) * expected
    )


def rarely_exceeded(freedom: int) -> float:
    """About the 99.9th percentile of chi-square: Wilson and Hilferty's approximation."""
    ninth = 2 / (9 * freedom)
    return freedom * (1 - ninth + 3.09 * math.sqrt(ninth)) ** 3


def test_the_threshold_is_that_of_the_tables() -> None:
    assert rarely_exceeded(10) == pytest.approx(29.59, rel=0.01)
    assert rarely_exceeded(30) == pytest.approx(59.70, rel=0.01)


@pytest.mark.parametrize("mode", MODES)
def test_sampled_instructions_are_as_mixed_as_executed_ones(mode: str) -> None:
    found = sampled([word for word, _ in LOOP], 4_000_000, core("instructions", mode), mode)
    assert found.total() > 2900
    assert {part for _, part in found} == {0}
    assert chi_square(found, len(LOOP)) < rarely_exceeded(len(LOOP) - 1)


@pytest.mark.parametrize("mode", MODES)
def test_sampled_micro_operations_are_as_mixed_as_executed_ones(mode: str) -> None:
    found = sampled([word for word, _ in LOOP], 2_400_000, core("micro-operations", mode), mode)
    members = [(k, part) for k, (_, weight) in enumerate(LOOP) for part in range(weight)]
    assert found.total() > 2900
    assert set(found) <= set(members)
    assert chi_square(found, len(members)) < rarely_exceeded(len(members) - 1)


@pytest.mark.parametrize("population", ["instructions", "micro-operations"])
def test_fixed_interval_sees_one_place_of_a_loop_that_divides_it(population: str) -> None:
    """4 * 256 + 1 members from sample to sample are 25 turns of 41 members."""
    loop = [*[a.add(2, 2, 3)] * 40, a.b(-4 * 40)]
    if population == "micro-operations":
        loop = [*[a.ldr9(2, 1, 0, a.POST)] * 20, a.b(-4 * 20)]
    found = sampled(loop, 300_000, core(population, "fixed"), "fixed")
    assert len(found) == 1
    assert found.total() > 250


@pytest.mark.parametrize("population", ["instructions", "micro-operations"])
def test_fixed_interval_sees_the_places_of_a_loop_that_its_remainder_reaches(
    population: str,
) -> None:
    """1025 members leave 25 in turns of 40: it comes back after 8 samples, 5 members apart."""
    loop = [*[a.add(2, 2, 3)] * 39, a.b(-4 * 39)]
    if population == "micro-operations":
        loop = [*[a.ldr9(2, 1, 0, a.POST)] * 19, a.NOP, a.b(-4 * 20)]
    found = sampled(loop, 600_000, core(population, "fixed"), "fixed")
    assert len(found) == 8
    assert max(found.values()) - min(found.values()) <= 1


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("population", ["instructions", "micro-operations"])
def test_random_interval_sees_all_places_of_a_loop_that_divides_it(
    population: str, mode: str
) -> None:
    """A random number of 0 to 255 alone favours 10 of the 41 places, by 7 to 6 chances."""
    loop = [*[a.add(2, 2, 3)] * 40, a.b(-4 * 40)]
    if population == "micro-operations":
        loop = [*[a.ldr9(2, 1, 0, a.POST)] * 20, a.b(-4 * 20)]
    found = sampled(loop, 3_000_000, core(population, mode), mode)
    assert len(found) == 41
    assert max(found.values()) < 3 * min(found.values())


@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("population", ["instructions", "micro-operations"])
def test_random_interval_sees_all_places_of_a_tight_loop_alike(population: str, mode: str) -> None:
    loop = [*[a.add(2, 2, 3)] * 7, a.b(-4 * 7)]
    if population == "micro-operations":
        loop = [*[a.ldr9(2, 1, 0, a.POST)] * 3, a.NOP, a.b(-4 * 4)]
    found = sampled(loop, 3_000_000, core(population, mode), mode)
    assert found.total() > 2000
    assert chi_square(found, 8) < rarely_exceeded(7)


@pytest.mark.parametrize(
    ("control", "kept"),
    [
        (1 << 17, {(0, 0), (4, 0), (4, 1), (10, 0)}),  # LD: both halves of LDP, LDADD
        (1 << 18, {(3, 0), (5, 0), (10, 0)}),  # ST: addresses of STR and STP, LDADD
        (1 << 16, {(16, 0)}),  # B
    ],
)
def test_type_filter_looks_at_each_micro_operation(
    control: int, kept: set[tuple[int, int]]
) -> None:
    words = [word if k in (0, 3, 4, 5, 10) else a.NOP for k, (word, _) in enumerate(LOOP)]
    loop = [*words[:16], a.b(-64)]
    modes = core("micro-operations", "random"), "random"
    found = sampled(loop, 1_000_000, *modes, interval=1, pmsfcr=control | 0b10)
    assert set(found) == kept


def test_blocks_that_ran_before_profiling_have_their_weight_afterwards() -> None:
    """Profiling of EL0 is enabled while a loop runs at EL1; then that is profiled, too."""
    outer = [a.movz(5, 50), a.pair(True, 6, 7, 1), a.subs_imm(5, 5, 1), a.b_cond(a.NE, -8)]
    outer += [a.msr((3, 0, 9, 9, 0), 9), a.ISB, a.b(-24)]
    image = image_of({CODE: a.code([*START, a.movz(9, 0b11), *outer])}, CODE)
    machines = [Machine(image, core="neoverse-n2", runner=r) for r in (Runner, ReferenceRunner)]
    for machine in machines:
        for register, value in (
            (spe.PMBPTR_EL1, BUFFER),
            (spe.PMBLIMITR_EL1, BUFFER + BUFFER_SIZE | 1),
            (spe.PMBSR_EL1, 0),
            (spe.PMSFCR_EL1, 0),
            (spe.PMSIRR_EL1, 1 << 8),
            (spe.PMSICR_EL1, 0),
            (spe.PMSCR_EL1, 0b01),
        ):
            machine.board.cpu.registers.write(register, value)
    fast, stepped = (machine.run(3000) for machine in machines)
    assert fast.differences(stepped) == {}
    assert len(fast.records) > 10
