"""TLBI in the Outer Shareable domain, by range and with nXS, and DSB nXS (Arm ARM C5.5, C6.2)."""

from __future__ import annotations

import struct
from dataclasses import astuple

import pytest

from spe_unicorn.arch.access.tlb import LATER, lacked_by_engine
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.registers import fgt, system
from spe_unicorn.arch.registers.id import ID_AA64ISAR0_EL1, ID_AA64ISAR1_EL1
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.checks.operations import FailedCheck
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions.known.finding import features_of
from tests.host.guests import EL1H, GUEST, VECTORS, board, enter_application, put, run
from tests.host.stale_tables import CODE, MEMORY, PAGE, PAGES, load, map_to, mapped, tables
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
OS, RANGE, XS = Feature.FEAT_TLBIOS, Feature.FEAT_TLBIRANGE, Feature.FEAT_XS
DSB = 0xD503_3F9F
VBAR, ESR = astuple(system.VBAR_EL1.encoding), astuple(system.ESR_EL1.encoding)
WORDS = {
    # as LLVM's assembler has them
    0xD508_811F: ("vmalle1os", {OS}),
    0xD508_8120: ("vae1os, x0", {OS}),
    0xD508_81E4: ("vaale1os, x4", {OS}),
    0xD50C_8405: ("ipas2e1os, x5", {OS}),
    0xD50C_8486: ("ipas2le1os, x6", {OS}),
    0xD50C_8127: ("vae2os, x7", {OS}),
    0xD50C_81DF: ("vmalls12e1os", {OS}),
    0xD50C_819F: ("alle1os", {OS}),
    0xD50E_811F: ("alle3os", {OS}),
    0xD508_8623: ("rvae1, x3", {RANGE}),
    0xD508_8223: ("rvae1is, x3", {RANGE}),
    0xD508_8523: ("rvae1os, x3", {OS, RANGE}),
    0xD50C_8623: ("rvae2, x3", {RANGE}),
    0xD50E_8223: ("rvae3is, x3", {RANGE}),
    0xD50C_8443: ("ripas2e1, x3", {RANGE}),
    0xD50C_8043: ("ripas2e1is, x3", {RANGE}),
    0xD50C_8463: ("ripas2e1os, x3", {OS, RANGE}),
    0xD508_9120: ("vae1osnxs, x0", {OS, XS}),
    0xD508_9723: ("vae1nxs, x3", {XS}),
    0xD50C_9423: ("ipas2e1nxs, x3", {XS}),
    0xD50E_9223: ("rvae3isnxs, x3", {RANGE, XS}),
}
NOT_THESE = {
    0xD508_8723: "tlbi vae1, x3",
    0xD50C_8423: "tlbi ipas2e1, x3",
    0xD508_8183: "op2 4 of EL1",
    0xD508_8643: "op2 2 of EL1",
    0xD50E_8183: "tlbi paallos",
    0xD528_8120: "SYSL",
    0xD508_9183: "op2 4 of EL1, with nXS",
    0xD503_3E3F: "dsb synxs",
}


@pytest.mark.parametrize("word", WORDS, ids=[name for name, _ in WORDS.values()])
def test_which_features_each_needs(word: int) -> None:
    needs = WORDS[word][1]
    for numbers in range(8):
        features = frozenset(f for n, f in enumerate((OS, RANGE, XS)) if numbers >> n & 1)
        found = lacked_by_engine(word, features)
        assert (found is not None) == (needs <= features)
    assert {f"FEAT_{one.name}" for one in features_of(word)} == {one.value for one in needs}


@pytest.mark.parametrize("word", NOT_THESE, ids=NOT_THESE.values())
def test_what_is_none_of_them(word: int) -> None:
    assert lacked_by_engine(word, frozenset({OS, RANGE, XS})) is None


def test_there_are_so_many() -> None:
    """14 of the Outer Shareable domain, 24 by range, and 2 and 6 of these of stage 2.

    With nXS these again, and the 32 that the engine has without.
    """
    assert len(LATER) == 2 * (14 + 24 + 2 + 6) + 32


def loaded_by(body: list[int], runner: type[Runner]) -> tuple[int, int]:
    """X10 and X11 after this code, where one page holds 1 and the other 1000."""
    segments = {
        **tables(),
        CODE: a.code([*mapped(), *body]),
        MEMORY + PAGE: struct.pack("<Q", 1),
        MEMORY + 3 * PAGE: struct.pack("<Q", 1000),
    }
    machine = Machine(image_of(segments, CODE), runner=runner, ram=16 << 20, core="max")
    machine.run(len(mapped()) + len(body))
    x = machine.board.pes[0].cpu.engine.x
    return x(10), x(11)


@RUNNERS
@pytest.mark.parametrize(
    "word", [0xD508_811F, 0xD508_8224, 0xD508_8524, 0xD508_8624, 0xD508_81E4, 0xD508_9724]
)
def test_a_changed_table_holds_after_it(word: int, runner: type[Runner]) -> None:
    """It names the page by X4; without it the page is found where it was."""
    found = []
    for maintenance in ([DSB, word, DSB, a.ISB], []):
        first = load(10, PAGES + PAGE)
        operand = [*a.mov64(4, (PAGES + PAGE) >> 12), *maintenance]
        body = [*first, *map_to(1, 3), *operand, *load(11, PAGES + PAGE), a.b(0)]
        found.append(loaded_by(body, runner))
    assert found == [(1, 1000), (1, 1)]


@RUNNERS
@pytest.mark.parametrize(
    ("core", "word", "there"),
    [
        ("neoverse-n2", 0xD508_811F, True),
        ("neoverse-v2", 0xD508_8623, True),
        ("cortex-x4", 0xD508_8523, True),
        ("neoverse-v1", 0xD508_811F, False),
        ("generic", 0xD508_8623, False),
        ("max,FEAT_TLBIRANGE=off", 0xD508_8523, False),
        ("max,FEAT_TLBIRANGE=off", 0xD508_811F, True),
        ("cortex-x4", 0xD508_9723, True),
        ("cortex-x4", 0xD503_3E3F, True),  # DSB SYnXS
        ("neoverse-n2", 0xD508_9723, False),
        ("neoverse-n2", 0xD503_3E3F, False),
        ("neoverse-n2", 0xD50C_811F, False),  # of EL2
        ("neoverse-n2", 0xD50C_8463, False),
        ("neoverse-n2", 0xD50E_811F, False),  # of EL3
    ],
)
def test_el1_has_those_of_el1_on_cores_that_have_them(
    core: str, word: int, there: bool, runner: type[Runner]
) -> None:
    code = [*a.mov64(0, RAM + 0x2000), a.msr(VBAR, 0), a.NOP, word, a.NOP]
    found = board_at([*code, a.b(0)], el=1, core=load_core(core), runner=runner)
    found.run(len(code) - (not there))
    assert found.cpu.pc == (RAM + 4 * len(code) if there else RAM + 0x2200)
    assert found.executed == len(code) - (not there)
    if not there:
        assert found.cpu.registers.raw(system.ESR_EL1) == 1 << 25


@pytest.mark.parametrize(
    ("core", "tlb"),
    [("neoverse-v1", 0), ("neoverse-n2", 2), ("cortex-x4", 2), ("max,FEAT_TLBIRANGE=off", 1)],
)
def test_the_id_field_says_so(core: str, tlb: int) -> None:
    read = board_at([a.NOP], core=load_core(core)).cpu.registers.read
    assert tlb == read(ID_AA64ISAR0_EL1).TLB
    assert (core in ("cortex-x4", "max,FEAT_TLBIRANGE=off")) == read(ID_AA64ISAR1_EL1).XS


def test_two_runners_sample_them_alike() -> None:
    """Also DSB nXS; each is an operation of the population."""
    loop = [a.NOP, 0xD508_811F, 0xD508_8623, 0xD503_3E3F, 0xD508_931F, a.b(-20)]
    image = image_of({RAM: a.code(loop)}, RAM)
    fast, reference = (
        Machine(image, runner=runner, period=1, core="max") for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(120).differences(reference.run(120)) == {}
    assert [operation.instruction.word for operation in fast.operations[:6]] == loop


class Barriers:
    """A watcher that notes the barriers that it is told of."""

    tracking = at_once = True

    def __init__(self) -> None:
        self.told: list[tuple[Mark, int]] = []

    def reset(self) -> None:
        """Nothing is kept."""

    def executed(self, mark: Mark, pc: int) -> None:
        self.told.append((mark, pc))

    def synchronized(self, executed: int, members: int) -> None:
        """Nothing follows."""

    def foresees_records(self) -> bool:
        return False

    def paused(self) -> None:
        """Nothing follows."""

    def controls_written(self, pc: int) -> None:
        """Nothing follows."""


@RUNNERS
def test_who_watches_barriers_is_told_of_dsb_nxs(runner: type[Runner]) -> None:
    found = board_at([a.NOP, 0xD503_3E3F, a.NOP, DSB, a.b(0)], core=load_core("max"), runner=runner)
    barriers = Barriers()
    found.pes[0].runner.watch(barriers)
    found.run(5)
    assert barriers.told == [(Mark.DSB, RAM + 4), (Mark.DSB, RAM + 12)]


@RUNNERS
@pytest.mark.parametrize("word", [0xD508_8123, 0xD508_8623, 0xD508_9123, 0xD508_9623])
@pytest.mark.parametrize(
    ("register", "bits", "trapped"),
    [
        (system.HCR_EL2, 1 << 31 | 1 << 25, (True, True)),  # TTLB
        (fgt.HFGITR_EL2, 1 << 19, (True, False)),  # TLBIVAE1OS
        (fgt.HFGITR_EL2, 1 << 38, (False, True)),  # TLBIRVAE1
        (fgt.HFGITR_EL2, 1 << 43 | 1 << 31 | 1 << 24, (False, False)),  # of others
    ],
)
def test_el2_traps_those_of_el1(
    register: type[system.HCR_EL2],
    bits: int,
    trapped: tuple[bool, bool],
    word: int,
    runner: type[Runner],
) -> None:
    subject = board({register: bits}, [a.NOP, word, a.NOP], runner, core="max")
    count, syndrome, address = run(subject)
    key = word >> 5 & 0xFFFF
    crn, crm, op2 = key >> 7 & 15, key >> 3 & 15, key & 7  # op0 and op1 are 1 and 0, Rt X3
    iss = 1 << 20 | op2 << 17 | crn << 10 | 3 << 5 | crm << 1
    traps = trapped[word in (0xD508_8623, 0xD508_9623)]
    assert count == traps
    if traps:
        assert (syndrome, address) == (0x6200_0000 | iss, GUEST + 4)


@RUNNERS
def test_el0_has_none_of_them(runner: type[Runner]) -> None:
    guest = [*a.mov64(0, RAM + 0x3000), a.msr(VBAR, 0), *enter_application()]
    subject = board({}, guest, runner, [a.NOP, 0xD508_811F], core="max")
    subject.memory.fill(RAM + 0x3400, a.code([a.mrs(7, ESR), a.b(0)]))
    run(subject)
    assert subject.cpu.engine.x(7) == 1 << 25


@RUNNERS
@pytest.mark.parametrize("word", [0xD508_8123, 0xD50C_811F, 0xD50C_8463, 0xD50C_81DF])
def test_el2_has_those_of_el2(word: int, runner: type[Runner]) -> None:
    found = board_at([a.NOP, word, a.b(0)], el=2, core="max", runner=runner)
    found.run(3)
    assert found.cpu.pc == RAM + 8


@RUNNERS
@pytest.mark.parametrize("word", [0xD508_8123, 0xD50E_811F, 0xD50C_8463, 0xD50E_971F])
def test_el3_has_all_of_them(word: int, runner: type[Runner]) -> None:
    found = board_at([a.NOP, word, a.b(0)], core=load_core("max"), runner=runner)
    found.run(3)
    assert found.cpu.pc == RAM + 8


WITHIN_A_RUN = [0xD508_811F, 0xD508_8224, 0xD508_8524, 0xD508_81E4, 0xD508_9724, 0xD508_931F]
"""Of EL1, of which some name a page by X4."""
DSB_NXS = 0xD503_3E3F


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[Stop]:
    """Operations that Python was asked to carry out."""
    found: list[Stop] = []
    handle = StopHandler.handle

    def noted(self: StopHandler, stop: Stop, fault: FailedCheck | None = None) -> bool:
        found.append(stop)
        return handle(self, stop, fault)

    monkeypatch.setattr(StopHandler, "handle", noted)
    return found


@pytest.mark.accelerated
@pytest.mark.parametrize("word", [*WITHIN_A_RUN, DSB_NXS])
def test_after_the_first_the_engine_does_not_stop_for_them(word: int, stops: list[Stop]) -> None:
    found = board_at([a.NOP, a.b(4), a.b(4), word, a.b(-16)], el=1, core="max")
    found.run(10)
    before = len(stops)
    assert before >= 1
    found.run(500)
    assert len(stops) == before
    assert found.executed == 510
    assert found.cpu.pc == RAM


@RUNNERS
@pytest.mark.parametrize("word", WITHIN_A_RUN)
def test_a_changed_table_holds_after_one_within_a_run(word: int, runner: type[Runner]) -> None:
    """Python carries out the first one, compiled code the second."""
    found = []
    for maintenance in ([DSB, word, DSB, a.ISB], []):
        body = [
            *(word, *load(10, PAGES + PAGE), *map_to(1, 3), *a.mov64(4, (PAGES + PAGE) >> 12)),
            *(*maintenance, *load(11, PAGES + PAGE), a.b(0)),
        ]
        found.append(loaded_by(body, runner))
    assert found == [(1, 1000), (1, 1)]


@pytest.mark.parametrize("word", WITHIN_A_RUN)
def test_compiled_code_notes_what_python_notes(word: int) -> None:
    """What else follows from TLB maintenance: epochs, and what other PEs and models hear of."""
    found = []
    for compiled in (True, False):
        one = board_at([a.NOP, word, a.NOP, a.b(-12)], el=1, core="max")
        one.pes[0].handler.lacking.by_hooks &= compiled
        one.run(403)
        state = one.cpu.state
        told = (state.flushes, state.epoch, state.writes, state.maintenance, state.unretired)
        found.append((one.executed, one.cpu.pc, *map(int, told)))
    assert found[0] == found[1]
    assert found[0][2] == (101 if word in (0xD508_811F, 0xD508_931F) else 0)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [1, 2, 7])
@pytest.mark.parametrize("core", ["max", "max,FEAT_SPE_PBT=off", "cortex-x4"])
def test_two_runners_sample_those_within_a_run_alike(core: str, period: int) -> None:
    loop = [a.NOP, *WITHIN_A_RUN, a.add_imm(5, 5, 1), DSB_NXS, 0xD508_8623]
    image = image_of({RAM: a.code([*loop, a.b(-4 * len(loop))])}, RAM)
    fast, reference = (
        Machine(image, runner=runner, period=period, core=core)
        for runner in (Runner, ReferenceRunner)
    )
    assert fast.run(500).differences(reference.run(500)) == {}
    assert fast.operations == reference.operations


@RUNNERS
def test_who_watches_barriers_is_told_of_each_dsb_nxs(runner: type[Runner]) -> None:
    code = [DSB_NXS, a.NOP, 0xD508_8623, DSB_NXS, a.b(-16)]
    found = board_at(code, core=load_core("max"), runner=runner)
    barriers = Barriers()
    found.pes[0].runner.watch(barriers)
    found.run(15)
    assert barriers.told == [(Mark.DSB, RAM), (Mark.DSB, RAM + 12)] * 3


def _hypervisor(guest: int, controls: list[tuple[type[SysReg], int]]) -> list[int]:
    """For each of ``controls`` EL2 writes it, and enters the guest until that comes back.

    It does so X19 times. X24 is the sum of the syndromes, X20 how many there were.
    """
    code = [*put(system.VBAR_EL2, VECTORS), *a.mov64(19, ROUNDS)]
    code += [*put(system.SCTLR_EL1, 0x30D0_0800)]
    begin = len(code)
    for register, value in controls:
        code += [*put(register, value), *put(system.SPSR_EL2, EL1H), *put(system.ELR_EL2, guest)]
        code += [a.adr(25, 8), a.ERET]
    code += [a.subs_imm(19, 19, 1), a.b_cond(a.NE, 4 * (begin - len(code) - 1)), a.b(0)]
    return code


RW, TTLB = 1 << 31, 1 << 25
ROUNDS = 40
HVC_1 = 0x16 << 26 | 1 << 25 | 1


@pytest.mark.sweep
@RUNNERS
@pytest.mark.parametrize("word", [0xD508_8123, 0xD508_8623, 0xD508_9323])
@pytest.mark.parametrize(
    "controls",
    [
        [(system.HCR_EL2, RW), (system.HCR_EL2, RW | TTLB)],
        [(system.HCR_EL2, RW | TTLB), (system.HCR_EL2, RW), (system.HCR_EL2, RW)],
        [(fgt.HFGITR_EL2, 0), (fgt.HFGITR_EL2, 1 << 19 | 1 << 38 | 1 << 29)],
    ],
)
def test_traps_come_and_go_within_a_run(
    controls: list[tuple[type[SysReg], int]], word: int, runner: type[Runner]
) -> None:
    """A trap goes to EL2 before the HVC that comes after the instruction."""
    code = [*put(system.HCR_EL2, RW), word, *_hypervisor(GUEST, controls)]
    found = board_at(code, el=2, core="max", runner=runner)
    handler = [a.mrs(21, astuple(system.ESR_EL2.encoding)), a.add(24, 24, 21)]
    handler += [a.add_imm(20, 20, 1), a.br(25)]
    found.memory.fill(VECTORS + 0x400, a.code(handler))
    found.memory.fill(GUEST, a.code([a.NOP, word, a.hvc(1)]))
    found.run(20_000)
    assert found.cpu.virtual.code(found.cpu.pc, 1) == (a.b(0),)
    key = word >> 5 & 0xFFFF
    crn, crm, op2 = key >> 7 & 15, key >> 3 & 15, key & 7  # op0 and op1 are 1 and 0, Rt X3
    trap = 0x18 << 26 | 1 << 25 | 1 << 20 | op2 << 17 | crn << 10 | 3 << 5 | crm << 1
    esrs = [HVC_1 if value in (0, RW) else trap for _, value in controls]
    x = found.cpu.engine.x
    assert (x(20), x(24)) == (ROUNDS * len(controls), ROUNDS * sum(esrs))


@RUNNERS
def test_el0_has_none_of_them_within_a_run(runner: type[Runner]) -> None:
    """EL1 has executed one before."""
    guest = [*a.mov64(0, RAM + 0x3000), a.msr(VBAR, 0), 0xD508_811F, *enter_application()]
    subject = board({}, guest, runner, [a.NOP, 0xD508_811F], core="max")
    subject.memory.fill(RAM + 0x3400, a.code([a.mrs(7, ESR), a.b(0)]))
    run(subject)
    assert subject.cpu.engine.x(7) == 1 << 25


@RUNNERS
@pytest.mark.parametrize(("word", "there"), [(0xD508_8623, True), (0xD50C_811F, False)])
def test_el1_has_none_of_el2_within_a_run(word: int, there: bool, runner: type[Runner]) -> None:
    code = [*a.mov64(0, RAM + 0x2000), a.msr(VBAR, 0), 0xD508_811F, a.NOP, word, a.NOP]
    found = board_at([*code, a.b(0)], el=1, core=load_core("max"), runner=runner)
    found.run(len(code) - (not there))
    assert found.cpu.pc == (RAM + 4 * len(code) if there else RAM + 0x2200)


@RUNNERS
@pytest.mark.parametrize("ns", [0, 1])
def test_el3_has_those_of_el2_where_it_is_enabled(ns: int, runner: type[Runner]) -> None:
    """TLBI RVAE2 is UNDEFINED at EL3 in Secure state without EL2 (C5.5)."""
    scr = 0x430 | ns  # RW, NS
    code = [
        *(*put(system.SCR_EL3, scr), *put(system.VBAR_EL3, VECTORS), a.ISB, 0xD50E_811F),
        *(0xD50C_8623, a.b(0)),
    ]
    found = board_at(code, core=load_core("max"), runner=runner)
    found.run(len(code) - 1)
    assert found.cpu.pc == (RAM + 4 * (len(code) - 1) if ns else VECTORS + 0x200)


@pytest.mark.parametrize(
    ("word", "flushes"),
    [
        (0xD508_811F, [2, 1]),  # TLBI VMALLE1OS: of both PEs
        (0xD508_971F, [2, 0]),  # VMALLE1NXS: of its own
        (0xD508_9340, [2, 1]),  # ASIDE1ISNXS
        (0xD508_8224, [0, 0]),  # RVAE1IS: by address
    ],
)
def test_other_pes_hear_of_those_within_a_run(word: int, flushes: list[int]) -> None:
    """PE 0 executes two, of which Python carries out the first. PE 1 hears of both at once."""
    work = [a.add_imm(5, 5, 1), a.b(-4)]
    code = [a.mrs(1, (3, 0, 0, 0, 5)), a.tbnz(1, 0, 12), word, word, *work]
    found = board_at(code, 2, core=load_core("max"))
    before = [int(pe.cpu.state.flushes) for pe in found.pes]
    found.run(5000)
    after = [int(pe.cpu.state.flushes) for pe in found.pes]
    assert [now - then for now, then in zip(after, before, strict=True)] == flushes
