"""Loads past the cache: which lines of a board's RAM are dirty, and who reads them nevertheless.

Compiled code looks at each load and store (``host.native.shadow.lines``). It has translation tables
looked through after each change of them, and asks which mapping an access has used where there are
two. A load that is found reads poison in place of what only the cache holds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.memory.descriptors import AddressDescriptor, MemoryAttributes, acc_desc_gpr
from spe_unicorn.arch.memory.regimes import TranslationContext, context_at
from spe_unicorn.arch.memory.table_scan import attributes_mapped
from spe_unicorn.arch.memory.translation import full_translate, s2_translate
from spe_unicorn.arch.operation import Family, Instruction
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.rules.effective import have_el
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.decode import address_from, decode
from spe_unicorn.host.engine.engine import PSTATE
from spe_unicorn.host.engine.memory import Ram, RamMemory
from spe_unicorn.host.native.shadow import lines
from spe_unicorn.host.native.shadow.blocks import accesses_of
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register
from spe_unicorn.host.pe.vectors import vector_bits

POISON: Final = 0xDB
_MOST_STEPS: Final = 4096
"""The most blocks and pages of stage 2 that are looked at. Beyond that each access is asked for."""
_MOST_BYTES: Final = 1 << 24
"""The most of all tables that is kept, to see whether they have changed."""
_PAGE: Final = 1 << 12
_BOTH: Final = lines.CACHED | lines.NOT_CACHED
_NOT_CACHED_NIBBLE: Final = 0x4
_WRITE_THROUGH: Final = (0x0, 0x8)
"""The upper two bits of a nibble of MAIR_ELx that says Write-Through, transient or not."""
_PROTOTYPE: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

Found = Callable[[int, int, int, int], None]
"""Is told, before the load, of the PE's number, its PC, the physical address and the size."""
Pages = np.ndarray[tuple[int], np.dtype[np.uint8]]
Contexts = dict[int, TranslationContext]
"""By Exception level."""


class Coherence:
    """Watches the PEs of a board, and calls ``found`` for each load of a dirty line."""

    def __init__(
        self, cpus: Sequence[UnicornCPU], memory: RamMemory, ram: Ram, found: Found
    ) -> None:
        self.memory, self._ram, self._found = memory, ram, found
        self._lines = np.zeros(ram.size // lines.LINE, np.uint8)
        self._tables = np.zeros(ram.size // _PAGE, np.uint8)
        self._true: list[tuple[int, bytes]] = []
        """What RAM holds truly where there is poison, by offset."""
        self._shared = lines.SharedState()
        self._shared.lines = self._lines.ctypes.data
        self._shared.tables = self._tables.ctypes.data
        self._pes = [_OfPE(self, number, cpu, ram, self._shared) for number, cpu in enumerate(cpus)]
        self._attentions = np.array([pe.row.attention for pe in self._pes], np.int64)
        self._shared.attentions, self._shared.pes = self._attentions.ctypes.data, len(cpus)

    def begin(self) -> None:
        """What is in memory now is what every reader sees."""
        self.restore()
        self._lines[:] = 0
        self._tables[:] = 0
        for pe in self._pes:
            pe.forget()
        self._raise_attention()

    def restore(self) -> None:
        """Put back what poison has covered: only the one load is to see it."""
        if not self._true:
            return
        for offset, data in reversed(self._true):
            self._ram.bytes[offset : offset + len(data)] = data
        self._true.clear()
        self._shared.poisoned = 0

    def found(self, cpu: int, pc: int, physical: int, size: int) -> None:
        """A load of a dirty line is about to be made."""
        self._found(cpu, pc, physical, size)

    def poison(self, physical: int, size: int) -> None:
        """Have the next load see poison."""
        offset = physical - self._ram.base
        self._true.append((offset, bytes(self._ram.bytes[offset : offset + size])))
        self._ram.bytes[offset : offset + size] = bytes([POISON]) * size
        self._shared.poisoned = 1
        self._raise_attention()

    def _raise_attention(self) -> None:
        for pe in self._pes:
            pe.row.raise_attention()

    def scan(self, contexts: Contexts, tables: _Tables, pages: Pages) -> int:
        """Find out how a PE maps each page of RAM. Return at which levels nothing is cacheable."""
        off = 0
        pages[:] = 0
        regimes = set()
        for el, context in contexts.items():
            if not _caches(context):
                off |= 1 << el
            elif context.regime not in regimes:
                regimes.add(context.regime)
                self._scan(context, tables, pages)
        with_table = self._tables != 0
        for pe in self._pes:
            pe.pages[with_table] |= lines.TABLE
        return off

    def _scan(self, context: TranslationContext, tables: _Tables, pages: Pages) -> None:
        steps = _MOST_STEPS if context.s1_enabled else 0
        for each, attributes in attributes_mapped(context, tables):
            if each.is_table:
                self._tables[self._part(each.output, each.size)] = 1
            elif attributes is None:
                steps = 0
            elif context.stage2 is None:
                pages[self._part(each.output, each.size)] |= _mark(attributes)
            else:
                space = PASpace.NonSecure if each.non_secure else PASpace.Secure
                ipa = AddressDescriptor(each.output, space, attributes, 12, 3)
                steps = self._scan_stage2(context, ipa, each.size, tables, pages, steps)
        if steps <= 0:
            tables.are_all = False
            pages[:] |= _BOTH

    def _scan_stage2(
        self,
        context: TranslationContext,
        first: AddressDescriptor,
        size: int,
        tables: _Tables,
        pages: Pages,
        steps: int,
    ) -> int:
        """Look where stage 2 maps ``size`` bytes. Return how many of ``steps`` are left.

        None are left after a hole that stage 1 has as cacheable: what fills it needs no TLBI, so
        nobody is told.
        """
        address, end = first.paddress, first.paddress + size
        while address < end and steps > 0:
            steps -= 1
            ipa = first._replace(paddress=address, page_size_log2=64)
            found = s2_translate(context, ipa, acc_desc_gpr(1, read=True, write=False), tables)
            step = _PAGE
            if isinstance(found, AddressDescriptor):
                step = 1 << found.page_size_log2
                piece = min(step - address % step, end - address)
                pages[self._part(found.paddress, piece)] |= _mark(found.memattrs)
            elif _mark(first.memattrs) != lines.NOT_CACHED:
                return 0
            address += step - address % step
        return steps

    def _part(self, address: int, size: int) -> slice:
        """The pages of RAM among ``size`` bytes at an address."""
        base = self._ram.base
        first = max(address - base, 0) // _PAGE
        return slice(first, max(min(address + size - base, self._ram.size), 0) // _PAGE)


class _Tables:
    """Memory whose translation tables are looked through: what was read, as it was.

    The flags that a walk of the architecture's would set stay as they are.
    """

    def __init__(self, memory: PhysicalMemory) -> None:
        self._memory = memory
        self._read: dict[tuple[int, int, PASpace], bytes | None] = {}
        self._room = _MOST_BYTES
        self.are_all = True
        """Whether nothing but what is kept here says where addresses lead."""

    def read(self, address: int, size: int, space: PASpace) -> bytes | None:
        """See :class:`PhysicalMemory`."""
        key = address, size, space
        if key in self._read:
            return self._read[key]
        data = self._memory.read(address, size, space)
        self._room -= size
        if self._room < 0:
            self.are_all = False
        else:
            self._read[key] = data
        return data

    def write(self, address: int, data: bytes, space: PASpace) -> bool:
        """Leave memory as it is."""
        return True

    def are_the_same(self) -> bool:
        """Whether they say now what they said."""
        now = self._memory.read
        return self.are_all and all(now(*key) == data for key, data in self._read.items())


class _OfPE:
    """What belongs to one PE."""

    def __init__(
        self, whole: Coherence, number: int, cpu: UnicornCPU, ram: Ram, shared: lines.SharedState
    ) -> None:
        self._whole, self._number, self._cpu = whole, number, cpu
        self._written = (-1, -1)
        """`State.writes` and `State.epoch` when the registers were looked at last."""
        self._contexts: Contexts = {}
        self._tables = _Tables(whole.memory)
        """Those that were looked through last, with these contexts."""
        self._mapped: dict[tuple[int, int, bool], AddressDescriptor] = {}
        """By Exception level, page and whether it is for a store."""
        self.pages = np.zeros(ram.size // _PAGE, np.uint8)
        self._python = _PROTOTYPE(self._answer)
        self.row = row = lines.LinesState()
        user = ctypes.addressof(row)
        row.here = user
        row.engine, row.state = cpu.engine.handle.value, cpu.state.address
        row.shared, row.pages = ctypes.addressof(shared), self.pages.ctypes.data
        row.base, row.size, row.changed = ram.base, ram.size, 1
        row.python = ctypes.cast(self._python, ctypes.c_void_p).value or 0
        hooks = cpu.hooks
        kinds = uc_const.UC_HOOK_MEM_READ | uc_const.UC_HOOK_MEM_WRITE
        bounds = ram.base, ram.base + ram.size - 1
        hooks.add(kinds, lines.on_line.address, bounds=bounds, user=user)
        hooks.write_by(lines.on_translation.address, lines.on_maintenance.address, user)
        accesses = accesses_of(hooks, whole.memory, ram)
        if accesses is None:
            hooks.hook_accesses(wanted=True)
        else:
            accesses.follow_lines(row, shared)
        cpu.engine.at_rest.wire(whole.restore)
        cpu.leave_zeroing_to_engine()
        cpu.engine.forget_all_code()
        self._asked = {
            lines.SCAN: self._scan,
            lines.IS_NOT_CACHED: self._is_not_cached,
            lines.FOUND: self._found,
        }

    def _answer(self, what: int, physical: int, size: int) -> int:
        """What compiled code asks, in the midst of an access of the engine.

        So the engine's TLB must not change, and the engine translates nothing for this.
        """
        if what == lines.RESTORE:
            self._whole.restore()
            return 0
        return self._asked[what](physical, size)

    def forget(self) -> None:
        """Have the tables looked through before the next access."""
        self._written = (-1, -1)
        self._contexts = {}
        self.row.changed = 1

    def _scan(self, physical: int, size: int) -> int:
        """Look through the tables, if they or a register that says how to use them have changed."""
        cpu, contexts = self._cpu, self._contexts
        written = int(cpu.state.writes), int(cpu.state.epoch)
        if written != self._written:
            self._written = written
            levels = [el for el in range(4) if not el or have_el(cpu, el)]
            contexts = {el: context_at(cpu, el) for el in levels}
        if contexts != self._contexts or not self._tables.are_the_same():
            self._contexts, self._tables = contexts, _Tables(self._whole.memory)
            self._mapped.clear()
            self.row.off = self._whole.scan(contexts, self._tables, self.pages)
        return 0

    def _found(self, physical: int, size: int) -> int:
        cpu = self._cpu
        self._whole.found(self._number, cpu.pc, physical, size)
        instruction = self._instruction()
        if instruction is None or not instruction.exclusive:  # else its store would never succeed
            self._whole.poison(physical, size)
        return 0

    def _at(self, address: int, *, write: bool = False) -> AddressDescriptor | None:
        """Where a virtual address leads; its page is remembered until tables change."""
        cpu, page = self._cpu, address & -_PAGE
        el = cpu.engine.get(PSTATE) >> 2 & 3  # cpu.el is of when the engine was entered
        key = el, page, write
        if key not in self._mapped:
            asked = acc_desc_gpr(el, read=not write, write=write)
            found = full_translate(self._contexts[el], page, asked, cpu.memory)
            if not isinstance(found, AddressDescriptor):
                return None
            self._mapped[key] = found
        return self._mapped[key]

    def _instruction(self) -> Instruction | None:
        pc = self._cpu.pc
        page = self._at(pc)
        if page is None:
            return None
        word = self._cpu.memory.read(page.paddress + (pc & _PAGE - 1), 4, page.paspace)
        return None if word is None else decode(int.from_bytes(word, "little"))

    def _is_not_cached(self, physical: int, size: int) -> int:
        """Whether the load or store at the PC is to memory that no cache holds.

        Write-Through stores count as such, since memory holds what they have stored.
        """
        cpu, engine = self._cpu, self._cpu.engine
        instruction = self._instruction()
        access = None if instruction is None else instruction.access
        if instruction is None or access is None:
            return 0
        base = cpu.pc if access.base is None else engine.get(register(access.base))
        index = 0 if access.index is None else engine.get(register(access.index))
        address = address_from(access, base, index, vector_bits(cpu))
        address += physical - address & _PAGE - 1  # of this piece of it
        write = instruction.family is Family.STORE
        found = self._at(address, write=write)
        mark = lines.CACHED if found is None else _mark(found.memattrs)
        return int(mark == lines.NOT_CACHED or (mark == _BOTH and write))


def _caches(context: TranslationContext) -> bool:
    """Whether a regime has anything that is cacheable."""
    return context.dcache if context.s1_enabled else context.dc


def _mark(attributes: MemoryAttributes) -> int:
    """How memory with these attributes is mapped. Write-Through is both, see `_is_not_cached`."""
    inner, outer = attributes.cacheability & 0xF, attributes.cacheability >> 4
    if attributes.is_device or inner == outer == _NOT_CACHED_NIBBLE:
        return lines.NOT_CACHED
    return _BOTH if outer & 0xC in _WRITE_THROUGH else lines.CACHED
