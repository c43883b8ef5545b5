"""Accesses to Allocation Tags (FEAT_MTE), which Python carries out at the stop.

There are no Allocation Tags without FEAT_MTE2: all memory is Untagged. What remains of an access is
all of its other effects (Arm ARM D10.3): translation, faults, write-back, and the data that it
stores. The engine stores the data, and it takes the faults, by an access of its own to the same
place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.access.tags import refused, without_tags
from spe_unicorn.arch.exceptions.routing import Routed, data_abort_of
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.decode import address_from, decode
from spe_unicorn.host.engine.engine import X
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import register
from spe_unicorn.instructions import tags
from spe_unicorn.instructions.rows import Row

_MASK: Final = (1 << 64) - 1
_ZERO_REGISTER: Final = 31
_STP, _LDP = 0xA900_0000, 0xA940_0000
_BLOCK: Final = 64
"""Bytes that DC GZVA writes: DCZID_EL0.BS is 4."""


class Tagging:
    """Carries out accesses to tags on one PE.

    ``access`` has the engine execute a word in place of the operation at the PC; it returns whether
    that raised an exception. ``take`` takes an exception, with the address for FAR_ELx if any.
    """

    def __init__(
        self,
        cpu: UnicornCPU,
        access: Callable[[int], bool],
        take: Callable[[Routed, int | None], None],
    ) -> None:
        self._cpu = cpu
        self._access = access
        self._take = take

    def carry_out(self, row: Row, word: int) -> bool:
        """Carry out ``word``, the operation at the PC. True if it raised an exception."""
        if row.form in (tags.TAG_BLOCK, tags.ZERO_BLOCK, tags.MAINTAIN):
            return self._system(row, word)
        cpu, access = self._cpu, decode(word).access
        if access is None or access.base is None:
            raise RuntimeError(f"{row.name} at {cpu.pc:#x}: the word {word:#x} has no address")
        base = register(access.base)
        before = cpu.engine.get(base)
        address = address_from(access, before, 0)
        write = row.form != tags.LOAD_TAG
        if write and address % tags.GRANULE:
            fault = FaultRecord(Fault.Alignment, 0, write=True)
            self._take(data_abort_of(cpu, fault), address)
            return True
        granules = [address + n * tags.GRANULE & _MASK for n in range(row.kind)]
        if self._faults(word, granules, write=write):
            return True
        stores = row.form in (tags.STORE_ZEROS, tags.STORE_PAIR)
        if stores and self._stores(row, word, granules):
            return True
        if not stores:
            cpu.pc = cpu.pc + 4 & _MASK
        if not write and word & 31 != _ZERO_REGISTER:
            cpu.engine.set_x(word & 31, cpu.engine.x(word & 31) & ~tags.TAG)
        if access.writeback:
            cpu.engine.put(base, before + access.writeback & _MASK)
        return False

    def _system(self, row: Row, word: int) -> bool:
        """DC by address. What cleans and what writes zeros is the engine's, without tags."""
        cpu = self._cpu
        trap = refused(cpu, word)
        if trap is not None:
            self._take(trap, None)
            return True
        if row.form != tags.TAG_BLOCK:
            return self._access(without_tags(word))
        rt = word & 31
        address = 0 if rt == _ZERO_REGISTER else cpu.engine.x(rt)
        if self._faults(word, [address & -_BLOCK], write=True):
            return True
        cpu.pc = cpu.pc + 4 & _MASK
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
        if row.form == tags.STORE_ZEROS:
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
