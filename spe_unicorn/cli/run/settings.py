"""One run as the command line asks for it: what the options of ``cli.run.options`` come to.

What a machine can be is listed in ``machine.options``.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.parameters import TraceChoice
from spe_unicorn.cli.run.snapshots import Restored, read_restored
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.debug.tracing.filters import TraceFilter
from spe_unicorn.machine.options import MachineOptions, OptionError
from spe_unicorn.session.point import Point
from spe_unicorn.symbols.choice import SymbolChoice

if TYPE_CHECKING:
    from spe_unicorn.cli.annotating import WarnFormat
    from spe_unicorn.debug.gdb.connection import Address
    from spe_unicorn.session.sweeping.inject import Planned
    from spe_unicorn.session.sweeping.sweep import Wanted

_MACHINE = frozenset(field.name for field in fields(MachineOptions))


@dataclass(frozen=True)
class Settings:
    """One run as it was asked for: the machine, and what the command line makes of its run.

    ``timeout`` is in seconds.
    """

    machine: MachineOptions
    dump_dtb: str | None = None
    console: str = "stdio"
    secure_console: str | None = None
    virtio_console: str | None = None
    """Where it leads; None for what :class:`Session` chooses, where the machine has one."""
    until: Point | None = None
    max_insns: int | None = None
    timeout: float | None = None
    trace: tuple[TraceChoice, ...] = ()
    trace_filter: tuple[TraceFilter, ...] = ()
    trace_start: Point | None = None
    trace_stop: Point | None = None
    output: str | None = None
    format: str | None = None
    call_graph: str | None = None
    """How the calls that led to samples are found, a word of ``output.calls.CALL_GRAPHS``."""
    heap: bool = False
    """Whether the blocks that the program gets from its allocator are told."""
    interrupts: bool = False
    """Whether it is told when interrupts are acknowledged and end."""
    json: str | None = None
    coverage: str | None = None
    timeline: str | None = None
    quiet: bool = False
    warn: str | None = None
    warn_format: WarnFormat | None = None
    gdb: Address | None = None
    gdb_continue: bool = False
    history: int | None = None
    """None for what :meth:`Machine.debug` keeps by itself."""
    symbols: tuple[SymbolChoice, ...] = ()
    snapshot_at: Point | None = None
    snapshot: str | None = None
    restored: Restored | None = None
    inject: Planned | None = None
    interrupt_sweep: Wanted | None = None

    @classmethod
    def of(
        cls,
        *,
        no_reboot: bool,
        given: Collection[str] = (),
        restore: str | None = None,
        virtio_console: str | None = None,
        **options: Any,
    ) -> Settings:
        """The settings that the options of a command line come to.

        ``given`` are those that were named on it: where a snapshot is restored, all others of the
        machine are the snapshot's. Raises UsageProblem for a snapshot that cannot be read, and for
        options of a machine that there is not.
        """
        machine = {name: options.pop(name) for name in _MACHINE & options.keys()}
        machine["reboot"] = not no_reboot
        machine["virtio_console"] = virtio_console is not None
        options["virtio_console"] = virtio_console
        if restore is None:
            return cls(_machine(machine), **options)
        chosen = {name: machine[name] for name in machine.keys() & given}
        if "no_reboot" in given:
            chosen["reboot"] = machine["reboot"]
        restored = read_restored(restore, chosen)
        return cls(restored.options, restored=restored, **options)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files that the run reads."""
        options = self.machine
        names = (
            options.firmware,
            options.kernel,
            options.bios,
            options.initrd,
            options.dtb,
            options.core,
            *(choice.path for choice in self.symbols),
        )
        return tuple(name for name in names if isinstance(name, str) and os.path.isfile(name))


def _machine(options: dict[str, Any]) -> MachineOptions:
    """The options of a machine. Raises UsageProblem."""
    try:
        return MachineOptions(**options)
    except OptionError as error:
        raise UsageProblem(spelled(str(error))) from None
