"""Memory as a PE sees it: by virtual address, through its translation."""

from __future__ import annotations

import ctypes
import struct
from typing import Final

from unicorn import UC_PROT_EXEC, UC_PROT_READ, UC_PROT_WRITE

from spe_unicorn.arch.memory.descriptors import (
    Fault,
    FaultRecord,
    acc_desc_gpr,
    acc_desc_ifetch,
)
from spe_unicorn.arch.memory.regimes import context_at
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.pe import EL0, EL2, PE
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.registers.system import SPSR
from spe_unicorn.arch.rules.effective import unprivileged_access_is_privileged
from spe_unicorn.host.engine.engine import PSTATE, Engine, lib
from spe_unicorn.host.pe.secure.memory import SecureMemory
from spe_unicorn.signals import Signal

_PAGE: Final = 1 << 12
"""Bytes of the smallest page."""


class VirtualMemory:
    """The virtual memory of one PE at its current Exception level.

    The engine translates, so stale entries of its TLB count here as they do for the guest. Accesses
    that EL2 makes for a nested hypervisor are translated by the rules of ``arch.memory``.
    """

    WIRING = ("secure_memory",)

    def __init__(self, pe: PE, engine: Engine, memory: PhysicalMemory) -> None:
        self.secure_memory: SecureMemory | None = None
        """Memory of whose translations the engine's TLB may hold none in Non-secure state."""
        self.written: Signal[[int, int]] = Signal()
        """Told of the address and the size of what :meth:`write` has stored."""
        self._pe = pe
        self._engine = engine
        self._memory = memory
        self._word = ctypes.c_uint64()
        self._word_at = ctypes.byref(self._word)
        self._physical = ctypes.c_uint64()
        self._physical_at = ctypes.byref(self._physical)

    def translate(self, address: int, *, write: bool) -> int | None:
        """The physical address of a virtual one at the current Exception level, None for none."""
        status = lib.uc_vmem_translate(
            self._engine.handle,
            ctypes.c_uint64(address),
            UC_PROT_WRITE if write else UC_PROT_READ,
            self._physical_at,
        )
        if status:
            return None
        if self.secure_memory is not None:
            self.secure_memory.translated(self._physical.value)
        return self._physical.value

    def _accessed(self, address: int, size: int) -> None:
        """Memory was accessed for a caller outside: the guest gains no translations by that."""
        if self.secure_memory is not None and self.secure_memory.refuses:
            for place in range(address, address + size, _PAGE):
                self.translate(place, write=False)
            self.translate(address + size - 1, write=False)

    def translate_unprivileged(self, address: int, *, write: bool) -> int | None:
        """The physical address that LDTR or STTR would access: AArch64.IsUnprivAccessPriv()."""
        pe = self._pe
        uao = bool(self._engine.get(PSTATE) & SPSR.UAO.mask)
        if unprivileged_access_is_privileged(pe, uao=uao):
            return self.translate(address, write=write)
        context = context_at(pe, EL0)
        access = acc_desc_gpr(EL0, read=not write, write=write)
        result = full_translate(context, address, access, self._memory)
        return None if isinstance(result, FaultRecord) else result.paddress

    def read(self, address: int, size: int) -> bytes | None:
        """``size`` bytes at a virtual address, None where they cannot be read."""
        buffer = ctypes.create_string_buffer(size)
        return None if self._read_to(address, UC_PROT_READ, buffer, size) else buffer.raw

    def _read_to(self, address: int, access: int, buffer: object, size: int) -> int:
        """Read virtual memory as ``access`` may; the engine's error number, 0 for none."""
        handle, at = self._engine.handle, ctypes.c_uint64(address)
        status = int(lib.uc_vmem_read(handle, at, access, buffer, ctypes.c_size_t(size)))
        self._accessed(address, size)
        return status

    def write(self, address: int, data: bytes) -> bool:
        """Store ``data`` at a virtual address; False where it cannot be written."""
        status = lib.uc_vmem_write(
            self._engine.handle,
            ctypes.c_uint64(address),
            UC_PROT_WRITE,
            data,
            ctypes.c_size_t(len(data)),
        )
        self._accessed(address, len(data))
        if self.written and not status:
            self.written(address, len(data))
        return not status

    def code(self, address: int, operations: int) -> tuple[int, ...] | None:
        """Instruction words from a virtual address on, None where they cannot be fetched."""
        if operations == 1:
            self._word.value = 0
            status = self._read_to(address, UC_PROT_EXEC, self._word_at, 4)
            return None if status else (self._word.value,)
        code = (ctypes.c_uint32 * operations)()
        return None if self._read_to(address, UC_PROT_EXEC, code, 4 * operations) else tuple(code)

    def put_code(self, address: int, word: int) -> None:
        """Store an instruction word where one can be fetched, even in memory that is read only.

        The caller has the engine forget what it has translated.
        """
        status = lib.uc_vmem_write(
            self._engine.handle,
            ctypes.c_uint64(address),
            UC_PROT_EXEC,
            word.to_bytes(4, "little"),
            ctypes.c_size_t(4),
        )
        if status:
            raise RuntimeError(f"no code can be stored at {address:#x}, where it was fetched")
        self._accessed(address, 4)

    def fetch_fault(self, address: int) -> FaultRecord | None:
        """Why no instruction can be fetched at a virtual address, None where one can.

        By the tables in memory: the engine's TLB has no part in it.
        """
        pe = self._pe
        context = context_at(pe, pe.el)
        result = full_translate(context, address, acc_desc_ifetch(pe.el), self._memory)
        if isinstance(result, FaultRecord):
            return result
        if self._memory.read(result.paddress, 4, result.paspace) is None:
            return FaultRecord(Fault.SyncExternal, 0)
        return None

    def access_as_el2(self, address: int, value: int | None) -> tuple[int, int] | FaultRecord:
        """A doubleword load, or a store of ``value``, as EL2 makes it: NVMem().

        Return what was loaded or stored, and its physical address; or the fault. The access is
        little-endian, as SCTLR_EL2.EE is 0 in all software that the engine runs.
        """
        write = value is not None
        context = context_at(self._pe, EL2)
        access = acc_desc_gpr(EL2, read=not write, write=write)
        result = full_translate(context, address, access, self._memory)
        if isinstance(result, FaultRecord):
            return result
        if value is not None:
            if self._memory.write(result.paddress, struct.pack("<Q", value), result.paspace):
                return value, result.paddress
        else:
            data = self._memory.read(result.paddress, 8, result.paspace)
            if data is not None:
                return int.from_bytes(data, "little"), result.paddress
        return FaultRecord(Fault.SyncExternal, 0, write=write)
