"""FEAT_MTE and FEAT_MTE2 against QEMU: what registers, data and tags show.

First where access to tags is disabled, then with tags, and with checks of loads and stores.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from spe_unicorn.arch.pe import EL3
from spe_unicorn.cores.profile import load_core
from spe_unicorn.decode import address_from, decode
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions import tags
from spe_unicorn.instructions.decoder import NUMBER, ROWS, TABLE, find
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
    return a64.code([*code, *told(RESULTS - DATA + RESULT * len(cases))]), done


def told(size: int) -> list[int]:
    """Code that writes the data to a file by semihosting, and ends."""
    code: list[int] = []
    name = a64.mov64(1, NAME - 64)
    code += [*name, *a64.mov64(2, NAME), a64.str_(2, 1), *a64.mov64(2, 5), a64.str_(2, 1, 8)]
    code += [*a64.mov64(2, len(FILE)), a64.str_(2, 1, 16), *a64.mov64(0, OPEN), 0xD45E_0000]
    code += [*name, a64.str_(0, 1), *a64.mov64(2, DATA), a64.str_(2, 1, 8)]
    code += [*a64.mov64(2, size), a64.str_(2, 1, 16)]
    code += [*a64.mov64(0, WRITE), 0xD45E_0000]
    code += [*name, *a64.mov64(2, 0x20026), a64.str_(2, 1), a64.str_(31, 1, 8)]
    return [*code, *a64.mov64(0, EXIT), 0xD45E_0000]


FILE: Final = "results"


def on_qemu(image: bytes, folder: Path) -> bytes:
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
    image, done = guest(cases, each)
    theirs = on_qemu(image, tmp_path)
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


TABLES, VECTORS = BASE + 0x44_0000, BASE + 0x45_0000
FIVE, TWO, OTHERS = DATA + 0x1000, DATA + 0x2000, DATA + 0x3000
"""Pages with tag 5, with tag 2, and one whose tags are stored. QEMU 7.2 has two tags for all of a
page, of even and of odd granules, as it forgets where in its page an address is. So no access here
leaves its pair of granules."""
CHECKED_RESULT: Final = 88
CAS: Final = 0xC8A0_7C00
GCR, RGSR, TFSR = (3, 0, 1, 0, 6), (3, 0, 1, 0, 5), (3, 6, 5, 6, 0)
ESR, FAR, ELR = (3, 6, 5, 2, 0), (3, 6, 6, 0, 0), (3, 6, 4, 0, 1)
SETUP: Final = (
    ((3, 6, 10, 2, 0), 0xF0),  # MAIR_EL3: Tagged
    ((3, 6, 2, 0, 2), 1 << 31 | 1 << 23 | 1 << 20 | 2 << 16 | 0x3500 | 25),  # TCR_EL3, with TBI
    ((3, 6, 2, 0, 0), TABLES),
    ((3, 6, 12, 0, 0), VECTORS),
    ((3, 6, 1, 1, 2), 1 << 8),  # CPTR_EL3
    (GCR, 0x0413),
    (RGSR, 0xACE1 << 8 | 3),
    (TFSR, 0),
)
FORMS: Final = (
    # a word with Rt 0 and Rn 0, random bits of it, and whether the address is to be aligned
    *((0x3900_0000 | size << 30, 0x40_3C00, False) for size in range(4)),  # LDR, STR
    *((0x3800_0000 | size << 30, 0x5F_F000, False) for size in range(4)),  # LDUR, STUR
    *((0x3800_0400 | size << 30, 0x5F_F800, False) for size in range(4)),  # post-index, pre-index
    *((0x3825_6800 | size << 30, 0x40_1000, False) for size in range(4)),  # by X5
    *((op, 0x7F_8000, False) for op in (0x2800_0800, 0x2980_0800, 0xA880_0800, 0xA900_0800)),  # LDP
    *((op, 0, False) for op in (0x3D80_0000, 0x3DC0_0000, 0xAD00_0400, 0xAD40_0400)),  # of Q
    *((op, 0, False) for op in (0x4C40_2000, 0x4C00_2000, 0x4C40_0000, 0x0D40_8000, 0x4D40_C000)),
    *((op, 0, True) for op in (0xC85F_7C00, 0xC8DF_FC00, 0xC89F_FC00)),  # LDXR, LDAR, STLR
    *((op | 2 << 16, 0, True) for op in (0xF820_0000, 0xF820_8000, CAS)),  # LDADD, SWP, CAS
    *((op, 0, False) for op in (0xB980_0000, 0xF980_0000, 0xD50B_7A20)),  # PRFM, DC CVAC
)


class Case(NamedTuple):
    """A word, X4 and X5 before it, and the granule whose tag is loaded after it, if any."""

    word: int
    pointer: int
    index: int
    granule: int = 0


def checked_cases(seed: int, each: int) -> list[Case]:
    """Random loads and stores where two pages meet, and instructions of tags in another page."""
    random, found = Random(seed), []
    for value, free, aligned in FORMS * each:
        word = value | random.getrandbits(32) & free
        word |= 4 if word >> 22 == 0x354 else 4 << 5 | random.choice((1, 2, 3))
        for _ in range(64):
            place = random.randrange(-0x100, 0x100, 16) + (0 if aligned else random.randrange(16))
            pointer = TWO + place | random.choice((0, 2, 5)) << 56
            case = Case(word, pointer, random.randrange(32))
            if is_within_pair(case):
                found.append(case)
                break
    for word in words(seed, each):
        granule = OTHERS + random.randrange(0x400, 0xC00, 16)
        access = decode(word).access
        offset = 0 if access is None or word >> 22 == 0x354 else access.offset
        pointer = granule - offset | random.getrandbits(4) << 56
        form = ROWS[TABLE[find(TABLE, word, Needs.MTE) + NUMBER]]
        if form.unit is not Unit.TAG_ACCESS or form.form == tags.MAINTAIN:
            found.append(Case(word, pointer, 0))
        elif form.form != tags.LOAD_TAG:
            found.append(Case(word, pointer, 0, granule))
    random.shuffle(found)
    return found


def is_within_pair(case: Case) -> bool:
    access = decode(case.word).access
    if access is None:
        return True
    address = address_from(access, case.pointer, case.index)
    return address % 32 + access.size <= 32


def checked_guest(cases: list[Case], seed: int, tcf: int) -> tuple[bytes, int, int]:
    """Code with checks of tags at EL3; where it ends; and bytes of data and results."""
    random = Random(seed)
    code: list[int] = [*a64.mov64(1, TABLES), *a64.mov64(2, 0x4000_0000 | 0x741), a64.str_(2, 1, 8)]
    for register, value in SETUP:
        code += [*a64.mov64(1, value), a64.msr(register, 1)]
    handler = [a64.mrs(10, ESR), a64.mrs(11, FAR), a64.mrs(12, ELR), a64.add_imm(12, 12, 4)]
    code += a64.mov64(1, VECTORS + 0x200)
    for n, word in enumerate([*handler, a64.msr(ELR, 12), a64.ERET]):
        code += [*a64.mov64(2, word), a64.str_(2, 1, 4 * n, 2)]
    code += [*a64.mov64(1, 0x30C5_1835 | 1 << 43 | tcf << 40), a64.ISB, a64.msr((3, 6, 1, 0, 0), 1)]
    code += [a64.ISB, *a64.mov64(20, RESULTS), a64.msr(NZCV, 31), 0xD503_409F, a64.ISB]
    for page in (FIVE | 5 << 56, TWO | 2 << 56):
        st2g = 0xD9A0_2421  # ST2G X1, [X1], #32
        code += [*a64.mov64(1, page), *a64.mov64(2, 128), st2g, a64.sub_imm(2, 2, 1)]
        code += [a64.cbnz(2, -8)]
    for case in cases:
        for n in range(1, 4):
            code += a64.mov64(n, random.getrandbits(64))
        code += [*a64.mov64(4, case.pointer), *a64.mov64(5, case.index)]
        code += [*a64.mov64(9, case.granule), *a64.mov64(10, 0), *a64.mov64(11, 0)]
        code += [case.word, a64.mrs(6, NZCV), a64.mrs(7, RGSR), a64.mrs(8, TFSR)]
        code += [a64.msr(TFSR, 31), 0xD960_0129 if case.granule else a64.NOP]  # LDG X9, [X9]
        kept = (1, 2, 3, 4, 6, 7, 8, 9, 10, 11)
        code += [a64.str_(register, 20, 8 * n) for n, register in enumerate(kept)]
        code += [a64.add_imm(20, 20, CHECKED_RESULT)]
    size = RESULTS - DATA + CHECKED_RESULT * len(cases)
    return a64.code([*code, *told(size)]), BASE + 4 * len(code), size


@pytest.mark.parametrize(("runner", "tcf"), [(Runner, 1), (Runner, 2), (ReferenceRunner, 1)])
def test_a_guest_with_checks_here_and_on_qemu_sees_the_same(
    runner: type[Runner], tcf: int, tmp_path: Path
) -> None:
    each = 5 if runner is Runner else 1
    cases = checked_cases(each + tcf, each)
    image, done, size = checked_guest(cases, each, tcf)
    theirs = on_qemu(image, tmp_path)
    board = board_at([], core=load_core("neoverse-n2"), ram=64 * MIB, runner=runner)
    board.memory.fill(BASE, image)
    board.memory.fill(DATA, filling())
    board.pes[0].start(EL3, BASE)
    board.run(until=done)
    assert board.cpu.pc == done
    ours = board.memory.read(DATA, size)
    assert ours is not None
    failed = 0
    for n, case in enumerate(cases):
        at = RESULTS - DATA + CHECKED_RESULT * n
        one, other = (struct.unpack_from("<10Q", data, at) for data in (ours, theirs))
        if case.word & CAS == CAS:  # QEMU has WnR 1, Arm 0, as a read would have failed, too
            other = (*other[:8], other[8] & ~(1 << 6), other[9])
        assert one == other, (n, hex(case.word), hex(case.pointer))
        failed += one[8] & 0x3F == 0x11 or one[6] == 1
    assert failed > 10 * each
    assert ours[:SIZE] == theirs[:SIZE]
