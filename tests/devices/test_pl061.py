"""The PL061 against its manual (Arm DDI 0190), by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.devices.pl061 import PL061
from tests.support.fakes import FakeLine

DIR, IS, IBE, IEV, IE, RIS, MIS, IC, AFSEL = range(0x400, 0x424, 4)


class Bench:
    """A controller with its line and its outputs in sight."""

    def __init__(self) -> None:
        self.line = FakeLine()
        self.heard: list[tuple[int, bool]] = []
        self.gpio = PL061(self.line, lambda pin, level: self.heard.append((pin, level)))

    def __getitem__(self, offset: int) -> int:
        return self.gpio.read(offset, 4)

    def __setitem__(self, offset: int, value: int) -> None:
        self.gpio.write(offset, 4, value)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def data(pins: int) -> int:
    """The offset of GPIODATA for an access to these pins."""
    return pins << 2


def test_after_reset_all_pins_are_inputs_and_low(bench: Bench) -> None:
    assert [bench[offset] for offset in range(0, 0x424, 4)] == [0] * 265
    assert not bench.line.level


def test_it_says_what_it_is(bench: Bench) -> None:
    identification = [bench[0xFE0 + 4 * n] for n in range(8)]
    assert identification == [0x61, 0x10, 0x04, 0x00, 0x0D, 0xF0, 0x05, 0xB1]


def test_bits_of_the_address_choose_the_pins_of_an_access(bench: Bench) -> None:
    bench[DIR] = 0xFF
    bench[data(0xFF)] = 0xA5
    bench[data(0x0F)] = 0x3C
    assert bench[data(0xFF)] == 0xAC
    assert bench[data(0xF0)] == 0xA0
    assert bench[data(0)] == 0


def test_outputs_are_written_and_inputs_are_driven(bench: Bench) -> None:
    bench[DIR] = 0x0F
    bench[data(0xFF)] = 0xFF
    assert bench[data(0xFF)] == 0x0F
    bench.gpio.set_input(7, level=True)
    bench.gpio.set_input(0, level=True)  # an output, which shows its own level
    assert bench[data(0xFF)] == 0x8F
    bench[data(0x01)] = 0
    assert bench[data(0xFF)] == 0x8E


def test_changes_of_outputs_are_told(bench: Bench) -> None:
    bench[data(0xFF)] = 0x03  # an input keeps nothing of it
    bench[DIR] = 0x03
    bench[data(0xFF)] = 0x01
    bench[data(0xFF)] = 0x02
    bench[DIR] = 0
    assert bench.heard == [(0, True), (0, False), (1, True), (1, False)]


@pytest.mark.parametrize(
    ("event", "both", "interrupts"),
    [(0, 0, [0, 1]), (1, 0, [1, 0]), (0, 1, [1, 1]), (1, 1, [1, 1])],
)
def test_edges_are_kept_until_they_are_cleared(
    bench: Bench, event: int, both: int, interrupts: list[int]
) -> None:
    bench[IEV], bench[IBE], bench[IE] = event << 3, both << 3, 1 << 3
    found = []
    for level in (True, False):
        bench.gpio.set_input(3, level=level)
        found.append(bench[RIS] >> 3)
        assert bench.line.level == bool(found[-1])
        bench[IC] = 1 << 3
        assert bench[RIS] == 0
        assert not bench.line.level
    assert found == interrupts


@pytest.mark.parametrize("event", [0, 1])
def test_levels_interrupt_as_long_as_they_last(bench: Bench, event: int) -> None:
    bench.gpio.set_input(3, level=not event)
    bench[IS], bench[IEV], bench[IE] = 1 << 3, event << 3, 1 << 3
    assert not bench.line.level
    bench.gpio.set_input(3, level=bool(event))
    bench[IC] = 0xFF
    assert bench.line.level
    bench.gpio.set_input(3, level=not event)
    assert not bench.line.level


def test_what_is_not_enabled_is_raised_and_does_not_interrupt(bench: Bench) -> None:
    bench[IEV], bench[IE] = 0xFF, 1 << 2
    bench.gpio.set_input(3, level=True)
    assert (bench[RIS], bench[MIS], bench.line.level) == (1 << 3, 0, False)
    bench[IE] = 1 << 3
    assert (bench[RIS], bench[MIS], bench.line.level) == (1 << 3, 1 << 3, True)


def test_reset_forgets_all_but_what_drives_the_inputs(bench: Bench) -> None:
    bench.gpio.set_input(5, level=True)
    for offset in (DIR, IS, IBE, IEV, IE, AFSEL):
        bench[offset] = 0xFF
    bench.gpio.reset()
    assert [bench[offset] for offset in (DIR, IS, IBE, IEV, IE, AFSEL, RIS)] == [0] * 7
    assert bench[data(0xFF)] == 1 << 5


def test_bytes_and_other_offsets_do_no_harm(bench: Bench) -> None:
    bench.gpio.write(DIR + 1, 1, 0xFF)
    bench.gpio.write(0x800, 4, 0xFFFF_FFFF)
    bench.gpio.write(DIR, 1, 0x81)
    assert (bench[DIR], bench[0x800], bench.gpio.read(DIR, 1)) == (0x81, 0, 0x81)
