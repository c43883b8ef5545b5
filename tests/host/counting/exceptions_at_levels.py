"""Guests that raise exceptions at one Exception level, and what Arm's table has each counted as.

EL3 sets everything up and returns to the level. There, X25 is where the handlers of all levels
return to, so that whatever raises is left behind. Interrupts are lines that Python drives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, field, replace
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord, ExceptionType
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.pmu.events import PMUEvent as E
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

EL0, EL1, EL2, EL3 = range(4)
CORE: Final = replace(load_core("max"), counters=16)
"""With a counter for each event of exceptions, and two for what else is executed."""
KINDS: Final = (
    *(E.EXC_TAKEN, E.EXC_UNDEF, E.EXC_SVC, E.EXC_PABORT, E.EXC_DABORT, E.EXC_IRQ, E.EXC_FIQ),
    *(E.EXC_SMC, E.EXC_HVC, E.EXC_TRAP_PABORT, E.EXC_TRAP_DABORT, E.EXC_TRAP_OTHER),
    *(E.EXC_TRAP_IRQ, E.EXC_TRAP_FIQ),
)
"""What counters 0 to 13 count."""
PROGRESS: Final = (E.INST_RETIRED, E.CPU_CYCLES)
"""What counters 14 and 15 count."""
CODE, STACKS, HOLE = RAM + 0x1_0000, RAM + 0x8_0000, 0x1000_0000
VECTORS = {EL1: RAM + 0x1000, EL2: RAM + 0x2000, EL3: RAM + 0x3000}
VBAR = {EL1: system.VBAR_EL1, EL2: system.VBAR_EL2, EL3: system.VBAR_EL3}
ELR = {EL1: system.ELR_EL1, EL2: system.ELR_EL2, EL3: system.ELR_EL3}
SPSR = {EL1: system.SPSR_EL1, EL2: system.SPSR_EL2, EL3: system.SPSR_EL3}
SCTLR = {EL1: system.SCTLR_EL1, EL2: system.SCTLR_EL2, EL3: system.SCTLR_EL3}
RW, E2H, TGE = 1 << 31, 1 << 34, 1 << 27
"""Bits of HCR_EL2, as are those that follow."""
TSC, TID3, TEA, AMO, IMO, FMO, TWI = 1 << 19, 1 << 18, 1 << 37, 1 << 5, 1 << 4, 1 << 3, 1 << 13
VI, VF, VSE = 1 << 7, 1 << 6, 1 << 8
SCR_HCE, SCR_SMD = 1 << 8, 1 << 7
SCR: Final = 1 << 10 | SCR_HCE | 1
"""SCR_EL3.RW, HCE and NS."""
SCR_EA, SCR_FIQ, SCR_IRQ, SCR_TWI, SCR_EEL2 = 1 << 3, 1 << 2, 1 << 1, 1 << 12, 1 << 18
TDE: Final = 1 << 8
"""MDCR_EL2.TDE."""
TFP: Final = 1 << 10
"""CPTR_EL3.TFP."""
ALIGNED: Final = 1 << 4 | 1 << 3 | 1 << 1
"""SCTLR_ELx.SA0, SA and A."""
IL: Final = 1 << 20
RESUME, STILL, NOWHERE, ODD = 25, 24, 22, 23
"""X registers: where to go on, a mask without IL, an address of nothing, one that is odd."""
SMC: Final = 0xD400_0003
NO_REGISTER: Final = (3, 7, 5, 5, 7)


def enc(register: type[SysReg]) -> tuple[int, int, int, int, int]:
    op0, op1, crn, crm, op2 = astuple(register.encoding)
    return op0, op1, crn, crm, op2


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(enc(register), 0)]


@dataclass(frozen=True)
class Level:
    """An Exception level, and what EL3 has written before it goes there."""

    el: int
    hcr: int = RW
    scr: int = SCR
    mdcr_el2: int = 0
    cptr_el3: int = 1 << 8
    more: dict[type[SysReg], int] = field(default_factory=dict)

    @property
    def has_el2(self) -> bool:
        """EL2Enabled(), by SCR_EL3.{NS,EEL2}."""
        return bool(self.scr & (1 | SCR_EEL2))

    @property
    def local_to_el0(self) -> int:
        """The Exception level above EL0 whose exceptions are Taken locally from there."""
        host = self.has_el2 and self.hcr & E2H and self.hcr & TGE
        return EL2 if host else EL1


def mode(el: int) -> int:
    return el << 2 | bool(el)


def cause(words: list[int], after: Iterable[int] = ()) -> list[int]:
    """Words that raise; the handler returns behind them, to ``after``."""
    return [a.adr(RESUME, 4 * (1 + len(words))), *words, *after]


def illegal(el: int) -> list[int]:
    """An ERET to the next operation with PSTATE.IL; from EL1 on."""
    return cause(
        [
            *[a.adr(9, 24), a.msr(enc(ELR[el]), 9)],
            *[a.movz(9, mode(el)), a.movk(9, IL >> 16, 16), a.msr(enc(SPSR[el]), 9), a.ERET],
            a.NOP,
        ]
    )


def causes(el: int) -> dict[str, list[int]]:
    """What raises a synchronous exception at an Exception level, whatever the controls."""
    found = {
        "UDF": cause([a.udf(1)]),
        "MRS": cause([a.mrs(0, NO_REGISTER)]),
        "BRK": cause([a.brk(2)]),
        "SVC": cause([a.svc(3)]),
        "load": cause([a.ldr(0, NOWHERE)]),
        "store": cause([a.str_(0, NOWHERE)]),
        "misaligned": cause([a.ldr(0, ODD)]),
        "fetch": cause([a.br(NOWHERE)]),
        "PC": cause([a.add_imm(9, RESUME, 2), a.br(9)]),
        "SP": cause([a.add_imm(31, 31, 8), a.ldr(0, 31)], [a.sub_imm(31, 31, 8)]),
    }
    if el:
        found |= {"HVC": cause([a.hvc(4)]), "SMC": cause([SMC | 5 << 5]), "IL": illegal(el)}
    return found


def handler(el: int) -> list[int]:
    """Goes on at X25, with PSTATE.IL clear."""
    spsr = enc(SPSR[el])
    masked = 0x8A00_0000 | STILL << 16 | 26 << 5 | 26  # AND X26, X26, X24
    return [a.mrs(26, spsr), masked, a.msr(spsr, 26), a.msr(enc(ELR[el]), RESUME), a.ERET]


def counting() -> list[int]:
    """Count each of KINDS and of PROGRESS at all Exception levels, from 0."""
    everywhere = r.PMEVTYPER.of(NSH=1).value
    words = put(r.PMCR_EL0, 0b110)
    for number, event in enumerate((*KINDS, *PROGRESS)):
        words += put(r.PMEVTYPERS[number], everywhere | event)
    return [*words, *put(r.PMCNTENSET_EL0, (1 << CORE.counters) - 1), *put(r.PMCR_EL0, 1)]


def board(
    level: Level,
    code: list[int],
    runner: type[Runner],
    unmasked: int = 0,
    spsr: int = 0,
    last: Iterable[int] = (),
) -> Board:
    """A board about to run ``code`` at a level.

    ``unmasked`` are bits of PSTATE.DAIF to be clear there, ``spsr`` others to be set. ``last`` is
    what EL3 executes before it goes.
    """
    first = {
        **{VBAR[el]: VECTORS[el] for el in VECTORS},
        **{SCTLR[el]: ALIGNED for el in SCTLR},
        system.CPACR_EL1: 3 << 20,
        system.CPTR_EL2: 3 << 20 if level.hcr & E2H else 0,
        system.CPTR_EL3: level.cptr_el3,
        system.MDCR_EL3: 3 << 12 | 1 << 17,  # NSPB, SPME: it counts at EL3
        system.MDCR_EL2: level.mdcr_el2 | CORE.counters,
        system.HCR_EL2: level.hcr,
        **level.more,
        system.SCR_EL3: level.scr,
        system.SPSR_EL3: 0x3C0 & ~unmasked | mode(level.el) | spsr,
        system.ELR_EL3: CODE,
    }
    start = [
        *a.mov64(0, STACKS),
        *[a.msr((3, op1, 4, 1, 0), 0) for op1 in (0, 4, 6)],  # SP_EL0, SP_EL1, SP_EL2
        a.add_imm(31, 0, 0),
        *a.mov64(STILL, ~IL & (1 << 64) - 1),
        *[*a.mov64(NOWHERE, HOLE), *a.mov64(ODD, STACKS + 1)],
        *(word for register, value in first.items() for word in put(register, value)),
        *counting(),
        *last,
        a.ERET,
    ]
    made = board_at(start, runner=runner, core=CORE)
    made.memory.fill(CODE, a.code([*code, a.b(0)]))
    for el, address in VECTORS.items():
        for offset in range(0, 0x800, 0x80):
            made.memory.fill(address + offset, a.code(handler(el)))
    made.run(len(start))
    assert (made.cpu.el, made.cpu.pc) == (level.el, CODE)
    return made


def counted(made: Board) -> Counter[E]:
    """The kinds that were counted."""
    return +Counter(dict(zip(KINDS, _values(made), strict=False)))


def progress(made: Board) -> list[int]:
    """How much was counted of PROGRESS."""
    return _values(made)[len(KINDS) : CORE.counters]


def _values(made: Board) -> list[int]:
    counting = made.pes[0].counting
    counting.count_executed()
    return counting.monitors.s.values


@dataclass(frozen=True)
class Taken:
    """An exception: its kind, its class as ESR_ELx has it, and between which levels."""

    kind: ExceptionType
    ec: int
    source: int
    target: int


def watch(made: Board, told: Callable[[Taken], None]) -> None:
    """Tell of each exception that the board's PE takes from now on."""

    def on_exception(record: ExceptionRecord, entry: ExceptionEntry) -> None:
        ec = 0 if entry.esr is None else entry.esr >> 26
        told(Taken(record.kind, ec, entry.spsr >> 2 & 3, entry.target_el))

    made.cpu.exception_taken.connect(on_exception)


_PABORT, _DABORT = (E.EXC_PABORT, E.EXC_TRAP_PABORT), (E.EXC_DABORT, E.EXC_TRAP_DABORT)
_TABLE: Final = {
    0x15: (E.EXC_SVC, E.EXC_TRAP_OTHER),
    0x16: (E.EXC_HVC, E.EXC_HVC),
    **dict.fromkeys((0x20, 0x21, 0x22, 0x30, 0x31, 0x32, 0x33, 0x3C), _PABORT),
    **dict.fromkeys((0x24, 0x25, 0x26, 0x34, 0x35), _DABORT),
}
"""Arm ARM Table D14-1 by ESR_ELx.EC: taken locally, and not. Of other classes SMC is apart."""


def expected(level: Level, taken: Iterable[Taken]) -> Counter[E]:
    """What Table D14-1 has exceptions counted as, with the controls of ``level``."""
    found: Counter[E] = Counter()
    for one in taken:
        locally = one.target == (one.source or level.local_to_el0)
        if one.kind is ExceptionType.IRQ:
            pair = E.EXC_IRQ, E.EXC_TRAP_IRQ
        elif one.kind is ExceptionType.FIQ:
            pair = E.EXC_FIQ, E.EXC_TRAP_FIQ
        elif one.kind is ExceptionType.SERROR:
            pair = _DABORT
        elif one.ec == 0x17 and one.target == EL3:
            pair = E.EXC_SMC, E.EXC_SMC
        else:
            pair = _TABLE.get(one.ec, (E.EXC_UNDEF, E.EXC_TRAP_OTHER))
        found[E.EXC_TAKEN] += 1
        found[pair[0] if locally else pair[1]] += 1
    return found
