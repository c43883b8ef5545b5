"""What lower rooms need of the world around them, as Protocols that upper rooms implement."""

from __future__ import annotations

from typing import Protocol

from spe_unicorn.arch.operation import Instruction, Operation, Timing
from spe_unicorn.arch.spaces import PASpace


class PhysicalMemory(Protocol):
    """The physical address spaces, as the table walker and the Profiling Buffer see them."""

    def read(self, address: int, size: int, space: PASpace) -> bytes | None:
        """``size`` bytes at an address of a physical address space, None for an external abort."""
        ...

    def write(self, address: int, data: bytes, space: PASpace) -> bool:
        """Store ``data`` at an address of such a space; False for an external abort."""
        ...


class IRQLine(Protocol):
    """A level-sensitive interrupt line, such as PMBIRQ."""

    def set_level(self, level: bool) -> None:
        """Drive the line: True asserts it."""
        ...


class Clock(Protocol):
    """The system counter, derived from executed operations and never from the wall clock."""

    def physical_count(self) -> int:
        """CNTPCT_EL0, without any offset."""
        ...


class EventSink(Protocol):
    """The junction through which PMU events pass; a PMU counts there when there is one."""

    def event(self, number: int, count: int = 1) -> None:
        """PMU event ``number`` (Arm ARM D14.3) happened ``count`` times."""
        ...

    def events(self, numbers: tuple[int, ...], count: int = 1) -> None:
        """Each of these events happened ``count`` times, all by the same operations."""
        ...


class CoreModel(Protocol):
    """What a core's pipeline, caches, TLBs and predictors make of an operation."""

    def timing(self, operation: Operation, did: int | None = None) -> Timing:
        """Latencies in cycles, the events that depend on the model, and the data source.

        ``did`` is what the model once noted that the operation did. None: it has just been
        executed, and the model is to look. Beside ``did`` they depend on the instruction alone, and
        on whether the operation has an address and is misaligned.
        """
        ...


class Cracker(Protocol):
    """What members of a population instructions are, where that is not one each."""

    def parts(self, instruction: Instruction, /) -> tuple[Instruction, ...]:
        """The members that an instruction is, in their order; there may be none."""
        ...
