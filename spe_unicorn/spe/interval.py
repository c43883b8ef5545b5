"""The sample interval counters: which member of the population is the next one selected.

Arm ARM D17.3. The prose leaves the moment of the reload open; the model here reloads COUNT in the
member that brings it to zero and lets the member after a reload pass without a decrement. So the
interval is INTERVAL * 256 + 1 as the architecture's note says, a counter that software restored
to k selects the k-th member, and switching profiling off and on loses no member and favours none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.plain import Bits64, Count
from spe_unicorn.stateful import Stateful

_USUAL: Final = ImpDef()
_COUNT = 0xFFFF_FFFF
_INTERVAL = 0xFFFF_FF00
_LOOK_AHEAD = 8
"""Distances that are found by going through members one by one: more cost more than they save."""

Distances = NDArray[np.int64]
"""Numbers of members, in the order in which they go by."""


class Interval(Protocol):
    """Chooses the members of the population that are selected for sampling."""

    def enable(self) -> None:
        """Profiling goes from disabled to enabled."""
        ...

    def until_hit(self) -> int:
        """How many members go by up to and including the next one selected, at least 1."""
        ...

    def advance(self, members: int) -> bool:
        """Let ``members`` go by, at most :meth:`until_hit`. True if the last one is selected."""
        ...

    def pass_hits(self, hits: int) -> int:
        """Let members go by up to and including the ``hits``-th selected; how many those are."""
        ...

    def following(self, count: int) -> Distances:
        """From the next member selected to the one after it, and so on: up to ``count`` distances.

        They hold while nobody writes the registers. No random number is taken.
        """
        ...


class _View:
    """A register cell made of two functions."""

    __slots__ = ("get", "set")

    def __init__(self, get: Callable[[], int], set_: Callable[[int], None]) -> None:
        self.get = get
        self.set = set_


@dataclass(slots=True)
class IntervalState:
    """What is saved of the interval counters, beside their random numbers."""

    COUNT: Bits64 = 0
    ECOUNT: Bits64 = 0
    skip: bool = False
    """COUNT was just reloaded: the next member does not decrement it. Not a register bit."""
    pmsirr: Bits64 = 0


class IntervalCounters(Stateful[IntervalState]):
    """PMSICR_EL1 counting down, reloaded from PMSIRR_EL1.

    :attr:`PMSICR` and :attr:`PMSIRR` are register cells: put them into the register file, and
    reads and writes of the registers work on the counters themselves. ``ernd`` is
    FEAT_SPE_ERnd: the random byte is counted after the interval instead of being part of it.

    PMSIRR_EL1.INTERVAL == 0 makes the interval UNKNOWN; it acts as ``choices.zero_interval``. With
    ``choices.late_reload`` COUNT is reloaded where the random byte has been counted, else before.
    With ``choices.sampling_point`` the first selection after a load or a write comes so many
    members later, and so do those that follow.
    """

    DERIVED = ("_reload", "_rnd")

    def __init__(self, random: RandomStream, *, ernd: bool, choices: ImpDef = _USUAL) -> None:
        self._choices = choices
        self._random = random
        self._ernd = ernd
        self._reloads_late = ernd and choices.late_reload
        self._moved = choices.sampling_point
        self.s = IntervalState()
        self._derive()
        self.PMSICR = _View(self._get_pmsicr, self._set_pmsicr)
        self.PMSIRR = _View(self._get_pmsirr, self._set_pmsirr)

    def enable(self) -> None:
        """Profiling goes from disabled to enabled: counters that are all zero are loaded."""
        if not self.s.COUNT and not self.s.ECOUNT:
            self._begin()

    @property
    def counting_down(self) -> int:
        """PMSICR_EL1 if members count it down, and a selection loads it, and nothing else; else 0.

        As many members are left before the next selection, or as many and one more right after a
        load.
        """
        plain = not self.s.ECOUNT and not (self._rnd and self._ernd) and not self._moved
        return self.s.COUNT if plain else 0

    def count_one(self) -> bool:
        """One member of the population goes by. True if it is selected."""
        hit = False
        if self.s.ECOUNT:
            self.s.ECOUNT -= 1
            hit = not self.s.ECOUNT
            if self._reloads_late and not self.s.COUNT:
                if hit:
                    self._load()
                return hit
        if not self.s.COUNT:  # software wrote 0: beside an ECOUNT, or while profiling was enabled
            self._begin()
        elif self.s.skip:
            self.s.skip = False
        else:
            self.s.COUNT -= 1
            if not self.s.COUNT:
                drawn = self._rnd and self._ernd
                self.s.ECOUNT = self._random.byte() if drawn else self.s.ECOUNT
                if not (drawn and self._reloads_late and self.s.ECOUNT):
                    self._load()
                return hit or not drawn or not self.s.ECOUNT
        return hit

    def until_hit(self) -> int:
        """How many members go by up to and including the next one selected, at least 1.

        Looks at the random numbers to come without taking them.
        """
        if self._reloads_late and self.s.ECOUNT and not self.s.COUNT:
            return self.s.ECOUNT
        primary = self._until_reload()
        if 0 < self.s.ECOUNT <= primary:
            return self.s.ECOUNT
        if self._rnd and self._ernd:
            return primary + self._random.peek_byte()
        return primary

    def advance(self, members: int) -> bool:
        """Let ``members`` go by, as that many calls of :meth:`count_one` would.

        True if the last one is selected. Raises ValueError if one before it is.
        """
        hit = False
        while members > 0:
            if hit:
                raise ValueError(f"a member is selected {members} before the last")
            quiet = self._quiet(members)
            if quiet:
                self.s.COUNT -= quiet - self.s.skip
                self.s.skip = False
                if self.s.ECOUNT:
                    self.s.ECOUNT -= quiet
                members -= quiet
            if members:
                hit = self.count_one()
                members -= 1
        return hit

    def pass_hits(self, hits: int) -> int:
        """Let members go by up to and including the ``hits``-th selected; how many those are."""
        times = self._hits(hits)
        draws = hits - bool(self.s.ECOUNT) if self._rnd else 0
        if times is None or (self._rnd and not draws):
            members = 0
            for _ in range(hits):
                step = self.until_hit()
                self.advance(step)
                members += step
            return members
        byte = self._random.at(draws - 1) >> 56 if draws else 0
        self._random.skip(draws)
        self.s.COUNT, self.s.ECOUNT, self.s.skip = self._reload, 0, True
        if self._ernd and byte:  # the last one was selected so long after the reload
            self.s.COUNT -= byte - 1
            self.s.skip = False
        elif not self._ernd:
            self.s.COUNT |= byte
        return int(times[-1])

    def _hits(self, count: int) -> Distances | None:
        """The numbers of the next ``count`` members selected; the next member is number 1.

        None where they can only be found one by one, as after software has written odd values. No
        random number is taken.
        """
        if not self.s.COUNT or (self.s.ECOUNT and not self._rnd):
            return None
        if self._reloads_late and self._rnd:
            return None
        reload_at = self.s.COUNT + self.s.skip
        between = self._reload + 1
        if not self._rnd:
            return reload_at + between * np.arange(count)
        if self._ernd:
            if reload_at <= self.s.ECOUNT:
                return None
            hits = reload_at + between * np.arange(count) + self._bytes(count)
            return np.append(self.s.ECOUNT, hits[:-1]) if self.s.ECOUNT else hits
        steps = (self._reload | self._bytes(count - 1)) + 1
        return np.cumsum(np.append(reload_at, steps))

    def _bytes(self, count: int) -> Distances:
        """The random bytes to come."""
        return (self._random.ahead(count) >> 56).astype(np.int64)

    def _until_reload(self) -> int:
        """How many members go by up to and including the one that brings COUNT to zero."""
        if self.s.COUNT:
            return self.s.COUNT + self.s.skip
        # A member that loads, one that is skipped, then the count.
        extra = self._random.peek_byte() if self._rnd and not self._ernd else 0
        return self._reload + self._moved + extra + 2

    def following(self, count: int) -> Distances:
        """From the next selection to the one after it, and so on: at most ``count`` distances.

        They hold as long as software leaves the registers alone. No random number is taken.
        """
        hits = self._hits(count + 1)
        if hits is not None:
            return np.diff(hits)
        ahead = IntervalCounters(
            RandomStream(self._random.state), ernd=self._ernd, choices=self._choices
        )
        ahead.PMSIRR.set(self.s.pmsirr)
        ahead.s.COUNT, ahead.s.ECOUNT, ahead.s.skip = self.s.COUNT, self.s.ECOUNT, self.s.skip
        ahead.advance(ahead.until_hit())
        distances = []
        for _ in range(min(count, _LOOK_AHEAD)):
            distances.append(ahead.until_hit())
            ahead.advance(distances[-1])
        return np.array(distances, np.int64)

    def _quiet(self, members: int) -> int:
        """How many of the next ``members`` only decrement: no reload, no selection."""
        quiet = self.s.COUNT + self.s.skip - 1
        if quiet <= 0:
            return 0
        if members < quiet:
            quiet = members
        if 0 < self.s.ECOUNT <= quiet:
            quiet = self.s.ECOUNT - 1
        return quiet

    def _begin(self) -> None:
        """Load COUNT, not after a selection."""
        self._load()
        self.s.COUNT += self._moved

    def _load(self) -> None:
        self.s.COUNT = self._reload
        if self._rnd and not self._ernd:
            self.s.COUNT |= self._random.byte()
        self.s.skip = True

    def _get_pmsicr(self) -> int:
        count = self.s.COUNT
        if self._moved and count:
            # it was reloaded where it was zero, and the selection is still to come
            count -= self._moved
            count += self._reload if count <= 0 else 0
        return self.s.ECOUNT << 56 | count

    def _set_pmsicr(self, value: int) -> None:
        count = value & _COUNT
        self.s.COUNT = min(_COUNT, count + self._moved) if count else 0
        self.s.ECOUNT = value >> 56 if self._ernd else 0
        self.s.skip = False

    def _get_pmsirr(self) -> int:
        return self.s.pmsirr

    def _set_pmsirr(self, value: int) -> None:
        self.s.pmsirr = value
        self._derive()

    def _derive(self) -> None:
        self._reload = self.s.pmsirr & _INTERVAL or self._choices.zero_interval << 8
        self._rnd = bool(self.s.pmsirr & 1)


_JITTER = 8
"""The part of a period, one over this, within which its distances vary to either side."""


@dataclass(slots=True)
class PeriodicState:
    """What is saved of an interval, beside its random numbers."""

    left: Count
    """Members up to and including the next one selected."""


class PeriodicInterval(Stateful[PeriodicState]):
    """Every ``period``-th member on average, for sampling from outside: no register.

    With ``random`` each distance is drawn from it, uniformly from ``period`` less an eighth to
    ``period`` and an eighth; without it each is ``period``. Raises ValueError for a period below 1.
    """

    def __init__(self, period: int, random: RandomStream | None = None) -> None:
        if period < 1:
            raise ValueError(f"a sampling period is at least 1 operation, got {period}")
        self.period = period
        self._random = random
        around = 0 if random is None else period // _JITTER
        self._least = period - around
        self._choices = 2 * around + 1
        self.s = PeriodicState(self._take())

    def enable(self) -> None:
        """Nothing to load: the count simply goes on."""

    def until_hit(self) -> int:
        """How many members go by up to and including the next one selected, at least 1."""
        return self.s.left

    def advance(self, members: int) -> bool:
        """Let ``members`` go by. True if the last is selected; ValueError if one before it is."""
        if members > self.s.left:
            raise ValueError(f"a member is selected {members - self.s.left} before the last")
        self.s.left -= members
        if self.s.left:
            return False
        self.s.left = self._take()
        return True

    def take_back(self, members: int, hits: int) -> None:
        """Take back the last ``members``, ``hits`` of them selected. Only without ``random``."""
        self.s.left += members - hits * self.period

    def pass_hits(self, hits: int) -> int:
        """Let members go by up to and including the ``hits``-th selected; how many those are."""
        members = self.s.left + int(self.following(hits - 1).sum())
        if self._random is not None:
            self._random.skip(hits - 1)
        self.s.left = self._take()
        return members

    def following(self, count: int) -> Distances:
        """From the next member selected to the one after it, and so on: ``count`` distances.

        No random number is taken.
        """
        if self._random is None:
            return np.full(count, self.period)
        bits = self._random.ahead(count)
        if self._choices >> 32:
            return np.array([self._distance(each) for each in bits.tolist()], np.int64)
        # the upper half of products of 128 bits
        high, low = bits >> 32, bits & 0xFFFF_FFFF
        drawn = high * self._choices + (low * self._choices >> 32) >> 32
        return self._least + drawn.astype(np.int64)

    def _take(self) -> int:
        return self.period if self._random is None else self._distance(self._random.bits64())

    def _distance(self, bits: int) -> int:
        return self._least + (bits * self._choices >> 64)


_FETCHED: Final = 4
"""Operations that are fetched together have the same address but for so many lower bits."""


@dataclass(slots=True)
class BiasedState:
    """What is saved of a biased interval, beside the interval itself."""

    moving: bool = False
    """A member was selected and not sampled: the target of the next branch is to be."""


class BiasedInterval(Stateful[BiasedState]):
    """Selects the members that ``interval`` does, and where one is not sampled each one after it.

    That is Neoverse N1's erratum 1694299. Public is that targets of branches have unexpectedly many
    samples and some operations closely behind them unexpectedly few, that the loads and stores of a
    loop can have none, and that this depends on where the linker places the loop. By which rule is
    not public; the one of :meth:`moves` shows all of that.
    """

    TRANSIT = ("again",)

    def __init__(self, interval: Interval) -> None:
        self.s = BiasedState()
        self._interval = interval
        self.again = False
        """Whether the interval itself selected the last member that went by."""

    def enable(self) -> None:
        """Profiling goes from disabled to enabled. What was moving before is lost."""
        self.s.moving = False
        self._interval.enable()

    def until_hit(self) -> int:
        """How many members go by up to and including the next one selected, at least 1."""
        return 1 if self.s.moving else self._interval.until_hit()

    def advance(self, members: int) -> bool:
        """Let ``members`` go by, at most :meth:`until_hit`. True if the last one is selected."""
        self.again = self._interval.advance(members)
        return self.again or self.s.moving

    def pass_hits(self, hits: int) -> int:
        """Raises RuntimeError: each member that is selected is looked at by itself."""
        raise RuntimeError(f"{hits} selections in one step: each is looked at by itself")

    def following(self, count: int) -> Distances:
        """The distances of the interval itself, as if nothing were moved."""
        return self._interval.following(count)

    def moves(self, operation: Operation) -> bool:
        """Whether a selected operation is not sampled, but the target of the next branch is.

        So it is with an operation behind the target of a taken branch, in the same aligned 16
        bytes, and then with each one up to that next target.
        """
        target = operation.previous_target
        if operation.misspeculated or target is None:
            return self.s.moving
        if self.s.moving:
            self.s.moving = operation.pc != target
        else:
            behind = target < operation.pc
            self.s.moving = behind and target >> _FETCHED == operation.pc >> _FETCHED
        return self.s.moving
