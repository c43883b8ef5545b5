"""Data addresses in blocks of an allocator: by hand, and of a program as it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import spe_unicorn
from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.perf_format import BLOCK, GIVEN_BACK
from spe_unicorn.report.blocks import Blocks
from spe_unicorn.report.samples import Samples
from spe_unicorn.report.views.overview import View, grouped

UNKNOWN_TIME = (1 << 64) - 1
PROGRAM = shipped_firmware("heap_blocks")
SOURCE = Path(__file__).parents[2] / "firmware" / "heap_blocks.c"


def line_with(text: str) -> str:
    """A line of the program's source as reports name it."""
    lines = SOURCE.read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines, 1) if text in line)
    return f"(heap_blocks.c:{number})"


def blocks(*rows: tuple[int, int, int, int]) -> Blocks:
    return Blocks(b"".join(BLOCK.pack(*row, 0) for row in rows))


HISTORY = blocks(
    (10, 0x1000, 64, 1),
    (20, 0x2000, 16, 2),
    (30, 0x1000, GIVEN_BACK, 9),
    (40, 0x1000, 16, 3),  # the same address again, and shorter
    (45, 0x1020, 32, 4),  # in what the first one had
    (50, 0x1020, GIVEN_BACK, 9),
)


@pytest.mark.parametrize(
    ("address", "ticks", "place"),
    [
        (0x1000, 9, None),
        (0x1000, 10, 1),
        (0x103F, 29, 1),
        (0x1040, 29, None),
        (0x0FFF, 29, None),
        (0x1020, 30, None),
        (0x100F, 40, 3),
        (0x1010, 47, None),
        (0x1020, 47, 4),
        (0x1020, 50, None),
        (0x200F, 1000, 2),
        (0x1030, UNKNOWN_TIME, 4),
        (0x1008, UNKNOWN_TIME, 3),
    ],
)
def test_an_address_is_in_the_block_that_was_there_then(
    address: int, ticks: int, place: int | None
) -> None:
    (found,) = HISTORY.at(np.array([address], np.uint64), np.array([ticks], np.uint64)).tolist()
    assert (None if found < 0 else int(HISTORY.place[found])) == place


def test_many_addresses_are_found_as_one_by_one() -> None:
    addresses = np.arange(0xFF8, 0x2020, 8, dtype=np.uint64).repeat(60)
    ticks = np.tile(np.arange(60, dtype=np.uint64), len(addresses) // 60)
    together = HISTORY.at(addresses, ticks)
    for row in range(0, len(addresses), 97):
        alone = HISTORY.at(addresses[row : row + 1], ticks[row : row + 1])
        assert together[row] == alone[0]


def test_no_blocks_are_in_a_file_that_tells_none() -> None:
    assert len(Blocks(b"")) == 0
    assert Blocks(b"").at(np.zeros(2, np.uint64), np.zeros(2, np.uint64)).tolist() == [-1, -1]


def recorded(folder: Path, *options: str) -> Samples:
    file = folder / "a.data"
    words = ["record", "-q", "-c", "1", "--no-jitter", "--heap", *options, "-o", str(file)]
    result = CliRunner().invoke(main, [*words, str(PROGRAM)])
    assert result.exit_code == 0, result.stderr
    return Samples(spe_unicorn.read(file))


@pytest.mark.parametrize("options", [(), ("--smp", "2")])
def test_the_hottest_blocks_of_a_program_come_first(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """main() stores 20 bytes to the block of 20, and copies them to the one of 100."""
    found = recorded(tmp_path, "--filter", "store", *options)
    table = grouped(found, View(rows=100), ("object",))
    counts = {str(row[3]): row[1] for row in table.rows}
    (text,) = (name for name in counts if line_with("malloc(20)") in name)
    assert text.startswith("block of main+0x")
    assert counts[text] == 20  # by store()
    # what realloc copies, it copies before the program has the block
    assert not [name for name in counts if line_with("realloc(text, 100)") in name]
    shares = [row[0] for row in table.rows]
    assert shares == sorted(shares, reverse=True)


def test_options_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for words, said in (
        (["-o", str(tmp_path / "a.spe"), str(PROGRAM)], "only perf.data has a place for --heap"),
        (
            ["-o", str(tmp_path / "a.data"), str(shipped_firmware("hello"))],
            "heap needs the symbols of an allocator",
        ),
    ):
        result = CliRunner().invoke(main, ["record", "-q", "-c", "10", "--heap", *words])
        assert result.exit_code == 2
        assert said in result.stderr
        assert list(tmp_path.iterdir()) == []
