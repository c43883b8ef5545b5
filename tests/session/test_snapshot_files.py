"""Snapshots as files: restored in another process, and refused if anything is wrong with them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from spe_unicorn import Machine, MachineOptions, Sampling, zstd
from spe_unicorn.machine.shipped import shipped_firmware, shipped_names
from spe_unicorn.session.identity import difference, identity
from spe_unicorn.session.snapshot import SnapshotError
from spe_unicorn.session.snapshot_file import read_snapshot, write_snapshot
from tests.firmware.programs import MADE_FOR, TYPED
from tests.support.elf_builder import RAM
from tests.support.small_boards import plan_at
from tests.support.small_programs import LOOP, program

MOST = 200_000
"""Operations of a program that are looked at; tests of snapshots in memory look at more."""


def told(machine: Machine, console: int, records: list[int]) -> list[object]:
    """What a run came to, and a digest of its output and records from there on."""
    outcome = machine.run(operations=MOST - machine.operations)
    said = hashlib.sha256(machine.console.output[console:])
    for pe, before in zip(machine.pes, records, strict=True):
        said.update(pe.records.raw[before:])
    return [
        outcome.ending,
        outcome.exit_status,
        machine.operations,
        [pe.pc for pe in machine.pes],
        repr(outcome.shares),
        said.hexdigest(),
    ]


IN_ANOTHER_PROCESS = """
import json, sys
from spe_unicorn import Machine
from spe_unicorn.session.snapshot_file import read_snapshot
from tests.session.test_snapshot_files import told
for line in sys.stdin:
    snapshot = read_snapshot(line.rstrip("\\n"))
    machine = Machine(snapshot.options)
    machine.restore(snapshot)
    found = told(machine, len(machine.console.output), [0] * len(machine.pes))
    print(json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def goes_on_elsewhere() -> Iterator[Callable[[str], list[object]]]:
    """How a machine goes on that another process restores from a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", IN_ANOTHER_PROCESS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def goes_on(path: str) -> list[object]:
        print(path, file=process.stdin, flush=True)
        found: list[object] = json.loads(process.stdout.readline())
        return found

    yield goes_on
    process.communicate()


def begun(name: str, operations: int) -> Machine:
    machine = Machine(shipped_firmware(name), **MADE_FOR.get(name, {}))
    machine.console.type(TYPED.get(name, b""))
    machine.run(operations=operations)
    return machine


@pytest.mark.sweep
@pytest.mark.parametrize("name", shipped_names())
def test_every_firmware_goes_on_in_another_process(
    name: str, goes_on_elsewhere: Callable[..., Any], tmp_path: Path
) -> None:
    machine = begun(name, random.Random(crc32(name.encode())).randrange(1, 20_000))
    if machine.board.exit_status is not None:
        machine = begun(name, 200)
    path = str(tmp_path / name)
    write_snapshot(machine.save(), path)
    here = told(machine, len(machine.console.output), [len(pe.records.raw) for pe in machine.pes])
    assert goes_on_elsewhere(path) == here


@pytest.fixture
def looping(tmp_path: Path) -> Machine:
    machine = Machine(program(tmp_path, LOOP))
    machine.run(operations=1000)
    return machine


@pytest.fixture
def saved(looping: Machine, tmp_path: Path) -> Path:
    path = tmp_path / "loop.snap"
    write_snapshot(looping.save(), path)
    return path


def test_a_file_says_what_it_is_and_is_small(saved: Path) -> None:
    assert saved.read_bytes().startswith(b"spe-unicorn snapshot 3\n")
    assert saved.stat().st_size < 64 << 10


def test_a_file_that_was_cut_anywhere_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in (0, 1, 10, 23, 30, 40, len(whole) // 2, len(whole) - 1):
        saved.write_bytes(whole[:length])
        with pytest.raises(SnapshotError, match=r"loop.snap: (was cut or altered|is no snapshot)"):
            read_snapshot(saved)


def test_a_file_with_an_altered_byte_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    places = random.Random(2)
    for _ in range(50):
        altered = bytearray(whole)
        altered[places.randrange(len(whole))] ^= 1 << places.randrange(8)
        saved.write_bytes(altered)
        with pytest.raises(
            SnapshotError, match=r"loop\.snap: (was cut|is no sn|is a snapshot of v)"
        ):
            read_snapshot(saved)


def forged(path: Path, change: object, pages: bytes | None = None) -> None:
    """Change a file's header, or its pages, the last section; its digest is right again."""
    whole = path.read_bytes()
    line, rest = whole.split(b"\n", 1)
    length = int.from_bytes(rest[:8], "little")
    header = json.loads(rest[8 : 8 + length])
    sections = rest[8 + length : -32]
    if pages is not None:
        sections = sections[: len(sections) - sum(header["sections"]["pages"])] + pages
        header["sections"]["pages"] = [len(pages)]
    change(header)
    new = json.dumps(header).encode()
    body = line + b"\n" + len(new).to_bytes(8, "little") + new + sections
    path.write_bytes(body + hashlib.blake2b(body, digest_size=32).digest())


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("sections"),
        lambda header: header.update(sections={}),
        lambda header: header.update(sections=[1]),
        lambda header: header["sections"].update(pages=[7]),
        lambda header: header["sections"].update(states=[-1]),
        lambda header: header.update(identity=7),
        lambda header: header.update(operations="many"),
        lambda header: header["options"].update(smp=99),
        lambda header: header["options"].update(shell="rm"),
        lambda header: header.update(ended=4),
        lambda header: header.update(earlier={"file": "none.snap", "digest": ""}),
    ],
)
def test_a_file_that_was_made_to_deceive_is_refused_in_one_line(
    saved: Path, change: Callable[..., Any]
) -> None:
    forged(saved, change)
    with pytest.raises(SnapshotError) as raised:
        read_snapshot(saved)
    assert str(raised.value).startswith(str(saved))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("data", [bytes(2 << 20), b"\xff" * (1 << 21)])
def test_pages_that_unpack_to_more_than_a_block_are_refused(saved: Path, data: bytes) -> None:
    forged(saved, lambda header: None, pages=zstd.compress(data, 3))
    with pytest.raises(SnapshotError, match=r"loop\.snap: is damaged: a section is larger"):
        read_snapshot(saved)


@pytest.mark.parametrize("data", [b"", b"no zstd", zstd.compress(bytes(4096), 3) + b"more"])
def test_a_section_that_is_not_packed_as_it_has_to_be_is_refused(saved: Path, data: bytes) -> None:
    forged(saved, lambda header: None, pages=data)
    with pytest.raises(SnapshotError, match=r"loop\.snap: is damaged: "):
        read_snapshot(saved)


def test_a_newer_version_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes().replace(b"snapshot 3\n", b"snapshot 4\n", 1))
    with pytest.raises(SnapshotError, match="of version 4; this release reads version 3"):
        read_snapshot(saved)


def test_another_machine_is_refused(saved: Path, tmp_path: Path) -> None:
    snapshot = read_snapshot(saved)
    with pytest.raises(SnapshotError, match="`smp` is 2 here and 1 in the snapshot"):
        Machine(program(tmp_path, LOOP), smp=2).restore(snapshot)
    with pytest.raises(SnapshotError, match="`core`: the profile differs"):
        Machine(program(tmp_path, LOOP), core="max").restore(snapshot)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, cause in ((tmp_path, "is no regular"), (tmp_path / "none", "No such file")):
        with pytest.raises(SnapshotError, match=cause):
            read_snapshot(path)


def test_sampling_from_outside_is_part_of_the_options(tmp_path: Path) -> None:
    machine = Machine(shipped_firmware("mix"), sampling=Sampling(500, kinds=("load",)))
    machine.run(operations=10_000)
    write_snapshot(machine.save(), tmp_path / "mix")
    assert read_snapshot(tmp_path / "mix").options.sampling == machine.options.sampling


def test_a_file_on_top_of_an_earlier_one_holds_what_changed(
    looping: Machine, saved: Path, tmp_path: Path
) -> None:
    looping.memory.write(RAM + 0x100_0000, random.Random(3).randbytes(1 << 20))
    second, third = tmp_path / "second.snap", tmp_path / "third.snap"
    write_snapshot(looping.save(), second, since=saved)
    looping.memory.write(RAM + 0x100_0000, bytes(1 << 19))
    looping.run(operations=10)
    expected = looping.save()
    write_snapshot(expected, third, since=second)
    assert third.stat().st_size < 64 << 10 < second.stat().st_size
    assert read_snapshot(third).board.memory == expected.board.memory
    saved.write_bytes(second.read_bytes())
    with pytest.raises(SnapshotError, match=r"stands on loop\.snap, which is another file now"):
        read_snapshot(third)


def test_what_cannot_be_written_loses_nothing(looping: Machine, saved: Path) -> None:
    before = saved.read_bytes()
    looping.memory.write(RAM + 0x100_0000, random.Random(3).randbytes(4 << 20))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(SnapshotError, match=f"{os.strerror(errno.EFBIG)}; nothing was written"):
            write_snapshot(looping.save(), saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert saved.read_bytes() == before
    assert list(saved.parent.glob(".*")) == []


def test_a_device_is_not_written_over(looping: Machine) -> None:
    with pytest.raises(SnapshotError, match="is no regular file"):
        write_snapshot(looping.save(), "/dev/null")


def test_of_a_folder_only_its_being_there_tells_machines_apart(tmp_path: Path) -> None:
    """Where it is on the host is nothing to the guest."""
    folders = None, str(tmp_path), str(tmp_path.parent)
    none, one, other = (
        identity(MachineOptions(semihosting_dir=folder), plan_at(RAM), {}) for folder in folders
    )
    assert difference(one, other) is None
    assert difference(one, none) == ("`semihosting_dir` is a folder here and none in the snapshot")
