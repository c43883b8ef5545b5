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
