"""Guests that wait for ever, reset for ever or claim a lot of memory: the host goes on."""

from __future__ import annotations

import resource
from itertools import count
from pathlib import Path

import pytest

from spe_unicorn.arch.pe import EL1
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import EXECUTE, READ, WRITE, Image, Segment
from spe_unicorn.machine.boot.plan import boot_plan
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.symbols.table import SymbolTable
from tests.support import a64 as a
from tests.support.small_boards import CORE, MIB, RAM, SYSTEM_RESET, board_at, plan_at, psci

CNTV_CTL, CNTV_CVAL, CNTVCT = (3, 3, 14, 3, 1), (3, 3, 14, 3, 2), (3, 3, 14, 0, 2)
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def sleeper(compare: int) -> list[int]:
    return [
        *a.mov64(0, compare),
        a.msr(CNTV_CVAL, 0),
        a.movz(0, 1),
        a.msr(CNTV_CTL, 0),
        a.WFI,
        a.mrs(1, CNTVCT),
        a.b(0),
    ]


@RUNNERS
@pytest.mark.parametrize("pes", [1, 2])
@pytest.mark.parametrize("compare", [2**64 - 1, 2**63 - 1, 2**60 - 1, 2**58])
def test_a_compare_value_that_no_machine_reaches_wakes_nobody(
    compare: int, pes: int, runner: type[Runner]
) -> None:
    subject = board_at(sleeper(compare), pes=pes, el=EL1, runner=runner)
    assert subject.run(1000) is Ending.ASLEEP
    assert subject.physical_count() < 100


@RUNNERS
@pytest.mark.parametrize("pes", [1, 2])
def test_time_goes_on_to_a_compare_value_that_is_only_far_away(
    pes: int, runner: type[Runner]
) -> None:
    """The virtual timer's line is asserted then; no GIC is set up, so it wakes nobody."""
    subject = board_at(sleeper(2**57), pes=pes, el=EL1, runner=runner)
    assert subject.run(1000) is Ending.ASLEEP
    assert 2**57 <= subject.physical_count() < 2**57 + 100


def test_a_pe_that_waits_ends_its_wait_when_the_run_is_to_end() -> None:
    subject = board_at(sleeper(2**57), el=EL1)
    subject.handler.interrupts.became_pending.connect(lambda: None)
    subject.slice_ended.connect(subject.stop)
    subject.pes[0].runner.stopping = True
    assert subject.run() is Ending.INTERRUPTED
    assert subject.run(1000) is Ending.ASLEEP


def test_a_guest_that_resets_at_once_for_ever_is_interrupted() -> None:
    subject = board_at(psci(SYSTEM_RESET), el=EL1)
    subject.begins = plan_at(RAM)
    looks = count(1)
    subject.slice_ended.connect(lambda: subject.stop() if next(looks) == 20 else None)
    assert subject.run() is Ending.INTERRUPTED


def test_zeros_of_an_image_take_no_memory_of_the_host() -> None:
    size = 1000 * MIB
    code = a.code([a.b(0)])
    segment = Segment(RAM + 2 * MIB, code, size, RAM + 2 * MIB, READ | WRITE | EXECUTE, 0)
    image = Image(Path("zeros"), segment.address, (segment,), SymbolTable())
    board = Board(MachineOptions(core=CORE, ram=1024 * MIB, firmware=image))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    board.start(boot_plan(board.options))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_zeros_of_an_image_are_there_again_behind_a_reset() -> None:
    segment = Segment(RAM + MIB, a.code([a.b(0)]), 0x5000, RAM + MIB, READ | WRITE | EXECUTE, 0)
    image = Image(Path("zeros"), segment.address, (segment,), SymbolTable())
    board = Board(MachineOptions(core=CORE, ram=4 * MIB, firmware=image))
    plan = boot_plan(board.options)
    board.start(plan)
    board.memory.fill(segment.address, bytes([0xFF]) * 0x5004)
    board.start(plan)
    held = board.memory.read(segment.address, 0x5004)
    assert held == segment.data + bytes(0x5000 - 4) + bytes([0xFF]) * 4
