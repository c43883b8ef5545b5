"""A processing element, a memory and the lines around them, for the tests of SPE."""

from __future__ import annotations

from collections import Counter

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.operation import CostClass, Family, Instruction, Operation
from spe_unicorn.arch.registers.id import ID_AA64MMFR0_EL1
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import RegisterFile
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

PA_40_BITS = 2


class FakePE:
    """A PE at an Exception level, all its registers zero."""

    def __init__(
        self, features: Features = EL1_ONLY, el: int = 1, impdef: ImpDef | None = None
    ) -> None:
        self.features = features
        self.impdef = impdef or ImpDef()
        self.registers = RegisterFile(features, [*SPE_REGISTERS, *SYSTEM_REGISTERS], self.impdef)
        self.registers.set_raw(ID_AA64MMFR0_EL1, PA_40_BITS)
        self.el = el
        self.pm = False
        self.halted = False
        self.sdd = False


class FakeMemory:
    """Physical memory of bytes; ``aborting`` addresses answer with an External abort.

    Those that are ``read_only`` do so for writes, those that are ``secure`` for Non-secure
    accesses.
    """

    def __init__(self) -> None:
        self.bytes: dict[int, int] = {}
        self.aborting: set[int] = set()
        self.read_only: set[int] = set()
        self.secure: set[int] = set()

    def read(self, address: int, size: int, space: PASpace = PASpace.NonSecure) -> bytes | None:
        if space is PASpace.NonSecure and self.secure & {*range(address, address + size)}:
            return None
        if self.aborting & {*range(address, address + size)}:
            return None
        return bytes(self.bytes.get(address + i, 0) for i in range(size))

    def write(self, address: int, data: bytes, space: PASpace = PASpace.NonSecure) -> bool:
        if space is PASpace.NonSecure and self.secure & {*range(address, address + len(data))}:
            return False
        if (self.aborting | self.read_only) & {*range(address, address + len(data))}:
            return False
        for i, byte in enumerate(data):
            self.bytes[address + i] = byte
        return True

    def written(self) -> tuple[int, int] | None:
        """The lowest address written and the one after the highest."""
        return (min(self.bytes), max(self.bytes) + 1) if self.bytes else None


class FakeLine:
    """Remembers every level that it was driven to."""

    def __init__(self) -> None:
        self.levels: list[bool] = []

    def set_level(self, level: bool) -> None:
        self.levels.append(level)


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
