"""One PE on its engine: the state that the rules of the architecture ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from spe_unicorn.arch.counter import USUAL_RATE, Rate
from spe_unicorn.arch.exceptions.entry import (
    ExceptionEntry,
    ExceptionRecord,
)
from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.memory.address_translation import AT_OPERATIONS
from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.pe import PEAt
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.registers import banked, system
from spe_unicorn.arch.registers.debug import DEBUG_REGISTERS, MDSCR_EL1
from spe_unicorn.arch.registers.known import REGISTERS
from spe_unicorn.arch.registers.pmu import PMU_VALUES
from spe_unicorn.arch.registers.roles import Owner
from spe_unicorn.arch.registers.sysreg import Encoding, RegisterFile, SysReg
from spe_unicorn.arch.rules.identification import identify
from spe_unicorn.arch.rules.start_state import RESET_VALUES, firmware_state
from spe_unicorn.host.accelerators import wanted
from spe_unicorn.host.engine.engine import PC, PSTATE, SP, SP_EL, Engine
from spe_unicorn.host.engine.known import why_not
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.engine.tag_memory import AllocationTags
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.levels import RESTORES_PM
from spe_unicorn.host.native.runs import run_through
from spe_unicorn.host.native.state.actions import READ, SYSTEM, WRITE, Action
from spe_unicorn.host.native.state.ledger import no_exception_yet, set_pm
from spe_unicorn.host.native.translated import TranslatedCode
from spe_unicorn.host.pe import sysregs
from spe_unicorn.host.pe.access.event_register import EventRegister
from spe_unicorn.host.pe.entry import Entries
from spe_unicorn.host.pe.maintenance import Maintenance, apply_maintenance
from spe_unicorn.host.pe.secure.memory import SecureMemory
from spe_unicorn.host.pe.virtual_memory import VirtualMemory
from spe_unicorn.host.ports import Callers, Monitored
from spe_unicorn.plain import Bits64, Count
from spe_unicorn.signals import Signal
from spe_unicorn.stateful import Stateful

if TYPE_CHECKING:
    from spe_unicorn.host.native.model import ModelHooks
    from spe_unicorn.host.pe.calls.executed import ExecutedCalls
    from spe_unicorn.host.pe.covering import Covering

_MASK: Final = (1 << 64) - 1
_MASKED: Final = 0x3C0
"""PSTATE.DAIF all set."""
_SS: Final = system.SPSR.SS.mask
_PM_BIT: Final = system.SPSR.PM.lsb
_PPEND_BIT: Final = system.SPSR.PPEND.lsb


class _ProcessState:
    """The cell of the register PM."""

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu

    def get(self) -> int:
        """PSTATE.PM in its place."""
        return self._cpu.pm << _PM_BIT

    def set(self, value: int) -> None:
        """Write PSTATE.PM."""
        self._cpu.pm = bool(value >> _PM_BIT & 1)


class _EngineProcessState:
    """The cell of a register that is a bit of PSTATE which the engine has room for."""

    def __init__(self, engine: Engine, bit: int) -> None:
        self._engine = engine
        self._bit = bit

    def get(self) -> int:
        """The bit in its place."""
        return self._engine.get(PSTATE) & self._bit

    def set(self, value: int) -> None:
        """Write the bit."""
        self._engine.put(PSTATE, self._engine.get(PSTATE) & ~self._bit | value & self._bit)


_AT_STOPS: Final = (
    *(Feature.FEAT_TLBIOS, Feature.FEAT_TLBIRANGE, Feature.FEAT_XS, Feature.FEAT_WFxT),
    *(Feature.FEAT_LSE2, Feature.FEAT_LSE128, Feature.FEAT_HBC, Feature.FEAT_SPECRES2),
    *(Feature.FEAT_CMPBR, Feature.FEAT_LRCPC3, Feature.FEAT_F64MM),
    *(Feature.FEAT_LS64, Feature.FEAT_SVE2p1),
)
"""Features of which a :class:`StopHandler` carries out what the engine does not."""
_IN_ENGINE: Final = {
    Feature.FEAT_SSBS: (system.SSBS, system.SPSR.SSBS.mask),
    Feature.FEAT_SSBS2: (system.SSBS, system.SPSR.SSBS.mask),
    Feature.FEAT_DIT: (system.DIT, system.SPSR.DIT.mask),
    Feature.FEAT_MTE2: (system.TCO, system.SPSR.TCO.mask),
}
"""Registers that are a bit of PSTATE. The engine keeps the bit, but an ERET clears it there."""


@dataclass(slots=True)
class CPUState:
    """What is saved of a PE, beside its engine and its registers."""

    illegal: bool = False
    """PSTATE.IL. The engine ignores it."""
    stepped: tuple[Bits64, Count] | None = None
    """Where the host last ended a software step: the PC, and the number of operations executed."""


@dataclass(frozen=True)
class Owned:
    """An engine that this package drives: its identity, its time, and what no memory answers.

    Every exception is taken here.
    """

    memory: RamMemory
    midr: int
    affinity: int = 0
    """What MPIDR_EL1 says in Aff3 to Aff0."""
    weighed: bool = False
    """As for ``NativeHooks.install``."""
    rate: Rate = USUAL_RATE
    answer: ClassVar[Action] = Action.STOP
    ours: ClassVar[Collection[type[SysReg]]] = ()


@dataclass(frozen=True)
class Lent:
    """An engine that another program drives, and that takes exceptions by itself.

    The caller installs the hooks. ``answer`` and ``ours`` are as in ``sysregs.install``.
    """

    memory: PhysicalMemory
    answer: Action
    ours: Collection[type[SysReg]]
    rate: ClassVar[Rate] = USUAL_RATE


class UnicornCPU(Stateful[CPUState]):
    """A PE hosted by an engine; implements ``arch.pe.PE``.

    ``features`` and ``impdef`` describe the core that is shown to the guest. ``model`` is what
    feeds the core model, if the model has to see every access and branch. The engine of an
    :class:`Owned` use has its hooks from here on.
    """

    halted = False
    sdd = False

    DERIVED = (
        *("_el", "checks_tags", "counted_at", "follows_context", "judges_stores"),
        "awaits",
        *("notes_exceptions", "tally"),
    )
    TRANSIT = ("inside", "ahead", "unfinished")
    WIRING = (
        *("calls", "callers", "coverage", "longest_vector", "monitors", "secure_memory"),
        "translated",
    )

    def __init__(
        self,
        hooks: NativeHooks,
        use: Owned | Lent,
        features: Features,
        impdef: ImpDef,
        random: RandomSource,
        model: ModelHooks | None = None,
    ) -> None:
        self.engine = engine = hooks.engine
        self.coverage: Covering | None = None
        """What notes which operations are executed, where that is wanted."""
        self.callers: Callers | None = None
        """What tells the calls that led to samples, where that is wanted."""
        self.calls: ExecutedCalls | None = None
        """The same, where calls are followed as they are executed."""
        self.memory = use.memory
        if isinstance(use, Lent):
            # the engine takes the exceptions of their instructions
            features -= frozenset((*_IN_ENGINE, *_AT_STOPS))
        self.features = features
        self.impdef = impdef
        self.hooks = hooks
        self.state = hooks.state
        self._state_at = self.state.address
        self.rate = rate = use.rate
        """The frequencies of the system counter and of the cycle counter."""
        self.state.ticks_of, self.state.cycles_of = rate.ticks_of, rate.cycles_of
        self._el: int | None = None
        self.inside = 0
        """While a hook calls Python in the middle of a block: operations still to run."""
        self.ahead = 0
        """Operations that the engine has executed after the one that is being counted."""
        self.unfinished: tuple[int, int] | None = None
        """The PC and :attr:`executed` after the last execution of a memory copy that has left more
        to do: while both are so, the next operation is its next execution."""
        self.s = CPUState()
        self.whole = isinstance(use, Owned)
        """Whether this package drives the engine, so that every exception is taken here."""
        self.events = EventRegister(hooks.state)
        self.pm_changed: Signal[[]] = Signal()
        """Told when PSTATE.PM has changed."""
        self.model = model
        """What feeds the core model, if the model has to see every access and branch."""
        self.monitors: Monitored | None = None
        """The Performance Monitors, if the core has them. They come last: their interrupt line is
        the interrupt controller's, which is made of the CPUs."""
        self.counted_at: tuple[int, ...] = (0,) * 4
        """For each Exception level, the counters that count there: a bit each."""
        self.tally = 0
        """``State.tally``: not 0 if compiled code adds up the events that words determine."""
        self.notes_exceptions = False
        """Whether a counter counts what an exception may change, so that each is for Python."""
        self.judges_stores = False
        """Whether a counter leaves out store-exclusives that fail, so that each is looked at."""
        self.awaits = False
        """Whether an event is counted for which the engine may have to stop within a block."""
        self.follows_context = False
        """Whether a counter counts by CONTEXTIDR, and so has to be told of each new value."""
        self.exception_taken: Signal[[ExceptionRecord, ExceptionEntry]] = Signal()
        """Told of each exception, before the PE enters it."""
        mine = (r for r in (*REGISTERS, *PMU_VALUES) if r.implemented(features))
        self.registers = RegisterFile(features, mine, impdef)
        self.steering = sysregs.install(self.registers, engine, hooks, use.answer, use.ours)
        sysregs.identify(self.registers, engine, hooks, impdef)
        if system.PM in self.registers:
            self.registers.add(system.PM, _ProcessState(self))
            self.state.has_pm = 1
        self._restored = 0
        """The bits of PSTATE that an ERET of the engine clears, and that the host restores."""
        for feature, (register, bit) in _IN_ENGINE.items():
            if feature not in features:
                continue
            self._restored |= bit
            if register in self.registers:
                self.registers.add(register, _EngineProcessState(engine, bit))
        self.state.restored_by_host = self._restored
        if Feature.FEAT_SPE in features:
            identify(self)
        self.longest_vector: sysregs.LongestVector | None = None
        """What keeps vectors as short as the core has them, if it has SVE."""
        self.tags: AllocationTags | None = None
        """The Allocation Tags of memory, if the core has FEAT_MTE2."""
        self.checks_tags: Callable[[Instruction, int], bool] | None = None
        """Says whether an operation's access to an address is checked by its tag; None while none
        is at any Exception level."""
        if isinstance(use, Owned) and Feature.FEAT_MTE2 in features:
            self.tags = use.memory.with_tags()
            begin, end, tags, used = self.tags.largest()
            self.state.tags_begin, self.state.tags_end = begin, end
            self.state.tags, self.state.tags_used = tags, used
        self.random = random
        drawn = self.impdef.unknown_values
        self._unknown = random.stream(f"reset {drawn}" if drawn else "reset")
        self._numbers = random.stream("RNDR")
        self.virtual = VirtualMemory(self, engine, self.memory)
        """Memory by virtual address."""
        self.entries = Entries(self)
        """Exceptions: entries and returns."""
        self.secure_memory: SecureMemory | None = None
        self.translated: TranslatedCode | None = None
        """Memory that Non-secure software does not reach, if there is any."""
        if isinstance(use, Owned):
            self._own(use)

    # The PE as the rules see it

    @property
    def el(self) -> int:
        """PSTATE.EL, the current Exception level."""
        if self._el is None:
            self._el = self.engine.get(PSTATE) >> 2 & 3
        return self._el

    @property
    def illegal(self) -> bool:
        """PSTATE.IL. The engine ignores it."""
        return self.s.illegal

    def random_number(self) -> int:
        """Draw the next number that RNDR and RNDRRS give."""
        return self._numbers.bits64()

    def _derive(self) -> None:
        self._el = None

    def forget_el(self) -> None:
        """Have :attr:`el` ask the engine again: an ERET may have changed it."""
        self._el = None

    def left_from(self, el: int) -> None:
        """Set :attr:`el` to the level that an ERET has just left, until :meth:`forget_el`.

        The operations up to that ERET are counted at this level.
        """
        self._el = el

    @property
    def pstate(self) -> int:
        """PSTATE in the layout of SPSR_ELx."""
        pending = self.monitors is not None and self.monitors.pending
        return self.engine.get(PSTATE) | self.pm << _PM_BIT | pending << _PPEND_BIT

    @property
    def pm(self) -> bool:
        """PSTATE.PM. The engine has no such bit."""
        return bool(self.state.pm)

    @pm.setter
    def pm(self, value: bool) -> None:
        if value != self.pm:
            set_pm(self.state, value)
            self.pm_changed()

    def advance_step(self) -> None:
        """SSAdvance(), for an operation that was executed here and not by the engine."""
        pstate = self.engine.get(PSTATE)
        if pstate & _SS:
            self.engine.put(PSTATE, pstate & ~_SS)
            self.engine.rebuild()
            self.s.stepped = self.pc, self.executed

    def returned(self, from_el: int) -> None:
        """Complete an ERET that the engine has executed at ``from_el``."""
        self._el = None
        if self._restored:
            self.complete_return(self.registers.raw(banked.SPSR[from_el]) & self._restored)
        self.s.illegal = self.whole and bool(self.engine.get(PSTATE) & system.SPSR.IL.mask)
        if system.PM in self.registers:
            saved = self.registers.read(banked.SPSR[from_el])
            before = PEAt(self, from_el)
            self.pm = bool(saved.PM)
            if self.monitors is not None:
                self.monitors.returned(before, ppend=bool(saved.PPEND))
        if self.secure_memory is not None:
            self.secure_memory.changed()

    def complete_return(self, spsr: int) -> None:
        """Set in PSTATE what an ERET of the engine leaves out of SPSR_ELx, as ``State.restored``.

        That is SSBS, DIT and TCO, and PM where RESTORES_PM is there, too.
        """
        if spsr & self._restored:
            self.engine.put(PSTATE, self.engine.get(PSTATE) | spsr & self._restored)
        if spsr & RESTORES_PM:
            self.pm = bool(spsr >> _PM_BIT & 1)

    @property
    def pc(self) -> int:
        """The address of the next operation."""
        return self.engine.get(PC)

    @pc.setter
    def pc(self, address: int) -> None:
        self.engine.put(PC, address)

    def leave_zeroing_to_engine(self) -> None:
        """Have DC ZVA stored by the engine, whose hooks see it; for whoever builds the machine."""
        self.state.ram_begin = self.state.ram_end = 0

    @property
    def executed(self) -> int:
        """Operations attempted since the machine began; exact while the engine is stopped."""
        state = self.state
        executed: int = state.granted - state.budget - self.inside
        return executed

    def executed_before(self, pc: int) -> int:
        """Operations attempted before the one at ``pc`` of the block that the engine executes."""
        state = self.state
        whole: int = state.granted - state.budget - state.block_operations
        return whole + (pc - int(state.block) >> 2)

    def counted(self) -> int:
        """Operations attempted up to the one that is being counted, that one included."""
        return self.executed - self.ahead + bool(self.inside)

    @property
    def cycles(self) -> int:
        """Cycles so far: one for each operation, and those that were slept away."""
        cycles: int = self.executed + self.state.skipped
        return cycles

    def physical_count(self) -> int:
        """CNTPCT_EL0 in ticks of ``counter.FREQUENCY``: an ``arch.ports.Clock``."""
        return self.rate.ticks(self.cycles)

    def _own(self, use: Owned) -> None:
        """Take the engine over: its identity, its time, and accesses that no memory answers."""
        accesses, memory = self.hooks.accesses, use.memory
        sysregs.set_identity(self.hooks, use.midr, use.affinity)
        for register in (system.ISR_EL1, system.RNDR, system.RNDRRS):
            accesses.act(Action.ASK, register.encoding, READ)
        sysregs.show_gic(self.registers, self.hooks)
        if Feature.FEAT_SVE in self.features:
            self.longest_vector = sysregs.limit_vectors(
                self.steering, self.engine, self.hooks, self.impdef.sve_bits
            )
        sysregs.keep_time(self.hooks)
        sysregs.check_returns(self.hooks)
        for debug in DEBUG_REGISTERS:
            self.registers.add(debug)
            emulated = debug.owner is Owner.EMULATED
            action = Action.ASK if emulated else Action.STOP
            self.hooks.accesses.act(action, debug.encoding, READ, WRITE)
        if wanted("controls"):
            self.hooks.accesses.act(Action.STEPPING, MDSCR_EL1.encoding, WRITE)
        self.state.pc_mask = 0b11
        accesses.act(Action.LINE, sysregs.IC_IVAU, SYSTEM)
        if wanted("zeroes"):
            ram = max(memory.regions, key=lambda region: region.writable * region.size)
            self.state.ram_begin, self.state.ram_end = ram.base, ram.base + ram.size
        if self.model is not None or wanted("zeroes"):
            accesses.act(Action.ZERO, sysregs.DC_ZVA, SYSTEM)
        for op1, crm, op2 in AT_OPERATIONS:
            accesses.act(Action.ASK, Encoding(1, op1, 7, crm, op2), SYSTEM)
        secure = [(region.base, region.base + region.size - 1) for region in memory.secure()]
        if secure:
            self.secure_memory = SecureMemory(self, self.engine, self.state, memory)
            self.virtual.secure_memory = self.secure_memory
        refused = memory.read_only()
        self.hooks.install(
            memory.gaps(), refused, refused, weighed=use.weighed, not_inline=why_not()
        )
        self.hooks.notice_new_code()
        self.translated = TranslatedCode(self.engine, self.state, memory)

    def start(self, el: int, entry: int, x0: int = 0) -> None:
        """Reset the PE, then set what firmware leaves for software at ``el``; go to ``entry``."""
        apply_maintenance(self, Maintenance(tlb=True, code=True))
        self.events.reset()
        if self.calls is not None:
            self.calls.reset()
        no_exception_yet(self.state)
        apart = (*PMU_VALUES, *DEBUG_REGISTERS, system.SSBS, system.DIT, system.TCO)
        self.registers.reset(self._unknown.bits64, without=apart)
        for debug in DEBUG_REGISTERS:
            if debug in self.registers:
                value = debug.reset_value(self.features, lambda: 0)
                self.registers.set_raw(debug, value & self.registers.present(debug))
        for register, value in RESET_VALUES.items():
            if register in self.registers:
                self.registers.set_raw(register, value)
        for level, register in banked.SPSR.items():
            if register in self.registers:
                # of the values that UNKNOWN allows, one that an ERET can return to
                spsr = self.registers.read(register)
                self.registers.set_raw(register, spsr.replace(M=level << 2 | 1, IL=0, nRW=0).value)
        if system.MDCR_EL2 in self.registers and self.monitors is not None:
            mdcr = self.registers.read(system.MDCR_EL2).replace(HPMN=self.monitors.implemented)
            self.registers.set_raw(system.MDCR_EL2, mdcr.value)
        firmware_state(self.registers, el)
        if self.longest_vector is not None:
            self.longest_vector.begin(el)
        sysregs.show_identity(self.engine, self.hooks)
        masks = _MASKED | (system.SPSR.PM.mask if system.PM in self.registers else 0)
        if self.tags is not None:
            masks |= system.SPSR.TCO.mask
        self.set_pstate(masks | el << 2 | 1)
        for number in range(31):
            self.engine.set_x(number, 0)
        self.engine.set_x(0, x0)
        self.pc = entry

    def execute(self, pc: int, until: int, *, through: bool = False, wfis: bool = False) -> int:
        """Run the engine from ``pc`` on. Return its error number, 0 for none.

        With ``through`` the run goes on after the stops that compiled code can answer by itself;
        with ``wfis`` a WFI with an interrupt pending is one of these.
        """
        if through:
            status = self.engine.run_by(run_through.called, self._state_at, pc, until, wfis)
        else:
            status = self.engine.run(pc, until)
        if self.state.looked_at_pc:
            self.stand()
        return status

    def stand(self) -> None:
        """After a run that a hook stopped at a System access: move the PC back to that access."""
        if self.state.looked_at_pc:
            self.pc = int(self.state.looked_at_pc) - 1 & _MASK

    def set_pstate(self, value: int) -> None:
        """Write PSTATE, changing stack pointers and translation as the architecture would."""
        engine = self.engine
        old = engine.get(PSTATE)
        engine.put(SP_EL[old >> 2 & 3 if old & 1 else 0], engine.get(SP))
        engine.put(PSTATE, value & 0xFFFF_FFFF)
        engine.put(SP, engine.get(SP_EL[value >> 2 & 3 if value & 1 else 0]))
        engine.rebuild()
        self._el = value >> 2 & 3
        self.s.illegal = bool(value & system.SPSR.IL.mask)
        self.pm = bool(value >> _PM_BIT & 1)
        if self.secure_memory is not None:
            self.secure_memory.changed()
