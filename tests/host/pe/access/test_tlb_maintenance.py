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
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions.known.finding import features_of
from tests.host.guests import GUEST, board, enter_application, run
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
        segments = {
            **tables(),
            CODE: a.code([*mapped(), *body]),
            MEMORY + PAGE: struct.pack("<Q", 1),
            MEMORY + 3 * PAGE: struct.pack("<Q", 1000),
        }
        machine = Machine(image_of(segments, CODE), runner=runner, ram=16 << 20, core="max")
        machine.run(len(mapped()) + len(body))
        x = machine.board.pes[0].cpu.engine.x
        found.append((x(10), x(11)))
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
