"""The power key, as QEMU's: down for a tenth of a second."""

from __future__ import annotations

from spe_unicorn.devices.power_key import PowerKey
from tests.support.fakes import FakeClock

HZ = 1000


def test_it_is_down_for_a_tenth_of_a_second() -> None:
    clock, pin = FakeClock(), []
    key = PowerKey(clock, HZ, pin.append)
    assert key.next_deadline() is None
    clock.count = 50
    key.press()
    assert (pin, key.next_deadline()) == ([True], 150)
    clock.count = 149
    key.update()
    assert pin[-1] is True
    clock.count = 150
    key.update()
    assert (pin[-1], key.next_deadline()) == (False, None)


def test_a_key_that_is_down_stays_down_longer() -> None:
    clock, pin = FakeClock(), []
    key = PowerKey(clock, HZ, pin.append)
    key.press()
    clock.count = 60
    key.press()
    assert key.next_deadline() == 160


def test_its_state_comes_back() -> None:
    clock, pin = FakeClock(), []
    key = PowerKey(clock, HZ, pin.append)
    key.press()
    saved = key.save()
    clock.count = 100
    key.update()
    key.restore(saved)
    assert (pin[-1], key.next_deadline()) == (True, 100)
