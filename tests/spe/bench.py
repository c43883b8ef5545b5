"""A unit with everything around it, for the tests of the whole."""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.operation import Operation, Timing
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSIRR_EL1,
)
from spe_unicorn.arch.registers.system import (
    MDCR_EL2,
    MDCR_EL3,
    SCR_EL3,
)
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.record import PlacedRecord, decode_stream
from spe_unicorn.spe.sampler import SampledCore
from spe_unicorn.spe.unit import Lines, StatisticalProfilingUnit
from tests.support.fakes import (
    EL1_ONLY,
    FakeEvents,
    FakeLine,
    FakeMemory,
    alu,
    spe_pe,
)

BUFFER = 0x10000
LIMIT = 0x20000
SMALL = ImpDef(max_size=6, pa_bits=44)
"""A core whose largest record is 64 bytes, so that the examples' sums come out."""


class FixedModel:
    """Gives every operation the same timing."""

    def __init__(self, timing: Timing) -> None:
        self.answer = timing

    def timing(self, operation: Operation, did: int | None = None) -> Timing:
        return self.answer


class Bench:
    """A unit with everything around it. One operation takes one cycle."""

    def __init__(
        self,
        features: Features = EL1_ONLY,
        *,
        impdef: ImpDef = SMALL,
        timing: Timing | None = None,
        seed: int = 0,
    ) -> None:
        self.pe = spe_pe(features, impdef=impdef)
        self.registers = self.pe.registers
        self.memory = FakeMemory()
        self.line = FakeLine()
        self.events = FakeEvents()
        self.now = 0
        self.unit = StatisticalProfilingUnit(
            self.pe,
            self.memory,
            SampledCore(
                ConstantModel() if timing is None else FixedModel(timing), events=self.events
            ),
            RandomSource(seed).stream("sample interval"),
            lambda: self.now,
            Lines(pmbirq=self.line),
        )
        self.reported: list[tuple[ManagementEvent, int]] = []
        self.unit.managed.connect(lambda event, el: self.reported.append((event, el)))
        self.seen: list[bytes] = []
        self.see_no_records = self.unit.recorded.connect(
            lambda record, operation: self.seen.append(record)
        )

    def program(self, **pmscr: int) -> None:
        """What a driver writes before it enables: an empty buffer, interval 1."""
        write = self.registers.write
        if Feature.FEAT_EL3 in self.pe.features:
            write(SCR_EL3, SCR_EL3.of(NS=1).value)
            write(MDCR_EL3, self.registers.read(MDCR_EL3).replace(NSPB=0b11).value)
        if Feature.FEAT_EL2 in self.pe.features:
            write(MDCR_EL2, MDCR_EL2.of(E2PB=0b11).value)
        write(PMBPTR_EL1, BUFFER)
        write(PMBLIMITR_EL1, LIMIT | 1)
        write(PMSIRR_EL1, 1 << 8)
        write(PMSCR_EL1, PMSCR_EL1.of(E0SPE=1, E1SPE=1, **pmscr).value)
        self.unit.refresh()

    def run(self, operation: Operation, members: int | None = None) -> bool:
        """Let members go by, up to the next selection unless said otherwise."""
        count = self.unit.until_hit() if members is None else members
        self.now += count
        if not self.unit.advance(count):
            return False
        self.unit.complete(operation)
        return True

    def sample(self, operation: Operation | None = None) -> None:
        """One operation is sampled and done; any earlier one has completed long ago."""
        self.now += 100_000
        assert self.run(operation or alu())

    def pmbsr(self) -> PMBSR_EL1:
        return self.registers.read(PMBSR_EL1)

    def records(self) -> list[PlacedRecord]:
        """What the guest finds between the buffer's start and its pointer."""
        end = self.registers.raw(PMBPTR_EL1)
        found = list(decode_stream(self.memory.read(BUFFER, end - BUFFER) or b""))
        assert all(isinstance(record, PlacedRecord) for record in found)
        return [record for record in found if isinstance(record, PlacedRecord)]
