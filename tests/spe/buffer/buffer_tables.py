"""Translation tables of any granule, made entry by entry, for the Profiling Buffer's tests."""

from __future__ import annotations

from spe_unicorn.arch.features import Features, ImpDef
from spe_unicorn.arch.registers.id import ID_AA64MMFR0_EL1, ID_AA64MMFR1_EL1
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1, PMBPTR_EL1, PMSCR_EL1, PMSCR_EL2
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MAIR_EL1,
    MAIR_EL2,
    MDCR_EL2,
    SCTLR_EL1,
    SCTLR_EL2,
    TCR_EL1,
    TCR_EL2,
    TTBR0_EL1,
    TTBR0_EL2,
    VTCR_EL2,
    VTTBR_EL2,
)
from tests.spe.bench import Bench
from tests.support.fakes import WITH_EL2, FakeMemory

IA_BITS = 48
OA_BITS = 40
PS_40 = 2
MAIR = 0xFF00
"""Attribute 0 Device-nGnRnE, 1 Normal."""
TG0 = {12: 0, 14: 2, 16: 1}
START = {12: 0, 14: 0, 16: 1}
"""The start level of stage 1 for 48-bit addresses, by granule."""
START2 = {12: 1, 14: 1, 16: 2}
"""That of stage 2 for 39-bit addresses."""
SL0 = {12: 1, 14: 2, 16: 1}
IPA_BITS = 39

TABLE = 3
PAGE = 3 | 1 << 10 | 1 << 2
"""A page: valid, accessed, attribute 1, writable."""
PAGE2 = 3 | 1 << 10 | 0xF << 2 | 3 << 6
"""The same at stage 2: Normal, readable and writable."""
ACCESSED = 1 << 10
READ_ONLY = 1 << 7
WRITABLE2 = 1 << 7
READABLE2 = 1 << 6
DBM = 1 << 51
AP_TABLE_READ_ONLY = 1 << 62

TABLES = 0x80_0000_0000
TABLES2 = 0x90_0000_0000
NOWHERE = 0xA0_0000_0000
"""An address that aborts, where a test says so."""
FRAME = 0x40_0000_0000
"""Where pages go unless a test says otherwise."""


class Tables:
    """One stage's tables, in memory; each takes 64 KiB, the largest granule."""

    def __init__(
        self, memory: FakeMemory, granule: int, start: int, root: int, free: int | None = None
    ) -> None:
        self.granule = granule
        self.start = start
        self.root = root
        self._memory = memory
        self._free = root + 0x1_0000 if free is None else free
        self._made: dict[int, int] = {}
        """The table that an entry points to, by the entry's address."""

    def size(self, level: int) -> int:
        """How many bytes an entry of a level spans."""
        return 1 << (3 - level) * (self.granule - 3) + self.granule

    def entry(self, address: int, level: int) -> int:
        """Where the entry of ``level`` for ``address`` lies; tables above it are made."""
        table = self.root
        for above in range(self.start, level):
            place = self._place(table, address, above)
            if place not in self._made:
                self._made[place] = self._free
                self._free += 0x1_0000
                self.put(place, self._made[place] | TABLE)
            table = self._made[place]
        return self._place(table, address, level)

    def _place(self, table: int, address: int, level: int) -> int:
        index = address // self.size(level)
        if level > self.start:
            index %= 1 << self.granule - 3
        return table + index * 8

    def put(self, place: int, descriptor: int) -> None:
        """Store a descriptor."""
        self._memory.write(place, descriptor.to_bytes(8, "little"))

    def get(self, place: int) -> int:
        """Load a descriptor."""
        return int.from_bytes(self._memory.read(place, 8) or b"", "little")

    def map(self, address: int, descriptor: int) -> int:
        """Map the page of ``address``; where its descriptor lies."""
        place = self.entry(address, 3)
        self.put(place, descriptor)
        return place


BYTE_ALIGNED = ImpDef(align=0, max_size=6, pa_bits=44)
"""Records lie at any address, so that one can cross into another page."""


class TranslatedBench(Bench):
    """A bench whose buffer belongs to ``owner``, with stage 1 tables of a granule."""

    def __init__(
        self,
        owner: str = "EL1&0",
        granule: int = 12,
        *,
        features: Features = WITH_EL2,
        impdef: ImpDef = BYTE_ALIGNED,
    ) -> None:
        super().__init__(features, impdef=impdef)
        registers = self.registers
        registers.set_raw(ID_AA64MMFR0_EL1, PS_40 | 1 << 20)  # all three granules
        registers.set_raw(ID_AA64MMFR1_EL1, 2)  # access flag and dirty state
        self.owner = owner
        self.tables = Tables(self.memory, granule, START[granule], TABLES)
        self.tables2 = Tables(self.memory, granule, START2[granule], TABLES2)
        self.program()
        write = registers.write
        if owner == "EL1&0":
            write(TTBR0_EL1, TABLES)
            write(MAIR_EL1, MAIR)
            write(SCTLR_EL1, 1)
        else:
            host = owner == "EL2&0"
            write(HCR_EL2, HCR_EL2.of(RW=1, E2H=host, TGE=host).value)
            write(MDCR_EL2, 0)
            write(PMSCR_EL1, 0)
            write(PMSCR_EL2, PMSCR_EL2.of(E2SPE=1).value)
            write(TTBR0_EL2, TABLES)
            write(MAIR_EL2, MAIR)
            write(SCTLR_EL2, 1)
            self.pe.el = 2
        self.control()

    def control(self, *, ha: int = 0, hd: int = 0, tbi: int = 0, epd: int = 0) -> None:
        """Stage 1's TCR_ELx: 48-bit input, 40-bit output."""
        tg0 = TG0[self.tables.granule]
        if self.owner == "EL2":
            value = 16 | tg0 << 14 | PS_40 << 16 | tbi << 20 | ha << 21 | hd << 22
            self.registers.write(TCR_EL2, value)
        else:
            register = TCR_EL1 if self.owner == "EL1&0" else TCR_EL2
            fields = {"T0SZ": 16, "T1SZ": 16, "TG0": tg0, "TG1": 2, "IPS": PS_40}
            value = register.of(**fields, TBI0=tbi, HA=ha, HD=hd, EPD0=epd).value
            self.registers.write(register, value)

    def stage2(self, *, ha: int = 0, hd: int = 0, ptw: int = 0, stage1: bool = True) -> None:
        """Switch stage 2 on, and stage 1 off if so asked."""
        granule = self.tables2.granule
        write = self.registers.write
        fields = {"T0SZ": 64 - IPA_BITS, "SL0": SL0[granule], "TG0": TG0[granule], "PS": PS_40}
        write(VTCR_EL2, VTCR_EL2.of(**fields, HA=ha, HD=hd).value)
        write(VTTBR_EL2, TABLES2)
        write(HCR_EL2, HCR_EL2.of(RW=1, VM=1, PTW=ptw).value)
        write(SCTLR_EL1, int(stage1))

    def place(self, pointer: int, limit: int) -> None:
        """Where the next record goes, and where the buffer ends."""
        self.registers.write(PMBPTR_EL1, pointer)
        self.registers.write(PMBLIMITR_EL1, limit | 1)
        self.unit.reload()
