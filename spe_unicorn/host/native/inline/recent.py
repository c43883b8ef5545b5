"""Lines and pages that are recent: what the stubs of accesses do without the core model's hook.

Nearly all accesses to another line than the one before are to the most recent line of a set of the
L1 cache, and to one of the last few pages. Then nothing changes in the model except two counts and
the order of these pages. Where several PEs have caches, a store may have to be told to the others,
so none of this is written there.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.compiled import Words, array_at, layout, pointer_to, record_at, routine
from spe_unicorn.cores.caches import (
    L1_TLB,
    L1D,
    LINE_SHIFT,
    LINES,
    MASK,
    PAGE_SHIFT,
    PAGES,
    START,
    UNBOUNDED,
    WAYS,
)
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.inline.shared import put
from spe_unicorn.host.native.inline.written import put_branch, put_wide
from spe_unicorn.host.native.state.whole import offset_of


class Place:
    """Memory with caches."""

    begin: int
    """Where the host has its first byte."""
    end: int
    """Where it ends for the host."""
    physical: int
    """Its physical address."""


PLACE: Final = layout(Place)


def places_of(memory: RamMemory | None) -> NDArray[np.void]:
    """Where the host has memory of the machine: a row of PLACE for each region, one at least."""
    regions = [] if memory is None else memory.regions
    rows = [(r.address, r.address + r.size, r.base) for r in regions]
    return np.array(rows or [(0, 0, 0)], PLACE)


_NEAR: Final = 4
"""The number of most recent pages of the L1 TLB that are compared with an access's."""
_STORED: Final = offset_of("line_stored") - offset_of("line")
_FOUND: Final = 49
"""Bytes of what is done once the access is known to be a recent one."""


@routine
def _put_set(at: int, words: int, own: Words, level: int) -> int:
    """Write the load of RCX with where the set of the line or page in RDX begins. Return the end.

    ::

            mov   rcx, first set
            mov   edi, edx          ; where there is more than one set
            and   edi, sets - 1
            imul  rdi, rdi, bytes of a set
            add   rcx, rdi
    """
    at = put_wide(at, 0xB948, words + 8 * own[level + START])
    if own[level + MASK] == 0:
        return at
    at = put(put(put(at, 0xFA8B, 2), 0xE781, 2), own[level + MASK], 4)
    at = put(put(at, 0xFF6948, 3), 8 * own[level + WAYS], 4)
    return put(at, 0xCF0348, 3)


@routine
def put_recent(at: int, words: int, line: int, memory: int) -> int:
    """Write what ``common`` does by itself before it calls the hook. Return its end.

    It does all that the model does where the line is the most recent one of its set in the L1
    cache, and the page is one of the _NEAR most recent ones of its set in the L1 TLB. ``words`` is
    where those of the caches lie, ``line`` where ``State.line`` does, ``memory`` a PLACE::

            push  rax, rcx, rdx
            mov   rcx, line
            cmp   qword [rcx], NO_LINE
            je    other
            mov   rdx, memory.begin
            mov   rax, rsi
            sub   rax, rdx
            mov   rdx, memory.end - memory.begin
            cmp   rax, rdx
            jae   other
            mov   rdx, memory.physical
            add   rax, rdx
            movzx edx, byte [rsp + 32]  ; size
            lea   rdx, [rax + rdx - 1]
            mov   rdi, rdx
            xor   rdi, rax
            cmp   rdi, bytes of a line - 1
            ja    other
            shr   rdx, LINE_SHIFT
            (rcx = the line's set)
            cmp   [rcx], rdx
            jne   other
            shr   rax, PAGE_SHIFT
            mov   rdx, rax
            (rcx = the page's set)
            mov   rdx, [rcx]        ; the most recent page
            cmp   rdx, rax
            je    found
            cmp   [rcx + 8], rax
            je    second
            cmp   [rcx + 16], rax
            je    third
            cmp   [rcx + 24], rax
            jne   other
            mov   rdi, [rcx + 16]
            mov   [rcx + 24], rdi
    third:  mov   rdi, [rcx + 8]
            mov   [rcx + 16], rdi
    second: mov   [rcx + 8], rdx
            mov   [rcx], rax
    found:  mov   rcx, the model's counts
            inc   qword [rcx]
            inc   qword [rcx + 24]
            mov   rax, rsi
            and   rax, -bytes of a line
            mov   rcx, line
            mov   [rcx], rax
            mov   [rcx + 8], rax        ; State.line_stored
            pop   rdx, rcx, rax
            cmp   eax, eax
            ret
    other:  pop   rdx, rcx, rax
    """
    other = _written(at, words, line, memory, at) - 3
    return _written(at, words, line, memory, other)


@routine
def _written(at: int, words: int, line: int, memory: int, other: int) -> int:
    own = array_at(pointer_to(words), (UNBOUNDED,), np.int64)
    bytes_ = 1 << own[LINE_SHIFT]
    found = other - _FOUND
    at = put_wide(put(at, 0x525150, 3), 0xB948, line)
    at = put_branch(put(at, 0xFF398348, 4), 0x840F, other)
    place = record_at(pointer_to(memory), PLACE)
    at = put_wide(at, 0xBA48, place.begin)
    at = put(put(at, 0xC68B48, 3), 0xC22B48, 3)
    at = put_wide(at, 0xBA48, place.end - place.begin)
    at = put_branch(put(at, 0xC23B48, 3), 0x830F, other)
    at = put(put_wide(at, 0xBA48, place.physical), 0xC20348, 3)
    at = put(put(at, 0x202454B60F, 5), 0xFF10548D48, 5)
    at = put(put(put(at, 0xFA8B48, 3), 0xF83348, 3), 0xFF8148, 3)
    at = put_branch(put(at, bytes_ - 1, 4), 0x870F, other)
    at = put(put(at, 0xEAC148, 3), own[LINE_SHIFT], 1)
    at = put(_put_set(at, words, own, L1D), 0x113948, 3)
    at = put_branch(at, 0x850F, other)
    at = put(put(at, 0xE8C148, 3), own[PAGE_SHIFT], 1)
    at = _put_set(put(at, 0xD08B48, 3), words, own, L1_TLB)
    at = put(put(at, 0x118B48, 3), 0xD03B48, 3)
    at = put_branch(at, 0x840F, found)
    second, third = found - 7, found - 15
    at = put_branch(put(at, 0x08413948, 4), 0x840F, second)
    at = put_branch(put(at, 0x10413948, 4), 0x840F, third)
    at = put_branch(put(at, 0x18413948, 4), 0x850F, other)
    at = put(put(at, 0x10798B48, 4), 0x18798948, 4)
    at = put(put(at, 0x08798B48, 4), 0x10798948, 4)
    at = put(put(at, 0x08518948, 4), 0x018948, 3)
    at = put_wide(at, 0xB948, words + 8 * PAGES)
    at = put(put(at, 0x01FF48, 3), 0x41FF48 | 8 * (LINES - PAGES) << 24, 4)
    at = put(put(put(at, 0xC68B48, 3), 0x2548, 2), -bytes_, 4)
    at = put(put_wide(at, 0xB948, line), 0x018948, 3)
    at = put(at, 0x418948 | _STORED << 24, 4)
    at = put(put(at, 0x58595A, 3), 0xC3C039, 3)
    return put(at, 0x58595A, 3)


@routine
def knows_recent(words: int, memory: int) -> bool:
    """Whether :func:`put_recent` can be written for such caches, and memory where one is named."""
    if memory == 0:
        return False
    own = array_at(pointer_to(words), (UNBOUNDED,), np.int64)
    return own[L1_TLB + WAYS] >= _NEAR and own[PAGE_SHIFT] >= own[LINE_SHIFT]
