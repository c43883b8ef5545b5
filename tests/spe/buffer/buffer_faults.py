"""Ways to spoil a translation, and what a buffer event must leave behind."""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.arch.registers.spe import (
    PMBPTR_EL1,
    PMBSR_EL1,
)
from tests.spe.bench import Bench
from tests.spe.buffer.buffer_tables import (
    ACCESSED,
    AP_TABLE_READ_ONLY,
    READ_ONLY,
    START,
    START2,
    TABLE,
    WRITABLE2,
    Tables,
    TranslatedBench,
)
from tests.support.fakes import alu

OWNERS = ("EL1&0", "EL2", "EL2&0")
GRANULES = (12, 14, 16)
STAGE1, STAGE2 = 0x24, 0x25
BEYOND = 1 << 41
"""An output address of more than 40 bits."""

Spoil = Callable[[TranslatedBench, Tables, int], None]
"""Makes the translation of an address fail, where it was good before."""


def invalid(level: int) -> Spoil:
    return lambda bench, tables, address: tables.put(tables.entry(address, level), 0)


def table_beyond(level: int) -> Spoil:
    return lambda bench, tables, address: tables.put(tables.entry(address, level), BEYOND | TABLE)


def aborting(level: int) -> Spoil:
    """The descriptor of ``level`` cannot be fetched."""

    def spoil(bench: TranslatedBench, tables: Tables, address: int) -> None:
        place = tables.entry(address, level)
        bench.memory.aborting |= {*range(place, place + 8)}

    return spoil


def page(change: Callable[[int], int]) -> Spoil:
    def spoil(bench: TranslatedBench, tables: Tables, address: int) -> None:
        place = tables.entry(address, 3)
        tables.put(place, change(tables.get(place)))

    return spoil


def read_only_by_table(bench: TranslatedBench, tables: Tables, address: int) -> None:
    place = tables.entry(address, 2)
    tables.put(place, tables.get(place) | AP_TABLE_READ_ONLY)


def stage1_faults(granule: int) -> list[tuple[Spoil, int]]:
    """Each with its FSC."""
    levels = range(START[granule], 4)
    return [
        *((invalid(level), 0x04 + level) for level in levels),
        *((table_beyond(level), 0x00 + level) for level in levels if level < 3),
        *((aborting(level), 0x14 + level) for level in levels),
        (page(lambda d: d | BEYOND), 0x03),
        (page(lambda d: d & ~ACCESSED), 0x0B),
        (page(lambda d: d | READ_ONLY), 0x0F),
        (read_only_by_table, 0x0F),
    ]


def stage2_faults(granule: int) -> list[tuple[Spoil, int]]:
    levels = range(START2[granule], 4)
    return [
        *((invalid(level), 0x04 + level) for level in levels),
        *((table_beyond(level), 0x00 + level) for level in levels if level < 3),
        *((aborting(level), 0x14 + level) for level in levels),
        (page(lambda d: d | BEYOND), 0x03),
        (page(lambda d: d & ~ACCESSED), 0x0B),
        (page(lambda d: d & ~WRITABLE2), 0x0F),
    ]


def cases(faults: Callable[[int], list[tuple[Spoil, int]]]) -> list[tuple[int, int]]:
    """Granule and number of each fault."""
    return [(g, n) for g in GRANULES for n in range(len(faults(g)))]


def expect_event(bench: Bench, ec: int, fsc: int, pointer: int, *, lost: bool = False) -> None:
    assert bench.pmbsr() == PMBSR_EL1.of(S=1, EC=ec, MSS=fsc, DL=int(lost))
    assert bench.registers.raw(PMBPTR_EL1) == pointer
    assert bench.line.levels[-1] is True
    assert not bench.unit.enabled


def service(bench: TranslatedBench, pointer: int) -> None:
    """What a driver does after an event: put the mapping right, clear S, go on."""
    bench.registers.write(PMBPTR_EL1, pointer)
    bench.registers.write(PMBSR_EL1, 0)
    bench.unit.reload()
    bench.sample(alu(el=bench.pe.el))


def sampled(bench: TranslatedBench) -> None:
    bench.sample(alu(el=bench.pe.el))
