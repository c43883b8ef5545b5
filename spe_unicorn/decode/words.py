"""Instruction words that rules name, each with no field left open (Arm ARM C6.2)."""

from __future__ import annotations

from typing import Final

ERET: Final = 0xD69F_03E0
ERETAA: Final = 0xD69F_0BFF
ERETAB: Final = 0xD69F_0FFF
PSB_CSYNC: Final = 0xD503_223F
WFE: Final = 0xD503_205F
WFI: Final = 0xD503_207F
SEV: Final = 0xD503_209F
SEVL: Final = 0xD503_20BF
EVENT_HINTS: Final = frozenset({WFE, SEV, SEVL})
"""The hints that have to do with the Event Register."""
SEMIHOSTING: Final = 0xD45E_0000
"""HLT #0xF000."""


def authenticates(word: int) -> bool:
    """Whether a word adds or checks a pointer authentication code, and so may be trapped."""
    if word & 0xFFFF_FF3F == 0xD503_211F or word & 0xFFFF_FF1F == 0xD503_231F:
        return True  # PACIA1716 and its like, PACIASP and its like
    if word & 0xFFFF_C000 == 0xDAC1_0000:
        return True  # PACIA to AUTDZB; XPACI and XPACD are behind them
    if word & 0xFFE0_FC00 == 0x9AC0_3000:
        return True  # PACGA
    if word & 0xFF20_0400 == 0xF820_0400:
        return True  # LDRAA, LDRAB
    return word & 0xFE9F_F800 in (0xD61F_0800, 0xD69F_0800) and bool(
        word >> 24 & 1 or word & 31 == 31  # BRAA and its like, BRAAZ, RETAA, ERETAA
    )


def is_dsb_nxs(word: int) -> bool:
    """Whether a word is DSB with nXS, of any domain."""
    return word & 0xFFFF_F3FF == 0xD503_323F


def is_timed_wait(word: int) -> bool:
    """Whether a word is WFET or WFIT; bit 5 tells one from the other."""
    return word & 0xFFFF_FFC0 == 0xD503_1000
