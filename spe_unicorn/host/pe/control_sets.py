"""Sets of controls that have been worked out, and which writes lead from one to another.

A hypervisor writes the same few values to the same few registers at each exit of a guest. A set is
all that the values of the control registers mean to the hooks. It becomes a row of a table. A write
that has led from one set to another becomes a row of a second table, and from then on compiled code
goes on by itself (``host.native.registers.switches``). Nothing is guessed: a row is made of a write
that the engine has made and that Python has seen to.

There are sets only where nothing but the hooks depends on the controls. Whatever else decides, and
is not a control register, is part of a set, and no write leads to a set in which that differs.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.registers.debug import MDSCR_EL1
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import HCR_EL2
from spe_unicorn.arch.rules.effective import effective_hcr_nvx
from spe_unicorn.bits import signed
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.native.registers import switches as native
from spe_unicorn.host.native.state.steer import select_set
from spe_unicorn.host.native.state.transit import CONTROLS_WRITTEN
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.meaning import Meaning
from spe_unicorn.spe.management import exception_requested, pmbirq_level

_DEBUG: Final = MDSCR_EL1.MDE.mask | MDSCR_EL1.KDE.mask
"""Without these no Exception level has breakpoints and watchpoints, or steps itself."""


_VIRTUAL: Final = HCR_EL2.VI.mask | HCR_EL2.VF.mask | HCR_EL2.VSE.mask
"""Virtual interrupts of HCR_EL2 itself. The host delivers them, and they are in no set."""


class Traps(NamedTuple):
    """Which operations the host executes in the engine's place, by the numbers of ``trap_id``."""

    anywhere: frozenset[int]
    at: tuple[bool, ...]
    """By Exception level, whether there are any."""
    table: NDArray[np.uint8]
    """``tables.trap_table``."""


PATIENCE: Final = 64
"""Runs of the engine without a write of a control, after which no set holds until the next."""


@dataclass(frozen=True, slots=True)
class ControlSet:
    """What Python knows of a set, and compiled code need not."""

    meaning: Meaning
    traps: Traps
    events: bool
    """Whether WFE, SEV and SEVL are the host's."""
    relevant: int
    """The marks that a run with these controls looks out for."""
    mdscr: int
    """What MDSCR_EL1 holds."""
    around: Hashable
    """What else decides. A write leads only to sets in which it is the same."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A write of a control register that has stopped the engine."""

    before: int
    el: int
    key: int
    value: int
    generation: int = 0
    """How often the controls have been worked out, the outcome of this write included."""


class ControlSets:
    """The sets of one PE, in tables that hooks look at."""

    DERIVED = (
        "_generation",
        "_held",
        "_known",
        "_numbers",
        "_possible",
        "_rows",
        "_unused",
        "_writes",
    )
    TRANSIT = ("_last",)

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self._state = cpu.hooks.state
        self._rows = np.zeros(native.SETS, native.SET)
        self._writes = np.zeros(native.SWITCHES, native.SWITCH)
        self._known: list[ControlSet] = []
        self._numbers: dict[tuple[Meaning, int, Hashable], int] = {}
        """The number of a set, by its meaning, MDSCR_EL1, and what else decides (``around``)."""
        self._held = 0
        """The number of the set whose meaning Python has taken over; 0 for none."""
        self._unused = PATIENCE
        """Runs of the engine since a control was last written."""
        self._last: _Write | None = None
        self._wanted = wanted("controls")
        self._possible = False
        """Whether there may be sets, as far as control registers say."""
        self._generation = 0
        """How often the controls have been worked out."""
        self._state.control_sets = self._rows.ctypes.data
        self._state.control_switches = self._writes.ctypes.data

    def forget(self) -> None:
        """Forget all sets."""
        self._known.clear()
        self._numbers.clear()
        self._writes.fill(0)
        self._last = None
        self.deselect()

    def begin_anew(self) -> None:
        """The controls are worked out anew: no set holds until the next run selects one."""
        self._generation += 1
        self.deselect()
        self._possible = self._wanted and may_have_sets(self._cpu)

    def deselect(self) -> None:
        """From here on no set holds, until :meth:`select`."""
        self._held = 0
        select_set(self._state, 0, int(self._state.gic_at))

    def worth(self) -> bool:
        """Whether a set is to hold in the run of the engine that begins.

        To say what decides takes time, so not where no control has been written for long.
        """
        if not self._possible:
            return False
        self._unused += 1
        return self._unused <= PATIENCE

    @property
    def resting(self) -> bool:
        """Whether no set will hold before a control is written."""
        return not self._possible or self._unused > PATIENCE

    def moved(self) -> ControlSet | None:
        """The set that compiled code has gone over to since Python looked last; None for none."""
        number = int(self._state.control_set)
        if number in (0, self._held):
            return None
        self._held, self._unused = number, 0
        return self._known[number - 1]

    def noticed(self) -> None:
        """The engine has stopped after a write, and nothing has been worked out since."""
        state = self._state
        self._last, self._unused = None, 0
        known = state.control_set and state.control_key
        if known and state.controls_written == CONTROLS_WRITTEN:
            before, key, value = state.control_set, state.control_key, state.control_value
            self._last = _Write(int(before), self._cpu.el, int(key), int(value))

    def worked_out(self, *, unchanged: bool) -> None:
        """What that write means has been worked out.

        ``unchanged``: the engine's registers have been left as the write made them.
        """
        write, cpu = self._last, self._cpu
        if write is None:
            return
        if write.key == MDSCR_EL1.encoding.key:  # the host holds it
            kept = cpu.registers.raw(MDSCR_EL1) == write.value
        else:
            kept = signed(cpu.hooks.accesses.cell(Encoding.from_key(write.key))) == write.value
        self._last = replace(write, generation=self._generation) if unchanged and kept else None

    def select(self, now: ControlSet) -> int:
        """A run of the engine begins with these controls, of which the state has been told.

        Return the number of their set: ``RunRequest.control_set``.
        """
        last, self._last = self._last, None
        key = now.meaning, now.mdscr, now.around
        number = self._numbers.get(key)
        if number is None:
            if len(self._known) + 1 >= native.SETS:
                self.forget()
                last = None
            self._known.append(now)
            number = self._numbers[key] = len(self._known)
            self._fill(self._rows[number], now)
        if last is not None and last.generation == self._generation:
            self._learn(last, number)
        self._held = number
        return number

    def _learn(self, write: _Write, after: int) -> None:
        if self._known[write.before - 1].around != self._known[after - 1].around:
            return
        place = native.place_of(write.before, write.el, write.key, write.value)
        self._writes[place] = (write.before, write.el, write.key, write.value, after)

    def _fill(self, row: np.void, now: ControlSet) -> None:
        state, registers = self._state, self._cpu.registers
        for name in native.COPIED:
            row[name] = getattr(state, name)
        row["relevant"] = now.relevant
        row["returning"] = sum(1 << el for el, spsr in banked.SPSR.items() if spsr in registers)
        row["mdscr"] = now.mdscr
        row["engine_mdscr"] = self._cpu.engine.system(MDSCR_EL1.encoding)
        row["entry_pstate"] = self._cpu.hooks.entries.words


def may_have_sets(cpu: UnicornCPU) -> bool:
    """Whether nothing but the hooks depends on the controls, as far as control registers say."""
    if not cpu.whole or cpu.model is not None:
        return False
    if HCR_EL2 not in cpu.registers:
        return False
    return not (cpu.registers.raw(HCR_EL2) & _VIRTUAL or effective_hcr_nvx(cpu))


def others_decide(cpu: UnicornCPU) -> bool:
    """Whether profiling or debug is set up, so that controls decide about more than the hooks.

    Without PMBLIMITR_EL1.E no control enables profiling.
    """
    registers = cpu.registers
    if registers.raw(MDSCR_EL1) & _DEBUG:
        return True
    if PMBLIMITR_EL1 not in registers:
        return False
    return bool(registers.raw(PMBLIMITR_EL1) & PMBLIMITR_EL1.E.mask)


def profiling_asks(cpu: UnicornCPU) -> tuple[bool, bool]:
    """Whether PMBIRQ is asserted, and whether an event asks for an SPE Profiling exception.

    A reset leaves any value in PMBSR_ELx.S, and controls decide what that is with FEAT_SPE_EXC.
    """
    if Feature.FEAT_SPE_EXC not in cpu.features:
        return False, False
    return pmbirq_level(cpu), exception_requested(cpu)
