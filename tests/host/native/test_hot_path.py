"""What the block hook counts by itself, and what it leaves to the hook for special blocks."""

from __future__ import annotations

import ctypes
from random import Random

import numpy as np
import pytest

from spe_unicorn.bits import signed
from spe_unicorn.host.engine import known
from spe_unicorn.host.native.hot_path import BLOCK_HOOKS
from spe_unicorn.host.native.state.block_table import BLOCKS
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4008_0000
KERNEL = signed(0xFFFF_8000_1000_0000)
_MASK = (1 << 64) - 1


@pytest.mark.parametrize("looks", [False, True])
def test_the_block_hook_counts_what_needs_no_look_and_asks_about_all_else(looks: bool) -> None:
    """No block is known to be harmless: where blocks are looked at, each is special."""
    asked: list[tuple[int, int]] = []
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    special = ctypes.CFUNCTYPE(None, *kinds)(lambda _, __, at, count: asked.append((at, count)))
    quick = np.full(BLOCKS, -1, np.int64)
    hook = ctypes.CFUNCTYPE(None, *kinds[:2], ctypes.c_uint32, ctypes.c_void_p)(
        BLOCK_HOOKS[0].address
    )
    random = Random(3)
    state = State(special=looks, quick=quick.ctypes.data)
    state.special_hook = ctypes.cast(special, ctypes.c_void_p).value
    for base in (0, CODE, KERNEL, -64):
        for at in [base + n for n in range(-8, 80)] + [signed(random.getrandbits(64))]:
            asked.clear()
            operations = 1 + random.randrange(9)
            state.budget = 5
            hook(None, at & _MASK, 4 * operations, ctypes.addressof(state))
            counted = at & 3 == 0 and not looks and operations <= 5
            assert asked == ([] if counted else [(signed(at & _MASK), operations)])
            assert state.budget == (5 - operations if counted else 5)


@pytest.mark.parametrize("period", [7, 101, 997])
def test_code_that_runs_at_last_is_counted_and_sampled(
    period: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop jumps over three operations, but goes through them where bit 8 of its rounds is 1."""
    monkeypatch.setenv(known.OPTION, "0")
    seldom = [a.add_imm(3, 3, 1), a.udiv(4, 3, 2), a.NOP]
    over = a.tbz(2, 8, 4 * len(seldom) + 4)
    loop = [a.add_imm(2, 2, 1), over, *seldom, a.subs_imm(1, 1, 1), a.b(-4 * len(seldom) - 12)]
    machines = [
        Machine(image_of({CODE: a.code(loop)}, CODE), runner=runner, period=period)
        for runner in (Runner, ReferenceRunner)
    ]
    fast, plain = (machine.run(6000) for machine in machines)
    assert fast.differences(plain) == {}
    assert len(plain.records) > 5000 // period
