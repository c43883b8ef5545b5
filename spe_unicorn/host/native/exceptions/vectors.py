"""Loads and stores of FEAT_SVE2p1, carried out within a run of the engine.

That is where nobody has to see them and nothing can come of them but data: all that they access is
RAM that the PE may access so. All is translated before anything is moved, and everything else is
left to Python at the stop (``host.pe.amended.quadword_access``), which has the engine make it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from unicorn import UC_PROT_READ, UC_PROT_WRITE

from spe_unicorn.arch.registers.system import HCR_EL2, SCTLR_EL1
from spe_unicorn.compiled import array_at, int64, pointer_to, routine
from spe_unicorn.host.native.calls import call_translate, call_write
from spe_unicorn.host.native.checks import DATA, DEVICE
from spe_unicorn.host.native.exceptions.lacking_record import LackingRecord, kept, untagged
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.instructions.registers import VECTOR_WORDS, RegistersRecord
from spe_unicorn.instructions.sve2.p1.moving import (
    MOST_BYTES,
    address_of_units,
    clear_vectors,
    move,
    next_unit,
    quadword_address,
    unit_bytes,
    units_of,
)
from spe_unicorn.instructions.sve2.p1.quadword_access import (
    BY_REGISTER,
    QUADWORD,
    SCALE,
    SCATTERED,
    STORES,
    STRUCTURES,
    WIDENED,
)

_READ, _WRITE = int(UC_PROT_READ), int(UC_PROT_WRITE)
_EE, _E0E = int(SCTLR_EL1.EE.mask), int(SCTLR_EL1.E0E.mask)
_HOST: Final = int(HCR_EL2.E2H.mask | HCR_EL2.TGE.mask)
_ZERO_REGISTER: Final = 31
_PAGE: Final = 4096
_NOWHERE: Final = -1
_MOST_RAM: Final = 1 << 60
"""A number of bytes that no memory has."""


@routine
def _reverses(state: StateRecord, lacking: LackingRecord, el: int) -> bool:
    """Whether data may be stored highest byte first: ``SCTLR_ELx.EE``, or E0E at EL0."""
    level = max(el, 1)
    controls = kept(state, lacking.sctlr + 8 * (level - 1))
    if el > 0:
        return controls & _EE != 0
    if kept(state, lacking.hcr) & _HOST == _HOST:
        controls |= kept(state, lacking.sctlr + 8)
    return controls & _E0E != 0


@routine
def _place(state: StateRecord, uc: int, address: int, count: int, access: int) -> int:
    """The physical address of bytes of a page that are RAM; _NOWHERE if Python has to see why."""
    # an address with a tag would stay in the TLB beside the page that it is of
    if address != untagged(address):
        return int64(_NOWHERE)
    if call_translate(state.vmem_translate, uc, address, access, state.code) != 0:
        return int64(_NOWHERE)
    place = array_at(pointer_to(state.code), (1,), np.int64)[0]
    inside = state.ram_begin <= place and place + count <= state.ram_end
    return place if inside else int64(_NOWHERE)


@routine
def _read(state: StateRecord, lacking: LackingRecord, place: int, to: int, count: int) -> None:
    """Copy bytes of RAM to an address of the host."""
    ram = array_at(pointer_to(lacking.ram + (place - state.ram_begin)), (MOST_BYTES,), np.uint8)
    room = array_at(pointer_to(to), (MOST_BYTES,), np.uint8)
    for n in range(count):
        room[n] = ram[n]


@routine
def _by_addresses(
    state: StateRecord, lacking: LackingRecord, uc: int, r: RegistersRecord, word: int, kind: int
) -> bool:
    """LD1Q and ST1Q. The scratch rows have where each quadword is, and a vector."""
    places = array_at(pointer_to(r.scratch), (VECTOR_WORDS,), np.int64)
    access = _WRITE if kind & STORES else _READ
    quadwords = r.bytes // QUADWORD
    for n in range(quadwords):
        places[n] = _NOWHERE
        if next_unit(r, word, SCATTERED, kind, n, n + 1, 1) != n:
            continue
        address = quadword_address(r, word, n)
        if address & QUADWORD - 1 != 0:
            return False
        places[n] = _place(state, uc, address, QUADWORD, access)
        if places[n] == _NOWHERE:
            return False
    vector = r.z + 8 * VECTOR_WORDS * (word & 31)
    if kind & STORES == 0:
        clear_vectors(r, word, SCATTERED, kind)
    for n in range(quadwords):
        if places[n] == _NOWHERE:
            continue
        here = vector + QUADWORD * n
        if kind & STORES:
            call_write(state.mem_write, uc, places[n], here, QUADWORD)
        else:
            _read(state, lacking, places[n], here, QUADWORD)
    return True


@routine
def accesses_vectors(
    state: StateRecord,
    lacking: LackingRecord,
    uc: int,
    r: RegistersRecord,
    word: int,
    form: int,
    kind: int,
    el: int,
) -> bool:
    """Carry out a load or store of these rows. False, and nothing has changed, for Python's."""
    if state.told_access != 0 or state.ram_begin == state.ram_end or lacking.ram == 0:
        return False
    if _reverses(state, lacking, el):
        return False
    if form == SCATTERED:
        return _by_addresses(state, lacking, uc, r, word, kind)
    if form in (WIDENED, STRUCTURES) and kind & BY_REGISTER and word >> 16 & 31 == _ZERO_REGISTER:
        return False
    unit, units = unit_bytes(form, kind), units_of(r, word, form, kind)
    address = address_of_units(r, word, form, kind)
    element = int64(QUADWORD) if form == STRUCTURES else int64(1) << (kind >> SCALE)
    checks = form == STRUCTURES or state.checking & (DATA | DEVICE) != 0
    if checks and address & element - 1 != 0:
        return False
    first = next_unit(r, word, form, kind, int64(0), units, 1)
    last = units
    while last > first and next_unit(r, word, form, kind, last - 1, last, 1) == last:
        last -= 1
    stores = kind & STORES != 0
    # the bytes from the first active unit to the last one, which are in two pages at most
    begin, count = address + first * unit, (last - first) * unit
    left = min(count, _PAGE - (begin & _PAGE - 1))
    low, high = int64(_NOWHERE), int64(_NOWHERE)
    access = _WRITE if stores else _READ
    if count != 0:
        low = _place(state, uc, begin, left, access)
        if low == _NOWHERE:
            return False
    if left < count:
        high = _place(state, uc, begin + left, count - left, access)
        if high == _NOWHERE:
            return False
    buffer, border = r.scratch, first * unit + left
    if stores:
        move(r, word, form, kind, buffer, first, last)
    else:
        clear_vectors(r, word, form, kind)
        if count != 0:
            _read(state, lacking, low, buffer + first * unit, left)
        if left < count:
            _read(state, lacking, high, buffer + border, count - left)
    while first < last:
        end = next_unit(r, word, form, kind, first, last, 0)
        if stores:
            at, behind = first * unit, end * unit
            if at < border:
                place = low + at - (border - left)
                call_write(state.mem_write, uc, place, buffer + at, min(behind, border) - at)
            if behind > border:
                at = max(at, border)
                call_write(state.mem_write, uc, high + at - border, buffer + at, behind - at)
        else:
            move(r, word, form, kind, buffer, first, end)
        first = next_unit(r, word, form, kind, end, last, 1)
    return True
