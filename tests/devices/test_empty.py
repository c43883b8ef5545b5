from __future__ import annotations

import pytest

from spe_unicorn.devices.empty import EmptyECAM, EmptyVirtioSlots


@pytest.mark.parametrize(
    ("offset", "size", "value"),
    [
        (0x000, 4, 0x74726976),  # "virt"
        (0x000, 1, 0x76),
        (0x002, 2, 0x7472),
        (0x004, 4, 1),
        (0x000, 8, 0x1_7472_6976),
        (0x008, 4, 0),  # no device
        (0x00C, 4, 0x554D4551),
        (0x070, 4, 0),
        (0x100, 4, 0),
        (0x200, 4, 0x74726976),
        (0x3E08, 4, 0),
        (0x3E00, 4, 0x74726976),
    ],
)
def test_empty_virtio_slot_says_that_no_device_is_there(offset: int, size: int, value: int) -> None:
    slots = EmptyVirtioSlots()
    slots.write(offset, size, 0xFF)
    assert slots.read(offset, size) == value


@pytest.mark.parametrize(("size", "value"), [(1, 0xFF), (2, 0xFFFF), (4, 0xFFFF_FFFF)])
def test_empty_configuration_space_reads_all_ones(size: int, value: int) -> None:
    ecam = EmptyECAM()
    ecam.write(0, size, 0)
    assert ecam.read(0x8000, size) == value
