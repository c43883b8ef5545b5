"""perf.data files: their structure by hand, and perf itself as a second reader."""

from __future__ import annotations

import hashlib
import io
import re
import struct
from pathlib import Path

import pytest

from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.output.formats import open_output
from spe_unicorn.output.image import ImageInfo, LoadedSegment, RecordingInfo
from spe_unicorn.output.perf_data import LONGEST, PerfDataWriter
from spe_unicorn.output.perf_samples import perf_samples, records_of
from spe_unicorn.output.perf_tasks import Handover
from spe_unicorn.output.reader import read_file
from spe_unicorn.spe.packets import DataAddress, PacketType
from spe_unicorn.spe.record import decode_stream, encode
from tests.support.perf_reader import (
    DEFAULT_PERIOD,
    NO_CONTEXTS,
    agree,
    clean,
    packets_of_ours,
    packets_of_perf,
    perf,
)
from tests.support.samples import branch, load, of_every_sort, other, pc, store, stream

ROOT = Path(__file__).resolve().parents[2]
HELLO = ROOT / "firmware" / "prebuilt" / "hello.elf"
PIE = ROOT / "firmware" / "prebuilt" / "hello_pie.elf"
LOADED = load_elf(HELLO, 0x4000_0000, 0x800_0000)
TEXT, DATA = (LoadedSegment(part.vaddr, part.offset, part.size) for part in LOADED.segments)
IMAGE = ImageInfo(HELLO, "hello", (TEXT, DATA))
ADDRESSES = {symbol.name: symbol.address for symbol in LOADED.symbols}
MAIN, PRINT_NUMBER = ADDRESSES["main"], ADDRESSES["print_number"]
KERNEL = 0xFF << 56
"""What perf puts above the addresses of EL1 and EL2."""


def written(path, records, image=IMAGE, align=6, **options):
    writer = open_output(path, info=RecordingInfo(image, **options))
    for cpu, record in records:
        writer.write(encode(record, align), cpu)
    writer.close()
    return path


def on_cpu_0(*records):
    return [(0, record) for record in records]


# What is in the file


def test_header_and_attributes_stand_where_perf_expects_them(tmp_path: Path) -> None:
    data = written(tmp_path / "a.data", on_cpu_0(other()), cpus=2, period=1000).read_bytes()
    magic, size, attr_size, attrs, attrs_size, start, length = struct.unpack_from("<8s6Q", data)
    assert (magic, size, attr_size, attrs_size) == (b"PERFILE2", 104, 144, 2 * 144)
    assert attrs == 104 + 2 * 16
    assert start == attrs + 2 * 144
    operations, trace = (struct.unpack_from("<IIQQQQQ", data, attrs + n * 144) for n in (0, 1))
    flags = 0x840322  # inherit, exclude_kernel, mmap, comm, sample_id_all, mmap2
    # the hardware event instructions; and ADDR and WEIGHT
    assert operations == (0, 128, 1, 1000, 0x1C08F, 4, flags)
    assert trace == (9, 128, 0, 1, 0x18087, 4, flags)
    for n, numbers in ((0, (3, 4)), (1, (1, 2))):
        ids, ids_size = struct.unpack_from("<QQ", data, attrs + n * 144 + 128)
        assert struct.unpack_from(f"<{ids_size // 8}Q", data, ids) == numbers
    bits = struct.unpack_from("<4Q", data, 72)
    assert bits == (1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 18, 0, 0, 0)
    assert start + length < len(data)


def records_in(data):
    """The records of the data section: type, misc, offset and body."""
    start, length = struct.unpack_from("<QQ", data, 40)
    position = start
    while position < start + length:
        kind, misc, size = struct.unpack_from("<IHH", data, position)
        yield kind, misc, position, data[position + 8 : position + size]
        position += size
        if kind == 71:
            position += struct.unpack_from("<Q", data, position - size + 8)[0]


def test_records_come_in_the_order_that_perf_needs(tmp_path: Path) -> None:
    records = [(0, other(context_el1=5)), (1, other(el=0))]
    data = written(tmp_path / "a.data", records, cpus=2).read_bytes()
    assert [kind for kind, *_ in records_in(data)] == [
        *(79, 70),  # TIME_CONV, AUXTRACE_INFO
        *(10, 10),  # MMAP2 for the kernel
        *(3, 10, 10, 9),  # COMM of the context, MMAP2 of its process, SAMPLE
        *(11, 71),  # AUX and AUXTRACE of cpu 0
        *(3, 9, 11, 71),  # of cpu 1, with a thread of the same process
        68,  # FINISHED_ROUND
    ]


def test_perf_is_told_which_core_each_cpu_is(tmp_path: Path) -> None:
    # perf's tools/perf/util/arm-spe.h: a header of four words, in which the version is anything but
    # 1, and of each cpu a magic number, the cpu, how many words follow, MIDR, PMU type, interval.
    # 6.1 takes the first word for the PMU type, which is that of the second event: 9.
    midr = 0x414F_D0C1
    path = tmp_path / "a.data"
    with path.open("wb") as file:
        PerfDataWriter(file, RecordingInfo(cpus=2, midr=midr)).close()
    (info,) = (data[8:] for kind, _, _, data in records_in(path.read_bytes()) if kind == 70)
    of_each = [(0x1010101010101010, cpu, 3, midr, 9, 0) for cpu in range(2)]
    assert struct.unpack("<16Q", info) == (9, 4, 9, 2, *of_each[0], *of_each[1])


@pytest.mark.parametrize("name", [b"", bytes(range(1, 21))])
def test_mappings_tell_protections_and_the_build_id(tmp_path: Path, name: bytes) -> None:
    # perf_event_open(2), PERF_RECORD_MMAP2: address, length, offset at 8, 16, 24 behind pid and
    # tid; then the build id or the device; PROT_READ is 1, PROT_WRITE 2, PROT_EXEC 4, MAP_PRIVATE 2
    segments = (LoadedSegment(0x1000, 0, 16, 5), LoadedSegment(0x2000, 16, 16, 6))
    image = ImageInfo(HELLO, "hello", segments, name)
    path = tmp_path / "a.data"
    with path.open("wb") as file:
        PerfDataWriter(file, RecordingInfo(image)).close()
    told = [(misc, body) for kind, misc, _, body in records_in(path.read_bytes()) if kind == 10]
    assert len(told) == 2
    for (misc, body), protection in zip(told, (1 | 4, 1 | 2), strict=True):
        assert misc == 1 | (1 << 14 if name else 0)  # the kernel's; by build id
        assert struct.unpack_from("<B3x20sII", body, 32) == (
            *(len(name), name.ljust(20, b"\0")),
            *(protection, 2),
        )
        assert body[64:].startswith(bytes(HELLO.absolute()) + b"\0")


def test_every_record_starts_on_8_bytes_even_where_ours_do_not(tmp_path: Path) -> None:
    path = written(tmp_path / "a.data", on_cpu_0(other(), other(timestamp=None)), align=0)
    data = path.read_bytes()
    assert all(offset % 8 == 0 for _, _, offset, _ in records_in(data))
    (aux,) = (body for kind, *_, body in records_in(data) if kind == 11)
    assert struct.unpack_from("<QQQ", aux) == (0, 40, 0)  # 23 + 15 bytes and 2 of padding


def test_index_leads_to_each_piece_of_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 64)
    data = written(tmp_path / "a.data", on_cpu_0(*[other()] * 3)).read_bytes()
    start, length = struct.unpack_from("<QQ", data, 40)
    index_at, index_size = struct.unpack_from("<QQ", data, start + length + 5 * 16)
    count, *entries = struct.unpack_from(f"<{index_size // 8}Q", data, index_at)
    traces = [offset for kind, _, offset, _ in records_in(data) if kind == 71]
    assert count == 3
    assert entries == [number for offset in traces for number in (offset, 48)]


def test_kernel_maps_carry_the_top_byte_and_user_maps_do_not(tmp_path: Path) -> None:
    data = written(tmp_path / "a.data", on_cpu_0(other(el=0))).read_bytes()
    maps = [
        (misc, *struct.unpack_from("<IIQQQ", b)) for k, misc, _, b in records_in(data) if k == 10
    ]
    assert maps == [
        (1, 0xFFFFFFFF, 0, KERNEL | TEXT.vaddr, TEXT.size, TEXT.offset),
        (1, 0xFFFFFFFF, 0, KERNEL | DATA.vaddr, DATA.size, DATA.offset),
        (2, 1, 1, TEXT.vaddr, TEXT.size, TEXT.offset),
        (2, 1, 1, DATA.vaddr, DATA.size, DATA.offset),
    ]


def test_an_ordinary_sample_says_what_its_record_says(tmp_path: Path) -> None:
    record = load(
        pc=pc(MAIN, 1),
        context_el1=3,
        context_el2=9,
        va=DataAddress(0x7F << 56 | 0x1234),
        counters=((0, 55), (1, 4)),
        timestamp=1000,
        data_source=0x8,
        events=0b10110,  # retired, an access to the first level and to the TLB
    )
    records = [(1, record), (1, other(pc=pc(MAIN + 4, 1)))]
    data = written(tmp_path / "a.data", records, cpus=2).read_bytes()
    samples = [
        (misc, *struct.unpack("<QQIIQQI4xQQ", b)) for k, misc, _, b in records_in(data) if k == 9
    ]
    l2_hit = 2 << 0 | (0x20 | 2) << 5 | 1 << 19 | 1 << 24 | (8 | 2) << 26
    nothing = 1 << 0 | 1 << 5 | 1 << 19 | 1 << 24 | 1 << 26
    ticks = other().timestamp
    assert samples == [
        # of user mode; id, IP, pid, tid, time in ns, address, cpu, weight, data source
        (2, 4, MAIN, 1, 9, 16_000, 0x1234, 1, 55, l2_hit),
        (2, 4, MAIN + 4, 1, 1, ticks * 16, 0, 1, other().counter(0) or 0, nothing),
    ]


def test_thread_0_is_a_process_of_its_own(tmp_path: Path) -> None:
    records = [other(context_el1=0), other(), other(context_el1=7), other(context_el1=0)]
    data = written(tmp_path / "a.data", on_cpu_0(*records)).read_bytes()
    tasks = [(k, *struct.unpack_from("<II", b)) for k, m, _, b in records_in(data) if k == 3]
    tasks += [
        (k, *struct.unpack_from("<II", b)) for k, m, _, b in records_in(data) if (k, m) == (10, 2)
    ]
    tasks += [(k, *struct.unpack_from("<II", b, 16)) for k, m, _, b in records_in(data) if k == 9]
    assert tasks == [
        *((3, 0, 0), (3, 1, 1), (3, 1, 7)),
        *((10, 0, 0), (10, 0, 0), (10, 1, 1), (10, 1, 1)),
        *((9, 0, 0), (9, 1, 1), (9, 1, 7), (9, 0, 0)),
    ]


def test_records_of_another_order_have_the_same_samples() -> None:
    records = [*of_every_sort()] * 2
    in_order = stream(records, 6)
    # Padding within a record, as some cores write it, sends the reader another way.
    first = encode(other(), 0)
    padded = first[:-9] + bytes(7) + first[-9:]
    assert by_record(in_order) == by_record(padded + in_order)[1:]
    assert by_record(padded) == by_record(first)
    assert len(by_record(in_order)) == sum(one.pc is not None for one in records)


def by_record(data: bytes) -> list[tuple[int, ...]]:
    """The samples of records, each as a tuple without the number of its record."""
    _, *columns = perf_samples(records_of(data))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_memory_for_waiting_records_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 4096)
    path = tmp_path / "a.data"
    writer = open_output(path)
    for _ in range(1000):
        writer.write(encode(other(), 6))
        assert len(writer._pending[0]) < 4096 + LONGEST
    writer.close()
    assert path.stat().st_size > 64_000


@pytest.mark.parametrize("calls", [False, True])
def test_the_file_is_the_same_however_many_records_come_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: bool
) -> None:
    """How many do depends on the speed of the host. The third thread is new within a chunk."""
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 600)
    monkeypatch.setattr("spe_unicorn.output.perf_data.LONGEST", 256)
    records = [
        encode(other(timestamp=number, context_el1=number // 15), number % 3 + 5)
        for number in range(40)
    ]
    led = [(0x1000 + number,) * (number % 3) for number in range(40)]
    files = []
    for step in (1, 7, 40):
        path = tmp_path / f"{step}.data"
        writer = open_output(path, info=RecordingInfo(IMAGE, calls=calls))
        for at in range(0, 40, step):
            writer.write(b"".join(records[at : at + step]), calls=led[at : at + step])
        writer.close()
        files.append(path.read_bytes())
    assert files[0] == files[1] == files[2]
    pieces = [body for kind, _, _, body in records_in(files[0]) if kind == 71]
    assert len(pieces) > 3


def test_a_time_that_64_bits_do_not_hold_goes_round_as_in_perf(tmp_path: Path) -> None:
    """The guest's offset makes times of the virtual counter any number."""
    record = other(timestamp=(1 << 64) - 3)
    path = written(tmp_path / "a.data", on_cpu_0(record), frequency=62_500_000)
    (body,) = (body for kind, _, _, body in records_in(path.read_bytes()) if kind == 9)
    assert struct.unpack_from("<Q", body, 24) == ((1 << 64) - 3 * 16,)


def test_times_are_nanoseconds_by_the_frequency(tmp_path: Path) -> None:
    for frequency, shifted in ((62_500_000, 16 << 16), (1_000_000_000, 1 << 16)):
        path = written(tmp_path / "a.data", [], frequency=frequency)
        (body,) = (body for kind, *_, body in records_in(path.read_bytes()) if kind == 79)
        assert struct.unpack_from("<QQ", body) == (16, shifted)


class FullDisk(io.BytesIO):
    """A file that takes so many bytes and no more."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def write(self, data):
        if self.tell() + len(data) > self.room:
            raise OSError(28, "No space left on device")
        return super().write(data)

    def close(self):
        self.content = self.getvalue() if not self.closed else self.content
        super().close()


def fill(writer, count):
    for number in range(count):
        writer.write(encode(other(timestamp=number), 6))


def test_full_disk_leaves_the_whole_chunks_that_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 1024)
    writer = open_output(tmp_path / "whole.data")
    fill(writer, 112)
    writer.close()
    chunks = read_file(str(tmp_path / "whole.data")).streams
    assert len(chunks) == 7
    for room in range(2000, 12000, 997):
        file = FullDisk(room)
        writer = PerfDataWriter(file, RecordingInfo())
        with pytest.raises(OSError, match="No space left"):
            fill(writer, 1000)
        writer.close()
        path = tmp_path / "full.data"
        path.write_bytes(file.content)
        found = read_file(str(path))
        assert found.damage == "the recording was not completed: what came last is missing"
        fitted = [chunk for chunk in chunks if chunk.file_offset + len(chunk.data) <= room]
        assert found.streams == fitted[: len(found.streams)]
        assert len(found.streams) == len(fitted) or room > chunks[-1].file_offset
        assert len(packets_of_perf(clean(perf("report", "-D", "-i", path)))) == len(found.streams)


# What perf reads


@pytest.mark.parametrize("align", [0, 3, 6])
def test_perf_reads_every_packet_as_we_do(tmp_path: Path, align: int) -> None:
    records = list(of_every_sort())
    path = written(tmp_path / "a.data", on_cpu_0(*records), align=align)
    (theirs,) = packets_of_perf(clean(perf("report", "-D", "-i", path)))
    data = stream(records, align)
    ours = packets_of_ours(data + bytes(-len(data) % 8))
    assert [packet[:2] for packet in theirs] == [packet[:2] for packet in ours]
    for (offset, _, their_text), (_, _, our_text) in zip(theirs, ours, strict=True):
        assert agree(their_text, our_text), (hex(offset), their_text, our_text)


def test_perf_counts_as_many_records_as_were_written(tmp_path: Path) -> None:
    records = [*[load(), store(), branch(timestamp=None), other()] * 25]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    (packets,) = packets_of_perf(clean(perf("report", "-D", "-i", path)))
    terminators = [text for _, _, text in packets if text.split()[0] in ("TS", "END")]
    assert len(terminators) == 100


def test_perf_reads_a_trace_of_each_cpu_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 128)
    records = [(number % 3, other(timestamp=number)) for number in range(12)]
    path = written(tmp_path / "a.data", records, cpus=3)
    dump = clean(perf("report", "-D", "-i", path))
    assert len(packets_of_perf(dump)) == 6
    script = clean(perf("script", "-i", path), NO_CONTEXTS, DEFAULT_PERIOD)
    cpus = re.findall(r"\[(\d{3})\] .* operations:", script)
    assert [int(cpu) for cpu in cpus] == [number % 3 for number in range(12)]


def samples_of(path, event, *warnings):
    """Program, thread, address and symbol of the samples of an event in `perf script`."""
    fields = "comm,tid,event,ip,sym,symoff,dso"
    done = perf("script", "--itrace=i1i", "-F", fields, "-i", path)
    lines = clean(done, *warnings).splitlines()
    found = [line.split() for line in lines]
    return [(comm, tid, ip, sym) for comm, tid, of, ip, sym, *_ in found if of == f"{event}:"]


@pytest.mark.parametrize("el", [0, 1, 2, 3])
@pytest.mark.parametrize("ns", [0, 1])
def test_perf_finds_symbols_of_ordinary_samples_at_the_addresses_of_the_file(
    tmp_path: Path, el: int, ns: int
) -> None:
    records = [load(pc=pc(MAIN + 4, el, ns), context_el1=c) for c in (None, 0, 5)]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    assert samples_of(path, "operations", NO_CONTEXTS) == [
        ("hello", thread, f"{MAIN + 4:x}", "main+0x4") for thread in ("1", "0", "5")
    ]


@pytest.mark.parametrize(("el", "nse"), [(1, 0), (2, 0), (1, 1)])
def test_perf_finds_symbols_for_el1_and_el2(tmp_path: Path, el: int, nse: int) -> None:
    records = [
        load(pc=pc(MAIN + 4, el, 1, nse)),
        store(pc=pc(PRINT_NUMBER, el, 1, nse)),
        other(pc=pc(PRINT_NUMBER + 8, el, 1, nse)),
    ]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    assert samples_of(path, "instructions", NO_CONTEXTS) == [
        ("hello", "1", f"{KERNEL + MAIN + 4:x}", "main+0x4"),
        ("hello", "1", f"{KERNEL + PRINT_NUMBER:x}", "print_number+0x0"),
        ("hello", "1", f"{KERNEL + PRINT_NUMBER + 8:x}", "print_number+0x8"),
    ]


@pytest.mark.parametrize(("el", "ns"), [(0, 1), (1, 0), (3, 0)])
def test_perf_finds_symbols_for_el0_and_secure_state(tmp_path: Path, el: int, ns: int) -> None:
    records = [load(pc=pc(MAIN + 4, el, ns)), other(pc=pc(PRINT_NUMBER, el, ns))]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    assert samples_of(path, "instructions", NO_CONTEXTS) == [
        ("hello", "1", f"{MAIN + 4:x}", "main+0x4"),
        ("hello", "1", f"{PRINT_NUMBER:x}", "print_number+0x0"),
    ]


def test_perf_takes_contexts_for_threads_of_the_firmware(tmp_path: Path) -> None:
    records = [
        load(MAIN, 1, context_el1=0x1234),
        load(MAIN + 4, 0, context_el1=0x1234),
        load(MAIN + 8, 0, context_el1=0x77),
        load(PRINT_NUMBER, 1, context_el1=0x77),
    ]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    assert samples_of(path, "instructions") == [
        ("hello", "4660", f"{KERNEL + MAIN:x}", "main+0x0"),
        ("hello", "4660", f"{MAIN + 4:x}", "main+0x4"),
        ("hello", "119", f"{MAIN + 8:x}", "main+0x8"),
        ("hello", "119", f"{KERNEL + PRINT_NUMBER:x}", "print_number+0x0"),
    ]


def test_perf_finds_symbols_of_a_moved_image(tmp_path: Path) -> None:
    moved = ImageInfo(PIE, "pie", (LoadedSegment(0x48000000, 0x1000, 0x3340),))
    path = written(tmp_path / "a.data", on_cpu_0(other(0x48000000), other(0x48000000, 0)), moved)
    assert [symbol for *_, symbol in samples_of(path, "instructions", NO_CONTEXTS)] == [
        "_start+0x0",
        "_start+0x0",
    ]


def test_perf_report_shows_the_shares_of_functions_of_all_operations(tmp_path: Path) -> None:
    records = [other(MAIN, context_el1=1)] * 3 + [other(PRINT_NUMBER, context_el1=1)]
    path = written(tmp_path / "a.data", on_cpu_0(*records), period=1000)
    report = clean(perf("report", "--stdio", "-i", path), DEFAULT_PERIOD)
    assert re.findall("of event '(.*)'\n# Event count .*: (.*)", report) == [("operations", "4000")]
    row = r"^ +[\d.]+% +([\d.]+)% +(\S+) +(\S+) +\[(.)\] (\S+)"  # children, self
    rows = re.findall(row, report, re.MULTILINE)
    assert rows == [
        ("75.00", "hello", "hello.elf", ".", "main"),
        ("25.00", "hello", "hello.elf", ".", "print_number"),
    ]


def test_perf_report_shows_all_operations_before_its_own_events(tmp_path: Path) -> None:
    records = [load(PRINT_NUMBER, context_el1=1), branch(MAIN, context_el1=1)]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    report = clean(perf("report", "--stdio", "-i", path), DEFAULT_PERIOD)
    events = re.findall("of event '(.*)'", report)
    assert events[0] == "operations"
    assert {"l1d-miss", "branch-miss"} < set(events)


def test_perf_shows_the_time_in_seconds(tmp_path: Path) -> None:
    # One tick of 62.5 MHz is 16 ns.
    path = written(tmp_path / "a.data", on_cpu_0(other(timestamp=62_500_000)))
    script = clean(perf("script", "--itrace=i1i", "-F", "event,time", "-i", path), NO_CONTEXTS)
    times = dict(reversed(line.split()) for line in script.splitlines())
    assert times == {"operations:": "1.000000:", "instructions:": "1.000000:"}


def test_perf_names_the_data_source_of_a_known_core(tmp_path: Path) -> None:
    neoverse_n1 = 0x413FD0C1
    record = load(MAIN, context_el1=1, data_source=0xE)
    for midr, named in ((neoverse_n1, True), (None, False)):
        path = written(tmp_path / "a.data", on_cpu_0(record), midr=midr)
        script = clean(perf("script", "--itrace=M", "-F", "event,data_src", "-i", path))
        sources = dict(line.split(":", 1) for line in script.replace(" ", "").splitlines())
        assert ("RAM" in sources["memory"]) is named
        assert "LocalRAMhit" in sources["operations"]


def test_perf_mem_finds_the_symbols_of_code_and_data(tmp_path: Path) -> None:
    boot_info, neoverse_n1 = ADDRESSES["boot_info"], 0x413FD0C1
    record = load(MAIN, 0, context_el1=1, data_source=8, va=DataAddress(boot_info))
    path = written(tmp_path / "a.data", on_cpu_0(record), midr=neoverse_n1)
    done = perf("mem", "report", "--stdio", "--itrace=M", "--sort=sym,symbol_daddr,mem", "-i", path)
    assert re.search(r" main +\[\.\] boot_info\S* +L2 ", clean(done))


def test_perf_knows_the_events_by_their_names(tmp_path: Path) -> None:
    path = written(tmp_path / "a.data", on_cpu_0(other()), cpus=2)
    assert clean(perf("evlist", "-i", path)) == "operations\narm_spe_0//\n"
    header = clean(perf("report", "--header-only", "-i", path))
    assert re.findall("id = (.*?})", header) == ["{ 3, 4 }", "{ 1, 2 }"]


def test_perf_shows_what_was_recorded_with_its_digest(tmp_path: Path) -> None:
    digest = hashlib.sha256(HELLO.read_bytes()).hexdigest()
    path = written(tmp_path / "a.data", on_cpu_0(other()), midr=0x413FD0C1)
    header = clean(perf("report", "--header-only", "-i", path))
    assert f"# os release : hello.elf sha256:{digest}\n" in header
    assert read_file(str(path)).digest == digest


def test_an_image_that_is_gone_has_no_digest(tmp_path: Path) -> None:
    gone = ImageInfo(tmp_path / "gone.elf", "gone", ())
    path = written(tmp_path / "a.data", on_cpu_0(other()), gone)
    assert read_file(str(path)).digest is None
    assert read_file(str(written(tmp_path / "b.data", [], None))).digest is None


def test_records_without_an_image_are_read_too(tmp_path: Path) -> None:
    path = written(tmp_path / "a.data", on_cpu_0(load(el=0), other()), image=None)
    assert len(packets_of_perf(clean(perf("report", "-D", "-i", path)))) == 1


def test_every_sort_of_packet_is_among_those_compared() -> None:
    placed = list(decode_stream(stream(of_every_sort())))
    kinds = {packet.type for found in placed for _, packet in found.packets}
    assert kinds == set(PacketType) - {PacketType.PADDING}


def test_management_events_are_pieces_without_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    writer = PerfDataWriter(
        path.open("wb"), RecordingInfo(cpus=2, command=("spe-unicorn", "run", "a file"))
    )
    writer.write(encode(other(timestamp=100), 6), 1)
    writer.manage(62_500_000, False, cpu=1)  # one tick is 16 ns
    writer.manage(62_500_001, True, cpu=1)
    writer.manage(62_500_002, True, 0x24, cpu=1)  # PMBSR_EL1.EC: a fault at stage 1
    writer.manage(62_500_003, False, 0x25, cpu=1)
    writer.manage(62_500_004, False, 0x44, cpu=1)
    writer.close()
    found = read_file(str(path))
    assert found.handovers == [
        Handover(1_000_000_000, 1, 0, 0),
        Handover(1_000_000_016, 1, 0, 1),
        Handover(1_000_000_032, 1, 0, 0x2401),
        Handover(1_000_000_048, 1, 0, 0x2500),
        Handover(1_000_000_064, 1, 0, 0x4400),
    ]
    assert [piece.text for piece in found.handovers] == [
        "buffer full",
        "data lost",
        "fault at stage 1, data lost",
        "fault at stage 2",
        "record too large",
    ]
    assert found.clocks[-1].ticks(1_000_000_016) == 62_500_001
    assert found.command == "spe-unicorn run 'a file'"
    dump = perf("report", "-D", "-i", str(path)).stdout
    assert re.findall(
        r"(\d+) \S+ \[\S+\]: PERF_RECORD_AUX offset: 0 size: 0 flags: (\S+)", dump
    ) == [
        ("1000000000", "0"),
        ("1000000016", "0x1"),
        ("1000000032", "0x2401"),
        ("1000000048", "0x2500"),
        ("1000000064", "0x4400"),
    ]
    header = perf("report", "--header-only", "-i", str(path)).stdout
    assert "# cmdline : spe-unicorn run a file" in header
