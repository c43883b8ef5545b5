"""The source of random numbers against Virtio 1.2, 5.4: device 4, one queue, no features."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.devices.virtio.entropy import Entropy
from tests.devices.virtio.bench import BUFFERS, WRITE, Driver


class Numbers(RandomStream):
    """1, 2, 3 and so on."""

    def __init__(self) -> None:
        super().__init__(0)
        self.drawn = 0

    def bits64(self) -> int:
        self.drawn += 1
        return self.drawn


def test_it_says_what_it_is() -> None:
    driver = Driver(Entropy(Numbers()), set_up=False)
    assert driver[8] == 4
    assert driver[0x10] == 0
    ready = []
    for number in range(2):
        driver[0x30] = number
        ready.append(driver[0x34] > 0)
    assert ready == [True, False]
    assert driver[0x100] == 0  # 5.4.4: it has no configuration space


@pytest.mark.parametrize(
    ("size", "given", "drawn"),
    [(1, 1, 1), (7, 7, 1), (8, 8, 1), (9, 9, 2), (16, 16, 2), (4096, 4096, 512), (4097, 4096, 512)],
)
def test_a_request_takes_no_more_numbers_than_it_needs(size: int, given: int, drawn: int) -> None:
    numbers = Numbers()
    driver = Driver(Entropy(numbers))
    driver.ram.write(BUFFERS, b"\xff" * (size + 1))
    driver.describe((BUFFERS, size, WRITE))
    driver.send()
    driver.later()
    assert driver.used == (1, 0, given)
    assert numbers.drawn == drawn
    expected = b"".join(n.to_bytes(8, "little") for n in range(1, drawn + 1))[:given]
    assert driver.ram.read(BUFFERS, size + 1) == expected + b"\xff" * (size + 1 - given)
