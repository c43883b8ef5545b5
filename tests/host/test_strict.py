"""What a core lacks is UNDEFINED on it, although the engine executes it: `strict`."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.accelerators import NAMES, OPTION
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
VECTORS = RAM + 0x2000
PLACE = RAM + 0x1000
VBAR = astuple(system.VBAR_EL1.encoding)
ESR, ELR = astuple(system.ESR_EL1.encoding), astuple(system.ELR_EL1.encoding)
CFINV = 0xD500_401F  # FEAT_FlagM
AXFLAG = 0xD500_405F  # FEAT_FlagM2
CPACR = astuple(system.CPACR_EL1.encoding)
HANDLER = [
    *[a.add_imm(20, 20, 1), a.mrs(21, ELR), a.mrs(22, ESR), a.add_imm(21, 21, 4)],
    *[a.msr(ELR, 21), a.ERET],
]
START = [*a.mov64(0, VECTORS), a.msr(VBAR, 0)]
MISSING = {
    CFINV: "neoverse-n1",
    AXFLAG: "neoverse-v1",  # FEAT_FlagM2
    0xD503_30FF: "neoverse-v1",  # SB
    0x6E83_CC41: "neoverse-n1",  # FCMLA V1.4S, V2.4S, V3.4S, #90: before the trap of SIMD
    0x1E7E_0041: "neoverse-n1",  # FJCVTZS W1, D2
    0xDAC1_0041: "neoverse-n1",  # PACIA X1, X2
    0xD518_2101: "neoverse-n1",  # MSR APIAKeyLo_EL1, X1
    0xD53B_2401: "neoverse-n1",  # MRS X1, RNDR
    0xD50B_7381: "neoverse-v1",  # CFP RCTX, X1
    0x9940_0041: "neoverse-n1",  # LDAPUR W1, [X2]
}
THERE = {
    CFINV: "neoverse-v1",
    AXFLAG: "neoverse-n2",
    0xD503_30FF: "cortex-x4",
    0xD518_2101: "neoverse-v1",
    0xF821_4062: "neoverse-n1",  # LDSMAX: FEAT_LSE
    0xD518_A401: "neoverse-n1",  # MSR LORSA_EL1, X1
}


def ran(code: list[int], more: int = 0, **options: object) -> Board:
    """A board whose handler counts exceptions in X20, and goes on after each."""
    board = board_at([*START, *code, a.b(0)], el=1, **options)  # type: ignore[arg-type]
    board.memory.fill(VECTORS + 0x200, a.code(HANDLER))
    board.run(len(START) + len(code) + len(HANDLER) + more)
    return board


@RUNNERS
@pytest.mark.parametrize("word", MISSING, ids=hex)
def test_what_the_core_lacks_is_undefined(word: int, runner: type[Runner]) -> None:
    code = [a.add_imm(1, 1, 3), word, a.add_imm(1, 1, 3)]
    x = ran(code, core=MISSING[word], runner=runner).cpu.engine.x
    assert (x(20), x(22), x(1)) == (1, 1 << 25, 6)
    assert x(21) == RAM + 4 * (len(START) + 2)


@RUNNERS
@pytest.mark.parametrize("word", THERE, ids=hex)
def test_what_it_has_is_executed(word: int, runner: type[Runner]) -> None:
    code = [*a.mov64(2, 0), *a.mov64(3, RAM + 0x8000), word]
    board = ran(code, core=THERE[word], runner=runner)
    assert board.cpu.engine.x(20) == 0
    assert board.cpu.pc == RAM + 4 * (len(START) + len(code))


@RUNNERS
@pytest.mark.parametrize(
    ("core", "strict", "undefined"),
    [
        ("neoverse-n1", False, 0),
        ("neoverse-n1", True, 1),
        ("generic", True, 0),  # a core without a version has what is executed here
        ("max", None, 0),
    ],
)
def test_it_can_be_switched(
    core: str, strict: bool | None, undefined: int, runner: type[Runner]
) -> None:
    board = ran([CFINV, a.NOP], core=core, strict=strict, runner=runner)
    assert board.cpu.engine.x(20) == undefined


@RUNNERS
@pytest.mark.parametrize("used", ["none", ",".join(NAMES)])
@pytest.mark.parametrize("before", [0, 1, 1000])
def test_it_is_found_wherever_it_comes(
    before: int, used: str, runner: type[Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the very first block, after a branch, and after a loop that counts itself; each time."""
    monkeypatch.setenv(OPTION, used)
    earlier = [*a.mov64(0, before), a.subs_imm(0, 0, 1), a.b_cond(a.NE, -4)] if before else []
    # X3 is set: otherwise a block would begin with the instruction
    code = [*earlier, a.add_imm(3, 3, 1), CFINV, a.subs_imm(31, 3, 40), a.b_cond(a.NE, -12)]
    rounds = 40 * (3 + len(HANDLER) + 1)
    board = ran(code, rounds + 2 * before, core="neoverse-n1", runner=runner)
    assert board.cpu.engine.x(20) == 40
    assert board.cpu.pc == RAM + 4 * (len(START) + len(code))


@pytest.mark.parametrize("period", [1, 3, None])
def test_both_runners_come_to_the_same(period: int | None) -> None:
    loop = [a.add_imm(3, 3, 1), a.subs_imm(31, 3, 9), CFINV, a.csinc(4, 5, 6, a.NE), a.b(-16)]
    code = a.code([*START, *loop])
    image = image_of({RAM: code, VECTORS + 0x200: a.code(HANDLER)}, RAM)
    fast, reference = (
        Machine(image, runner=runner, period=period, core="neoverse-n1")
        for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(700).differences(reference.run(700)) == {}
    assert fast.operations == reference.operations
    assert fast.board.pes[0].cpu.engine.x(20) > 50


@pytest.mark.parametrize("strict", [True, False])
def test_a_restored_machine_is_as_strict(strict: bool) -> None:
    """Also where the first such instruction came before the snapshot, or comes after it."""
    code = [*START, a.add_imm(3, 3, 1), CFINV, a.b(-8)]
    for before in (len(START), 200):
        boards = []
        for _ in range(2):
            board = board_at(code, el=1, core="neoverse-n1", strict=strict)
            board.memory.fill(VECTORS + 0x200, a.code(HANDLER))
            boards.append(board)
        first, other = boards
        first.run(before)
        saved = BoardSaver(first).save()
        first.run(300)
        expected = first.cpu.engine.x(20)
        assert (expected > 20) is strict
        BoardSaver(other).restore(saved)
        other.run(300)
        assert other.cpu.engine.x(20) == expected


@RUNNERS
def test_what_is_rewritten_without_maintenance_is_what_is_executed(runner: type[Runner]) -> None:
    """A missing instruction becomes UDF, and then ADD: in blocks that have been seen before."""
    add, udf = a.add_imm(1, 1, 1), 0
    code = [*a.mov64(3, PLACE), *a.mov64(4, udf), *a.mov64(5, add), a.blr(3)]
    code += [a.str_(4, 3, size=2), a.blr(3), a.str_(5, 3, size=2), a.blr(3)]
    board = board_at([*START, *code, a.b(0)], el=1, core="neoverse-n1", runner=runner)
    board.memory.fill(VECTORS + 0x200, a.code(HANDLER))
    board.memory.fill(PLACE, a.code([CFINV, a.RET]))
    board.run(100)
    x = board.cpu.engine.x
    assert (x(1), x(20)) == (1, 2)
    assert board.cpu.pc == RAM + 4 * (len(START) + len(code))


@RUNNERS
def test_a_missing_instruction_may_be_rewritten_in_its_own_block(runner: type[Runner]) -> None:
    """Arm allows both: what was there, or what is there now; either comes once."""
    code = [*a.mov64(3, PLACE), *a.mov64(5, a.add_imm(1, 1, 1)), a.blr(3)]
    board = board_at([*START, *code, a.b(0)], el=1, core="neoverse-n1", runner=runner)
    board.memory.fill(VECTORS + 0x200, a.code(HANDLER))
    board.memory.fill(PLACE, a.code([a.NOP, a.str_(5, 3, 8, size=2), CFINV, a.RET]))
    board.run(100)
    x = board.cpu.engine.x
    assert (x(1), x(20)) in ((1, 0), (0, 1))
    assert board.cpu.pc == RAM + 4 * (len(START) + len(code))
