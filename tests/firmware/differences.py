"""Where a run and the same run made step by step differ."""

from __future__ import annotations

from typing import Any

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.shipped import shipped_names
from tests.firmware.programs import MADE_FOR, firmware_machine
from tests.support.machine_runs import Result

WINDOW = 12_000
"""Operations that the reference executes of a long program, at each place of interest."""


def places(result: Result) -> list[int]:
    """Before the first, a middle and the last record, and of some management events."""
    at = [sampled.operation for sampled in result.records]
    found = [at[n] for n in (0, len(at) // 2, -1)]
    at = [operation for operation, _, _ in result.events]
    found += [at[n] for n in (0, len(at) // 2, -1)] if at else []
    return sorted({max(1, operation - WINDOW // 2) for operation in found})


def differences(name: str, begins: list[int], window: int, **options: Any) -> dict[str, str]:
    """What differs if ``window`` operations from each of ``begins`` on are stepped or run."""
    fast, other = (firmware_machine(name, **options) for _ in range(2))
    found = {}
    for begin in begins:
        for machine in (fast, other):
            machine.board.run(max(0, begin - machine.board.cpu.executed))
        other.go_on_with(ReferenceRunner)
        found = fast.run(window).differences(other.run(window))
        if found:
            break
        other.go_on_with(Runner)
    return found


MANY = {name: options["smp"] for name, options in MADE_FOR.items() if "smp" in options}
"""Programs for several PEs; a reference cannot take over one that is shared among them."""
NAMES = sorted(set(shipped_names()) - set(MANY))
