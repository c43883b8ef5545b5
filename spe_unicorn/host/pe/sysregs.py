"""Which System registers the host keeps, which the engine keeps, and what hooks do at accesses.

Four kinds of register:

* those that the engine lacks (SPE, fine-grained traps): the access stops the engine and the rules
  of ``arch.access.verdicts`` answer it;
* identification registers: the engine has them, but what they show is the core's: constants in
  the compiled hook;
* the counters: answered in the compiled hook from the number of executed operations;
* all others: the engine executes their accesses, and a rule that asks reads the engine's value.
  Values that steer translation or SPE are cached until a register of that kind is written.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Final

from spe_unicorn.arch.access.kernel import ZCR_EL1, ZCR_EL2, ZCR_EL3
from spe_unicorn.arch.counter import FREQUENCY
from spe_unicorn.arch.features import Feature, ImpDef
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers import banked, system
from spe_unicorn.arch.registers.id import ID_AA64PFR0_EL1, ID_REGISTERS
from spe_unicorn.arch.registers.identity import MIDR_EL1, MPIDR_EL1, SHOWN_TO_EL1
from spe_unicorn.arch.registers.known import REGISTERS
from spe_unicorn.arch.registers.roles import Affects, Owner
from spe_unicorn.arch.registers.sysreg import Encoding, ReadOnlyCell, RegisterFile, SysReg
from spe_unicorn.arch.rules.identification import id_register
from spe_unicorn.host.engine.engine import Engine, SystemRegisters
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.state.actions import READ, SYSTEM, WRITE, Action
from spe_unicorn.host.native.state.ledger import begin_epoch, register_written

CNTFRQ_EL0: Final = Encoding(3, 3, 14, 0, 0)
CNTPCT_EL0: Final = Encoding(3, 3, 14, 0, 1)
CNTVCT_EL0: Final = Encoding(3, 3, 14, 0, 2)

_LEN: Final = 0xF
"""ZCR_ELx.LEN."""
_GRANULE: Final = 128
"""Bits of a vector where LEN is 0, and that each 1 more of LEN adds."""
_ALWAYS_KEPT: Final = 0x0F
"""Bits of each split register that the engine keeps as written: VM, NS and the like."""
_MATTERS: Final[dict[type[SysReg], int]] = {system.CPACR_EL1: system.CPACR_EL1.FPEN.mask}
"""Of a register that changes often, the bits whose change has to be seen."""


def write_action(register: type[SysReg]) -> Action:
    """What the hooks do at a write of a register that the engine has, by what it affects."""
    affects = register.affects
    if affects & Affects.TRANSLATION:
        decides_more = affects & (Affects.TRAPS | Affects.CHECKS | Affects.PROFILING)
        return Action.REGIME if decides_more else Action.TRANSLATION
    if affects & (Affects.TRAPS | Affects.PROFILING):
        return Action.NOTICE
    if affects & Affects.RECORDS:
        return Action.RECORDS
    return Action.RETURN if affects & Affects.RETURNS else Action.ENGINE


_CHECKED_BY: Final = frozenset(banked.TCR.values())
"""Registers that decide which tags are checked, where they are checked at all (FEAT_MTE2)."""
_WRITE_ACTIONS: Final = {
    register.encoding: write_action(register)
    for register in REGISTERS
    if register.owner is not Owner.HOST
}
_RETURN_STATE: Final = tuple(r for r in REGISTERS if r.affects & Affects.RETURNS)
"""What an ERET makes of PSTATE."""


class EngineCell:
    """A register value that lives in the engine."""

    __slots__ = ("_encoding", "_engine")

    def __init__(self, engine: Engine, encoding: Encoding) -> None:
        self._engine = engine
        self._encoding = encoding

    def get(self) -> int:
        """The raw 64-bit value."""
        return self._engine.system(self._encoding)

    def set(self, value: int) -> None:
        """Store the raw 64-bit value."""
        self._engine.set_system(self._encoding, value)


class SteeringCell(EngineCell):
    """An engine register whose writes the hooks count, so that its value is cached between them."""

    DERIVED: ClassVar[tuple[str, ...]] = ("_value", "_writes")
    __slots__ = ("_hooks", "_state", "_value", "_writes")

    def __init__(self, engine: Engine, encoding: Encoding, hooks: NativeHooks) -> None:
        super().__init__(engine, encoding)
        self._hooks = hooks
        self._state = hooks.state
        self._writes = -1
        self._value = 0

    def get(self) -> int:
        """The raw 64-bit value."""
        if self._writes != self._state.writes:
            self.take(super().get())
        return self._value

    def take(self, theirs: int) -> None:
        """The engine holds ``theirs`` now."""
        self._value = theirs
        self._writes = self._state.writes

    def set(self, value: int) -> None:
        """Store the raw 64-bit value, and forget translations that it may have changed."""
        super().set(value)
        self._hooks.accesses.set_cell(self._encoding, value)
        register_written(self._state)
        begin_epoch(self._state)


class SplitCell(SteeringCell):
    """A steering register of which the engine keeps some fields and drops others.

    The ``dropped`` fields have the value that was written last, if the engine kept the rest of that
    write. The engine never has the ``withheld`` fields, since the host does what they ask for and
    the engine would do it again. It never has the ``absent`` fields because the core does not have
    them. Only this class and the hook for MSR write the register in the engine.
    """

    DERIVED = ("_kept",)  # of what was written, which the register file saves
    __slots__ = ("_absent", "_dropped", "_kept", "_withheld")

    def __init__(
        self,
        engine: Engine,
        encoding: Encoding,
        hooks: NativeHooks,
        dropped: int,
        withheld: int,
        absent: int = 0,
    ) -> None:
        super().__init__(engine, encoding, hooks)
        self._dropped = dropped | withheld | absent
        self._withheld = withheld | absent
        self._absent = absent
        self._kept = 0
        hooks.accesses.withhold(encoding, self._withheld)

    def set(self, value: int) -> None:
        """Store the raw 64-bit value, of which the engine gets what is its own."""
        super().set(value & ~self._withheld)
        self._hooks.accesses.set_cell(self._encoding, value)

    def take(self, theirs: int) -> None:
        """The engine holds ``theirs`` now."""
        written = self._hooks.accesses.cell(self._encoding)
        if not (written ^ theirs) & _ALWAYS_KEPT:
            self._kept = written & self._dropped & ~self._absent
        if theirs & self._withheld:
            EngineCell.set(self, theirs & ~self._withheld)
        super().take(theirs & ~self._dropped | self._kept)


class Steering:
    """The cells with which the hooks compare writes; a write that trapped is taken back in them."""

    DERIVED = ("_batch", "_keys")
    WIRING = ("translation",)

    def __init__(self, hooks: NativeHooks) -> None:
        self._hooks = hooks
        self._cells: list[tuple[Encoding, SteeringCell]] = []
        self._batch: SystemRegisters | None = None
        """Those registers, to be read at once."""
        self._keys: list[int] = []
        """``Encoding.key`` of each."""
        self.translation: list[tuple[Encoding, SteeringCell]] = []
        """Those that steer translation, whose writes need not be known at once."""

    def notice_translation(self) -> None:
        """Have the engine stop after writes that change a register which steers translation."""
        for encoding, cell in self.translation:
            self.add(encoding, cell)
            self._hooks.accesses.act(Action.REGIME, encoding, WRITE, cell=cell.get())
        self.translation = []

    def add(self, encoding: Encoding, cell: SteeringCell) -> SteeringCell:
        """Keep the cell of a register in step with the engine."""
        self._cells.append((encoding, cell))
        self._batch = None
        return cell

    def resync_cells(self) -> None:
        """Read all steering registers again: one was written, or a write to one trapped."""
        if self._batch is None:
            encodings = [encoding for encoding, _ in self._cells]
            self._batch = SystemRegisters(self._hooks.engine, encodings)
            self._keys = [encoding.key for encoding in encodings]
        accesses = self._hooks.accesses
        for key, (_, cell), theirs in zip(self._keys, self._cells, self._batch.read(), strict=True):
            cell.take(theirs)
            accesses.set_cell_at(key, cell.get())


class LongestVector(SteeringCell):
    """ZCR_EL3, whose LEN is never more than the core's longest vector.

    It limits the vectors of all Exception levels. The engine has 2048 bits, and takes each LEN.
    """

    __slots__ = ("_most",)

    def __init__(self, engine: Engine, hooks: NativeHooks, bits: int) -> None:
        super().__init__(engine, ZCR_EL3.encoding, hooks)
        self._most = bits // _GRANULE - 1

    def begin(self, el: int) -> None:
        """Reset ZCR_ELx. Software above ``el`` has allowed the lower levels all that there is."""
        for level, register in ((EL1, ZCR_EL1), (EL2, ZCR_EL2)):
            self._engine.set_system(register.encoding, self._most if el < level else 0)
        self.set(self._most if el < EL3 else 0)

    def limit(self) -> None:
        """Legalize what the guest has written."""
        if self.get() & _LEN > self._most:
            self.set(self._most)


def install(
    registers: RegisterFile,
    engine: Engine,
    hooks: NativeHooks,
    answer: Action,
    ours: Collection[type[SysReg]],
) -> Steering:
    """Give each register its cell, and each of its accesses its action.

    ``answer`` is the action for registers that the engine lacks. The host keeps the values of
    ``ours``, although the engine has these registers: a write by the guest changes nothing here.
    """
    steering = Steering(hooks)
    # each register of the core: kept by the host, by the engine, or by both
    for register in list(registers):
        encoding = register.encoding
        if register.owner is Owner.HOST:
            hooks.accesses.act(answer, encoding, READ, WRITE)
        elif register not in ours:
            action = write_action(register)
            if register in _CHECKED_BY and Feature.FEAT_MTE2 in registers.features:
                action = Action.REGIME
            if action in (Action.ENGINE, Action.RETURN):
                if not register.read_only:
                    registers.add(register, EngineCell(engine, encoding))
                continue
            cell = SteeringCell(engine, encoding, hooks)
            if register.owner is Owner.SPLIT:
                whole = answer is Action.STOP
                withheld = register.withheld if whole else 0
                host = system.HCR_EL2.E2H
                lacks = whole and register is system.HCR_EL2 and not host.exists(registers.features)
                absent = host.mask if lacks else 0
                kept = register.kept & registers.writable(register)
                cell = SplitCell(engine, encoding, hooks, kept, withheld, absent)
                if answer is Action.STOP:
                    hooks.accesses.act(Action.ASK, encoding, READ)
            registers.add(register, cell)
            # a write steers translation or the hooks, so each has to be seen
            if action is Action.TRANSLATION:
                steering.translation.append((encoding, cell))
            else:
                steering.add(encoding, cell)
            hooks.accesses.act(action, encoding, WRITE)
            if register in _MATTERS:
                hooks.accesses.stop_for(encoding, _MATTERS[register])
    if answer is Action.STOP and system.HCR_EL2 not in registers:
        # the engine has EL2 on each core, and EL3 reaches its registers
        hcr = system.HCR_EL2.encoding
        hooks.accesses.act(Action.NOTICE, hcr, WRITE)
        hooks.accesses.stop_for(hcr, 0)
        hooks.accesses.withhold(hcr, system.HCR_EL2.withheld)
    # encodings that are no register's own: second names, and maintenance
    for accessor in _SECOND_ACCESSORS:
        hooks.accesses.act(answer, accessor, READ, WRITE)
    for encoding in _TRANSLATION_MAINTENANCE:
        hooks.accesses.act(Action.TRANSLATION, encoding, SYSTEM)
    for encoding in _CODE_MAINTENANCE:
        hooks.accesses.act(Action.CODE, encoding, SYSTEM)
    return steering


def limit_vectors(
    steering: Steering, engine: Engine, hooks: NativeHooks, bits: int
) -> LongestVector:
    """Have vectors be no longer than ``bits``, at whatever Exception level."""
    cell = LongestVector(engine, hooks, bits)
    steering.add(ZCR_EL3.encoding, cell)
    hooks.accesses.act(Action.NOTICE, ZCR_EL3.encoding, WRITE)
    hooks.accesses.stop_for(ZCR_EL3.encoding, _LEN)
    return cell


def normal_action(encoding: Encoding, kind: int) -> Action:
    """The action for an encoding that the engine has, while no EL1 name is redirected."""
    return _WRITE_ACTIONS.get(encoding, Action.ENGINE) if kind == WRITE else Action.ENGINE


def show_identity(engine: Engine, hooks: NativeHooks) -> None:
    """Set VPIDR_EL2 and VMPIDR_EL2, which EL1 reads as its identity, to the PE's own values."""
    for register, shown in SHOWN_TO_EL1.items():
        if hooks.accesses.action(register.encoding, READ) is Action.CELL:
            engine.set_system(shown.encoding, hooks.accesses.cell(register.encoding))


def set_identity(hooks: NativeHooks, midr: int, affinity: int) -> None:
    """Choose a PE's own identity; ``affinity`` is Aff3 to Aff0 in the places of MPIDR_EL1."""
    own = {MIDR_EL1: midr, MPIDR_EL1: MPIDR_EL1.RES1_31.mask | affinity}
    for register, value in own.items():
        hooks.accesses.act(Action.CELL, register.encoding, READ, cell=value)


def check_returns(hooks: NativeHooks) -> None:
    """Have writes to SPSR_ELx looked at: the engine executes returns that are illegal."""
    for register in _RETURN_STATE:
        hooks.accesses.act(Action.RETURN, register.encoding, WRITE)


def keep_time(hooks: NativeHooks) -> None:
    """Answer the counters with guest time, derived from executed operations."""
    hooks.accesses.act(Action.CELL, CNTFRQ_EL0, READ, cell=FREQUENCY)
    hooks.accesses.act(Action.COUNT, CNTPCT_EL0, READ)
    hooks.accesses.act(Action.COUNT, CNTVCT_EL0, READ)


def identify(registers: RegisterFile, engine: Engine, hooks: NativeHooks, impdef: ImpDef) -> None:
    """Work out the identification registers, and have the hooks answer their reads."""
    for register in ID_REGISTERS:
        theirs = engine.system(register.encoding)
        value = id_register(register, theirs, registers.features, impdef)
        registers.add(register, _constant(value))
        hooks.accesses.act(Action.CELL, register.encoding, READ, cell=value)


def show_gic(registers: RegisterFile, hooks: NativeHooks) -> None:
    """Tell guests that the GIC's CPU interface has System registers."""
    value = registers.read(ID_AA64PFR0_EL1).replace(GIC=1).value
    registers.add(ID_AA64PFR0_EL1, _constant(value))
    hooks.accesses.set_cell(ID_AA64PFR0_EL1.encoding, value)


def _constant(value: int) -> ReadOnlyCell:
    return ReadOnlyCell(lambda: value)


_SECOND_ACCESSORS: Final = (Encoding(3, 5, 9, 9, 0), Encoding(3, 5, 9, 10, 3))
"""PMSCR_EL12 and PMBSR_EL12."""
_TRANSLATION_MAINTENANCE: Final = tuple(
    Encoding(1, op1, crn, crm, op2)
    for op1 in (0, 4, 6)
    for crn in (8, 9)
    for crm in range(16)
    for op2 in range(8)
)
"""TLBI, and those with nXS."""
DC_ZVA: Final = Encoding(1, 3, 7, 4, 1)
IC_IVAU: Final = Encoding(1, 3, 7, 5, 1)
_CODE_MAINTENANCE: Final = (
    Encoding(1, 0, 7, 1, 0),  # IC IALLUIS
    Encoding(1, 0, 7, 5, 0),  # IC IALLU
    IC_IVAU,
)
