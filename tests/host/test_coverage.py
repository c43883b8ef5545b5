"""Coverage: what was executed, and which way branches went, by both runners and by hand."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.host.pe.covering import Covered
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.plan import boot_plan
from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.small_boards import RAM, board_at

NOP = 0xD503201F
LOOP = 0x14000000  # b .
FELL, TAKEN, BOTH = 1, 2, 3


def covered(code: list[int], operations: int, runner: Any = Runner, **options: Any) -> Covered:
    board = board_at(code, runner=runner, **options)
    try:
        board.cover()
        board.run(operations)
        return board.covered
    finally:
        board.close()


def places(found: Covered) -> tuple[list[int], dict[int, int]]:
    """Operations and branches by their number in the code."""
    operations = sorted((address - RAM) // 4 for address in found.operations)
    return operations, {(address - RAM) // 4: ways for address, ways in found.ways.items()}


BOTH_RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


@BOTH_RUNNERS
def test_a_loop_goes_both_ways(runner: Any) -> None:
    code = [
        0xD2800140,  # 0 mov x0, #10
        0xF1000400,  # 1 subs x0, x0, #1
        0x54FFFFE1,  # 2 b.ne 1
        LOOP,  # 3
        NOP,  # 4
    ]
    assert places(covered(code, 100, runner)) == ([0, 1, 2, 3], {2: BOTH})


@BOTH_RUNNERS
@pytest.mark.parametrize("times", [1, 2, 200])
def test_a_way_is_seen_where_what_it_leads_to_is_reached_otherwise(runner: Any, times: int) -> None:
    # 4 is executed in each round; its branch at 3 goes there only in the last round
    code = [
        0xD2800001 | times << 5,  # 0 mov x1, #times
        0xF1000421,  # 1 subs x1, x1, #1
        NOP,  # 2
        0x54000040,  # 3 b.eq 5
        NOP,  # 4
        0xB5FFFF81,  # 5 cbnz x1, 1
        LOOP,  # 6
    ]
    expected = {3: BOTH, 5: BOTH} if times > 1 else {3: TAKEN, 5: FELL}
    operations = [0, 1, 2, 3, 4, 5, 6] if times > 1 else [0, 1, 2, 3, 5, 6]
    assert places(covered(code, 7 * times + 20, runner)) == (operations, expected)


@BOTH_RUNNERS
def test_a_way_that_is_never_taken_is_not_made_up(runner: Any) -> None:
    # 5 is reached from 4 alone; the branch at 2, which would go there, is never taken
    code = [
        0xD2800C81,  # 0 mov x1, #100
        NOP,  # 1
        0xB40000A1,  # 2 cbz x1, 7
        NOP,  # 3
        0xD1000421,  # 4 sub x1, x1, #1
        0x36000041,  # 5 tbz w1, #0, 7
        NOP,  # 6
        0xF100043F,  # 7 cmp x1, #1
        0x54FFFF28,  # 8 b.hi 1 (to 0x...: 8 - 7 words)
        LOOP,  # 9
    ]
    code[8] = 0x54000008 | (-7 & 0x7FFFF) << 5
    found = places(covered(code, 5000, runner))
    assert found == (list(range(10)), {2: FELL, 5: BOTH, 8: BOTH})


@BOTH_RUNNERS
def test_what_stands_after_a_fault_was_not_executed(runner: Any) -> None:
    # the load has no memory; the vector of EL3 with SPx is at 0x200
    code = [
        0x10000006 | 0x800 >> 2 << 5,  # 0 adr x6, 0x800
        0xD51EC006,  # 1 msr vbar_el3, x6
        0xD2C00202,  # 2 mov x2, #0x10 << 32
        NOP,  # 3
        0xF9400043,  # 4 ldr x3, [x2]
        NOP,  # 5
        0xB4000040,  # 6 cbz x0, 8
    ]
    code += [NOP] * (0xA00 // 4 - len(code)) + [LOOP]
    operations, ways = places(covered(code, 50, runner))
    assert operations == [0, 1, 2, 3, 4, 0xA00 // 4]
    assert ways == {}


@BOTH_RUNNERS
def test_code_that_overwrites_itself_counts_by_its_addresses(runner: Any) -> None:
    # the branch at 5 goes to 7 in the first round, and becomes a NOP for the second
    code = [
        0xD2800041,  # 0 mov x1, #2
        0x10000002 | 4 * 4 >> 2 << 5,  # 1 adr x2, 5
        0x52800003 | 0x201F << 5,  # 2 mov w3, #0x201f
        0x72A00003 | 0xD503 << 5,  # 3 movk w3, #0xd503, lsl 16
        NOP,  # 4
        0xB5000041,  # 5 cbnz x1, 7
        NOP,  # 6
        0xB9000043,  # 7 str w3, [x2]
        0xD50B7522,  # 8 ic ivau, x2
        0xD5033FDF,  # 9 isb
        0xF1000421,  # 10 subs x1, x1, #1
        0x54FFFF21,  # 11 b.ne 4
        LOOP,  # 12
    ]
    code[11] = 0x54000001 | (-7 & 0x7FFFF) << 5
    operations, ways = places(covered(code, 60, runner))
    assert operations == list(range(13))
    assert ways == {5: TAKEN, 11: BOTH}


def of_firmware(name: str, operations: int, runner: Any, **options: Any) -> Covered:
    settings = MachineOptions(firmware=str(shipped_firmware(name)), **options)
    board = Board(settings, runner=runner)
    try:
        board.start(boot_plan(settings))
        board.cover()
        board.run(operations)
        return board.covered
    finally:
        board.close()


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hello", {}),
        ("exceptions", {}),
        ("mix", {"sampling": Sampling(100)}),
        ("priv_el2", {}),
        ("psci_calls", {"smp": 2}),
        ("virtio_console", {}),
        ("spe_model", {"model": "cache"}),
        ("spe_access", {"core": "neoverse-n2"}),
    ],
)
def test_both_runners_cover_the_same(name: str, options: dict[str, Any]) -> None:
    fast, plain = (of_firmware(name, 9_000, each, **options) for each in (Runner, ReferenceRunner))
    assert fast == plain
    assert len(fast.operations) > 20


@pytest.mark.parametrize("name", ["bench_sort", "bench_interp", "spe_copy", "spe_irq_el1"])
def test_inline_counting_covers_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inline = of_firmware(name, 2_000_000, Runner)
    monkeypatch.setenv("SPE_UNICORN_ACCELERATORS", "none")
    assert of_firmware(name, 2_000_000, Runner) == inline
    assert len(inline.ways) > 10
