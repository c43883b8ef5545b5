"""Which System registers are ours, which the engine's, and what the hooks do at each access.

Four kinds of register:

* those that the engine lacks (SPE, fine-grained traps): the access stops the engine and the rules
  of ``arch.access.verdicts`` answer it;
* identification registers: the engine has them, but what they show is the core's: constants in
  the compiled hook;
* the counters: answered in the compiled hook from the number of executed operations;
* all others: executed by the engine, and read through when a rule asks. Those that steer
  translation or SPE are cached until one of them is written.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.registers import system as s
from spe_unicorn.arch.registers.fgt import FGT_REGISTERS
from spe_unicorn.arch.registers.id import ID_AA64PFR0_EL1, ID_REGISTERS
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import Encoding, ReadOnlyCell, RegisterFile, SysReg
from spe_unicorn.arch.rules.identification import id_register
from spe_unicorn.host.engine.engine import Engine
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.state import READ, SYSTEM, WRITE, Action

MIDR_EL1: Final = Encoding(3, 0, 0, 0, 0)
MPIDR_EL1: Final = Encoding(3, 0, 0, 0, 5)
VPIDR_EL2: Final = Encoding(3, 4, 0, 0, 0)
VMPIDR_EL2: Final = Encoding(3, 4, 0, 0, 5)
MPIDR_RES1: Final = 1 << 31
CNTFRQ_EL0: Final = Encoding(3, 3, 14, 0, 0)
CNTPCT_EL0: Final = Encoding(3, 3, 14, 0, 1)
CNTVCT_EL0: Final = Encoding(3, 3, 14, 0, 2)
COUNTER_FREQUENCY: Final = 62_500_000
"""Hz. One tick is 16 cycles of a core at 1 GHz that executes one operation a cycle."""

_ENGINE_LACKS: Final = frozenset(
    {s.VNCR_EL2, s.VSTTBR_EL2, s.VSTCR_EL2, s.CNTPOFF_EL2, s.PM, *FGT_REGISTERS, *SPE_REGISTERS}
)
_STEER_ALL: Final = frozenset({s.HCR_EL2, s.SCR_EL3})
"""What decides all of the below."""
_DROPPED: Final = {
    s.HCR_EL2: sum(1 << bit for bit in (37, 42, 43, 45, 48)),  # TEA, NV, NV1, NV2, GPF
    s.SCR_EL3: sum(1 << bit for bit in (27, 28, 59, 62)),  # FGTEn, ECVEn, FGTEn2, NSE
}
"""The fields of them that the engine does not keep."""
_TAKEN: Final = {s.HCR_EL2: s.HCR_EL2.VI.mask | s.HCR_EL2.VF.mask, s.SCR_EL3: 0}
"""The fields that it must not have where we do their work: it does not wait at a WFI with them,
whatever they mean at the PE's Exception level."""
_ALWAYS_KEPT: Final = 0x0F
"""Bits of both that the engine keeps as written: VM, NS and the like."""
_STEER_SPE: Final = frozenset({s.MDCR_EL2, s.MDCR_EL3})
"""What decides whether SPE is enabled."""
_STEER_RECORDS: Final = frozenset({s.CONTEXTIDR_EL1, s.CONTEXTIDR_EL2})
"""What is written into records, and decides nothing."""
_STEER_HOOKS: Final = frozenset(
    {
        *(s.CPACR_EL1, s.CPTR_EL2, s.CPTR_EL3),
        *(s.CNTKCTL_EL1, s.CNTHCTL_EL2, s.CNTVOFF_EL2),
    }
)
"""What decides which FP operations and counter reads trap, and what the counters show."""
_STEER_CHECKS: Final = frozenset({s.SCTLR_EL1, s.SCTLR_EL2, s.SCTLR_EL3})
"""What decides which alignment checks there are, and translation."""
_STEER_TRANSLATION: Final = frozenset(
    {
        *(s.TCR_EL1, s.TTBR0_EL1, s.TTBR1_EL1, s.MAIR_EL1),
        *(s.TCR_EL2, s.TTBR0_EL2, s.TTBR1_EL2, s.MAIR_EL2, s.VTCR_EL2, s.VTTBR_EL2),
        *(s.TCR_EL3, s.TTBR0_EL3, s.MAIR_EL3),
    }
)


_RETURN_STATE: Final = frozenset({s.SPSR_EL1, s.SPSR_EL2, s.SPSR_EL3})
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
    """An engine register whose writes the hooks count, so that it can be cached between two."""

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
            self._value = super().get()
            self._writes = self._state.writes
        return self._value

    def set(self, value: int) -> None:
        """Store the raw 64-bit value, and forget translations that it may have changed."""
        super().set(value)
        self._hooks.set_cell(self._encoding, value)
        self._state.writes += 1
        self._state.epoch += 1


class SplitCell(SteeringCell):
    """A steering register of which the engine keeps some fields and drops others.

    The dropped ones are what was written last, if the engine kept the rest of it. The ``taken``
    ones are taken away from it.
    """

    __slots__ = ("_dropped", "_kept", "_taken")

    def __init__(
        self, engine: Engine, encoding: Encoding, hooks: NativeHooks, dropped: int, taken: int
    ) -> None:
        super().__init__(engine, encoding, hooks)
        self._dropped = dropped | taken
        self._taken = taken
        self._kept = 0

    def get(self) -> int:
        """The raw 64-bit value."""
        if self._writes != self._state.writes:
            theirs = EngineCell.get(self)
            written = int(self._hooks.cells[self._encoding.key]) & (1 << 64) - 1
            if not (written ^ theirs) & _ALWAYS_KEPT:
                self._kept = written & self._dropped
            if theirs & self._taken:
                EngineCell.set(self, theirs & ~self._taken)
            self._value = theirs & ~self._dropped | self._kept
            self._writes = self._state.writes
        return self._value


class Steering:
    """The cells that the hooks compare writes with, kept true after a write that trapped."""

    def __init__(self, hooks: NativeHooks) -> None:
        self._hooks = hooks
        self._cells: list[tuple[Encoding, SteeringCell]] = []
        self.translation: list[tuple[Encoding, SteeringCell]] = []
        """Those that steer translation, whose writes nobody has to know of at once."""

    def notice_translation(self) -> None:
        """Have a new value of one that steers translation stop the engine behind its write."""
        for encoding, cell in self.translation:
            self.add(encoding, cell)
            self._hooks.act(Action.REGIME, encoding, WRITE, cell=cell.get())
        self.translation = []

    def add(self, encoding: Encoding, cell: SteeringCell) -> SteeringCell:
        """Look after a register."""
        self._cells.append((encoding, cell))
        return cell

    def look_again(self) -> None:
        """A steering register was written, or a write to it trapped."""
        for encoding, cell in self._cells:
            self._hooks.set_cell(encoding, cell.get())


def install(
    registers: RegisterFile,
    engine: Engine,
    hooks: NativeHooks,
    answer: Action,
    ours: Collection[type[SysReg]],
) -> Steering:
    """Give each register its cell, and each of its accesses its action.

    ``answer`` is the action for registers that the engine lacks. The cells of ``ours`` are ours
    though the engine has the registers: what the guest does to those changes nothing here.
    """
    steering = Steering(hooks)
    for register in list(registers):
        encoding = register.encoding
        if register in _ENGINE_LACKS:
            hooks.act(answer, encoding, READ, WRITE)
        elif register in ours:
            continue
        elif register in _STEER_ALL:
            taken = _TAKEN[register] if answer is Action.STOP else 0
            split = SplitCell(engine, encoding, hooks, _DROPPED[register], taken)
            registers.add(register, steering.add(encoding, split))
            hooks.act(Action.REGIME, encoding, WRITE)
            if answer is Action.STOP:
                hooks.act(Action.ASK, encoding, READ)
        elif register in _STEER_SPE or register in _STEER_HOOKS:
            cell = SteeringCell(engine, encoding, hooks)
            registers.add(register, steering.add(encoding, cell))
            hooks.act(Action.NOTICE, encoding, WRITE)
            if register is s.CPACR_EL1:
                hooks.matters[encoding.key] = s.CPACR_EL1.FPEN.mask
        elif register in _STEER_RECORDS:
            registers.add(register, steering.add(encoding, SteeringCell(engine, encoding, hooks)))
            hooks.act(Action.RECORDS, encoding, WRITE)
        elif register in _STEER_CHECKS:
            registers.add(register, steering.add(encoding, SteeringCell(engine, encoding, hooks)))
            hooks.act(Action.REGIME, encoding, WRITE)
        elif register in _STEER_TRANSLATION:
            cell = SteeringCell(engine, encoding, hooks)
            registers.add(register, cell)
            steering.translation.append((encoding, cell))
            hooks.act(Action.TRANSLATION, encoding, WRITE)
        elif not register.read_only:
            registers.add(register, EngineCell(engine, encoding))
    for accessor in _SECOND_ACCESSORS:
        hooks.act(answer, accessor, READ, WRITE)
    for encoding in _TRANSLATION_MAINTENANCE:
        hooks.act(Action.TRANSLATION, encoding, SYSTEM)
    for encoding in _CODE_MAINTENANCE:
        hooks.act(Action.CODE, encoding, SYSTEM)
    return steering


def normal_action(encoding: Encoding, kind: int) -> Action:
    """The action for an encoding that the engine has, while no EL1 name is redirected."""
    if kind == WRITE:
        for registers, action in (
            (_STEER_ALL, Action.REGIME),
            (_STEER_SPE, Action.NOTICE),
            (_STEER_RECORDS, Action.RECORDS),
            (_STEER_HOOKS, Action.NOTICE),
            (_STEER_CHECKS, Action.REGIME),
            (_STEER_TRANSLATION, Action.TRANSLATION),
            (_RETURN_STATE, Action.RETURN),
        ):
            if any(register.encoding == encoding for register in registers):
                return action
    return Action.ENGINE


def show_identity(engine: Engine, hooks: NativeHooks) -> None:
    """Have the identity that EL2 shows to EL1 be the PE's own, as firmware leaves it."""
    for register, shown in ((MIDR_EL1, VPIDR_EL2), (MPIDR_EL1, VMPIDR_EL2)):
        if hooks.actions[READ, register.key] == Action.CELL:
            engine.set_system(shown, int(hooks.cells[register.key]))


def check_returns(hooks: NativeHooks) -> None:
    """Have returns from exceptions checked that the engine does not check."""
    for register in _RETURN_STATE:
        hooks.act(Action.RETURN, register.encoding, WRITE)


def keep_time(hooks: NativeHooks) -> None:
    """Answer the counters with guest time, derived from executed operations."""
    hooks.act(Action.CELL, CNTFRQ_EL0, READ, cell=COUNTER_FREQUENCY)
    hooks.act(Action.COUNT, CNTPCT_EL0, READ)
    hooks.act(Action.COUNT, CNTVCT_EL0, READ)


def identify(registers: RegisterFile, engine: Engine, hooks: NativeHooks, impdef: ImpDef) -> None:
    """Fill in the identification registers, and let guests read them as they are then."""
    for register in ID_REGISTERS:
        theirs = engine.system(register.encoding)
        value = id_register(register, theirs, registers.features, impdef)
        registers.add(register, _constant(value))
        hooks.act(Action.CELL, register.encoding, READ, cell=value)


def show_gic(registers: RegisterFile, hooks: NativeHooks) -> None:
    """Tell guests that the GIC's CPU interface has System registers."""
    value = registers.read(ID_AA64PFR0_EL1).replace(GIC=1).value
    registers.add(ID_AA64PFR0_EL1, _constant(value))
    hooks.set_cell(ID_AA64PFR0_EL1.encoding, value)


def _constant(value: int) -> ReadOnlyCell:
    return ReadOnlyCell(lambda: value)


_SECOND_ACCESSORS: Final = (Encoding(3, 5, 9, 9, 0), Encoding(3, 5, 9, 10, 3))
"""PMSCR_EL12 and PMBSR_EL12."""
_TRANSLATION_MAINTENANCE: Final = tuple(
    Encoding(1, op1, 8, crm, op2) for op1 in (0, 4, 6) for crm in range(16) for op2 in range(8)
)
"""TLBI."""
IC_IVAU: Final = Encoding(1, 3, 7, 5, 1)
_CODE_MAINTENANCE: Final = (
    Encoding(1, 0, 7, 1, 0),  # IC IALLUIS
    Encoding(1, 0, 7, 5, 0),  # IC IALLU
    IC_IVAU,
)
