"""The public machine: scripts and the command line make, run, inspect and stop it.

>>> with Machine("firmware.elf", smp=2) as machine:
...     outcome = machine.run(until="main")
...     print(outcome.ending, machine.pes[0].registers.PMSCR_EL1)
...     outcome = machine.run(operations=1_000_000)
...     for record in machine.records:
...         print(record.pc, record.events)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from spe_unicorn.arch.operation import Calls
from spe_unicorn.bits import Register
from spe_unicorn.debug.advice.hidden_spe import hidden_spe
from spe_unicorn.debug.advice.no_samples import (
    TrappedAccesses,
    watch_sampling,
    why_few_samples,
    why_no_samples,
)
from spe_unicorn.debug.advice.resonance import FewPlaces, few_places
from spe_unicorn.debug.misuse_found import Misuse
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
from spe_unicorn.session.record_set import RecordSet
from spe_unicorn.session.records import ProgramFunctions, recording_info
from spe_unicorn.session.runs import Runs
from spe_unicorn.signals import Signal
from spe_unicorn.spe.packets import canonical_address

if TYPE_CHECKING:  # debuggers, traces and snapshot files are loaded where they are asked for
    from typing_extensions import Unpack

    from spe_unicorn.debug.gdb.connection import Listener
    from spe_unicorn.debug.gdb.debugger import Debugger
    from spe_unicorn.debug.gdb.surroundings import Surroundings
    from spe_unicorn.debug.tracing.tracer import Form
    from spe_unicorn.machine.snapshot.board_state import BoardSaver
    from spe_unicorn.output.coverage.model import Coverage
    from spe_unicorn.session.checking.checks import MemoryChecks
    from spe_unicorn.session.checking.found import CheckFinding
    from spe_unicorn.session.keywords import MachineKeywords
    from spe_unicorn.session.snapshot import Snapshot

_NO_STATE = (ArithmeticError, LookupError, OSError, TypeError, ValueError)
"""What parts raise for a state that their checks let through and that they cannot be in."""


_PATIENCE = 10_000
"""Operations that a guest has for what it must do after an event, where a run is cut short."""


class Machine:
    """One machine, loaded and ready to run.

    ``firmware`` is an ELF file, an image, or all options as MachineOptions. ``options`` are those
    of MachineOptions by name. ``console`` is where the console leads to; without it, output is kept
    in :attr:`console`. With ``misuse`` the machine finds mistakes in how the guest programs SPE.
    Without ``records`` it keeps no records.

    Raises OptionError, ``cores.profile.CoreError`` and ``machine.boot.image.LoadError`` for a
    machine that cannot be built or started. Each is a ValueError of one line.
    """

    def __init__(
        self,
        firmware: File | Image | MachineOptions | None = None,
        *,
        console: ConsoleEnds | None = None,
        misuse: bool = False,
        records: bool = True,
        **options: Unpack[MachineKeywords],
    ) -> None:
        self.options = machine_options(firmware, options)
        """The options of the machine."""
        self.plan = boot_plan(self.options)
        """What was loaded, and where it starts."""
        self.console = Console()
        """What the guest prints and reads."""
        self.secure_console = Console()
        """The second UART, which a machine has with ``secure``."""
        self.virtio_console = Console()
        """The virtio console, which a machine has with ``virtio_console``."""
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
        self._functions = ProgramFunctions(self.board.names, self.image)
        self.pes = tuple(PE(self.board, pe, self._functions) for pe in self.board.pes)
        """The PEs by number."""
        self.memory = PhysicalMemory(self.board)
        """Physical memory."""
        if records:
            for mine, pe in zip(self.pes, self.board.pes, strict=True):
                pe.unit.streamed.connect(mine.records.add)
        self._checks: MemoryChecks | None = None
        if self.options.check:
            from spe_unicorn.session.checking.checks import MemoryChecks

            self._checks = MemoryChecks(self.board, self.image, self.options)
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
        """The image in which the first PE starts, with its symbols."""
        return self.plan.image

    @property
    def operations(self) -> int:
        """Operations that all PEs together have executed since reset."""
        return self.board.executed

    @property
    def records(self) -> RecordSet:
        """The records so far, those of each PE in their order, PE by PE."""
        return RecordSet.of(b"".join(pe.records.raw for pe in self.pes), self._functions)

    def watch_misuse(self) -> None:
        """From now on find mistakes in how the guest programs SPE."""
        from spe_unicorn.debug.misuse import watch_misuse

        if self._runs.misuses is None:
            self._runs.misuses = watch_misuse(self.board, self._misused)

    def finish_misuses(self) -> tuple[Misuse, ...] | None:
        """The mistakes, with those that show at the end of the last run; None if nobody looks.

        Of a run that ended by a limit or at a point, this is what the guest has left undone for
        10,000 operations of its PE. Other runs have found all before.
        """
        misuses = self._runs.misuses
        if misuses is None:
            return None
        misuses.finish(_PATIENCE)
        return tuple(misuses.found)

    def finish_checks(self) -> tuple[CheckFinding, ...]:
        """What the checks of the option ``check`` have found of all that has run so far.

        Each is looked for once more in a second machine, which does the same up to there. Call it
        between runs; it may take as long as they did.
        """
        return () if self._checks is None else self._checks.finish()

    @property
    def few_places(self) -> tuple[FewPlaces, ...]:
        """The PEs whose samples keep step with a loop: the samples are of a few operations only."""
        return few_places(self.board)

    @property
    def misuses(self) -> tuple[Misuse, ...]:
        """Mistakes in how the guest programs SPE, if the machine was made to find them."""
        return () if self._runs.misuses is None else tuple(self._runs.misuses.found)

    @property
    def why_no_samples(self) -> tuple[str | None, ...]:
        """Why each PE has no record; None for a PE that has some, or whose guest wants none."""
        return tuple(why_no_samples(history.sampling()) for history in self._sampling)

    @property
    def trapped_accesses(self) -> tuple[TrappedAccesses, ...]:
        """Accesses to SPE's registers that trapped, by PE and by the level that took them."""
        each = (history.trapped(cpu) for cpu, history in enumerate(self._sampling))
        return tuple(found for histories in each for found in histories)

    @property
    def why_few_samples(self) -> tuple[str | None, ...]:
        """Why each PE has far fewer records than its interval promises; None if it has not."""
        return tuple(why_few_samples(history.sampling()) for history in self._sampling)

    @property
    def hidden_spe(self) -> str | None:
        """Of a program that would use SPE and is sampled from outside, that it sees no SPE."""
        return None if self.options.sampling is None else hidden_spe(self.image)

    def symbol(self, name: str) -> int:
        """The address of a symbol of the image. Raises PointError unless there is exactly one."""
        place = resolve(parse_point(name), self.image.symbols, self.image.path.name)
        if not isinstance(place, AtAddress):
            raise PointError(f"{name!r} is no symbol")
        return place.address

    def symbolize(self, address: int | Register) -> str | None:
        """An address, or the payload ``record.pc``, as ``name+0x10``; None without a symbol."""
        if isinstance(address, Register):
            address = canonical_address(address.value)
        return self.board.names.symbol(address)

    def function(self, address: int | Register) -> str | None:
        """The function of an address, or of the payload ``record.pc``; None without a symbol."""
        if isinstance(address, Register):
            address = canonical_address(address.value)
        return self.board.names.function(address)

    # Running

    def run(
        self,
        operations: int | None = None,
        until: str | Point | list[str | Point] | tuple[str | Point, ...] | None = None,
        timeout: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Outcome:
        """Run on, up to whatever comes first; without arguments until the guest ends.

        ``operations`` is the most to execute, of all PEs together. ``until`` is a POINT as
        ``session.point`` describes it, or several, of which one may be an address or a symbol;
        ``reached`` of the outcome is the first. A PE that stands at an address has to come back.
        ``timeout`` is in seconds of the host, or of ``clock``: of ``time.process_time`` in CPU
        time of this process, which a busy host does not change. All but ``timeout`` is exact.

        Raises PointError for an unknown point or one that has gone by, and MachineEndedError if the
        guest has ended before or the machine is closed.
        """
        self._runs.must_go_on()
        if operations is not None and (not isinstance(operations, int) or operations < 0):
            raise ValueError(f"`operations` is a whole number from 0 on, got {operations!r}")
        if timeout is not None and (not isinstance(timeout, (int, float)) or not timeout >= 0):
            raise ValueError(f"`timeout` is a number of seconds from 0 on, got {timeout!r}")
        points = until if isinstance(until, list | tuple) else () if until is None else (until,)
        places = [self.place(point) for point in points]
        return self._runs.run(operations, places, timeout, clock)

    # Coverage

    def cover(self) -> None:
        """Note from now on what is executed, for :attr:`coverage`; the guest cannot tell."""
        self.board.cover()

    @property
    def coverage(self) -> Coverage:
        """What was executed since :meth:`cover`: lines, branches and functions of the ELF files.

        These are the firmware and the files of ``board.names``. Empty without :meth:`cover`.
        """
        from spe_unicorn.session.covering.of_board import coverage_of

        return coverage_of(self.board)

    # Snapshots

    def save(self, earlier: Snapshot | None = None) -> Snapshot:
        """Take a snapshot of this moment, for :meth:`restore` here or in an equal machine.

        Memory that has not changed since the ``earlier`` snapshot takes no more room. TLBs and
        translated code are forgotten here, as they are in a machine that is restored. Raises
        ``machine.snapshot.NotAtRestError`` within a run.
        """
        from spe_unicorn.machine.snapshot.pages import NO_PAGES
        from spe_unicorn.session.snapshot import Snapshot

        snapshot = Snapshot(
            self.options,
            self.identity,
            self.operations,
            self._saver.save(NO_PAGES if earlier is None else earlier.board.memory),
            tuple(console.save() for console in self._consoles),
            self._runs.ended,
            tuple(pe.records.save() for pe in self.pes),
        )
        if self._checks is not None:
            self._checks.saved(snapshot)
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot: the guest cannot tell that anything has happened in between.

        The console output and the records that Python keeps go back as well. Observers are told
        nothing.
        Raises SnapshotError for a snapshot of another machine or of none that there can be,
        NotAtRestError within a run, and TypeError for what is no snapshot.
        """
        from spe_unicorn.session.snapshot import SnapshotError, checked
        from spe_unicorn.session.snapshot_file import decoded
        from spe_unicorn.stateful import StateError

        checked(snapshot).check(self.identity)
        taken = snapshot
        snapshot = decoded(snapshot, self._saver.parts)
        try:
            self._saver.restore(snapshot.board)
        except StateError as error:
            raise SnapshotError(f"the snapshot cannot be restored: {error}") from None
        except _NO_STATE as error:
            self._runs.ended = "a snapshot could not be restored"
            raise SnapshotError(f"the snapshot is damaged: {error}") from None
        snapshot.give_back(self._consoles, (pe.records for pe in self.pes))
        self._runs.ended = snapshot.ended
        if self._checks is not None:
            self._checks.restored(taken)

    @cached_property
    def identity(self) -> dict[str, str]:
        """The identity of the machine, which equal machines share: ``session.identity``."""
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
        """Have a debugger that connects at ``listener`` hold and run this machine.

        With ``waits`` nothing runs before a debugger has connected. ``history`` is the number of
        bytes that the past may take: 0 to keep none, None for ``debug.travel.HISTORY``. Close the
        returned object at the end.
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
        """Execute exactly so many operations; the first is of the PE whose turn it is."""
        return self.run(operations)

    def stop(self, cause: str = "stopped from outside") -> None:
        """End the run within a tenth of a second. Any thread or signal handler may call it.

        ``cause`` becomes the outcome's sentence. A machine that does not run ends its next run at
        once.
        """
        self._runs.stop("interrupted", cause)

    def press_power_key(self) -> None:
        """Press the guest's power key (pin 3 of the PL061). Any thread or signal handler may do so.

        An operating system then shuts down. The guest notices within a tenth of a second, or at the
        start of the next run. The key comes up by itself.
        """
        self.board.outside.press_power_key()

    def place(self, point: str | Point) -> Place:
        """The place that a POINT means on this machine. Raises PointError."""
        parsed = parse_point(point) if isinstance(point, str) else point
        if not isinstance(parsed, Point):
            raise PointError(f"{point!r} is no POINT: write a text such as 'main' or '0x40000100'")
        return resolve(parsed, self.image.symbols, self.image.path.name)

    def as_one_console(self) -> Console:
        """The console to type at if one text of both is wanted: the virtio console, if it exists.

        From now on its output is in :attr:`console` as well.
        """
        if not self.options.virtio_console:
            return self.console
        self.virtio_console.written.connect(self.console.ends.write)
        return self.virtio_console

    # Observing

    def observe(self, kind: Kind, observer: Observer) -> Callable[[], None]:
        """Call ``observer`` when something of a kind happens; the returned function ends that.

        The first argument is the PE, except for console and misuse. The others are:

        - ``record``: the record, decoded, and its bytes, padding included
        - ``management``: the event, and the Exception level whose PMBSR_ELx records it
        - ``exception``: the exception and its entry, before that is made
        - ``sysreg``: the access to a System register that the rules answer (``SystemAccess``)
        - ``pmbirq``: the level of the interrupt line
        - ``console``: bytes of output
        - ``misuse``: a mistake, the first time at its place; make the machine with ``misuse``

        Observers change nothing for the guest. ``record`` makes sampling slower;
        ``machine.records`` does not. Raises TypeError for an observer that cannot be called, and
        ValueError for an unknown kind, and for ``misuse`` where no mistake is looked for.
        """
        if not callable(observer):
            raise TypeError(f"an observer is a function, got {observer!r}")
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r} is not observed; there are {', '.join(get_args(Kind))}")
        if kind == "console":
            return self.console.written.connect(observer)
        if kind == "misuse":
            if self._runs.misuses is None:
                raise ValueError("without the option `misuse` no mistake is looked for")
            return self._misused.connect(observer)
        return observe_each(kind, zip(self.pes, self.board.pes, strict=True), observer)

    def trace(
        self,
        kinds: str | Iterable[str],
        write: Callable[[str], None],
        form: Form = "text",
        filters: Iterable[str | TraceFilter] = (),
    ) -> Callable[[], None]:
        """Call ``write`` with a line for each event of a trace; the returned function ends that.

        ``kinds``, lines and ``filters`` are those of ``--trace`` and ``--trace-filter``. ``form``
        is ``text`` or ``jsonl``. Call it between runs. Raises
        ``debug.tracing.filters.FilterError``.
        """
        from spe_unicorn.debug.trace import trace

        wanted = [parse_filter(one) if isinstance(one, str) else one for one in filters]
        return trace(self.board, kinds, write, form, wanted)

    # Outputs

    def write_records(
        self,
        path: File,
        form: str | None = None,
        *,
        calls: bool | Literal["fp", "cfi", "calls"] = False,
    ) -> None:
        """From now on write records to a file, in the format of its suffix or in ``form``.

        Formats are raw (.spe), perf (.data) and jsonl (.jsonl). With ``calls`` the last two have
        the calls that led to each record: as they were executed, or by frame records (``fp``) or
        call frame information (``cfi``). The file is complete when the machine is closed. Raises
        ``output.formats.OutputError`` and OSError.
        """
        from spe_unicorn.output.formats import open_output

        info = replace(recording_info(self.board, self.image), calls=bool(calls))
        writer = open_output(path, form, info)
        self._open.callback(writer.close)
        if calls:
            self.board.follow_calls("calls" if calls is True else calls)
        for pe in self.board.pes:

            def write(data: bytes, led: Sequence[Calls], cpu: int = pe.number) -> None:
                writer.write(data, cpu, led)

            self._open.callback(pe.unit.led.connect(write))

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
