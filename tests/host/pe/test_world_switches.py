"""World switches of a hypervisor: what they come to, and that they do not leave compiled code."""

from __future__ import annotations

from collections import Counter

import pytest

from spe_unicorn.arch.registers import fgt, system
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.perform import Performer
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import VECTORS, put
from tests.support import a64 as a
from tests.support.small_boards import board_at

HOST = system.HCR_EL2.of(E2H=1, RW=1).value
FPEN_ALL = 0b11 << 20
TPIDR, ZCR = (3, 0, 13, 0, 4), (3, 0, 1, 2, 0)
FROM_CURRENT = 0x200
TRAPS_TPIDR = 1 << 33


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Counter[Stop]:
    """How often the engine was stopped, by reason."""
    found: Counter[Stop] = Counter()
    after_run = Performer.after_run
    monkeypatch.setattr(
        Performer,
        "after_run",
        lambda self, report: (found.update([report.stop]), after_run(self, report)),
    )
    return found


@pytest.mark.parametrize(("accessed", "stopped"), [(TPIDR, 0), (ZCR, 1)])
def test_only_what_traps_here_stops_a_level_at_which_something_traps(
    accessed: tuple[int, int, int, int, int], stopped: int, stops: Counter
) -> None:
    """TPIDR_EL1 traps at EL1, by HFGRTR_EL2, and ZCR_EL1 at EL2, by CPTR_EL2.ZEN."""
    code = [
        *put(system.VBAR_EL2, VECTORS),
        *[
            *put(fgt.HFGRTR_EL2, TRAPS_TPIDR),
            *put(system.HCR_EL2, HOST),
            *put(system.CPTR_EL2, FPEN_ALL),
        ],
        *10 * [a.mrs(1, TPIDR), a.b(4)],
        *[a.mrs(1, accessed), a.movz(2, 7)],
    ]
    subject = board_at([*code, a.b(0)], el=2, runner=Runner)
    subject.memory.fill(VECTORS + FROM_CURRENT, a.code([a.b(0)]))
    assert subject.run(100) is Ending.LIMIT
    assert stops[Stop.TRAP] == stopped
    assert (subject.cpu.engine.x(2) == 7) is not bool(stopped)
