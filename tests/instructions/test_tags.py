"""FEAT_MTE against QEMU, where access to tags is disabled: what of it registers and data show."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from random import Random
from typing import Final

import pytest

from spe_unicorn.arch.pe import EL3
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions import tags
from spe_unicorn.instructions.rows import Needs, Unit
from tests.instructions.harness import BASE, QEMU
from tests.support import a64
from tests.support.running.processes import WALL_SECONDS
from tests.support.small_boards import MIB, board_at

pytestmark = pytest.mark.skipif(QEMU is None, reason="qemu-system-aarch64 is not installed")

NZCV: Final = (3, 3, 4, 2, 0)
NAME, DATA, RESULTS = BASE + 0x40_0000, BASE + 0x41_0000, BASE + 0x42_0000
SIZE: Final = 1 << 14
"""Bytes of data, in which accesses begin in the middle."""
RESULT: Final = 48
OPEN, WRITE, EXIT = 1, 5, 0x18


def words(seed: int, each: int, needs: Needs = Needs.MTE) -> list[int]:
    """Random words of each row; X1 to X3 are their registers, and accesses are by X4."""
    random, found = Random(seed), []
    for one in tags.ROWS:
        if one.needs & ~needs:
            continue
        for _ in range(each):
            word = one.value | random.getrandbits(32) & ~one.mask
            rd, rn, rm = (random.choice((1, 2, 3)) for _ in range(3))
            if one.name.startswith("DC"):
                word = one.value | 4
            elif one.unit is Unit.TAG_ACCESS:
                word = word & ~0x3FF | 4 << 5 | rd
                if one.form == tags.STORE_PAIR:
                    word = word & ~(31 << 10) | rm << 10
            else:
                word = word & ~0x3FF | rn << 5 | rd
                if one.form not in (tags.ADDG, tags.SUBG):
                    word = word & ~(31 << 16) | random.choice((rm, rm, 31)) << 16
            found.append(word)
    random.shuffle(found)
    return found


def guest(cases: list[int], seed: int) -> tuple[bytes, int]:
    """Code that stores X1 to X4 and NZCV after each word, then the data; and where it ends."""
    random = Random(seed)
    code: list[int] = [*a64.mov64(20, RESULTS), a64.msr(NZCV, 31)]
    for word in cases:
        for n in range(1, 4):
            code += a64.mov64(n, random.getrandbits(64))
        code += [*a64.mov64(4, DATA + SIZE // 2 + 16 * random.randrange(64)), word]
        code += [a64.mrs(5, NZCV)]
        code += [a64.str_(n, 20, 8 * n - 8) for n in range(1, 6)]
        code += [a64.add_imm(20, 20, RESULT)]
    done = BASE + 4 * len(code)
    name = a64.mov64(1, NAME - 64)
    code += [*name, *a64.mov64(2, NAME), a64.str_(2, 1), *a64.mov64(2, 5), a64.str_(2, 1, 8)]
    code += [*a64.mov64(2, len(FILE)), a64.str_(2, 1, 16), *a64.mov64(0, OPEN), 0xD45E_0000]
    code += [*name, a64.str_(0, 1), *a64.mov64(2, DATA), a64.str_(2, 1, 8)]
    code += [*a64.mov64(2, RESULTS - DATA + RESULT * len(cases)), a64.str_(2, 1, 16)]
    code += [*a64.mov64(0, WRITE), 0xD45E_0000]
    code += [*name, *a64.mov64(2, 0x20026), a64.str_(2, 1), a64.str_(31, 1, 8)]
    code += [*a64.mov64(0, EXIT), 0xD45E_0000]
    return a64.code(code), done


FILE: Final = "results"


def on_qemu(cases: list[int], seed: int, folder: Path) -> bytes:
    image, _ = guest(cases, seed)
    assert len(image) < NAME - 64 - BASE
    whole = image.ljust(NAME - BASE, b"\0") + FILE.encode() + b"\0"
    (folder / "guest").write_bytes(whole.ljust(DATA - BASE, b"\0") + filling())
    machine = "virt,secure=on,virtualization=on,gic-version=3,mte=on"
    subprocess.run(
        [
            *(str(QEMU), "-machine", machine, "-cpu", "max", "-m", "256", "-nographic"),
            *("-semihosting-config", "enable=on,target=native", "-nic", "none"),
            *("-device", f"loader,file={folder / 'guest'},addr={BASE:#x},cpu-num=0,force-raw=on"),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=WALL_SECONDS,
        cwd=folder,
    )
    return (folder / FILE).read_bytes()


def filling() -> bytes:
    return Random(1).randbytes(SIZE)


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_a_guest_here_and_on_qemu_sees_the_same(runner: type[Runner], tmp_path: Path) -> None:
    each = 30 if runner is Runner else 4
    cases = words(each, each)
    theirs = on_qemu(cases, each, tmp_path)
    image, done = guest(cases, each)
    board = board_at([], core=load_core("neoverse-n2,FEAT_MTE2=off"), ram=64 * MIB, runner=runner)
    board.memory.fill(BASE, image)
    board.memory.fill(DATA, filling())
    board.pes[0].start(EL3, BASE)
    board.run(until=done)
    assert board.cpu.pc == done
    ours = board.memory.read(DATA, len(theirs))
    assert ours is not None
    assert ours[:SIZE] == theirs[:SIZE]
    at = RESULTS - DATA
    for n, word in enumerate(cases):
        one, other = (struct.unpack_from("<5Q", data, at + RESULT * n) for data in (ours, theirs))
        assert one == other, hex(word)
