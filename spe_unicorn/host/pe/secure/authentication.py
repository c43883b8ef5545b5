"""Pointer authentication in Secure state, which the engine traps to an EL2 that is not enabled.

In Secure state the engine reads HCR_EL2 as 0, so HCR_EL2.API traps every such operation. The host
has the engine execute it in Non-secure state instead, with an EL2 that traps nothing. The result is
the same: the registers of EL1 and the keys are not banked by Security state, and the engine has one
physical address space.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3
from spe_unicorn.decode.words import ERETAA, ERETAB
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import EngineException

_MASK: Final = (1 << 64) - 1
_HCR: Final = HCR_EL2.RW.mask | HCR_EL2.API.mask | HCR_EL2.APK.mask
_TWI: Final = SCR_EL3.TWI.mask


def execute_authentication(
    cpu: UnicornCPU, word: int, execute_one: Callable[[], None]
) -> EngineException | None:
    """Execute ``word``, the operation at the PC. Return the exception that it took, if any.

    ``execute_one`` has the engine execute one operation without counting it.
    """
    engine = cpu.engine
    scr, hcr = engine.system(SCR_EL3.encoding), engine.system(HCR_EL2.encoding)
    pc, el = cpu.pc, cpu.el
    engine.set_system(SCR_EL3.encoding, scr & ~_TWI | SCR_EL3.NS.mask)
    engine.set_system(HCR_EL2.encoding, _HCR)
    engine.flush_tlb()
    execute_one()
    engine.set_system(HCR_EL2.encoding, hcr)
    engine.set_system(SCR_EL3.encoding, scr)
    engine.flush_tlb()
    cpu.forget_el()
    if cpu.state.stop == Stop.EXCEPTION:
        exception = cpu.entries.of_engine()
        syndrome = exception.record.syndrome
        if syndrome is None or syndrome.ec != EC.WFxTrap:
            return exception
        cpu.pc = pc + 4 & _MASK  # the engine ends a run by a WFI of its own
    if word in (ERETAA, ERETAB):
        cpu.returned(el)
    return None
