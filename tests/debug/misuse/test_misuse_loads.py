from __future__ import annotations

from types import SimpleNamespace

import pytest

from spe_unicorn.debug import misuse_loads
from spe_unicorn.debug.misuse_loads import RecordsOnTheirWay
from spe_unicorn.host.native.reads import Load

BUFFER = 0x1_0000
MOVED = 0x4000_0000
"""What translation adds to an address of the buffer."""


class Loads:
    """Loads that the test makes, and what was looked out for."""

    def __init__(self):
        self.made = []
        self.looked_out = []

    def notice(self, ranges):
        self.looked_out.append(list(ranges))

    def take(self):
        made, self.made = self.made, []
        return made

    many = False

    def due(self):
        return 0

    def remove_hook(self):
        pass


class Unit:
    """A unit that has written up to its pointer. The page at ``unmapped`` does not translate."""

    def __init__(self):
        self.buffer = SimpleNamespace(pointer=SimpleNamespace(value=BUFFER))
        self.unmapped = None

    def physical(self, address):
        return None if address & ~0xFFF == self.unmapped else address + MOVED


@pytest.fixture
def unit() -> Unit:
    return Unit()


@pytest.fixture
def loads() -> Loads:
    return Loads()


@pytest.fixture
def records(unit: Unit, loads: Loads) -> RecordsOnTheirWay:
    return RecordsOnTheirWay(unit, loads, lambda: None)


def write(unit, records, member, size=64):
    unit.buffer.pointer.value += size
    records.made(bytes(size), (member,), (50,))


def load(address, size=8):
    return Load(0x8000, 1, address, size, 100)


def test_a_load_from_a_record_is_told_with_its_member(
    unit: Unit, loads: Loads, records: RecordsOnTheirWay
) -> None:
    write(unit, records, 5)
    write(unit, records, 9)
    loads.made = [load(MOVED + BUFFER + 64), load(MOVED + BUFFER + 128), load(MOVED + BUFFER - 8)]
    ((found, what),) = records.loaded(3)
    assert found.address == MOVED + BUFFER + 64
    assert "profiled operation 9; synchronized are 3" in what


def test_loads_are_looked_out_for_between_the_first_and_the_last_record(
    unit: Unit, loads: Loads, records: RecordsOnTheirWay
) -> None:
    write(unit, records, 1)
    assert loads.looked_out[-1] == [(MOVED + BUFFER, MOVED + BUFFER + 64)]
    write(unit, records, 2)
    assert loads.looked_out[-1] == [(MOVED + BUFFER, MOVED + BUFFER + 128)]
    records.are_written(1)
    assert loads.looked_out[-1] == [(MOVED + BUFFER + 64, MOVED + BUFFER + 128)]
    records.are_written(2)
    assert loads.looked_out[-1] == []
    assert not records.pending


def test_a_record_that_crosses_a_page_is_looked_for_where_it_translates(
    unit: Unit, loads: Loads, records: RecordsOnTheirWay
) -> None:
    unit.buffer.pointer.value = BUFFER + 0x1000 - 16
    unit.unmapped = BUFFER + 0x1000
    write(unit, records, 1)
    assert loads.looked_out[-1] == [(MOVED + BUFFER + 0x1000 - 16, MOVED + BUFFER + 0x1000)]


def test_a_dsb_that_orders_nothing_new_looks_nothing_up(
    unit: Unit, loads: Loads, records: RecordsOnTheirWay
) -> None:
    write(unit, records, 7)
    before = len(loads.looked_out)
    records.are_written(6)
    assert len(loads.looked_out) == before


def test_what_is_looked_out_for_is_one_range_however_many_records_there_are(
    unit: Unit, loads: Loads, records: RecordsOnTheirWay
) -> None:
    for member in range(1, 1001):
        write(unit, records, member)
    assert {len(ranges) for ranges in loads.looked_out} == {1}


def test_a_guest_without_a_dsb_does_not_grow_its_host(
    unit: Unit, loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(misuse_loads, "_MOST", 4)
    records = RecordsOnTheirWay(unit, loads, lambda: None)
    for member in range(1, 7):
        write(unit, records, member)
    loads.made = [load(MOVED + BUFFER + 64), load(MOVED + BUFFER + 2 * 64)]
    assert [what.split(";")[0][-1] for _, what in records.loaded(0)] == ["3"]


def test_after_a_reset_nothing_is_looked_out_for(
    unit: Unit, loads: Loads, records: RecordsOnTheirWay
) -> None:
    write(unit, records, 1)
    records.forget()
    assert loads.looked_out[-1] == []
    assert not records.pending
