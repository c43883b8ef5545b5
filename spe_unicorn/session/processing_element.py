"""One PE, read and written from Python while the machine stands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

from spe_unicorn.arch.registers.by_name import Registers
from spe_unicorn.arch.registers.system import SPSR_EL1
from spe_unicorn.debug.system_registers import SystemRegisters
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement
from spe_unicorn.session.memory import VirtualMemory
from spe_unicorn.session.record_set import Functions
from spe_unicorn.session.records import Records
from spe_unicorn.spe.sampler import Statistics


class Numbered:
    """Registers by number: ``pe.x[0]``, ``pe.x[0] = 1``."""

    def __init__(
        self,
        name: str,
        count: int,
        bits: int,
        read: Callable[[int], int],
        write: Callable[[int, int], None],
    ) -> None:
        self._name = name
        self._count = count
        self._bits = bits
        self._read = read
        self._write = write

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> int:
        return self._read(self._checked(number))

    def __setitem__(self, number: int, value: int) -> None:
        number = self._checked(number)
        self._write(number, _fitting(f"{self._name}{number}", self._bits, value))

    def __iter__(self) -> Iterator[int]:
        return (self._read(number) for number in range(self._count))

    def __repr__(self) -> str:
        return repr({f"{self._name}{number}": hex(value) for number, value in enumerate(self)})

    def _checked(self, index: object) -> int:
        try:
            number = operator.index(index)  # type: ignore[arg-type]
        except TypeError:
            said = f"{self._name} is indexed by a register's number, got {index!r}"
            raise TypeError(said) from None
        if not 0 <= number < self._count:
            last = f"{self._name}{self._count - 1}"
            raise IndexError(f"no register {self._name}{number}: they end with {last}")
        return number


def _fitting(name: str, bits: int, value: object) -> int:
    """A value for a register. Raises TypeError and ValueError for what it does not take."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} takes a whole number, got {value!r}") from None
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{name} takes {bits} bits, got {number:#x}")
    return number


class PE:
    """One PE of a machine. A write takes effect before the PE's next operation."""

    def __init__(self, board: Board, pe: ProcessingElement, functions: Functions) -> None:
        self._pe = pe
        engine = pe.cpu.engine
        self.number = pe.number
        """The number of the PE, from 0 up, which is Aff0 of its MPIDR_EL1."""
        self.x = Numbered("x", 31, 64, engine.x, engine.set_x)
        """X0 to X30."""
        self.v = Numbered("v", 32, 128, engine.vector, engine.set_vector)
        """V0 to V31: the low 128 bits of SVE's Z0 to Z31."""
        self.registers = Registers(SystemRegisters(pe))
        """System registers by name and field: ``pe.registers.PMSCR_EL1.E1SPE = 1``."""
        self.memory = VirtualMemory(board, pe)
        """Memory by virtual address, as this PE translates it now."""
        self.records = Records(functions)
        """The records of its SPE, in order."""
        self._held: object = None

    def hold(self, engine: object) -> None:
        """Keep the engine of a closed machine, so that registers can be read."""
        self._held = engine

    def __repr__(self) -> str:
        return f"<PE {self.number}: EL{self.el} at {self.pc:#x}, {self.operations} operations>"

    @property
    def pc(self) -> int:
        """The address of the next operation."""
        return self._pe.cpu.pc

    @pc.setter
    def pc(self, address: int) -> None:
        self._pe.cpu.pc = _fitting("pc", 64, address)
        self._pe.s.asleep = False
        self._pe.resync()

    @property
    def sp(self) -> int:
        """The current stack pointer: SP_EL0 or SP_ELx."""
        return self._pe.cpu.engine.get(SP)

    @sp.setter
    def sp(self, address: int) -> None:
        self._pe.cpu.engine.put(SP, _fitting("sp", 64, address))

    @property
    def pstate(self) -> SPSR_EL1:
        """PSTATE in the layout of SPSR_EL1: ``pe.pstate.I``, ``pe.pstate.NZCV`` and so on."""
        return SPSR_EL1(self._pe.cpu.pstate)

    @pstate.setter
    def pstate(self, value: SPSR_EL1 | int) -> None:
        self._pe.cpu.set_pstate(int(SPSR_EL1(int(value)).value))
        self._pe.resync()

    @property
    def el(self) -> int:
        """The Exception level, 0 to 3."""
        return self._pe.cpu.el

    @property
    def on(self) -> bool:
        """Whether the PE is on (PSCI). One that waits for an interrupt is on."""
        return self._pe.s.on

    @property
    def operations(self) -> int:
        """Operations that it has executed since reset."""
        return self._pe.cpu.executed

    @property
    def cycles(self) -> int:
        """The PE's time in cycles: one for each operation, and the cycles in which it slept."""
        return self._pe.cpu.cycles

    @property
    def statistics(self) -> Statistics:
        """The statistics of its sampling so far."""
        return self._pe.unit.statistics

    @property
    def pmu_events(self) -> Mapping[int, int]:
        """Counts of PMU events of sampling, by the events' numbers."""
        return self._pe.events.counts
