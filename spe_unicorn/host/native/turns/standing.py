"""Whether a PE whose turn is over may stand in a loop that waits: for memory, or around a WFE.

``machine.pe`` and ``machine.polling`` say which loops these are. Compiled code tells most of the
others apart: a loop that counts, or that stores. What it is not sure of is Python's to look at.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.cores.predictor import Branch
from spe_unicorn.decode.words import WFE
from spe_unicorn.host.native.calls import FETCH, call_read
from spe_unicorn.host.native.model import branch_of
from spe_unicorn.host.native.state.block_table import CODE_WORDS
from spe_unicorn.host.native.state.fields import StateRecord

LONGEST_LOOP: Final = 16
"""Operations of the longest loop that is recognized."""
NEAR: Final = 64
"""Bytes of a piece of code that is searched for a WFE, with the ones before and after it."""
NEAR_WORDS: Final = NEAR // 4
WFE_SEARCHED, WFE_AWAITED, WFE_HEARD = 0, 1, 2
"""What becomes of WFEs: code near the PC is searched for one; each is seen in this turn, as one was
near; each is always seen."""
_NONE, _DIRECT, _CONDITIONAL = int(Branch.NONE), int(Branch.DIRECT), int(Branch.CONDITIONAL)
_ZERO: Final = 31
"""The number of a register that is none, or SP."""


@routine
def _read(state: StateRecord, uc: int, address: int, words: int) -> bool:
    """Read code to ``State.code``; whether all of it can be fetched."""
    done: bool = call_read(state.vmem_read, uc, address, FETCH, state.code, 4 * words) == 0
    return done


@routine
def _stores(word: int) -> bool:
    """Whether a word stores a register or a pair; False for other stores, too."""
    if word & 0x3A40_0000 == 0x2800_0000:
        return True  # pairs
    if word & 0x3AC0_0000 != 0x3800_0000:
        return False
    if word >> 24 & 1 != 0 or word >> 21 & 1 == 0:
        return True  # by an immediate
    return word >> 10 & 3 == 2  # by a register


@routine
def _adds_to_itself(word: int) -> int:
    """The register that an operation computes from itself, such as a counter; -1 for none.

    These are ADD, SUB, AND, ORR and EOR, with and without flags.
    """
    to = word & 31
    if to == _ZERO:
        return -1
    if word & 0x1F80_0000 in (0x1100_0000, 0x1200_0000) and word >> 5 & 31 == to:
        return to  # of an immediate
    if word & 0x1F00_0000 in (0x0A00_0000, 0x0B00_0000) and to in (word >> 5 & 31, word >> 16 & 31):
        return to
    return -1


@routine
def _may_write(word: int, register: int) -> bool:
    """Whether a word has the number of a register where some word has one that it writes."""
    if word & 0x1C00_0000 == 0x1400_0000:  # branches, SYS, MSR; MRS and SYSL
        return word & 0xFFE0_0000 == 0xD520_0000 and word & 31 == register
    return register in (word & 31, word >> 5 & 31, word >> 10 & 31, word >> 16 & 31)


@routine
def _may_poll(state: StateRecord, uc: int, start: int, length: int) -> bool:
    """Whether each round of a loop may be like the round before."""
    if not _read(state, uc, start, length):
        return True
    code = array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)
    for n in range(length):
        word = int64(code[n])
        if _stores(word):
            return False
        register = _adds_to_itself(word)
        if register >= 0:
            written = False
            for before in range(n):
                written |= _may_write(int64(code[before]), register)
            if not written:
                return False
    return True


@routine
def _may_loop(state: StateRecord, uc: int, pc: int) -> bool:
    """Whether the PE may be in a loop that polls."""
    if not _read(state, uc, pc, LONGEST_LOOP):
        return True
    code = array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)
    for n in range(LONGEST_LOOP):
        word = int64(code[n])
        if word & 0x7E00_0000 == 0x7400_0000:
            return True  # CB<cc>
        kind, distance = branch_of(word)
        if kind not in (_NONE, _DIRECT, _CONDITIONAL):
            return False
        if kind != _NONE and distance <= -4 * n:
            length = 1 - distance // 4
            return length <= LONGEST_LOOP and _may_poll(state, uc, pc + 4 * n + distance, length)
    return False


@routine
def _near_wfe(state: StateRecord, uc: int, pc: int) -> bool:
    """Whether a WFE is in the piece of code around the PC, or in one beside it."""
    code = array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)
    for piece in range(-1, 2):
        if _read(state, uc, (pc & -NEAR) + piece * NEAR, NEAR_WORDS):
            for n in range(NEAR_WORDS):
                if int64(code[n]) == WFE:
                    return True
    return False


@routine
def may_wait(state: StateRecord, uc: int, pc: int, wfes: int) -> bool:
    """Whether Python has to look at where the PE stands at the end of a whole turn.

    ``wfes`` is WFE_SEARCHED, WFE_AWAITED or WFE_HEARD.
    """
    if wfes == WFE_AWAITED or (wfes == WFE_SEARCHED and _near_wfe(state, uc, pc)):
        return True
    return _may_loop(state, uc, pc)
