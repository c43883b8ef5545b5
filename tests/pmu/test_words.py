"""Events of single instruction words, from Arm's definitions by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.decode import decode
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.words import WORD_EVENTS, events_of
from tests.support import a64 as a

LOAD = {E.LD_RETIRED, E.LD_SPEC, E.MEM_ACCESS}
STORE = {E.ST_RETIRED, E.ST_SPEC, E.MEM_ACCESS}
DIRECT = {E.BR_RETIRED, E.BR_IMMED_RETIRED}
INDIRECT = {E.BR_RETIRED, E.BR_IND_RETIRED}


@pytest.mark.parametrize(
    ("word", "events"),
    [
        (a.NOP, set()),
        (a.add_imm(0, 0, 1), set()),
        (0xF940_0020, LOAD),  # LDR X0, [X1]
        (0xF900_0020, STORE),  # STR X0, [X1]
        (0xA940_0420, LOAD),  # LDP X0, X1, [X1]
        (0xF820_0041, LOAD | STORE),  # LDADD X0, X1, [X2]
        (0xF820_005F, STORE),  # STADD X0, [X2]
        (0xD53B_E040, set()),  # MRS X0, CNTVCT_EL0
        (a.b(8), DIRECT),
        (a.bl(8), DIRECT),
        (a.b_cond(a.EQ, 8), DIRECT),
        (a.cbz(0, 8), DIRECT),
        (a.br(1), INDIRECT),
        (a.blr(1), INDIRECT),
        (a.RET, INDIRECT | {E.BR_RETURN_RETIRED}),
        (a.ERET, INDIRECT | {E.EXC_RETURN}),
        (0xD518_2000, {E.TTBR_WRITE_RETIRED}),  # MSR TTBR0_EL1, X0
        (0xD51D_2020, {E.TTBR_WRITE_RETIRED}),  # MSR TTBR1_EL12, X0
        (0xD518_D020, {E.CID_WRITE_RETIRED}),  # MSR CONTEXTIDR_EL1, X0
        (0xD538_2000, set()),  # MRS X0, TTBR0_EL1
        (0x1E62_2820, {E.FP_SPEC}),  # FADD D0, D1, D2
        (0x4EA2_8420, {E.SIMD_INST_SPEC}),  # ADD V0.4S, V1.4S, V2.4S
    ],
)
def test_events_of_a_word(word: int, events: set[E]) -> None:
    assert events_of(decode(word)) == events
    assert events <= WORD_EVENTS
