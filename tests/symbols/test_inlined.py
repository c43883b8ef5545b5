"""Inlined calls by DWARF: as binutils and LLVM have them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.symbols.elf import read_elf
from spe_unicorn.symbols.inlined import Frame, InlinedCalls

ADDR2LINE = shutil.which("aarch64-linux-gnu-addr2line")


def theirs(path: Path, addresses: list[int]) -> list[list[tuple[str, str]]]:
    """What ``addr2line -i`` says: function and line of each frame, the innermost first."""
    assert ADDR2LINE is not None
    said = subprocess.run(
        [ADDR2LINE, "-a", "-i", "-f", "-e", str(path)],
        input="".join(f"{a:#x}\n" for a in addresses),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    result: list[list[tuple[str, str]]] = []
    lines = iter(said)
    for line in lines:
        if line.startswith("0x"):
            result.append([])
        else:
            place = next(lines).rpartition("/")[2].partition(" ")[0]
            result[-1].append((line, place))
    return result


@pytest.mark.skipif(ADDR2LINE is None, reason="needs binutils for AArch64")
@pytest.mark.parametrize("name", ["bench_hash", "spe_smp", "priv_smp", "hello_pie", "first_touch"])
def test_every_instruction_has_the_frames_that_binutils_says(name: str) -> None:
    path = shipped_firmware(name)
    file = read_elf(path)
    calls = InlinedCalls(file)
    code = [s for s in file.symbols if s.function and s.size]
    addresses = [a for s in code for a in range(s.address, s.address + s.size, 4)]
    ours = [
        [(f.function, f.line.short if f.line else "??:0") for f in calls.at(a)] for a in addresses
    ]
    told = theirs(path, addresses)
    compared = [(mine, other) for mine, other in zip(ours, told, strict=True) if mine]
    assert len(compared) > 100
    assert sum(len(mine) > 1 for mine, _ in compared) > 10
    same = sum(
        [name for name, _ in mine] == [name for name, _ in other]
        and [line for _, line in mine[1:]] == [line for _, line in other[1:]]
        for mine, other in compared
    )
    assert same >= 0.99 * len(compared), [pair for pair in compared if pair[0] != pair[1]][:20]


def test_an_address_in_no_unit_has_no_frame() -> None:
    calls = InlinedCalls(read_elf(shipped_firmware("hello")))
    assert calls.at(0) == ()
    assert calls.at(0x4800_0000) == ()


def test_a_damaged_file_has_frames_or_none(tmp_path: Path) -> None:
    good = shipped_firmware("bench_hash").read_bytes()
    file = tmp_path / "a.elf"
    file.write_bytes(good)
    elf = read_elf(file)
    address = next(s.address for s in elf.symbols if s.name == "main")
    assert InlinedCalls(elf).at(address)[-1].function == "main"
    for start in range(0x2000, len(good), 1997):
        file.write_bytes(good[:start] + b"\xff" * 64 + good[start + 64 :])
        assert all(isinstance(frame, Frame) for frame in InlinedCalls(elf).at(address))
    file.unlink()
    assert InlinedCalls(elf).at(address) == ()
