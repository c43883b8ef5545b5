"""AT instructions by the walker of ``arch``: the engine has a wrong PAR_EL1.SH for devices."""

from __future__ import annotations

from spe_unicorn.arch.memory.address_translation import AT_OPERATIONS, address_translate
from spe_unicorn.arch.memory.descriptors import FaultRecord
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import PAR_EL1, SPSR
from spe_unicorn.arch.rules.effective import el2_enabled
from spe_unicorn.host.native.state.actions import Answer
from spe_unicorn.host.pe.cpu import UnicornCPU

_LEAST: dict[int, int] = {0: EL1, 4: EL2, 6: EL3}
"""By op1, the lowest Exception level that has an AT instruction."""


def translate_address(cpu: UnicornCPU, encoding: Encoding, va: int) -> Answer:
    """Execute an AT of ``va``. What is UNDEFINED, or raises an exception, is left to the engine."""
    el = cpu.el
    if el < _LEAST[encoding.op1] or (encoding.op1 == 4 and not el2_enabled(cpu)):
        return Answer.ENGINE
    operation = AT_OPERATIONS[encoding.op1, encoding.crm, encoding.op2]
    pan = bool(cpu.pstate & SPSR.PAN.mask)
    result = address_translate(cpu, operation, va, cpu.memory, pan=pan)
    if isinstance(result, FaultRecord):
        return Answer.ENGINE
    cpu.registers.set_raw(PAR_EL1, result)
    return Answer.DONE
