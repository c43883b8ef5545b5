"""Every instruction of these tables against QEMU: vectors, predicates, NZCV and FPSR."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import pytest

from spe_unicorn.decode import decode
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions import company
from spe_unicorn.instructions.decoder import ROWS, name_of
from spe_unicorn.instructions.rows import Needs, Uses
from tests.instructions.harness import (
    QEMU,
    Case,
    State,
    carried,
    here,
    on_qemu,
    random_cases,
    random_state,
)

pytestmark = pytest.mark.skipif(QEMU is None, reason="qemu-system-aarch64 is not installed")

PATTERNS = [
    one.pattern for one in (*ROWS, *company.ROWS) if not one.uses & (Uses.MEMORY | Uses.GENERAL)
]
SVE2 = "max"
WHILE_POINTERS, ONLY_WHILE_POINTERS = 0x2520_3000, 0xFF20_FC00


GROUPS = (0x04, 0x05, 0x24, 0x25, 0x44, 0x44, 0x45, 0x45, 0x64, 0x65)
GENERAL = (1 << 32) - 1
OF_SME = (
    (0xFF20_C210, 0x2520_4000),  # PSEL
    (0xFF20_F800, 0x4400_C000),  # SCLAMP, UCLAMP
    (0xFFFF_E000, 0x052E_8000),  # REVD
)
"""Masks and values of what FEAT_SVE2p1 brings and QEMU has with FEAT_SME."""
LEFT_OVER = ((0xFFE0_FC00, 0x64E0_E400), (0xFFE0_F800, 0x05A0_0800))
"""FMMLA of double precision, and UZP1 and UZP2 of quadwords."""
LONG: Final = 32


def is_told_otherwise(word: int, state: State, size: int) -> bool:
    """Whether QEMU differs: WHILEWR and WHILERW of pointers less than an element apart.

    Arm's pseudocode divides the difference first, so it counts as none (test_sve2). After the
    instructions of ``LEFT_OVER`` what is beyond the last 256 bits is zeros (test_f64mm). With 128
    bits what FEAT_F64MM brings is UNDEFINED, which a machine finds out. QEMU lacks FEAT_LUT, and
    what FEAT_SVE2p1 brings but for ``OF_SME``.
    """
    if is_of(word, Needs.LUT):
        return True
    if is_of(word, Needs.SVE2P1) and not any(word & mask == value for mask, value in OF_SME):
        return True
    rest = size % LONG
    if rest and any(word & mask == value for mask, value in LEFT_OVER):
        return True
    if size < LONG and is_of(word, Needs.F64MM):
        return True
    if word & ONLY_WHILE_POINTERS != WHILE_POINTERS:
        return False
    first, second = (
        state.x[n] if n < len(state.x) else 0 for n in (word >> 5 & 31, word >> 16 & 31)
    )
    return 0 < abs(second - first) < 1 << (word >> 22 & 3)


def is_of(word: int, needs: Needs) -> bool:
    return any(word & one.mask == one.value for one in ROWS if one.needs & needs)


def same_cases(seed: int, each: int, size: int) -> list[Case]:
    cases = random_cases(Random(seed), PATTERNS, each, size)
    return [case for case in cases if not is_told_otherwise(*case, size)]


@pytest.mark.sweep
@pytest.mark.parametrize(("size", "each"), [(16, 20), (32, 12), (80, 5), (128, 3)])
def test_the_functions_do_what_qemu_does(size: int, each: int, tmp_path: Path) -> None:
    """Words of a row whose size is reserved are UNDEFINED there, and have no row here.

    With 2048 bits QEMU 7.2 saturates UQXTNB and UQXTNT of 64 bits with the most significant bit set
    to 0, and to all ones with less.
    """
    cases = same_cases(size, each, size)
    theirs = on_qemu(cases, size, tmp_path)
    ours = carried(cases, size)
    wrong = Counter(
        name_of(word) or f"{word:#x}"
        for (word, _), mine, other in zip(cases, ours, theirs, strict=True)
        if (not other.undefined if mine is None else mine != other)
    )
    assert wrong == {}
    assert sum(mine is not None for mine in ours) > len(cases) * 4 // 5


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(("size", "each"), [(16, 2), (32, 1)])
def test_a_guest_here_and_on_qemu_sees_the_same(
    size: int, each: int, runner: type[Runner], tmp_path: Path
) -> None:
    cases = same_cases(size + 1, each, size)
    assert here(cases, size, SVE2, runner) == on_qemu(cases, size, tmp_path)


@pytest.mark.sweep
def test_no_word_of_sve2_is_missing(tmp_path: Path) -> None:
    """Random words of SVE's data processing."""
    random = Random(7)
    words: list[int] = []
    while len(words) < 4000:
        word = random.choice(GROUPS) << 24 | random.getrandbits(24)
        if not decode(word).writes & GENERAL:  # which the guest needs
            words.append(word)
    cases = [(word, random_state(random, 16)) for word in words]
    cases = [case for case in cases if not is_told_otherwise(*case, 16)]
    theirs, ours = on_qemu(cases, 16, tmp_path), here(cases, 16, SVE2)
    differ = [w for (w, _), a, b in zip(cases, ours, theirs, strict=True) if a != b]
    assert [hex(w) for w in differ] == []
    assert sum(not result.undefined for result in theirs) > 1000
