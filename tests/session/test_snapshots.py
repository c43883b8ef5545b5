"""Snapshots in memory: a machine that is restored goes on as the one that was saved."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from spe_unicorn import Machine, Sampling
from spe_unicorn.machine.shipped import shipped_firmware, shipped_names
from spe_unicorn.machine.snapshot.board_state import NotAtRestError
from spe_unicorn.parts import parts_of
from spe_unicorn.session.runs import MachineEndedError
from spe_unicorn.session.snapshot import SnapshotError
from spe_unicorn.session.snapshot_file import read_snapshot, write_snapshot
from spe_unicorn.stateful import Stateful
from tests.firmware.programs import MADE_FOR, TYPED
from tests.support.claims import objects, state_of
from tests.support.elf_builder import RAM
from tests.support.small_programs import EXIT_7, LOOP, program

COPY = shipped_firmware("spe_copy")
MOST = 500_000
"""Operations of a program that are looked at."""


def made(name: str, **options: object) -> Machine:
    machine = Machine(shipped_firmware(name), **{**MADE_FOR.get(name, {}), **options})
    machine.console.type(TYPED.get(name, b""))
    return machine


def run(machine: Machine, most: int = MOST) -> tuple[object, ...]:
    outcome = machine.run(operations=most - machine.operations)
    return (
        outcome.ending,
        outcome.exit_status,
        outcome.shares,
        machine.console.output,
        machine.secure_console.output,
        [pe.records.raw for pe in machine.pes],
        [pe.pc for pe in machine.pes],
    )


@pytest.mark.sweep
@pytest.mark.parametrize("most", [200_000, pytest.param(1_500_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", shipped_names())
def test_every_firmware_goes_on_as_if_nothing_had_been(name: str, most: int) -> None:
    plain = made(name)
    whole = run(plain, most)
    at = random.Random(crc32(name.encode())).randrange(1, plain.operations)
    saved, other = made(name), made(name)
    saved.run(operations=at)
    snapshot = saved.save()
    other.run(operations=at // 2)
    other.restore(snapshot)
    assert snapshot.operations == at
    assert run(saved, most) == whole
    assert run(other, most) == whole


def test_a_machine_goes_back_again_and_again() -> None:
    machine = made("spe_irq_el1")
    machine.run(operations=300_000)
    snapshot = machine.save()
    first = run(machine)
    for _ in range(2):
        machine.restore(snapshot)
        assert machine.operations == 300_000
        assert run(machine) == first


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spe_model", {"model": "cache", "core": "neoverse-v2"}),
        ("mix", {"core": "neoverse-v2", "model": "cache"}),
        ("mix", {"core": "neoverse-n1,strict=off"}),
        ("mix", {"sampling": Sampling(700)}),
        ("spe_sve", {"core": "max"}),
        ("spe_counters", {"core": "minimal"}),
        ("spe_events", {"core": "max", "el": 2}),
        ("priv_gic_secure", {"secure": True, "el": 3}),
    ],
)
def test_it_goes_on_from_many_places(name: str, options: dict[Any, Any]) -> None:
    plain = made(name, **options)
    whole = run(plain)
    places = random.Random(1)
    machine, other = made(name, **options), made(name, **options)
    for at in sorted(places.randrange(1, plain.operations) for _ in range(8)):
        machine.run(operations=at - machine.operations)
        other.restore(machine.save())
        assert run(other) == whole
    assert run(machine) == whole


MACHINES = {
    "driver with interrupts": ("spe_irq_el1", {}),
    "several PEs": ("spe_smp", {"smp": 4}),
    "two Security states": ("priv_gic_secure", {"secure": True}),
    "cache model": ("spe_model", {"model": "cache", "core": "neoverse-v2"}),
    "sampled from outside": ("mix", {"sampling": Sampling(1000)}),
}


@pytest.mark.parametrize("name", MACHINES)
def test_everything_that_has_state_is_a_part(name: str) -> None:
    firmware, options = MACHINES[name]
    machine = Machine(shipped_firmware(firmware), **options)
    parts = {id(part) for part in parts_of(machine.board).values()}
    missing = [
        path
        for path, thing in objects(machine.board, lambda cls: False)
        if (isinstance(thing, Stateful) or state_of(type(thing)) - {"s"})
        and id(thing) not in parts
        and not type(thing).__module__.startswith("spe_unicorn.session")
    ]
    assert missing == []


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_restored_is_what_was_saved(name: str) -> None:
    firmware, options = MACHINES[name]
    machine, other = (Machine(shipped_firmware(firmware), **options) for _ in range(2))
    machine.run(operations=20_011)
    snapshot = machine.save()
    other.run(operations=5_000)
    other.restore(snapshot)
    again = other.save()
    assert again.board.parts.keys() == snapshot.board.parts.keys()
    for path, state in snapshot.board.parts.items():
        assert repr(again.board.parts[path]) == repr(state), path
    assert again.board.memory == snapshot.board.memory


def test_memory_that_is_as_before_takes_no_more_room() -> None:
    machine = made("spe_copy")
    machine.run(operations=100_000)
    first = machine.save()
    machine.run(operations=1)
    second = machine.save(first)
    assert len(second.board.memory.pages) >= len(first.board.memory.pages)
    assert len(second.board.memory.since(first.board.memory)) <= 1


def test_a_page_that_holds_zeros_again_is_zeros_when_it_is_restored(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, LOOP))
    memory = machine.memory
    here, there = RAM + 0x10_0000, RAM + 0x20_0000
    memory.write_int(here, 0xAB)
    first = machine.save()
    memory.write_int(here, 0)
    memory.write_int(there, 0xCD)
    second = machine.save(first)
    assert here in first.board.memory.pages
    assert here not in second.board.memory.pages  # zeros are what is not there
    assert not any(page == bytes(4096) for page in second.board.memory.pages.values())
    assert second.board.memory.since(first.board.memory).keys() == {here, there}
    write_snapshot(second, tmp_path / "second.snap")
    assert read_snapshot(tmp_path / "second.snap").board.memory == second.board.memory
    machine.restore(first)
    assert (memory.read_int(here), memory.read_int(there)) == (0xAB, 0)
    machine.restore(second)
    assert (memory.read_int(here), memory.read_int(there)) == (0, 0xCD)


def test_a_large_machine_costs_what_it_used(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, LOOP), ram=8 << 30)
    machine.run(operations=1000)
    assert machine.save().board.memory.size < 4 << 20


def test_a_guest_that_ended_can_be_taken_back(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, EXIT_7))
    begin = machine.save()
    assert machine.run().exit_status == 7
    end = machine.save()
    machine.restore(begin)
    assert machine.run().exit_status == 7
    machine.restore(end)
    with pytest.raises(MachineEndedError):
        machine.run()


def test_a_snapshot_of_another_machine_is_refused_and_nothing_changes() -> None:
    machine = made("spe_copy")
    snapshot = machine.save()
    other = made("spe_copy", smp=2)
    with pytest.raises(SnapshotError, match="another machine: `smp` is 2 here and 1 in the snap"):
        other.restore(snapshot)
    with pytest.raises(SnapshotError, match=r"other contents|command line"):
        made("hello").restore(snapshot)
    assert other.operations == 0


def test_a_machine_that_runs_is_not_saved() -> None:
    machine = made("spe_copy")
    seen: list[Exception] = []

    def save(_: object) -> None:
        with pytest.raises(NotAtRestError, match="between two runs") as raised:
            machine.save()
        seen.append(raised.value)

    machine.observe("console", save)
    machine.run()
    assert seen


def test_what_was_typed_and_not_read_is_read_after_restoring() -> None:
    machine = made("uart_echo")
    snapshot = machine.save()
    run(machine)
    assert b"HELLO" in machine.console.output
    machine.restore(snapshot)
    assert machine.console.output == b""
    run(machine)
    assert b"HELLO" in machine.console.output
