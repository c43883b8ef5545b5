"""Instructions in a row that the engine lacks: carried out at once, and seen one by one."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from unicorn import UC_HOOK_INTR

from spe_unicorn.arch.registers import system
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.pe.amended.lacking import Lacking
from spe_unicorn.host.pe.vectors import vector
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
CPACR = astuple(system.CPACR_EL1.encoding)
MUL, XAR, EOR3, USDOT = 0x04A2_6023, 0x0478_3444, 0x0422_3823, 0x4482_7823
AND, ORR, EOR, BIC, MOVPRFX = 0x0422_3064, 0x0463_3085, 0x04A5_3023, 0x04E1_3065, 0x0420_BC64
BFCVT, CNT = 0x658A_A423, 0xDAC0_1C84
ROW = [MUL, MOVPRFX, XAR, EOR, USDOT, AND, EOR3, ORR, CNT, BFCVT, BIC, MUL]
START = [
    *(*a.mov64(0, 0x33 << 16), a.msr(CPACR, 0), a.ISB, 0x2598_E3E1),  # PTRUE P1.S
    *(0x25B8_C0E1, 0x25B8_C0C2, MUL),  # DUP Z1.S, #7; DUP Z2.S, #6; Python carries out the first
]
TO_PAGE = 0x1000
BOTH: tuple[type[Runner], ...] = (Runner, ReferenceRunner)  # type: ignore[assignment]


def machine(runner: type[Runner], row_at: int = CODE + 0x100, **options: object) -> Machine:
    """A loop through the row; ``row_at`` is where it begins."""
    start = [*START, a.b(row_at - CODE - 4 * len(START))]
    row = [a.add_imm(4, 4, 1), *ROW, a.b(-4 * len(ROW) - 4)]
    image = image_of({CODE: a.code(start), row_at: a.code(row)}, CODE)
    return Machine(image, runner=runner, **{"core": "max,FEAT_SPE_PBT=off", **options})  # type: ignore[arg-type]


def seen(one: Machine) -> tuple[object, ...]:
    cpu = one.board.cpu
    return (
        *(cpu.pc, one.board.executed, cpu.engine.x(4)),
        tuple(vector(cpu, n, 2048) for n in range(8)),
    )


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Where each run of an engine that has met such instructions lets rows end."""
    told: list[int | None] = []
    plain = Lacking.set_row_end

    def noted(self: Lacking, address: int | None) -> None:
        told.append(address)
        plain(self, address)

    monkeypatch.setattr(Lacking, "set_row_end", noted)
    return told


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("row_at", [CODE + 0x100, CODE + TO_PAGE - 20])
@pytest.mark.parametrize("core", ["max,FEAT_SPE_PBT=off", "neoverse-n2,FEAT_CSSC=on"])
def test_a_limit_ends_a_row(row_at: int, core: str, ends: list[int | None]) -> None:
    """Also in a row that goes on in the next page."""
    fast, reference = (machine(runner, row_at, core=core) for runner in BOTH)
    before = len(START) + 1
    for operations in (before, *range(1, 2 * len(ROW)), 100):
        assert fast.run(operations).ending is Ending.LIMIT
        reference.run(operations)
        assert seen(fast) == seen(reference), operations
    assert any(end is not None for end in ends) == wanted("instructions")


@pytest.mark.accelerated
@pytest.mark.parametrize("until", [NEVER, CODE])
def test_a_row_is_one_exception_of_the_engine(until: int) -> None:
    """Whether the run has an end or not: no address is taken for that of a run without rows."""
    fast = machine(Runner)
    exceptions = []
    fast.run(len(START) + 2 + len(ROW) + 2)  # once through, so that what it has is known
    uc = fast.board.cpu.engine.uc
    uc.hook_add(UC_HOOK_INTR, lambda *_: exceptions.append(0))
    fast.board.run(10 * (len(ROW) + 2), until=until)
    assert len(exceptions) == 10


@pytest.mark.sweep
def test_a_run_to_an_address_ends_there() -> None:
    begin = CODE + 0x104
    for n in range(1, len(ROW)):
        fast, reference = (machine(runner) for runner in BOTH)
        for one in (fast, reference):
            one.run(len(START) + 2 + len(ROW) + 2)  # once through
            one.board.run(until=begin + 4 * n)
        assert fast.board.cpu.pc == begin + 4 * n
        assert seen(fast) == seen(reference)


def test_a_breakpoint_in_a_row_stops_there(ends: list[int | None]) -> None:
    fast = machine(Runner)
    fast.run(len(START) + 2 + 3 * len(ROW))
    pe = fast.board.pes[0]
    ends.clear()
    for n in (2, 5, 6):
        place = CODE + 0x104 + 4 * n
        pe.runner.stops.resume({place}, None)
        assert fast.board.run(100) is Ending.STOPPED
        assert fast.board.cpu.pc == place
    assert set(ends) <= {None}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [None, 3, 50])
@pytest.mark.parametrize("core", ["max", "neoverse-n2,FEAT_CSSC=on", "neoverse-v1,FEAT_SVE2=on"])
def test_both_runners_come_to_the_same(core: str, period: int | None) -> None:
    fast, reference = (machine(runner, core=core, period=period) for runner in BOTH)
    assert fast.run(400).differences(reference.run(400)) == {}
    assert fast.operations == reference.operations
    assert seen(fast) == seen(reference)
