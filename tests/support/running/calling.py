"""A program in C of functions that call each other, for the cross compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

GCC = shutil.which("aarch64-linux-gnu-gcc")

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


def compiled(folder: Path, *flags: str, source: str = SOURCE) -> Path:
    path, program = folder / "calls.c", folder / "calls.elf"
    path.write_text(source)
    subprocess.run(
        [
            *(str(GCC), "-O1", "-g", "-ffreestanding", "-nostdlib", "-static", "-no-pie"),
            *("-Wl,-Ttext-segment=0x40080000", "-Wl,--build-id=none", "-fno-stack-protector"),
            *("-fno-optimize-sibling-calls", *flags, "-o", str(program), str(path)),
        ],
        check=True,
    )
    return program
