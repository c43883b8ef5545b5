"""Backtraces of functions without frame pointers, by call frame information."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug.backtrace import backtrace
from tests.support.running.calling import GCC, compiled

pytestmark = pytest.mark.skipif(GCC is None, reason="there is no cross compiler")


def calls(machine: Machine) -> list[str]:
    found = backtrace(machine.board.cpu, machine.board.names)
    return [str(machine.symbolize(pc)).partition("+")[0] for pc, _ in found]


@pytest.mark.parametrize(
    "flags",
    [
        ("-fomit-frame-pointer", "-fno-asynchronous-unwind-tables"),  # .debug_frame
        ("-fomit-frame-pointer", "-fasynchronous-unwind-tables"),  # .eh_frame
        ("-fomit-frame-pointer", "-mbranch-protection=pac-ret+leaf"),
        ("-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"),
    ],
)
def test_all_callers_are_found_at_every_instruction(tmp_path: Path, flags: tuple[str, str]) -> None:
    machine = Machine(compiled(tmp_path, *flags))
    machine.run(until="outer")
    seen = set()
    for _ in range(60):
        here = calls(machine)
        seen.add(tuple(here))
        expected = ["leaf", "middle", "outer", "main", "_start"]
        if here[0] == "main":
            break
        assert here == expected[expected.index(here[0]) :]
        machine.step()
    assert ("leaf", "middle", "outer", "main", "_start") in seen


def test_a_stack_that_cannot_be_read_ends_the_backtrace(tmp_path: Path) -> None:
    machine = Machine(compiled(tmp_path, "-fomit-frame-pointer"))
    machine.run(until="leaf")
    machine.pes[0].sp = 0x1000
    assert calls(machine)[0] == "leaf"


INLINED = """
__asm__(".globl _start\\n_start: ldr x0, =0x40200000\\n mov sp, x0\\n bl work\\n b .\\n");
volatile long *nowhere = (volatile long *)0xdead0000;
static inline __attribute__((always_inline)) void inner(void) { *nowhere = 1; }
static inline __attribute__((always_inline)) void outer(void) { inner(); }
__attribute__((noinline)) void work(void) { outer(); }
"""


def test_functions_that_were_inlined_are_named(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-fomit-frame-pointer", source=INLINED)
    outcome = Machine(program).run()
    first, second = outcome.places[0].backtrace[:2]
    # line 4 of the source holds `inner`
    assert first.inlined == ("inner", "outer")
    assert f"{first}".endswith("(calls.c:4, inlined: inner < outer)>")
    assert str(first.symbol).startswith("work")
    assert second.inlined == ()
    assert "inlined: inner < outer" in str(outcome.places[0])
