"""An interrupt before each operation: what races with its handler is found, and nothing else."""

from __future__ import annotations

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.point import AtOperation, AtSymbol, PointError
from spe_unicorn.session.sweeping.inject import (
    ExternalAbort,
    InjectionError,
    Interrupt,
    MemoryFlip,
    RegisterFlip,
    parse_injection,
)
from spe_unicorn.session.sweeping.sweep import Position, Swept, Wanted, parse_sweep, sweep

PROGRAM = shipped_firmware("planted")
WINDOW = "30,share-wait+0x50"
"""The timer's interrupt, in what shares memory with its handler and in the wait for it."""


def words(mistake: str) -> list[str]:
    """The instructions between which the interrupt makes the run fail, by their mnemonics."""
    options = MachineOptions(PROGRAM, arguments=(mistake,) if mistake else ())
    swept = sweep(options, parse_sweep(WINDOW), 1)
    assert swept.plain == ""
    assert len(swept.positions) == swept.last - swept.first > 50
    found = []
    with Machine(PROGRAM, arguments=(mistake,)) as machine:
        for group in swept.failed:
            for after in range(group.first, group.last + 1):
                machine.run(until=AtOperation(after))
                found.append(f"{machine.pes[0].memory.read_int(machine.pes[0].pc, 4):08x}")
    return found


def test_a_right_program_passes_with_the_interrupt_anywhere() -> None:
    assert words("") == []


def test_a_counter_that_is_not_protected_is_lost_between_load_and_store() -> None:
    # after LDR X0, [X1]: before ADD X0, X0, #1 and before the STR
    first, second = words("race")
    assert first == "91000400"
    assert second.startswith("f9")


def test_an_interrupt_between_looking_and_sleeping_is_lost() -> None:
    # after LDRB of the flag: before the test, the branch and the WFI
    assert words("lost")[-1] == "d503207f"


def test_processes_share_the_window() -> None:
    options = MachineOptions(PROGRAM, arguments=("torn",))
    one, two = (sweep(options, parse_sweep(WINDOW), processes) for processes in (1, 2))
    assert one == two
    assert one.failed


def test_positions_next_to_each_other_are_one_group() -> None:
    seen = [(3, "a"), (4, "a"), (5, "b"), (6, ""), (7, "b")]
    swept = Swept(0, 8, "", [Position(after, why, after != 6, "x") for after, why in seen])
    assert [(each.first, each.last, each.why) for each in swept.failed] == [
        *((3, 4, "a"), (5, 5, "b"), (7, 7, "b")),
    ]
    assert swept.never_taken == 1


def test_a_program_that_fails_anyway_is_not_swept() -> None:
    swept = sweep(MachineOptions(PROGRAM), parse_sweep("30,share-wait"), 1, most=100)
    assert swept.plain == "still running after 100 operations: it hangs" or swept.plain
    assert swept.positions == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("30", Wanted(Interrupt(30))),
        ("3,100-200", Wanted(Interrupt(3), AtOperation(100), AtOperation(200))),
        ("33,main-end+0x4", Wanted(Interrupt(33), AtSymbol("main"), AtSymbol("end", 4))),
    ],
)
def test_a_sweep_is_an_interrupt_and_a_window(text: str, wanted: Wanted) -> None:
    assert parse_sweep(text) == wanted


@pytest.mark.parametrize("text", ["", "x", "30,", "30,main", "30,main+end", "-3,1-2"])
def test_what_is_no_sweep_is_refused(text: str) -> None:
    with pytest.raises((InjectionError, PointError)):
        parse_sweep(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("irq=30@main", Interrupt(30)),
        ("flip=x3.17@100", RegisterFlip(3, 17)),
        ("flip=0x40086000.7@console:a@b", None),
        ("flip=0x40086000.7@0x40080000", MemoryFlip(0x40086000, 7)),
        ("abort@share+0x8", ExternalAbort()),
    ],
)
def test_an_injection_is_a_kind_and_a_point(text: str, what: object) -> None:
    if what is None:
        with pytest.raises(InjectionError):
            parse_injection(text)
    else:
        assert parse_injection(text).what == what


@pytest.mark.parametrize("text", ["irq=30", "irq=x@1", "flip=x31.0@1", "flip=x0.64@1", "stop@1"])
def test_what_is_no_injection_is_refused(text: str) -> None:
    with pytest.raises(InjectionError):
        parse_injection(text)


def test_bits_of_registers_and_memory_change() -> None:
    with Machine(PROGRAM) as machine:
        machine.run(100)
        before = machine.pes[0].x[19]
        RegisterFlip(19, 40).put_into(machine.board)
        assert machine.pes[0].x[19] == before ^ 1 << 40
        MemoryFlip(0x40200001, 7).put_into(machine.board)
        assert machine.memory.read(0x40200000, 2) == b"\0\x80"
        with pytest.raises(InjectionError, match="no memory is at 0x9000"):
            MemoryFlip(0x9000, 0).check(machine.board)
        with pytest.raises(InjectionError, match="INTIDs go from 0"):
            Interrupt(1000).check(machine.board)


def test_an_external_abort_is_taken_in_place_of_the_operation() -> None:
    with Machine(PROGRAM) as machine:
        machine.run(until="share")
        seen: list[tuple[int, int]] = []
        machine.observe("exception", lambda pe, record, entry: seen.append((entry.elr, entry.esr)))
        ExternalAbort().put_into(machine.board)
        machine.run(20)
    # EC 0x21, an Instruction Abort from EL1; IL; IFSC 0b010000, a synchronous External abort
    assert seen == [(machine.symbol("share"), 0x21 << 26 | 1 << 25 | 0x10)]
