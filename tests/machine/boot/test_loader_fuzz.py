"""Broken files: whatever is wrong, either the file loads or one line says why not."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spe_unicorn.machine.boot.image import Image, LoadError
from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.elf_builder import ET_DYN, PT_DYNAMIC, RAM, Elf, Load, Sym

RAM_SIZE = 0x0800_0000
RELA = struct.pack("<QQq", 0x40, 1027, 0x10)
RELR = struct.pack("<QQ", 0x48, 0b11)
DYNAMIC = struct.pack("<qQqQqQqQqQ", 7, 0x60, 8, 24, 36, 0x78, 35, 16, 0, 0)

EXECUTABLE = Elf(
    [Load(RAM, bytes(64)), Load(RAM + 0x1000, b"data", memsz=0x100, flags=6)],
    symbols=[Sym("main", RAM, 32), Sym("exit", RAM + 32, 32)],
).build()
PIE = Elf(
    [Load(0, bytes(0x60) + RELA + RELR), Load(0x88, DYNAMIC, kind=PT_DYNAMIC)],
    entry=0,
    kind=ET_DYN,
    symbols=[Sym("main", 0, 32)],
).build()
FILES = {"executable": EXECUTABLE, "pie": PIE}


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[..., Any]:
    """Load bytes: the image, or None after a refusal of one line."""
    file = tmp_path / "fw.elf"

    def attempt(data: bytes) -> Image | None:
        file.write_bytes(data)
        try:
            image = load_elf(file, RAM, RAM_SIZE)
        except LoadError as error:
            message = str(error)
            assert message.startswith(f"{file}: ")
            assert "\n" not in message
            return None
        for segment in image.segments:
            assert segment.address >= RAM
            assert segment.end <= RAM + RAM_SIZE
            assert len(segment.data) <= segment.size
        return image

    return attempt


@pytest.fixture(params=FILES)
def good(request: pytest.FixtureRequest) -> bytes:
    return FILES[request.param]


def test_the_files_are_good_before_they_are_broken(
    attempt: Callable[..., Any], good: bytes
) -> None:
    image = attempt(good)
    assert image is not None
    assert image.symbols.symbolize(image.entry) == "main"


@pytest.mark.sweep
def test_no_prefix_of_a_file_loads(attempt: Callable[..., Any], good: bytes) -> None:
    """Headers come last in these files, so that each byte that is missing is missed."""
    for size in range(len(good)):
        assert attempt(good[:size]) is None


def test_every_bit_flip_in_the_elf_header(attempt: Callable[..., Any], good: bytes) -> None:
    flips(attempt, good, range(64))


@pytest.mark.sweep
def test_every_bit_flip_in_the_program_headers(attempt: Callable[..., Any], good: bytes) -> None:
    flips(attempt, good, range(64, 64 + 2 * 56))


@pytest.mark.sweep
def test_every_bit_flip_in_the_section_headers(attempt: Callable[..., Any], good: bytes) -> None:
    flips(attempt, good, range(len(good) - 3 * 64, len(good)))


def test_every_bit_flip_in_the_dynamic_section_and_its_tables(attempt: Callable[..., Any]) -> None:
    start = PIE.index(RELA)
    flips(attempt, PIE, range(start, PIE.index(DYNAMIC) + len(DYNAMIC)))


def flips(attempt, data: bytes, places: range) -> None:
    for place in places:
        for bit in range(8):
            broken = bytearray(data)
            broken[place] ^= 1 << bit
            attempt(bytes(broken))


@pytest.mark.sweep
def test_extreme_values_in_every_header_field(attempt: Callable[..., Any], good: bytes) -> None:
    """Each aligned 16, 32 and 64-bit field of the headers, with the values that hurt most."""
    for width, values in {
        2: (0, 1, 0x7FFF, 0xFF00, 0xFFFE, 0xFFFF),
        4: (0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF),
        8: (0, 1, 1 << 31, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
    }.items():
        headers = [*range(16, 64 + 2 * 56, width), *range(len(good) - 192, len(good), width)]
        for place in headers:
            for value in values:
                broken = bytearray(good)
                broken[place : place + width] = value.to_bytes(width, "little")
                attempt(bytes(broken))


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["hello", "hello_lma", "hello_pie"])
def test_a_linked_file_cut_at_its_boundaries_or_with_flipped_header_bits(
    attempt: Callable[..., Any], name: str
) -> None:
    data = shipped_firmware(name).read_bytes()
    assert attempt(data) is not None
    program_headers_end = 64 + 56 * int.from_bytes(data[56:58], "little")
    for boundary in {0, 64, program_headers_end, *section_boundaries(data)}:
        for size in (boundary - 1, boundary, boundary + 1):
            if 0 <= size < len(data):
                assert attempt(data[:size]) is None
    flips(attempt, data, range(program_headers_end))


def section_boundaries(data: bytes) -> set[int]:
    """Where the sections of a file, and their headers, start and end."""
    result = set()
    elf = ELFFile(io.BytesIO(data))
    for number, section in enumerate(elf.iter_sections()):
        size = 0 if section["sh_type"] == "SHT_NOBITS" else section["sh_size"]
        header = elf["e_shoff"] + 64 * number
        result |= {section["sh_offset"], section["sh_offset"] + size, header, header + 64}
    return result


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    data=st.sampled_from(list(FILES.values())),
    changes=st.lists(st.tuples(st.integers(0, 700), st.binary(min_size=1, max_size=8)), max_size=6),
    size=st.integers(0, 1000),
)
def test_any_damage(attempt, data, changes, size):
    broken = bytearray(data)
    for place, value in changes:
        broken[place : place + len(value)] = value
    attempt(bytes(broken[: max(size, 64)] if size < len(broken) else broken))
