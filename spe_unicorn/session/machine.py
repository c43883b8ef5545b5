"""The public machine: made of options, run, looked at, stopped, run on.

>>> with Machine("firmware.elf", smp=2) as machine:
...     outcome = machine.run(until="main")
...     print(outcome.ending, machine.pes[0].registers.PMSCR_EL1)
...     outcome = machine.run(operations=1_000_000)
...     for record in machine.records:
...         print(record.pc, record.events)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, get_args

from spe_unicorn.arch.counter import FREQUENCY
from spe_unicorn.bits import Register
from spe_unicorn.debug.misuse_found import Misuse
from spe_unicorn.debug.no_samples import watch_sampling, why_no_samples
from spe_unicorn.debug.resonance import FewPlaces, few_places
from spe_unicorn.debug.tracing.filters import TraceFilter, parse_filter
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.boot.plan import boot_plan
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.options import File, MachineOptions, OptionError
from spe_unicorn.session.choices import machine_options
from spe_unicorn.session.console import Console
from spe_unicorn.session.memory import PhysicalMemory
from spe_unicorn.session.observing import Kind, Observer, observe_each
from spe_unicorn.session.outcome import Outcome
from spe_unicorn.session.point import (
    AtAddress,
    Place,
    Point,
    PointError,
    parse_point,
    resolve,
)
from spe_unicorn.session.processing_element import PE
from spe_unicorn.session.records import image_info
from spe_unicorn.session.runs import Runs
from spe_unicorn.signals import Signal
from spe_unicorn.spe.packets import canonical_address
from spe_unicorn.spe.record import Record

if TYPE_CHECKING:  # debuggers, traces and snapshot files are loaded where they are asked for
    from spe_unicorn.debug.gdb.connection import Listener
    from spe_unicorn.debug.gdb.debugger import Debugger
    from spe_unicorn.debug.gdb.surroundings import Surroundings
    from spe_unicorn.debug.tracing.tracer import Form
    from spe_unicorn.machine.snapshot.board_state import BoardSaver
    from spe_unicorn.session.snapshot import Snapshot


class Machine:
    """One machine, loaded and ready to run.

    ``firmware`` is an ELF file, an image, or all options as MachineOptions; the others are those of
    MachineOptions by name. ``console`` is where the console leads to; without, output is kept in
    :attr:`console`. With ``misuse`` mistakes in how the guest programs SPE are found. Without
    ``records`` none are kept.

    Raises OptionError, ``cores.profile.CoreError`` and ``machine.boot.image.LoadError``, all of
    them ValueErrors of one line, for what cannot be built or started.
    """

    def __init__(
        self,
        firmware: File | Image | MachineOptions | None = None,
        *,
        console: ConsoleEnds | None = None,
        misuse: bool = False,
        records: bool = True,
        **options: Any,
    ) -> None:
        self.options = machine_options(firmware, options)
        """What machine it is."""
        self.plan = boot_plan(self.options)
        """What was loaded, and where it starts."""
        self.console = Console()
        """What the guest prints and reads."""
        self.secure_console = Console()
        """What it prints on the second UART, which is there with ``secure``."""
        self.virtio_console = Console()
        """What it prints and reads on the virtio console, which is there with that option."""
        if console is not None:
            self.console.lead_to(console)
            self.secure_console.lead_to(ConsoleEnds(console.write_secure))
            self.virtio_console.lead_to(
                ConsoleEnds(
                    console.write_virtio,
                    arrived=console.arrived_virtio,
                    wait=console.wait_virtio,
                )
            )
        virtio = self.virtio_console.ends
        ends = replace(
            self.console.ends,
            write_secure=self.secure_console.ends.write,
            write_virtio=virtio.write,
            arrived_virtio=virtio.arrived,
            wait_virtio=virtio.wait,
        )
        try:
            self.board = Board(self.options, ends)
        except MemoryError as error:
            raise OptionError(f"`ram`: {error}") from error
        for typed_at in (self.console, self.virtio_console):
            typed_at.typed.connect(self.board.outside.poll)
        self._runs = Runs(self.board, (self.console.written, self.virtio_console.written))
        self._misused: Signal[[Misuse]] = Signal()
        if misuse:
            self.watch_misuse()
        self.board.start(self.plan)
        self.pes = tuple(PE(self.board, pe) for pe in self.board.pes)
        """The PEs by number."""
        self.memory = PhysicalMemory(self.board)
        """Physical memory."""
        if records:
            for mine, pe in zip(self.pes, self.board.pes, strict=True):
                pe.unit.streamed.connect(mine.records.add)
        self._sampling = watch_sampling(self.board)
        self._open = ExitStack()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Machine {self.image.path.name}: {', '.join(map(repr, self.pes))}>"

    @property
    def image(self) -> Image:
        """What the first PE starts in, with its symbols."""
        return self.plan.image

    @property
    def operations(self) -> int:
        """Operations that all PEs together have executed since reset."""
        return self.board.executed

    @property
    def records(self) -> Iterator[Record]:
        """The records so far, those of each PE in their order, PE by PE."""
        for pe in self.pes:
            yield from pe.records

    def watch_misuse(self) -> None:
        """Find mistakes in how the guest programs SPE, from now on."""
        from spe_unicorn.debug.misuse import watch_misuse

        if self._runs.misuses is None:
            self._runs.misuses = watch_misuse(self.board, self._misused)

    @property
    def few_places(self) -> tuple[FewPlaces, ...]:
        """The PEs whose samples keep step with a loop, so that they are all of a few operations."""
        return few_places(self.board)

    @property
    def misuses(self) -> tuple[Misuse, ...]:
        """Mistakes in how the guest programs SPE; none unless the machine was made to find them."""
        return () if self._runs.misuses is None else tuple(self._runs.misuses.found)

    @property
    def why_no_samples(self) -> tuple[str | None, ...]:
        """Why each PE has no record; None if it has some, or if its guest wants none."""
        return tuple(why_no_samples(history.sampling()) for history in self._sampling)

    def symbol(self, name: str) -> int:
        """The address of a symbol of the image. Raises PointError for none, or for several."""
        place = resolve(parse_point(name), self.image.symbols, self.image.path.name)
        if not isinstance(place, AtAddress):
            raise PointError(f"{name!r} is no symbol")
        return place.address

    def symbolize(self, address: int | Register) -> str | None:
        """An address, or that of a record (``record.pc``), as ``name+0x10``; None for none."""
        if isinstance(address, Register):
            address = canonical_address(address.value)
        return self.board.names.symbol(address)

    # Running

    def run(
        self,
        operations: int | None = None,
        until: str | Point | None = None,
        timeout: float | None = None,
    ) -> Outcome:
        """Run on, up to whatever comes first; without arguments until the guest ends.

        ``operations`` is how many to execute at most, of all PEs together. ``until`` is a POINT as
        ``session.point`` has it; a PE that stands at its address already has to come back to it.
        ``timeout`` is in seconds of the host; everything else is exact.

        Raises PointError for a point that there is not, or that has gone by, and MachineEndedError
        when the guest has ended before.
        """
        self._runs.must_go_on()
        if operations is not None and operations < 0:
            raise ValueError(f"`operations` is a number from 0 on, got {operations}")
        return self._runs.run(operations, None if until is None else self.place(until), timeout)

    # Snapshots

    def save(self, earlier: Snapshot | None = None) -> Snapshot:
        """Take this moment down, for :meth:`restore`, here or in an equal machine.

        Memory that is as in the ``earlier`` snapshot takes no more room. What is no part of the
        architecture's state is forgotten, as in a machine that is restored: the TLBs, and
        translated code. Raises ``machine.snapshot.NotAtRestError`` within a run.
        """
        from spe_unicorn.machine.snapshot.pages import NO_PAGES
        from spe_unicorn.session.snapshot import Snapshot

        return Snapshot(
            self.options,
            self.identity,
            self.operations,
            self._saver.save(NO_PAGES if earlier is None else earlier.board.memory),
            tuple(console.save() for console in self._consoles),
            self._runs.ended,
            tuple(pe.records.save() for pe in self.pes),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from there: the guest cannot tell that anything has been in between.

        What Python keeps of console and records is as it was, too; observers are told nothing.
        Raises SnapshotError for a snapshot of another machine, and NotAtRestError within a run.
        """
        from spe_unicorn.session.snapshot import SnapshotError
        from spe_unicorn.session.snapshot_file import decoded
        from spe_unicorn.stateful import StateError

        snapshot.check(self.identity)
        snapshot = decoded(snapshot, self._saver.parts)
        try:
            self._saver.restore(snapshot.board)
        except StateError as error:
            raise SnapshotError(str(error)) from None
        snapshot.give_back(self._consoles, (pe.records for pe in self.pes))
        self._runs.ended = snapshot.ended

    @cached_property
    def identity(self) -> dict[str, str]:
        """What an equal machine has alike: ``session.identity``."""
        from spe_unicorn.session.identity import identity

        return identity(self.options, self.plan, self.board.stores.drives.digests())

    @cached_property
    def _saver(self) -> BoardSaver:
        from spe_unicorn.machine.snapshot.board_state import BoardSaver

        return BoardSaver(self.board)

    @property
    def _consoles(self) -> tuple[Console, ...]:
        return self.console, self.secure_console, self.virtio_console

    def debug(
        self,
        listener: Listener,
        around: Surroundings,
        *,
        waits: bool = True,
        history: int | None = None,
    ) -> Debugger:
        """Have a debugger outside, which connects at ``listener``, hold and run this machine.

        With ``waits`` nothing runs before one has connected. ``history`` is how many bytes of the
        past are kept to go back to: 0 for none, None for ``debug.travel.HISTORY``. Close what is
        returned at the end.
        """
        from spe_unicorn.debug.gdb.debugger import Debugger
        from spe_unicorn.debug.travel import HISTORY
        from spe_unicorn.session.monitor_snapshots import MonitorSnapshots

        debugger = Debugger(
            self.board,
            listener,
            around,
            lambda: self.why_no_samples,
            waits=waits,
            history=HISTORY if history is None else history,
        )
        MonitorSnapshots(debugger.monitor, self.save, self.restore)
        self._runs.drive = debugger.run
        return debugger

    def step(self, operations: int = 1) -> Outcome:
        """Execute exactly so many operations, of the PE whose turn it is."""
        return self.run(operations)

    def stop(self, cause: str = "stopped from outside") -> None:
        """Have the run end within a tenth of a second; from anywhere, also from a signal handler.

        ``cause`` is the sentence that the outcome then has. A machine that does not run ends its
        next run at once.
        """
        self._runs.stop("interrupted", cause)

    def press_power_key(self) -> None:
        """Press the power key of the guest (pin 3 of the PL061); from anywhere, at any time.

        An operating system shuts down then. A machine that runs takes notice within a tenth of a
        second, one that does not at the start of its next run. The key comes up by itself.
        """
        self.board.outside.press_power_key()

    def place(self, point: str | Point) -> Place:
        """What a POINT is on this machine. Raises PointError."""
        parsed = parse_point(point) if isinstance(point, str) else point
        return resolve(parsed, self.image.symbols, self.image.path.name)

    def as_one_console(self) -> Console:
        """Where to type for one who keeps one text: the virtio console, if there is one.

        What is printed there is in :attr:`console` as well from now on.
        """
        if not self.options.virtio_console:
            return self.console
        self.virtio_console.written.connect(self.console.ends.write)
        return self.virtio_console

    # Observing

    def observe(self, kind: Kind, observer: Observer) -> Callable[[], None]:
        """Have ``observer`` told of what happens; what is returned ends that.

        It is told, each time after the PE concerned (``PE``, but for console and misuse):

        - ``record``: the record, decoded, and its bytes, padding included
        - ``management``: the event, and the Exception level whose PMBSR_ELx records it
        - ``exception``: the exception and its entry, before that is made
        - ``sysreg``: the access to a System register that the rules answer (``SystemAccess``)
        - ``pmbirq``: the level of the interrupt line
        - ``console``: bytes of output
        - ``misuse``: a mistake, the first time at its place; the machine has to be made for it

        Observers change nothing for the guest. ``record`` makes sampling slower;
        ``machine.records`` does not.
        """
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r} is not observed; there are {', '.join(get_args(Kind))}")
        if kind == "console":
            return self.console.written.connect(observer)
        if kind == "misuse":
            return self._misused.connect(observer)
        return observe_each(kind, zip(self.pes, self.board.pes, strict=True), observer)

    def trace(
        self,
        kinds: str | Iterable[str],
        write: Callable[[str], None],
        form: Form = "text",
        filters: Iterable[str | TraceFilter] = (),
    ) -> Callable[[], None]:
        """Have ``write`` get a line for each thing that happens; what is returned ends that.

        ``kinds``, lines and ``filters`` are those of ``--trace`` and ``--trace-filter``; ``form``
        is ``text`` or ``jsonl``. Not within a run. Raises ``debug.tracing.filters.FilterError``.
        """
        from spe_unicorn.debug.trace import trace

        wanted = [parse_filter(one) if isinstance(one, str) else one for one in filters]
        return trace(self.board, kinds, write, form, wanted)

    # Outputs

    def write_records(self, path: File, form: str | None = None) -> None:
        """Write the records that come to a file: by its suffix, or as ``form`` says.

        Formats are raw (.spe), perf (.data) and jsonl (.jsonl). The file is complete when the
        machine is closed. Raises ``output.formats.OutputError`` and OSError.
        """
        from spe_unicorn.output.formats import open_output

        sampling = self.options.sampling
        writer = open_output(
            path,
            form,
            image_info(self.image),
            cpus=len(self.pes),
            frequency=FREQUENCY,
            midr=self.board.core.midr,
            period=1 if sampling is None else sampling.period,
            event=None if sampling is None else sampling.event,
        )
        self._open.callback(writer.close)
        for pe in self.board.pes:
            self._open.callback(pe.unit.streamed.connect(partial(writer.write, cpu=pe.number)))

    def close(self) -> None:
        """Complete the files of :meth:`write_records`, and close those that the guest left open.

        The machine can be looked at as before, but it does not run any more. Its engines are
        closed as soon as nobody holds it or one of its PEs.
        """
        self._open.close()
        self.board.close()
        if not self._runs.closed:
            self._runs.closed = True
            self._runs.drive = self.board.run  # a debugger's refers to this machine
            for mine, pe in zip(self.pes, self.board.pes, strict=True):
                mine.hold(pe.cpu.engine.lend())
