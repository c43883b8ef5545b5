from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from spe_unicorn.arch.counter import FREQUENCY
from spe_unicorn.devices import gicv3
from spe_unicorn.machine import memory_map
from spe_unicorn.machine.options import MachineOptions


def test_regions_lie_where_the_virt_board_has_them():
    places = {region.name: (region.base, region.size) for region in memory_map.FIXED}
    assert places == {
        "flash": (0x0, 0x0800_0000),
        "gicd": (0x0800_0000, 0x1_0000),
        "gicr": (0x080A_0000, 0xF6_0000),
        "pl011": (0x0900_0000, 0x1000),
        "pl031": (0x0901_0000, 0x1000),
        "fw_cfg": (0x0902_0000, 0x18),
        "pl061": (0x0903_0000, 0x1000),
        "secure pl011": (0x0904_0000, 0x1000),
        "secure pl061": (0x090B_0000, 0x1000),
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


# The page of the reference

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/memory-map.md").read_text()


def rows(pattern: str) -> list[tuple[str, ...]]:
    """The groups of every table row of the page that begins so."""
    return [match.groups() for match in re.finditer(rf"^\| {pattern}", PAGE, re.M)]


def test_the_page_has_every_region_and_no_other():
    page = [(int(low, 16), int(high, 16) + 1) for low, high in rows(r"(0x\w+) \| (0x\w+) \|")]
    default = memory_map.ram(MachineOptions().ram)
    regions = sorted((*memory_map.FIXED, default), key=lambda region: region.base)
    assert page == [(region.base, region.end) for region in regions]
    assert f"{memory_map.RAM_BASE + memory_map.RAM_MAX - 1:#x}" in PAGE


def test_the_page_says_what_secure_takes_away():
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| 0x00000000")]
    half = memory_map.SECURE_FLASH
    assert f"{half.base:#010x} to {half.end - 1:#010x}, for Secure state" in row
    for region in (memory_map.SECURE_UART, memory_map.SECURE_GPIO, memory_map.SECURE_RAM):
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {region.base:#010x}")]
        assert row.endswith("| `--secure` |")
        assert "for Secure state alone" in row


def test_the_page_has_every_interrupt_and_no_other():
    private = {
        value
        for name, value in vars(gicv3).items()
        if name not in ("SGIS", "PRIVATE", "MAX_PES") and isinstance(value, int)
    }
    shared = {
        32 + spi
        for name, spi in vars(memory_map).items()
        if name.endswith("_SPI") and isinstance(spi, int)
    }
    numbers = {int(number): kind for number, kind in rows(r"(\d+) \| [^|]*\((\w+ \d+)")}
    assert numbers.keys() == private | shared
    for number, kind in numbers.items():
        assert kind == (f"PPI {number - 16}" if number < 32 else f"SPI {number - 32}")


def test_the_page_names_the_places_where_other_boards_have_more():
    for name in ("its", "smmu"):
        (region,) = [region for region, _ in memory_map._WANTING if region.name == name]
        assert f"({region.base:#010x})" in PAGE


def test_the_page_says_how_fast_time_goes():
    assert FREQUENCY == 62_500_000
    assert "62.5 MHz (CNTFRQ_EL0), a tick is 16 operations" in PAGE
