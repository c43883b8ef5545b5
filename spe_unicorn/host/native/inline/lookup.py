"""Indirect branches: the engine's lookup of the block to which one leads, without its function.

A block that ends with BR, BLR or RET asks a function of the engine where it goes on::

            mov   rdi, rbp
            call  lookup
            jmp   rax

The function asks another one for which state of the PE a block has to be translated, and finds the
block in a table of recent ones, or else in that of all blocks. That takes as long as twenty
operations of the guest. Once the block has run twice, it calls code that is written once, and does
the same as long as the table of recent blocks has the one that is wanted. Each block keeps its own
jump, as the host learns from where a jump goes where to::

            mov   eax, [rbp + flags]
            mov   rsi, [rbp + PC]
            mov   ecx, eax
            and   ecx, alike's mask
            cmp   ecx, alike
            jne   slow              ; AArch32, or the PE is single-stepped
            test  byte [rbp + branch_types], mask
            je    over
            mov   edx, [rbp + branch_type]
            shl   edx, branch_type_lsb
            xor   edx, eax
            and   edx, the two bits of a type
            xor   eax, edx
      over: mov   rdx, rsi
            shr   rdx, page_bits - recent_bits
            xor   rdx, rsi
            mov   ecx, edx
            shr   rdx, page_bits - recent_bits
            and   ecx, (1 << recent_bits) - 1
            and   edx, (1 << 2 * recent_bits) - (1 << recent_bits)
            or    edx, ecx
            mov   rdx, [rbp + rdx * 8 + recent]
            test  rdx, rdx
            je    slow
            cmp   rsi, [rdx + block_pc]
            jne   slow
            cmp   qword [rdx + block_base], 0
            jne   slow
            cmp   [rdx + block_flags], eax
            jne   slow
            mov   eax, [rdx + block_traced]
            cmp   rax, [rbp + traced]
            jne   slow
            mov   eax, [rdx + block_group]
            and   eax, compared
            mov   ecx, [rbp + group]
            shl   ecx, 24
            cmp   eax, ecx
            jne   slow
            mov   rax, [rdx + block_code]
            ret
      slow: mov   rax, lookup
            jmp   rax

The engine forgets a block by leaving it out of the table, so nothing here knows of a block that the
engine does not.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import routine
from spe_unicorn.host.engine.builds import code_numbers
from spe_unicorn.host.native.inline.engine_code import call_length, called
from spe_unicorn.host.native.inline.shared import InlineRecord, number_at, put
from spe_unicorn.host.native.inline.written import put_branch, put_nothing, put_wide

LOOKUP: Final = 256
"""Bytes of that code, at most."""
_PC: Final = code_numbers().pc
_FORM: Final = code_numbers().lookup
_RECENT_BITS: Final = _FORM.recent_bits
_LOW: Final = (1 << _RECENT_BITS) - 1
_HIGH: Final = _LOW << _RECENT_BITS
_FLAGS, _ALIKE, _ALIKE_MASK = _FORM.flags, _FORM.alike[0], _FORM.alike[1]
_TYPES, _TYPES_MASK = _FORM.branch_types
_TYPE, _TYPE_LSB = _FORM.branch_type, _FORM.branch_type_lsb
_RECENT, _TRACED, _GROUP, _COMPARED = _FORM.recent, _FORM.traced, _FORM.group, _FORM.compared
_BLOCK_PC, _BLOCK_BASE, _BLOCK_FLAGS = _FORM.block_pc, _FORM.block_base, _FORM.block_flags
_BLOCK_GROUP, _BLOCK_TRACED = _FORM.block_group, _FORM.block_traced
_BLOCK_CODE = _FORM.block_code
_MOVE: Final = 3
"""Bytes of ``mov rdi, rbp``."""


@routine
def looks_up(at: int, lookup: int) -> bool:
    """Whether the code at an address is a call of ``lookup`` and the jump behind it."""
    if number_at(at, _MOVE) != 0xFD8B48:
        return False
    call = at + _MOVE
    length = call_length(call)
    return length != 0 and number_at(call + length, 2) == 0xE0FF and called(call) == lookup


@routine
def replace_lookup(inline: InlineRecord, at: int) -> int:
    """Have the call of the lookup at an address call our code. Return its end."""
    if inline.looked_up == 0:
        inline.looked_up = inline.free
        shift = inline.page_bits - _RECENT_BITS
        inline.free = _put_lookup(inline.free, inline.lookup, shift)
    call = at + _MOVE
    end = call + call_length(call)
    return put_nothing(put(put(call, 0xE8, 1), inline.looked_up - call - 5, 4), end)


@routine
def _put_lookup(at: int, lookup: int, shift: int) -> int:
    """Write the code. Return its end."""
    slow = _put_fast(at, at, shift)
    return put(put_wide(_put_fast(at, slow, shift), 0xB848, lookup), 0xE0FF, 2)


@routine
def _put_fast(at: int, slow: int, shift: int) -> int:
    """Write all up to ``slow``, where that is. Return the end."""
    at = put(put(put(put(at, 0x858B, 2), _FLAGS, 4), 0xB58B48, 3), _PC, 4)
    at = put(put(put(at, 0xC88B, 2), 0xE181, 2), _ALIKE_MASK, 4)
    at = put_branch(put(put(at, 0xF981, 2), _ALIKE, 4), 0x850F, slow)
    at = put(put(put(put(at, 0x85F6, 2), _TYPES, 4), _TYPES_MASK, 1), 0x1374, 2)
    at = put(put(put(put(at, 0x958B, 2), _TYPE, 4), 0xE2C1, 2), _TYPE_LSB, 1)
    at = put(put(put(put(at, 0xD033, 2), 0xE281, 2), 3 << _TYPE_LSB, 4), 0xC233, 2)
    at = put(put(put(put(at, 0xD68B48, 3), 0xEAC148, 3), shift, 1), 0xD63348, 3)
    at = put(put(put(put(at, 0xCA8B, 2), 0xEAC148, 3), shift, 1), 0xE183, 2)
    at = put(put(put(put(put(at, _LOW, 1), 0xE281, 2), _HIGH, 4), 0xD10B, 2), 0xD5948B48, 4)
    at = put_branch(put(put(at, _RECENT, 4), 0xD28548, 3), 0x840F, slow)
    at = put_branch(put(put(at, 0x723B48, 3), _BLOCK_PC, 1), 0x850F, slow)
    at = put_branch(put(put(put(at, 0x7A8348, 3), _BLOCK_BASE, 1), 0, 1), 0x850F, slow)
    at = put_branch(put(put(at, 0x4239, 2), _BLOCK_FLAGS, 1), 0x850F, slow)
    at = put(put(put(put(at, 0x428B, 2), _BLOCK_TRACED, 1), 0x853B48, 3), _TRACED, 4)
    at = put(put(put_branch(at, 0x850F, slow), 0x428B, 2), _BLOCK_GROUP, 1)
    at = put(put(put(put(at, 0x25, 1), _COMPARED, 4), 0x8D8B, 2), _GROUP, 4)
    at = put_branch(put(put(at, 0x18E1C1, 3), 0xC13B, 2), 0x850F, slow)
    return put(put(put(at, 0x428B48, 3), _BLOCK_CODE, 1), 0xC3, 1)
