"""SVE and SME, and what is carried out here, of which the rows stand elsewhere."""

from __future__ import annotations

from functools import cache
from typing import Final

from spe_unicorn.instructions import decoder
from spe_unicorn.instructions.known.features import BIT
from spe_unicorn.instructions.known.rows import Known, table
from spe_unicorn.instructions.rows import Needs

_FEATURE: Final = {
    Needs.SVE: "SVE",
    Needs.I8MM: "I8MM",
    Needs.BF16: "BF16",
    Needs.SVE2: "SVE2",
    Needs.BITPERM: "SVE_BitPerm",
    Needs.SVE_SHA3: "SVE_SHA3",
    Needs.SVE_AES: "SVE_AES",
    Needs.SVE_SM4: "SVE_SM4",
    Needs.F32MM: "F32MM",
    Needs.F64MM: "F64MM",
    Needs.SVE2P1: "SVE2p1",
    Needs.CSSC: "CSSC",
    Needs.LSE128: "LSE128",
    Needs.HBC: "HBC",
    Needs.MTE: "MTE",
    Needs.MTE2: "MTE2",
    Needs.MOPS: "MOPS",
    Needs.LRCPC3: "LRCPC3",
    Needs.LS64: "LS64",
    Needs.LUT: "LUT",
    Needs.CMPBR: "CMPBR",
}


@cache
def _needs(needs: Needs) -> int:
    return sum(BIT[name] for need, name in _FEATURE.items() if need in needs)


CARRIED_OUT: Final = tuple(
    Known(one.name, one.mask, one.value, _needs(one.needs)) for one in decoder.ROWS
)
"""Instructions that the engine lacks and spe_unicorn has."""
ROWS: Final[tuple[Known, ...]] = table("""
# instructions of SME in the encodings of SVE
0000 0100 1011 1111 0101 1iii iiid dddd SME RDSVL
0000 0100 001n nnnn 0101 1iii iiid dddd SME ADDSVL
0000 0100 011n nnnn 0101 1iii iiid dddd SME ADDSPL
# all else
xxx0 010x xxxx xxxx xxxx xxxx xxxx xxxx SVE instruction
1xx0 000x xxxx xxxx xxxx xxxx xxxx xxxx SME instruction
""")
"""The first row that a word fits is its row."""
