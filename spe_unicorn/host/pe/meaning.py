"""What the values of control registers mean, for all Exception levels at once.

That follows only from a few registers, and takes a millisecond to work out. Guests often switch
between a few combinations of values: an operating system with SPE, a hypervisor and its guests. So
a meaning is remembered by these values, for all PEs of one kind together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

from spe_unicorn.arch.access.fine_grained_traps import trapped_at, traps_supervisor_call
from spe_unicorn.arch.access.kernel import KERNEL_ACCESSORS
from spe_unicorn.arch.access.spe import STEERING_ACCESSORS, psb_csync
from spe_unicorn.arch.access.timer import TIMER_ACCESSORS
from spe_unicorn.arch.access.tlb import executed_at
from spe_unicorn.arch.access.verdicts import Accessor, Allowed, SystemAccessTrap, access
from spe_unicorn.arch.exceptions.entry import kept_and_set
from spe_unicorn.arch.exceptions.returns import illegal_exception_return
from spe_unicorn.arch.exceptions.routing import Routed, fp_access_trap, wait_trap
from spe_unicorn.arch.exceptions.syndromes import WFx
from spe_unicorn.arch.features import Features
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PEAt
from spe_unicorn.arch.registers.fgt import (
    HDFGRTR_EL2,
    HDFGWTR_EL2,
    HFGITR_EL2,
    HFGRTR_EL2,
    HFGWTR_EL2,
)
from spe_unicorn.arch.registers.id import ID_AA64PFR0_EL1
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import (
    CNTHCTL_EL2,
    CNTKCTL_EL1,
    CPACR_EL1,
    CPTR_EL2,
    CPTR_EL3,
    HCR_EL2,
    HCRX_EL2,
    MDCR_EL2,
    MDCR_EL3,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
    SCTLR_EL3,
    SPSR_EL1,
)
from spe_unicorn.arch.registers.timer import CNTPCT_EL0, CNTVCT_EL0, TimerControl
from spe_unicorn.arch.rules.effective import effective_hcr_nvx, el2_enabled, el_is_in_host
from spe_unicorn.devices.timer import TIMER_OF
from spe_unicorn.devices.timer_cells import EL2_PHYSICAL
from spe_unicorn.host.native.exceptions.returns import legal_returns
from spe_unicorn.host.native.registers.timer import name_of, timer_of
from spe_unicorn.host.native.state.steer import IN_HOST, TIMERS_IN_HOST, TIMERS_LEVEL
from spe_unicorn.host.pe.engine_traps import missed_traps, sve_traps

if TYPE_CHECKING:
    from spe_unicorn.host.pe.cpu import UnicornCPU

_COUNTERS: Final = tuple(
    next(a for a in TIMER_ACCESSORS if a.register is r) for r in (CNTPCT_EL0, CNTVCT_EL0)
)
_TIMERS: Final = {
    name_of(a.encoding.key): a
    for a in TIMER_ACCESSORS
    if a.register is not None and issubclass(a.register, TimerControl)
}
"""A register of each timer by each of its names; all three registers have the same rules."""
_IDENTIFICATION: Final = next(a for a in STEERING_ACCESSORS if a.register is ID_AA64PFR0_EL1)
_BY_EL12: Final = tuple(a for a in KERNEL_ACCESSORS if a.encoding.op1 == 5)
"""The _EL12 names that can trap at EL2, reads as writes."""
_DECIDING: Final[tuple[type[SysReg], ...]] = (
    HCR_EL2,
    HCRX_EL2,
    SCR_EL3,
    CPACR_EL1,
    CPTR_EL2,
    CPTR_EL3,
    CNTKCTL_EL1,
    CNTHCTL_EL2,
    SCTLR_EL1,
    SCTLR_EL2,
    SCTLR_EL3,
    MDCR_EL2,
    MDCR_EL3,
    HFGITR_EL2,
    HFGRTR_EL2,
    HFGWTR_EL2,
    HDFGRTR_EL2,
    HDFGWTR_EL2,
)
"""The registers that decide a :class:`Meaning`."""
_REMEMBERED: Final = 256
"""How many meanings are remembered for the PEs of one kind."""
_KINDS: Final = 16
"""For how many kinds of PEs."""


@dataclass(frozen=True, slots=True, eq=False)
class Meaning:
    """What the values of the deciding registers mean. Tuples are by Exception level."""

    fp_traps: tuple[bool, ...]
    psb_traps: tuple[bool, ...]
    waits_trap: bool
    """Whether EL2 or EL3 traps a WFE at EL1 or EL2 that would wait."""
    calls_trapped: tuple[bool, ...]
    """Whether SVC goes to EL2 by a fine-grained trap."""
    trapped: tuple[frozenset[int], ...]
    """Which operations fine-grained traps trap, by the numbers of ``trap_id``."""
    missed: tuple[dict[int, Routed], ...]
    """Other traps that the engine does not take, by the numbers of ``trap_id``."""
    trapped_anywhere: frozenset[int]
    """The numbers of ``trapped`` and ``missed`` at all Exception levels."""
    counters: int
    """``State.counters``."""
    timers_at: int
    """``State.timers_at``."""
    engine_identity: int
    """``State.engine_identity``."""
    sve_traps: tuple[bool, ...]
    """Whether a trap of SVE differs from what the engine does."""
    host: bool
    """Whether EL2 runs a host (HCR_EL2.E2H), where EL1 names mean registers of EL2."""
    asked_el12: frozenset[Encoding]
    """The _EL12 names that Python answers at EL2, since they trap or are not there."""
    legal_returns: int
    """``State.legal_returns``."""
    zeroes_at: int
    """``State.zeroes_at``."""
    tlbi_at: int
    """``State.tlbi_at``."""
    entries: tuple[tuple[int, int], ...]
    """Exceptions that compiled code may enter: from which Exception level to which."""
    entry_pstate: tuple[tuple[int, int, int], ...]
    """For each Exception level that they go to: which bits of PSTATE stay, and which are set."""


@dataclass(slots=True)
class _Known:
    """What has been worked out for PEs of one kind, by the values of registers."""

    DERIVED: ClassVar = ("meanings", "returns")

    meanings: dict[tuple[int, ...], Meaning] = field(default_factory=dict)
    returns: dict[tuple[int, ...], int] = field(default_factory=dict)
    """``Meaning.legal_returns``, which changes less often."""


class Meanings:
    """The meanings that one PE's registers have had."""

    DERIVED = ("_known", "_registers")

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self._registers: tuple[type[SysReg], ...] = ()
        self._known = _Known()

    def now(self) -> Meaning:
        """What the registers mean with their values of now."""
        cpu = self._cpu
        if not self._registers:
            self._registers = tuple(register for register in _DECIDING if register in cpu.registers)
            self._known = _known_of(cpu.features, self._registers)
        key = (cpu.whole, *map(cpu.registers.raw, self._registers))
        meanings = self._known.meanings
        meaning = meanings.get(key)
        if meaning is None:
            if len(meanings) >= _REMEMBERED:
                meanings.clear()
            meaning = meanings[key] = meaning_of(cpu, self._legal_returns())
        return meaning

    def _legal_returns(self) -> int:
        cpu = self._cpu
        deciding = (register for register in (HCR_EL2, SCR_EL3) if register in cpu.registers)
        key = tuple(map(cpu.registers.raw, deciding))
        known = self._known.returns
        found = known.get(key)
        if found is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            found = known[key] = legal_returns_of(cpu)
        return found


@lru_cache(maxsize=_KINDS)
def _known_of(features: Features, registers: tuple[type[SysReg], ...]) -> _Known:
    """What is known for PEs with some features and registers."""
    return _Known()


def legal_returns_of(cpu: UnicornCPU) -> int:
    """Work out ``State.legal_returns``."""
    levels = [PEAt(cpu, el) for el in range(4)]
    return legal_returns(
        lambda el, mode: not illegal_exception_return(levels[el], SPSR_EL1(el << 2), SPSR_EL1(mode))
    )


def meaning_of(cpu: UnicornCPU, returns: int) -> Meaning:
    """Work out what a PE's registers mean; ``returns`` is its ``legal_returns``."""
    levels = [PEAt(cpu, el) for el in range(4)]
    counters = 0
    for el, pe in enumerate(levels):
        for n, accessor in enumerate(_COUNTERS):
            if isinstance(access(pe, accessor, read=True), Allowed):
                counters |= 1 << 2 * el + n
        if el_is_in_host(pe, el):
            counters |= 1 << IN_HOST + el
    engines = 0b01 if el2_enabled(cpu) else 0
    if isinstance(access(levels[EL1], _IDENTIFICATION, read=True), SystemAccessTrap):
        engines |= 0b10
    calls_trapped = tuple(traps_supervisor_call(cpu, el) for el in range(4))
    trapped = tuple(trapped_at(cpu, el) if cpu.whole else frozenset() for el in range(4))
    missed = tuple(missed_traps(pe) if cpu.whole else {} for pe in levels)
    entries = tuple((el, to) for el, to in _possible_entries(cpu) if not calls_trapped[el])
    targets = dict.fromkeys(to for _, to in _possible_entries(cpu))
    return Meaning(
        fp_traps=tuple(fp_access_trap(pe) is not None for pe in levels),
        psb_traps=tuple(psb_csync(pe) is not None for pe in levels),
        waits_trap=any(wait_trap(levels[el], WFx.WFE) is not None for el in (EL1, EL2)),
        calls_trapped=calls_trapped,
        trapped=trapped,
        missed=missed,
        trapped_anywhere=frozenset().union(*trapped, *missed),
        counters=counters,
        timers_at=sum(_timers_at(pe) << TIMERS_LEVEL * pe.el for pe in levels),
        engine_identity=engines,
        sve_traps=tuple(cpu.whole and sve_traps(pe) for pe in levels),
        host=el_is_in_host(levels[EL2], EL2),
        asked_el12=frozenset(
            accessor.encoding
            for accessor in _BY_EL12
            if not isinstance(access(levels[EL2], accessor, read=True), Allowed)
        ),
        legal_returns=returns,
        zeroes_at=_zeroes_at(levels),
        tlbi_at=executed_at(levels),
        entries=entries,
        entry_pstate=tuple((to, *kept_and_set(cpu, to)) for to in targets),
    )


def _timers_at(pe: PEAt) -> int:
    """The bits of ``State.timers_at`` for the level of ``pe``."""
    found = 0
    for name, accessor in _TIMERS.items():
        reached = {_timer_reached(pe, accessor, read=read) for read in (True, False)}
        if reached == {timer_of(name)}:
            found |= 1 << name
        elif reached == {timer_of(name) + EL2_PHYSICAL}:
            found |= 1 << name | TIMERS_IN_HOST
    return found


def _timer_reached(pe: PEAt, accessor: Accessor, *, read: bool) -> int | None:
    """The number of the timer that an access reaches; None where it traps or is UNDEFINED."""
    verdict = access(pe, accessor, read=read)
    return TIMER_OF[verdict.register] if isinstance(verdict, Allowed) else None


def _zeroes_at(levels: Sequence[PEAt]) -> int:
    """Where DC ZVA traps neither by SCTLR_ELx.DZE nor by HCR_EL2.TDZ, a bit for each EL."""
    found = 0
    for el, pe in enumerate(levels):
        host = el_is_in_host(pe, EL0)
        controls = pe.registers.read(SCTLR_EL2 if host else SCTLR_EL1)
        denied = el == EL0 and not controls.DZE
        trapped = el <= EL1 and el2_enabled(pe) and not host and pe.registers.read(HCR_EL2).TDZ
        found |= (not denied and not trapped) << el
    return found


def _possible_entries(cpu: UnicornCPU) -> list[tuple[int, int]]:
    """From which to which Exception level compiled code may enter exceptions, SVC not trapped."""
    if not cpu.whole:
        return []
    entries = [(EL0, EL1)]
    if not effective_hcr_nvx(cpu):
        entries.append((EL1, EL1))
    if SCTLR_EL2 in cpu.registers:
        entries.append((EL2, EL2))
        if el_is_in_host(cpu, EL0):
            entries.append((EL0, EL2))
        entries.append((EL1, EL2))
    if SCTLR_EL3 in cpu.registers:
        entries += [(EL1, EL3), (EL2, EL3)]
    return entries
