"""What ends a run of the engine: one list, and what is due first goes first."""

from __future__ import annotations

from pathlib import Path

import spe_unicorn
from spe_unicorn.host.ports import NEVER_HAPPENS, Ending
from spe_unicorn.host.run.horizons import Horizon, arrived, nearest
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000


def at(operations: int, *, exact: bool = True) -> Horizon:
    return Horizon(lambda: operations, lambda: None, exact)


def test_the_first_of_the_list_that_is_reached_goes_first() -> None:
    late, early, never = at(10), at(5), at(NEVER_HAPPENS)
    assert arrived([never, late, early], 4) is None
    assert arrived([never, late, early], 5) is early
    assert arrived([never, late, early], 10) is late


def test_exact_horizons_and_others_are_looked_at_apart() -> None:
    horizons = [at(10), at(7, exact=False), at(30)]
    assert nearest(horizons, exact=True) == 10
    assert nearest(horizons, exact=False) == 7
    assert nearest([], exact=True) == NEVER_HAPPENS


def test_a_horizon_of_somebody_elses_ends_a_run_at_its_very_operation() -> None:
    image = image_of({CODE: a.code([a.add_imm(0, 0, 1)] * 7 + [a.b(-28)])}, CODE)
    machine = Machine(image)
    (runner,) = (pe.runner for pe in machine.board.pes)
    seen: list[int] = []
    places = [13, 1001]

    def arrive() -> Ending | None:
        seen.append(runner.cpu.executed)
        places.pop(0)
        return None if places else Ending.INTERRUPTED

    runner.horizons.append(Horizon(lambda: places[0] if places else NEVER_HAPPENS, arrive))
    assert runner.run(5000) is Ending.INTERRUPTED
    assert seen == [13, 1001]
    assert runner.cpu.executed == 1001


def test_python_forgets_code_through_one_door() -> None:
    package = Path(spe_unicorn.__file__).parent
    found = {
        source.name
        for source in package.rglob("*.py")
        if "ctl_flush_tb" in (text := source.read_text("utf-8")) or "ctl_remove_cache" in text
    }
    assert found == {"engine.py"}
