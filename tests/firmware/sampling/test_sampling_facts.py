"""What the architecture says of sample intervals, counted in operations on real runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import sqrt

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.cores.profile import load_core
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.memory_map import RAM_BASE
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

VECTORS, BOOT, LOOP, DATA = (RAM_BASE + n for n in (0, 0x1000, 0x2000, 0x3000))
BUFFER, LIMIT = RAM_BASE + 0x10_0000, RAM_BASE + 0x30_0000
RAM = 4 << 20
CPACR_EL1 = (3, 0, 1, 0, 2)
VBAR_EL1, ELR_EL1, SPSR_EL1 = (3, 0, 12, 0, 0), (3, 0, 4, 0, 1), (3, 0, 4, 0, 0)
PMSCR_EL1, PMSICR_EL1, PMSIRR_EL1 = (3, 0, 9, 9, 0), (3, 0, 9, 9, 2), (3, 0, 9, 9, 3)
PMSFCR_EL1, PMBSR_EL1 = (3, 0, 9, 9, 4), (3, 0, 9, 10, 3)
PMBLIMITR_EL1, PMBPTR_EL1 = (3, 0, 9, 10, 0), (3, 0, 9, 10, 1)
E0SPE, E1SPE = 1, 2
EL0, EL1 = 0x3C0, 0x3C5

MIXED = [
    a.ldr(1, 0),
    a.add_imm(1, 1, 1),
    a.str_(1, 0),
    a.tbz(1, 0, 8),
    a.eor(2, 2, 1),
    a.pair(True, 3, 4, 0, 16),
    a.mul(3, 3, 4),
    a.subs(5, 5, 1),
    a.csel(6, 3, 4, a.GT),
    a.ldr_q(0, 0, 32),
]
"""Operations of several kinds, one of them a branch with two ways."""
CALLING = [
    a.add_imm(1, 1, 1),
    a.svc(1),
    a.eor(2, 2, 1),
    a.ldr(3, 0),
    a.svc(2),
    a.svc(3),
    a.str_(2, 0, 8),
    a.orr(4, 3, 2),
    a.cbz(31, 4),
    a.sub_imm(5, 4, 1),
    a.svc(4),
    a.NOP,
]
"""Thirteen places with the branch that closes the loop, four of them system calls."""


def program(loop: list[int], pmsirr: int, pmscr: int, spsr: int) -> Image:
    """An endless loop at the Exception level of ``spsr``, profiled as programmed.

    System calls take longer each time, up to a limit, and leave the loop's registers alone.
    """
    registers = (
        (VBAR_EL1, VECTORS),
        (CPACR_EL1, 3 << 20),
        (PMBPTR_EL1, BUFFER),
        (PMBLIMITR_EL1, LIMIT | 1),
        (PMBSR_EL1, 0),
        (PMSFCR_EL1, 0),
        (PMSIRR_EL1, pmsirr),
        (PMSICR_EL1, 0),
        (ELR_EL1, LOOP),
        (SPSR_EL1, spsr),
        (PMSCR_EL1, pmscr),
    )
    boot = [w for op, value in registers for w in (*a.mov64(9, value), a.msr(op, 9))]
    boot += [*a.mov64(0, DATA), a.movz(20, 0), a.ERET]
    handler = [
        a.add_imm(20, 20, 1),
        a.and_low_bits(21, 20, 0, 3),
        a.cbz(21, 3 * 4),
        a.sub_imm(21, 21, 1),
        a.cbnz(21, -4),
        a.ERET,
    ]
    vectors = a.code(handler).ljust(0x80, b"\0") * 16
    closed = [*loop, a.b(-4 * len(loop))]
    return image_of({VECTORS: vectors, BOOT: a.code(boot), LOOP: a.code(closed)}, BOOT)


def gaps(machine: Machine) -> list[int]:
    """How many operations lie from one sampled operation to the next."""
    places = [s.operation for s in machine.sampled]
    return [after - before for before, after in pairwise(places)]


@pytest.mark.parametrize("interval", [1, 4, 17])
def test_without_perturbation_samples_are_interval_times_256_and_1_apart(interval: int) -> None:
    machine = Machine(program(MIXED, interval << 8, E1SPE, EL1), ram=RAM)
    operations = 200 * (interval * 256 + 1)
    result = machine.run(operations)
    assert set(gaps(machine)) == {interval * 256 + 1}
    # profiling is enabled by an MSR before the three moves and the ERET that start the loop
    boot = next(s for s in machine.image.segments if s.address == BOOT)
    enabled = boot.size // 4 - 4
    assert result.records[0].operation == enabled + interval * 256 + 1
    assert len(result.records) == (operations - enabled) // (interval * 256 + 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("ernd", "mean", "deviation"),
    [
        # one byte, uniform from 0 to 255, is part of each interval
        (False, 256 + 128.5, sqrt((256**2 - 1) / 12)),
        # the byte of a sample makes the gap before it longer and the one after it shorter
        (True, 256 + 1, sqrt((256**2 - 1) / 6)),
    ],
)
def test_mean_of_perturbed_intervals(ernd: bool, mean: float, deviation: float, seed: int) -> None:
    core = load_core("max")
    features = core.features | {Feature.FEAT_SPE_ERnd}
    if not ernd:
        features -= {Feature.FEAT_SPE_ERnd}
    machine = Machine(
        program(MIXED, 1 << 8 | 1, E1SPE, EL1),
        ram=RAM,
        seed=seed,
        core=replace(core, features=features),
    )
    machine.run(600_000)
    found = gaps(machine)
    assert len(found) > 1500
    assert len(set(found)) > 200
    assert abs(sum(found) / len(found) - mean) < 3 * deviation / sqrt(len(found))
    least, most = (2, 512) if ernd else (257, 512)
    assert least <= min(found)
    assert max(found) <= most


@pytest.mark.sweep
@pytest.mark.parametrize("rnd", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_el0_samples_favour_no_place_across_system_calls(rnd: int) -> None:
    places = len(CALLING) + 1
    machine = Machine(program(CALLING, 1 << 8 | rnd, E0SPE, EL0), ram=RAM, seed=7)
    result = machine.run(1_200_000)
    counts = [0] * places
    for sampled in result.records:
        counts[(sampled.pc - LOOP) // 4] += 1
    total = len(result.records)
    assert total > 1000
    assert sum(counts) == total
    expected = total / places
    chi_square = sum((count - expected) ** 2 / expected for count in counts)
    assert chi_square < 32.9  # 12 degrees of freedom: exceeded once in a thousand
    if not rnd:
        assert max(counts) - min(counts) <= 1


def test_el0_population_is_what_runs_at_el0() -> None:
    machine = Machine(program(CALLING, 1 << 8, E0SPE, EL0), ram=RAM)
    pcs = []
    machine.board.cpu.engine.uc.hook_add(
        4, lambda uc, pc, size, data: pcs.append(pc)
    )  # UC_HOOK_CODE
    machine.run(100_000)
    at_el0 = [n + 1 for n, pc in enumerate(pcs) if LOOP <= pc < LOOP + 0x100]
    assert machine.board.unit.statistics.population == len(at_el0)
    assert [s.operation for s in machine.sampled] == at_el0[256::257]
