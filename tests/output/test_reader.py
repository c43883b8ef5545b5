from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from spe_unicorn.output.calls import USER_CONTEXT, CallTable
from spe_unicorn.output.formats import open_output
from spe_unicorn.output.image import RecordingInfo
from spe_unicorn.output.jsonl import record_json
from spe_unicorn.output.perf_format import RECORD_HEADER
from spe_unicorn.output.reader import (
    BadFileError,
    _add_calls,
    _add_calls_of_many,
    read_file,
    read_streams,
)
from spe_unicorn.spe.record import PlacedRecord, decode_stream, encode
from tests.support.samples import load, of_every_sort, other, stream

NOT_COMPLETED = "the recording was not completed: what came last is missing"


def written(path, records, cpus=1):
    writer = open_output(path, info=RecordingInfo(cpus=cpus))
    for number, record in enumerate(records):
        writer.write(encode(record, 6), number % cpus)
    writer.close()
    return path


def test_raw_file_is_one_stream(tmp_path: Path) -> None:
    path = written(tmp_path / "a.spe", [load(), other()])
    (found,) = read_streams(str(path))
    assert (found.cpu, found.offset, found.file_offset) == (0, 0, 0)
    assert found.data == stream([load(), other()])


def test_perf_data_gives_back_the_records_of_each_cpu(tmp_path: Path) -> None:
    records = list(of_every_sort())
    path = written(tmp_path / "a.data", records, cpus=3)
    streams = read_streams(str(path))
    assert [found.cpu for found in streams] == [0, 1, 2]
    whole = path.read_bytes()
    for found in streams:
        assert whole[found.file_offset :].startswith(found.data)
        decoded = list(decode_stream(found.data))
        assert all(isinstance(placed, PlacedRecord) for placed in decoded)
        assert [placed.record for placed in decoded] == records[found.cpu :: 3]


def test_long_recording_comes_in_pieces_that_know_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 128)
    records = [other(timestamp=number) for number in range(5)]
    path = written(tmp_path / "a.data", records)
    streams = read_streams(str(path))
    assert [(found.offset, len(found.data)) for found in streams] == [
        *((0, 128), (128, 128), (256, 64))
    ]
    assert [p.record for found in streams for p in decode_stream(found.data)] == records


def test_recording_without_records_has_no_streams(tmp_path: Path) -> None:
    assert read_streams(str(written(tmp_path / "a.data", []))) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.spe", b"", "the file is empty"),
        ("empty.data", b"", "the file is empty"),
        (
            "other.data",
            b"\x7fELF\x02\x01\x01\x00\x00",
            "not a perf.data file: 7f 45 4c 46 02 01 01 00 at offset 0x0 where PERFILE2 should be",
        ),
        (
            "short.data",
            b"PERFILE2" + bytes(40),
            "broken perf.data file: the file ends inside its header at offset 0x30",
        ),
        (
            "size.data",
            b"PERFILE2" + bytes(96),
            "broken perf.data file: unknown header size 0 at offset 0x8",
        ),
    ],
)
def test_broken_file_is_refused_by_name_and_offset(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadFileError) as caught:
        read_streams(str(path))
    assert str(caught.value) == f"{path}: {message}"


def test_a_file_that_no_memory_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(_: Path) -> bytes:
        raise MemoryError

    (tmp_path / "huge").touch()
    monkeypatch.setattr(Path, "read_bytes", too_large)
    with pytest.raises(BadFileError, match="huge: is too large for this host"):
        read_streams(str(tmp_path / "huge"))


def test_missing_file_and_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="none: No such file or directory"):
        read_streams(str(tmp_path / "none"))
    with pytest.raises(BadFileError, match="Is a directory"):
        read_streams(str(tmp_path))


def test_recording_that_was_never_closed_holds_its_whole_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 128)
    monkeypatch.setattr("spe_unicorn.output.perf_data.LONGEST", 64)
    path = tmp_path / "a.data"
    writer = open_output(path)
    assert read_streams(str(path)) == []
    for number in range(5):
        writer.write(encode(other(timestamp=number), 6))
    killed = read_file(str(path))
    assert [(found.offset, len(found.data)) for found in killed.streams] == [(0, 128), (128, 128)]
    assert killed.damage == NOT_COMPLETED
    writer.close()
    assert read_file(str(path)).damage is None
    assert sum(len(found.data) for found in read_streams(str(path))) == 5 * 64


def test_samples_in_a_row_are_passed_by_together(tmp_path: Path) -> None:
    """Those before a row's end, at it and after it, one of another size within it, and a cut."""
    path = written(tmp_path / "a.data", [other(timestamp=number) for number in range(4100)])
    whole = path.read_bytes()
    (found,) = read_streams(str(path))
    size = 72  # of a sample without calls
    first = whole.index((9).to_bytes(4, "little") + bytes([2, 0, size, 0]))
    last = first + 4099 * size
    assert whole[last : last + 8] == whole[first : first + 8]
    assert whole[last + size : last + size + 8] != whole[first : first + 8]
    merged = bytearray(whole)
    place = first + 2000 * size
    merged[place + 6 : place + 8] = (2 * size).to_bytes(2, "little")  # it takes in the next one
    (path := tmp_path / "merged.data").write_bytes(merged)
    assert [bytes(each.data) for each in read_streams(str(path))] == [bytes(found.data)]
    merged[place + 6 : place + 8] = (2).to_bytes(2, "little")
    path.write_bytes(merged)
    with pytest.raises(BadFileError, match=f"type 9 has size 2 at offset {place:#x}"):
        read_streams(str(path))


@pytest.mark.parametrize(
    ("count", "context", "size", "calls"),
    [
        (4, USER_CONTEXT, 112, (0x40000104, 0x40000208)),
        (2, USER_CONTEXT, 112, ()),
        (1, USER_CONTEXT, 112, ()),
        (0, USER_CONTEXT, 112, ()),
        (6, USER_CONTEXT, 112, (0x40000104, 0x40000208, 0, 0)),  # they end where the sample does
        (7, USER_CONTEXT, 112, ()),  # and go on behind it
        ((1 << 64) - 1, USER_CONTEXT, 112, ()),
        (4, 0, 112, ()),
        (2, USER_CONTEXT, 80, ()),
        (2, USER_CONTEXT, 72, ()),  # without room for a PC
        (2, USER_CONTEXT, 64, ()),
    ],
)
def test_calls_of_a_sample_are_those_that_it_has_room_for(
    count: int, context: int, size: int, calls: tuple[int, ...]
) -> None:
    sample = bytearray(112)
    sample[:8] = RECORD_HEADER.pack(9, 2, size)
    sample[48:52] = (3).to_bytes(4, "little")
    sample[56:96] = struct.pack("<5Q", count, context, 0x40000000, 0x40000104, 0x40000208)
    sample = sample[:size]
    table = CallTable()
    data = bytes(sample) * 3 + RECORD_HEADER.pack(9, 2, 112)
    whole = _add_calls_of_many(memoryview(data), 0, len(data), table)
    assert whole == (3 * size if size >= 80 else 0)
    if whole:
        assert [table.in_order()(3), table.chains] == [calls, [calls]]
        assert table.of(np.array([3] * 4), np.array([True] * 4)).tolist() == [0, 0, 0, -1]
    one_by_one = CallTable()
    _add_calls(bytes(sample), one_by_one)
    assert one_by_one.in_order()(3) == calls


def test_every_cut_of_perf_data_leaves_what_is_before_it(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.data", [load(), other()]).read_bytes()
    (found,) = read_streams(str(tmp_path / "a.data"))
    cut = tmp_path / "cut.data"
    first = found.file_offset
    data_end = first + len(found.data) + 8  # FINISHED_ROUND is behind the records
    for size in range(0, len(whole), 3):
        cut.write_bytes(whole[:size])
        if size <= first:
            with pytest.raises(BadFileError, match=r"cut\.data: .*"):
                read_file(str(cut))
            continue
        file = read_file(str(cut))
        assert file.streams[0].data == found.data[: max(0, size - first)]
        if size < data_end:
            cause = f"the file is truncated, its data go on to {data_end:#x}, at offset {size:#x}"
            assert cause in file.damage
        else:
            assert file.damage.startswith("the file is truncated: what it says of its recording")
    assert read_file(str(tmp_path / "a.data")).damage is None


def test_recording_that_a_full_disk_ended_before_its_first_chunk_says_so(tmp_path: Path) -> None:
    path = tmp_path / "early.data"
    writer = open_output(path)
    writer.write(encode(other(), 6))
    file = read_file(str(path))
    assert (file.streams, file.damage) == ([], NOT_COMPLETED)
    writer.close()
    file = read_file(str(path))
    assert (len(file.streams), file.damage) == (1, None)


def test_recording_of_a_killed_perf_has_no_data_size_and_is_read_to_its_end(tmp_path: Path) -> None:
    path = written(tmp_path / "a.data", [load(), other()])
    (found,) = read_streams(str(path))
    data = bytearray(path.read_bytes()[: found.file_offset + len(found.data)])
    data[48:56] = bytes(8)
    path.write_bytes(data)
    assert read_file(str(path)).streams == [found]
    data[72:80] = bytes(8)  # nor features
    path.write_bytes(data)
    file = read_file(str(path))
    assert (file.streams, file.damage) == ([found], NOT_COMPLETED)


def test_trace_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.data", [load()])
    data = bytearray(path.read_bytes())
    info = data.index(struct.pack("<IHH", 70, 0, 32))
    data[info + 8] = 3
    path.write_bytes(data)
    with pytest.raises(BadFileError, match="trace is of kind 3, not of Arm SPE"):
        read_streams(str(path))


def test_recording_of_perf_to_a_pipe_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    path.write_bytes(b"PERFILE2" + struct.pack("<Q", 16) + bytes(200))
    with pytest.raises(BadFileError, match="written by perf to a pipe; turn it into a file: perf"):
        read_streams(str(path))


def linux_recording(*more, info=70):
    """A perf.data file as the kernel's perf writes it: two attributes, a longer AUXTRACE_INFO."""

    def record(kind, body, misc=0):
        return struct.pack("<IHH", kind, misc, 8 + len(body)) + body

    sample_id = bytes(32)
    name = b"[kernel.kallsyms]_text".ljust(24, b"\0")
    kernel = struct.pack("<IIQQQ32x", 0xFFFFFFFF, 0, 0xFFFF800080000000, 0x1000000, 0) + name
    library = (
        struct.pack("<IIQQQ32x", 7, 7, 0xAAAA00001000, 0x2000, 0x1000) + b"/usr/bin/dd\0\0\0\0\0"
    )
    trace = stream([load(context_el1=7)])
    data = b"".join(
        (
            record(79, bytes(48)),
            record(info, struct.pack("<I4x", 4) + bytes(8 * 9)),  # with a version, and metadata
            record(10, kernel + sample_id, 1),
            record(10, library + sample_id, 2),
            record(3, struct.pack("<II", 7, 7) + b"dd\0\0\0\0\0\0" + sample_id),
            *more,
            record(11, struct.pack("<QQQ", 0, len(trace), 0) + sample_id),
            record(71, struct.pack("<QQQIII4x", len(trace), 0, 0, 1, 0xFFFFFFFF, 1)) + trace,
            record(68, b""),
        )
    )
    attributes = bytes(2 * 144)
    start = 104 + len(attributes)
    header = struct.pack(
        "<8sQQ6Q", b"PERFILE2", 104, 144, 104, len(attributes), start, len(data), 0, 0
    )
    features = struct.pack("<Q24x", 1 << 3)  # the host's name, after the data
    host = struct.pack("<I4s", 4, b"arm\0")
    place = struct.pack("<QQ", start + len(data) + 16, len(host))
    return header + features + attributes + data + place + host


def test_recording_of_linux_gives_its_streams_maps_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(linux_recording())
    file = read_file(str(path))
    assert [(found.cpu, found.data) for found in file.streams] == [
        (1, stream([load(context_el1=7)])),
    ]
    assert file.threads == {7: "dd"}
    assert [(m.path, m.address, m.size, m.offset) for m in file.mappings] == [
        ("[kernel.kallsyms]_text", 0xFFFF800080000000, 0x1000000, 0),
        ("/usr/bin/dd", 0xAAAA00001000, 0x2000, 0x1000),
    ]
    assert (file.damage, file.digest) == (None, None)


def test_recording_of_something_else_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    whole = linux_recording(info=80)  # no AUXTRACE_INFO
    start = 104 + 288
    cut = whole.index(struct.pack("<IHH", 11, 0, 64))
    path.write_bytes(whole[:48] + struct.pack("<Q", cut - start) + whole[56:cut])
    with pytest.raises(BadFileError, match=r"without a trace of Arm SPE: .* -e arm_spe_0//"):
        read_file(str(path))


# JSON Lines


def test_json_lines_give_back_the_records_and_their_places(tmp_path: Path) -> None:
    records = list(of_every_sort())
    path = written(tmp_path / "a.jsonl", records, cpus=2)
    file = read_file(str(path))
    assert (file.form, file.has_bytes, file.damage) == ("jsonl", False, None)
    lines = [
        record_json(placed.record, stream.offset + placed.start, stream.cpu)
        for stream in file.streams
        for placed in decode_stream(stream.data)
    ]
    assert lines == path.read_text().splitlines()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"cpu": 0, "offset": 64}', "it has no key 'events_raw'"),
        (b'{"cpu": 0, "off', "Unterminated string"),
        (b'{"cpu": 0, "offset": 64, "events_raw": 2, "context_el1": -1}', "CONTEXT packet"),
        (b'{"cpu": 0, "offset": 1, "events_raw": 2, "pc": "0x0", "el": 9, "state": "realm"}', "EL"),
        (b'{"cpu": 0, "offset": 64, "events_raw": 2, "pc": "0x0", "el": 1, "state": "x"}', "'x'"),
        (b"[1]", "list"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_ends_the_reading(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = written(tmp_path / "a.jsonl", [load()])
    whole = path.read_bytes()
    path.write_bytes(whole + line + b"\n" + whole)
    file = read_file(str(path))
    assert len(file.streams) == 1
    assert file.damage.startswith("line 2 is no record of ours: ")
    assert reason in file.damage
    path.write_bytes(b"{" + line)
    with pytest.raises(BadFileError, match="line 1 is no record of ours"):
        read_file(str(path))


# Damage


@pytest.mark.parametrize("size", [0, 7, 0xFFFF])
def test_record_with_an_impossible_size_is_refused(tmp_path: Path, size: int) -> None:
    path = written(tmp_path / "a.data", [load()])
    whole = bytearray(path.read_bytes())
    first = int.from_bytes(whole[40:48], "little")  # the offset of the data section
    whole[first + 6 : first + 8] = size.to_bytes(2, "little")
    path.write_bytes(whole)
    with pytest.raises(BadFileError, match=f"type 79 has size {size} at offset {first:#x}"):
        read_streams(str(path))
