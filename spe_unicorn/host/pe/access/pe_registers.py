"""System registers of the PE itself that are worked out when they are read."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import ISR_EL1, RNDR, RNDRRS
from spe_unicorn.host.engine.engine import NZCV
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.interrupts import Interrupts


class _ReadOnly:
    """A register that no accessor lets anybody write."""

    def write(self, value: int) -> None:
        """Raise LookupError: no rule allows a write."""
        raise LookupError("a read-only register cannot be written")


@dataclass(frozen=True)
class InterruptStatus(_ReadOnly):
    """ISR_EL1."""

    interrupts: Interrupts

    def read(self) -> int:
        """What an MRS gives."""
        return self.interrupts.status.value


@dataclass(frozen=True)
class RandomNumber(_ReadOnly):
    """RNDR or RNDRRS: a number from the seed, and never a failure."""

    cpu: UnicornCPU

    def read(self) -> int:
        """The next random number; PSTATE.NZCV says that it is one."""
        self.cpu.engine.put(NZCV, 0)
        return self.cpu.random_number()


def registers(
    cpu: UnicornCPU, interrupts: Interrupts
) -> dict[type[SysReg], InterruptStatus | RandomNumber]:
    """Each such register of a PE."""
    number = RandomNumber(cpu)
    return {ISR_EL1: InterruptStatus(interrupts), RNDR: number, RNDRRS: number}
