"""Files of the host while a machine goes back: answered from the log, and left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug import travel as travelling
from spe_unicorn.debug.travel import Travel
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64
from tests.support.small_programs import program


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 5_000)
    monkeypatch.setattr(travelling, "_FOR_A_PAGE", 1)


def there_and_back(machine: Machine, *files: Path) -> None:
    """Run to the end and again from several places; the files are changed in between."""
    travel = Travel(machine.board)
    assert travel.run() is Ending.EXIT
    assert machine.board.exit_status == 0
    end = travel.end
    said = machine.console.output
    registers = [machine.pes[0].x[n] for n in range(31)]
    for file in files:
        with file.open("r+b") as stream:
            stream.write(b"others")
    after = [file.read_bytes() for file in files]
    for at in (0, end // 3, end // 2, end - 1):
        travel.back_to(at)
        assert travel.run() is Ending.EXIT
        assert travel.position == end
        assert [machine.pes[0].x[n] for n in range(31)] == registers
    assert machine.console.output == said
    assert [file.read_bytes() for file in files] == after


@pytest.mark.sweep
def test_what_came_before_the_past_that_is_kept_is_forgotten(tmp_path: Path) -> None:
    words = [0xD2800060, 0x10000061, 0xD45E0000, 0x17FFFFFD, 0x58]  # prints by semihosting
    machine = Machine(program(tmp_path, a64.code(words)))
    travel = Travel(machine.board, history=1 << 20)
    sizes = []
    for _ in range(12):
        travel.run(10_000)
        sizes.append(travel.size)
    assert max(sizes) <= (1 << 20) + (1 << 17) + 1000  # the last piece is kept whole
    said, end = machine.console.output, travel.end
    assert travel.begin > 0
    travel.back_to(travel.begin)
    travel.run(end - travel.begin)
    assert (travel.position, machine.console.output) == (end, said)


@pytest.mark.parametrize("how", [",write", ""])
def test_a_disk(how: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.write_bytes(b"".join(bytes((ord("a") + n % 16,)) * 512 for n in range(128)))
    machine = Machine(shipped_firmware("virtio_blk"), drive=(f"{disk}{how}",))
    there_and_back(machine, *([disk] if how else []))
