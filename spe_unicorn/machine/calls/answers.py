"""HVC and SMC as the machine's own firmware answers them, at the PE that makes the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spe_unicorn.host.native.state.ledger import not_retired
from spe_unicorn.host.pe.stops import HVC
from spe_unicorn.host.ports import Ending, EngineException
from spe_unicorn.machine.calls.psci import (
    CPUOff,
    CPUOn,
    CPUSuspend,
    PowerState,
    Status,
    SystemAction,
)
from spe_unicorn.machine.calls.smccc import Registers, firmware_call
from spe_unicorn.machine.pe import ProcessingElement


def answer_call(
    pe: ProcessingElement,
    exception: EngineException,
    conduit: str | None,
    pes: Sequence[ProcessingElement],
    random: Callable[[], int],
) -> bool | CPUOn | SystemAction:
    """Answer an HVC or SMC as firmware, if the guest calls it by ``conduit``, ``hvc`` or ``smc``.

    Return True once this PE has all of its answer, and False where the call is not for us: then
    the guest has code at the Exception level that it leads to. Return the CPUOn or SystemAction
    that the machine has to carry out where the call concerns more than this PE.

    An SMC where the conduit is HVC is UNDEFINED, as on a machine without EL3.
    """
    engine = pe.cpu.engine
    called_by = "hvc" if exception.number == HVC else "smc"
    if called_by != conduit:
        if conduit != "hvc":
            return False
        pe.cpu.pc = pe.cpu.pc - 4
        not_retired(pe.cpu.state)
        pe.handler.exceptions.undefined()
        return True
    states = {p.number: PowerState.ON if p.s.on else PowerState.OFF for p in pes}
    arguments = [engine.x(n) for n in (1, 2, 3)]
    answer = firmware_call(engine.x(0), arguments, states, random)
    if isinstance(answer, int):
        engine.set_x(0, answer)
    elif isinstance(answer, Registers):
        for number, value in enumerate(answer.x):
            engine.set_x(number, value)
    elif isinstance(answer, CPUSuspend):
        engine.set_x(0, Status.SUCCESS)
        pe.handler.sleep()
    elif isinstance(answer, CPUOff):
        pe.s.on = False
        pe.handler.ending = Ending.ASLEEP
    elif isinstance(answer, CPUOn):
        engine.set_x(0, Status.SUCCESS)
        return answer
    else:
        return answer
    return True
