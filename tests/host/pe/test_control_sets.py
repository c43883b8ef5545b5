"""Random hypervisors: known sets of controls mean what Python works out and stepping finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple
from random import Random
from typing import Any

import pytest

from spe_unicorn.arch.registers import debug, fgt, spe, system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.native.registers import switches
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe import control_sets
from spe_unicorn.host.pe.control_sets import PATIENCE, ControlSets
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.perform import Performer
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.host.outcomes import IN_GUEST, VECTORS, outcome
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

FPEN_ALL = 0b11 << 20
TRAPS_TPIDR = 1 << 33
GUESTS, EL2_VECTORS, EL1_VECTORS = RAM + 0x8000, RAM + 0x1_0000, RAM + 0x1_1000
ROUNDS, ENTRIES = 6, 10
MOST = 6000
EL0T, EL1H, EL1H_OPEN, EL2H, NO_EL, ILLEGAL = 0x3C0, 0x3C5, 0x345, 0x3C9, 0x3CF, 0x10_03C5
STEP, TDE = 1 << 21, 1 << 8
SS, TDCC, KDE, MDE = 1, 1 << 12, 1 << 13, 1 << 15
RW, TGE, E2H, TVM, TID3, IMO, TSC = 1 << 31, 1 << 27, 1 << 34, 1 << 26, 1 << 18, 1 << 4, 1 << 19
CONTROLS: dict[type[SysReg], tuple[int, ...]] = {
    system.HCR_EL2: (
        RW,
        RW,
        RW | E2H,
        RW | E2H | TGE,
        RW | TVM,
        RW | TID3,
        RW | IMO,
        RW | IMO | TSC,
    ),
    system.CPTR_EL2: (0x33FF, 0x37FF, FPEN_ALL, 0x33FF | 1 << 31, 1 << 20),
    system.MDCR_EL2: (0, 1 << 9, 1 << 6, TDE, TDE),
    debug.MDSCR_EL1: (0, 0, SS, SS, SS | TDCC, SS | KDE, MDE),
    debug.OSLAR_EL1: (0, 0, 1),
    system.CNTHCTL_EL2: (3, 0),
    system.CPACR_EL1: (0, FPEN_ALL),
    system.CNTKCTL_EL1: (0, 3),
    system.VTTBR_EL2: (0, 1 << 48),
    system.TTBR0_EL1: (RAM, RAM + 0x1000, 1 << 48 | RAM),
    system.SPSR_EL2: (EL1H, EL1H_OPEN, EL1H | STEP, EL2H, NO_EL, ILLEGAL),
    system.SPSR_EL1: (EL0T, EL1H, NO_EL),
    fgt.HFGRTR_EL2: (0, TRAPS_TPIDR),
}
"""What a hypervisor writes, each value more than once."""
CORES = ("generic", "neoverse-n1", "max")
"""Two without profiling exceptions, and one with them."""
TLBI = (a.sys(0, 8, 7, 0), a.sys(4, 8, 7, 4), a.sys(4, 8, 7, 6))
"""TLBI VMALLE1, ALLE1 and VMALLS12E1."""


@pytest.fixture
def noticed(monkeypatch: pytest.MonkeyPatch) -> Counter[Stop]:
    """How often the engine was stopped, by reason."""
    found: Counter[Stop] = Counter()
    after_run = Performer.after_run
    monkeypatch.setattr(
        Performer,
        "after_run",
        lambda self, report: (found.update([report.stop]), after_run(self, report)),
    )
    return found


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> list[ControlSets]:
    """The sets of all PEs."""
    found = []
    init = ControlSets.__init__
    monkeypatch.setattr(
        ControlSets, "__init__", lambda self, cpu: (found.append(self), init(self, cpu))[1]
    )
    return found


def enter(guest: int) -> list[int]:
    """Enter a guest; the handler at EL2 goes to what comes after this, by X25."""
    return [*put(system.ELR_EL2, guest), a.adr(25, 8), a.ERET]


def hypervisor(seed: int, runner: type[Runner], interrupted: bool) -> Board:
    """EL2 writes controls and enters guests, all of it some rounds. X24 tells what it has taken.

    With ``interrupted`` an IRQ is asserted all the time.
    """
    random = Random(seed)
    begin = [
        *[
            *put(system.VBAR_EL2, EL2_VECTORS),
            *put(system.VBAR_EL1, EL1_VECTORS),
            *put(system.HCR_EL2, RW),
        ],
        *[
            *put(system.SCTLR_EL1, 0x30D0_0800),
            *put(system.CPACR_EL1, FPEN_ALL),
            *put(system.MDCR_EL2, 0),
        ],
        *[*put(system.CNTHCTL_EL2, 3), *put(system.CNTKCTL_EL1, 0), *put(system.VTTBR_EL2, 0)],
        *[*put(system.SPSR_EL1, EL0T), *put(system.ELR_EL1, GUESTS), *put(system.TTBR0_EL1, RAM)],
        *[
            *put(fgt.HFGRTR_EL2, 0),
            *put(system.CPTR_EL2, 0x33FF),
            *a.mov64(6, RAM),
            *a.mov64(24, 1),
        ],
        *[*a.mov64(19, ROUNDS), *put(debug.OSLAR_EL1, 0), *put(debug.MDSCR_EL1, 0)],
    ]
    code = list(begin)
    guests = []
    for n in range(ENTRIES):
        for _ in range(random.randrange(1, 5)):
            register = random.choice(list(CONTROLS))
            code += put(register, random.choice(CONTROLS[register]))
        if random.random() < 0.2:
            code.append(random.choice(TLBI))
        if random.random() < 0.8:
            code += put(
                system.SPSR_EL2, random.choice((EL1H, EL1H_OPEN, EL1H | STEP, EL0T, EL0T | STEP))
            )
        code += enter(GUESTS + 0x100 * n)
        guests.append([*random.choices(IN_GUEST, k=4), a.hvc(1)])
    code += [a.subs_imm(19, 19, 1), a.b_cond(1, 4 * (len(begin) - len(code) - 1))]
    core = CORES[seed % len(CORES)]
    subject = board_at([*code, a.b(0)], el=2, runner=runner, core=core)
    syndrome, address = (astuple(r.encoding) for r in (system.ESR_EL2, system.ELR_EL2))
    taken = [a.mrs(21, syndrome), a.mrs(22, address), a.eor(24, 24, 21), a.add(24, 24, 24)]
    for place in VECTORS:
        subject.memory.fill(EL2_VECTORS + place, a.code([*taken, a.add(24, 24, 22), a.br(25)]))
        subject.memory.fill(EL1_VECTORS + place, a.code([a.hvc(2)]))
    for n, guest in enumerate(guests):
        subject.memory.fill(GUESTS + 0x100 * n, a.code(guest))
    if interrupted:
        subject.pes[0].interrupts.irq.set_level(True)
    return subject


@pytest.mark.sweep
@pytest.mark.parametrize("inline", ["", "0"])
@pytest.mark.parametrize("seed", range(12))
def test_known_sets_of_controls_are_those_that_python_works_out(
    seed: int, inline: str, noticed: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPE_UNICORN_INLINE", inline)
    subjects, stops = [], []
    for runner, has_sets in ((Runner, True), (Runner, False), (ReferenceRunner, False)):
        with monkeypatch.context() as context:
            if not has_sets:
                context.setattr(control_sets, "may_have_sets", lambda cpu: False)
            noticed.clear()
            subject = hypervisor(seed, runner, interrupted=seed % 2 == 1)
            assert subject.run(MOST) is Ending.LIMIT
            subjects.append(outcome(subject))
            stops.append(noticed[Stop.NOTICED])
    first, *others = subjects
    for other in others:
        assert other == first
    assert stops[0] <= stops[1]


@pytest.mark.parametrize("seed", range(4))
def test_the_sets_hold_wherever_a_run_ends(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in pieces: what Python knows at the end of each is what it works out from registers."""
    pieces = hypervisor(seed, Runner, interrupted=seed % 2 == 1)
    with monkeypatch.context() as context:
        context.setattr(control_sets, "may_have_sets", lambda cpu: False)
        plain = hypervisor(seed, Runner, interrupted=seed % 2 == 1)
        random = Random(seed)
        ends = [random.randrange(1, 200) for _ in range(30)]
    for end in ends:
        pieces.run(end)
        with monkeypatch.context() as context:
            context.setattr(control_sets, "may_have_sets", lambda cpu: False)
            plain.run(end)
        assert outcome(pieces) == outcome(plain)


def test_a_guest_with_many_values_does_not_have_the_sets_grow(sets: list[Any]) -> None:
    """CPTR_EL2.TCPAC, TAM, TTA, TSM, TFP, TZ and HCR_EL2's low bits, all ways."""
    values = [0x2 | (n & 1) << 10 | (n >> 1 & 1) << 8 | (n >> 2 & 1) << 31 for n in range(8)]
    code = [*put(system.HCR_EL2, RW)]
    for hcr in range(16):
        code += put(system.HCR_EL2, RW | hcr << 3)
        for value in values:
            code += put(system.CPTR_EL2, value)
    subject = board_at([*code, a.b(-4 * len(code))], el=2)
    assert subject.run(20 * len(code)) is Ending.LIMIT
    (found,) = sets
    assert len(found._known) < switches.SETS
    assert len(found._numbers) == len(found._known)


@pytest.mark.accelerated
@pytest.mark.parametrize("reported", [False, True])
@pytest.mark.parametrize("core", CORES)
def test_a_write_of_a_known_value_does_not_stop_the_engine(
    core: str, reported: bool, noticed: Counter
) -> None:
    """Also where a reset has left PMBSR_ELx.S set, which is UNKNOWN after one."""
    loop = [
        *put(system.CPTR_EL2, 0x33FF),
        *put(system.CPTR_EL2, 0x37FF),
        *put(system.HCR_EL2, RW | TVM),
    ]
    loop += [*put(system.HCR_EL2, RW), a.subs_imm(19, 19, 1)]
    code = [*put(system.HCR_EL2, RW), *a.mov64(19, 100), *loop, a.b_cond(1, -4 * len(loop)), a.b(0)]
    subject = board_at(code, el=2, core=core)
    for register in (spe.PMBSR_EL1, spe.PMBSR_EL2, spe.PMBSR_EL3):
        if register in subject.cpu.registers:
            subject.cpu.registers.set_raw(register, register.S.mask * reported)
    subject.handler.controls_written()
    assert subject.run(3000) is Ending.LIMIT
    assert subject.cpu.registers.raw(system.CPTR_EL2) == 0x37FF
    assert subject.cpu.engine.x(19) == 0
    assert noticed[Stop.NOTICED] < 20


@pytest.mark.accelerated
def test_traps_of_a_known_set_are_taken(noticed: Counter) -> None:
    """ACTLR_EL1 and TTBR0_EL1 at EL1: the second traps by HCR_EL2.TVM, in every other round."""
    guest = [a.add_imm(20, 20, 1), a.msr((3, 0, 2, 0, 0), 6), a.add_imm(20, 20, 1), a.hvc(1)]
    code = [
        *put(system.VBAR_EL2, EL2_VECTORS),
        *put(system.SPSR_EL2, EL1H),
        *put(system.HCR_EL2, RW),
    ]
    code += [*a.mov64(6, RAM), *a.mov64(19, 50)]
    loop = []
    for hcr in (RW, RW | TVM):
        loop += [*put(system.HCR_EL2, hcr), *put(system.SPSR_EL2, EL1H), *enter(GUESTS)]
    loop.append(a.subs_imm(19, 19, 1))
    subject = board_at([*code, *loop, a.b_cond(1, -4 * len(loop)), a.b(0)], el=2)
    subject.memory.fill(GUESTS, a.code(guest))
    subject.memory.fill(EL2_VECTORS + 0x400, a.code([a.br(25)]))
    assert subject.run(5000) is Ending.LIMIT
    assert subject.cpu.engine.x(19) == 0
    assert subject.cpu.engine.x(20) == 50 * 3
    assert noticed[Stop.NOTICED] < 20


@pytest.mark.accelerated
@pytest.mark.parametrize("core", CORES)
def test_a_hypervisor_steps_its_guest_without_stops(core: str, noticed: Counter) -> None:
    """ESR_EL2 is that of a Software Step exception from a lower level, ISV set, IFSC 0b100010."""
    begin = [*put(system.VBAR_EL2, EL2_VECTORS), *put(system.HCR_EL2, RW)]
    begin += [*put(debug.OSLAR_EL1, 0), *a.mov64(19, 60), *a.mov64(26, GUESTS)]
    here, address = astuple(system.ELR_EL2.encoding), a.mrs(26, astuple(system.ELR_EL2.encoding))
    loop = [*put(debug.MDSCR_EL1, SS), *put(system.MDCR_EL2, TDE)]
    loop += [*put(system.SPSR_EL2, EL1H | STEP), a.msr(here, 26), a.adr(25, 8), a.ERET, address]
    loop += [*put(debug.MDSCR_EL1, 0), *put(system.MDCR_EL2, 0), a.subs_imm(19, 19, 1)]
    code = [*begin, *loop, a.b_cond(1, -4 * len(loop)), a.b(0)]
    subject = board_at(code, el=2, core=core)
    guest = [a.add_imm(20, 20, 1), a.b(4), a.b(-8)]
    subject.memory.fill(GUESTS, a.code(guest))
    syndrome = a.mrs(21, astuple(system.ESR_EL2.encoding))
    subject.memory.fill(EL2_VECTORS + 0x400, a.code([syndrome, a.br(25)]))
    assert subject.run(4000) is Ending.LIMIT
    assert subject.cpu.engine.x(19) == 0
    assert subject.cpu.engine.x(20) == 20
    assert subject.cpu.engine.x(21) == 0x32 << 26 | 1 << 25 | 1 << 24 | 0b100010
    assert subject.cpu.registers.raw(debug.MDSCR_EL1) == 0
    assert noticed[Stop.NOTICED] < 20
    assert noticed[Stop.EXCEPTION] < 5


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_known_write_of_mdscr_is_trapped_where_el3_asks_for_it(runner: type[Runner]) -> None:
    """EL2 writes it in 20 rounds, then EL3 sets MDCR_EL3.TDA: each write is a trap to EL3."""
    monitor, el3_vectors = GUESTS, EL1_VECTORS
    loop = [*put(debug.MDSCR_EL1, SS), *put(debug.MDSCR_EL1, 0), a.subs_imm(19, 19, 1)]
    rounds = [*a.mov64(19, 20), *loop, a.b_cond(1, -4 * len(loop))]
    hypervisor_ = [*put(debug.OSLAR_EL1, 0), *rounds, a.smc(1), *rounds, a.b(0)]
    begin = [*put(system.VBAR_EL3, el3_vectors), *put(system.MDCR_EL3, 0), *put(system.HCR_EL2, RW)]
    begin += [*put(system.SPSR_EL3, EL2H), *put(system.ELR_EL3, monitor), a.ERET]
    subject = board_at(begin, el=3, runner=runner, core="neoverse-n1")
    subject.memory.fill(monitor, a.code(hypervisor_))
    here = astuple(system.ELR_EL3.encoding)
    after_smc = [*put(system.MDCR_EL3, system.MDCR_EL3.TDA.mask), a.ERET]
    trapped = [a.add_imm(20, 20, 1), a.mrs(22, here), a.add_imm(22, 22, 4), a.msr(here, 22), a.ERET]
    syndrome = a.mrs(21, astuple(system.ESR_EL3.encoding))
    is_smc = a.tbz(21, 26, 4 * (len(after_smc) + 1))  # classes 0x17 and 0x18
    subject.memory.fill(el3_vectors + 0x400, a.code([syndrome, is_smc, *after_smc, *trapped]))
    assert subject.run(3000) is Ending.LIMIT
    assert subject.cpu.engine.x(19) == 0
    assert subject.cpu.engine.x(20) == 40
    assert subject.cpu.registers.raw(debug.MDSCR_EL1) == 0


@pytest.mark.accelerated
def test_a_set_holds_only_for_some_runs_after_a_control_was_written(sets: list[Any]) -> None:
    board_at([a.b(0)], el=2)
    (known,) = sets
    assert not known.worth()
    known.noticed()
    assert [known.worth() for _ in range(PATIENCE + 2)] == [*[True] * PATIENCE, False, False]
