"""Programs on several PEs: they pass, they run the same twice, and each PE samples only itself."""

from __future__ import annotations

import pytest

from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.profile import ModelName, core_names
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.firmware.conftest import WholeRun
from tests.firmware.programs import assert_passed
from tests.support.machine_runs import Machine

PES = 4
PROGRAMS = ("priv_smp", "spe_smp")
MODELS: tuple[ModelName, ...] = ("none", "cache")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_passes_its_own_checks(name: str, whole_run: WholeRun) -> None:
    assert_passed(whole_run(name, smp=PES))


@pytest.mark.parametrize(
    ("core", "model"),
    [
        ("neoverse-n1", "cache"),
        ("max", "cache"),
        ("minimal", "none"),
        ("neoverse-v2", "none"),
        *(pytest.param(c, m, marks=pytest.mark.slow) for c in core_names() for m in MODELS),
    ],
)
def test_each_pe_samples_only_itself_on_every_core(
    core: str, model: ModelName, whole_run: WholeRun
) -> None:
    assert_passed(whole_run("spe_smp", smp=PES, core=core, model=model))


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_run_is_the_same_byte_for_byte(name: str, whole_run: WholeRun) -> None:
    assert Machine(name, smp=PES).run().differences(whole_run(name, smp=PES)) == {}


@pytest.mark.parametrize("name", PROGRAMS)
def test_run_in_pieces_is_the_same_byte_for_byte(name: str, whole_run: WholeRun) -> None:
    machine = Machine(name, smp=PES)
    pieces = 0
    while machine.board.run(997) is Ending.LIMIT:
        pieces += 1
        assert machine.board.executed == 997 * pieces
    assert machine.result(Ending.EXIT).differences(whole_run(name, smp=PES)) == {}


def test_steps_give_the_same_as_runs() -> None:
    fast, reference = (Machine("spe_smp", smp=PES, runner=r) for r in (Runner, ReferenceRunner))
    window = 60_000
    assert fast.run(window).differences(reference.run(window)) == {}


@pytest.mark.sweep
def test_steps_give_the_same_as_runs_with_caches() -> None:
    fast, reference = (
        Machine("spe_smp", smp=PES, core="max", model="cache", runner=runner)
        for runner in (Runner, ReferenceRunner)
    )
    window = 60_000
    assert fast.run(window).differences(reference.run(window)) == {}
    models = fast.board.models
    assert len({id(m.data.last) for m in models if isinstance(m, CacheModel)}) == 1
    assert len({id(m.data) for m in models if isinstance(m, CacheModel)}) == PES


def test_more_pes_than_a_program_starts_stay_off(whole_run: WholeRun) -> None:
    alone, among_eight = whole_run("hello"), whole_run("hello", smp=8)
    assert among_eight.operations == alone.operations
    assert among_eight.console == alone.console
