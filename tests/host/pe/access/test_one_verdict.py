"""A verdict about an access to a System register is asked for once, and the way there is short."""

from __future__ import annotations

import sys
from types import FrameType
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


def test_a_write_that_decides_nothing_is_a_short_way() -> None:
    """While nothing is sampled, PMSICR_EL1 decides nothing: the engine goes on at once.

    Half of the calls are the rules of the access, in the order of Arm's pseudocode. Before, a write
    took 220 calls in 51 files.
    """
    between = 20
    one = [a.msr(words(PMSICR_EL1.encoding), 0), *[a.NOP] * between]
    code = [a.movz(0, 0x40), *one * 30, a.b(0)]
    machine = Machine(image_of({CODE: a.code(code)}, CODE))
    machine.run(1 + 5 * len(one))
    called: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, value: object) -> None:
        if event == "call":
            called.append((frame.f_code.co_filename, frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        machine.run(20 * len(one))
    finally:
        sys.setprofile(before)
    writes = [n for n, (_, name) in enumerate(called) if name == "_set_pmsicr"]
    assert len(writes) == 20
    last = called[writes[10] : writes[11]]
    assert len(last) <= 62
    assert len({file for file, _ in last}) <= 15
    registers = machine.board.cpu.registers
    assert registers.raw(PMSICR_EL1) == 0x40
