"""FEAT_MTE and FEAT_MTE2: Logical Address Tags in registers, and accesses to Allocation Tags.

Without FEAT_MTE2 there are no Allocation Tags: each reads as 0, and is not written. So IRG, ADDG
and SUBG choose 0, as where access to tags is disabled. Accesses are the host's, which finds by
their form what is accessed besides (``host.pe.amended.tagging``, ``host.native.exceptions``).

GCR_EL1.RRND leaves to the implementation how IRG draws a tag. Here it draws as with RRND clear, but
from a seed of 1 where that is 0: the shift register gives nothing but zeros then.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.rules.tagging import GRANULE, TAG_LSB
from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.instructions.lanes import sign_extended
from spe_unicorn.instructions.registers import GENERAL, RegistersRecord
from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row
from spe_unicorn.instructions.sve2.numbers import less_unsigned

ADDG, SUBG, IRG, GMI, SUBP, SUBPS = range(1, 7)
"""Forms of what registers alone have part in."""
LOAD_TAG, STORE_TAG, STORE_ZEROS, STORE_PAIR, ZERO_BLOCK, TAG_BLOCK, MAINTAIN = range(1, 8)
"""Forms of accesses: LDG; STG and ST2G; STZG and STZ2G; STGP; DC GZVA; DC GVA; what cleans."""
LOAD_TAGS, STORE_TAGS, STORE_ZERO_BLOCK, MAINTAIN_EL1 = range(8, 12)
"""Those of FEAT_MTE2: LDGM; STGM; STZGM; maintenance that EL0 does not have."""
BLOCK: Final = 64
"""Bytes that LDGM, STGM, STZGM and DC GZVA access: 4 << GMID_EL1.BS, and 4 << DCZID_EL0.BS."""
_STACK_POINTER: Final = 31
TAG: Final = 0xF << TAG_LSB
"""The Logical Address Tag of an address."""
POST_INDEX: Final = 1
"""Bits 11:10 of stores of tags that write back after the access; 0 are loads."""
_POST, _OFFSET, _PRE = "post-index", "signed offset", "pre-index"


def _row(name: str, pattern: str, form: int, uses: Uses = Uses.GENERAL) -> Row:
    return row(name, pattern, Needs.MTE, Unit.TAGS, form, 0, uses)


def _access(name: str, pattern: str, form: int, granules: int = 1, needs: Needs = Needs.MTE) -> Row:
    uses = Uses.MEMORY | Uses.GENERAL
    return row(name, pattern, needs, Unit.TAG_ACCESS, form, granules, uses)


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
    *(
        _access(name, f"1101 1001 {op}10 0000 0000 00nn nnnx xxxx", form, 4, Needs.MTE2)
        for name, op, form in (
            ("STZGM", "00", STORE_ZERO_BLOCK),
            ("STGM", "10", STORE_TAGS),
            ("LDGM", "11", LOAD_TAGS),
        )
    ),
    *(
        _access(
            f"DC {name}",
            f"1101 0101 0000 1000 0111 {crm:04b} {op2:03b}x xxxx",
            MAINTAIN_EL1,
            needs=Needs.MTE2,
        )
        for name, crm, op2 in (
            ("IGVAC", 6, 3),
            ("IGSW", 6, 4),
            ("IGDVAC", 6, 5),
            ("IGDSW", 6, 6),
            ("CGSW", 10, 4),
            ("CGDSW", 10, 6),
            ("CIGSW", 14, 4),
            ("CIGDSW", 14, 6),
        )
    ),
)
_SEED_AT: Final = 8
"""RGSR_EL1.SEED."""
_RRND: Final = 1 << 16
_ALL_TAGS: Final = 0xFFFF


@routine
def choose_non_excluded_tag(tag: int, offset: int, exclude: int) -> int:
    """AArch64.ChooseNonExcludedTag()."""
    if exclude == _ALL_TAGS:
        return int64(0)
    if offset == 0:
        while exclude >> tag & 1 != 0:
            tag = tag + 1 & 15
    while offset != 0:
        offset -= 1
        tag = tag + 1 & 15
        while exclude >> tag & 1 != 0:
            tag = tag + 1 & 15
    return int64(tag)


@routine
def _random_tag(r: RegistersRecord, exclude: int) -> int:
    """IRG's choice, by AArch64.RandomTag(): four bits of a shift register, the first one lowest."""
    seed = r.rgsr >> _SEED_AT & 0xFFFF
    if r.gcr & _RRND != 0 and seed == 0:
        seed = int64(1)
    offset = int64(0)
    for n in range(4):
        top = (seed >> 5 ^ seed >> 3 ^ seed >> 2 ^ seed) & 1
        seed = top << 15 | seed >> 1
        offset |= top << n
    tag = choose_non_excluded_tag(r.rgsr & 15, offset, exclude)
    r.rgsr = seed << _SEED_AT | tag
    return int64(tag)


@routine
def carry_tags(r: RegistersRecord, word: int, form: int) -> None:
    """Carry out an instruction."""
    x = array_at(pointer_to(r.x), (GENERAL,), np.int64)
    d, n, m = word & 31, word >> 5 & 31, word >> 16 & 31
    first = x[n]
    value = int64(0)
    tag = int64(0)
    if form in (ADDG, SUBG):
        offset = int64((word >> 16 & 63) * GRANULE)
        value = (first + offset if form == ADDG else first - offset) & ~TAG
        if r.tags != 0:
            start = first >> TAG_LSB & 15
            tag = choose_non_excluded_tag(start, word >> 10 & 15, r.gcr & _ALL_TAGS)
        x[d] = value | tag << TAG_LSB
    elif form == IRG:
        if r.tags != 0:
            excluded = int64(0) if m == _STACK_POINTER else x[m]
            tag = _random_tag(r, (excluded | r.gcr) & _ALL_TAGS)
        x[d] = first & ~TAG | tag << TAG_LSB
    elif form == GMI:
        excluded = int64(0) if m == _STACK_POINTER else x[m]
        if d != _STACK_POINTER:
            x[d] = excluded | int64(1) << (first >> TAG_LSB & 15)
    else:
        a, b = sign_extended(first, TAG_LSB), sign_extended(x[m], TAG_LSB)
        value = a - b
        if form == SUBPS:
            flags = int64(8) if value < 0 else int64(4) if value == 0 else int64(0)
            if not less_unsigned(a, b):
                flags |= 2
            r.nzcv = flags << 28
        if d != _STACK_POINTER:
            x[d] = value
