"""The shipped programs by what they need and what they show."""

from __future__ import annotations

import re
from typing import Any

from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.shipped import shipped_firmware, shipped_names
from tests.support.machine_runs import Machine, Result

BENCHMARKS = [name for name in shipped_names() if name.startswith("bench_")]
SAMPLING = ("interval", "mix", "spe_branches", "spe_copy", "spe_el0", "spe_fault", "spe_full")
"""Programs that sample, from EL1."""
SYSTEM = (
    *("beyond_qemu", "first_touch", "fw_cfg", "irq_latency", "priv_align", "priv_el1", "priv_el2"),
    *("priv_el3", "priv_gic", "priv_stage2", "priv_sysops", "priv_timer", "priv_timer_el2"),
    *("heap_blocks", "pl061", "planted", "priv_vhe", "psci_calls", "spe_access", "stale_lines"),
    *("debug_break", "debug_step", "debug_watch"),
)
"""Programs about system software: exceptions, interrupts and translation at every level."""
_STARTS_AT = {
    2: (
        *("first_touch", "priv_el2", "priv_stage2", "priv_timer_el2", "priv_vhe"),
        *("spe_el2_owner", "world_switch"),
    ),
    3: (
        *("beyond_qemu", "pmu_access", "pmu_exceptions", "pmu_levels", "priv_el3"),
        *("priv_gic_secure", "smc_pingpong", "spe_access", "spe_el3_monitor", "spe_exc"),
    ),
}
_WHAT_ELSE: dict[str, dict[str, Any]] = {
    "priv_el3": {"secure": True},
    "priv_gic_secure": {"secure": True},
    "priv_smp": {"smp": 4},
    "ipi_pingpong": {"smp": 2},
    "smc_pingpong": {"secure": True},
    "pmu_access": {"core": "max"},
    "pmu_exceptions": {"core": "max"},
    "spe_exc": {"core": "max"},
    "spe_coherence": {"smp": 5, "model": "cache"},
    "spe_model": {"model": "cache"},
    "spe_smp": {"smp": 4},
}
STARTS = {name: el for el, names in _STARTS_AT.items() for name in names}
"""The Exception level at which a program starts, where that is not EL1."""
MADE_FOR: dict[str, dict[str, Any]] = {
    name: {**({"el": STARTS[name]} if name in STARTS else {}), **_WHAT_ELSE.get(name, {})}
    for name in (*STARTS, *_WHAT_ELSE)
}
"""The options of ``run`` that a program is made for, where it needs any."""
TYPED = {"uart_echo": b"hello\n\x04"}
"""What a program that reads its console is typed."""


def arguments(name: str) -> list[str]:
    """A shipped program and the options that it is made for, as ``run`` takes them."""
    options = []
    for option, value in MADE_FOR.get(name, {}).items():
        options += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    return [*options, str(shipped_firmware(name))]


def firmware_machine(name: str, **options: Any) -> Machine:
    """A board with a shipped program, at the Exception level that it wants unless told."""
    options.setdefault("el", STARTS.get(name, 1))
    return Machine(name, **options)


_ELSEWHERE = (
    *(
        "bench_",
        "hello",
        "spe_access",
        "spe_coherence",
        "spe_el2_owner",
        "spe_el3_monitor",
        "spe_events",
        "spe_exc",
        "spe_model",
        "spe_smp",
        "uart_echo",
    ),
    *(
        "beyond_qemu",
        "first_touch",
        "priv_el2",
        "priv_el3",
        "priv_gic",
        "priv_smp",
        "priv_stage2",
        "priv_timer_el2",
        "priv_vhe",
    ),
    *("ipi_pingpong", "pmu_access", "pmu_exceptions", "pmu_levels", "smc_pingpong", "world_switch"),
    *("virtio_blk", "virtio_console"),
)
"""Programs that start elsewhere, or need what is not built (docs/reference/limits.md)."""
SELF_CHECKING = tuple(name for name in shipped_names() if not name.startswith(_ELSEWHERE))


def assert_passed(result: Result) -> None:
    """The guest ended the run with status 0 after a complete and good TAP report."""
    text = result.console.decode()
    assert (result.ending, result.exit_status) == (Ending.EXIT, 0), text[-2000:]
    plans = re.findall(r"^1\.\.(\d+)$", text, re.MULTILINE)
    assert len(plans) == 1, text
    numbers = [int(n) for n in re.findall(r"^ok (\d+)\b", text, re.MULTILINE)]
    assert numbers == list(range(1, int(plans[0]) + 1))
    assert "not ok" not in text
    assert "# SKIP" not in text.upper()


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "exceptions": ("spe_exc", {"el": 3, "core": "max"}),
    "EL2's buffer": ("spe_el2_owner", {"el": 2}),
    "EL2's buffer, everything": ("spe_el2_owner", {"el": 2, "core": "max"}),
    "both Security states": ("spe_el3_monitor", {"el": 3}),
    "counters": ("spe_counters", {}),
    "counters, no choices": ("spe_counters", {"core": "minimal"}),
    "counters, everything": ("spe_counters", {"core": "max"}),
    "faults of EL1": ("spe_events", {}),
    "faults of EL1, everything": ("spe_events", {"core": "max"}),
    "faults of EL1, no choices": ("spe_events", {"core": "minimal"}),
    "caches": ("spe_model", {"model": "cache"}),
    "SVE": ("spe_sve", {}),
    "SVE, everything": ("spe_sve", {"core": "max"}),
    "SVE, micro-operations": ("spe_sve", {"core": "neoverse-v2"}),
    "micro-operations": ("mix", {"core": "neoverse-n1,strict=off"}),
    "micro-operations, wrong paths": ("mix", {"core": "neoverse-v2", "model": "cache"}),
    "faults of EL2": ("spe_events", {"el": 2}),
    "faults of EL2, everything": ("spe_events", {"el": 2, "core": "max"}),
    "faults of EL2, no choices": ("spe_events", {"el": 2, "core": "minimal"}),
}
