"""Why software that programs SPE got no records, or far fewer than it asked for, in one sentence.

:func:`why_no_samples` and :func:`why_few_samples` are pure functions of :class:`Sampling`. A
:class:`SamplingHistory` gathers a Sampling while a PE runs: it looks at each write to a register of
SPE, closely until there is a record. It changes nothing for the guest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from spe_unicorn.arch.access.spe import SPE_ACCESSORS
from spe_unicorn.arch.access.verdicts import Accessor, SystemAccessTrap
from spe_unicorn.arch.pe import EL2, PE
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBSR,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSEVFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
    SPE_REGISTERS,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.rules.effective import lower_security_state, profiling_buffer_owner, tge
from spe_unicorn.debug.places import Place
from spe_unicorn.decode import decode
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.machine.board import Board
from spe_unicorn.pmu.junction import EventJunction
from spe_unicorn.spe.enabling import profiling_chosen, profiling_stopped
from spe_unicorn.spe.external import ExternalSampler
from spe_unicorn.spe.feed import SampleEvent
from spe_unicorn.spe.management import PMBSR_BY_EL, ManagementEvent
from spe_unicorn.spe.sampler import Sampler, Statistics
from spe_unicorn.spe.unit import StatisticalProfilingUnit

_SPE_NAMES: Final = frozenset(accessor.name for accessor in SPE_ACCESSORS)
_LONGEST_LOOP: Final = 1024
"""The end of a loop is looked for among so many operations from a sampled one on."""
_FEW: Final = 4
"""Samples are few if so many times as many were promised."""
_ENOUGH: Final = 8
"""Of fewer samples than these nobody says that they are few."""
_RANDOM: Final = 128
"""What RND adds to an interval on average: eight random bits."""
_TESTS: Final = (
    (PMSFCR_EL1.FE.mask | PMSFCR_EL1.FnE.mask, SampleEvent.FEED_EVENT),
    (PMSFCR_EL1.FT.mask, SampleEvent.FEED_OP),
    (PMSFCR_EL1.FL.mask, SampleEvent.FEED_LAT),
)
"""For each filter the bits of PMSFCR_EL1 that enable it, and the PMU event of its test."""


Symbolize = Callable[[int], str | None]
"""Names an address as ``name+0x10``, None where nothing covers it."""


@dataclass(frozen=True)
class Obstacle:
    """A condition of profiling that failed: what, since when, and what to do, in words."""

    what: str
    since: str
    do: str

    def __str__(self) -> str:
        return f"{self.what}{self.since}: {self.do}"


@dataclass(frozen=True)
class Attempt:
    """A write that came near to enabling profiling, and the obstacles that were left after it."""

    write: str
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True)
class Sampling:
    """What is known of the sampling of one PE.

    ``touched``: software wrote more than zeros to registers of SPE. ``nearest`` is the write that
    came nearest to enabling profiling. ``filters`` is PMSFCR_EL1 when profiling was last enabled.
    ``wanted`` is what each filter chooses, by its bits in PMSFCR_EL1. ``events`` counts PMU events
    by number, None if the core has none for the tests of filters. ``one_place`` is the place of all
    samples, if there are several and they have one place. ``loop`` is the number of operations of
    the loop around that place, if it is known. ``period`` is that of sampling from outside, of
    operations or of an ``event``. ``promised`` is how many samples the intervals of PMSIRR_EL1 come
    to, of what was profiled. ``late`` is the largest distance to a first sample that PMSICR_EL1
    held, if that is more than the interval. ``stop`` is the management event that has stopped
    profiling while software lets it go on, and ``stopped_for`` the operations since.
    """

    statistics: Statistics
    touched: bool = False
    nearest: Attempt | None = None
    interval: int = 0
    interval_written: bool = True
    counter_written: bool = True
    random: bool = False
    filters: int = 0
    wanted: Mapping[int, str] = field(default_factory=dict)
    events: Mapping[int, int] | None = None
    one_place: Place | None = None
    loop: int | None = None
    period: int | None = None
    event: str | None = None
    levels: tuple[int, ...] = ()
    """Exception levels at which profiling was enabled last."""
    promised: int = 0
    late: int = 0
    stop: str | None = None
    stopped_for: int = 0


def why_no_samples(sampling: Sampling) -> str | None:
    """The condition that failed, in one line; None if there are records or nobody wanted any."""
    counts = sampling.statistics
    if counts.written or not (sampling.touched or sampling.period is not None):
        return None
    if not counts.population and sampling.event is None:
        return _never_profiled(sampling)
    if not counts.selected:
        return _never_selected(sampling)
    if counts.collisions == counts.selected:
        return (
            f"all {counts.selected} selected operations collided with samples in flight:"
            " sample less often"
        )
    if counts.filtered:
        return _filtered(sampling)
    if counts.discarded:
        return (
            f"{counts.discarded} records were discarded: PMBLIMITR_EL1.FM 2 throws all records"
            " away; write 0 to it"
        )
    events = ", ".join(f"{kind} {n}" for kind, n in sorted(counts.management_events.items()))
    why = f"management events: {events}" if events else "the buffer was off when they came"
    return f"{counts.lost} records were lost ({why}): look at PMBPTR_EL1 and PMBLIMITR_EL1"


def why_few_samples(sampling: Sampling) -> str | None:
    """Why there are far fewer records than the interval promises; None if there are not.

    What filters drop was chosen, and counts as a sample.
    """
    counts = sampling.statistics
    if not counts.written:
        return None
    if sampling.stop is not None and sampling.stopped_for >= _FEW * counts.population:
        return (
            f"{counts.population} operations were profiled, and {sampling.stopped_for} have been"
            f" executed since {sampling.stop} stopped profiling: serve PMBIRQ, or look at"
            " PMBSR_ELx, and write 0 to it"
        )
    if sampling.promised >= max(_ENOUGH, _FEW * counts.selected):
        text = (
            f"{counts.selected} of {counts.population} profiled operations were selected, and the"
            f" interval of PMSIRR_EL1 promises about {sampling.promised}"
        )
        if not sampling.late:
            return text
        held = "held" if sampling.counter_written else "was never written, and held"
        return (
            f"{text}: PMSICR_EL1 {held} {sampling.late:#x}, the distance to the first sample; write"
            " 0 to it before profiling is enabled"
        )
    others = counts.selected - counts.collisions
    if counts.selected >= _ENOUGH and counts.selected >= _FEW * others:
        return (
            f"{counts.collisions} of {counts.selected} selected operations collided with samples in"
            " flight: sample less often"
        )
    return None


def _never_profiled(sampling: Sampling) -> str:
    nearest = sampling.nearest
    if nearest is None:
        return "no operation was profiled"
    if nearest.obstacles:
        causes = "; ".join(map(str, nearest.obstacles))
        return f"{causes} (the nearest to it was {nearest.write})"
    levels = " and ".join(f"EL{el}" for el in sampling.levels) or "no level"
    return f"profiling was enabled at {levels} by {nearest.write}, and nothing was executed there"


def _never_selected(sampling: Sampling) -> str:
    profiled = sampling.statistics.population
    if sampling.period is not None:
        made = f"executed {profiled} operations"
        if sampling.event is not None:
            made = f"made {profiled} of {sampling.event}"
        return f"the guest {made}, fewer than `period` {sampling.period}"
    distance = f"{sampling.interval}{' or more' if sampling.random else ''} operations"
    if not sampling.interval_written:
        return (
            f"PMSIRR_EL1 was never written, so the interval is UNKNOWN, here {distance}, and only"
            f" {profiled} were profiled: write PMSIRR_EL1 before profiling is enabled"
        )
    if not sampling.counter_written:
        return (
            "PMSICR_EL1 was never written, so the first sample is UNKNOWN operations away, and only"
            f" {profiled} were profiled: write 0 to it before profiling is enabled"
        )
    return f"the interval of PMSIRR_EL1 is {distance}, and only {profiled} were profiled"


def _filtered(sampling: Sampling) -> str:
    counts = sampling.statistics
    text = f"all {counts.filtered} samples were filtered"
    if sampling.period is not None:
        return f"{text}: none is what `kinds` and `min_latency` ask for"
    tests = [(mask & sampling.filters, event) for mask, event in _TESTS if mask & sampling.filters]
    events = sampling.events
    if events is not None:
        never = [(bits, event) for bits, event in tests if not events.get(event, 0)]
        tests = never or tests
    names = [words for bits, words in sampling.wanted.items() if any(bits & b for b, _ in tests)]
    text += f" by {', '.join(names)}" if names else ""
    if sampling.one_place is None:
        return text
    text += f"; all were of one operation, {sampling.one_place}"
    if sampling.random:
        return text
    if sampling.loop is not None:
        return (
            f"{text}, since {sampling.interval} operations from sample to sample are a multiple of"
            f" its loop of {sampling.loop}: set PMSIRR_EL1.RND"
        )
    return f"{text}: set PMSIRR_EL1.RND"


# What a PE shows


@dataclass(frozen=True)
class TrappedAccesses:
    """Accesses to SPE's registers by one PE that trapped to one Exception level.

    ``counts`` says how many were to each name. ``first`` is the first of them, such as
    ``MSR PMSCR_EL1``, at ``place`` and ``el``, and ``rule`` what had it trap.
    """

    cpu: int
    target_el: int
    counts: Mapping[str, int]
    first: str
    place: Place
    el: int
    rule: str

    def __str__(self) -> str:
        names = ", ".join(f"{name} {count}" for name, count in self.counts.items())
        return (
            f"{sum(self.counts.values())} to EL{self.target_el} ({names}), the first {self.first}"
            f" at {self.place} EL{self.el}: {self.rule}"
        )


@dataclass(frozen=True)
class _Write:
    """A write to a register: its value, the PC, and how many operations came before it."""

    register: type[SysReg]
    value: int
    pc: int
    executed: int

    def said(self, symbolize: Symbolize) -> str:
        place = Place(self.pc, symbolize(self.pc))
        name = self.register.__name__
        return f"MSR {name}, {self.value:#x} at {place}, operation {self.executed}"


@dataclass(frozen=True)
class _Stop:
    """A management event: its kind, and how many operations came before it."""

    kind: str
    executed: int

    def said(self, symbolize: Symbolize) -> str:
        del symbolize  # it has no place
        return f"a management event ({self.kind}), operation {self.executed}"


@dataclass(frozen=True)
class _Left:
    """An obstacle that was left: its words, with the ``names`` that stand in their braces.

    If it has a ``register``, the obstacle is there since that register's last ``change``, or since
    the reset.
    """

    what: str
    do: str
    names: tuple[str, ...] = ()
    register: type[SysReg] | None = None
    change: _Write | _Stop | None = None

    def said(self, symbolize: Symbolize) -> Obstacle:
        since = ""
        if self.register is not None:
            change = self.change
            since = f" since {'the reset' if change is None else change.said(symbolize)}"
        return Obstacle(self.what.format(*self.names), since, self.do.format(*self.names))


class SamplingHistory:
    """Gathers the :class:`Sampling` of one PE; ``symbolize`` names addresses.

    It keeps numbers while the PE runs. Sentences and names of places are made by :meth:`sampling`.
    """

    def __init__(
        self,
        cpu: UnicornCPU,
        unit: Sampler,
        events: EventJunction | None = None,
        symbolize: Symbolize = lambda _: None,
    ) -> None:
        self._cpu = cpu
        self._unit = unit
        self._events = events
        self._symbolize = symbolize
        self._written: dict[type[SysReg], _Write | _Stop] = {}
        """The last write that changed each register, or the management event that did."""
        self._touched = False
        self._nearest: tuple[_Write, tuple[_Left, ...]] | None = None
        """The write that came nearest to enabling profiling, and what was left after it."""
        self._filters: dict[type[SysReg], int] = {}
        self._levels: tuple[int, ...] = ()
        self._interval = 0
        self._trapped: dict[int, tuple[Counter[str], str, Place, int, str]] = {}
        """By the Exception level that the accesses trapped to."""
        self._promised = 0.0
        self._up_to = 0
        """Members of the population that are counted in what was promised."""
        self._period: int | None = None
        """Operations from sample to sample, on average, by PMSIRR_EL1 as it was last written.

        None before the first look: what came before it, as in a snapshot, promised nothing.
        """
        self._late = 0
        self._stop: _Stop | None = None
        """The last management event."""
        if isinstance(unit, StatisticalProfilingUnit):
            cpu.registers.written.connect(self._on_write)
            unit.managed.connect(self._on_management)

    def reset(self) -> None:
        """The PE was reset: what was written before matters no more."""
        self._written.clear()
        self._stop = None

    def on_trap(self, accessor: Accessor, verdict: SystemAccessTrap, read: bool) -> None:
        """An access that traps: of those to SPE's registers the first is remembered."""
        name, el = accessor.name, verdict.target_el
        if name not in _SPE_NAMES:
            return
        if el not in self._trapped:
            cpu = self._cpu
            place = Place(cpu.pc, self._symbolize(cpu.pc))
            said = f"{'MRS' if read else 'MSR'} {name}"
            self._trapped[el] = Counter(), said, place, cpu.el, verdict.rule.text
        self._trapped[el][0][name] += 1

    def trapped(self, cpu: int) -> Iterator[TrappedAccesses]:
        """The accesses of the PE of this number that trapped, by the level that took them."""
        for el in sorted(self._trapped):
            counts, said, place, of_el, rule = self._trapped[el]
            yield TrappedAccesses(cpu, el, dict(counts.most_common()), said, place, of_el, rule)

    def sampling(self) -> Sampling:
        """What is known now."""
        unit = self._unit
        if isinstance(unit, ExternalSampler):
            return Sampling(unit.statistics, period=unit.period, event=unit.event)
        if not isinstance(unit, StatisticalProfilingUnit):
            return Sampling(unit.statistics)
        filters = self._filters.get(PMSFCR_EL1, 0)
        self._promise()
        stop = self._stop if profiling_stopped(self._cpu) and self._goes_on() else None
        places = {pc for pc, _ in unit.tally.counts}
        one = places.pop() if len(places) == 1 and unit.tally.samples > 1 else None
        return Sampling(
            unit.statistics,
            touched=self._touched,
            nearest=self._attempt(),
            interval=self._interval,
            interval_written=PMSIRR_EL1 in self._written,
            counter_written=PMSICR_EL1 in self._written,
            random=bool(self._filters.get(PMSIRR_EL1, 0) & 1),
            filters=filters,
            wanted=dict(self._wanted(filters)),
            events=self._events.counts if self._events and unit.counts_tests else None,
            one_place=None if one is None else Place(one, self._symbolize(one)),
            loop=None if one is None else self._loop(one),
            levels=self._levels,
            promised=int(self._promised),
            late=self._late,
            stop=None if stop is None else stop.said(self._symbolize),
            stopped_for=0 if stop is None else self._cpu.counted() - stop.executed,
        )

    def _attempt(self) -> Attempt | None:
        """The nearest write in words."""
        if self._nearest is None:
            return None
        write, left = self._nearest
        symbolize = self._symbolize
        return Attempt(write.said(symbolize), tuple(one.said(symbolize) for one in left))

    def _goes_on(self) -> bool:
        """Whether software has the buffer on, and a level chosen."""
        cpu = self._cpu
        on = bool(cpu.registers.read(PMBLIMITR_EL1).E)
        return on and any(profiling_chosen(cpu, el) for el in range(EL2 + 1))

    def _promise(self) -> None:
        """Count what the interval up to now has promised, and look at the interval from now on."""
        population = self._unit.statistics.population
        if self._period is not None:
            self._promised += (population - self._up_to) / self._period
        self._up_to = population
        reload = self._cpu.registers.read(PMSIRR_EL1)
        self._period = (max(reload.INTERVAL, 1) << 8) + (_RANDOM if reload.RND else 0)

    def _first_sample(self, distance: int) -> None:
        """Remember how far away the first sample is, if that is more than the interval."""
        if self._period is not None and distance > self._period:
            self._late = max(self._late, distance)

    def _wanted(self, filters: int) -> Iterator[tuple[int, str]]:
        """The enabled filters, by their bits in PMSFCR_EL1."""
        f = PMSFCR_EL1
        if filters & f.FE.mask:
            yield f.FE.mask, f"PMSFCR_EL1.FE with PMSEVFR_EL1 {self._filters[PMSEVFR_EL1]:#x}"
        if filters & f.FnE.mask:
            yield f.FnE.mask, "PMSFCR_EL1.FnE"
        if filters & f.FT.mask:
            types = ((f.LD, "LD"), (f.ST, "ST"), (f.B, "B"))
            chosen = ", ".join(name for flag, name in types if filters & flag.mask) or "no type"
            yield f.FT.mask, f"PMSFCR_EL1.FT with {chosen}"
        if filters & f.FL.mask:
            yield f.FL.mask, f"PMSFCR_EL1.FL with MINLAT {self._filters[PMSLATFR_EL1]}"

    def _loop(self, pc: int) -> int | None:
        """How many operations the loop around ``pc`` has, if they divide the interval."""
        words = self._cpu.virtual.code(pc, _LONGEST_LOOP) or ()
        for n, word in enumerate(words):
            offset = decode(word).target_offset
            if offset is not None and offset <= -4 * n:
                length = 1 - offset // 4
                return None if self._interval % length else length
        return None

    def _on_write(self, register: type[SysReg], old: int, new: int) -> None:
        unit = self._unit
        if register not in SPE_REGISTERS:
            return
        cpu = self._cpu
        self._promise()
        if register is PMSICR_EL1:
            self._first_sample(PMSICR_EL1(new).COUNT)
        if unit.statistics.written:
            return
        write = _Write(register, new, cpu.pc, cpu.counted())
        if old != new or register not in self._written:
            self._written[register] = write
        if not issubclass(register, PMBSR):  # software may raise the interrupt by it alone
            self._touched = self._touched or bool(new)
        left = tuple(self._obstacles())
        # of two equally near writes the later one counts, unless it writes zero
        if self._nearest is None or len(left) + (not new) <= len(self._nearest[1]):
            self._nearest = write, left
        if not left:
            self._enabled()

    def _enabled(self) -> None:
        """Profiling is enabled at some Exception level: remember how."""
        cpu = self._cpu
        registers = cpu.registers
        if PMSICR_EL1 not in self._written:
            self._first_sample(registers.read(PMSICR_EL1).COUNT)
        self._levels = tuple(el for el in range(EL2 + 1) if profiling_chosen(cpu, el))
        for register in (PMSFCR_EL1, PMSEVFR_EL1, PMSLATFR_EL1, PMSIRR_EL1):
            self._filters[register] = registers.raw(register)
        self._interval = (max(registers.read(PMSIRR_EL1).INTERVAL, 1) << 8) + 1

    def _on_management(self, event: ManagementEvent, el: int) -> None:
        self._stop = self._written[PMBSR_BY_EL[el]] = _Stop(event.kind, self._cpu.counted())

    def _left(self, what: str, register: type[SysReg], do: str, *names: str) -> _Left:
        """An obstacle that is there since the last change of a register."""
        return _Left(what, do, names, register, self._written.get(register))

    def _obstacles(self) -> Iterator[_Left]:
        """What keeps operations from being profiled, by the conditions of D17.2 and D17.4."""
        pe: PE = self._cpu
        registers = pe.registers
        owner = profiling_buffer_owner(pe)
        if owner is None:
            what = "MDCR_EL3.NSPB gives the Profiling Buffer to nobody"
            yield _Left(what, "write 0b01 or 0b11 to it")
            return
        state = lower_security_state(pe)
        if owner.state is not state:
            yield _Left(
                "MDCR_EL3.NSPB gives the Profiling Buffer to {} state, and software below EL3 is in"
                " {}",
                "write the other value to NSPB, or change SCR_EL3.NS",
                (owner.state.name, state.name),
            )
        if not registers.read(PMBLIMITR_EL1).E:
            yield self._left("PMBLIMITR_EL1.E is 0", PMBLIMITR_EL1, "set it with the limit")
        if profiling_stopped(pe):
            status = next(r for r in registers if issubclass(r, PMBSR) and registers.read(r).S)
            do = "write 0 to {} before profiling is enabled"
            yield self._left("{}.S is 1", status, do, status.__name__)
        if not any(profiling_chosen(pe, el) for el in range(EL2 + 1)):
            yield self._not_chosen(owner.el)

    def _not_chosen(self, owner_el: int) -> _Left:
        pe = self._cpu
        registers = pe.registers
        if owner_el == EL2:
            what = (
                "MDCR_EL2.E2PB is 0, so EL2 owns the Profiling Buffer, and no enable of PMSCR_EL2"
                " and PMSCR_EL1 is set"
            )
            return self._left(what, PMSCR_EL2, "set E2SPE, E1SPE or E0SPE")
        if tge(pe):
            what = "HCR_EL2.TGE is 1 while EL1 owns the Profiling Buffer, so nothing is profiled"
            return _Left(what, "write 0 to MDCR_EL2.E2PB, or clear TGE")
        what = "PMSCR_EL1.E1SPE and E0SPE are 0"
        if PMSCR_EL2 in registers and registers.read(PMSCR_EL2).E2SPE:
            what += ", and PMSCR_EL2.E2SPE means nothing while EL1 owns the buffer"
        return self._left(what, PMSCR_EL1, "set the one of the level to profile")


def watch_sampling(board: Board) -> tuple[SamplingHistory, ...]:
    """The history of each PE of a board. Call it before the machine runs."""
    histories = []
    for pe in board.pes:
        history = SamplingHistory(pe.cpu, pe.unit, pe.events, board.names.symbol)
        pe.started.connect(history.reset)
        pe.handler.system.trapped.connect(history.on_trap)
        histories.append(history)
    return tuple(histories)
