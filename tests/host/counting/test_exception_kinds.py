"""Each kind of exception from each Exception level is the event of Arm's Table D14-1, by hand.

"Local" below is the definition of D14.1.1: to the current Exception level, from EL0 to EL1, or from
EL0 to EL2 while HCR_EL2.{E2H,TGE} is {1,1}.
"""

from __future__ import annotations

from collections import Counter

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.pmu.events import PMUEvent as E
from tests.host.counting import exceptions_at_levels as x
from tests.host.counting.exceptions_at_levels import EL0, EL1, EL2, EL3, Level
from tests.support import a64 as a
from tests.support.counters import RUNNERS

LOCAL = {
    "UDF": E.EXC_UNDEF,
    "MRS": E.EXC_UNDEF,
    "IL": E.EXC_UNDEF,
    "SVC": E.EXC_SVC,
    "BRK": E.EXC_PABORT,
    "fetch": E.EXC_PABORT,
    "PC": E.EXC_PABORT,
    "load": E.EXC_DABORT,
    "store": E.EXC_DABORT,
    "misaligned": E.EXC_DABORT,
    "SP": E.EXC_DABORT,
    "HVC": E.EXC_HVC,
    "SMC": E.EXC_SMC,
}
TRAPPED = {
    "UDF": E.EXC_TRAP_OTHER,
    "MRS": E.EXC_TRAP_OTHER,
    "IL": E.EXC_TRAP_OTHER,
    "SVC": E.EXC_TRAP_OTHER,
    "BRK": E.EXC_TRAP_PABORT,
    "fetch": E.EXC_TRAP_PABORT,
    "PC": E.EXC_TRAP_PABORT,
    "load": E.EXC_TRAP_DABORT,
    "store": E.EXC_TRAP_DABORT,
    "misaligned": E.EXC_TRAP_DABORT,
    "SP": E.EXC_TRAP_DABORT,
}
HOST = x.RW | x.E2H | x.TGE
PLACES = {
    "EL0 to EL1": (Level(EL0), EL1, LOCAL),
    "EL0 to a host at EL2": (Level(EL0, HOST), EL2, LOCAL),
    "EL0 to EL2 by TGE": (Level(EL0, x.RW | x.TGE), EL2, TRAPPED),
    "EL1": (Level(EL1), EL1, LOCAL),
    "EL1 under E2H": (Level(EL1, x.RW | x.E2H), EL1, LOCAL),
    "EL2": (Level(EL2), EL2, LOCAL),
    "EL2 with TGE": (Level(EL2, x.RW | x.TGE), EL2, LOCAL),
    "EL2, a host": (Level(EL2, HOST), EL2, LOCAL),
    "EL3": (Level(EL3), EL3, LOCAL),
    "Secure EL0 to EL1": (Level(EL0, HOST, x.SCR & ~1), EL1, LOCAL),
}
"""Where exceptions are from that no control routes elsewhere, and where they go."""
CALLED = {"HVC": {EL1: EL2, EL2: EL2, EL3: EL3}, "SMC": {EL1: EL3, EL2: EL3, EL3: EL3}}


def one(event: E) -> Counter[E]:
    return Counter([E.EXC_TAKEN, event])


def taken_by(board: Board, operations: int = 60) -> list[x.Taken]:
    """What the board takes in so many operations."""
    taken: list[x.Taken] = []
    x.watch(board, taken.append)
    board.run(operations)
    return taken


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("name", PLACES)
def test_what_is_taken_by_default(name: str, runner: type[Runner]) -> None:
    level, target, events = PLACES[name]
    causes = x.causes(level.el)
    board = x.board(level, [word for words in causes.values() for word in words], runner)
    taken = taken_by(board, 300)
    goes_to = [CALLED[cause][level.el] if cause in CALLED else target for cause in causes]
    assert [(one.source, one.target) for one in taken] == [(level.el, to) for to in goes_to]
    made = [events[cause] for cause in causes]
    assert x.counted(board) == Counter([*made, *[E.EXC_TAKEN] * len(made)])


TO_EL2 = x.RW | x.TSC | x.TID3 | x.TEA | x.TWI
ROUTED = {
    "a trapped SMC": (Level(EL1, TO_EL2), x.cause([x.SMC]), EL2, E.EXC_TRAP_OTHER),
    "a trapped MRS": (
        Level(EL1, TO_EL2),
        x.cause([a.mrs(0, (3, 0, 0, 4, 0))]),
        EL2,
        E.EXC_TRAP_OTHER,
    ),
    "a trapped WFI": (Level(EL1, TO_EL2), x.cause([a.WFI]), EL2, E.EXC_TRAP_OTHER),
    "BRK, debugged": (Level(EL1, mdcr_el2=x.TDE), x.causes(1)["BRK"], EL2, E.EXC_TRAP_PABORT),
    "BRK of EL0": (Level(EL0, mdcr_el2=x.TDE), x.causes(0)["BRK"], EL2, E.EXC_TRAP_PABORT),
    "load, TEA": (Level(EL1, TO_EL2), x.causes(1)["load"], EL2, E.EXC_TRAP_DABORT),
    "load of EL0, TEA": (Level(EL0, TO_EL2), x.causes(0)["load"], EL2, E.EXC_TRAP_DABORT),
    "fetch, TEA": (Level(EL1, TO_EL2), x.causes(1)["fetch"], EL2, E.EXC_TRAP_PABORT),
    "load, EA": (Level(EL1, scr=x.SCR | x.SCR_EA), x.causes(1)["load"], EL3, E.EXC_TRAP_DABORT),
    "load of EL2, EA": (
        Level(EL2, scr=x.SCR | x.SCR_EA),
        x.causes(2)["load"],
        EL3,
        E.EXC_TRAP_DABORT,
    ),
    "load of a host's EL0, EA": (
        Level(EL0, HOST, x.SCR | x.SCR_EA),
        x.causes(0)["load"],
        EL3,
        E.EXC_TRAP_DABORT,
    ),
    "fetch of EL2, EA": (
        Level(EL2, scr=x.SCR | x.SCR_EA),
        x.causes(2)["fetch"],
        EL3,
        E.EXC_TRAP_PABORT,
    ),
    "load of EL3, EA": (Level(EL3, scr=x.SCR | x.SCR_EA), x.causes(3)["load"], EL3, E.EXC_DABORT),
    "FP, CPTR_EL3": (Level(EL1, cptr_el3=x.TFP), x.cause([a.fadd(0, 0, 0)]), EL3, E.EXC_TRAP_OTHER),
    "FP, CPTR_EL3 at EL3": (
        Level(EL3, cptr_el3=x.TFP),
        x.cause([a.fadd(0, 0, 0)]),
        EL3,
        E.EXC_UNDEF,
    ),
    "FP, CPACR_EL1": (
        Level(EL0, more={system.CPACR_EL1: 1 << 20}),
        x.cause([a.fadd(0, 0, 0)]),
        EL1,
        E.EXC_UNDEF,
    ),
    "WFI, SCR_EL3": (Level(EL2, scr=x.SCR | x.SCR_TWI), x.cause([a.WFI]), EL3, E.EXC_TRAP_OTHER),
    "SMC of EL0": (Level(EL0), x.cause([x.SMC]), EL1, E.EXC_UNDEF),
    "HVC of EL0": (Level(EL0), x.cause([a.hvc(0)]), EL1, E.EXC_UNDEF),
    "SMC, disabled": (Level(EL1, scr=x.SCR | 1 << 7), x.cause([x.SMC]), EL1, E.EXC_UNDEF),
    "HVC, disabled": (Level(EL1, scr=x.SCR & ~(1 << 8)), x.cause([a.hvc(0)]), EL1, E.EXC_UNDEF),
}


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("name", ROUTED)
def test_what_controls_route(name: str, runner: type[Runner]) -> None:
    level, words, target, event = ROUTED[name]
    board = x.board(level, words, runner)
    (taken,) = taken_by(board)
    assert (taken.source, taken.target) == (level.el, target)
    assert x.counted(board) == one(event)


@RUNNERS
@pytest.mark.parametrize("cause", ["a trapped SMC", "a trapped MRS", "BRK, debugged", "load, EA"])
def test_what_is_trapped_takes_a_cycle_and_does_not_retire(
    cause: str, runner: type[Runner]
) -> None:
    """ADR, what raises, the five of the handler; before them EL3's MSR to PMCR_EL0 and ERET."""
    level, words, _, _ = ROUTED[cause]
    trapped = x.board(level, words, runner)
    called = x.board(Level(EL1), x.cause([x.SMC]), runner)
    trapped.run(7)
    called.run(7)
    assert x.progress(trapped) == [2 + 6, 2 + 7]
    assert x.progress(called) == [2 + 7, 2 + 7]  # an SMC that EL3 takes retires


TO_EL3 = x.SCR | x.SCR_EA | x.SCR_IRQ | x.SCR_FIQ
MASKS_OF_EL2 = x.RW | x.AMO | x.IMO | x.FMO
IRQS = (E.EXC_IRQ, E.EXC_FIQ, E.EXC_DABORT)
TRAPPED_IRQS = (E.EXC_TRAP_IRQ, E.EXC_TRAP_FIQ, E.EXC_TRAP_DABORT)
INTERRUPTS = {
    "EL0 to EL1": (Level(EL0), EL1, IRQS),
    "EL1": (Level(EL1), EL1, IRQS),
    "EL0 to a host": (Level(EL0, HOST), EL2, IRQS),
    "EL0 to EL2 by TGE": (Level(EL0, x.RW | x.TGE), EL2, TRAPPED_IRQS),
    "EL0 to EL2": (Level(EL0, MASKS_OF_EL2), EL2, TRAPPED_IRQS),
    "EL1 to EL2": (Level(EL1, MASKS_OF_EL2), EL2, TRAPPED_IRQS),
    "EL2": (Level(EL2, MASKS_OF_EL2), EL2, IRQS),
    "EL2, a host": (Level(EL2, HOST), EL2, IRQS),
    "EL0 to EL3": (Level(EL0, scr=TO_EL3), EL3, TRAPPED_IRQS),
    "a host's EL0 to EL3": (Level(EL0, HOST, TO_EL3), EL3, TRAPPED_IRQS),
    "EL1 to EL3": (Level(EL1, scr=TO_EL3), EL3, TRAPPED_IRQS),
    "EL2 to EL3": (Level(EL2, scr=TO_EL3), EL3, TRAPPED_IRQS),
    "EL3": (Level(EL3, scr=TO_EL3), EL3, IRQS),
}


@RUNNERS
@pytest.mark.parametrize("name", INTERRUPTS)
def test_interrupts(name: str, runner: type[Runner]) -> None:
    level, target, events = INTERRUPTS[name]
    code = [a.adr(x.RESUME, 4), a.NOP]
    board = x.board(level, code, runner, unmasked=0x1C0)
    inputs = board.pes[0].handler.interrupts
    taken: list[x.Taken] = []
    x.watch(board, taken.append)
    board.run(10)
    for line in (inputs.irq, inputs.fiq):
        line.set_level(True)
        board.run(1)
        line.set_level(False)
        board.run(20)
    inputs.pend_serror()
    board.run(20)
    assert [(one.source, one.target) for one in taken] == [(level.el, target)] * 3
    assert x.counted(board) == Counter([*events, *[E.EXC_TAKEN] * 3])


@RUNNERS
@pytest.mark.parametrize(
    ("pending", "event"), [(x.VI, E.EXC_IRQ), (x.VF, E.EXC_FIQ), (x.VSE, E.EXC_DABORT)]
)
@pytest.mark.parametrize("el", [EL0, EL1])
def test_virtual_interrupts_are_local(
    el: int, pending: int, event: E, runner: type[Runner]
) -> None:
    board = x.board(Level(el, MASKS_OF_EL2 | pending), [a.NOP], runner, unmasked=0x1C0)
    (taken,) = taken_by(board, 3)
    assert (taken.source, taken.target) == (el, EL1)
    assert x.counted(board) == one(event)


KDE, MDE, SS = 1 << 13, 1 << 15, 1
EVERYWHERE = 1 << 13 | 3 << 1
"""DBGBCR<n>_EL1 and DBGWCR<n>_EL1: HMC and PAC for EL0, EL1 and EL2."""
DEBUGGED = {
    "EL0 to EL1": (Level(EL0), EL1, 0),
    "EL1": (Level(EL1), EL1, 0),
    "EL0 to EL2": (Level(EL0, mdcr_el2=x.TDE), EL2, 1),
    "EL1 to EL2": (Level(EL1, mdcr_el2=x.TDE), EL2, 1),
    "EL0 to a host": (Level(EL0, HOST), EL2, 0),
    "EL2": (Level(EL2, mdcr_el2=x.TDE), EL2, 0),
}
PABORT, DABORT = (E.EXC_PABORT, E.EXC_TRAP_PABORT), (E.EXC_DABORT, E.EXC_TRAP_DABORT)


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("what", ["breakpoint", "watchpoint", "step"])
@pytest.mark.parametrize("name", DEBUGGED)
def test_debug_exceptions(name: str, what: str, runner: type[Runner]) -> None:
    level, target, trapped = DEBUGGED[name]
    more: dict[type, int] = {d.OSLAR_EL1: 0, d.MDSCR_EL1: KDE | MDE}
    code = [a.adr(x.RESUME, 12), a.NOP, a.NOP]
    if what == "breakpoint":
        more |= {d.DBGBVRS[0]: x.CODE + 4, d.DBGBCRS[0]: EVERYWHERE | 0xF << 5 | 1}
    elif what == "watchpoint":
        more |= {d.DBGWVRS[0]: x.STACKS, d.DBGWCRS[0]: EVERYWHERE | 0xFF << 5 | 3 << 3 | 1}
        code = [a.adr(x.RESUME, 12), a.sub_imm(1, x.ODD, 1), a.ldr(0, 1)]
    else:
        more[d.MDSCR_EL1] = KDE | SS
    stepped = 1 << 21 if what == "step" else 0
    board = x.board(Level(**{**vars(level), "more": more}), code, runner, 0x200, stepped)
    taken = taken_by(board, 3 if what == "step" else 30)
    assert [(one.source, one.target) for one in taken] == [(level.el, target)]
    assert x.counted(board) == one((DABORT if what == "watchpoint" else PABORT)[trapped])


@RUNNERS
@pytest.mark.parametrize(
    ("el", "hcr", "mdcr_el2", "event"),
    [
        (EL1, x.RW, 1 << 40, E.EXC_UNDEF),
        (EL0, x.RW, 1 << 40, E.EXC_UNDEF),
        (EL1, x.RW, 3 << 40, E.EXC_TRAP_OTHER),
        (EL2, x.RW, 3 << 40, E.EXC_UNDEF),
    ],
)
def test_the_exception_of_an_overflow(
    el: int, hcr: int, mdcr_el2: int, event: E, runner: type[Runner]
) -> None:
    """FEAT_EBEP: class 0x3D is among all other values of the table."""
    more: dict[type, int] = {
        system.MDCR_EL3: 1 << 40 | 3 << 12 | 1 << 17,  # delegated
        r.PMECR_EL1: 0b111,
        r.PMEVTYPERS[15]: 0,  # not synchronous
        r.PMINTENCLR_EL1: (1 << 33) - 1,
        r.PMINTENSET_EL1: 1 << 15,
        r.PMOVSCLR_EL0: (1 << 33) - 1,
    }
    level = Level(el, hcr, mdcr_el2=mdcr_el2, more=more)
    # PMOVSSET_EL0, by EL3 with the exception masked there, overflows counter 15
    board = x.board(level, [a.NOP, a.NOP], runner, last=x.put(r.PMOVSSET_EL0, 1 << 15))
    taken = taken_by(board, 1)
    assert [(one.ec, one.source) for one in taken] == [(0x3D, el)]
    assert x.counted(board) == one(event)
