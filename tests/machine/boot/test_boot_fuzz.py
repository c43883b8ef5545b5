"""Broken files: whatever is wrong, either the machine starts or one line says why not."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spe_unicorn.cores.profile import load_core
from spe_unicorn.machine.boot.dtb import BoardDescription, board_dtb
from spe_unicorn.machine.boot.fdt import parse
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.plan import DTB_MAX, BootPlan, boot_plan
from spe_unicorn.machine.memory_map import FLASH, RAM_BASE
from spe_unicorn.machine.options import MachineOptions
from tests.support.boot_files import MIB, arm64_image, packed, zboot
from tests.support.elf_builder import Elf, Load

CORE = load_core("generic")
CODE = bytes(place * place % 251 for place in range(0x100))  # packs badly
KERNELS = {
    "image": arm64_image(0x8_0000, length=64) + CODE,
    "gzip": packed(arm64_image(0x8_0000, length=64) + CODE),
    "zboot": zboot(packed(arm64_image(0x8_0000, length=64) + CODE)),
    "elf": Elf([Load(RAM_BASE + 0x20_0000)], entry=RAM_BASE + 0x20_0000).build(),
}
TREE = board_dtb(BoardDescription(ram_size=MIB, virtio=False))
BROKEN_CHECKS = settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[..., Any]:
    """Plan a start: the plan, in order, or None after a refusal of one line."""

    def attempt(ram_size: int = 16 * MIB, **files: bytes | str | None) -> BootPlan | None:
        options = {}
        for name, data in files.items():
            options[name] = data
            if isinstance(data, bytes):
                (tmp_path / name).write_bytes(data)
                options[name] = str(tmp_path / name)
        message = ""
        try:
            plan = boot_plan(MachineOptions(core=CORE, ram=ram_size, **options))
        except LoadError as error:
            message = str(error)
        if message:
            assert "\n" not in message
            return None
        check(plan, ram_size)
        return plan

    return attempt


def check(plan: BootPlan, ram_size: int) -> None:
    """What every plan promises: inside memory, nothing on top of another, a whole device tree."""
    ends = 0
    for piece in sorted(plan.pieces, key=lambda piece: piece.address):
        assert piece.address >= ends, "pieces overlap"
        assert len(piece.data) <= piece.size
        ends = piece.end
        if piece.address < RAM_BASE:
            assert ends <= FLASH.end
        else:
            assert ends <= RAM_BASE + ram_size
    assert any(piece.address <= plan.entry < piece.end for piece in plan.pieces)
    assert plan.entry % 4 == 0
    parse(plan.dtb)
    if plan.dtb_address is not None:
        assert plan.dtb_address % 8 == 0
        assert plan.dtb in [p.data for p in plan.pieces if p.address == plan.dtb_address]


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_start_before_they_are_broken(attempt: Callable[..., Any], name: str) -> None:
    assert attempt(kernel=KERNELS[name]) is not None


@pytest.mark.parametrize("name", ["image", "gzip"])
def test_every_bit_flip_in_a_kernel_s_header(attempt: Callable[..., Any], name: str) -> None:
    data = KERNELS[name]
    for place in range(64):
        for bit in range(8):
            broken = bytearray(data)
            broken[place] ^= 1 << bit
            attempt(kernel=bytes(broken))


@pytest.mark.parametrize("name", ["gzip", "zboot", "elf"])
def test_no_kernel_that_is_cut_off_starts_as_what_it_was(
    attempt: Callable[..., Any], name: str
) -> None:
    """A few bytes of an ELF file or a packed one are no flat image either."""
    data = KERNELS[name]
    for size in [*range(4, 64), *range(len(data) - 64, len(data))]:
        assert attempt(kernel=data[:size]) is None, size


def test_extreme_values_in_every_field_of_an_image(attempt: Callable[..., Any]) -> None:
    for place in range(0, 64, 4):
        for value in (0, 1, 1 << 31, (1 << 60) + 4, 1 << 63, (1 << 64) - 4096, (1 << 64) - 1):
            broken = bytearray(KERNELS["image"])
            broken[place : place + 8] = value.to_bytes(8, "little")
            attempt(kernel=bytes(broken[:0x80]))


@BROKEN_CHECKS
@given(
    data=st.sampled_from(list(KERNELS.values())),
    changes=st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=8)), max_size=5),
    size=st.integers(1, 500),
)
def test_any_damage_to_a_kernel(attempt, data, changes, size):
    broken = bytearray(data)
    for place, value in changes:
        broken[place : place + len(value)] = value
    attempt(kernel=bytes(broken[:size]))


@BROKEN_CHECKS
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(TREE) // 4 - 1), st.integers(0, (1 << 32) - 1)), max_size=4
    ),
    size=st.integers(1, len(TREE)),
)
def test_any_damage_to_a_device_tree(attempt, changes, size):
    broken = bytearray(TREE)
    for place, value in changes:
        struct.pack_into(">I", broken, 4 * place, value)
    attempt(kernel=KERNELS["image"], initrd=b"i", append="x", dtb=bytes(broken))
    assert attempt(kernel=KERNELS["image"], dtb=bytes(broken[: size - 1])) is None


@BROKEN_CHECKS
@given(
    ram_size=st.integers(1, 4 * MIB // 4096).map(lambda pages: pages * 4096 * 2),
    text_offset=st.integers(0, 8 * MIB),
    image_size=st.integers(0, 8 * MIB),
    initrd_size=st.none() | st.integers(1, 2 * MIB),
)
def test_whatever_is_asked_for_nothing_overlaps(
    attempt, ram_size, text_offset, image_size, initrd_size
):
    kernel = arm64_image(text_offset, image_size, length=0x1000)
    attempt(ram_size, kernel=kernel, initrd=None if initrd_size is None else bytes(initrd_size))


@BROKEN_CHECKS
@given(
    address=st.integers(0, 2 * MIB // 4).map(lambda word: RAM_BASE + 4 * word),
    size=st.integers(4, 2 * MIB),
    option=st.sampled_from(["firmware", "kernel"]),
)
def test_wherever_firmware_is_linked_nothing_overlaps(attempt, address, size, option):
    file = Elf([Load(address, bytes(4), memsz=size)], entry=address).build()
    plan = attempt(6 * MIB, **{option: file})
    assert plan is not None
    assert plan.x[0] == (plan.dtb_address or 0)
    assert len(plan.dtb) <= DTB_MAX
