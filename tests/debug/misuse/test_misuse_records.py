"""Records that are read from memory before it is certain that they are there."""

from __future__ import annotations

import pytest

import spe_unicorn
from spe_unicorn.cores.profile import ModelName
from spe_unicorn.debug.misuse import watch_misuse
from spe_unicorn.host.native import reads
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.debug.misuse.drivers import ENABLE, SET_UP, STOP, WORK, found_in, names
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.user_engine import BUFFER, CODE, PMSCR_EL1, end, engine

DSB_NSH, DSB_NSHLD, DSB_NSHST = 0xD503_379F, 0xD503_359F, 0xD503_369F
RECORD = [*a.mov64(11, BUFFER), a.ldr(12, 11)]
PROFILED = [*SET_UP, *ENABLE, *WORK]
DRAIN = [STOP, a.ISB, a.PSB_CSYNC, DSB_NSH]
RULE = "records-not-synchronized"


def test_records_may_be_read_behind_a_drain() -> None:
    assert found_in([*PROFILED, *DRAIN, *RECORD]) == []


@pytest.mark.parametrize("missing", [1, 2, 3], ids=["ISB", "PSB CSYNC", "DSB"])
def test_each_step_in_front_of_a_load_is_needed(missing: int) -> None:
    steps = [step for n, step in enumerate(DRAIN) if n != missing]
    assert found_in([*PROFILED, *steps, *RECORD]) == [RULE]


@pytest.mark.parametrize("barrier", [DSB_NSHLD, DSB_NSHST, a.DMB_ISH, a.ISB])
def test_no_other_barrier_will_do(barrier: int) -> None:
    assert found_in([*PROFILED, *DRAIN[:3], barrier, *RECORD]) == [RULE]


def test_the_dsb_comes_behind_psb_csync() -> None:
    steps = [STOP, a.ISB, DSB_NSH, a.PSB_CSYNC]
    assert found_in([*PROFILED, *steps, *RECORD]) == [RULE]


@pytest.mark.parametrize(
    ("steps", "swapped"),
    [
        ([STOP, a.ISB, DSB_NSH, a.PSB_CSYNC], True),
        ([STOP, a.ISB, a.PSB_CSYNC], False),
        ([STOP, a.ISB, DSB_NSH], False),
    ],
)
def test_a_dsb_that_comes_too_early_is_told_in_words(steps: list[int], swapped: bool) -> None:
    words = [*PROFILED, *steps, *RECORD, a.NOP]
    spe = spe_unicorn.attach(engine(words))
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, end(words))
    said = ": the DSB came before the PSB CSYNC, and belongs after it"
    assert [misuse.what.endswith(said) for misuse in misuses.found] == [swapped]


def test_loads_from_elsewhere_and_stores_are_no_reads_of_records() -> None:
    elsewhere = [*a.mov64(11, BUFFER + 0x8000), a.ldr(12, 11)]
    store = [*a.mov64(11, BUFFER), a.str_(31, 11)]
    assert found_in([*PROFILED, *elsewhere, *store, *DRAIN]) == []


def test_older_records_may_be_read_while_profiling_goes_on() -> None:
    poll = [a.ISB, a.PSB_CSYNC, DSB_NSH]
    assert found_in([*PROFILED, *poll, *WORK, *RECORD, *DRAIN]) == []
    # of 600 and some operations two are sampled; the third record is of those that follow
    third = [*a.mov64(11, BUFFER + 2 * 64), a.ldr(12, 11)]
    assert found_in([*PROFILED, *poll, *WORK, *third, *DRAIN]) == [RULE]


def test_the_place_is_that_of_the_load_and_each_is_found() -> None:
    words = [*PROFILED, STOP, *RECORD, a.NOP, a.ldr(12, 11, 8), *DRAIN, *RECORD, a.NOP]
    spe = spe_unicorn.attach(engine(words))
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, end(words))
    places = [words.index(a.ldr(12, 11)), words.index(a.ldr(12, 11, 8))]
    assert [(m.pc - CODE) // 4 for m in misuses.found] == places
    assert [m.operation for m in misuses.found] == [place + 1 for place in places]
    assert {m.el for m in misuses.found} == {1}


def test_a_load_that_ends_the_run_is_found() -> None:
    words = [*PROFILED, STOP, *RECORD]
    spe = spe_unicorn.attach(engine(words))
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, end(words))
    assert names(misuses) == [RULE]


def test_runs_of_the_users_own_are_taken_to_be_in_order() -> None:
    words = [*PROFILED, STOP, *RECORD, a.msr(PMSCR_EL1, 31), a.NOP]
    load = CODE + 4 * (len(PROFILED) + 1)
    uc = engine(words)
    spe = spe_unicorn.attach(uc)
    misuses = watch_misuse(spe)
    spe.emu_start(CODE, load)
    uc.emu_start(load, end(words))
    assert spe.statistics.written
    assert names(misuses) == []


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_watching_for_it_changes_nothing(runner: type[Runner]) -> None:
    words = [*PROFILED, STOP, *RECORD, a.ldr(12, 11, 8), *DRAIN, *RECORD, a.b(0)]
    image = image_of({CODE: a.code(words)}, CODE)
    plain, watched = (Machine(image, runner=runner) for _ in range(2))
    misuses = watch_misuse(watched.board)
    misuses.identified = True  # what PMBIDR_EL1 says was read before
    assert watched.run(len(words)).differences(plain.run(len(words))) == {}
    assert names(misuses) == [RULE] * 2


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_loads_are_looked_at_only_while_records_wait(
    runner: type[Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "_PATIENCE", 100)
    removed: list[int] = []
    remove = reads.NoticedLoads.remove_hook

    def note(loads: reads.NoticedLoads) -> None:
        removed.append(loads._executed())
        remove(loads)

    monkeypatch.setattr(reads.NoticedLoads, "remove_hook", note)
    pause = [*PROFILED, *DRAIN, *WORK]
    words = [*pause, *pause, *PROFILED, STOP, *RECORD, *DRAIN, a.b(0)]
    image = image_of({CODE: a.code(words)}, CODE)
    plain, watched = (Machine(image, runner=runner) for _ in range(2))
    misuses = watch_misuse(watched.board)
    misuses.identified = True  # what PMBIDR_EL1 says was read before
    assert watched.run(len(words)).differences(plain.run(len(words))) == {}
    drained = len(PROFILED) + len(DRAIN)
    assert removed == [drained + 100, len(pause) + drained + 200]
    assert set(names(misuses)) == {RULE, "write-while-buffer-enabled"}


@pytest.mark.sweep
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("accelerators", ["", "none"])
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_a_load_in_a_loop_is_found_at_the_first_byte_of_a_record(
    size: int,
    runner: type[Runner],
    accelerators: str,
    model: ModelName,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks look at loads by themselves once they have run twice.

    The first two records are certain. So the first byte of the third is none at which the engine
    looks for a translation.
    """
    monkeypatch.setenv("SPE_UNICORN_ACCELERATORS", accelerators)
    poll = [a.ISB, a.PSB_CSYNC, DSB_NSH]
    start = [*PROFILED, *poll, *WORK, STOP, *a.mov64(11, BUFFER)]
    loop = [a.ldr(12, 11, 0, size=size), a.add_imm(11, 11, 1), a.b(-8)]
    machine = Machine(image_of({CODE: a.code([*start, *loop])}, CODE), runner=runner, model=model)
    misuses = watch_misuse(machine.board)
    misuses.identified = True  # what PMBIDR_EL1 says was read before
    third = BUFFER + 2 * 64
    address = third - (1 << size) + 1
    rounds = address - BUFFER
    machine.run(len(start) + 30)  # there is room for the code of blocks after a stop
    machine.run(3 * (rounds + 30))
    assert [(m.rule.name, m.operation) for m in misuses.found] == [
        (RULE, len(start) + 3 * rounds + 1)
    ]
    assert f"address {address:#x}," in misuses.found[0].what
    if runner is Runner and not accelerators:
        assert machine.board.cpu.hooks.counted_inline.blocks
