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

from spe_unicorn.compiled import Words, array_at, int64, layout, pointer_to, record_at, routine
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
from spe_unicorn.host.native.inline.written import put_branch, put_jump, put_wide


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


_FEWEST: Final = 4
"""Ways of the smallest L1 TLB for which this is written."""
_NEAR: Final = 8
"""So many of the most recent pages of a set of the L1 TLB are compared, if it has as many."""
RECENT: Final = 512
"""Bytes of what :func:`put_recent` writes, at most."""
SIZES: Final = 4
"""Accesses are of 1, 2, 4 and 8 bytes."""
_LARGEST: Final = (1 << 31) - 1
"""The largest number that an instruction holds by itself."""


@routine
def recent_for(begin: int, what: int) -> int:
    """Where code for accesses of a kind lies, of all that begin at an address."""
    size = what & 0xFF
    bits = (size >> 1) - (size >> 3)
    return begin + RECENT * (bits + SIZES * int64(what > size))


@routine
def _put_number(at: int, code: int, by_register: int, value: int) -> int:
    """Write ``code``, three bytes of an instruction that takes a number, and the number.

    For a number with more than 31 bits it is that instruction with RCX, ``by_register``.
    """
    if 0 <= value <= _LARGEST:
        return put(put(at, code, 3), value, 4)
    return put(put_wide(at, 0xB948, value), by_register, 3)


@routine
def _put_set(at: int, own: Words, level: int) -> int:
    """Write what makes of the line or page in RDI how far its set is from the first one.

    ::

            and   edi, sets - 1
            imul  rdi, rdi, bytes of a set
    """
    at = put(put(at, 0xE781, 2), own[level + MASK], 4)
    return put(put(at, 0xFF6948, 3), 8 * own[level + WAYS], 4)


@routine
def put_recent(at: int, words: int, memory: int, what: int, common: int) -> int:
    """Write what stubs of accesses of one kind call for another line. Return the end.

    It does all that the model does where the line is the most recent one of its set in the L1
    cache, and the page is one of the _NEAR most recent ones of its set in the L1 TLB. Else it calls
    ``common``. ``words`` is where those of the caches lie, ``memory`` a PLACE, ``what`` as
    ``State.access_hook`` is given it. RSI is where the host has what is accessed, RAX where
    ``State.line`` is. RAX, RCX, RDX and RDI are free. Zero flag: the model knows the access::

            cmp   qword [rax], NO_LINE
            je    other
            mov   rdx, -memory.begin
            add   rdx, rsi
            cmp   rdx, memory.end - memory.begin
            jae   other
            add   rdx, memory.physical
            test  sil, size - 1     ; unless it is a byte
            jne   odd
     whole: mov   rcx, words
            mov   rdi, rdx
            shr   rdi, LINE_SHIFT
            (rdi = the line's set, where there are several)
            mov   rdi, [rcx + rdi + lines]
            shl   rdi, LINE_SHIFT
            xor   rdi, rdx
            cmp   rdi, bytes of a line - 1
            ja    other
            shr   rdx, PAGE_SHIFT
            (rcx = rcx + the page's set, where there are several)
            cmp   [rcx + pages], rdx
            jne   second
     found: mov   rcx, words        ; where there are several sets of pages
            inc   qword [rcx + the model's count of pages]
            inc   qword [rcx + the model's count of lines]
            and   rsi, -bytes of a line     ; in RDI
            mov   [rax], rdi
            cmp   eax, eax
            ret
    second: cmp   [rcx + pages + 8], rdx
            je    move
            ...                     ; the third one and more, as for the last one
            cmp   [rcx + pages + 56], rdx
            jne   other
            mov   rdi, [rcx + pages + 48]
            mov   [rcx + pages + 56], rdi
            ...
      move: mov   rdi, [rcx + pages]
            mov   [rcx + pages + 8], rdi
            mov   [rcx + pages], rdx
            jmp   found
       odd: lea   ecx, [rdx + size - 1]
            xor   ecx, edx
            test  ecx, -bytes of a line
            je    whole
     other: push  what
            call  common
            lea   rsp, [rsp + 8]
            ret
    """
    labels = _written(at, words, memory, what, common, (at, at, at, at))
    return _written(at, words, memory, what, common, labels)[3] + _OTHER


_OTHER: Final = 5 + 5 + 5 + 1
"""Bytes of ``other``."""
_MOVED: Final = 14
"""Bytes of what moves a page one place back."""


@routine
def _written(
    at: int, words: int, memory: int, what: int, common: int, labels: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Write the code, with jumps to ``second``, ``move``, ``odd``, ``other``: where these are."""
    second, move, odd, other = labels
    own = array_at(pointer_to(words), (UNBOUNDED,), np.int64)
    place = record_at(pointer_to(memory), PLACE)
    bytes_ = 1 << own[LINE_SHIFT]
    size = what & 0xFF
    lines, pages = 8 * own[L1D + START], 8 * own[L1_TLB + START]
    at = put_branch(put(at, 0xFF388348, 4), 0x840F, other)
    at = put(put_wide(at, 0xBA48, -place.begin), 0xD60348, 3)
    at = _put_number(at, 0xFA8148, 0xD13B48, place.end - place.begin)
    at = put_branch(at, 0x830F, other)
    at = _put_number(at, 0xC28148, 0xD10348, place.physical)
    if size > 1:
        at = put_branch(put(put(at, 0xC6F640, 3), size - 1, 1), 0x850F, odd)
    whole = at
    at = put(put_wide(at, 0xB948, words), 0xFA8B48, 3)
    if own[L1D + MASK] != 0:
        at = _put_set(put(put(at, 0xEFC148, 3), own[LINE_SHIFT], 1), own, L1D)
        at = put(put(at, 0x39BC8B48, 4), lines, 4)
    else:
        at = put(put(at, 0xB98B48, 3), lines, 4)
    at = put(put(at, 0xE7C148, 3), own[LINE_SHIFT], 1)
    at = put(put(put(at, 0xFA3348, 3), 0xFF8148, 3), bytes_ - 1, 4)
    at = put(put(put_branch(at, 0x870F, other), 0xEAC148, 3), own[PAGE_SHIFT], 1)
    if own[L1_TLB + MASK] != 0:
        at = put(_put_set(put(at, 0xFA8B48, 3), own, L1_TLB), 0xCF0348, 3)
    at = put_branch(put(put(at, 0x913948, 3), pages, 4), 0x850F, second)
    found = at
    if own[L1_TLB + MASK] != 0:
        at = put_wide(at, 0xB948, words)
    at = put(put(at, 0x81FF48, 3), 8 * PAGES, 4)
    at = put(put(at, 0x81FF48, 3), 8 * LINES, 4)
    at = put(put(put(at, 0xFE8B48, 3), 0xE78148, 3), -bytes_, 4)
    at = put(put(at, 0x388948, 3), 0xC3C039, 3)
    second = at
    last = min(_NEAR, own[L1_TLB + WAYS]) - 1
    for n in range(1, last):
        at = put(put(at, 0x913948, 3), pages + 8 * n, 4)
        at = put_branch(at, 0x840F, move - _MOVED * (n - 1))
    at = put_branch(put(put(at, 0x913948, 3), pages + 8 * last, 4), 0x850F, other)
    for n in range(last - 1, -1, -1):
        move = at
        at = put(put(at, 0xB98B48, 3), pages + 8 * n, 4)
        at = put(put(at, 0xB98948, 3), pages + 8 * (n + 1), 4)
    at = put(put(at, 0x918948, 3), pages, 4)
    at = put_jump(at, found)
    odd = at
    at = put(put(put(at, 0x4A8D, 2), size - 1, 1), 0xCA33, 2)
    at = put_branch(put(put(at, 0xC1F7, 2), -bytes_, 4), 0x840F, whole)
    other = at
    at = put(put(put(at, 0x68, 1), what, 4), 0xE8, 1)
    put(put(put(at, common - at - 4, 4), 0x0824648D48, 5), 0xC3, 1)
    return second, move, odd, other


@routine
def knows_recent(words: int, memory: int) -> bool:
    """Whether :func:`put_recent` can be written for such caches, and memory where one is named."""
    if memory == 0:
        return False
    own = array_at(pointer_to(words), (UNBOUNDED,), np.int64)
    return own[L1_TLB + WAYS] >= _FEWEST and own[PAGE_SHIFT] >= own[LINE_SHIFT]
