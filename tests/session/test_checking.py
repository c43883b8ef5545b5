"""The checks of memory, on a program with one mistake at a time: each found to the operation."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.host.native.cover import OTHER, sp_step
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import AnyRunner, Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.plan import boot_plan
from spe_unicorn.machine.console_ends import ConsoleEnds
from spe_unicorn.machine.options import MachineOptions, OptionError
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.checking import text
from spe_unicorn.session.checking.checks import MemoryChecks
from spe_unicorn.session.checking.found import CheckFinding, found_between
from spe_unicorn.symbols.code import Code
from tests.support import a64
from tests.support.elf_builder import RAM, Elf, Load
from tests.support.small_programs import program

PROGRAM = shipped_firmware("planted")
BLOCKS = shipped_firmware("heap_blocks")
ALL = ("text", "null", "uninitialised", "stack=small_stack")


def checked(*arguments: str, check: tuple[str, ...] = ALL) -> tuple[CheckFinding, ...]:
    with Machine(PROGRAM, arguments=arguments, check=check) as machine:
        assert machine.run().exit_status == 0
        return machine.finish_checks()


def test_a_right_program_has_none() -> None:
    assert checked() == ()


@pytest.mark.parametrize(
    ("mistake", "check", "function", "caller"),
    [
        ("stack", "stack", "recurse", "recurse+"),
        ("text", "text", "write_code+", "main+"),
        ("data", "text", "words", "main+"),
        ("null", "null", "load", "main+"),
        ("uninitialised", "uninitialised", "load", "main+"),
    ],
)
def test_a_mistake_is_found_at_its_operation(
    mistake: str, check: str, function: str, caller: str
) -> None:
    (found,) = checked(mistake)
    assert found.check == check
    assert f"<{function}" in found.place
    assert f"<{caller}" in found.calls[0]
    # it is the operation: a machine that has executed all before stands there
    assert found.operation is not None
    with Machine(PROGRAM, arguments=(mistake,)) as machine:
        machine.run(found.operation)
        assert hex(machine.pes[0].pc) in found.place


def test_a_stack_can_be_between_two_symbols_and_end_where_the_image_does() -> None:
    assert checked("stack", check=("stack=__bss_end:__stack_top",)) == ()


def test_what_was_not_asked_for_is_not_found() -> None:
    assert checked("stack", check=("text", "null")) == ()
    assert checked("text", check=("null",)) == ()


START = [*a64.mov64(0, RAM + 0x800), a64.msr((3, 0, 12, 0, 0), 0)]
ABORTING = RAM + 4 * len(START)


def goes_on_after_aborts(folder: Path, code: list[int]) -> Machine:
    """A machine that checks for null pointers; its vector goes on behind each abort of ``code``."""
    vector, elr = 0x200, (3, 0, 4, 0, 1)
    skip = [a64.mrs(3, elr), a64.add_imm(3, 3, 4), a64.msr(elr, 3), a64.ERET]
    memory = a64.code([*START, *code]).ljust(0x800 + vector, b"\0") + a64.code(skip)
    return Machine(program(folder, memory), el=1, check=("null",))


def test_eight_places_of_null_pointers_are_kept_each_where_it_was_first(tmp_path: Path) -> None:
    loads = [a64.ldr(2, 1)] * 10
    with goes_on_after_aborts(tmp_path, [a64.movz(1, 0), *loads, a64.b(-40)]) as machine:
        machine.run(len(START) + 1 + 3 * 5 * len(loads))
        found = machine.finish_checks()
    first = len(START) + 1
    assert [one.pc for one in found] == [ABORTING + 4 + 4 * n for n in range(8)]
    assert [one.operation for one in found] == [first + 5 * n for n in range(8)]  # and its handler


def test_a_null_pointer_leads_into_the_first_4096_bytes(tmp_path: Path) -> None:
    """Nothing is at 0xFF8 and 0x1000: both loads abort, and the vector goes on behind them."""
    loads = [a64.movz(1, 0xFF8), a64.ldr(2, 1), a64.movz(1, 0x1000), a64.ldr(2, 1), a64.b(0)]
    with goes_on_after_aborts(tmp_path, loads) as machine:
        machine.run(3)
        assert machine.finish_checks() == ()
        machine.run(100)
        (found,) = machine.finish_checks()
        assert machine.finish_checks() == (found,)
    assert found.pc == ABORTING + 4
    assert found.what == "a load or store at 0xff8, through a null pointer"


def test_a_finding_as_text_counts_operations_and_calls_from_one() -> None:
    calls = tuple(f"<f{n}>" for n in range(11))
    known = CheckFinding("null", "a load", "0x40 <f> EL1", 6, 0, calls)
    first, what, *named = str(known).splitlines()
    assert (first, what) == ("null at 0x40 <f> EL1, operation 7", "  a load")
    assert [named[0], named[9]] == ["  #1  <f0>", "  #10 <f9>"]
    again = CheckFinding("stack", "overflows", "0x40 <f> EL1", 6, 0, ("<f>", "<f>", "<g>", "<f>"))
    assert str(again).splitlines()[2:] == ["  #1  <f> (2 times)", "  #3  <g>", "  #4  <f>"]
    assert again.callers == ("<f> (2 times)", "<g>", "<f>")
    between = found_between("text", "code changed", 4, 9)
    assert str(between) == "text at an operation from 5 to 9\n  code changed"


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_both_runners_see_the_stack_run_over_at_the_same_operation(runner: type[AnyRunner]) -> None:
    options = MachineOptions(PROGRAM, arguments=("stack",), check=("stack=small_stack",))
    board = Board(options, ConsoleEnds(lambda data: None), runner=runner)
    plan = boot_plan(options)
    board.start(plan)
    checks = MemoryChecks(board, plan.image, options)
    board.run()
    (coverage,) = [pe.cpu.coverage for pe in board.pes]
    assert coverage is not None
    (overflow,) = coverage.overflows()
    stack = plan.image.symbols.named("small_stack")[0]
    # `recurse` has frames of 80 bytes: twelve of them fit into 1024, and leave 64
    assert overflow.low == stack
    assert overflow.sp == stack + 64
    assert board.names.symbol(overflow.pc) == "recurse"
    assert len(checks.finish()) == 1


def test_a_restored_machine_says_between_which_operations_it_was() -> None:
    with Machine(PROGRAM, arguments=("text",), check=("text",)) as machine:
        machine.run(1000)
        machine.restore(machine.save())
        machine.run()
        (found,) = machine.finish_checks()
    assert found.operation is None
    assert found.place.startswith("an operation from 1001 to ")


@pytest.mark.parametrize(
    ("word", "step"),
    [
        (0xD10083FF, -32),  # sub sp, sp, #32
        (0x914007FF, 4096),  # add sp, sp, #1, lsl #12
        (0xA9BE7BFD, -32),  # stp x29, x30, [sp, #-32]!
        (0xA8C27BFD, 32),  # ldp x29, x30, [sp], #32
        (0xADBF07E0, -32),  # stp q0, q1, [sp, #-32]!
        (0x6DBF27E8, -16),  # stp d8, d9, [sp, #-16]!
        (0xF81F0FFE, -16),  # str x30, [sp, #-16]!
        (0xF84107FE, 16),  # ldr x30, [sp], #16
        (0xA9017BFD, 0),  # stp x29, x30, [sp, #16]
        (0xF90007E0, 0),  # str x0, [sp, #8]
        (0x910003FD, 0),  # mov x29, sp
        (0xEB3F63FF, 0),  # cmp sp, xzr
        (0x910003BF, OTHER),  # mov sp, x29
        (0xCB2063FF, OTHER),  # sub sp, sp, x0
        (0x927CEC1F, OTHER),  # and sp, x0, #0xfffffffffffffff0
        (0xD65F03C0, 0),  # ret
    ],
)
def test_what_an_operation_adds_to_sp(word: int, step: int) -> None:
    assert int(sp_step(word)) == step


def test_ram_holds_what_was_asked_for() -> None:
    heap = 0x4020_0000
    for fill, expected in (("zero", bytes(8)), ("0xa5", b"\xa5" * 8)):
        with Machine(PROGRAM, ram_fill=fill) as machine:
            assert machine.memory.read(heap, 8) == expected
    with Machine(PROGRAM, ram_fill="random") as one, Machine(PROGRAM, ram_fill="random") as two:
        assert one.memory.read(heap, 64) == two.memory.read(heap, 64) != bytes(64)
    with Machine(PROGRAM, ram_fill="random", seed=1) as other:
        assert other.memory.read(heap, 64) != one.memory.read(heap, 64)
        assert other.run().exit_status == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"check": ("txt",)},
            "`check` is one of text, null, uninitialised, heap, noncoherent or stack=",
        ),
        ({"check": ("stack=",)}, "`check` is one of"),
        ({"check": ("stack=nothing",)}, "planted.elf has no symbol 'nothing'"),
        ({"check": ("stack=below:main",)}, "has no symbol|ends at"),
        ({"check": ("heap",)}, "heap needs the symbols of an allocator.*planted.elf has none"),
        ({"ram_fill": "0x123"}, "`ram_fill` is zero, random or 0xNN"),
    ],
)
def test_what_cannot_be_checked_is_a_sentence(options: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Machine(PROGRAM, **options)  # type: ignore[arg-type]


def blocks(
    mistake: str, *check: str, runner: type[AnyRunner] = Runner, smp: int = 1
) -> tuple[CheckFinding, ...]:
    """What a run of the program with an allocator finds."""
    options = MachineOptions(BLOCKS, arguments=(mistake,), check=check, smp=smp)
    board = Board(options, ConsoleEnds(lambda data: None), runner=runner)
    plan = boot_plan(options)
    board.start(plan)
    checks = MemoryChecks(board, plan.image, options)
    board.run()
    assert board.exit_status == 0
    return checks.finish()


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_both_runners_find_the_same_of_a_heap(runner: type[AnyRunner]) -> None:
    (found,) = blocks("twice", "heap", "uninitialised", runner=runner)
    assert "<free (" in found.place
    assert "<main+" in found.calls[0]
    assert "the block of 64 bytes" in found.what
    with Machine(BLOCKS, arguments=("twice",)) as machine:
        assert found.operation is not None
        machine.run(found.operation)
        assert machine.pes[0].pc == machine.symbol("free")
        assert f"at {machine.board.pes[0].cpu.engine.x(0):#x}, got before main+" in found.what


def test_several_pes_have_one_heap() -> None:
    (found,) = blocks("after", "heap", smp=2)
    assert "<load (" in found.place
    assert found.cpu == 0


def test_code_is_looked_at_in_the_memory_of_its_own_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two operations, with data around them, are stored to at once: that is one mistake.

    A second segment lies elsewhere in memory than the program has it.
    """
    pair, further, exit_block = RAM + 0x100, RAM + 0x200, RAM + 0x300
    begin = [*a64.mov64(1, pair), *a64.mov64(2, ~0), a64.str_(2, 1)]
    begin += [*a64.mov64(1, exit_block), a64.movz(0, 0x18), 0xD45E_0000]
    code = a64.code(begin).ljust(exit_block - RAM, b"\0") + struct.pack("<QQ", 0x20026, 0)
    segments = [
        Load(data=code, memsz=0x400, flags=7),
        Load(RAM + 0x8000, bytes(0x400), paddr=RAM + 0x1_0000, flags=6),
    ]
    path = tmp_path / "program.elf"
    path.write_bytes(Elf(loads=segments).build())
    operations = dict.fromkeys(range(RAM, RAM + 4 * len(begin), 4), 0)
    operations |= dict.fromkeys((pair, pair + 4, further, further + 4), 0)
    monkeypatch.setattr(text, "read_code_of", lambda _: Code(operations, {}, []))
    with Machine(path, check=("text",)) as machine:
        assert machine.run().exit_status == 0
        (found,) = machine.finish_checks()
    assert f"8 bytes are stored to code at {pair:#x}" in str(found)


def test_a_machine_that_goes_back_knows_its_blocks_and_what_was_written() -> None:
    for mistake, check in (("fresh", "uninitialised"), ("after", "heap"), ("twice", "heap")):
        with Machine(BLOCKS, arguments=(mistake,), check=("heap", "uninitialised")) as machine:
            machine.run(until="memset")
            snapshot = machine.save()
            machine.run(100)
            machine.restore(snapshot)
            assert machine.run().exit_status == 0
            (found,) = machine.finish_checks()
            assert found.check == check
            assert found.operation is None  # no second machine can do that again


def test_a_machine_of_another_s_snapshot_knows_no_block_and_no_unwritten_memory() -> None:
    for mistake in ("fresh", "after"):
        options = {"arguments": (mistake,), "check": ("heap", "uninitialised")}
        with Machine(BLOCKS, **options) as one, Machine(BLOCKS, **options) as machine:
            one.run(until="memset")
            machine.restore(one.save())
            assert machine.run().exit_status == 0
            assert machine.finish_checks() == ()
