"""While nothing is armed, no operation is looked at: the guest runs as on a PE without debug."""

from __future__ import annotations

from typing import Any

import pytest
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.run.runner import Runner
from tests.host.run.debug.debugged import BOTH, CODE, DATA, EIGHT, EL0_AND_EL1, board
from tests.support import a64 as a

ENABLED = 1
WATCH = EIGHT | BOTH | EL0_AND_EL1
BREAK = 0xF << 5 | EL0_AND_EL1


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The addresses between which operations are looked at, each time somebody begins to."""
    found = []
    add = NativeHooks.add

    def noting(self, kind, hook, *arguments, bounds=(1, 0), user=None):
        if kind == uc_const.UC_HOOK_CODE:
            found.append(bounds)
        return add(self, kind, hook, *arguments, bounds=bounds, user=user)

    monkeypatch.setattr(NativeHooks, "add", noting)
    return found


EVERYWHERE = (1, 0)


@pytest.mark.parametrize(
    ("watch", "breakpoint_", "expected"),
    [
        (WATCH, BREAK, []),
        (WATCH, BREAK | ENABLED, [(CODE + 0x100, CODE + 0x100)]),
        (WATCH | ENABLED, BREAK, [EVERYWHERE]),
    ],
)
def test_only_what_is_armed_is_looked_at(
    looked_at: list[Any], watch: int, breakpoint_: int, expected: list[Any] | list[tuple[int, int]]
) -> None:
    """MDSCR_EL1 has MDE and KDE, and all else is said: E of DBGBCR and DBGWCR decides."""
    chosen = {
        d.DBGWVRS[0]: DATA + 0x800,
        d.DBGWCRS[0]: watch,
        d.DBGBVRS[0]: CODE + 0x100,
        d.DBGBCRS[0]: breakpoint_,
    }
    made, before = board([a.ldr(1, 6), a.str_(1, 6), a.b(-8)], chosen, Runner)
    made.run(before + 3000)
    assert looked_at == expected
    assert made.executed == before + 3000
    if not expected:
        assert not made.cpu.state.checking
