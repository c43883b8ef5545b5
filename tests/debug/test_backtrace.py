"""Backtraces of functions without frame pointers, by call frame information."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug.backtrace import backtrace

GCC = shutil.which("aarch64-linux-gnu-gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="there is no cross compiler")

SOURCE = """
__asm__(".globl _start\\n_start: ldr x0, =0x40200000\\n mov sp, x0\\n mov x29, xzr\\n"
        " mov x30, xzr\\n bl main\\n b .\\n");
volatile long sink;
__attribute__((noinline)) long leaf(long n) { sink = n; return n + sink; }
__attribute__((noinline)) long middle(long n)
{ long v[8]; v[n & 7] = leaf(n); return v[n & 7] + sink; }
__attribute__((noinline)) long outer(long n) { return middle(n + 1) * 3; }
int main(void) { return (int)outer(5) + 1; }
"""


def compiled(folder: Path, *flags: str) -> Path:
    source, program = folder / "calls.c", folder / "calls.elf"
    source.write_text(SOURCE)
    subprocess.run(
        [
            *(str(GCC), "-O1", "-g", "-ffreestanding", "-nostdlib", "-static", "-no-pie"),
            *("-Wl,-Ttext-segment=0x40080000", "-Wl,--build-id=none", "-fno-stack-protector"),
            *("-fno-optimize-sibling-calls", *flags, "-o", str(program), str(source)),
        ],
        check=True,
    )
    return program


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
