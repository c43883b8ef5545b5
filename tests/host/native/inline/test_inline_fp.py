"""Blocks with FP count themselves once no Exception level traps it any more."""

from __future__ import annotations

from functools import partial

import pytest

from spe_unicorn import Machine
from spe_unicorn.host.engine import known
from spe_unicorn.host.run import slices
from tests.support import a64 as a
from tests.support.machine_runs import image_of

pytestmark = pytest.mark.skipif(
    known.why_not() is not None, reason="inline counting is for Linux on x86-64"
)

CODE, VECTORS = 0x4000_0000, 0x4000_1000
CPACR_EL1, VBAR_EL1 = (3, 0, 1, 0, 2), (3, 0, 12, 0, 0)
FPEN = 0b11 << 20
SYNCHRONOUS = 0x200
"""Of exceptions from the current Exception level with SP_ELx."""


def fp_is(enabled: bool) -> list[int]:
    return [*a.mov64(3, FPEN if enabled else 0), a.msr(CPACR_EL1, 3), a.ISB]


def loop(times: int) -> list[int]:
    """One block, ``times`` over."""
    return [*a.mov64(9, times), a.fadd(0, 0, 1), a.subs_imm(9, 9, 1), a.b_cond(a.NE, -8)]


def test_a_loop_with_fp_counts_itself_after_it_was_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other block runs twice."""
    monkeypatch.setenv(known.OPTION, "1")
    image = image_of({CODE: a.code([*fp_is(True), *loop(1 << 22)])}, CODE)
    with Machine(image) as machine:
        machine.run(operations=4_000_000)  # it is looked at as a slice ends
        assert machine.board.cpu.hooks.counted_inline.blocks


ROUNDS = 12


def test_fp_that_traps_again_traps_however_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler counts in X20, enables FP, and goes back to the operation that trapped.

    Code is not translated anew each time.
    """
    monkeypatch.setattr(slices, "_FIRST", 1 << 12)
    monkeypatch.setattr(slices, "_LENGTHS", (1 << 12, 1 << 12))
    handler = [a.add_imm(20, 20, 1), *fp_is(True), a.ERET]
    rounds = [*fp_is(False), *loop(100_000), a.subs_imm(8, 8, 1)]
    code = [*a.mov64(4, VECTORS), a.msr(VBAR_EL1, 4), *a.mov64(8, ROUNDS), *rounds]
    code += [a.b_cond(a.NE, -4 * len(rounds)), a.b(0)]
    image = image_of({CODE: a.code(code), VECTORS + SYNCHRONOUS: a.code(handler)}, CODE)
    seen = []
    for value in ("0", "1"):
        monkeypatch.setenv(known.OPTION, value)
        with Machine(image) as machine:
            cpu = machine.board.cpu
            forgotten: list[int] = []
            cpu.engine.code_forgotten.wire(partial(forgotten.append, 1))
            machine.run(operations=ROUNDS * 301_000)
            assert bool(cpu.hooks.counted_inline.blocks) == (value == "1")
            assert len(forgotten) < ROUNDS
            seen.append((cpu.engine.general(), cpu.executed))
    assert seen[0] == seen[1]
    assert seen[0][0][20] == ROUNDS
