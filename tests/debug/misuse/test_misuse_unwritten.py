"""Registers that nothing has written since the reset, and events that nobody serves."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import spe
from spe_unicorn.debug.misuse import Misuses, watch_misuse
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.user_engine import (
    BUFFER,
    CODE,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
)

PMBIDR_EL1 = (3, 0, 9, 10, 7)
PMSEVFR_EL1, PMSLATFR_EL1 = (3, 0, 9, 9, 5), (3, 0, 9, 9, 6)
DSB_NSH = 0xD503_379F
FE, FT, FL, LD = 1, 2, 4, 1 << 17


def write(op: tuple[int, int, int, int, int], value: int) -> list[int]:
    return [*a.mov64(9, value), a.msr(op, 9)]


STEPS: dict[str, list[int]] = {
    "identify": [a.mrs(9, PMBIDR_EL1)],
    "stop": write(PMSCR_EL1, 0),
    "status": write(PMBSR_EL1, 0),
    "pointer": write(PMBPTR_EL1, BUFFER),
    "limit": write(PMBLIMITR_EL1, BUFFER + 0x1_0000 | 1),
    "interval": write(PMSIRR_EL1, 0x100),
    "counter": write(PMSICR_EL1, 0),
    "filter": write(PMSFCR_EL1, 0),
    "enable": [a.ISB, *write(PMSCR_EL1, 0b10), a.ISB],
    "work": [a.NOP] * 1000,
    "end": [a.msr(PMSCR_EL1, 31), a.ISB, a.PSB_CSYNC, DSB_NSH, a.ISB],
}


def run(
    runner: type[Runner] = Runner, seed: int = 0, patience: int = 0, **steps: list[int]
) -> tuple[Misuses, list[int]]:
    """What a driver does wrong whose steps are those of STEPS but for some, and its code."""
    words = [word for name, step in STEPS.items() for word in steps.get(name, step)]
    machine = Machine(image_of({CODE: a.code([*words, a.b(0)])}, CODE), runner=runner, seed=seed)
    for register in (spe.PMBPTR_EL1, spe.PMSFCR_EL1, spe.PMSICR_EL1):  # as a reset may leave them
        machine.board.cpu.registers.set_raw(register, 0)
    misuses = watch_misuse(machine.board)
    machine.board.run(len(words))
    misuses.finish(patience)
    return misuses, words


def found(**steps: list[int]) -> list[tuple[str, str]]:
    """Names of rules and what breaks them, by both runners."""
    both = [
        [(misuse.rule.name, misuse.what) for misuse in run(runner, **steps)[0].found]
        for runner in (Runner, ReferenceRunner)
    ]
    assert both[0] == both[1]
    return both[0]


def test_a_driver_that_writes_each_register_breaks_nothing() -> None:
    assert found() == []


def test_a_driver_looks_whether_it_may_program_the_buffer_before_it_does() -> None:
    """PMBIDR_EL1.P is 0 here, and could be 1 (Arm ARM D24.7, PMBIDR_EL1)."""
    mistake = [("identification-not-read", "nothing has read PMBIDR_EL1")]
    assert found(identify=[]) == mistake
    late = [*STEPS["enable"], a.mrs(9, PMBIDR_EL1)]
    assert found(identify=[], enable=late) == mistake


@pytest.mark.parametrize(
    ("step", "rule", "register"),
    [
        ("interval", "interval-unknown", "PMSIRR_EL1"),
        ("counter", "counter-unknown", "PMSICR_EL1"),
        ("filter", "filter-unknown", "PMSFCR_EL1"),
        ("pointer", "pointer-unknown", "PMBPTR_EL1"),
    ],
)
def test_each_register_has_to_be_written(step: str, rule: str, register: str) -> None:
    named, what = found(**{step: []})[0]
    assert named == rule
    assert what.startswith(f"nothing has written {register}, which is 0x")


def test_in_discard_mode_the_pointer_does_not_matter() -> None:
    assert found(pointer=[], limit=write(PMBLIMITR_EL1, BUFFER + 0x1_0000 | 0b101)) == []


@pytest.mark.parametrize(
    ("control", "register", "op"),
    [(FE, "PMSEVFR_EL1", PMSEVFR_EL1), (FL, "PMSLATFR_EL1", PMSLATFR_EL1)],
)
def test_what_an_enabled_filter_chooses_has_to_be_written(
    control: int, register: str, op: tuple[int, int, int, int, int]
) -> None:
    names = found(filter=write(PMSFCR_EL1, control))
    assert [name for name, _ in names] == ["filter-unknown"]
    assert names[0][1].startswith(f"nothing has written {register}, which is 0x")
    assert found(filter=[*write(op, 1 << 7), *write(PMSFCR_EL1, control)]) == []
    assert found(filter=write(PMSFCR_EL1, FT | LD)) == []


def test_the_place_is_where_profiling_becomes_enabled() -> None:
    misuses, words = run(counter=[])
    last = len(words) - len(STEPS["end"]) - len(STEPS["work"]) - 2
    assert [misuse.pc for misuse in misuses.found] == [CODE + 4 * last]


# Events that nobody serves

SMALL = write(PMBLIMITR_EL1, BUFFER + 0x1000 | 1)
FULL = {"limit": SMALL, "pointer": write(PMBPTR_EL1, BUFFER + 0x1000 - 128)}
"""There is room for one record or two, so that the buffer becomes full."""


def test_a_stop_that_nobody_looks_at_is_named_with_what_is_enabled_instead() -> None:
    ((name, what),) = found(**FULL)
    assert name == "stop-not-served"
    assert what.startswith("a management event (full) stopped profiling ")
    assert what.endswith("INTID 21 is not enabled; no other PPI or SPI is")
    gicr_isenabler0 = 0x080B_0100
    timer = [*a.mov64(10, gicr_isenabler0), *a.mov64(11, 1 << 30), a.str_(11, 10, size=2)]
    ((_, what),) = found(**FULL, stop=[*STEPS["stop"], *timer])
    assert what.endswith(
        "INTID 21 is not enabled; enabled instead: INTID 30 (the EL1 physical timer's)"
    )


def test_the_place_is_the_write_that_let_profiling_begin() -> None:
    misuses, words = run(**FULL)
    write_of_pmscr = len(words) - len(STEPS["end"]) - len(STEPS["work"]) - 2
    assert [misuse.pc for misuse in misuses.found] == [CODE + 4 * write_of_pmscr]


@pytest.mark.parametrize(
    "look",
    [[a.mrs(3, PMBSR_EL1)], [a.msr(PMBLIMITR_EL1, 31), a.ISB, a.msr(PMBSR_EL1, 31)]],
    ids=["read", "written"],
)
def test_software_that_looks_at_the_status_has_served_it(look: list[int]) -> None:
    assert found(**FULL, end=[*STEPS["end"], *look]) == []


def test_a_run_that_is_cut_short_gives_the_guest_time() -> None:
    misuses, _ = run(**FULL, patience=10_000)
    assert misuses.found == []
    misuses, _ = run(**FULL, patience=10_000, work=[a.NOP] * 11_000)
    assert [misuse.rule.name for misuse in misuses.found] == ["stop-not-served"]
