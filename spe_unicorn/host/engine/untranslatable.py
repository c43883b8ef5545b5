"""Instruction words at which an assertion in the engine's translator fails.

They were found by having the engine translate every word. They lie in two groups of SIMD
instructions with half-precision elements: the translator handles only the instructions that
Armv8.2 has there. All of these words are UNDEFINED on every core that there is here. Three have a
meaning since later versions (FEAT_FAMINMAX, FEAT_FP8), the others have none (Arm ARM C4.1.97).
"""

from __future__ import annotations

from typing import Final

_THREE_SAME, _THREE_SAME_MASK = 0x0E40_0400, 0x9F60_C400
"""Advanced SIMD three same (FP16): ``U a opcode`` are bits 29, 23 and 13 to 11."""
_NOT_THREE_SAME: Final = frozenset({0x05, 0x0B, 0x0C, 0x0D, 0x11, 0x19, 0x1B, 0x1F})
_TWO_MISC, _TWO_MISC_MASK = 0x0E78_0800, 0x8F7E_0C00
"""Advanced SIMD two-register miscellaneous (FP16), and with bit 28 the scalar group of that name:
``U a opcode`` are bits 29, 23 and 16 to 12."""
_TWO_MISC_OPERATIONS: Final = frozenset(
    {
        *range(0x18, 0x1E),  # FRINTN, FRINTM, FCVTNS, FCVTMS, FCVTAS, SCVTF
        *(0x2C, 0x2D, 0x2E),  # FCMGT, FCMEQ, FCMLT with zero
        *(0x38, 0x39, 0x3A, 0x3B, 0x3D),  # FRINTP, FRINTZ, FCVTPS, FCVTZS, FRECPE
        *range(0x58, 0x5E),  # FRINTA, FRINTX, FCVTNU, FCVTMU, FCVTAU, UCVTF
        *(0x6C, 0x6D, 0x6F),  # FCMGE, FCMLE with zero, FNEG
        *(0x79, 0x7A, 0x7B, 0x7D),  # FRINTI, FCVTPU, FCVTZU, FRSQRTE
    }
)
_VECTOR_ONLY: Final = frozenset({0x2F, 0x7F})
"""FABS and FSQRT."""
_SCALAR_ONLY: Final = 0x3F
"""FRECPX."""


def translation_fails(word: int) -> bool:
    """Whether the engine cannot translate ``word``; it is then UNDEFINED."""
    if word & _THREE_SAME_MASK == _THREE_SAME:
        return (word >> 11 & 7 | word >> 20 & 8 | word >> 25 & 16) in _NOT_THREE_SAME
    if word & _TWO_MISC_MASK != _TWO_MISC:
        return False
    scalar = bool(word >> 28 & 1)
    if scalar and not word >> 30 & 1:
        return False
    operation = word >> 12 & 0x1F | word >> 18 & 0x20 | word >> 23 & 0x40
    if operation in _VECTOR_ONLY:
        return scalar
    if operation == _SCALAR_ONLY:
        return not scalar
    return operation not in _TWO_MISC_OPERATIONS
