"""A guest that tells which words are UNDEFINED, at EL3 of a core of QEMU's."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from spe_unicorn.decode import decode
from spe_unicorn.instructions.known.finding import ROWS
from tests.instructions.harness import BASE, QEMU
from tests.support import a64
from tests.support.running.processes import WALL_SECONDS, limit_cpu

_HANDLER: Final = 0x800
_DATA: Final = 0x1000
_NAME: Final = 128
_CPTR, _ZCR, _VBAR, _ELR = (3, 6, 1, 1, 2), (3, 6, 1, 2, 0), (3, 6, 12, 0, 0), (3, 6, 4, 0, 1)
_ESR: Final = (3, 6, 5, 2, 0)
_OWN: Final = 20
_KEPT: Final = ((1 << 12) - 1) << 20
"""X20 to X30, which the guest itself uses, and SP."""


def guest(words: Sequence[int], file: str, *, sve: bool) -> bytes:
    """The image at BASE, which has QEMU write a byte for each word to ``file``."""
    stubs = BASE + _DATA + _NAME
    results = stubs + 8 * len(words)
    code = [*a64.mov64(0, BASE + _HANDLER), a64.msr(_VBAR, 0)]
    if sve:
        code += [*a64.mov64(0, 1 << 8), a64.msr(_CPTR, 0), 0xD503_3FDF, a64.msr(_ZCR, 31)]
    code += [
        0xD503_3FDF,
        *a64.mov64(26, stubs),
        *a64.mov64(22, results),
        *a64.mov64(21, len(words)),
    ]
    loop = len(code)
    code += [a64.movz(k, 0) for k in range(20)]
    code += [a64.movz(28, 0), a64.blr(26), a64.str_(28, 22, size=0)]
    code += [a64.add_imm(22, 22, 1), a64.add_imm(26, 26, 8), a64.subs_imm(21, 21, 1)]
    code += [a64.b_cond(a64.NE, 4 * (loop - len(code)))]
    block = BASE + _DATA - 64
    for call, values in (
        (1, (BASE + _DATA, 5, len(file))),
        (5, (None, results, len(words))),
        (24, (0x20026, 0)),
    ):
        code += a64.mov64(1, block)
        for k, value in enumerate(values):
            code += [a64.orr(2, 31, 0)] if value is None else a64.mov64(2, value)
            code.append(a64.str_(2, 1, 8 * k))
        code += [*a64.mov64(0, call), 0xD45E_0000]
    image = bytearray(a64.code(code))
    image += bytes(_HANDLER + 0x200 - len(image))
    # X28 is the exception class and 1 more, so that UNDEFINED is 1
    handler = [a64.mrs(29, _ELR), a64.add_imm(29, 29, 4), a64.msr(_ELR, 29), a64.mrs(28, _ESR)]
    image += a64.code([*handler, 0xD35A_FF9C, a64.add_imm(28, 28, 1), 0xD69F_03E0])
    image += bytes(_DATA - len(image))
    image += file.encode().ljust(_NAME, b"\0")
    for word in words:
        image += a64.code([word, a64.ret()])
    return bytes(image)


def undefined(words: Sequence[int], cpu: str, folder: Path, *, sve: bool) -> list[bool]:
    """Whether each word is UNDEFINED on that core of QEMU's."""
    file = folder / "results"
    (folder / "guest").write_bytes(guest(words, str(file), sve=sve))
    subprocess.run(
        [
            *(str(QEMU), "-machine", "virt,secure=on,virtualization=on,gic-version=3"),
            *("-cpu", cpu, "-m", "256", "-nographic", "-nic", "none"),
            *("-semihosting-config", "enable=on,target=native"),
            *("-device", f"loader,file={folder / 'guest'},addr={BASE:#x},cpu-num=0,force-raw=on"),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    return [byte == 1 for byte in file.read_bytes()]


def words_of_rows(random: Random, each: int) -> list[int]:
    """Random words of each row; branches and writes of the guest's own registers are left out."""
    words = [one.value | random.getrandbits(32) & ~one.mask for one in ROWS for _ in range(each)]
    return [word for word in words if harmless(word)]


def random_words(random: Random, number: int) -> list[int]:
    """Random words of data processing, loads and stores."""
    words = []
    while len(words) < number:
        word = random.getrandbits(32)
        if word >> 25 & 15 >= 4 and word >> 26 & 7 != 5 and harmless(word):
            words.append(word)
    return words


def harmless(word: int) -> bool:
    """Whether the guest goes on after a word.

    It is no branch, writes no register of the guest's own, and accesses nothing by one.
    """
    if word >> 26 & 7 == 5 and word >> 22 & 0x3FF != 0b11_0101_0100:
        return False  # a branch, or an exception
    if word >> 25 & 5 == 4 and (word >> 5 & 31 >= _OWN or word >> 16 & 31 >= _OWN):
        return False
    return not decode(word).writes & _KEPT
