"""Accesses to Allocation Tags (FEAT_MTE, FEAT_MTE2), which Python carries out at the stop.

Without FEAT_MTE2 all memory is Untagged, as with it what translation does not say to be Tagged. A
tag reads as 0 there, and is not written. What remains of an access is all of its other effects (Arm
ARM D10.3): translation, faults, write-back, and the data that it stores. The engine stores the
data, and it takes the faults, by an access of its own to the same place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.access.tags import refused, without_tags
from spe_unicorn.arch.exceptions.routing import (
    Routed,
    alignment_fault,
    default_target,
)
from spe_unicorn.arch.exceptions.syndromes import SP_ALIGNMENT, UNDEFINED
from spe_unicorn.arch.memory.descriptors import FaultRecord, acc_desc_gpr
from spe_unicorn.arch.memory.regimes import context_at
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.pe import EL0
from spe_unicorn.arch.rules.effective import sctlr
from spe_unicorn.arch.rules.tagging import (
    GRANULE,
    address_with_allocation_tag,
    allocation_tag_access_is_enabled,
    allocation_tag_from_address,
)
from spe_unicorn.decode import address_from, decode
from spe_unicorn.host.engine.engine import SP, X
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register
from spe_unicorn.instructions import tags
from spe_unicorn.instructions.rows import Row

_MASK: Final = (1 << 64) - 1
_ZERO_REGISTER = _STACK_POINTER = 31
_STP, _LDP = 0xA900_0000, 0xA940_0000
_WHOLE_BLOCK: Final = frozenset({tags.LOAD_TAGS, tags.STORE_TAGS, tags.STORE_ZERO_BLOCK})
_STORE_DATA: Final = frozenset({tags.STORE_ZEROS, tags.STORE_PAIR, tags.STORE_ZERO_BLOCK})
_SYSTEM: Final = frozenset({tags.TAG_BLOCK, tags.ZERO_BLOCK, tags.MAINTAIN, tags.MAINTAIN_EL1})


class Tagging:
    """Carries out accesses to tags on one PE.

    ``access`` has the engine execute a word in place of the operation at the PC; it returns whether
    that raised an exception. ``take`` takes an exception, with the address for FAR_ELx if any.
    ``know_page`` is told whether the page of an address is Tagged.
    """

    def __init__(
        self,
        cpu: UnicornCPU,
        access: Callable[[int], bool],
        take: Callable[[Routed, int | None], None],
        know_page: Callable[..., None],
    ) -> None:
        self._cpu = cpu
        self._access = access
        self._take = take
        self._know_page = know_page

    def carry_out(self, row: Row, word: int) -> bool:
        """Carry out ``word``, the operation at the PC. True if it raised an exception."""
        if row.form in _SYSTEM:
            return self._system(row, word)
        if row.form in _WHOLE_BLOCK and self._cpu.el == EL0:
            self._take(Routed(default_target(self._cpu), UNDEFINED), None)
            return True
        cpu, access = self._cpu, decode(word).access
        if access is None or access.base is None:
            raise RuntimeError(f"{row.name} at {cpu.pc:#x}: the word {word:#x} has no address")
        base = register(access.base)
        before = cpu.engine.get(base)
        address = address_from(access, before, 0)
        write = row.form not in (tags.LOAD_TAG, tags.LOAD_TAGS)
        if write and row.form not in _WHOLE_BLOCK and address % GRANULE:
            self._take(*self._misaligned(access.base, address))
            return True
        granules = [address + n * GRANULE & _MASK for n in range(row.kind)]
        if self._faults(word, granules, write=write):
            return True
        places = [self._place(granule, write=write) for granule in granules]
        stored = self._stored(row, word, granules)
        stores = row.form in _STORE_DATA
        if stores and self._stores(row, word, granules):
            return True
        if not stores:
            cpu.pc = cpu.pc + 4 & _MASK
        if write:
            self._write_tags(places, stored)
        elif word & 31 != _ZERO_REGISTER:
            self._load(row, word & 31, granules, places)
        if access.writeback:
            cpu.engine.put(base, before + access.writeback & _MASK)
        return False

    def tag(self, address: int, size: int) -> None:
        """Give the granules of an access that was made the tag of its address: SETG*."""
        granules = [address + n & _MASK for n in range(0, size, GRANULE)]
        places = [self._place(granule, write=True) for granule in granules]
        self._write_tags(places, [allocation_tag_from_address(address)] * len(places))

    def _misaligned(self, base: int, address: int) -> tuple[Routed, int | None]:
        """The fault of a store of tags; CheckSPAlignment() comes first where SP is its base."""
        cpu, controls = self._cpu, sctlr(self._cpu)
        if base == _STACK_POINTER and (controls.SA if cpu.el else controls.SA0):
            return Routed(default_target(cpu), SP_ALIGNMENT), None
        return alignment_fault(cpu, write=True), address

    def _place(self, address: int, *, write: bool) -> int | None:
        """The physical address whose tag an access reaches; None where it reaches none.

        That it does not fault is known.
        """
        cpu = self._cpu
        if cpu.tags is None or not allocation_tag_access_is_enabled(cpu, cpu.el):
            return None
        context = context_at(cpu, cpu.el)
        access = acc_desc_gpr(cpu.el, read=not write, write=write)
        found = full_translate(context, address, access, cpu.memory)
        if isinstance(found, FaultRecord):
            return None
        self._know_page(address, tagged=found.memattrs.is_tagged)
        return found.paddress if found.memattrs.is_tagged else None

    def _stored(self, row: Row, word: int, granules: list[int]) -> list[int]:
        """The tags that an access stores, one for each granule."""
        engine, t = self._cpu.engine, word & 31
        if row.form == tags.STORE_PAIR:
            return [allocation_tag_from_address(granules[0])]
        if row.form in _WHOLE_BLOCK:
            data = 0 if t == _ZERO_REGISTER else engine.x(t)
            if row.form == tags.STORE_ZERO_BLOCK:
                return [data & 0xF] * len(granules)
            return [data >> _place_of(granule) & 0xF for granule in granules]
        pointer = engine.get(SP) if t == _STACK_POINTER else engine.x(t)
        return [allocation_tag_from_address(pointer)] * len(granules)

    def _write_tags(self, places: list[int | None], stored: list[int]) -> None:
        memory = self._cpu.tags
        for place, tag in zip(places, stored, strict=True):
            if place is not None and memory is not None:
                memory.write(place, tag)

    def _load(self, row: Row, t: int, granules: list[int], places: list[int | None]) -> None:
        """Put the tags of granules into a register."""
        cpu = self._cpu
        read = [0 if p is None or cpu.tags is None else cpu.tags.read(p) or 0 for p in places]
        if row.form == tags.LOAD_TAG:
            cpu.engine.set_x(t, address_with_allocation_tag(cpu.engine.x(t), read[0]))
            return
        pairs = zip(granules, read, strict=True)
        cpu.engine.set_x(t, sum(tag << _place_of(granule) for granule, tag in pairs))

    def _system(self, row: Row, word: int) -> bool:
        """DC by address. What cleans and what writes zeros is the engine's, without tags."""
        cpu = self._cpu
        trap = refused(cpu, word)
        if trap is not None:
            self._take(trap, None)
            return True
        if row.form in (tags.MAINTAIN, tags.MAINTAIN_EL1):
            return self._access(without_tags(word))
        rt = word & 31
        address = 0 if rt == _ZERO_REGISTER else cpu.engine.x(rt)
        first = address & -tags.BLOCK
        granules = [first + n * GRANULE for n in range(tags.BLOCK // GRANULE)]
        if self._faults(word, granules[:1], write=True):
            return True
        places = [self._place(granule, write=True) for granule in granules]
        if row.form == tags.TAG_BLOCK:
            cpu.pc = cpu.pc + 4 & _MASK
        elif self._access(without_tags(word)):
            return True
        self._write_tags(places, [allocation_tag_from_address(address)] * len(places))
        return False

    def _faults(self, word: int, granules: list[int], *, write: bool) -> bool:
        """Have the engine take the fault of the first granule that cannot be accessed, if any."""
        for address in granules:
            if self._cpu.virtual.translate(address, write=write) is None:
                # loads name two registers, which are not written as the access faults
                pair = (_ZERO_REGISTER, _ZERO_REGISTER) if write else (0, 1)
                if self._at(word, address, _STP if write else _LDP, pair):
                    return True
                raise RuntimeError(f"the access at {address:#x} must have faulted, and has not")
        return False

    def _stores(self, row: Row, word: int, granules: list[int]) -> bool:
        """Store a granule's data after the other. True if it raised an exception."""
        cpu = self._cpu
        pair = (word & 31, word >> 10 & 31)
        if row.form != tags.STORE_PAIR:
            pair = (_ZERO_REGISTER, _ZERO_REGISTER)
        pc = cpu.pc
        for address in granules:
            cpu.pc = pc
            if self._at(word, address, _STP, pair):
                return True
        return False

    def _at(self, word: int, address: int, access: int, pair: tuple[int, int]) -> bool:
        """Have the engine load or store a pair of registers. True if it raised an exception.

        The address is in a register that the operation does not name.
        """
        engine = self._cpu.engine
        named = {*pair, word & 31, word >> 5 & 31, word >> 10 & 31}
        n = next(n for n in range(len(X)) if n not in named)
        kept = engine.x(n)
        engine.set_x(n, address)
        try:
            return self._access(access | pair[1] << 10 | n << 5 | pair[0])
        finally:
            engine.set_x(n, kept)


def _place_of(address: int) -> int:
    """Where LDGM and STGM have the tag of a granule in their register: the lowest bit of it."""
    return address // GRANULE % 16 * 4
