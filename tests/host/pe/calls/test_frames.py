"""The calls that led to a sample, by frame records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.arch.operation import Calls
from spe_unicorn.arch.pe import EL1
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.boot.image import EXECUTE, READ, WRITE, Image, Segment
from spe_unicorn.symbols.table import Symbol, SymbolTable
from tests.support import a64 as a
from tests.support.machine_runs import Machine

RUNNERS: list[Any] = [Runner, ReferenceRunner]
RAM = 0x4000_0000
STACK = 0x8000
PUSH = a.pair(False, 29, 30, 31, -32, 0b11)
POP = a.pair(True, 29, 30, 31, 32, 0b01)
FRAME = a.add_imm(29, 31, 0)
START = [*a.mov64(1, RAM + STACK), a.add_imm(31, 1, 0), a.movz(29, 0), a.movz(30, 0)]


def image(functions: Mapping[str, Sequence[int]]) -> Image:
    """Functions one after the other, from the start of RAM; the first is the entry."""
    data, symbols = b"", []
    for name, words in functions.items():
        symbols.append(Symbol(RAM + len(data), name, 4 * len(words), function=True))
        data += a.code(words)
    segment = Segment(RAM, data, STACK, RAM, READ | WRITE | EXECUTE, 0)
    return Image(Path("calls.elf"), RAM, (segment,), SymbolTable(symbols))


def noted(machine: Machine) -> list[Calls]:
    """What led to the samples of a machine's first PE, from now on."""
    found: list[Calls] = []
    machine.board.follow_calls()

    def note(_: bytes, calls: Sequence[Calls]) -> None:
        found.extend(calls)

    machine.board.pes[0].unit.led.connect(note)
    return found


def led(machine: Machine, operations: int | None = None) -> list[tuple[int, Calls]]:
    """The PC of each sample of a machine's first PE, and the calls that led to it."""
    found = noted(machine)
    machine.run(operations)
    return list(zip((one.pc for one in machine.operations), found, strict=True))


@pytest.mark.parametrize("runner", RUNNERS)
def test_each_operation_of_a_chain_of_calls_tells_its_callers(runner: type[Runner]) -> None:
    # main calls outer, which calls leaf: leaf makes no frame record
    main, outer = len(START), len(START) + 3
    leaf = outer + 7
    functions = {
        "main": [*START, a.bl(4 * 3), a.NOP, a.b(0)],
        "outer": [PUSH, FRAME, a.NOP, a.bl(4 * 4), a.NOP, POP, a.ret()],
        "leaf": [a.NOP, a.ret()],
    }
    calls = dict(led(Machine(image(functions), runner=runner, period=1, el=EL1), 40))
    in_main = RAM + 4 * (main + 1)
    in_outer = RAM + 4 * (outer + 4)
    for n in range(main + 2):
        assert calls[RAM + 4 * n] == (), n
    for n in range(outer, leaf):
        assert calls[RAM + 4 * n] == (in_main,), n
    for n in (leaf, leaf + 1):
        assert calls[RAM + 4 * n] == (in_outer, in_main), n


def test_calls_are_told_of_blocks_that_ran_before_they_were_asked_for() -> None:
    """What is known of such a block does not say when frame records are to be read."""
    record = [*a.mov64(29, RAM + STACK), *a.mov64(1, 0x1234_5678), a.pair(False, 29, 1, 29), a.NOP]
    misaligned = [*a.mov64(29, RAM + STACK + 4), a.NOP]
    words = [*record, *misaligned]
    loop = [*words, a.b(-4 * len(words))]
    machine = Machine(image({"main": loop}), period=7, el=EL1)
    machine.run(100)
    before = len(machine.operations)
    found = noted(machine)
    machine.run(400)
    calls = dict(zip((one.pc for one in machine.operations[before:]), found, strict=True))
    assert len(calls) == len(loop)
    assert calls[RAM + 4 * (len(record) - 1)] == (0x1234_5678,)
    assert calls[RAM + 4 * (len(words) - 1)] == ()


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_stack_that_goes_round_in_circles_ends(runner: type[Runner]) -> None:
    # a frame record whose caller is itself, then one that cannot be read, then a misaligned one
    begin = [*a.mov64(29, RAM + STACK), *a.mov64(1, 0x1234_5678), a.NOP]
    itself = [a.pair(False, 29, 1, 29), a.NOP]
    unreadable = [*a.mov64(29, 0x8000_0000), a.NOP]
    misaligned = [*a.mov64(29, RAM + STACK + 4), a.NOP]
    words = [*begin, *itself, *unreadable, *misaligned, a.b(0)]
    calls = dict(led(Machine(image({"main": words}), runner=runner, period=1, el=EL1), 40))

    def at_the_end_of(*parts: list[int]) -> Calls:
        return calls[RAM + 4 * (sum(map(len, parts)) - 1)]

    assert at_the_end_of(begin) == ()
    assert at_the_end_of(begin, itself) == (0x1234_5678,)
    assert at_the_end_of(begin, itself, unreadable) == ()
    assert at_the_end_of(begin, itself, unreadable, misaligned) == ()


def test_at_most_127_calls_are_told() -> None:
    down = [PUSH, FRAME, a.bl(-8)]
    functions = {"main": [*START, a.bl(4)], "down": down}
    found = led(Machine(image(functions), period=1, el=EL1), 1000)
    back = RAM + 4 * (len(START) + 1 + len(down))
    assert found[-1][1] == (back,) * 127


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "period"), [("spe_exc", 7), ("irq_latency", 11)])
def test_both_runners_tell_the_same_calls(name: str, period: int) -> None:
    found = [led(Machine(name, runner=runner, period=period, jitter=True)) for runner in RUNNERS]
    assert found[0] == found[1]
    assert len({calls for _, calls in found[0]}) > 3


@pytest.mark.sweep
def test_compiled_code_notes_the_same_calls_where_records_are_made_at_once() -> None:
    streams = []
    for runner in RUNNERS:
        machine = Machine("bench_sort", runner=runner, period=50, jitter=True, together=True)
        found = noted(machine)
        machine.run(160_000)
        streams.append((bytes(machine.streams[0]), found))
    assert streams[0] == streams[1]
    assert len(streams[0][1]) == machine.board.pes[0].unit.statistics.written


def test_following_calls_changes_nothing_for_the_guest() -> None:
    results = []
    for follows in (False, True):
        machine = Machine("spe_copy")
        if follows:
            machine.board.follow_calls()
        results.append(machine.run())
    assert results[0].differences(results[1]) == {}
