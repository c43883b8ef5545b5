"""Snapshots that somebody made to deceive: refused in a line, before anything is unpacked."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unicorn.arm64_const import UC_ARM64_REG_FPCR

from spe_unicorn import Machine, zstd
from spe_unicorn.host.engine.context import save_context
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.machine.storage.flash_files import memory_of
from spe_unicorn.session.snapshot import SnapshotError
from spe_unicorn.session.snapshot_file import SnapshotFile, read_snapshot, write_snapshot
from tests.support.elf_builder import RAM

PAGE = 4096


class Parts:
    """What a file is made of, to be changed and packed again with a digest that is right."""

    def __init__(self, path: Path) -> None:
        self.line, rest = path.read_bytes().split(b"\n", 1)
        length = int.from_bytes(rest[:8], "little")
        self.header = json.loads(rest[8 : 8 + length])
        self.sections: dict[str, list[bytes]] = {}
        at = 8 + length
        for name, lengths in self.header["sections"].items():
            self.sections[name] = []
            for size in lengths:
                self.sections[name].append(rest[at : at + size])
                at += size

    def unpacked(self, name: str) -> bytes:
        return b"".join(map(zstd.decompress, self.sections[name]))

    def put(self, name: str, *data: bytes) -> None:
        self.sections[name] = [zstd.compress(piece, 3) for piece in data]

    @property
    def states(self) -> dict[str, Any]:
        return json.loads(self.unpacked("states"))

    def write(self, path: Path, length: int | None = None) -> None:
        self.header["sections"] = {n: [len(p) for p in all_] for n, all_ in self.sections.items()}
        header = json.dumps(self.header).encode()
        size = (len(header) if length is None else length).to_bytes(8, "little")
        pieces = b"".join(piece for all_ in self.sections.values() for piece in all_)
        body = self.line + b"\n" + size + header + pieces
        path.write_bytes(body + hashlib.blake2b(body, digest_size=32).digest())


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the machine has of the host."""
    folder = tmp_path_factory.mktemp("host")
    (folder / "share").mkdir()
    (folder / "calls").mkdir()
    (folder / "calls" / "file").write_bytes(b"in it")
    (folder / "disk").write_bytes(bytes(PAGE + 512))
    return folder


@pytest.fixture(scope="module")
def made(host: Path) -> Callable[[], Machine]:
    """Makes equal machines."""
    return lambda: Machine(
        shipped_firmware("hello"),
        ram=16 << 20,
        smp=2,
        model="cache",
        drive=(str(host / "disk"),),
        share=(str(host / "share"),),
        semihosting_dir=str(host / "calls"),
        pflash=(),
        flash=True,
        secure=True,
    )


@pytest.fixture(scope="module")
def good(made: Callable[..., Any], host: Path) -> Path:
    path = host / "good.snap"
    with made() as machine:
        machine.run(operations=200)
        write_snapshot(machine.save(), path)
    return path


@pytest.fixture
def parts(good: Path) -> Parts:
    return Parts(good)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "forged.snap"


def refused(file: Path, said: str) -> None:
    with pytest.raises(SnapshotError) as raised:
        read_snapshot(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert said in str(raised.value)
    assert str(raised.value).count(str(file)) == 1
    assert "\n" not in str(raised.value)


def test_what_was_packed_again_is_good(parts: Parts, file: Path, made: Callable[..., Any]) -> None:
    parts.write(file)
    with made() as machine:
        machine.restore(read_snapshot(file))
        assert machine.run().exit_status == 0


# Sizes


@pytest.mark.parametrize("section", ["states", "addresses", "gone"])
def test_nothing_is_unpacked_that_is_larger_than_the_machine_allows(
    parts: Parts, file: Path, section: str
) -> None:
    parts.sections[section] = [zstd.compress(bytes(1 << 30), 3)]
    parts.write(file)
    assert file.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        refused(file, "is damaged: a section is larger than any can be")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 16 << 20


@pytest.mark.parametrize("text", [b"[" + b"[]," * (6 << 20) + b"0]", b"{}," * (6 << 20)])
def test_states_of_millions_of_values_are_refused_before_any_is_made(
    parts: Parts, file: Path, text: bytes
) -> None:
    parts.put("states", text)
    parts.write(file)
    refused(file, "is damaged: it has more values than any can have")


def test_a_header_of_millions_of_values_is_refused(parts: Parts, file: Path) -> None:
    parts.header["identity"] = [[]] * (5 << 20)
    parts.write(file)
    refused(file, "is damaged: ")


def test_more_memory_than_was_asked_for_is_refused_by_its_addresses_alone(
    parts: Parts, file: Path
) -> None:
    first = RAM + 0x1000
    addresses = np.arange(first, first + 1024 * PAGE, PAGE, np.uint64)
    parts.put("addresses", addresses.tobytes())
    parts.sections["pages"] = [b"none of it is looked at"] * 4
    parts.write(file)
    with pytest.raises(
        SnapshotError, match="holds 4 MiB of memory; 3 MiB are read unless `memory`"
    ):
        read_snapshot(file, memory=3 << 20)
    with pytest.raises(SnapshotError, match="is damaged"):
        read_snapshot(file, memory=4 << 20)


@pytest.mark.parametrize("length", [0, 1, -1, 1 << 63, 16 << 20])
def test_a_header_of_another_length_is_refused(parts: Parts, file: Path, length: int) -> None:
    size = len(json.dumps(parts.header).encode())
    parts.write(file, length=size + length if abs(length) < 2 and length else length)
    refused(file, "is damaged: ")


def test_a_header_that_reaches_into_the_digest_is_refused(parts: Parts, file: Path) -> None:
    parts.sections = {name: [] for name in parts.sections}
    parts.write(file)
    header = Parts(file).header
    parts.write(file, length=len(json.dumps(header)) + 1)
    refused(file, "is damaged: its header is too long")


# Pages


def page(fill: int = 1) -> bytes:
    return bytes([fill]) * PAGE


@pytest.mark.parametrize(
    ("addresses", "pages", "said"),
    [
        ([RAM + 8], [page()], "a page has no page's address"),
        ([RAM + PAGE // 2], [page()], "a page has no page's address"),
        ([RAM, RAM], [page() * 2], "its pages are in no order"),
        ([RAM + PAGE, RAM], [page() * 2], "its pages are in no order"),
        ([RAM + (16 << 20)], [page()], "a page lies where its machine has no memory"),
        ([0x0900_0000], [page()], "a page lies where its machine has no memory"),
        ([(1 << 64) - PAGE], [page()], "a page lies where its machine has no memory"),
        ([RAM], [page(0)], "a page of zeros is in it"),
        ([RAM, RAM + PAGE], [page() + page(0)], "a page of zeros is in it"),
        ([RAM, RAM + PAGE], [page()], "a section is larger than any can be"),
        ([RAM], [page()[:-1]], "a section is larger than any can be"),
        ([RAM], [page() * 2], "a section is larger than any can be"),
        ([RAM], [], "pages are missing"),
        ([RAM], [page(), page()], "pages are missing"),
        ([], [page()], "pages are missing"),
    ],
)
def test_pages_that_no_machine_holds_are_refused(
    parts: Parts,
    file: Path,
    addresses: list[Any] | list[int],
    pages: list[Any] | list[bytes],
    said: str,
) -> None:
    parts.put("addresses", np.array(addresses, np.uint64).tobytes())
    parts.put("pages", *pages)
    parts.write(file)
    refused(file, f"is damaged: {said}")


@pytest.mark.parametrize("base", [0, 0x0400_0000, 0x0800_0000 - PAGE, 0x0E00_0000, RAM])
def test_pages_are_read_wherever_the_machine_has_memory(
    parts: Parts, file: Path, base: int
) -> None:
    parts.put("addresses", np.array([base], np.uint64).tobytes())
    parts.put("pages", page())
    parts.write(file)
    assert read_snapshot(file).board.memory.pages == {base: page()}


def test_the_memory_of_a_machine_is_that_of_its_board(made: Callable[..., Any]) -> None:
    with made() as machine:
        there = machine.board.memory.regions
        addresses = sorted((r.base, r.base + len(r.bytes)) for r in there)
        said = sorted((r.start, r.stop) for r in memory_of(machine.options))
        joined = [(0, 0x0800_0000)]  # two flashes, one behind the other
        assert said == joined + [each for each in addresses if each[0] >= 0x0800_0000]
        assert [each for each in addresses if each[0] < 0x0800_0000] == [
            (0, 0x0400_0000),
            (0x0400_0000, 0x0800_0000),
        ]


def test_pages_of_another_machine_are_refused_when_they_are_restored(
    parts: Parts, file: Path, made: Callable[..., Any]
) -> None:
    parts.header["options"]["ram"] = 1 << 30
    parts.put("addresses", np.array([RAM + (512 << 20)], np.uint64).tobytes())
    parts.put("pages", page())
    parts.write(file)
    snapshot = read_snapshot(file)
    with made() as machine:
        machine.run(operations=10)
        with pytest.raises(SnapshotError, match="a page of memory is none that there can be"):
            machine.restore(snapshot)
        assert machine.run().exit_status == 0  # nothing had changed


# Other files


@pytest.mark.parametrize("name", ["../other.snap", "/etc/passwd", "..", ".", "", "a/b", "a\0b", 7])
def test_an_earlier_file_elsewhere_is_not_looked_at(
    parts: Parts, file: Path, name: int | str
) -> None:
    (file.parent.parent / "other.snap").write_bytes(b"x")
    parts.header["earlier"] = {"file": name, "digest": ""}
    parts.write(file)
    refused(file, "is not a file in its own folder" if name != 7 else "is damaged: str was")


def test_an_earlier_file_that_is_a_link_is_not_looked_at(parts: Parts, file: Path) -> None:
    (file.parent / "linked.snap").symlink_to("/dev/zero")
    parts.header["earlier"] = {"file": "linked.snap", "digest": ""}
    parts.write(file)
    refused(file, "stands on 'linked.snap', which is a link")


def test_a_snapshot_is_not_written_on_top_of_one_in_another_folder(
    good: Path, made: Callable[..., Any], tmp_path: Path
) -> None:
    with made() as machine, pytest.raises(SnapshotError, match="is in another folder"):
        write_snapshot(machine.save(), tmp_path / "later.snap", since=good)


# States


def changed(states: dict[str, Any], way: str, value: Any) -> None:
    """Set what a way such as ``parts/firmware/exit_status`` leads to."""
    *steps, last = way.split("/")
    place: Any = states
    for step in steps:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(last) if isinstance(place, list) else last] = value


def way_to(states: dict[str, Any], *fields: str) -> str:
    """The part that has these fields."""
    return next(
        path
        for path, state in states["parts"].items()
        if isinstance(state, dict) and set(fields) <= state.keys()
    )


VIRTIO, SERVER, OVERLAY = ("queue_sel", "queues"), ("fids", "size"), ("pages",)
CALLS, UART, GIC = ("errno", "files"), ("stored", "received"), ("affinity_of_spi", "one_state")
BANK, TURNS, PE = ("priority", "nsacr"), ("running", "last"), ("patience", "turn")
FLASH, COUNTERS, FIRMWARE = ("mode", "cycle", "sector"), ("values", "types"), ("exit_status",)
QUEUE = {"size": 8, "ready": True, "descriptors": 0, "driver": 0, "device": 0, "seen": 0}


def text(data: bytes) -> str:
    return b64encode(data).decode()


def fid(*path: bytes, flags: int | None = None) -> dict[str, Any]:
    return {"path": [text(name) for name in path], "flags": flags}


def opened(name: bytes, mode: int = 0, position: int = 0, digest: str = "") -> dict[str, Any]:
    return {"name": text(name), "mode": mode, "position": position, "digest": digest}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        (VIRTIO, "queue_sel", 1 << 32),
        (VIRTIO, "queue_sel", -1),
        (VIRTIO, "queue_sel", True),
        (VIRTIO, "queue_sel", 1.0),
        (VIRTIO, "status", 256),
        (VIRTIO, "due", -1),
        (VIRTIO, "queues", []),
        (VIRTIO, "queues", [QUEUE, QUEUE]),
        (VIRTIO, "queues", [QUEUE | {"size": 0}]),
        (VIRTIO, "queues", [QUEUE | {"size": 3}]),
        (VIRTIO, "queues", [QUEUE | {"size": 512}]),
        (VIRTIO, "queues", [QUEUE | {"ready": 1}]),
        (VIRTIO, "queues", [QUEUE | {"seen": 1 << 16}]),
        (VIRTIO, "queues", [QUEUE | {"driver": 1 << 64}]),
        (VIRTIO, "notified", [1]),
        (VIRTIO, "notified", [0, 0]),
        (VIRTIO, "notified", [-1]),
        (VIRTIO, "waiting", [1]),
        (SERVER, "fids", [[1, fid(b"..")]]),
        (SERVER, "fids", [[1, fid(b"a", b"..", b"..", b"b")]]),
        (SERVER, "fids", [[1, fid(b"/etc")]]),
        (SERVER, "fids", [[1, fid(b"a/b")]]),
        (SERVER, "fids", [[1, fid(b".")]]),
        (SERVER, "fids", [[1, fid(b"")]]),
        (SERVER, "fids", [[1, fid(b"a\0")]]),
        (SERVER, "fids", [[1, fid(b"x" * 256)]]),
        (SERVER, "fids", [[1, fid(*[b"x"] * 129)]]),
        (SERVER, "fids", [[1, fid(flags=1 << 32)]]),
        (SERVER, "fids", [[1 << 32, fid()]]),
        (SERVER, "fids", [[0xFFFF_FFFF, fid()]]),
        (SERVER, "fids", [[n, fid()] for n in range(4097)]),
        (SERVER, "size", 4095),
        (SERVER, "size", (1 << 20) + 1),
        (OVERLAY, "pages", [[0, text(b"x")]]),
        (OVERLAY, "pages", [[1, text(page())]]),
        (OVERLAY, "pages", [[2, text(b"")]]),
        (OVERLAY, "pages", [[2, text(page())]]),
        (OVERLAY, "pages", [[-1, text(page())]]),
        (CALLS, "files", [[1, opened(b"../disk")]]),
        (CALLS, "files", [[1, opened(b"/etc/passwd")]]),
        (CALLS, "files", [[1, opened(b":x")]]),
        (CALLS, "files", [[1, opened(b":semihosting-features", mode=2)]]),
        (CALLS, "files", [[1, opened(b":tt", mode=12)]]),
        (CALLS, "files", [[1, opened(b":tt", mode=-1)]]),
        (CALLS, "files", [[1, opened(b":tt", position=-1)]]),
        (CALLS, "files", [[1, opened(b":tt", position=1 << 63)]]),
        (CALLS, "files", [[0, opened(b":tt")]]),
        (CALLS, "files", [[257, opened(b":tt")]]),
        (CALLS, "files", [[1, opened(b"x" * 4097)]]),
        (UART, "received", [0] * 17),
        (UART, "stored", []),
        (GIC, "asleep", [False]),
        (GIC, "affinity_of_spi", []),
        (GIC, "group_enables", []),
        (GIC, "any_pe", 1 << 500),
        (BANK, "priority", text(b"")),
        (BANK, "enabled", 1 << 300),
        (BANK, "enabled", -1),
        (TURNS, "running", 2),
        (TURNS, "last", 2),
        (TURNS, "last", -2),
        (TURNS, "left", -1),
        (PE, "naps", 5),
        (PE, "turn", -1),
        (FLASH, "sector", 64 << 20),
        (FLASH, "sector", 1),
        (FLASH, "buffer", [[(64 << 20) - 2, text(b"1234")]]),
        (FLASH, "buffer", [[0, text(page())]]),
        (COUNTERS, "values", []),
        (COUNTERS, "enabled", 1 << 40),
        (FIRMWARE, "exit_status", 256),
    ],
)
def test_a_value_out_of_its_range_is_refused_and_nothing_changes(
    parts: Parts,
    file: Path,
    made: Callable[..., Any],
    part: tuple[str, ...],
    field: str,
    value: Any,
) -> None:
    states = parts.states
    states["parts"][way_to(states, *part)][field] = value
    parts.put("states", json.dumps(states).encode())
    parts.write(file)
    snapshot = read_snapshot(file)
    with made() as machine:
        machine.run(operations=10)
        with pytest.raises(SnapshotError) as raised:
            machine.restore(snapshot)
        assert "\n" not in str(raised.value)
        assert machine.run().exit_status == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("engines/0/clock", []),
        ("engines/0/executed", -1),
        ("engines/0/entered", 0),
        ("engines/0/cells", [[1 << 16, 0]]),
        ("engines/0/cells", [[-1, 0]]),
        ("engines/0/cells", [[0, 1 << 63]]),
        ("engines", []),
        ("consoles", []),
        ("consoles/0/position", "1"),
    ],
)
def test_states_of_engines_and_consoles_are_checked(
    parts: Parts, file: Path, made: Callable[..., Any], field: str, value: Any
) -> None:
    states = parts.states
    changed(states, field, value)
    parts.put("states", json.dumps(states).encode())
    parts.write(file)
    with made() as machine, pytest.raises(SnapshotError):
        machine.restore(read_snapshot(file))


@pytest.mark.parametrize(
    ("name", "value"),
    [("line_count", -1), ("line_count", 1025), ("taken_kind", 1), ("taken_to", 4)],
)
def test_counts_that_compiled_code_goes_by_are_checked(
    parts: Parts, file: Path, made: Callable[..., Any], name: str, value: int
) -> None:
    states = parts.states
    pairs = dict(states["engines"][1]["clock"])
    assert name in pairs
    states["engines"][1]["clock"] = list((pairs | {name: value}).items())
    parts.put("states", json.dumps(states).encode())
    parts.write(file)
    with made() as machine, pytest.raises(SnapshotError, match=rf"`?{name}`? is none that there"):
        machine.restore(read_snapshot(file))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (336, 0xFF),  # what the engine keeps of the translation regime
        (339, 0xF0),
        (332, 0),  # A32
        (328, 0x10),  # PSTATE.nRW
        (3064, 0x80),  # a virtual IRQ, and a virtual FIQ: no run of the engine would end
        (3065, 0x02),
    ],
)
def test_a_state_by_which_the_engine_would_go_astray_is_refused(
    parts: Parts, file: Path, made: Callable[..., Any], at: int, value: int
) -> None:
    states = parts.states
    context = bytearray(b64decode(states["engines"][1]["context"]))
    context[at] = value
    states["engines"][1]["context"] = text(bytes(context))
    parts.put("states", json.dumps(states).encode())
    parts.write(file)
    with made() as machine:
        with pytest.raises(SnapshotError, match="an engine's state is none that there can be"):
            machine.restore(read_snapshot(file))
        assert machine.run().exit_status == 0


def test_a_rounding_mode_that_there_is_not_is_refused(
    parts: Parts, file: Path, made: Callable[..., Any]
) -> None:
    with made() as machine:
        uc = machine.board.cpu.engine.uc
        before = save_context(uc)
        uc.reg_write(UC_ARM64_REG_FPCR, 1 << 22)  # towards plus infinity, 2 in the engine
        after = save_context(uc)
    places = [n for n in range(len(after)) if (before[n], after[n]) == (0, 2)]
    assert len(places) >= 2  # of single and double precision, and of half precision
    states = parts.states
    for place in places:
        context = bytearray(before)
        context[place] = 4
        states["engines"][0]["context"] = text(bytes(context))
        parts.put("states", json.dumps(states).encode())
        parts.write(file)
        with made() as machine, pytest.raises(SnapshotError, match="an engine's state is none"):
            machine.restore(read_snapshot(file))


@pytest.mark.parametrize("size", [0, 1, 12471, 20000])
def test_a_state_of_another_size_is_refused(
    parts: Parts, file: Path, made: Callable[..., Any], size: int
) -> None:
    states = parts.states
    states["engines"][0]["context"] = text(bytes(size))
    parts.put("states", json.dumps(states).encode())
    parts.write(file)
    with made() as machine, pytest.raises(SnapshotError, match="an engine's state has"):
        machine.restore(read_snapshot(file))


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("part", "word", "value"),
    [
        *(("models.0.data", word, 1 << 40) for word in range(1, 15)),
        ("models.0.data", 15, 129),
        ("models.0.data", 15, -2),
        *(("models.0.data.last", word, 1 << 40) for word in range(3)),
        *(("models.0.predictor", word, 1 << 40) for word in range(9)),
        ("models.0.predictor", 7, -1),
        ("models.0.predictor", 12, 4),
        ("peripherals.gic.routing.cells.1", 0, 0x100),
        ("peripherals.gic.routing.cells.1", 1, 8),
        ("peripherals.gic.routing.cells.1", -1, 4),
    ],
)
def test_words_that_compiled_code_follows_are_checked(
    parts: Parts, file: Path, made: Callable[..., Any], part: str, word: int, value: int
) -> None:
    states = parts.states
    ((name, (kind, data)),) = states["parts"][part].items()
    words = np.frombuffer(b64decode(data), kind).copy()
    words[word] = value
    states["parts"][part][name] = [kind, text(words.tobytes())]
    parts.put("states", json.dumps(states).encode())
    parts.write(file)
    with made() as machine:
        with pytest.raises(SnapshotError, match="is none that there can be"):
            machine.restore(read_snapshot(file))
        assert machine.run().exit_status == 0


def test_the_header_alone_says_what_the_machine_is(good: Path, made: Callable[..., Any]) -> None:
    found = SnapshotFile(good)
    with made() as machine:
        assert replace(found.options, firmware=machine.options.firmware) == machine.options
