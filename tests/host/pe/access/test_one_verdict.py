"""A verdict about an access to a System register is asked for once."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.arch.registers.spe import PMSICR_EL1
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.devices.gicv3.registers import ICC_PMR_EL1
from spe_unicorn.host.accelerators import OPTION
from spe_unicorn.host.pe.access import system_access
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4008_0000


def words(encoding: Encoding) -> tuple[int, int, int, int, int]:
    return (encoding.op0, encoding.op1, encoding.crn, encoding.crm, encoding.op2)


@pytest.mark.parametrize("register", [PMSICR_EL1, ICC_PMR_EL1])
def test_each_access_asks_once(register: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTION, "none")  # else compiled code answers for the GIC
    asked: list[str] = []
    access = system_access.access

    def noted(pe: Any, accessor: Any, read: bool) -> Any:
        asked.append(accessor.name)
        return access(pe, accessor, read=read)

    monkeypatch.setattr(system_access, "access", noted)
    name = words(register.encoding)
    code = [a.movz(0, 0x40), a.msr(name, 0), a.mrs(1, name), a.b(0)]
    machine = Machine(image_of({CODE: a.code(code)}, CODE))
    machine.run(3)
    assert asked == [register.__name__] * 2
    assert machine.board.cpu.engine.x(1) == 0x40
