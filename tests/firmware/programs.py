"""The shipped programs by what they need and what they show."""

from __future__ import annotations

from typing import Any

from spe_unicorn.machine.shipped import shipped_names
from tests.host.machine_runs import Machine

BENCHMARKS = [name for name in shipped_names() if name.startswith("bench_")]
SAMPLING = ("interval", "mix", "spe_branches", "spe_copy", "spe_el0", "spe_fault", "spe_full")
"""Programs that sample, from EL1."""
SYSTEM = (
    *("beyond_qemu", "irq_latency", "priv_align", "priv_el1", "priv_el2", "priv_el3", "priv_gic"),
    *("priv_stage2", "priv_sysops", "priv_timer", "priv_timer_el2", "priv_vhe", "spe_access"),
)
"""Programs about system software: exceptions, interrupts and translation at every level."""
STARTS = {
    **dict.fromkeys(("priv_el2", "priv_stage2", "priv_timer_el2", "priv_vhe"), 2),
    **dict.fromkeys(("beyond_qemu", "priv_el3", "spe_access", "spe_el3_monitor"), 3),
    "spe_el2_owner": 2,
}
"""The Exception level at which a program starts, where that is not EL1."""


def firmware_machine(name: str, **options: Any) -> Machine:
    """A board with a shipped program, at the Exception level that it wants unless told."""
    options.setdefault("el", STARTS.get(name, 1))
    return Machine(name, **options)
