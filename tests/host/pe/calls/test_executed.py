"""The calls that led to a sample, from calls and returns as they were executed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.arch.operation import Calls
from spe_unicorn.arch.pe import EL1
from spe_unicorn.host.native.sampling.calls import STACKS
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.boot.image import EXECUTE, READ, WRITE, Image, Segment
from spe_unicorn.symbols.table import Symbol, SymbolTable
from tests.support import a64 as a
from tests.support.machine_runs import Machine

RUNNERS: list[Any] = [Runner, ReferenceRunner]
RAM = 0x4000_0000
STACK = 0x8000
ELR, SPSR, VBAR = (3, 0, 4, 0, 1), (3, 0, 4, 0, 0), (3, 0, 12, 0, 0)
TTBR0, SP_EL0, SP_SEL = (3, 0, 2, 0, 0), (3, 0, 4, 1, 0), (3, 0, 4, 2, 0)
SCTLR, TCR, MAIR = (3, 0, 1, 0, 0), (3, 0, 2, 0, 2), (3, 0, 10, 2, 0)
XZR = 31
ERET = 0xD69F03E0
PUSH, POP = a.pair(False, 29, 30, 31, -32, 0b11), a.pair(True, 29, 30, 31, 32, 0b01)


class Program:
    """Words with names for places, at the start of RAM."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.at: dict[str, int] = {}
        self._late: list[tuple[int, str, Any]] = []
        self.add(*a.mov64(1, RAM + STACK), a.add_imm(31, 1, 0))

    def add(self, *words: int) -> Program:
        self.words += words
        return self

    def here(self, name: str) -> Program:
        self.at[name] = RAM + 4 * len(self.words)
        return self

    def to(self, form: Any, name: str) -> Program:
        """An operation made by ``form(offset)``, to a place that may come later."""
        self._late.append((len(self.words), name, form))
        return self.add(0)

    def image(self) -> Image:
        for n, name, form in self._late:
            self.words[n] = form(self.at[name] - RAM - 4 * n)
        data = a.code(self.words)
        symbols = SymbolTable([Symbol(RAM, "main", len(data), function=True)])
        segment = Segment(RAM, data, STACK, RAM, READ | WRITE | EXECUTE, 0)
        return Image(Path("calls.elf"), RAM, (segment,), symbols)


def led(machine: Machine, operations: int | None = None) -> list[tuple[int, Calls]]:
    """The PC of each sample of a machine's first PE, and the calls that led to it."""
    found: list[Calls] = []
    machine.board.follow_calls("calls")

    def note(_: bytes, calls: Sequence[Calls]) -> None:
        found.extend(calls)

    machine.board.pes[0].unit.led.connect(note)
    machine.run(operations)
    return list(zip((one.pc for one in machine.operations), found, strict=True))


def chains(program: Program, runner: type[Runner], operations: int) -> dict[int, Calls]:
    """What led to each operation of a program, the last time that it was executed."""
    machine = Machine(program.image(), runner=runner, period=1, el=EL1)
    return dict(led(machine, operations))


@pytest.mark.parametrize("runner", RUNNERS)
def test_calls_returns_and_tail_calls_are_followed_without_frame_records(
    runner: type[Runner],
) -> None:
    p = Program()
    p.to(a.bl, "outer").here("back").add(a.NOP).here("end").add(a.b(0))
    p.here("outer").add(PUSH).to(a.bl, "leaf").here("in_outer").add(a.NOP, POP)
    p.to(a.b, "tail")  # the caller of outer becomes that of tail
    p.here("leaf").add(a.NOP, a.ret())
    p.here("tail").add(a.NOP, a.ret())
    found = chains(p, runner, 60)
    assert found[p.at["outer"]] == (p.at["back"],)
    assert found[p.at["leaf"]] == (p.at["in_outer"], p.at["back"])
    assert found[p.at["in_outer"]] == (p.at["back"],)
    assert found[p.at["tail"]] == (p.at["back"],)
    assert found[p.at["back"]] == ()
    assert found[p.at["end"]] == ()


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_jump_out_of_several_functions_leaves_all_of_them(runner: type[Runner]) -> None:
    # main calls outer, outer keeps SP as setjmp does and calls inner twice deep, which jumps back
    p = Program()
    p.to(a.bl, "outer").here("back").here("end").add(a.b(0))
    p.here("outer").add(PUSH, a.add_imm(20, 31, 0)).to(lambda d: a.adr(21, d), "again")
    p.to(a.bl, "inner").add(a.NOP)
    p.here("again").add(a.NOP).to(a.bl, "leaf").here("after").add(POP, a.ret())
    p.here("inner").add(PUSH).to(a.bl, "deep").add(POP, a.ret())
    p.here("deep").add(PUSH, a.NOP, a.add_imm(31, 20, 0), a.br(21))
    p.here("leaf").add(a.ret())
    found = chains(p, runner, 60)
    assert len(found[p.at["deep"]]) == 3
    assert found[p.at["again"]] == (p.at["back"],)
    assert found[p.at["leaf"]] == (p.at["after"], p.at["back"])
    assert found[p.at["end"]] == ()


@pytest.mark.parametrize("runner", RUNNERS)
def test_an_exception_stands_among_the_calls_until_its_return(runner: type[Runner]) -> None:
    p = Program()
    p.to(lambda d: a.adr(2, d), "vectors").add(a.msr(VBAR, 2))
    p.to(a.bl, "asks").here("back").here("end").add(a.b(0))
    p.here("asks").add(PUSH, a.svc(3)).here("asked").add(a.NOP, a.udf(1)).here("skipped")
    p.add(a.NOP, POP, a.ret())
    while len(p.words) * 4 % 0x800:
        p.add(a.NOP)
    p.here("vectors").add(*[a.NOP] * 128)  # SVC and UDF of EL1 with SP_EL1: 0x200 from there
    p.here("handler").add(a.NOP).to(a.bl, "leaf").here("handled").add(a.mrs(3, ELR))
    # an undefined operation, told by its place, is passed over
    p.to(lambda d: a.adr(4, d), "asked").add(a.subs(31, 3, 4)).to(lambda d: a.b_cond(0, d), "out")
    p.add(a.add_imm(3, 3, 4), a.msr(ELR, 3)).here("out").add(ERET)
    p.here("leaf").add(a.ret())
    found: dict[int, set[Calls]] = {}
    for pc, calls in led(Machine(p.image(), runner=runner, period=1, el=EL1), 80):
        found.setdefault(pc, set()).add(calls)
    # an SVC returns behind itself; what is undefined returns to itself, and has not called
    asked, undefined = p.at["asked"], p.at["asked"] + 8
    back = p.at["back"]
    assert found[p.at["handler"]] == {(asked, back), (undefined, back)}
    handled = p.at["handled"]
    assert found[p.at["leaf"]] == {(handled, asked, back), (handled, undefined, back)}
    assert found[asked] == found[p.at["skipped"]] == {(back,)}
    assert found[p.at["end"]] == {()}


@pytest.mark.parametrize("runner", RUNNERS)
def test_each_stack_has_its_calls_when_software_switches_between_them(
    runner: type[Runner],
) -> None:
    # two tasks: `switch` keeps SP and X30 at X9, and loads those of the other from X10
    p = Program()
    p.add(*a.mov64(9, RAM + 0x6000), *a.mov64(10, RAM + 0x6020), *a.mov64(2, RAM + 0x5000))
    p.to(lambda d: a.adr(3, d), "task").add(a.str_(2, 10), a.str_(3, 10, 8))
    p.to(a.bl, "first").here("back").here("end").add(a.b(0))
    p.here("first").add(PUSH).to(a.bl, "switch").here("resumed").add(a.NOP)
    p.to(a.bl, "switch").here("again").add(a.NOP, POP, a.ret())
    p.here("task").add(a.NOP).to(a.bl, "work").here("worked").add(a.b(0))
    p.here("work").add(PUSH).to(a.bl, "switch").here("in_work").add(a.NOP).to(a.bl, "switch")
    p.here("switch").add(a.add_imm(12, 31, 0), a.str_(12, 9), a.str_(30, 9, 8))
    p.add(a.ldr(12, 10), a.ldr(30, 10, 8), a.add_imm(31, 12, 0))
    p.add(a.orr(11, 9, 9), a.orr(9, 10, 10), a.orr(10, 11, 11), a.ret())
    found = chains(p, runner, 120)
    back, worked = p.at["back"], p.at["worked"]
    assert found[p.at["task"]] == ()
    assert found[p.at["work"]] == found[p.at["in_work"]] == (worked,)
    assert found[p.at["resumed"]] == found[p.at["again"]] == (back,)
    assert found[p.at["switch"]] == (p.at["in_work"] + 8, worked)
    assert found[p.at["end"]] == ()


def vectors(p: Program, offset: int) -> Program:
    """Go to where ``vectors`` names a table of exception vectors, and in it to ``offset``."""
    while len(p.words) * 4 % 0x800:
        p.add(a.NOP)
    return p.here("vectors").add(*[a.NOP] * (offset // 4))


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_thread_of_a_kernel_goes_on_in_the_space_of_any_process(runner: type[Runner]) -> None:
    # its stack lies in the half of addresses that all processes share; TTBR0_EL1 is another's then
    p = Program()
    p.to(lambda d: a.adr(2, d), "vectors").add(a.msr(VBAR, 2))
    p.add(*a.mov64(1, 0xFFFF_8000_0000_4000), a.add_imm(31, 1, 0), *a.mov64(5, 0x4_1000))
    p.to(a.bl, "asks").here("back").here("end").add(a.b(0))
    p.here("asks").add(a.orr(20, 30, 30), a.svc(3)).here("went_on").add(a.NOP, a.ret(20))
    vectors(p, 0x200).add(a.msr(TTBR0, 5), ERET)
    found = chains(p, runner, 60)
    assert found[p.at["went_on"]] == (p.at["back"],)
    assert found[p.at["end"]] == ()


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_branch_whose_target_cannot_be_fetched_has_the_stack_pointer_of_its_software(
    runner: type[Runner],
) -> None:
    # on SP_EL0 a call leads to where nothing is mapped; the handler, on SP_EL1, goes to `leaf`.
    # `other` returns there, and the handler goes to where it should have returned
    p = Program()
    p.to(lambda d: a.adr(2, d), "vectors").add(a.msr(VBAR, 2), *a.mov64(9, 1 << 32))
    p.add(*a.mov64(1, RAM + 0x6000), *a.mov64(2, RAM | 0x401), a.str_(2, 1, 8), a.msr(TTBR0, 1))
    p.add(*a.mov64(2, 0xFF), a.msr(MAIR, 2), *a.mov64(2, 25 | 1 << 23), a.msr(TCR, 2))
    p.add(a.mrs(2, SCTLR), *a.mov64(3, 1), a.orr(2, 2, 3), a.msr(SCTLR, 2), a.ISB)
    p.add(*a.mov64(1, RAM + 0x7000), a.msr(SP_EL0, 1), a.msr(SP_SEL, XZR))
    p.here("again").to(a.bl, "outer").here("back").to(a.b, "again")
    p.here("outer").add(PUSH, *a.mov64(10, 0), a.blr(9)).here("called").to(a.bl, "other")
    p.here("returned").add(a.NOP, POP, a.ret())
    p.here("leaf").add(a.NOP, a.orr(11, 30, 30)).to(a.bl, "deeper").here("in_leaf").add(a.ret(11))
    p.here("deeper").add(a.ret())
    p.here("other").add(a.NOP, a.ret(9))
    vectors(p, 0).to(lambda d: a.cbz(10, d), "first")
    p.to(lambda d: a.adr(4, d), "returned").to(a.b, "out")
    p.here("first").add(*a.mov64(10, 1)).to(lambda d: a.adr(4, d), "leaf")
    p.here("out").add(a.msr(ELR, 4), ERET)
    found: dict[int, set[Calls]] = {}
    for pc, calls in led(Machine(p.image(), runner=runner, period=11, el=EL1), 4000):
        found.setdefault(pc, set()).add(calls)
    called, back = p.at["called"], p.at["back"]
    assert found[p.at["leaf"]] == {(called, back)}
    assert found[p.at["deeper"]] == {(p.at["in_leaf"], called, back)}
    assert found[called] == found[p.at["returned"]] == {(back,)}
    assert found[p.at["other"]] == {(p.at["returned"], back)}
    assert found[back] == {()}


def kernel_that_forks() -> Program:
    """A process on SP_EL0 that forks and calls others before the new one runs on.

    SVC 1 keeps where the new process begins, 2 goes on with it on another stack of the kernel.
    """
    p = Program()
    p.to(lambda d: a.adr(2, d), "vectors").add(a.msr(VBAR, 2))
    p.add(*a.mov64(1, RAM + 0x7000), a.msr(SP_EL0, 1), a.msr(SP_SEL, XZR))
    p.to(a.bl, "outer").here("back").here("end").add(a.b(0))
    p.here("outer").add(PUSH, *a.mov64(0, 1)).to(a.bl, "fork").here("forked")
    p.to(lambda d: a.cbz(0, d), "child").to(a.bl, "overwrites").here("unreached").add(a.b(0))
    p.here("child").add(a.NOP).to(a.bl, "leaf").here("in_child").add(POP, a.ret())
    p.here("fork").add(a.svc(1)).here("after").add(a.NOP, a.ret())
    p.here("overwrites").to(a.bl, "deeper").here("in_overwrites")
    p.here("deeper").add(*a.mov64(0, 2), a.svc(2))
    p.here("leaf").add(a.NOP, a.ret())
    vectors(p, 0).to(lambda d: a.cbz(0, d), "vectors").add(a.subs(31, 0, 0))
    p.add(a.sub_imm(3, 0, 1)).to(lambda d: a.cbnz(3, d), "other")
    p.add(a.mrs(21, ELR), a.mrs(22, SP_EL0), a.orr(23, 30, 30), ERET)
    p.here("other").to(a.bl, "switch").here("switch")
    p.add(*a.mov64(1, RAM + 0x6000), a.add_imm(31, 1, 0))
    p.to(lambda d: a.adr(30, d), "new_task").add(a.ret())
    p.here("new_task").to(a.bl, "leaf").here("begun").add(*a.mov64(5, 0x4_1000))
    p.add(a.msr(TTBR0, 5), a.msr(ELR, 21), a.msr(SP_EL0, 22), *a.mov64(0, 0))
    p.add(a.orr(30, 23, 23), ERET)
    return p


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_process_that_was_forked_has_the_calls_before_the_fork(runner: type[Runner]) -> None:
    p = kernel_that_forks()
    found: dict[int, list[Calls]] = {}
    for pc, calls in led(Machine(p.image(), runner=runner, period=1, el=EL1), 120):
        found.setdefault(pc, []).append(calls)
    forked, back = p.at["forked"], p.at["back"]
    assert found[p.at["after"]] == [(forked, back), (forked, back)]
    assert found[p.at["leaf"]] == [(p.at["begun"],), (p.at["in_child"], back)]
    assert found[p.at["in_child"]] == [(back,)]
    assert set(found[p.at["end"]]) == {()}


def kernel_with_a_sleeper(processes: int) -> Program:
    """A task sleeps in `sleeper` while another forks processes that end; then it goes on.

    Each process has a stack of the kernel that no other had, and one of two translation tables.
    """
    p = Program()
    p.to(lambda d: a.adr(2, d), "vectors").add(a.msr(VBAR, 2), *a.mov64(19, processes))
    p.add(*a.mov64(5, 0x4_1000), *a.mov64(6, 0x4_2000), *a.mov64(7, 0x4_3000), a.msr(TTBR0, 5))
    p.add(*a.mov64(11, RAM + 0x10_0000))
    p.to(a.bl, "sleeper").here("back").here("end").add(a.b(0))
    p.here("sleeper").add(PUSH).to(a.bl, "sleep").here("awake").add(a.NOP, POP, a.ret())
    # to the parent, on a stack of its own
    p.here("sleep").add(a.add_imm(20, 31, 0), a.orr(21, 30, 30))
    p.add(*a.mov64(1, RAM + 0x6000), a.add_imm(31, 1, 0)).to(lambda d: a.adr(30, d), "start")
    p.add(a.ret())
    p.here("start").add(*a.mov64(1, RAM + 0x7000), a.msr(SP_EL0, 1), *a.mov64(2, 0x3C4))
    p.add(a.msr(SPSR, 2))
    p.to(lambda d: a.adr(1, d), "parent").add(a.msr(ELR, 1), ERET)
    p.here("parent").to(a.bl, "fork").here("forked").to(lambda d: a.cbz(0, d), "child")
    p.add(a.sub_imm(19, 19, 1)).to(lambda d: a.cbnz(19, d), "parent").add(*a.mov64(8, 3), a.svc(3))
    p.here("fork").add(*a.mov64(8, 1), a.svc(1), a.ret())
    p.here("child").to(a.bl, "work").here("in_child")
    p.here("work").add(*a.mov64(8, 2), a.svc(2))
    vectors(p, 0).add(a.sub_imm(9, 8, 2)).to(lambda d: a.cbz(9, d), "exit")
    p.add(a.sub_imm(9, 8, 3)).to(lambda d: a.cbz(9, d), "wake")
    p.add(a.mrs(22, ELR), a.mrs(23, SP_EL0), a.orr(24, 30, 30)).to(a.bl, "switch")
    p.add(a.msr(TTBR0, 5), a.msr(ELR, 22), a.msr(SP_EL0, 23), a.orr(30, 24, 24), *a.mov64(0, 1))
    p.add(ERET)
    p.here("switch").add(a.add_imm(25, 31, 0), a.orr(26, 30, 30))
    p.add(a.add_imm(11, 11, 0x800), a.add_imm(11, 11, 0x800), a.add_imm(31, 11, 0))
    p.to(lambda d: a.adr(30, d), "new_task").add(a.ret())
    p.here("new_task").add(a.orr(9, 6, 6), a.orr(6, 7, 7), a.orr(7, 9, 9), a.msr(TTBR0, 6))
    p.add(a.msr(ELR, 22), a.msr(SP_EL0, 23), a.orr(30, 24, 24), *a.mov64(0, 0), ERET)
    p.here("exit").add(a.add_imm(31, 25, 0), a.orr(30, 26, 26), a.ret())
    p.here("wake").add(a.add_imm(31, 20, 0), a.orr(30, 21, 21), a.ret())
    return p


@pytest.mark.sweep
@pytest.mark.parametrize("runner", RUNNERS)
def test_stacks_of_processes_that_ended_give_way_before_those_of_sleepers(
    runner: type[Runner],
) -> None:
    p = kernel_with_a_sleeper(2 * STACKS)
    found: dict[int, set[Calls]] = {}
    for pc, calls in led(Machine(p.image(), runner=runner, period=1, el=EL1), 120 * STACKS):
        found.setdefault(pc, set()).add(calls)
    assert len(found[p.at["end"]]) == 1
    assert found[p.at["work"]] == {(p.at["in_child"],)}
    assert found[p.at["awake"]] == {(p.at["back"],)}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("name", "period"), [("spe_exc", 7), ("irq_latency", 11), ("spe_el0", 13), ("world_switch", 17)]
)
def test_both_runners_tell_the_same_calls(name: str, period: int) -> None:
    found = [led(Machine(name, runner=runner, period=period, jitter=True)) for runner in RUNNERS]
    assert found[0] == found[1]
    assert len({calls for _, calls in found[0]}) > 2


def test_deep_recursion_keeps_the_innermost_calls_and_comes_back() -> None:
    # 5,000 calls deep, then all the way back
    p = Program()
    p.add(*a.mov64(1, RAM + 0x40000), a.add_imm(31, 1, 0), *a.mov64(19, 5000)).to(
        a.bl, "down"
    ).here("back").here("end").add(a.b(0))
    p.here("down").add(a.sub_imm(19, 19, 1)).to(lambda d: a.cbz(19, d), "up")
    p.add(a.str9(30, 31, -16, 0b11)).to(a.bl, "down").here("in").add(a.ldr9(30, 31, 16, 0b01))
    p.here("up").add(a.ret())
    calls = led(Machine(p.image(), period=1, el=EL1), 45_000)
    assert max(len(each) for _, each in calls) == 127
    assert calls[-1] == (p.at["end"], ())


def test_following_calls_changes_nothing_for_the_guest() -> None:
    results = []
    for follows in (False, True):
        machine = Machine("spe_copy")
        if follows:
            machine.board.follow_calls("calls")
        results.append(machine.run())
    assert results[0].differences(results[1]) == {}


def test_calls_and_coverage_are_followed_side_by_side() -> None:
    plain, both = Machine("spe_exc"), Machine("spe_exc")
    plain.board.cover()
    both.board.cover()
    both.board.follow_calls("calls")
    plain.run()
    both.run()
    assert both.board.covered == plain.board.covered
