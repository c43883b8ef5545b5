"""Our device tree beside the one that QEMU dumps for the same machine, node by node.

Each difference is meant, and stands here with its reason. A later QEMU may add to the lists.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from spe_unicorn.machine.boot.fdt import Node, parse
from spe_unicorn.machine.boot.plan import machine_dtb
from spe_unicorn.machine.options import MachineOptions
from tests.support.running.processes import WALL_SECONDS, limit_cpu

QEMU = shutil.which("qemu-system-aarch64")
pytestmark = pytest.mark.skipif(QEMU is None, reason="qemu-system-aarch64 is not installed")

NOT_OURS = {
    "/pcie@10000000": "nothing can be plugged in",
    "/platform-bus@c000000": "QEMU's own, for devices that are handed through",
    "/intc@8000000/its@8080000": "no ITS",
    "/aliases": "later QEMUs have a name for the UART, which /chosen has, too",
}
"""Nodes of QEMU's that we have not, and why."""
NOT_QEMUS = {
    "/spe-pmu": "QEMU has no SPE",
    "/cpus/l3-cache": "QEMU has no caches",
    "/cpus/cpu@0/l2-cache": "QEMU has no caches",
    "/cpus/cpu@1/l2-cache": "QEMU has no caches",
}
"""Nodes of ours that QEMU has not."""
OTHERWISE = {
    ("/", "model"): "our name",
    ("/", "dma-coherent"): "said of each device here",
    ("/psci", "compatible"): "PSCI 0.1 alone needs numbers of functions",
    ("/psci", "cpu_on"): "PSCI 0.1",
    ("/psci", "cpu_off"): "PSCI 0.1",
    ("/psci", "cpu_suspend"): "PSCI 0.1",
    ("/psci", "migrate"): "PSCI 0.1",
    ("/chosen", "rng-seed"): "equal runs",
    ("/chosen", "kaslr-seed"): "equal runs",
    ("/secure-chosen", "rng-seed"): "equal runs",
    ("/secure-chosen", "kaslr-seed"): "equal runs",
    ("/intc@8000000", "reg"): "redistributors of the PEs that there are",
    ("/cpus/cpu@0", "compatible"): "the core has no driver of its own",
    ("/cpus/cpu@1", "compatible"): "the core has no driver of its own",
    ("/cpus/cpu@0", "enable-method"): "whoever owns EL3 provides PSCI",
    ("/cpus/cpu@1", "enable-method"): "whoever owns EL3 provides PSCI",
    ("/cpus/cpu@0", "clock-frequency"): "operations in a second, which QEMU does not count",
    ("/cpus/cpu@1", "clock-frequency"): "operations in a second, which QEMU does not count",
    ("/timer", "interrupts"): "later QEMUs have the virtual timer of EL2, too, where EL2 is there",
}
OTHERWISE |= {
    (f"/cpus/cpu@{n}", name): "QEMU has no caches"
    for n in range(2)
    for name in (
        *(f"{kind}-cache-{what}" for kind in "id" for what in ("size", "line-size", "sets")),
        "next-level-cache",
    )
}
"""Properties that differ, or that one of the two has not."""
REFERENCES = {"phandle", "interrupt-parent", "clocks", "gpios", "cpu"}
"""Hold numbers of nodes, which everybody gives as he likes."""

STARTS = {1: "virtualization=off", 2: "virtualization=on", 3: "virtualization=on,secure=on"}


def qemus(el: int, folder: Path) -> Node:
    assert QEMU is not None
    file = folder / "qemu.dtb"
    machine = f"virt,gic-version=3,{STARTS[el]},dumpdtb={file}"
    options = ("-cpu", "max", "-smp", "2", "-m", "128", "-nic", "none", "-display", "none")
    subprocess.run(
        [QEMU, "-M", machine, *options],
        check=True,
        capture_output=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    return parse(file.read_bytes()).root


def ours(el: int) -> Node:
    return parse(machine_dtb(MachineOptions(el=el, smp=2, secure=el == 3, flash=True))).root


def nodes(node: Node, path: str = "") -> dict[str, Node]:
    found = {path or "/": node}
    for child in node.children:
        found |= nodes(child, f"{path}/{child.name}")
    return found


def properties(node: Node) -> dict[str, bytes]:
    return {name: value for name, value in node.properties.items() if name not in REFERENCES}


@pytest.mark.parametrize("el", STARTS)
def test_nodes_and_properties_are_qemus_but_for_what_is_listed(el: int, tmp_path: Path) -> None:
    theirs, mine = nodes(qemus(el, tmp_path)), nodes(ours(el))
    assert len(theirs) > 40
    below = tuple(f"{path}/" for path in NOT_OURS)
    missing = {path for path in theirs.keys() - mine.keys() if not path.startswith(below)}
    assert missing <= set(NOT_OURS), missing
    assert mine.keys() - theirs.keys() == set(NOT_QEMUS)
    different = {
        (path, name)
        for path in theirs.keys() & mine.keys()
        for name in properties(theirs[path]).keys() | properties(mine[path]).keys()
        if properties(theirs[path]).get(name) != properties(mine[path]).get(name)
    }
    assert different <= set(OTHERWISE), different
    assert ("/", "model") in different  # the comparison sees differences


def test_a_start_at_el1_has_the_four_interrupts_of_qemus_timer(tmp_path: Path) -> None:
    theirs, mine = (tree.find("/timer") for tree in (qemus(1, tmp_path), ours(1)))
    assert mine.properties["interrupts"] == theirs.properties["interrupts"]
    assert len(mine.properties["interrupts"]) == 4 * 12
