"""What register values mean for the compiled hooks, worked out when one of them changes.

The engine executes most privileged software by itself. It never traps FP and SIMD, answers the
counters from the host's clock, and does not redirect EL1 names at EL2 with HCR_EL2.E2H. The hooks
do that in its place, and :class:`Controls` tells them where.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.access.fine_grained_traps import (
    syndrome_of,
    trap_id,
)
from spe_unicorn.arch.access.spe import psb_csync
from spe_unicorn.arch.access.verdicts import Accessor, Undefined, access
from spe_unicorn.arch.exceptions.routing import (
    Routed,
    default_target,
    fp_access_trap,
    sve_access_trap,
)
from spe_unicorn.arch.exceptions.syndromes import EC, PSB_CSYNC_TRAP, UNDEFINED
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.operation import Family, Instruction, Mark
from spe_unicorn.arch.pe import EL0, EL2, EL3
from spe_unicorn.arch.registers.debug import MDSCR_EL1
from spe_unicorn.arch.registers.pmu import MOST_COUNTERS
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import (
    CPTR_EL2,
    CPTR_EL3,
)
from spe_unicorn.arch.rules.debug import locked
from spe_unicorn.arch.rules.effective import (
    el_is_in_host,
    physical_count_offset,
    virtual_count_offset,
)
from spe_unicorn.decode import decode
from spe_unicorn.decode.words import ERET, EVENT_HINTS
from spe_unicorn.host.engine.mistakes import executes_wrongly, is_unallocated
from spe_unicorn.host.engine.untranslatable import translation_fails
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.marks import (
    MARK_EVENT,
    MARK_EXCLUSIVE,
    MARK_FENCE,
    MARK_FP,
    MARK_MEND,
    MARK_ORDER,
    MARK_RETURN,
    MARK_SVE,
    MARK_SYNC,
    MARK_TRAP,
    MARK_WHOLE,
    is_absent,
    marks_of,
)
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.native.state.actions import READ, WRITE, Action
from spe_unicorn.host.native.state.steer import CODE_TOLD, MEND_FOUND, set_controls
from spe_unicorn.host.native.tables import trap_table
from spe_unicorn.host.pe import sysregs
from spe_unicorn.host.pe.access.monitor_registers import asked_at_el3
from spe_unicorn.host.pe.checks.debug import DEBUG_MASKS, masks_debug
from spe_unicorn.host.pe.checks.operations import Checks
from spe_unicorn.host.pe.control_sets import (
    ControlSet,
    ControlSets,
    Traps,
    others_decide,
    profiling_asks,
)
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.levels import Levels
from spe_unicorn.host.pe.meaning import Meaning, Meanings
from spe_unicorn.instructions.known.finding import TABLE
from spe_unicorn.stateful import Stateful

_PAGE: Final = 0x1000
"""The engine ends each block at the end of a page, of the smallest size."""
_TZ_TFP: Final = 1 << 8 | 1 << 10
_KEY: Final = 0xFFFF
_KNOWN_TRAPS: Final = 32
"""How many tables of what traps are kept."""
_EVENT_COUNTERS: Final = (3, 3, 14)
"""op0, op1 and CRn of PMEVCNTR<n>_EL0 and PMEVTYPER<n>_EL0, where CRm is 8 or more."""


@dataclass(slots=True)
class ControlsState:
    """What is saved of the controls. All else follows from registers."""

    waits: bool = False
    """Whether a WFE makes the PE wait, so that other PEs run."""


class Controls(Stateful[ControlsState]):
    """Keeps one PE's hooks in step with its registers."""

    DERIVED = (
        "_traps",
        "_trapping",
        "_meaning",
        "_redirects",
        "offsets",
        "_events",
        "_awaits",
        "_judges",
        "mends",
        "_relevant",
        "_asked",
    )
    WIRING = ("watches_order",)

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self._state = cpu.hooks.state
        self._meanings = Meanings(cpu)
        self._meaning = self._meanings.now()
        self._traps: dict[tuple[Meaning, bool, bool], Traps] = {}
        """What traps, by the meaning of the registers and two more conditions."""
        self._sets = ControlSets(cpu)
        self._redirects: bool | None = False
        self._asked: frozenset[Encoding] = frozenset()
        """The _EL12 names that Python answers at EL2."""
        self.offsets = 0, 0
        """What is subtracted from the virtual and the physical count of EL1, in ticks."""
        self.watches_order = False
        """Whether a :class:`Watcher` has to see barriers and changes of translation."""
        self.s = ControlsState()
        self._events = False
        self.mends = False
        """Whether blocks are looked out for that hold an operation which the engine executes
        wrongly, or the core lacks: since the first one was found."""
        self._awaits = False
        self._judges = False
        """Whether store-exclusives are looked at one by one."""
        self._relevant = 0
        """The marks that are relevant by the registers. ``State.relevant`` may hold more until
        :meth:`relax`."""
        self.checks = Checks(cpu)
        cpu.hooks.state.sve = Feature.FEAT_SVE in cpu.features
        self.levels = Levels(cpu, self.checks)
        self.changed()

    def watch_order(self) -> None:
        """From now on stop after changes of translation: a watcher has to see them in order."""
        self.watches_order = True
        self._cpu.steering.notice_translation()
        self.changed()

    def _derive(self) -> None:
        self._redirects = None
        self._sets.forget()
        self.changed()

    @property
    def waits_for_events(self) -> bool:
        """Whether a WFE makes the PE wait, so that other PEs run."""
        return self.s.waits

    @waits_for_events.setter
    def waits_for_events(self, waits: bool) -> None:
        if waits != self.s.waits:
            self.s.waits = waits
            self.changed()

    @property
    def traps_wfe(self) -> bool:
        """Whether EL2 or EL3 traps a WFE at EL1 or EL2 that would wait."""
        return self._meaning.waits_trap and self._cpu.whole

    def changed(self) -> None:
        """Work all of it out anew: a register that it depends on may have been written."""
        cpu = self._cpu
        file = cpu.registers
        # no set of controls holds until the next run selects one
        self._sets.begin_anew()
        # bits of the engine's registers that its core must not have
        if cpu.whole and Feature.FEAT_SVE not in cpu.features:
            _keep_sve_from(cpu)
        if cpu.whole and CPTR_EL2 in file and el_is_in_host(cpu, EL2):
            _keep_reserved_bits_from(cpu)
        if cpu.longest_vector is not None:
            cpu.longest_vector.limit()
        # what the registers mean, and what traps by that
        meaning = self._meanings.now()
        self._meaning = meaning
        self.checks.changed()
        trapped = self._trap()
        inline = cpu.hooks.inline
        if trapped and cpu.hooks.blocks.mark_traps(trapped) and inline is not None:
            inline.give_up()
        # the marks of blocks that matter; a new one makes the hooks look at all blocks again
        relevant = MARK_RETURN | MARK_SYNC | (MARK_FP if True in meaning.fp_traps else 0)
        if True in meaning.sve_traps:
            relevant |= MARK_SVE
        if self.watches_order:
            relevant |= MARK_ORDER | MARK_FENCE
        if trapped:
            relevant |= MARK_TRAP
        self._events = self.s.waits or self.traps_wfe
        if self._events:
            relevant |= MARK_EVENT
        self._judges = cpu.judges_stores
        if self._judges:
            relevant |= MARK_EXCLUSIVE
        self._awaits = cpu.awaits
        if self._awaits:
            relevant |= MARK_WHOLE
        if self.mends:
            relevant |= MARK_MEND
        self._relevant = relevant
        if relevant & ~self._state.relevant:
            self._state.relevant |= relevant
            cpu.hooks.blocks.forget_harmless()
            if inline is not None:
                inline.never(int(self._state.relevant))
        # the counters of time
        offset = virtual_count_offset(cpu)
        cpu.hooks.accesses.set_cell(sysregs.CNTVCT_EL0, offset)
        physical_offset = physical_count_offset(cpu)
        cpu.hooks.accesses.set_cell(sysregs.CNTPCT_EL0, physical_offset)
        self.offsets = offset, physical_offset
        self._answer_count(sysregs.CNTPCT_EL0, asked=bool(physical_offset))
        # what the hooks read: names of EL1 that mean EL2, controls, returns, and marks by level
        self._redirect(host=meaning.host)
        set_controls(
            self._state,
            meaning.counters,
            meaning.timers_at,
            meaning.engine_identity,
            meaning.legal_returns,
            meaning.zeroes_at,
            meaning.tlbi_at,
        )
        cpu.entries.update_returns()
        self.levels.changed(meaning, tuple(map(self._marks_at, range(4))))

    def _trap(self) -> frozenset[int]:
        """Tell the hooks what traps now. Return all of it, by the numbers of ``trap_id``."""
        key = self._meaning, self.checks.debug.steps_itself, self._cpu.monitors is not None
        found = self._traps.get(key)
        if found is None:
            if len(self._traps) >= _KNOWN_TRAPS:
                self._traps.clear()
            levels = [self._traps_at(el) for el in range(4)]
            found = Traps(frozenset().union(*levels), tuple(map(bool, levels)), trap_table(levels))
            self._traps[key] = found
        self._trapping = found
        self._cpu.hooks.blocks.trap(found.table)
        return found.anywhere

    def _traps_at(self, el: int) -> frozenset[int]:
        """What the host executes at an Exception level, by the numbers of ``trap_id``."""
        meaning = self._meaning
        traps = meaning.trapped[el] | meaning.missed[el].keys()
        if self.checks.debug.steps_itself and el != EL0:
            traps |= DEBUG_MASKS
        return traps | self._counters_at_el3().keys() if el == EL3 else traps

    def work_out_write(self, work_out: Callable[[], None]) -> None:
        """Call ``work_out`` for a write that has stopped the engine, and learn where it led."""
        engine = self._cpu.engine
        stores = engine.system_stores
        self._sets.noticed()
        work_out()
        self._sets.worked_out(unchanged=engine.system_stores == stores)

    def offer(self, request: RunRequest, enabled_at: Sequence[bool], *, watched: bool) -> None:
        """Tell a run of the engine what to look out for, as :meth:`Levels.watch` works it out.

        Compiled code may go over to known sets of controls in it, if there is one that holds.
        """
        cpu = self._cpu
        if cpu.judges_stores is not self._judges or cpu.awaits is not self._awaits:
            self.changed()
        self.check_new_code(request.pc)
        request.seeks = self._seeks
        request.watch, request.entries = self.levels.watch(enabled_at, watched=watched)
        worth = self._sets.worth()
        around = self._around(enabled_at, collects=request.collects) if worth else None
        if around is None:
            self._sets.deselect()
            return
        meaning, traps, mdscr = self._meaning, self._trapping, self._cpu.registers.raw(MDSCR_EL1)
        now = ControlSet(meaning, traps, self._events, self._relevant, mdscr, around)
        request.control_set = self._sets.select(now)

    @property
    def _seeks(self) -> bool:
        """Whether new code is still to be searched for such an operation."""
        return not self.mends and (self._cpu.whole or self._state.absent != 0)

    def check_new_code(self, pc: int) -> None:
        """See whether the engine is to execute what it must not, if it goes on at ``pc``.

        A hook says so of each block that the engine has translated, but for its first ones
        (``NativeHooks.notice_new_code``). Until then each run of the engine ends at an exception.
        """
        if not self._seeks:
            return
        new_code = int(self._state.new_code)
        if new_code & MEND_FOUND or (not new_code & CODE_TOLD and self._first_is_wrong(pc)):
            self.mends = True
            self.changed()

    def _first_is_wrong(self, pc: int) -> bool:
        """Whether the block at ``pc`` has an operation that the engine must not execute.

        So it may if it cannot be read: another block is then the first.
        """
        code = self._cpu.virtual.code(pc, (_PAGE - pc % _PAGE) // 4)
        if code is None:
            return True
        for word in code:
            if executes_wrongly(word) or self._is_absent(word):
                return True
            if decode(word).family is Family.BRANCH:
                break
        return False

    def withhold(self, absent: int) -> None:
        """Have instructions be UNDEFINED that need a feature of ``absent``, a bit each."""
        self._state.absent = absent

    def _is_absent(self, word: int) -> bool:
        return is_absent(TABLE, self._state.absent, word)

    @property
    def has_no_sets(self) -> bool:
        """Whether runs have no set of controls, before one is written."""
        return self._sets.resting

    def _around(self, enabled_at: Sequence[bool], *, collects: bool) -> Hashable:
        """What decides beside the controls; None where they decide about more than the hooks."""
        cpu, state, checks = self._cpu, self._state, self.checks
        counts = cpu.tally or any(cpu.counted_at)
        if counts or collects or state.followed or self.watches_order:
            return None
        if state.deliver_irq < 0:  # more counts than IRQ and FIQ, such as virtual interrupts
            return None
        if cpu.secure_memory is not None and cpu.secure_memory.open:
            return None
        if True in enabled_at or checks.active or others_decide(cpu):
            return None
        quiet = () if cpu.monitors is None else cpu.monitors.quiet
        if quiet is None:
            return None
        decides = int(state.class_pairs), int(state.observed), self.offsets, self.s.waits
        names = self._meaning.host, self._meaning.asked_el12
        return *decides, *names, locked(cpu), quiet, profiling_asks(cpu)

    def take_over_set(self) -> None:
        """Take over the controls that hold now, as compiled code may have gone over to others."""
        held = self._sets.moved()
        if held is None:
            return
        self._meaning, self._trapping = held.meaning, held.traps
        self._events, self._relevant = held.events, held.relevant
        self.checks.debug.take_over(held.mdscr)
        self._cpu.hooks.blocks.trap(held.traps.table)
        self.levels.changed(held.meaning, tuple(map(self._marks_at, range(4))))

    def relax(self) -> None:
        """A slice has ended: forget marks that are no longer relevant.

        They are kept until then because a hypervisor and its guests take turns, and each change
        makes the hooks look at all blocks anew.
        """
        if self._state.relevant != self._relevant:
            self._state.relevant = self._relevant
            self._cpu.hooks.blocks.forget_harmless()
            inline = self._cpu.hooks.inline
            if inline is not None:
                inline.allow(self._relevant)

    @property
    def calls_trapped(self) -> tuple[bool, ...]:
        """By Exception level, whether SVC goes to EL2 by a fine-grained trap."""
        return self._meaning.calls_trapped

    def _answer_count(self, counter: Encoding, *, asked: bool) -> None:
        """Have Python answer reads of a counter if ``asked``, else the compiled hook."""
        accesses = self._cpu.hooks.accesses
        if accesses.action(counter, READ) in (Action.ASK, Action.COUNT):
            accesses.change(Action.ASK if asked else Action.COUNT, counter, READ)

    def is_host_operation(self, instruction: Instruction) -> bool:
        """Whether an operation is not for the engine, at the PE's Exception level."""
        if instruction.word == ERET and self._state.suspect >> self._cpu.el & 1:
            return True
        if self._events and instruction.word in EVENT_HINTS:
            return True
        if self.checks.debug.steps_itself and masks_debug(instruction.word) and self._cpu.el:
            return True
        return self.trap(instruction) is not None

    def _counters_at_el3(self) -> dict[int, tuple[Accessor, bool]]:
        """The accesses to counters about which has to be asked at EL3."""
        cpu = self._cpu
        return {} if cpu.monitors is None else asked_at_el3(cpu.monitors.implemented, cpu.features)

    def _is_missing_counter(self, number: int) -> bool:
        """Whether ``number``, by ``trap_id``, is of an event counter that the PE does not have."""
        encoding = Encoding.from_key(number & _KEY)
        if (encoding.op0, encoding.op1, encoding.crn) != _EVENT_COUNTERS or encoding.crm < 8:
            return False
        counter = encoding.crm % 4 * 8 + encoding.op2  # 31 is the cycle counter's filter
        monitors = self._cpu.monitors
        return monitors is not None and monitors.implemented <= counter < MOST_COUNTERS

    def trap(self, instruction: Instruction) -> Routed | None:
        """The exception of an operation that is not for the engine, at the PE's Exception level."""
        cpu = self._cpu
        word = instruction.word
        if translation_fails(word) or (cpu.whole and is_unallocated(word)) or self._is_absent(word):
            return Routed(default_target(cpu), UNDEFINED)
        meaning = self._meaning
        if cpu.el == EL3:
            asked = self._counters_at_el3().get(trap_id(instruction.word))
            if asked is not None and isinstance(access(cpu, *asked), Undefined):
                return Routed(EL3, UNDEFINED)
        if meaning.trapped_anywhere:
            number = trap_id(instruction.word)
            if number in meaning.trapped[cpu.el] and not self._is_missing_counter(number):
                return Routed(EL2, syndrome_of(instruction.word))
            missed = meaning.missed[cpu.el].get(number)
            if missed is not None:
                return _with_rt(missed, instruction.word & 31)
        if instruction.mark is Mark.PSB_CSYNC:
            verdict = psb_csync(cpu)
            return None if verdict is None else Routed(verdict.target_el, PSB_CSYNC_TRAP)
        marks = marks_of(instruction.word)
        if marks & MARK_SVE and meaning.sve_traps[cpu.el]:
            if Feature.FEAT_SVE not in cpu.features:
                return Routed(default_target(cpu), UNDEFINED)
            return sve_access_trap(cpu)
        return fp_access_trap(cpu) if marks & MARK_FP else None

    def _marks_at(self, el: int) -> int:
        """The marks of blocks that the engine must not execute by itself at an Exception level."""
        meaning = self._meaning
        marks = MARK_FP if meaning.fp_traps[el] else 0
        if meaning.psb_traps[el]:
            marks |= MARK_SYNC
        if meaning.sve_traps[el]:
            marks |= MARK_SVE
        if self._trapping.at[el]:
            marks |= MARK_TRAP
        if self._judges:
            marks |= MARK_EXCLUSIVE
        if self._awaits:
            marks |= MARK_WHOLE
        if self.mends:
            marks |= MARK_MEND
        return marks | (MARK_EVENT if self._events else 0)

    def _redirect(self, *, host: bool) -> None:
        """Have EL1 names mean registers of EL2 at EL2 to a host, and _EL12 names those of EL1."""
        asked = self._meaning.asked_el12
        if host == self._redirects:
            self._answer_el12(host=host, names=self._asked ^ asked)
            return
        self._redirects = host
        accesses = self._cpu.hooks.accesses
        for encoding, at_el2 in REDIRECTED.items():
            accesses.alias(encoding, at_el2)
            for kind in (READ, WRITE):
                normal = self._normal(encoding, kind)
                accesses.change(_ALIASES[normal] if host else normal, encoding, kind)
        self._answer_el12(host=host, names=EL12_NAMES)

    def _normal(self, encoding: Encoding, kind: int) -> Action:
        """The action for a register of EL1, by its own name at EL1."""
        normal = sysregs.normal_action(encoding, kind)
        return Action.REGIME if self.watches_order and normal is Action.TRANSLATION else normal

    def _answer_el12(self, *, host: bool, names: Iterable[Encoding]) -> None:
        """Have compiled code answer those of ``names`` that exist and do not trap."""
        self._asked = self._meaning.asked_el12
        for name in names:
            ours = not host or name in self._asked
            for kind in (READ, WRITE):
                action = Action.STOP if ours else _BY_EL12[self._normal(EL12_NAMES[name], kind)]
                self._cpu.hooks.accesses.change(action, name, kind)


def _keep_reserved_bits_from(cpu: UnicornCPU) -> None:
    """Clear CPTR_EL2.TZ and TFP in the engine, which uses them even with HCR_EL2.E2H."""
    cptr = cpu.registers.raw(CPTR_EL2)
    if cptr & _TZ_TFP:
        cpu.registers.set_raw(CPTR_EL2, cptr & ~_TZ_TFP)


def _keep_sve_from(cpu: UnicornCPU) -> None:
    """Have the engine trap all of SVE, which it has and the core has not, nor CPTR_EL3.EZ."""
    cptr = cpu.engine.system(CPTR_EL3.encoding)
    if cptr & CPTR_EL3.EZ.mask:
        if CPTR_EL3 in cpu.registers:
            cpu.registers.set_raw(CPTR_EL3, cptr & ~CPTR_EL3.EZ.mask)
        else:
            cpu.engine.set_system(CPTR_EL3.encoding, cptr & ~CPTR_EL3.EZ.mask)


def _with_rt(routed: Routed, rt: int) -> Routed:
    """A trapped access with the register that it reads or writes."""
    syndrome = routed.syndrome
    if syndrome.ec != EC.SystemRegisterTrap:
        return routed
    return Routed(routed.target_el, syndrome._replace(iss=syndrome.iss | rt << 5))


def _same_place(crn: int, crm: int, op2: int) -> tuple[Encoding, Encoding]:
    encoding = Encoding(3, 0, crn, crm, op2)
    return encoding, _at_el2(encoding)


def _at_el2(encoding: Encoding) -> Encoding:
    """The encoding of EL2 at the same place as one of EL1."""
    return Encoding(3, 4, encoding.crn, encoding.crm, encoding.op2)


def _el12(encoding: Encoding) -> Encoding:
    """The _EL12 name of a register of EL1."""
    return Encoding(3, 5, encoding.crn, encoding.crm, encoding.op2)


_ALIASES: Final = {
    Action.ENGINE: Action.ALIAS,
    Action.TRANSLATION: Action.ALIAS_TRANSLATION,
    Action.NOTICE: Action.ALIAS_NOTICE,
    Action.REGIME: Action.ALIAS_REGIME,
    Action.RETURN: Action.ALIAS_RETURN,
    Action.RECORDS: Action.ALIAS_RECORDS,
}
"""The action for an EL1 name that a host has at EL2, by that of the EL1 name elsewhere."""
_BY_EL12: Final = {
    Action.ENGINE: Action.EL12,
    Action.TRANSLATION: Action.EL12_TRANSLATION,
    Action.NOTICE: Action.EL12_NOTICE,
    Action.REGIME: Action.EL12_REGIME,
    Action.RETURN: Action.EL12_RETURN,
    Action.RECORDS: Action.EL12_RECORDS,
}
"""The action for an _EL12 name, by that of the EL1 name."""
REDIRECTED: Final[dict[Encoding, Encoding]] = dict(
    (
        _same_place(1, 0, 0),  # SCTLR
        (Encoding(3, 0, 1, 0, 2), Encoding(3, 4, 1, 1, 2)),  # CPACR_EL1, CPTR_EL2
        _same_place(1, 2, 0),  # ZCR
        _same_place(2, 0, 0),  # TTBR0
        _same_place(2, 0, 1),  # TTBR1
        _same_place(2, 0, 2),  # TCR
        _same_place(4, 0, 0),  # SPSR
        _same_place(4, 0, 1),  # ELR
        _same_place(5, 1, 0),  # AFSR0
        _same_place(5, 1, 1),  # AFSR1
        _same_place(5, 2, 0),  # ESR
        _same_place(6, 0, 0),  # FAR
        _same_place(10, 2, 0),  # MAIR
        _same_place(10, 3, 0),  # AMAIR
        _same_place(12, 0, 0),  # VBAR
        _same_place(13, 0, 1),  # CONTEXTIDR
        _same_place(14, 1, 0),  # CNTKCTL, CNTHCTL
    )
)
"""EL1 names and the EL2 registers that they mean at EL2 with HCR_EL2.E2H (Arm ARM D24.1.3)."""


def answer_el12_names(hooks: NativeHooks) -> None:
    """Have the host answer the _EL12 names: the engine has none of them."""
    for name in EL12_NAMES:
        hooks.accesses.act(Action.STOP, name, READ, WRITE)


EL12_NAMES: Final[dict[Encoding, Encoding]] = {_el12(el1): el1 for el1 in REDIRECTED}
"""The _EL12 names by which an OS at EL2 reaches those registers of EL1."""
