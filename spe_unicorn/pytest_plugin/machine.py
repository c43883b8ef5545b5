"""The machine of a test: runs up to something or fails with the place, and says what it saw."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from spe_unicorn.debug.trace import trace
from spe_unicorn.debug.whereabouts import whereabouts_text
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.memory import PhysicalMemory
from spe_unicorn.session.outcome import Outcome
from spe_unicorn.session.processing_element import PE
from spe_unicorn.session.record_set import RecordSet
from spe_unicorn.session.snapshot import Snapshot
from spe_unicorn.spe.feed import SampleEvent
from spe_unicorn.spe.management import ManagementEvent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from spe_unicorn.session.keywords import MachineKeywords

DEADLINE: Final = 1_000_000_000
"""Operations of all PEs that one call may run, unless the test says otherwise: some seconds."""
TRACED: Final = 50
"""Lines of the trace that a failure shows."""
_OUTPUT: Final = 1 << 20
"""Bytes of console output that a pattern is looked for in, the last ones."""


class RunError(AssertionError):
    """A run that did not come to what the test waits for; the text says where it is instead."""


class MachineOfTest:
    """A machine, started and not yet run. Everything it does is exact and the same each time.

    ``kinds`` names the kinds of trace lines (``sysreg``, ``exception``, ``spe``, and the others of
    ``debug.trace.TRACERS``) of which a failure shows the last ones; fewer kinds run faster. With
    ``misuse`` mistakes in how the guest programs SPE are found, which is slower.
    """

    def __init__(
        self,
        options: MachineOptions,
        deadline: int = DEADLINE,
        kinds: tuple[str, ...] = ("sysreg", "exception", "spe"),
        *,
        misuse: bool = False,
    ) -> None:
        self.machine = Machine(options, misuse=misuse)
        """The machine itself, for what is not here."""
        self.deadline = deadline
        """Operations that one call may run."""
        self.outcome: Outcome | None = None
        """What the last run came to."""
        self.management_events: list[ManagementEvent] = []
        """The management events so far."""
        self._finds_misuses = misuse
        self.lines: deque[str] = deque(maxlen=TRACED)
        """The last lines of the trace."""
        self.typed: list[tuple[int, bytes]] = []
        """What was typed, and at which operation."""
        self.machine.observe("management", lambda pe, event, el: self._managed(event))
        for kind in kinds:
            trace(self.machine.board, kind, self.lines.append)

    def _managed(self, event: ManagementEvent) -> None:
        if len(self.management_events) < 1 << 20:
            self.management_events.append(event)

    def __repr__(self) -> str:
        return repr(self.machine)

    # Running

    def run_to_exit(self, deadline: int | None = None) -> int:
        """Run until the guest ends; the status that it ends with.

        Fails if it does not end, and if the checks of the option ``check`` have found something.
        """
        __tracebackhide__ = True
        outcome = self._run(deadline)
        if outcome.ending != "exit" or outcome.exit_status is None:
            self._fail("the guest was to end itself", outcome)
        found = self.machine.finish_checks()
        if found:
            raise AssertionError("\n".join(map(str, found)))
        return outcome.exit_status

    def run_to(self, point: str | int, deadline: int | None = None) -> Outcome:
        """Run to a POINT: a symbol, an address, a number of operations, ``console:TEXT``.

        A number that is no text is an address. Fails where the run ends before.
        """
        __tracebackhide__ = True
        text = f"{point:#x}" if isinstance(point, int) else point
        outcome = self._run(deadline, until=text)
        if outcome.ending != "until":
            self._fail(f"{text} was to be reached", outcome)
        return outcome

    def run_to_console(self, pattern: str, deadline: int | None = None) -> re.Match[str]:
        """Run until new console output has a match of the regular expression ``pattern``.

        Fails where the run ends before. Raises ValueError for a pattern that is none.
        """
        __tracebackhide__ = True
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is no pattern: {error}") from None
        seen = bytearray()
        matched: list[re.Match[str]] = []

        def look(data: bytes) -> None:
            seen.extend(data)
            del seen[:-_OUTPUT]
            found = wanted.search(seen.decode(errors="replace"))
            if found is not None and not matched:
                matched.append(found)
                self.machine.board.reached()

        stop = self.machine.observe("console", look)
        try:
            outcome = self._run(deadline)
        finally:
            stop()
        if not matched:
            self._fail(f"the console was to show {pattern!r}", outcome)
        return matched[0]

    def start_after(self, point: str, starts: dict[tuple[str, str], Snapshot]) -> None:
        """Start at a POINT: from the snapshot in ``starts``, else by running there once."""
        __tracebackhide__ = True
        key = point, repr(self.machine.identity)
        if key not in starts:
            self.run_to(point)
            starts[key] = self.machine.save()
            return
        self.machine.restore(starts[key])

    def run(self, operations: int) -> Outcome:
        """Run exactly so many operations, or fewer if the guest ends."""
        self.outcome = self.machine.run(operations)
        return self.outcome

    def type(self, text: str | bytes) -> None:
        """Type on the console."""
        data = text.encode() if isinstance(text, str) else text
        self.typed.append((self.machine.operations, data))
        self.machine.console.type(data)

    def _run(self, deadline: int | None, until: str | None = None) -> Outcome:
        operations = self.deadline if deadline is None else deadline
        self.outcome = self.machine.run(operations, until=until)
        return self.outcome

    def _fail(self, wanted: str, outcome: Outcome) -> NoReturn:
        __tracebackhide__ = True
        if outcome.ending == "exit":
            became = f"the guest ended with status {outcome.exit_status}"
        elif outcome.ending == "limit":
            became = f"the deadline of {outcome.operations} operations went by"
        else:
            became = outcome.cause or outcome.ending
        raise RunError(f"{wanted}, but {became}\n{whereabouts_text(outcome.places)}")

    # Looking

    @property
    def console(self) -> str:
        """What the guest printed so far."""
        return self.machine.console.text.replace("\r\n", "\n")

    @property
    def exit_status(self) -> int | None:
        """What the guest ended with, None while it has not."""
        return self.machine.board.exit_status

    @property
    def pes(self) -> tuple[PE, ...]:
        """The PEs."""
        return self.machine.pes

    @property
    def registers(self) -> Any:
        """System registers of the first PE by name and field: ``registers.PMBSR_EL1.S``."""
        return self.machine.pes[0].registers

    @property
    def memory(self) -> PhysicalMemory:
        """Physical memory; by virtual address it is ``pes[0].memory``."""
        return self.machine.memory

    @property
    def records(self) -> RecordSet:
        """The records so far, PE by PE."""
        return self.machine.records

    @property
    def pmu_events(self) -> dict[str, int]:
        """Counts of the PMU events of sampling so far, of all PEs: ``pmu_events["SAMPLE_POP"]``."""
        counts = dict.fromkeys((f"SAMPLE_{event.name}" for event in SampleEvent), 0)
        for pe in self.pes:
            for number, count in pe.pmu_events.items():
                counts[f"SAMPLE_{SampleEvent(number).name}"] += count
        return counts

    @property
    def misuses(self) -> list[str]:
        """Mistakes in how the guest programs SPE, each in a few lines.

        Raises ValueError where the machine was not made to find them.
        """
        if not self._finds_misuses:
            raise ValueError("nobody looked for mistakes: make the machine with misuse=True")
        return [str(misuse) for misuse in self.machine.misuses]


class MakeMachine(Protocol):
    """The type of the fixtures ``spe_machine`` and ``spe_run``, for tests that have types."""

    def __call__(
        self,
        firmware: str | Path | None = None,
        *,
        interval: int | None = None,
        deadline: int | None = None,
        trace: tuple[str, ...] = ...,
        misuse: bool = False,
        after: str | None = None,
        **options: Unpack[MachineKeywords],
    ) -> MachineOfTest:
        """Make a machine with ``firmware``."""
