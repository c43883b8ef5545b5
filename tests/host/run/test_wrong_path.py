"""Operations after mispredicted branches, where a core says that they are sampled."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.host.run.wrong_paths import WrongPaths
from spe_unicorn.spe.packets import Event
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of
from tests.support.random_programs import NZCV, RAM, random_program
from tests.support.random_runs import run_in_pieces, settings_of

CODE = 0x4000_0000
CORE = load_core("neoverse-n2")
ADD, LOAD_PAIR = a.add(2, 2, 3), a.pair(True, 4, 5, 1)
SERIALIZING = a.msr(NZCV, 7)


def program(wrong: list[int]) -> tuple[list[int], int]:
    """BR, first seen and so expected to fall through into ``wrong``; and how far it goes."""
    target = 4 * (2 + 1 + len(wrong))
    words = [a.adr(9, target), a.add(1, 9, 31), a.br(9), *wrong, a.NOP, a.b(0)]
    return words, target


def population(
    wrong: list[int], core: Core = CORE, runner: type[Runner] = Runner
) -> list[tuple[int, int, bool]]:
    """Place, part and whether misspeculated, of each member of the population of a program."""
    words, target = program(wrong)
    assert words[target // 4] == a.NOP
    image = image_of({CODE: a.code(words)}, CODE)
    machine = Machine(image, runner=runner, period=1, core=core, model="cache")
    machine.run(5)
    return [
        ((operation.pc - CODE) // 4, operation.instruction.part, operation.misspeculated)
        for operation in machine.operations
    ]


def expected(wrong: list[tuple[int, int]], target: int) -> list[tuple[int, int, bool]]:
    """ADR, ADD, BR, what is begun after it, the NOP that it goes to, and the endless loop."""
    begun = [(place, part, True) for place, part in wrong]
    last = [(target, 0, False), (target + 1, 0, False)]
    return [(0, 0, False), (1, 0, False), (2, 0, False), *begun, *last]


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_wrong_path_of_a_mispredicted_branch_belongs_to_the_population(
    runner: type[Runner],
) -> None:
    found = population([ADD, LOAD_PAIR, SERIALIZING, ADD], runner=runner)
    assert found == expected([(3, 0), (4, 0), (4, 1)], 7)


def test_walk_ends_at_the_window() -> None:
    core = replace(CORE, numbers=replace(CORE.numbers, wrong_path=3))
    assert population([ADD] * 8, core) == expected([(3, 0), (4, 0), (5, 0)], 11)


def test_walk_follows_direct_branches_and_takes_no_conditional_ones() -> None:
    wrong = [a.b_cond(0, 16), a.b(12), ADD, SERIALIZING, ADD, SERIALIZING]
    assert population(wrong) == expected([(3, 0), (4, 0), (7, 0)], 9)


def test_walk_ends_with_an_indirect_branch() -> None:
    assert population([ADD, a.ret(), ADD]) == expected([(3, 0), (4, 0)], 6)


@pytest.mark.parametrize("word", [a.svc(0), a.udf(0), a.ISB, a.DSB_SY, a.ERET, a.WFE])
def test_walk_ends_in_front_of_what_is_not_begun_speculatively(word: int) -> None:
    assert population([ADD, word, ADD]) == expected([(3, 0)], 6)


def test_architecture_instructions_have_wrong_paths_too_where_a_core_says_so() -> None:
    generic = load_core("generic")
    core = replace(generic, impdef=replace(generic.impdef, speculative=True))
    found = population([ADD, LOAD_PAIR, SERIALIZING], core)
    assert found == expected([(3, 0), (4, 0)], 6)


def test_generic_core_has_no_wrong_paths() -> None:
    assert population([ADD, ADD], load_core("generic")) == expected([], 5)


def test_branch_that_is_predicted_has_no_wrong_path() -> None:
    words = [a.add(2, 2, 3), a.b(8), ADD, a.NOP, a.b(0)]
    image = image_of({CODE: a.code(words)}, CODE)
    machine = Machine(image, period=1, core=CORE, model="cache")
    machine.run(4)
    assert [(o.pc - CODE) // 4 for o in machine.operations] == [0, 1, 3, 4]


def record(machine: Machine, n: int) -> Record:
    """A record, read back."""
    placed = read_record(machine.sampled[n].record, 0)
    assert isinstance(placed, PlacedRecord)
    return placed.record


def test_record_of_a_wrong_path_lacks_the_retired_event_and_addresses() -> None:
    words, _ = program([LOAD_PAIR, SERIALIZING])
    machine = Machine(image_of({CODE: a.code(words)}, CODE), period=1, core=CORE, model="cache")
    machine.run(5)
    branch, wrong, after = (record(machine, n) for n in (2, 3, 5))
    assert machine.operations[3].misspeculated
    assert not wrong.events & (Event.RETIRED | Event.EXCEPTION | Event.MISPREDICTED)
    assert (wrong.va, wrong.pa, wrong.target) == (None, None, None)
    assert wrong.pc is not None
    assert (wrong.op_class, wrong.op_payload) == (1, 0)  # a load of general-purpose registers
    assert branch.events & Event.MISPREDICTED
    assert branch.events & after.events & Event.RETIRED


def guest(result: Result) -> tuple[object, ...]:
    """What the guest can see of its own run."""
    return result.registers, result.vectors, result.memory, result.operations, result.console


def test_wrong_paths_leave_the_guest_alone() -> None:
    image = random_program(3, settings_of(3))
    runs = [
        Machine(image, period=5, core=CORE, model=model, ram=RAM) for model in ("none", "cache")
    ]
    without, with_paths = (machine.run(4000) for machine in runs)
    assert any(o.misspeculated for o in runs[1].operations)
    assert guest(without) == guest(with_paths)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(6))
def test_wrong_paths_are_counted_as_stepped(seed: int) -> None:
    image = random_program(seed, settings_of(seed))
    period = (1, 2, 3, 7, 64, 257)[seed]
    options = {"period": period, "core": CORE, "model": "cache", "ram": RAM, "seed": seed}
    fast, reference, pieces = (
        Machine(image, runner=runner, **options)  # type: ignore[arg-type]
        for runner in (Runner, ReferenceRunner, Runner)
    )
    stepped = reference.run(2000)
    assert fast.run(2000).differences(stepped) == {}
    assert fast.operations == reference.operations
    together = Machine(image, together=True, **options)  # type: ignore[arg-type]
    together.run(2000)
    assert together.streams == reference.streams
    assert run_in_pieces(pieces, 2000, Random(seed)).differences(stepped) == {}


def test_wrong_paths_of_a_program_are_counted_as_stepped() -> None:
    """A sort, whose branches nobody predicts well, sampled far apart as on a machine."""
    fast, reference = (
        Machine("bench_sort", core=CORE, model="cache", period=1024) for _ in range(2)
    )
    for machine in (fast, reference):
        machine.run(1_000_000)
    reference.go_on_with(ReferenceRunner)
    assert fast.run(8000).differences(reference.run(8000)) == {}
    assert sum(o.misspeculated for o in fast.operations) > 20


def sorting(period: int) -> Machine:
    """A sort that has run for a while, with nobody who has to see single records."""
    machine = Machine("bench_sort", core=CORE, model="cache", period=period, together=True)
    machine.run(1_000_000)
    return machine


def test_records_of_wrong_paths_made_together_are_those_of_the_reference() -> None:
    fast, reference = sorting(211), sorting(211)
    reference.go_on_with(ReferenceRunner)
    assert fast.run(6000).differences(reference.run(6000)) == {}
    assert fast.streams == reference.streams
    of_fast, of_reference = fast.board.unit, reference.board.unit
    assert of_fast.tally.counts == of_reference.tally.counts
    assert of_fast.statistics == of_reference.statistics


def test_python_sees_a_wrong_path_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = sorting(211)
    walked: list[int] = []
    walk = WrongPaths.walk

    def counted(self: WrongPaths, start: int) -> list[tuple[int, Instruction]]:
        walked.append(start)
        return walk(self, start)

    monkeypatch.setattr(WrongPaths, "walk", counted)
    before = machine.board.unit.statistics.selected
    machine.run(300_000)
    assert machine.board.unit.statistics.selected - before > 2000
    assert len(walked) <= 2 * len(set(walked)) < 100
