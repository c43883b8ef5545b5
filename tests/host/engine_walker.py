"""The engine's own table walker, as an oracle.

There are two ways to it. The public one, ``uc_vmem_translate``, translates for the current
Exception level and says only whether that worked. The internal one tells all about a fault, for
any regime; it is exported by some builds of the library only, and its arguments are those of the
QEMU release inside (5.0). Nothing but tests may use it.
"""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass
from enum import IntEnum

from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc
from unicorn import arm64_const as regs
from unicorn.arm64_const import UC_CPU_ARM64_MAX
from unicorn.unicorn_const import (
    UC_CTL_IO_WRITE,
    UC_CTL_TLB_FLUSH,
    UC_PROT_EXEC,
    UC_PROT_READ,
    UC_PROT_WRITE,
)
from unicorn.unicorn_py3.unicorn import uclib

from spe_unicorn.arch.memory.descriptors import Fault
from spe_unicorn.arch.registers.sysreg import SysReg

_INTERNAL = "get_phys_addr_aarch64"
HAS_INTERNAL = hasattr(uclib, _INTERNAL)

READ, WRITE, FETCH = range(3)
"""Access types, as the internal function numbers them."""
_PROT = (UC_PROT_READ, UC_PROT_WRITE, UC_PROT_EXEC)

_FAULTS = {
    1: Fault.AccessFlag,
    5: Fault.Permission,
    6: Fault.Translation,
    7: Fault.AddressSize,
    9: Fault.SyncExternalOnWalk,
}
_BYTES_BEFORE_X0 = 64
"""The CPU state begins with the 16 registers of AArch32."""


class MMUIndex(IntEnum):
    """The engine's names for a regime seen from an Exception level."""

    E10_0 = 0x10
    E20_0 = 0x11
    E10_1 = 0x12
    E10_1_PAN = 0x13
    E2 = 0x14
    E20_2 = 0x15
    E20_2_PAN = 0x16
    SE10_0 = 0x17
    SE10_1 = 0x18
    SE10_1_PAN = 0x19
    SE3 = 0x1A


@dataclass(frozen=True)
class EngineAnswer:
    """What the internal walker says; ``fault`` is None for a success."""

    fault: Fault | None
    level: int
    stage2: bool
    s1ptw: bool
    ipa: int
    paddress: int
    secure: bool
    page_size: int
    attr: int


class _FaultInfo(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("s2addr", ctypes.c_uint64),
        ("level", ctypes.c_int),
        ("domain", ctypes.c_int),
        ("stage2", ctypes.c_bool),
        ("s1ptw", ctypes.c_bool),
        ("s1ns", ctypes.c_bool),
        ("ea", ctypes.c_bool),
    ]


class EngineWalker:
    """An engine with some memory for tables."""

    def __init__(self, ram: int, size: int) -> None:
        self.uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(UC_CPU_ARM64_MAX)
        self.uc.mem_map(ram, size)
        self._env: int | None = None

    def set(self, register: type[SysReg], value: int) -> None:
        """Write a System register."""
        e = register.encoding
        self.uc.reg_write(regs.UC_ARM64_REG_CP_REG, (e.crn, e.crm, e.op0, e.op1, e.op2, value))

    def set_pstate(self, pstate: int) -> None:
        """Change PSTATE; the next :meth:`set` makes the engine notice."""
        self.uc.reg_write(regs.UC_ARM64_REG_PSTATE, pstate)

    def put(self, address: int, descriptor: int, big_endian: bool) -> None:
        """Write a descriptor."""
        self.uc.mem_write(address, descriptor.to_bytes(8, "big" if big_endian else "little"))

    def translate(self, va: int, access: int) -> int | None:
        """``uc_vmem_translate``: the address, None for a fault of any kind."""
        self.uc.ctl(UC_CTL_TLB_FLUSH, UC_CTL_IO_WRITE)
        result = ctypes.c_uint64()
        function = uclib.uc_vmem_translate
        function.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p]
        failed = function(self._handle, va, _PROT[access], ctypes.byref(result))
        return None if failed else result.value

    def walk(self, va: int, access: int, index: MMUIndex) -> EngineAnswer:
        """The internal walker's answer."""
        if self._env is None:
            self._env = self._find_cpu_state()
        address, attributes = ctypes.c_uint64(), (ctypes.c_uint32 * 4)()
        prot, page_size = ctypes.c_int(), ctypes.c_uint64()
        info, cache = _FaultInfo(), (ctypes.c_uint32 * 4)()
        function = getattr(uclib, _INTERNAL)
        function.restype = ctypes.c_bool
        function.argtypes = [
            ctypes.c_void_p,
            ctypes.c_uint64,
            ctypes.c_int,
            ctypes.c_int,
            *[ctypes.c_void_p] * 6,
        ]
        failed = function(
            self._env,
            va,
            access,
            index,
            ctypes.byref(address),
            attributes,
            ctypes.byref(prot),
            ctypes.byref(page_size),
            ctypes.byref(info),
            cache,
        )
        return EngineAnswer(
            fault=_FAULTS[info.type] if failed else None,
            level=info.level,
            stage2=info.stage2,
            s1ptw=info.s1ptw,
            ipa=info.s2addr,
            paddress=address.value,
            secure=bool(attributes[0] & 2),
            page_size=page_size.value,
            attr=cache[0] & 0xFF,
        )

    @property
    def _handle(self) -> int:
        handle = self.uc._uch
        return handle.value if hasattr(handle, "value") else handle

    def _find_cpu_state(self) -> int:
        """Where the engine keeps the CPU: after a pointer in the handle, known by its X0 to X7.

        Read through /proc, where a wrong pointer is an error and not a crash.
        """
        marks = [0x5EED_0000_0000_0001 * (n + 1) & (1 << 64) - 1 for n in range(8)]
        for n, mark in enumerate(marks):
            self.uc.reg_write(regs.UC_ARM64_REG_X0 + n, mark)
        wanted = struct.pack("<8Q", *marks)
        memory = os.open("/proc/self/mem", os.O_RDONLY)
        try:
            for (pointer,) in struct.iter_unpack("<Q", os.pread(memory, 8192, self._handle)):
                if not 0x1_0000 < pointer < 1 << 47:
                    continue
                try:
                    at = os.pread(memory, 0x1_0000, pointer).find(wanted)
                except OSError:
                    continue
                if at >= 0:
                    return pointer + at - _BYTES_BEFORE_X0
        finally:
            os.close(memory)
        raise LookupError("the engine's CPU state was not found")
