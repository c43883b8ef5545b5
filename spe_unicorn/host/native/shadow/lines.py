"""Lines of RAM that only a cache holds as they were written last, and accesses past that cache.

A store to cacheable memory makes its lines dirty, and cleaning to the Point of Coherency makes them
clean. A load of a dirty line through a mapping that is not cacheable, or without translation, reads
what memory held before. The engine calls hooks with physical addresses. So a page that is mapped
both ways has Python find out which of the two an access has used.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.compiled import (
    ForeignCall,
    Pointer,
    array_at,
    entry,
    int64,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.host.engine.engine import PSTATE
from spe_unicorn.host.native.calls import call_register, call_translate
from spe_unicorn.host.native.code import CP_REG, NamedRegister
from spe_unicorn.host.native.registers.system import access
from spe_unicorn.host.native.state.actions import SYSTEM, WRITE
from spe_unicorn.host.native.state.whole import LAYOUT

LINE: Final = 64
"""Bytes of a cache line."""
NOT_CACHED, CACHED, TABLE = 1, 2, 4
"""Marks of a page: it is mapped as Non-cacheable or Device; as cacheable; it has a translation
table."""
SCAN, IS_NOT_CACHED, FOUND, RESTORE = 0, 1, 2, 3
"""What Python is asked: to look through translation tables; whether an access is to memory that is
not cacheable; to see to a load that was found; to put back what that load was not to see."""
_BOTH: Final = NOT_CACHED | CACHED
LEVELS: Final = 4
"""Exception levels."""
_PAGE_BITS: Final = 12
_LINE_BITS: Final = 6
_WRITE: Final = int(uc_const.UC_MEM_WRITE)
_READ: Final = int(uc_const.UC_PROT_READ)
_PSTATE: Final = int(PSTATE)

call_python: Final = ForeignCall("int32", ("int64", "int64", "int64"))
"""``int f(what, physical, size)`` of Python."""


class SharedRow:
    """What the PEs of a board share."""

    lines: int
    """Where the marks of lines are, a byte each: 1 for a dirty one."""
    tables: int
    """Where the marks of pages with translation tables are, a byte each."""
    changes: int
    """How many stores to such pages there were."""
    poisoned: int
    """Whether RAM holds what it should not."""
    attentions: int
    """Where it stands where each PE's ``CheckedRow.attention0`` is."""
    pes: int
    """How many of those there are."""


class LinesRow:
    """What the hooks of one PE and Python share."""

    engine: int
    state: int
    """Address of the `State`."""
    here: int
    """Its own address."""
    shared: int
    """Where the SHARED_ROW is."""
    pages: int
    """Where the marks of pages are, as this PE maps them, a byte each."""
    base: int
    size: int
    off: int
    """A bit for each Exception level at which no access is cacheable."""
    changed: int
    """Whether registers of translation may have been written since the last SCAN."""
    known: int
    """`SharedRow.changes` at the last SCAN."""
    python: int
    """The function that Python answers by."""
    attention: int
    """Where `CheckedRow.attention0` is; 0 where no stub asks for it."""
    scratch: int
    physical: int


SHARED_ROW: Final = layout(SharedRow)
LINES_ROW: Final = layout(LinesRow)


class SharedState(SharedRow, ctypes.Structure):
    """The same, for Python."""

    _fields_ = [(name, ctypes.c_int64) for name in SHARED_ROW.names]


class LinesState(LinesRow, ctypes.Structure):
    """The same, for Python."""

    _fields_ = [(name, ctypes.c_int64) for name in LINES_ROW.names]

    def raise_attention(self) -> None:
        """As :func:`raise_attention`."""
        if self.attention:
            words = (ctypes.c_int64 * LEVELS).from_address(self.attention)
            words[:] = [1] * LEVELS


_SCRATCH: Final = 8 * LINES_ROW.names.index("scratch")
_PHYSICAL: Final = 8 * LINES_ROW.names.index("physical")


@routine
def _level(m: LinesRow) -> int:
    """The PE's Exception level."""
    state = record_at(pointer_to(m.state), LAYOUT)
    call_register(state.reg_read, m.engine, _PSTATE, m.here + _SCRATCH)
    return m.scratch >> 2 & 3


@routine
def _is_cached(m: LinesRow, address: int, size: int) -> bool:
    """Whether an access to RAM is to cacheable memory."""
    if m.off != 0 and m.off >> _level(m) & 1 != 0:
        return False
    page = pointer_to(m.pages + (address - m.base >> _PAGE_BITS))
    marks = array_at(page, (1,), np.uint8)[0] & _BOTH
    if marks != _BOTH:
        return marks != NOT_CACHED
    return call_python(m.python, IS_NOT_CACHED, address, size) == 0


@routine
def _settle(m: LinesRow) -> None:
    """All is known: let stubs go on, where accesses may be cacheable."""
    if m.attention != 0:
        words = array_at(pointer_to(m.attention), (LEVELS,), np.int64)
        for n in range(LEVELS):
            words[n] = m.off >> n & 1


@routine
def raise_attention(at: int) -> None:
    """Have the stubs of the PE whose words lie ``at``, if any do, ask from now on."""
    if at != 0:
        array_at(pointer_to(at), (LEVELS,), np.int64)[:] = 1


@routine
def _raise_all(shared: SharedRow) -> None:
    words = array_at(pointer_to(shared.attentions), (shared.pes,), np.int64)
    for n in range(shared.pes):
        raise_attention(words[n])


@routine
def _look(m: LinesRow, address: int, size: int, store: bool) -> None:
    """An access to RAM is about to be made."""
    shared = record_at(pointer_to(m.shared), SHARED_ROW)
    if shared.poisoned != 0:
        call_python(m.python, RESTORE, address, size)
    if m.changed != 0 or m.known != shared.changes:
        m.changed, m.known = 0, shared.changes
        call_python(m.python, SCAN, address, size)
    _settle(m)
    offset = address - m.base
    first, last = offset >> _LINE_BITS, offset + size - 1 >> _LINE_BITS
    lines = array_at(pointer_to(shared.lines), (m.size >> _LINE_BITS,), np.uint8)
    if store:
        tables = pointer_to(shared.tables + (offset >> _PAGE_BITS))
        if array_at(tables, (1,), np.uint8)[0] != 0:
            shared.changes += 1
            _raise_all(shared)
        if lines[first] & lines[last] == 0 and _is_cached(m, address, size):
            lines[first] = lines[last] = 1
    elif lines[first] | lines[last] != 0 and not _is_cached(m, address, size):
        call_python(m.python, FOUND, address, size)


@entry("void", "pointer", "int32", "uint64", "int32", "int64", "pointer")
def on_line(engine: Pointer, kind: int, address: int, size: int, value: int, user: Pointer) -> None:
    """A load or store, or a piece of one."""
    m = record_at(user, LINES_ROW)
    here = int64(address)
    if here >= m.base and here + size <= m.base + m.size:
        _look(m, here, int64(size), kind == _WRITE)


@routine
def _clean(m: LinesRow, address: int) -> None:
    """The line of a virtual address is written back to memory."""
    state = record_at(pointer_to(m.state), LAYOUT)
    place = m.here + _PHYSICAL
    if call_translate(state.vmem_translate, m.engine, address, _READ, place) != 0:
        return
    offset = m.physical - m.base
    if 0 <= offset < m.size:
        shared = record_at(pointer_to(m.shared), SHARED_ROW)
        array_at(pointer_to(shared.lines + (offset >> _LINE_BITS)), (1,), np.uint8)[0] = 0


@routine
def _maintain(m: LinesRow, r: NamedRegister) -> None:
    """A SYS instruction: DC by address or by set and way, to or beyond the Point of Coherency."""
    if r.crn != 7:
        return
    coherent = r.crm == 10 or r.crm == 12 or r.crm == 13 or r.crm == 14
    if r.op2 == 1 and ((r.op1 == 3 and coherent) or (r.op1 == 0 and r.crm == 6)):
        _clean(m, int64(r.value))
    elif r.op2 == 2 and r.op1 == 0 and (r.crm == 6 or r.crm == 10 or r.crm == 14):
        shared = record_at(pointer_to(m.shared), SHARED_ROW)
        lines = array_at(pointer_to(shared.lines), (m.size >> _LINE_BITS,), np.uint8)
        for n in range(m.size >> _LINE_BITS):
            lines[n] = 0


@entry("uint32", "pointer", "uint32", "pointer", "pointer")
def on_maintenance(engine: Pointer, register: int, cp: Pointer, user: Pointer) -> int:
    """The hook for SYS."""
    m = record_at(user, LINES_ROW)
    _maintain(m, record_at(cp, CP_REG))
    return access(engine, register, cp, pointer_to(m.state), SYSTEM)


@entry("uint32", "pointer", "uint32", "pointer", "pointer")
def on_translation(engine: Pointer, register: int, cp: Pointer, user: Pointer) -> int:
    """The hook for MSR: SCTLR, HCR and SCR; TTBR, TCR, VTTBR and VTCR; MAIR."""
    m = record_at(user, LINES_ROW)
    r = record_at(cp, CP_REG)
    if r.op0 == 3 and (r.crn == 1 or r.crn == 2 or r.crn == 10):
        m.changed = 1
        raise_attention(m.attention)
    return access(engine, register, cp, pointer_to(m.state), WRITE)
