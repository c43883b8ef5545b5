"""What software finds in the registers of the Performance Monitors, and what its writes do.

One value stands behind several registers, and how much of it shows depends on the Exception level:
counters from MDCR_EL2.HPMN on are EL2's, and while PMUSERENR_EL0.UEN is 1 EL0 has those counters
that PMUACR_EL1 gives it. That an access is allowed at all is ``arch.access.pmu``'s to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL2, EL3, PE
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers.fgt import HDFGRTR2_EL2, HDFGWTR2_EL2
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import MDCR_EL3, SCR_EL3
from spe_unicorn.arch.rules.effective import el2_enabled
from spe_unicorn.pmu.counting import ALL_EVENT_COUNTERS, counters_below_el2
from spe_unicorn.pmu.monitors import PerformanceMonitors
from spe_unicorn.pmu.threshold import WIDTH

_CYCLES: Final = 1 << r.CYCLE_COUNTER
_INSTRUCTIONS: Final = 1 << r.INSTRUCTION_COUNTER
_NARROW: Final = (1 << 32) - 1
_NUMBER: Final = {
    **{register: number for number, register in enumerate(r.PMEVCNTRS)},
    **{register: number for number, register in enumerate(r.PMEVTYPERS)},
    r.PMCCNTR_EL0: r.CYCLE_COUNTER,
    r.PMCCFILTR_EL0: r.CYCLE_COUNTER,
    r.PMICNTR_EL0: r.INSTRUCTION_COUNTER,
    r.PMICFILTR_EL0: r.INSTRUCTION_COUNTER,
}
"""Whose counter, or filter, a register is."""
_VALUES: Final = frozenset({*r.PMEVCNTRS, r.PMCCNTR_EL0, r.PMICNTR_EL0})
_MAPS: Final[dict[type[SysReg], tuple[str, bool]]] = {
    r.PMCNTENSET_EL0: ("enabled", True),
    r.PMCNTENCLR_EL0: ("enabled", False),
    r.PMOVSSET_EL0: ("overflowed", True),
    r.PMOVSCLR_EL0: ("overflowed", False),
    r.PMINTENSET_EL1: ("noticed", True),
    r.PMINTENCLR_EL1: ("noticed", False),
}
"""Which map a register is of, and whether writing 1 sets."""
VIEWED: Final = tuple(
    register
    for register in r.PMU_REGISTERS
    if register not in r.PMU_VALUES or register is r.PMUACR_EL1
)
"""The registers that show the counters; the others are plain values in the register file."""


class MonitorView:
    """The registers of ``monitors``, as software at the current Exception level of ``pe`` has them.

    ``events`` are the numbers of the events that PMCEID<n>_EL0 lists.
    """

    def __init__(self, pe: PE, monitors: PerformanceMonitors, events: frozenset[int]) -> None:
        self._pe = pe
        self._monitors = monitors
        self._events = events

    def read(self, register: type[SysReg]) -> int:
        """What an MRS gets that is allowed. Raises KeyError for a register that is not here."""
        state = self._monitors.s
        register = self._named(register)
        if register is r.PMUACR_EL1:
            return self._pe.registers.raw(register) & self._visible(write=False)
        if register in _MAPS:
            value: int = getattr(state, _MAPS[register][0])
            return value & self._visible(write=False)
        if register in _NUMBER:
            number = _NUMBER[register]
            if not self._visible(write=False) >> number & 1:
                return 0
            return self._value(number) if register in _VALUES else state.types[number]
        return self._others[register]()

    def write(self, register: type[SysReg], value: int) -> None:
        """What an MSR does that is allowed. Raises KeyError for a register that is not here."""
        state = self._monitors.s
        register = self._named(register)
        visible = self._visible(write=True)
        if register in _MAPS:
            name, sets = _MAPS[register]
            old: int = getattr(state, name)
            bits = value & visible
            setattr(state, name, old | bits if sets else old & ~bits)
        elif register in _NUMBER:
            number = _NUMBER[register]
            if not visible >> number & 1:
                return
            if register in _VALUES:
                if not self._read_only() >> number & 1:
                    state.values[number] = value & self._mask(number)
            else:
                self._monitors.configure(number, self._legal(register, value))
        elif register is r.PMCR_EL0:
            self._write_control(r.PMCR_EL0(value), visible)
        elif register is r.PMSWINC_EL0:
            self._monitors.software_increment(value & visible & ALL_EVENT_COUNTERS)
        elif register is r.PMZR_EL0:
            self._zero(value & visible & ~self._read_only())
        elif register is r.PMUACR_EL1:
            old = self._pe.registers.raw(register)
            self._pe.registers.write(register, old & ~visible | value & visible)
        elif register is r.PMIAR_EL1:
            state.address = self._legal(register, value)
        elif not register.read_only:
            raise KeyError(register.__name__)

    # What is to be seen

    def _named(self, register: type[SysReg]) -> type[SysReg]:
        """The register after PMXEVTYPER_EL0 and PMXEVCNTR_EL0."""
        selected = self._pe.registers.read(r.PMSELR_EL0).SEL
        if register is r.PMXEVTYPER_EL0:
            return r.PMCCFILTR_EL0 if selected == r.CYCLE_COUNTER else r.PMEVTYPERS[selected]
        if register is r.PMXEVCNTR_EL0:
            return r.PMEVCNTRS[selected]
        return register

    def _visible(self, *, write: bool) -> int:
        """The map of the counters that the current Exception level has."""
        pe = self._pe
        implemented = self._monitors.implemented
        mine = implemented
        if pe.el < EL2 and el2_enabled(pe):
            mine = counters_below_el2(pe, implemented)
        visible = (1 << mine) - 1 | _CYCLES
        if self._has_instruction_counter(write=write):
            visible |= _INSTRUCTIONS
        if pe.el == EL0:
            user = self._user()
            visible &= pe.registers.raw(r.PMUACR_EL1) if user.UEN else ~_INSTRUCTIONS
        return visible

    def _has_instruction_counter(self, *, write: bool) -> bool:
        """Whether bits F0 show it: EL3 allows it, and EL2 does not trap its filter."""
        pe = self._pe
        if Feature.FEAT_PMUv3_ICNTR not in pe.features:
            return False
        if pe.el == EL3:
            return True
        has_el3 = Feature.FEAT_EL3 in pe.features
        if has_el3 and not pe.registers.read(MDCR_EL3).EnPM2:
            return False
        if pe.el == EL2 or Feature.FEAT_FGT2 not in pe.features or not el2_enabled(pe):
            return True
        if has_el3 and not pe.registers.read(SCR_EL3).FGTEn2:
            return False
        if write:
            return bool(pe.registers.read(HDFGWTR2_EL2).nPMICFILTR_EL0)
        return bool(pe.registers.read(HDFGRTR2_EL2).nPMICFILTR_EL0)

    def _user(self) -> r.PMUSERENR_EL0:
        """PMUSERENR_EL0, less the bits that the core does not have."""
        user = self._pe.registers.raw(r.PMUSERENR_EL0)
        return r.PMUSERENR_EL0(user & r.PMUSERENR_EL0.writable_mask(self._pe.features))

    def _read_only(self) -> int:
        """The counters that EL0 only reads, while it has them by PMUACR_EL1."""
        user = self._user()
        if self._pe.el != EL0 or not user.UEN:
            return 0
        found = ALL_EVENT_COUNTERS if user.ER else 0
        return found | (_CYCLES if user.CR else 0) | (_INSTRUCTIONS if user.IR else 0)

    def _mask(self, number: int) -> int:
        wide = number >= r.CYCLE_COUNTER or Feature.FEAT_PMUv3p5 in self._pe.features
        return (1 << 64) - 1 if wide else _NARROW

    def _value(self, number: int) -> int:
        return self._monitors.s.values[number] & self._mask(number)

    def _legal(self, register: type[SysReg], value: int) -> int:
        """The bits of a value that the core keeps; PMICFILTR_EL0's event is fixed."""
        kept = value & register.writable_mask(self._pe.features)
        return kept | (0x0008 if register is r.PMICFILTR_EL0 else 0)

    @property
    def _others(self) -> dict[type[SysReg], Callable[[], int]]:
        return {
            r.PMCR_EL0: self._control,
            r.PMIAR_EL1: lambda: self._monitors.s.address,
            r.PMMIR_EL1: self._machine,
            r.PMCEID0_EL0: lambda: self._identification(0x0000, 0x4000),
            r.PMCEID1_EL0: lambda: self._identification(0x0020, 0x4020),
            r.PMSWINC_EL0: lambda: 0,
            r.PMZR_EL0: lambda: 0,
        }

    def _control(self) -> int:
        pe, implemented = self._pe, self._monitors.implemented
        below = pe.el < EL2 and el2_enabled(pe)
        number = counters_below_el2(pe, implemented) if below else implemented
        always = r.PMCR_EL0.N.insert(number) | r.PMCR_EL0.LC.mask
        return self._monitors.s.control | always

    def _machine(self) -> int:
        has_thresholds = Feature.FEAT_PMUv3_TH in self._pe.features
        return r.PMMIR_EL1.THWIDTH.insert(WIDTH if has_thresholds else 0)

    def _identification(self, first: int, first_high: int) -> int:
        listed = sum(1 << n for n in range(32) if first + n in self._events)
        return listed | sum(1 << 32 + n for n in range(32) if first_high + n in self._events)

    # What writes do

    def _write_control(self, value: r.PMCR_EL0, visible: int) -> None:
        state = self._monitors.s
        actions = r.PMCR_EL0.C.mask | r.PMCR_EL0.P.mask
        state.control = self._legal(r.PMCR_EL0, value.value) & ~actions
        if value.C:
            self._zero(_CYCLES & visible)
        if value.P:
            self._zero(visible & ALL_EVENT_COUNTERS)

    def _zero(self, counters: int) -> None:
        values = self._monitors.s.values
        for number in range(len(values)):
            if counters >> number & 1:
                values[number] = 0
