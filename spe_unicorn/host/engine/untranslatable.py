"""Instruction words at which an assertion in the engine's translator fails.

They were found by having the engine translate every word. They lie in two groups of SIMD
instructions with half-precision elements: the translator handles only the instructions that
Armv8.2 has there. All of these words are UNDEFINED on every core that there is here. Three have a
meaning since later versions (FEAT_FAMINMAX, FEAT_FP8), the others have none (Arm ARM C4.1.97).
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.builds import release_numbers

_WORDS: Final = release_numbers().untranslatable


def translation_fails(word: int) -> bool:
    """Whether the engine cannot translate ``word``; it is then UNDEFINED."""
    value, mask = _WORDS.three_same
    if word & mask == value:
        return (word >> 11 & 7 | word >> 20 & 8 | word >> 25 & 16) in _WORDS.not_three_same
    value, mask = _WORDS.two_misc
    if word & mask != value:
        return False
    scalar = bool(word >> 28 & 1)
    if scalar and not word >> 30 & 1:
        return False
    operation = word >> 12 & 0x1F | word >> 18 & 0x20 | word >> 23 & 0x40
    if operation in _WORDS.vector_only:
        return scalar
    if operation in _WORDS.scalar_only:
        return not scalar
    return operation not in _WORDS.two_misc_operations
