"""Changes of the Exception level that compiled code may let pass.

An operating system takes exceptions and returns from them all the time. Each may change what
sampling, the hooks and the checks have to do, and mostly changes nothing. This file works out for
every two Exception levels whether a run of the engine can go on from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.native.levels import restore_watch, set_levels, work_out_watch
from spe_unicorn.host.native.state.steer import LEVEL_BITS
from spe_unicorn.host.pe.checks.operations import Checks
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.meaning import Meaning

_LEVELS: Final = (EL0, EL1, EL2, EL3)
_KNOWN: Final = 64
"""How many combinations of what is asked for are remembered."""


class Levels:
    """Tells one PE's hooks which changes of the Exception level need no stop.

    ``checks`` gives the checks before operations that apply at an Exception level.
    """

    DERIVED = ("_entered", "_marks", "_known", "_key", "_found")

    def __init__(self, cpu: UnicornCPU, checks: Checks) -> None:
        self._cpu = cpu
        self._checks = checks
        self._marks: tuple[int, ...] = (0,) * len(_LEVELS)
        """The marks of blocks that trap, by Exception level."""
        self._state = cpu.hooks.state
        self._has_pm = Feature.FEAT_EBEP in cpu.features
        self._enters = wanted("exceptions")
        """Whether compiled code may enter exceptions at all."""
        self._entered: tuple[tuple[int, int], ...] = ()
        self._known: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._key: tuple[object, ...] = ()
        """What was asked for last."""
        self._found: tuple[int, ...] = (0,) * 6
        """What came of it."""

    def changed(self, meaning: Meaning, marks: tuple[int, ...]) -> None:
        """A register may have been written; ``meaning`` is what all of them mean now.

        ``marks`` are the marks of blocks that trap, by Exception level.
        """
        self._entered = meaning.entries
        self._marks = marks
        for target, kept, added in meaning.entry_pstate:
            self._cpu.hooks.entries.set(target, kept, added)

    def watch(self, enabled_at: Sequence[bool], *, watched: bool) -> tuple[int, int]:
        """Prepare a run: work out which changes of the Exception level need no stop.

        ``enabled_at`` says by Exception level whether profiling is enabled. ``watched`` says that
        a watcher has to be told of each return. Return the marks of blocks to watch for at the PE's
        Exception level, and which exceptions compiled code enters: ``RunRequest.entries``.
        """
        state = self._state
        cpu = self._cpu
        observed = not self._enters or bool(cpu.exception_taken) or cpu.notes_exceptions
        followed = watched or self._may_except()
        key = (
            enabled_at,
            int(state.suspect),
            int(state.restoring),
            followed,
            observed,
            cpu.hooks.follows_flow,
            cpu.counted_at,
            self._marks,
            self._checks.deciding,
            self._entered,
            self._secure_memory_open,
        )
        state.followed, state.observed = followed, observed
        if key != self._key:
            known = self._known.get(key)
            if known is None:
                if len(self._known) >= _KNOWN:
                    self._known.clear()
                known = self._known[key] = self._work_out(enabled_at)
            self._key, self._found = key, known
        found = self._found
        state.class_pairs = found[1]
        set_levels(state, found[0], found[2])
        restore_watch(state, found[3], found[4])
        return found[3] >> LEVEL_BITS * cpu.el & (1 << LEVEL_BITS) - 1, found[5]

    def _may_except(self) -> bool:
        """Whether a profiling exception may be taken, or pends, so that PSTATE.PM decides."""
        monitors = self._cpu.monitors
        return self._has_pm and (
            self._state.deliver_irq < 0 or (monitors is not None and monitors.excepts)
        )

    @property
    def _secure_memory_open(self) -> bool:
        """Whether the engine's rights change with the Security state."""
        memory = self._cpu.secure_memory
        return memory is not None and memory.open

    def _work_out(self, enabled_at: Sequence[bool]) -> tuple[int, ...]:
        """What the state is told, from ``level_marks`` to ``entries``."""
        state = self._state
        secure = self._secure_memory_open
        counted_at = self._cpu.counted_at
        classes = [
            (enabled_at[el], self._checks.at(el), secure and el == EL3, counted_at[el])
            for el in _LEVELS
        ]
        state.class_pairs = sum(
            1 << 4 * el + to for el in _LEVELS for to in _LEVELS if classes[el] == classes[to]
        )
        set_levels(
            state,
            sum(self._marks[el] << LEVEL_BITS * el for el in _LEVELS),
            sum(1 << 4 * el + to for el, to in self._entered),
        )
        work_out_watch(state)
        about = (state.level_marks, state.class_pairs, state.possible_entries)
        return *about, int(state.watch_at), int(state.alike), int(state.entries)
