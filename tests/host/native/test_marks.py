"""What blocks are looked out for: the word test that compiled code makes, against the decoder."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from spe_unicorn.arch.operation import Mark
from spe_unicorn.compiled import entry
from spe_unicorn.decode import decode
from spe_unicorn.host.native.marks import (
    MARK_ERET,
    MARK_EVENT,
    MARK_FENCE,
    MARK_FP,
    MARK_ORDER,
    MARK_RETURN,
    MARK_SYNC,
    marks_of,
)
from spe_unicorn.host.ports import ORDERING
from tests.support import a64 as a

ERETAA, ERETAB, ISB_NSH = 0xD69F_0BFF, 0xD69F_0FFF, 0xD503_37DF
DSB_ISHLD, DSB_ISH_NXS = 0xD503_399F, 0xD503_3A3F
SYSTEM = 0xD500_0000
BRANCHES = 0xD600_0000


@pytest.mark.parametrize(
    ("word", "marks"),
    [
        (a.ERET, MARK_RETURN | MARK_ERET | MARK_FENCE),
        (ERETAA, MARK_RETURN | MARK_FENCE),
        (ERETAB, MARK_RETURN | MARK_FENCE),
        (a.PSB_CSYNC, MARK_SYNC | MARK_ORDER),
        (a.ISB, MARK_FENCE),
        (ISB_NSH, MARK_FENCE),
        (a.ldr_d(0, 1), MARK_FP),
        (0x1E60_2800, MARK_FP),  # FADD D0, D0, D0
        (0xD53B_4400, MARK_FP),  # MRS X0, FPCR
        (0xD51B_4421, MARK_FP),  # MSR FPSR, X1
        (a.WFE, MARK_EVENT),
        (a.SEV, MARK_EVENT),
        (a.WFI, 0),
        (a.YIELD, 0),
        (a.DSB_SY, MARK_ORDER),
        (DSB_ISH_NXS, MARK_ORDER),
        (DSB_ISHLD, 0),
        (a.DMB_ISH, 0),
        (a.RET, 0),
        (a.NOP, 0),
        (a.svc(0), 0),
        (a.ldr(0, 1), 0),
    ],
)
def test_marks_of_a_word(word: int, marks: int) -> None:
    assert marks_of(word) == marks


@entry("int64", "int64")
def compiled_marks(word: Any) -> Any:
    return marks_of(word)


def test_marks_agree_with_the_decoder_and_compiled_with_interpreted() -> None:
    random = Random(1)
    words = [random.getrandbits(32) for _ in range(20000)]
    words += [base | random.getrandbits(24) for base in (SYSTEM, BRANCHES) for _ in range(9000)]
    special = (a.ERET, ERETAA, ERETAB, a.PSB_CSYNC, a.ISB, ISB_NSH, a.DSB_SY, DSB_ISH_NXS)
    words += [word ^ 1 << bit for word in special for bit in range(32)]
    words += special
    for word in words:
        mark = decode(word).mark
        marks = marks_of(word)
        assert bool(marks & MARK_RETURN) == (mark is Mark.ERET), hex(word)
        assert bool(marks & MARK_SYNC) == (mark is Mark.PSB_CSYNC), hex(word)
        assert bool(marks & (MARK_ORDER | MARK_FENCE)) == (mark in ORDERING), hex(word)
        assert bool(marks & MARK_FENCE) == (mark in (Mark.ISB, Mark.ERET)), hex(word)
        assert compiled_marks(word) == marks, hex(word)
