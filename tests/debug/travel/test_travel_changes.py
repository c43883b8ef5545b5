"""Back in time over what somebody outside wrote: the writes are part of the history."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug import travel as travelling
from spe_unicorn.debug.travel import PastError, Travel
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.small_programs import SLEEP, program

COUNTING = a64.code([a64.add_imm(0, 0, 1), a64.add_imm(1, 1, 1), a64.b(-8)])
"""X0 counts rounds of three operations, and X1 too."""
ROUND = 3


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots close to each other, so that there are many."""
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 500)
    monkeypatch.setattr(travelling, "_FOR_A_PAGE", 0)


@pytest.fixture
def counting(tmp_path: Path) -> Machine:
    return Machine(program(tmp_path, COUNTING))


def write(machine: Machine, travel: Travel, value: int) -> None:
    machine.pes[0].x[0] = value
    travel.changed()


def test_the_past_of_a_write_is_kept(counting: Machine) -> None:
    travel = Travel(counting.board)
    travel.run(3000)
    write(counting, travel, 50_000)
    travel.run(3000)
    assert counting.pes[0].x[0] == 51_000
    assert (travel.begin, travel.end, travel.writes) == (0, 6000, [3000])
    for at, x0 in ((2997, 999), (3000, 50_000), (2999, 1000), (3003, 50_001), (6000, 51_000)):
        travel.back_to(at)
        assert counting.pes[0].x[0] == x0
    travel.back_to(1500)
    travel.run(3000)  # over the write, forwards
    assert (counting.pes[0].x[0], counting.pes[0].x[1]) == (50_500, 1500)


def test_steps_back_pass_a_write(counting: Machine) -> None:
    travel = Travel(counting.board)
    travel.run(30)
    write(counting, travel, 500)
    travel.run(2)
    found = []
    for _ in range(4):
        found.append((travel.position, counting.pes[0].x[0]))
        travel.step_back()
    assert found == [(32, 501), (31, 501), (30, 500), (29, 10)]


def test_a_write_in_the_past_forgets_what_had_come_after_it_alone(counting: Machine) -> None:
    travel = Travel(counting.board)
    travel.run(6000)
    travel.back_to(3000)
    write(counting, travel, 7)
    assert travel.forgets_up_to == 6000
    assert not travel.forgets_past
    assert (travel.begin, travel.end) == (0, 3000)
    travel.run(30)
    assert travel.forgets_up_to is None
    assert (travel.begin, travel.end) == (0, 3030)
    assert counting.pes[0].x[0] == 17
    travel.back_to(300)
    assert counting.pes[0].x[0] == 100
    travel.back_to(3030)
    assert counting.pes[0].x[0] == 17
    with pytest.raises(ValueError, match="has not come yet"):
        travel.back_to(3031)


def test_writes_at_one_place_are_one(counting: Machine) -> None:
    travel = Travel(counting.board)
    travel.run(300)
    write(counting, travel, 1)
    counting.pes[0].x[1] = 2
    travel.changed()
    travel.back_to(0)
    travel.back_to(300)
    assert (counting.pes[0].x[0], counting.pes[0].x[1]) == (1, 2)
    write(counting, travel, 3)
    travel.back_to(200)
    travel.back_to(300)
    assert (counting.pes[0].x[0], counting.pes[0].x[1]) == (3, 2)
    assert travel.writes == [300]


def test_a_write_at_the_beginning_is_the_beginning(counting: Machine) -> None:
    travel = Travel(counting.board)
    write(counting, travel, 9)
    travel.run(30)
    assert (travel.begin, travel.writes) == (0, [])
    travel.back_to(0)
    assert counting.pes[0].x[0] == 9
    with pytest.raises(PastError):
        travel.step_back()


def test_a_write_outlives_that_snapshots_are_thinned_out(
    counting: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 30)
    monkeypatch.setattr(travelling, "_MOST", 12)
    travel = Travel(counting.board)
    expected = {}
    for n in range(1, 9):
        travel.run(90)
        write(counting, travel, n << 20)
        expected[travel.position] = n << 20
    travel.run(30_000)
    assert travel.writes == list(expected)
    for at, x0 in expected.items():
        travel.back_to(at + ROUND)
        assert counting.pes[0].x[0] == x0 + 1
        travel.back_to(at - ROUND)
        assert counting.pes[0].x[0] < x0


def test_a_write_wakes_a_guest_that_slept_for_ever_also_in_a_replay(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, SLEEP + COUNTING))
    travel = Travel(machine.board)
    assert travel.run() is Ending.ASLEEP
    slept = travel.position
    machine.pes[0].pc = RAM + len(SLEEP)
    machine.board.pes[0].wake()
    travel.changed()
    for _ in range(10):
        assert travel.run(3) is Ending.LIMIT
    travel.back_to(0)
    assert travel.run(slept + 33) is Ending.LIMIT
    assert machine.pes[0].x[0] == 11


def test_a_reset_is_a_part_of_the_history(counting: Machine) -> None:
    travel = Travel(counting.board)
    travel.run(300)
    counting.board.begin_again()
    travel.changed()
    travel.run(30)
    assert counting.pes[0].x[0] in (10, 110)
    end = counting.pes[0].x[0]
    travel.back_to(299)
    assert counting.pes[0].x[1] == 100
    travel.back_to(330)
    assert counting.pes[0].x[0] == end


def test_where_another_moment_is_loaded_the_past_begins(counting: Machine) -> None:
    travel = Travel(counting.board)
    saved = counting.save()
    travel.run(300)
    counting.restore(saved)
    travel.changed()
    assert travel.forgets_past
    assert travel.forgets_up_to is None
    travel.run(30)
    assert (travel.begin, travel.end, counting.pes[0].x[0]) == (0, 30, 10)
    travel.back_to(15)
    assert counting.pes[0].x[0] == 5


Write = Callable[[Machine], None]


def writes(chance: random.Random) -> Write:
    """A write of a register that the program's course does not depend on, or of memory."""
    value = chance.getrandbits(64)
    number = chance.choice((16, 17, 18))
    cell = RAM + 0x10_0000 + 8 * chance.randrange(1000)

    def register(machine: Machine) -> None:
        machine.pes[0].x[number] = value

    def memory(machine: Machine) -> None:
        machine.memory.write_int(cell, value)

    return chance.choice((register, memory))


def seen(machine: Machine) -> tuple[object, ...]:
    return (
        machine.operations,
        [pe.pc for pe in machine.pes],
        [[pe.x[n] for n in range(31)] for pe in machine.pes],
        machine.memory.read(RAM, 0x10_2000),
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_history_with_writes_is_that_of_a_machine_that_is_written_on_its_way(seed: int) -> None:
    chance = random.Random(seed)
    name, options = chance.choice((("spe_irq_el1", {}), ("spe_smp", {"smp": 4})))
    plain, machine = (Machine(shipped_firmware(name), **options) for _ in range(2))
    travel = Travel(machine.board)
    history: dict[int, list[Write]] = {}
    for _ in range(12):
        if chance.random() < 0.5:
            travel.run(chance.randrange(1, 3000))
        else:
            travel.back_to(chance.randrange(travel.begin, travel.end + 1))
        if chance.random() < 0.7:
            made = writes(chance)
            made(machine)
            travel.changed()
            here = travel.position
            history = {at: done for at, done in history.items() if at <= here}
            history.setdefault(here, []).append(made)
    travel.run(2000)
    places = sorted({*history, *(chance.randrange(travel.end) for _ in range(4)), travel.end})
    expected = {}
    for at in places:
        while plain.operations < at:
            ends = min([w for w in history if plain.operations < w <= at], default=at)
            plain.run(operations=ends - plain.operations)
            for made in history.get(plain.operations, ()):
                made(plain)
        if at == 0:
            for made in history.get(0, ()):
                made(plain)
        expected[at] = seen(plain)
    chance.shuffle(places)
    for at in places:
        travel.back_to(at)
        assert seen(machine) == expected[at]
