"""What an instruction word asks of the hooks: one function, for Python and compiled code."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.compiled import Words, routine
from spe_unicorn.decode.words import ERET, ERETAA, ERETAB, PSB_CSYNC, SEV, SEVL, WFE
from spe_unicorn.host.engine.mistakes import executes_wrongly
from spe_unicorn.instructions.known.finding import needs_of

MARK_RETURN: Final = 1
"""The block ends with an ERET."""
MARK_FP: Final = 2
"""The block has FP or SIMD operations."""
MARK_SYNC: Final = 4
"""The block has a PSB CSYNC: what was sampled before must be in memory after it."""
MARK_ERET: Final = 8
"""The block ends with the ERET that does not authenticate its address."""
MARK_ORDER: Final = 16
"""The block has a PSB CSYNC or a DSB: a :class:`~spe_unicorn.host.ports.Watcher` is told of it."""
MARK_TRAP: Final = 32
"""The block has an operation that was trapped at some Exception level at some time."""
MARK_EVENT: Final = 64
"""The block has a WFE, SEV or SEVL."""
MARK_SVE: Final = 128
"""The block has SVE operations."""
MARK_EXCLUSIVE: Final = 256
"""The block has a store-exclusive: a counter may have to know whether it stores."""
MARK_MEND: Final = 512
"""The block has an operation that the engine executes wrongly: see ``host.engine.mistakes``.

So does the engine with what the core lacks (:func:`is_absent`).
"""
MARK_FENCE: Final = 1024
"""The block ends with an ISB or an ERET, context synchronization events: a Watcher is told, too."""
MARK_WHOLE: Final = 2048
"""The block has an operation that cannot be taken back once it has begun: see
``native.sampling.awaited``."""
MARKS_OF_HOST_OPERATIONS: Final = (
    (MARK_SVE | MARK_FP | MARK_SYNC | MARK_ERET | MARK_ORDER | MARK_FENCE | MARK_TRAP)
    | MARK_EVENT
    | MARK_EXCLUSIVE
    | MARK_MEND
    | MARK_WHOLE
)
"""Marks of what the host may have to execute."""
_EXCLUSIVE_BITS, _STORE_EXCLUSIVE = 0x3FE0_0000, 0x0800_0000
_PAIR_BITS, _STORE_EXCLUSIVE_PAIR = 0xBFE0_0000, 0x8820_0000
"""What store-exclusives have in common; a pair of less than 32 bits each is CASP."""
_PAIRS_BITS, _PAIRS = 0x3FA0_0000, 0x0820_0000
"""LDXP, STXP, CASP and their kin, which the engine carries out outside of its own code."""
_ZVA_BITS, _ZVA = 0xFFFF_FFE0, 0xD50B_7420
_ISB, _ISB_OPTION = 0xD503_30DF, 0xF00
_DSB, _DSB_NXS, _DSB_DOMAIN = 0xD503_339F, 0xD503_323F, 0xC00
"""Those for loads and stores; without the bits that say for whom."""


@routine
def is_absent(known: Words, absent: int, word: int) -> bool:
    """Whether a word needs a feature of ``absent``: those that the core must not have.

    ``known`` is ``instructions.known.finding.TABLE``.
    """
    return absent != 0 and needs_of(known, word) & absent != 0


COPYING_BITS, COPYING = 0xFB20_0C00, 0x1900_0400
"""Bits by which CPY*, CPYF*, SET* and SETG* are known, and what they are."""


@routine
def marks_of(word: int) -> int:
    """The marks of an instruction word. Compiled code calls it, too.

    MARK_FP is for what is subject to the traps of FP and SIMD, CheckFPAdvSIMDEnabled64(), MARK_SVE
    for CheckSVEEnabled().
    """
    if word == ERET:
        return MARK_RETURN | MARK_ERET | MARK_FENCE
    if word in (ERETAA, ERETAB):
        return MARK_RETURN | MARK_FENCE
    if word == PSB_CSYNC:
        return MARK_SYNC | MARK_ORDER
    if word in (WFE, SEV, SEVL):
        return MARK_EVENT
    if word & ~_ISB_OPTION == _ISB:
        return MARK_FENCE
    if word & ~_DSB_DOMAIN in (_DSB, _DSB_NXS):
        return MARK_ORDER
    group = word >> 25 & 15
    if group == 0b0010:
        return MARK_SVE | MARK_WHOLE
    if group & 0b0111 == 0b0111:
        return MARK_FP | (MARK_MEND if executes_wrongly(word) else 0)  # data processing
    if group & 0b0111 == 0b0101:  # the same of general registers
        return MARK_MEND if executes_wrongly(word) else 0
    if group & 0b0101 == 0b0100:  # loads and stores
        whole = MARK_WHOLE if word & _PAIRS_BITS == _PAIRS else 0
        if word & _EXCLUSIVE_BITS == _STORE_EXCLUSIVE or word & _PAIR_BITS == _STORE_EXCLUSIVE_PAIR:
            return MARK_EXCLUSIVE | whole
        if whole != 0:
            return whole
        if executes_wrongly(word):
            return MARK_MEND
        if word & COPYING_BITS == COPYING:
            return 0  # a memory copy or set, among the loads and stores of FP
        return MARK_FP if word >> 26 & 1 else 0
    if word & _ZVA_BITS == _ZVA:
        return MARK_WHOLE
    return MARK_FP if word & 0xFFDF_FFC0 == 0xD51B_4400 else 0  # MRS and MSR of FPCR and FPSR


def is_whole(instruction: Instruction) -> bool:
    """Whether an operation cannot be taken back once it has begun."""
    return bool(marks_of(instruction.word) & MARK_WHOLE)
