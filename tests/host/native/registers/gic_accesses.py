"""Encodings of the GIC's CPU interface, and which of its accesses Python answers."""

from __future__ import annotations

import pytest

from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.devices.gicv3.cpu_interface import CPUInterface

PMR = (3, 0, 4, 6, 0)


def asks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The physical registers of the CPU interface that Python is asked about from now on."""
    asked: list[str] = []
    read, write = CPUInterface.read, CPUInterface.write

    def on_read(self, register):
        if register in icc.ICC_REGISTERS:
            asked.append(register.__name__)
        return read(self, register)

    def on_write(self, register, value):
        asked.append(register.__name__)
        write(self, register, value)

    monkeypatch.setattr(CPUInterface, "read", on_read)
    monkeypatch.setattr(CPUInterface, "write", on_write)
    return asked
