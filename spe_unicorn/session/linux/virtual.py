"""A guest of the guest's KVM: what ``firmware/linux/vm.c`` starts, as files of the RAM disk."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spe_unicorn.machine.boot.fdt import parse, to_bytes
from spe_unicorn.machine.boot.plan import BootPlan, boot_plan
from spe_unicorn.machine.options import MachineOptions

RAM: Final = 256 << 20
"""Bytes of RAM that a virtual machine has."""
_LINE: Final = "console=ttyAMA0 panic=-1 loglevel=5"
"""Of its kernel: what is sent costs two exits a character, so little is told."""
_COMMAND: Final = bytes(16 << 10)
"""Room behind its RAM disk for the command, which ``vm`` puts there."""
_THERE: Final = ("chosen", "memory@", "cpus", "psci", "timer", "apb-pclk", "intc@", "pl011@")
"""Nodes of the board's device tree whose devices it has."""


def vm_files(kernel: Path, initrd: bytes, steps: bytes) -> Sequence[tuple[str, bytes]]:
    """The files of a virtual machine with a kernel, or with firmware that runs at EL1.

    ``steps`` are what the first program does before a command.

    Raises LoadError for a file that is neither, or too large.
    """
    with tempfile.NamedTemporaryFile(prefix="spe-unicorn-") as disk:
        disk.write(initrd + _COMMAND)
        disk.flush()
        plan = boot_plan(MachineOptions(kernel=kernel, initrd=disk.name, ram=RAM, append=_LINE))
    start, data = _kernel(plan)
    at = {piece.name: piece.address for piece in plan.pieces}
    places = (RAM, start, plan.entry, plan.x[0], at["initrd"])
    return (
        ("vm/plan", "".join(f"{number}\n" for number in places).encode()),
        ("vm/kernel", data),
        ("vm/dtb", _device_tree(plan.dtb)),
        ("vm/initrd", initrd),
        ("vm/steps", steps),
    )


def _kernel(plan: BootPlan) -> tuple[int, bytes]:
    """Where the kernel begins, and its bytes."""
    segments = plan.image.segments
    start = min(segment.address for segment in segments)
    data = bytearray(max(segment.address + len(segment.data) for segment in segments) - start)
    for segment in segments:
        at = segment.address - start
        data[at : at + len(segment.data)] = segment.data
    return start, bytes(data)


def _device_tree(dtb: bytes) -> bytes:
    """The board's tree, of a machine with a GIC, a timer and a UART."""
    tree = parse(dtb)
    tree.root.children = [n for n in tree.root.children if n.name.startswith(_THERE)]
    return to_bytes(tree)
