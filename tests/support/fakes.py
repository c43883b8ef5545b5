"""A PE, memory, interrupt lines and PMU events, made of plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from itertools import pairwise
from typing import Any

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.operation import CostClass, Family, Instruction, Operation
from spe_unicorn.arch.registers.id import ID_AA64MMFR0_EL1
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.arch.registers.system import SYSTEM_REGISTERS
from spe_unicorn.arch.spaces import PASpace

SPE = frozenset({Feature.FEAT_SPE, Feature.FEAT_SPE_ArchInst})
EL1_ONLY: Features = SPE
WITH_EL2: Features = SPE | {Feature.FEAT_EL2, Feature.FEAT_VHE}
WITH_EL3: Features = WITH_EL2 | {Feature.FEAT_EL3, Feature.FEAT_SEL2}
V1P2: Features = frozenset({Feature.FEAT_SPEv1p1, Feature.FEAT_SPEv1p2, Feature.FEAT_SPE_FnE})
V1P3: Features = V1P2 | {Feature.FEAT_SPEv1p3}
EXC: Features = V1P3 | {
    Feature.FEAT_SPEv1p4,
    Feature.FEAT_SPEv1p5,
    Feature.FEAT_SPE_CRR,
    Feature.FEAT_SPE_EXC,
    Feature.FEAT_SPE_nVM,
    Feature.FEAT_EBEP,
}

ALL_LEVELS: Features = frozenset(
    {Feature.FEAT_EL2, Feature.FEAT_EL3, Feature.FEAT_VHE, Feature.FEAT_SEL2, Feature.FEAT_NV}
)
PA_40_BITS = 2


class FakeClock:
    """A system counter that stands where a test puts it."""

    def __init__(self) -> None:
        self.count = 0

    def physical_count(self) -> int:
        """The count."""
        return self.count


class FakePE:
    """A PE at ``el`` whose registers are all zero but for those given."""

    def __init__(
        self,
        registers: Mapping[type[SysReg], int] | None = None,
        *,
        el: int = 1,
        features: Features = ALL_LEVELS,
        impdef: ImpDef | None = None,
    ) -> None:
        self.el = el
        self.pm = False
        self.halted = False
        self.sdd = False
        self.features = features
        self.impdef = impdef or ImpDef()
        self.registers = RegisterFile(features, [*SPE_REGISTERS, *SYSTEM_REGISTERS], self.impdef)
        for register, value in (registers or {}).items():
            self.registers.set_raw(register, value)


def spe_pe(features: Features = EL1_ONLY, el: int = 1, impdef: ImpDef | None = None) -> FakePE:
    """A PE with SPE and 40-bit physical addresses."""
    return FakePE({ID_AA64MMFR0_EL1: PA_40_BITS}, el=el, features=features, impdef=impdef)


class FakeMemory:
    """Memory of bytes, all zero, that answers None or False where it aborts an access.

    ``aborting`` addresses do so for all, those that are ``read_only`` for writes, those that are
    ``secure`` for accesses that are not Secure; all others if ``mapped`` says what there is.
    """

    def __init__(self, mapped: range | None = None, read_only: Collection[int] = ()) -> None:
        self.bytes: dict[int, int] = {}
        self.mapped = mapped
        self.aborting: set[int] = set()
        self.read_only: Any = read_only or set()
        self.secure: set[int] = set()
        self.size = 0 if mapped is None else len(mapped)

    @property
    def cells(self) -> Cells:
        """Its 8-byte cells by their addresses, little-endian."""
        return Cells(self.bytes)

    @cells.setter
    def cells(self, values: Mapping[int, int]) -> None:
        self.bytes.clear()
        self.cells.update(values)

    def read(self, address: int, size: int, space: PASpace = PASpace.NonSecure) -> bytes | None:
        if self._aborts(range(address, address + size), space):
            return None
        return bytes(self.bytes.get(address + i, 0) for i in range(size))

    def write(self, address: int, data: bytes, space: PASpace = PASpace.NonSecure) -> bool:
        places = range(address, address + len(data))
        if self._aborts(places, space) or any(place in self.read_only for place in places):
            return False
        self.bytes.update(zip(places, data, strict=True))
        return True

    def _aborts(self, places: range, space: PASpace) -> bool:
        if self.mapped is not None and not all(place in self.mapped for place in places):
            return True
        if space is not PASpace.Secure and not self.secure.isdisjoint(places):
            return True
        return not self.aborting.isdisjoint(places)

    def written(self) -> tuple[int, int] | None:
        """The lowest address written and the one after the highest."""
        return (min(self.bytes), max(self.bytes) + 1) if self.bytes else None


class Cells(MutableMapping[int, int]):
    """Bytes seen as 8-byte numbers, little-endian, by the addresses of those that were written."""

    def __init__(self, bytes_: dict[int, int]) -> None:
        self._bytes = bytes_

    def __getitem__(self, address: int) -> int:
        if not self._bytes.keys() & {*range(address, address + 8)}:
            raise KeyError(f"{address:#x}")
        cell = bytes(self._bytes.get(address + n, 0) for n in range(8))
        return int.from_bytes(cell, "little")

    def __setitem__(self, address: int, value: int) -> None:
        cell = value.to_bytes(8, "little")
        self._bytes.update({address + n: byte for n, byte in enumerate(cell)})

    def __delitem__(self, address: int) -> None:
        for n in range(8):
            del self._bytes[address + n]

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({address & ~7 for address in self._bytes}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class FakeLine:
    """Remembers every level that it was driven to."""

    def __init__(self) -> None:
        self.levels: list[bool] = []

    def set_level(self, level: bool) -> None:
        self.levels.append(level)

    @property
    def level(self) -> bool:
        """The level that it has; low before it was driven."""
        return bool(self.levels) and self.levels[-1]

    @property
    def rises(self) -> int:
        """How often it went from low to high."""
        return sum(b and not a for a, b in pairwise([False, *self.levels]))


class FakeEvents:
    """Counts PMU events."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def event(self, number: int, count: int = 1) -> None:
        self.counts[number] += count

    def events(self, numbers: tuple[int, ...], count: int = 1) -> None:
        for number in numbers:
            self.counts[number] += count


ALU = Instruction(0x8B010000)
LOAD = Instruction(0xF9400000, family=Family.LOAD, cost=CostClass.LOAD)
STORE = Instruction(0xF9000000, family=Family.STORE, cost=CostClass.STORE)
ATOMIC = Instruction(0xF8E00000, family=Family.ATOMIC, cost=CostClass.ATOMIC)
BRANCH = Instruction(0x54000000, family=Family.BRANCH, cost=CostClass.BRANCH, conditional=True)


def alu(pc: int = 0x400000, el: int = 1) -> Operation:
    return Operation(ALU, pc, el)


def load(pc: int = 0x400000, el: int = 1, va: int | None = 0x7000) -> Operation:
    return Operation(LOAD, pc, el, va=va, pa=va)
