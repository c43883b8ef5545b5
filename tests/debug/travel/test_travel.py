"""Back in time: where the machine has been it was the same, and nothing is told twice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug import travel as travelling
from spe_unicorn.debug.travel import InterruptedTravelError, PastError, Travel
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.console_ends import ConsoleEnds, always
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64
from tests.support.elf_builder import RAM, Sym
from tests.support.small_programs import ECHO, program


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots close to each other, so that there are many."""
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 5_000)
    monkeypatch.setattr(travelling, "_FOR_A_PAGE", 1)


def seen(machine: Machine) -> tuple[object, ...]:
    """What a debugger would see."""
    return (
        machine.operations,
        [pe.pc for pe in machine.pes],
        [[pe.x[n] for n in range(31)] for pe in machine.pes],
        machine.memory.read(RAM, 1 << 20),
        [pe.unit.statistics.written for pe in machine.board.pes],
    )


def made(name: str = "spe_irq_el1", **options: object) -> Machine:
    return Machine(shipped_firmware(name), **options)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("spe_irq_el1", {}),
        ("spe_smp", {"smp": 4}),
        ("priv_timer", {}),
        ("spe_model", {"model": "cache"}),
        ("priv_gic_secure", {"secure": True, "el": 3}),
    ],
)
def test_a_place_that_was_left_is_as_it_was(
    name: str, options: dict[Any, Any] | dict[str, int] | dict[str, str]
) -> None:
    plain, machine = made(name, **options), made(name, **options)
    travel = Travel(machine.board)
    travel.run(30_000)
    end = travel.end
    places = random.Random(4)
    for at in [places.randrange(end) for _ in range(6)]:
        travel.back_to(at)
        other = made(name, **options)
        other.run(operations=at)
        assert seen(machine) == seen(other)
        assert travel.replaying
    travel.back_to(end)
    assert not travel.replaying
    plain.run(operations=end)
    assert seen(machine) == seen(plain)
    ending = travel.run(1_500_000)
    outcome = plain.run(operations=1_500_000)
    assert (ending is Ending.EXIT) == (outcome.ending == "exit")
    assert seen(machine) == seen(plain)
    assert machine.console.output == plain.console.output
    assert [pe.records.raw for pe in machine.pes] == [pe.records.raw for pe in plain.pes]


def test_a_step_back_undoes_one_operation_of_its_pe() -> None:
    machine = made("spe_smp", smp=4)
    travel = Travel(machine.board)
    travel.run(200_000)
    started = [pe.number for pe in machine.board.pes if pe.cpu.executed > 1000]
    assert len(started) > 1
    for number in started:
        travel.back_to(travel.end)
        before = [pe.cpu.executed for pe in machine.board.pes]
        travel.step_back(number)
        after = [pe.cpu.executed for pe in machine.board.pes]
        assert after[number] == before[number] - 1
        assert all(new <= old for new, old in zip(after, before, strict=True))


def test_steps_back_go_through_every_operation() -> None:
    machine, plain = made(), made()
    travel = Travel(machine.board)
    travel.run(10_003)
    pcs = []
    for _ in range(8):
        travel.step_back()
        pcs.append(machine.pes[0].pc)
    plain.run(operations=9_995)
    expected = []
    for _ in range(8):
        expected.append(plain.pes[0].pc)
        plain.step()
    assert pcs == expected[::-1]


CALLS = a64.code(
    [
        a64.movz(0, 20_000),
        a64.bl(0x14),  # call: leaf, 20,000 times
        a64.sub_imm(0, 0, 1),
        a64.cbnz(0, -8),
        a64.b(0),
        *(0xD503201F,),
        *(a64.add_imm(1, 1, 1), a64.ret()),  # leaf
    ]
)
LEAF = RAM + 0x18
OPERATIONS_OF_A_CALL = 5


@pytest.fixture
def calls(tmp_path: Path) -> Machine:
    symbols = (Sym("_start", RAM, 0x18), Sym("leaf", LEAF, 8))
    return Machine(program(tmp_path, CALLS, symbols))


def test_back_to_the_last_time_that_a_place_was_come_to(calls: Machine) -> None:
    travel = Travel(calls.board)
    travel.run(50_000)
    run = travel.up_to(LEAF)
    # leaf is come to after 2 operations, and then every 5
    last = 2 + (50_000 - 1 - 2) // OPERATIONS_OF_A_CALL * OPERATIONS_OF_A_CALL
    for n in range(3):
        travel.back_to_stop(run)
        assert travel.position == last - n * OPERATIONS_OF_A_CALL
        assert calls.pes[0].pc == LEAF


def test_a_place_where_a_snapshot_was_taken_is_not_missed(
    calls: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 10 * OPERATIONS_OF_A_CALL)
    calls.run(operations=2)
    travel = Travel(calls.board)  # all snapshots are taken where leaf is come to
    travel.run(1000)
    run = travel.up_to(LEAF)
    positions = []
    for _ in range(199):
        travel.back_to_stop(run)
        positions.append(travel.position)
    assert positions == list(range(1002 - OPERATIONS_OF_A_CALL, 2, -OPERATIONS_OF_A_CALL))
    with pytest.raises(PastError):
        travel.back_to_stop(run)
    assert travel.position == travel.begin == 2


def test_going_forwards_in_the_past_stops_where_it_stopped_before(calls: Machine) -> None:
    travel = Travel(calls.board)
    travel.run(20_000)
    travel.back_to(10_000)
    assert travel.run(until=LEAF) is Ending.UNTIL
    assert travel.position == 10_002
    assert travel.run(until=RAM + 0x10) is Ending.UNTIL
    assert travel.position == 1 + 20_000 * OPERATIONS_OF_A_CALL


def test_before_the_beginning_there_is_nothing(calls: Machine) -> None:
    travel = Travel(calls.board)
    travel.run(100)
    with pytest.raises(PastError, match="no breakpoint was come to"):
        travel.back_to_stop(travel.up_to(RAM + 0x14))
    assert travel.position == 0
    with pytest.raises(PastError):
        travel.step_back()
    with pytest.raises(ValueError, match="has not come yet"):
        travel.back_to(101)


def test_the_past_is_bounded(calls: Machine) -> None:
    travel = Travel(calls.board, history=4 << 20)
    for n in range(60):
        calls.board.memory.write(RAM + 0x100_0000, random.Random(n).randbytes(1 << 20))
        travel.run(1000)
    assert travel.size <= 4 << 20
    assert 0 < travel.begin < travel.end
    with pytest.raises(PastError, match=f"from before operation {travel.begin}"):
        travel.back_to(0)


@pytest.mark.parametrize("smp", [1, 2])
def test_a_guest_that_asks_for_much_ends_a_piece_of_the_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smp: int
) -> None:
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 1 << 40)
    monkeypatch.setattr(travelling, "_FOR_INPUTS", 16)
    typed = bytes(range(97, 123)) * 40
    left, printed = [bytes([byte]) for byte in typed], bytearray()
    ends = ConsoleEnds(printed.extend, read=lambda size: left.pop(0) if left else b"")
    machine = Machine(program(tmp_path, ECHO), console=ends, smp=smp)
    history = 512 << 10
    travel = Travel(machine.board, history=history)
    assert travel.run() is Ending.EXIT
    assert bytes(printed) == typed + b"\xff"
    assert travel.size <= history + history // 16 + 1000
    assert 0 < travel.begin < travel.end
    end, registers = travel.end, [machine.pes[0].x[n] for n in range(31)]
    for at in (travel.begin, (travel.begin + end) // 2, end - 1):
        travel.back_to(at)
        assert travel.run() is Ending.EXIT
        assert travel.position == end
        assert [machine.pes[0].x[n] for n in range(31)] == registers
    assert bytes(printed) == typed + b"\xff"


def test_many_snapshots_are_thinned_out(calls: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 10)
    travel = Travel(calls.board)
    travel.run(90_000)
    assert travel.begin == 0
    travel.back_to(12_345)
    assert travel.position == 12_345


@pytest.mark.parametrize("ends_at_all", [False, True])
def test_what_was_typed_comes_again_where_it_came(ends_at_all: bool) -> None:
    typed: list[bytes] = [b"abc", b"d", b"\4"]
    printed: list[bytes] = []
    ends = ConsoleEnds(
        printed.append,
        arrived=lambda size: typed.pop(0) if typed else b"",
        wait=lambda: bool(typed),
        silent=lambda: ends_at_all and not typed,
        patient=lambda: ends_at_all,
    )
    machine = Machine(shipped_firmware("uart_echo"), console=ends)
    travel = Travel(machine.board)
    assert travel.run(100_000) is Ending.EXIT
    end, said = travel.end, b"".join(printed)
    assert b"ABC" in said
    registers = [machine.pes[0].x[n] for n in range(31)]
    for at in (0, end // 3, end // 2, end - 1):
        travel.back_to(at)
        assert travel.run() is Ending.EXIT
        assert travel.position == end
        assert [machine.pes[0].x[n] for n in range(31)] == registers
    assert b"".join(printed) == said


def test_a_guest_that_polls_gets_again_what_was_typed(tmp_path: Path) -> None:
    typed = [b"a", b"", b"b", b"c", b"", b"d", b"e"]
    loop = [a64.ldr(3, 1, 0x18, 2), a64.ldr(4, 1, 0, 2), a64.add(5, 5, 4), a64.str_(4, 1, 0, 2)]
    code = [*a64.mov64(1, 0x0900_0000), *loop, a64.b(-4 * len(loop))]
    ends = ConsoleEnds(
        arrived=lambda size: typed.pop(0) if typed else b"",
        silent=lambda: not typed,
        patient=always,
    )
    machine = Machine(program(tmp_path, a64.code(code)), console=ends)
    travel = Travel(machine.board)
    assert travel.run(5000) is Ending.LIMIT
    registers = [machine.pes[0].x[n] for n in range(31)]
    assert registers[5] == sum(b"abcde")
    for at in (0, 1, 9, 17, 33, 2500):
        travel.back_to(at)
        assert travel.run(5000 - at) is Ending.LIMIT
        assert [machine.pes[0].x[n] for n in range(31)] == registers


def test_what_was_typed_between_two_runs_comes_again_where_it_came() -> None:
    machine = Machine(shipped_firmware("uart_echo"))
    travel = Travel(machine.board)
    for typed in ("abc", "d"):
        assert travel.run() is Ending.ASLEEP
        machine.console.type(typed)
    assert travel.run() is Ending.ASLEEP
    machine.console.type("\4")
    assert travel.run() is Ending.EXIT
    end, said = travel.end, machine.console.text
    assert said == "ABCDbye\n"
    registers = [machine.pes[0].x[n] for n in range(31)]
    for at in (0, end // 2, end - 1):
        travel.back_to(at)
        endings = [travel.run()]
        while endings[-1] is Ending.ASLEEP and len(endings) <= 3:  # it was typed to thrice
            endings.append(travel.run())
        assert endings[-1] is Ending.EXIT
        assert travel.position == end
        assert [machine.pes[0].x[n] for n in range(31)] == registers
    assert machine.console.text == said


def test_observers_hear_nothing_twice() -> None:
    machine = made()
    heard: list[object] = []
    machine.observe("exception", lambda *args: heard.append(args))
    travel = Travel(machine.board)
    travel.run(300_000)
    before, records = len(heard), machine.pes[0].records.raw
    assert before
    travel.back_to(100_000)
    travel.run(200_000)
    assert len(heard) == before
    assert machine.pes[0].records.raw == records
    travel.close()
    machine.run()
    plain = made()
    plain.run()
    assert machine.pes[0].records.raw == plain.pes[0].records.raw
    assert machine.console.output == plain.console.output


def test_nothing_runs_on_for_ever_where_a_stop_never_comes(calls: Machine) -> None:
    travel = Travel(calls.board)
    travel.run(1000)
    with pytest.raises(PastError):
        travel.back_to_stop(travel.up_to(NEVER))


def test_who_ends_the_run_on_the_way_back_is_heard_there(
    calls: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 1 << 30)
    travel = Travel(calls.board)
    travel.run(50_000)
    for act in (
        lambda: travel.back_to(40_000),
        travel.step_back,
        lambda: travel.back_to_stop(travel.up_to(LEAF)),
    ):
        travel.back_to(travel.end)
        calls.board.stop()
        with pytest.raises(InterruptedTravelError):
            act()
        assert travel.position < 50_000
    travel.back_to(40_000)
    assert travel.position == 40_000
    calls.board.stop()
    travel.close()  # where the run ends it is at the end of the past
    assert calls.operations == 50_000
