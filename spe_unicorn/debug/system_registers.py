"""The System registers of a PE as people and debuggers read and write them, devices' among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers.aarch32_id import AARCH32_ID_REGISTERS
from spe_unicorn.arch.registers.caches import CSSELR_EL1
from spe_unicorn.arch.registers.identity import IDENTITY_REGISTERS, SHOWN_TO_EL1
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.rules.effective import el2_enabled
from spe_unicorn.devices.gicv3.registers import (
    ICC_ASGI1R_EL1,
    ICC_DIR_EL1,
    ICC_EOIR0_EL1,
    ICC_EOIR1_EL1,
    ICC_IAR0_EL1,
    ICC_IAR1_EL1,
    ICC_SGI0R_EL1,
    ICC_SGI1R_EL1,
)
from spe_unicorn.devices.gicv3.virtual_registers import (
    ICV_DIR_EL1,
    ICV_EOIR0_EL1,
    ICV_EOIR1_EL1,
    ICV_IAR0_EL1,
    ICV_IAR1_EL1,
)
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import DeviceRegister
from spe_unicorn.machine.pe import ProcessingElement

_ACTS = frozenset(
    {
        ICC_IAR0_EL1,
        ICC_IAR1_EL1,
        ICC_EOIR0_EL1,
        ICC_EOIR1_EL1,
        ICC_DIR_EL1,
        ICC_SGI0R_EL1,
        ICC_SGI1R_EL1,
        ICC_ASGI1R_EL1,
        ICV_IAR0_EL1,
        ICV_IAR1_EL1,
        ICV_EOIR0_EL1,
        ICV_EOIR1_EL1,
        ICV_DIR_EL1,
    }
)
"""Registers that hold nothing: a read or a write of one is an act."""


_IDENTITY: Final[tuple[type[SysReg], ...]] = (
    *IDENTITY_REGISTERS,
    CSSELR_EL1,
    *AARCH32_ID_REGISTERS,
)


class IdentityRegister:
    """A register that guests reach without Python.

    It says which PE this is, or what AArch32 state would have, or it is CSSELR_EL1.
    """

    def __init__(self, cpu: UnicornCPU, register: type[SysReg]) -> None:
        self._cpu = cpu
        self._register = register

    def read(self) -> int:
        """What an MRS at the PE's Exception level gives if it does not trap."""
        cpu, register = self._cpu, self._register
        if register in SHOWN_TO_EL1:
            if cpu.el >= EL2 or not el2_enabled(cpu):
                return cpu.hooks.accesses.cell(register.encoding)
            register = SHOWN_TO_EL1[register]
        return cpu.engine.system(register.encoding)

    def write(self, value: int) -> None:
        """Write the bits that a direct write can change."""
        mask, encoding = self._register.writable_mask(self._cpu.features), self._register.encoding
        kept = self._cpu.engine.system(encoding) & ~mask
        self._cpu.engine.set_system(encoding, kept | value & mask)


class SystemRegisters:
    """The System registers of one PE. A write takes effect before the PE's next operation."""

    def __init__(self, pe: ProcessingElement) -> None:
        self._pe = pe
        devices: dict[type[SysReg], DeviceRegister] = dict(pe.device_registers)
        devices |= {r: IdentityRegister(pe.cpu, r) for r in _IDENTITY}
        self._devices: Mapping[type[SysReg], DeviceRegister] = {
            register: device
            for register, device in devices.items()
            if register not in _ACTS and register.implemented(pe.cpu.features)
        }

    def __iter__(self) -> Iterator[type[SysReg]]:
        """The registers of the core that hold something, devices' among them."""
        yield from self._pe.cpu.registers
        yield from (r for r in self._devices if r not in self._pe.cpu.registers)

    def raw(self, register: type[SysReg]) -> int:
        """The 64 bits that an MRS at the PE's Exception level would read if it did not trap."""
        if register in self._devices:
            return self._devices[register].read()
        return self._pe.cpu.registers.raw(register)

    def write(self, register: type[SysReg], value: int) -> None:
        """A direct write: only the writable bits change."""
        if register in self._devices:
            self._devices[register].write(value)
        else:
            self._pe.cpu.registers.write(register, value)
        self._pe.resync()
