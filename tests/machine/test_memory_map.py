from __future__ import annotations

from itertools import pairwise

import pytest

from spe_unicorn.machine import memory_map


def test_regions_lie_where_the_virt_board_has_them():
    places = {region.name: (region.base, region.size) for region in memory_map.FIXED}
    assert places == {
        "flash": (0x0, 0x0800_0000),
        "gicd": (0x0800_0000, 0x1_0000),
        "gicr": (0x080A_0000, 0xF6_0000),
        "pl011": (0x0900_0000, 0x1000),
        "pl031": (0x0901_0000, 0x1000),
        "secure pl011": (0x0904_0000, 0x1000),
        "virtio-mmio": (0x0A00_0000, 0x4000),
        "secure-ram": (0x0E00_0000, 0x100_0000),
        "pcie-ecam": (0x40_1000_0000, 0x1000_0000),
    }


def test_regions_do_not_overlap_whatever_the_size_of_ram():
    regions = sorted(
        (*memory_map.FIXED, memory_map.ram(memory_map.RAM_MAX)), key=lambda region: region.base
    )
    assert all(lower.end <= upper.base for lower, upper in pairwise(regions))


@pytest.mark.parametrize("size", [0, -1, memory_map.RAM_MAX + 1])
def test_ram_that_has_no_room_is_refused(size):
    with pytest.raises(ValueError, match="RAM has 1 to"):
        memory_map.ram(size)


@pytest.mark.parametrize(
    ("address", "name"),
    [(0x0900_0FFF, "pl011"), (0x0900_1000, None), (0x4000_0000, None), (0, "flash")],
)
def test_address_is_named_by_its_region(address, name):
    region = memory_map.region_at(address)
    assert (region.name if region else None) == name
