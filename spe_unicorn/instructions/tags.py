"""FEAT_MTE: Logical Address Tags in registers, and accesses to Allocation Tags.

Without FEAT_MTE2 there are no Allocation Tags: each reads as 0, and is not written. So IRG, ADDG
and SUBG choose 0, as where access to tags is disabled. Accesses are the host's, which finds by
their form what is accessed besides (``host.pe.amended.tagging``, ``host.native.exceptions``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import sign_extended
from spe_unicorn.instructions.registers import GENERAL, RegistersRecord
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.numbers import less_unsigned

ADDG, SUBG, IRG, GMI, SUBP, SUBPS = range(1, 7)
"""Forms of what registers alone have part in."""
LOAD_TAG, STORE_TAG, STORE_ZEROS, STORE_PAIR, ZERO_BLOCK, TAG_BLOCK, MAINTAIN = range(1, 8)
"""Forms of accesses: LDG; STG and ST2G; STZG and STZ2G; STGP; DC GZVA; DC GVA; what cleans."""
GRANULE: Final = 16
"""Bytes that have one Allocation Tag."""
_STACK_POINTER: Final = 31
TAG: Final = 0xF << 56
"""The Logical Address Tag of an address."""
POST_INDEX: Final = 1
"""Bits 11:10 of stores of tags that write back after the access; 0 are loads."""
_BITS_OF_ADDRESS: Final = 56
_POST, _OFFSET, _PRE = "post-index", "signed offset", "pre-index"


def _row(name: str, pattern: str, form: int, uses: Uses = Uses.GENERAL) -> Row:
    return row(name, pattern, Needs.MTE, Unit.TAGS, form, 0, uses)


def _access(name: str, pattern: str, form: int, granules: int = 1) -> Row:
    uses = Uses.MEMORY | Uses.GENERAL
    return row(name, pattern, Needs.MTE, Unit.TAG_ACCESS, form, granules, uses)


ROWS: Final = (
    _row("ADDG", "1001 0001 10ii iiii 00ii iinn nnnd dddd", ADDG),
    _row("SUBG", "1101 0001 10ii iiii 00ii iinn nnnd dddd", SUBG),
    _row("IRG", "1001 1010 110m mmmm 0001 00nn nnnd dddd", IRG),
    _row("GMI", "1001 1010 110m mmmm 0001 01nn nnnd dddd", GMI),
    _row("SUBP", "1001 1010 110m mmmm 0000 00nn nnnd dddd", SUBP),
    _row(
        "SUBPS",
        "1011 1010 110m mmmm 0000 00nn nnnd dddd",
        SUBPS,
        Uses.GENERAL | Uses.FLAGS,
    ),
    _access("LDG", "1101 1001 011i iiii iiii 00nn nnnx xxxx", LOAD_TAG),
    *(
        _access(f"{name} ({way})", f"1101 1001 {op}1i iiii iiii {mode}nn nnnx xxxx", form, granules)
        for name, op, form, granules in (
            ("STG", "00", STORE_TAG, 1),
            ("STZG", "01", STORE_ZEROS, 1),
            ("ST2G", "10", STORE_TAG, 2),
            ("STZ2G", "11", STORE_ZEROS, 2),
        )
        for mode, way in (("01", _POST), ("10", _OFFSET), ("11", _PRE))
    ),
    *(
        _access(f"STGP ({way})", f"0110 100{mode} 0iii iiii yyyy ynnn nnxx xxx", STORE_PAIR)
        for mode, way in (("0 1", _POST), ("1 0", _OFFSET), ("1 1", _PRE))
    ),
    *(
        _access(f"DC {name}", f"1101 0101 0000 1011 0111 {crm:04b} {op2:03b}x xxxx", form)
        for name, crm, op2, form in (
            ("GVA", 4, 3, TAG_BLOCK),
            ("GZVA", 4, 4, ZERO_BLOCK),
            ("CGVAC", 10, 3, MAINTAIN),
            ("CGDVAC", 10, 5, MAINTAIN),
            ("CGVAP", 12, 3, MAINTAIN),
            ("CGDVAP", 12, 5, MAINTAIN),
            ("CGVADP", 13, 3, MAINTAIN),
            ("CGDVADP", 13, 5, MAINTAIN),
            ("CIGVAC", 14, 3, MAINTAIN),
            ("CIGDVAC", 14, 5, MAINTAIN),
        )
    ),
)


@routine
def carry_tags(r: RegistersRecord, word: int, form: int) -> None:
    """Carry out an instruction."""
    x = array_at(pointer_to(r.x), (GENERAL,), np.int64)
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    first = x[n]
    value = int64(0)
    if form in (ADDG, SUBG):
        offset = int64((word >> 16 & 63) * GRANULE)
        value = (first + offset if form == ADDG else first - offset) & ~TAG
        x[d] = value
    elif form == IRG:
        x[d] = first & ~TAG
    elif form == GMI:
        excluded = int64(0) if m == _STACK_POINTER else x[m]
        if d != _STACK_POINTER:
            x[d] = excluded | int64(1) << (first >> _BITS_OF_ADDRESS & 15)
    else:
        a, b = sign_extended(first, _BITS_OF_ADDRESS), sign_extended(x[m], _BITS_OF_ADDRESS)
        value = a - b
        if form == SUBPS:
            flags = int64(8) if value < 0 else int64(4) if value == 0 else int64(0)
            if not less_unsigned(a, b):
                flags |= 2
            r.nzcv = flags << 28
        if d != _STACK_POINTER:
            x[d] = value
