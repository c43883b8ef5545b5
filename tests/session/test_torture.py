"""The search over implementations: by seeds only, and down to what makes the guest fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.arch.rules.choices import CHOICE, ROWS, Choice
from spe_unicorn.cores.overrides import core_text
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.session.torture.search import (
    Choices,
    NoChoiceError,
    Search,
    Verdict,
    drawn,
    tried_names,
)
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import CPU_ON, psci
from tests.support.user_engine import (
    BUFFER,
    CODE,
    DATA,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    program,
)

NAMES = tried_names()
OPERATIONS = 5000


def fails_late(trials: Sequence[Choices]) -> Iterator[Verdict]:
    """A guest that fails where a write at operation 1234 is late."""
    for choices in trials:
        window = range(choices.get("late_from", 0), choices.get("late_until", 0) or OPERATIONS)
        bad = "late_writes" in choices and 1234 in window
        yield Verdict("not ok 1" if bad else "", OPERATIONS)


def test_a_trial_depends_on_its_seed_and_number_only() -> None:
    assert drawn("max", 3, 5, NAMES) == drawn("max", 3, 5, NAMES)
    assert len({str(drawn("max", 3, number, NAMES)) for number in range(20)}) > 15


@pytest.mark.parametrize("core", ["max", "generic", "neoverse-n1", "minimal"])
def test_each_trial_is_a_core_that_there_can_be(core: str) -> None:
    for number in range(40):
        choices = drawn(core, 1, number, NAMES)
        impdef = load_core(core_text(core, choices)).impdef
        assert {name: getattr(impdef, name) for name in choices} == choices


def test_a_finding_has_the_one_choice_and_the_one_operation_that_matter() -> None:
    (finding,) = Search("max", fails_late).search(0, 60, NAMES)
    assert finding.choices.keys() == {"late_writes", "late_from", "late_until"}
    assert (finding.choices["late_from"], finding.choices["late_until"]) == (1234, 1235)
    assert len(finding.trials) > 1


def test_two_choices_that_fail_together_are_both_named() -> None:
    def fails(trials: Sequence[Choices]) -> Iterator[Verdict]:
        for choices in trials:
            bad = {"packet_order", "count_size"} <= choices.keys()
            yield Verdict("not ok 1" if bad else "", OPERATIONS)

    (finding,) = Search("max", fails).search(0, 100, NAMES)
    assert finding.choices.keys() == {"packet_order", "count_size"}


def test_only_some_choices_can_be_asked_for() -> None:
    only = tried_names(["late_bytes"])
    assert drawn("max", 0, 0, only) == {"late_bytes": True}
    with pytest.raises(ValueError, match="late_byte: no such choice; there are buffer_locked, "):
        tried_names(["late_byte"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_choice_allows_its_default_and_what_it_draws(row: Choice) -> None:
    assert row.values.allows(getattr(ImpDef(), row.name))
    random = RandomStream(9)
    if row.tried:
        assert all(row.values.allows(row.values.draw(random)) for _ in range(50))
        assert row.safe
    assert row.rule
    assert CHOICE[row.name] is row


@pytest.mark.sweep
@pytest.mark.parametrize(
    "choices",
    [
        "late_writes=64",
        pytest.param("late_records=8", marks=pytest.mark.slow),
        pytest.param("late_bytes=on", marks=pytest.mark.slow),
        "buffer_locked=on",
        pytest.param("packet_order=5", marks=pytest.mark.slow),
        pytest.param("stale_status=256", marks=pytest.mark.slow),
        "stale_counter=256,max_buffer=8,previous_target_of_branches=on,unknown_values=3",
    ],
)
def test_both_runners_obey_a_choice(choices: str) -> None:
    """Into the first session of a driver, which takes up to about 234,000 operations."""
    found = []
    for options in ({}, {"runner": ReferenceRunner}):
        machine = Machine("spe_silicon", core=f"max,{choices}", **options)
        result = machine.run(140_000)
        found.append((result.console, result.records, machine.board.executed))
    assert found[0] == found[1]
    assert found[0][1]


PMCNTENSET, PMCCNTR = (3, 3, 9, 12, 1), (3, 3, 9, 13, 0)
SVC, ERET = 0xD400_0001, 0xD69F_03E0
VECTORS = DATA + 0x6_0000
DSB_NSH = 0xD503_379F
VBAR_EL1 = (3, 0, 12, 0, 0)


def set_up() -> list[int]:
    """A driver that hurries: nothing is synchronized but what has to be in order to end."""
    written = (
        *((PMSCR_EL1, 0), (PMBLIMITR_EL1, 0), (PMBSR_EL1, 0), (PMBPTR_EL1, BUFFER)),
        *((PMSFCR_EL1, 0), (PMSIRR_EL1, 0x101), (PMSICR_EL1, 9), (VBAR_EL1, VECTORS)),
        *((PMBLIMITR_EL1, BUFFER + 0x1000 | 1), (PMCNTENSET, 1 << 31), (PMSCR_EL1, 0b1010)),
    )
    return [
        word for register, value in written for word in (*a.mov64(9, value), a.msr(register, 9))
    ]


HURRIED = [
    *set_up(),
    *program(120)[:-1],
    *(SVC, a.mrs(20, PMBPTR_EL1), a.mrs(21, PMSICR_EL1), a.mrs(22, PMCCNTR)),
    *program(150)[:-1],
    *(a.mrs(23, PMBSR_EL1), a.msr(PMBLIMITR_EL1, 31), a.msr(PMSCR_EL1, 31), a.mrs(24, PMBPTR_EL1)),
    *(a.ISB, a.PSB_CSYNC, DSB_NSH, a.ISB, a.mrs(25, PMBPTR_EL1), a.mrs(26, PMBSR_EL1), a.b(0)),
]
COMBINED = [name for name in NAMES if name != "programming_denied"]


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(12))
def test_both_runners_obey_any_choices_together(number: int) -> None:
    """Each choice is drawn in some of these; what is stale, late, lost or written is the same."""
    choices = drawn("max", 17, number, COMBINED)
    found = []
    for options in ({}, {"runner": ReferenceRunner}):
        code = {CODE: a.code(HURRIED), VECTORS + 0x200: a.code([ERET])}
        machine = Machine(image_of(code, CODE), core=core_text("max", choices), **options)
        machine.run(6_000)
        board = machine.board
        registers = [board.cpu.engine.x(n) for n in range(31)]
        found.append((registers, board.memory.read(BUFFER, 0x1000), board.executed))
        sampler = board.pes[0].unit
        assert sampler.statistics.population > 1500 or "buffer_locked" in choices
    assert found[0] == found[1], choices


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    "others", ["", ",late_records=4,late_writes=16", ",max_sampled_operations=2"]
)
def test_both_runners_obey_the_erratum_of_one_core(others: str) -> None:
    found = []
    for options in ({}, {"runner": ReferenceRunner}):
        code = {CODE: a.code(HURRIED), VECTORS + 0x200: a.code([ERET])}
        core = f"neoverse-n1,erratum_1694299=on{others}"
        machine = Machine(image_of(code, CODE), core=core, **options)
        machine.run(6_000)
        board = machine.board
        registers = [board.cpu.engine.x(n) for n in range(31)]
        found.append((registers, board.memory.read(BUFFER, 0x1000), board.pes[0].unit.statistics))
    assert found[0] == found[1]
    assert found[0][2].written > 2


def test_those_together_are_all_choices() -> None:
    found = [drawn("max", 17, number, COMBINED) for number in range(12)]
    never = {"record_slots", "flag_update"}  # max has FEAT_SPE_PBT and FEAT_SPEv1p3
    never.add("erratum_1694299")  # and is no Neoverse N1
    assert {name for choices in found for name in choices} == set(COMBINED) - never


@pytest.mark.sweep
def test_both_runners_obey_a_late_overflow() -> None:
    found = []
    for options in ({}, {"runner": ReferenceRunner}):
        machine = Machine("pmu_overflow", core="max,late_overflow=16", **options)
        result = machine.run(40_000)
        found.append((result.console, machine.board.executed))
    assert found[0] == found[1]


@pytest.mark.sweep
def test_barriers_order_spe_where_writes_of_counters_are_late_as_well() -> None:
    """A right driver drains by them; one that was not told of them would miss its records."""
    core = "max,late_pmu_writes=2,stale_status=4096,late_records=4,late_bytes=on"
    result = Machine("spe_silicon", core=core).run()
    assert result.exit_status == 0
    assert b"not ok" not in result.console


def test_a_driver_leaves_alone_what_it_may_not_program() -> None:
    """PMBIDR_EL1.P is 1: an access to another register would trap, and nobody serves that."""
    result = Machine("spe_silicon", core="max,programming_denied=on").run()
    assert result.exit_status == 0
    assert b"1..0 # SKIP there is no SPE that EL1 may use" in result.console


def test_a_run_that_takes_too_long_is_given_up_and_is_no_finding() -> None:
    def slow(trials: Sequence[Choices]) -> Iterator[Verdict]:
        for choices in trials:
            yield Verdict("", 0, "it took long" if "late_bytes" in choices else "")

    told: list[str] = []
    search = Search("max", slow, told.append)
    assert search.search(0, 20, NAMES) == []
    late = [number for number in range(20) if "late_bytes" in drawn("max", 0, number, NAMES)]
    assert search.undecided == late
    assert late
    assert told[0] == f"trial {late[0]} was given up: it took long"


def test_a_core_without_another_value_is_a_sentence() -> None:
    """max has FEAT_SPEv1p3, by which records always update flags."""
    with pytest.raises(NoChoiceError, match="max has no other value of flag_update"):
        drawn("max", 0, 0, ["flag_update"])


FLAGS, SECOND = DATA + 0x7_0000, CODE + 0x8000
PSB_WAS, SAW, DSB_WAS, BEFORE, AFTER = range(0, 40, 8)


def wait_for(flag: int) -> list[int]:
    return [a.ldr(11, 8, flag), a.cbz(11, -4)]


@pytest.mark.parametrize(
    ("choice", "visible"), [("late_bytes=on", False), ("late_bytes=off", True)]
)
def test_another_pe_sees_a_record_only_after_psb_csync_and_dsb(choice: str, visible: bool) -> None:
    """Arm ARM D17.9: until the DSB the writes of records need not have completed."""
    first = [
        *psci(CPU_ON, 1, SECOND, 0),
        *set_up(),
        *program(120)[:-1],
        *(a.msr(PMSCR_EL1, 31), a.ISB, a.PSB_CSYNC, *a.mov64(8, FLAGS), a.movz(10, 1)),
        *(a.str_(10, 8, PSB_WAS), *wait_for(SAW), DSB_NSH, a.str_(10, 8, DSB_WAS), a.b(0)),
    ]
    second = [
        *(*a.mov64(8, FLAGS), *a.mov64(9, BUFFER), a.movz(10, 1), *wait_for(PSB_WAS)),
        *(a.ldr(12, 9), a.str_(12, 8, BEFORE), a.str_(10, 8, SAW), *wait_for(DSB_WAS)),
        *(a.ldr(12, 9), a.str_(12, 8, AFTER), a.b(0)),
    ]
    code = {CODE: a.code(first), SECOND: a.code(second)}
    machine = Machine(image_of(code, CODE), core=f"max,{choice}", smp=2)
    machine.run(60_000)
    saw = machine.board.memory.read(FLAGS, 40)
    assert saw is not None
    before, after = (int.from_bytes(saw[at : at + 8], "little") for at in (BEFORE, AFTER))
    assert bool(before) == visible
    assert after
