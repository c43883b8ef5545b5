"""Instructions that the engine lacks, carried out within a run of the engine.

The engine raises an Undefined exception for one, which ends the block that it is in. So the block
hook has counted it with its block, and has prepared its sample. The hook for exceptions has it
carried out on the engine's saved state, and has the engine go on after it: to everybody the block
has run to its end. At the stop Python comes to the same (``host.pe.amended.lacking``). Loads and
stores are for Python alone, but for those of Allocation Tags and the data that go with them, and
those of FEAT_SVE2p1 (``vectors``). So are other instructions than those of ``instructions``, but
for MSR (immediate), TLBI and DSB nXS.

For the engine to go on costs more than most of these instructions. So where nobody has to see the
blocks between them, those that follow in a row are carried out with the first one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import UC_PROT_READ, UC_PROT_WRITE
from unicorn import arm64_const as regs

from spe_unicorn.arch.access.tlb import NOTED, PLACES, TOLD
from spe_unicorn.arch.registers.system import CPACR_EL1, CPTR_EL3, HCR_EL2, SPSR
from spe_unicorn.arch.rules.tagging import GRANULE, TAG_LSB
from spe_unicorn.compiled import (
    ForeignCall,
    Pointer,
    address_of,
    array_at,
    int64,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.engine.engine import FPCR, FPSR, PSTATE
from spe_unicorn.host.native.calls import (
    FETCH,
    call_read,
    call_register,
    call_translate,
    call_write,
    flush_tlb,
)
from spe_unicorn.host.native.exceptions.lacking_record import (
    LACKING,
    LITTLE,
    NO_ROW,
    TAG_PAGE_WORDS,
    TAG_PAGES,
    TAGGED,
    UNKNOWN,
    LackingRecord,
    kept,
    untagged,
)
from spe_unicorn.host.native.exceptions.vectors import accesses_vectors
from spe_unicorn.host.native.marks import MARK_FP, MARK_SVE, marks_of
from spe_unicorn.host.native.rules import is_dsb_nxs, place_of
from spe_unicorn.host.native.state.clock import FLUSH_MAINTENANCE
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.ledger import (
    begin_epoch,
    broadcast,
    charge,
    goes_on_at,
    tlb_flushed,
)
from spe_unicorn.host.native.state.steer import LEVEL_BITS
from spe_unicorn.host.native.state.whole import offset_of
from spe_unicorn.instructions.decoder import FORM, KIND, NEEDS, UNIT, USES, find
from spe_unicorn.instructions.lanes import sign_extended
from spe_unicorn.instructions.registers import GENERAL, REGISTERS, RegistersRecord
from spe_unicorn.instructions.rows import LONG_VECTOR, Needs, Unit, Uses
from spe_unicorn.instructions.table import NONE
from spe_unicorn.instructions.tags import (
    BLOCK,
    LOAD_TAG,
    POST_INDEX,
    STORE_PAIR,
    STORE_TAG,
    STORE_ZEROS,
    TAG,
    TAG_BLOCK,
    ZERO_BLOCK,
)

call_carry: Final = ForeignCall("void", ("pointer", "int64", "int64", "int64", "int64"))
"""``instructions.carry.carry_out(registers, word, unit, form, kind)``."""
_PSTATE = int(PSTATE)
_FPCR = int(FPCR)
_FPSR = int(FPSR)
_NZCV: Final = int(regs.UC_ARM64_REG_NZCV)
_SCRATCH: Final = offset_of("scratch")
_UNDEFINED: Final = 1
"""The engine's number of Undefined exceptions, and of traps."""
_NO_CLASS: Final = 1 << 25
"""The syndrome of an Undefined exception."""
_FLAGS: Final = 0xF << 28
_NOT_NOW: Final = int(SPSR.SS.mask | SPSR.IL.mask)
"""With these bits of PSTATE something else comes first, or after it."""
_TZ_TFP: Final = 1 << 8 | 1 << 10
_EZ, _EL3_TFP = int(CPTR_EL3.EZ.mask), int(CPTR_EL3.TFP.mask)
_ZEN, _FPEN = int(CPACR_EL1.ZEN.mask), int(CPACR_EL1.FPEN.mask)
_HOST: Final = int(HCR_EL2.E2H.mask | HCR_EL2.TGE.mask)
_SVE = int(Needs.SVE)
_USES_FP = int(Uses.FP)
_USES_FLAGS = int(Uses.FLAGS)
_USES_MEMORY = int(Uses.MEMORY)
_USES_GENERAL = int(Uses.GENERAL)
_USES_LONG = int(Uses.LONG_VECTORS)
_IN_ROW = int(Needs.ROW)
_SSBS, _DIT, _TCO = int(SPSR.SSBS.mask), int(SPSR.DIT.mask), int(SPSR.TCO.mask)
_MSR_SSBS, _MSR_DIT, _MSR_TCO = 0xD503_403F, 0xD503_405F, 0xD503_409F
_IMMEDIATE, _IMMEDIATE_BIT = 15 << 8, 1 << 8
"""CRm of MSR (immediate), and the bit of it that counts."""
_SYS_MASK, _TLBI = 0xFFF8_E000, 0xD508_8000
"""TLBI, with CRn 8 or 9."""
_TAG_ACCESS = int(Unit.TAG_ACCESS)
_VECTOR_ACCESS = int(Unit.SVE2P1_MEMORY)
_CARRIED_OUT: Final = (LOAD_TAG, STORE_TAG, STORE_ZEROS, STORE_PAIR, TAG_BLOCK, ZERO_BLOCK)
"""Forms of accesses that are not for Python alone."""
_READ, _WRITE = int(UC_PROT_READ), int(UC_PROT_WRITE)
_ZERO_REGISTER: Final = 31
_TWO_GRANULES: Final = 1 << 23
"""The bit that tells ST2G from STG."""
_IN_PAGE: Final = 0xFFF
_LENGTHS: Final = 3
_LONG: Final = LONG_VECTOR >> 3
_MOST_ROWS: Final = 1 << 20
"""Numbers that the table of instructions cannot have."""


NO_PLACE: Final = -1


@routine
def _sve_traps(state: StateRecord, at: int, el: int) -> bool:
    """Whether SVE may trap at an Exception level; then Python asks CheckSVEEnabled().

    Traps that the engine misses are among the marks of the level.
    """
    lacking = record_at(pointer_to(at), LACKING)
    if el <= 1 and kept(state, lacking.hcr) & _HOST != _HOST:
        cpacr = kept(state, lacking.cpacr)
        if cpacr & _ZEN != _ZEN or cpacr & _FPEN != _FPEN:
            return True
    if el <= 2 and kept(state, lacking.cptr_el2) & _TZ_TFP != 0:
        return True
    return kept(state, lacking.cptr_el3) & (_EZ | _EL3_TFP) != _EZ


@routine
def _vector_bytes(state: StateRecord, at: int, el: int) -> int:
    """The engine's vector length at an Exception level."""
    lengths = array_at(pointer_to(state.context + at), (_LENGTHS,), np.int64)
    shortest = int64(15)
    for level in range(max(el, 1), _LENGTHS + 1):
        shortest = min(shortest, lengths[level - 1] & 15)
    return 16 * (shortest + 1)


@routine
def _word_at(state: StateRecord, uc: int, address: int) -> int:
    """The instruction word at a virtual address, -1 if it cannot be fetched."""
    if call_read(state.vmem_read, uc, address, FETCH, state.code, 4) != 0:
        return -1
    return int64(array_at(pointer_to(state.code), (1,), np.uint32)[0])


@routine
def _row_of(state: StateRecord, lacking: LackingRecord, word: int, has: int, el: int) -> int:
    """Where the row of a word begins in the table; NONE for what is not for compiled code."""
    table = array_at(pointer_to(lacking.table), (_MOST_ROWS,), np.int64)
    row = find(table, word, has)
    if row == NONE:
        return NONE
    if table[row + USES] & _USES_MEMORY != 0:
        tags = table[row + UNIT] == _TAG_ACCESS and table[row + FORM] in _CARRIED_OUT
        vectors = table[row + UNIT] == _VECTOR_ACCESS
        if not (tags or vectors) or lacking.accesses == 0 or has & _IN_ROW != 0:
            return NONE
    if table[row + USES] & _USES_GENERAL != 0:
        return row
    traps = state.level_marks >> LEVEL_BITS * el
    if table[row + NEEDS] & _SVE == 0:
        return NONE if traps & MARK_FP != 0 else row
    if traps & MARK_SVE != 0 or _sve_traps(state, state.lacking, el):
        return NONE
    if table[row + USES] & _USES_LONG != 0 and _vector_bytes(state, lacking.zcr, el) < _LONG:
        return NONE
    return row


@routine
def _page_of(state: StateRecord, lacking: LackingRecord, address: int, place: int) -> int:
    """What is known of the page of an address, which is at ``place``: TAGGED, LITTLE; or UNKNOWN.

    There are no tags but those of the memory between ``State.tags_begin`` and ``tags_end``.
    """
    if not state.tags_begin <= place < state.tags_end:
        return int64(UNKNOWN)
    rows = array_at(pointer_to(lacking.pages), (TAG_PAGES, TAG_PAGE_WORDS), np.int64)
    page = untagged(address) & ~_IN_PAGE
    slot = page >> 12 & TAG_PAGES - 1
    if rows[slot, 0] != page or rows[slot, 1] != state.epoch or rows[slot, 2] != state.writes:
        return int64(UNKNOWN)
    return rows[slot, 3]


@routine
def _set_tags(state: StateRecord, place: int, count: int, tag: int) -> None:
    """Give granules of a page from a physical address on a tag."""
    tags = array_at(pointer_to(state.tags), (_MOST_ROWS << 32,), np.uint8)
    used = array_at(pointer_to(state.tags_used), (_MOST_ROWS << 32,), np.uint8)
    first = (place - state.tags_begin) // GRANULE
    for n in range(count):
        tags[first + n] = tag
    if tag != 0:
        used[(place - state.tags_begin) >> 12] = 1


@routine
def _may_store(state: StateRecord, place: int) -> bool:
    """Whether data may be stored at a physical address: it is RAM, and no hook is to see that."""
    return state.told_access == 0 and state.ram_begin <= place < state.ram_end


@routine
def _accesses_tags(
    state: StateRecord,
    lacking: LackingRecord,
    uc: int,
    r: RegistersRecord,
    word: int,
    form: int,
    el: int,
) -> bool:
    """Carry out an access of :data:`_CARRIED_OUT`. False, and nothing has changed, for Python's."""
    x = array_at(pointer_to(r.x), (GENERAL,), np.int64)
    room = array_at(pointer_to(state.code), (2,), np.int64)
    t, n, mode = word & 31, word >> 5 & 31, word >> 10 & 3
    offset = sign_extended(word >> 12, 9) * GRANULE
    if form == STORE_PAIR:
        offset, mode = sign_extended(word >> 15, 7) * GRANULE, word >> 23 & 3
    block = form in (TAG_BLOCK, ZERO_BLOCK)
    if block:
        n, mode, offset = t, int64(0), int64(0)
        if n == _ZERO_REGISTER or state.zeroes_at >> el & 1 == 0:
            return False
    address = x[n] if mode == POST_INDEX else x[n] + offset
    tag = (x[t] if form in (STORE_TAG, STORE_ZEROS) else address) >> TAG_LSB & 15
    # where the access is: a granule, the block of four, or a granule and the next one
    loads = form == LOAD_TAG
    if loads or block:
        address &= -BLOCK if block else -GRANULE
    elif address & GRANULE - 1 != 0:
        return False
    access = _READ if loads else _WRITE
    count = 4 if block else 1
    if call_translate(state.vmem_translate, uc, address, access, state.code) != 0:
        return False
    first = room[0]
    second = int64(NO_PLACE)
    if form in (STORE_TAG, STORE_ZEROS) and word & _TWO_GRANULES != 0:
        if call_translate(state.vmem_translate, uc, address + GRANULE, access, state.code) != 0:
            return False
        second = room[0]
    state.scratch = 0
    # what the pages are like, which counts for tags and for the order of a pair's bytes
    page, next_page = int64(0), int64(0)
    if r.tags != 0 or form == STORE_PAIR:
        page = _page_of(state, lacking, address, first)
        if second != NO_PLACE:
            next_page = _page_of(state, lacking, address + GRANULE, second)
        if page == UNKNOWN or next_page == UNKNOWN:
            return False
    if r.tags == 0:
        page, next_page = page & ~TAGGED, int64(0)
    # the data that go with the tags
    if form in (STORE_ZEROS, ZERO_BLOCK, STORE_PAIR):
        both = _may_store(state, first) and (second == NO_PLACE or _may_store(state, second))
        if not both or (form == STORE_PAIR and page & LITTLE == 0):
            return False
        data = state.zeros
        if form == STORE_PAIR:
            t2 = word >> 10 & 31
            room[0] = 0 if t == _ZERO_REGISTER else x[t]
            room[1] = 0 if t2 == _ZERO_REGISTER else x[t2]
            data = state.code
        if call_write(state.mem_write, uc, first, data, count * GRANULE) != 0:
            return False
        if second != NO_PLACE:
            call_write(state.mem_write, uc, second, data, GRANULE)
    if loads:
        tags = array_at(pointer_to(state.tags), (_MOST_ROWS << 32,), np.uint8)
        found = page & TAGGED != 0
        tag = int64(tags[(first - state.tags_begin) // GRANULE]) if found else int64(0)
        if t != _ZERO_REGISTER:
            x[t] = x[t] & ~TAG | tag << TAG_LSB
        return True
    if page & TAGGED != 0:
        _set_tags(state, first, count, tag)
    if next_page & TAGGED != 0:
        _set_tags(state, second, 1, tag)
    if mode & 1 != 0:
        x[n] += offset
    return True


@routine
def _sets_pstate(
    state: StateRecord, lacking: LackingRecord, word: int, pstate: int, scratch: int
) -> bool:
    """Carry out MSR SSBS, DIT or TCO with an immediate. False if it is something else."""
    op = word & ~_IMMEDIATE
    bit = _SSBS if op == _MSR_SSBS else _DIT if op == _MSR_DIT else _TCO if op == _MSR_TCO else 0
    if lacking.masks & bit == 0:
        return False
    state.scratch = pstate | bit if word & _IMMEDIATE_BIT != 0 else pstate & ~bit
    call_register(state.context_write, state.context, _PSTATE, scratch)
    return True


@routine
def _maintains(state: StateRecord, lacking: LackingRecord, uc: int, word: int, el: int) -> bool:
    """Carry out a TLBI, for which the engine forgets its whole TLB, or a DSB nXS. False if not.

    The hook for SYS has noted what other PEs and the core model have to hear of a TLBI.
    """
    if is_dsb_nxs(word):
        return lacking.barriers != 0
    if word & _SYS_MASK != _TLBI:
        return False
    key = word >> 5 & 0xFFFF
    known = array_at(pointer_to(lacking.maintenance), (PLACES,), np.uint8)[place_of(key)]
    if known == 0 or state.tlbi_at >> (2 * (key >> 11 & 7) + el) & 1 == 0:
        return False
    flush_tlb(state, uc)
    begin_epoch(state)
    if known & NOTED != 0:
        tlb_flushed(state)
    if known & TOLD != 0:
        broadcast(state, FLUSH_MAINTENANCE)
    return True


@routine
def _begins_in_row(state: StateRecord, row_end: int, address: int) -> bool:
    """Whether the operation at an address may be carried out though no block begins with it."""
    return (
        row_end != NO_ROW
        and row_end != address
        and address & _IN_PAGE != 0
        and state.budget > 0
        and (state.notice | state.pending | state.weigh | state.tally | state.again) == 0
        and (state.deliver | state.restored | state.event_due) == 0
        and (state.cover | state.call_stacks) == 0
    )


@routine
def carried_out(state: StateRecord, engine: Pointer, user: Pointer, number: int) -> bool:
    """Carry out the instruction at ``State.pc``, if that is what ``State.context`` tells of.

    True if it is done: the saved state is what it leaves, ``State.pc`` where the engine goes on.
    False, and nothing has changed, if it is for Python.
    """
    if state.lacking == 0 or state.stop != 0 or number != _UNDEFINED:
        return False
    if array_at(pointer_to(state.exception), (1,), np.uint32)[0] != _NO_CLASS:
        return False
    lacking = record_at(pointer_to(state.lacking), LACKING)
    uc, scratch = address_of(engine), address_of(user) + _SCRATCH
    state.scratch = 0
    call_register(state.reg_read, uc, _PSTATE, scratch)
    pstate = state.scratch
    el = pstate >> 2 & 3
    if pstate & _NOT_NOW != 0:
        return False
    word = _word_at(state, uc, state.pc)
    if word >= 0 and (
        _sets_pstate(state, lacking, word, pstate, scratch)
        or _maintains(state, lacking, uc, word, el)
    ):
        state.pc += 4
        return True
    row = NONE if word < 0 else _row_of(state, lacking, word, lacking.has, el)
    if row == NONE:
        return False
    table = array_at(pointer_to(lacking.table), (_MOST_ROWS,), np.int64)
    r = record_at(pointer_to(lacking.registers), REGISTERS)
    r.z = state.context + lacking.z
    r.p = state.context + lacking.p
    r.x = state.context + lacking.x
    r.bytes = _vector_bytes(state, lacking.zcr, el)
    r.nzcv = pstate & _FLAGS
    r.tags = state.tag_access >> el & 1
    fpsr = int64(0)
    used = int64(0)
    unit, form, kind = table[row + UNIT], table[row + FORM], table[row + KIND]
    if unit == _TAG_ACCESS and not _accesses_tags(state, lacking, uc, r, word, form, el):
        return False
    if unit == _VECTOR_ACCESS and not accesses_vectors(state, lacking, uc, r, word, form, kind, el):
        return False
    while row != NONE:
        uses = table[row + USES]
        if uses & ~used & _USES_FP != 0:
            state.scratch = 0
            call_register(state.reg_read, uc, _FPCR, scratch)
            r.fpcr = state.scratch
            state.scratch = 0
            call_register(state.reg_read, uc, _FPSR, scratch)
            r.fpsr = state.scratch
            fpsr = state.scratch
        used |= uses
        # an access has been carried out above
        call_carry(
            lacking.carry,
            lacking.registers,
            word,
            table[row + UNIT],
            table[row + FORM],
            table[row + KIND],
        )
        state.pc += 4
        if not _begins_in_row(state, lacking.row_end, state.pc):
            break
        word = _word_at(state, uc, state.pc)
        if word < 0 or marks_of(word) & state.watch != 0:
            break
        row = _row_of(state, lacking, word, lacking.has | _IN_ROW, el)
        if row != NONE:
            charge(state, 1)
            goes_on_at(state, state.pc + 4)
            state.block = state.pc
            state.block_operations = 1
    if used & _USES_FP != 0 and r.fpsr != fpsr:
        state.scratch = r.fpsr
        call_register(state.context_write, state.context, _FPSR, scratch)
    if used & _USES_FLAGS != 0:
        state.scratch = r.nzcv
        call_register(state.context_write, state.context, _NZCV, scratch)
    return True
