"""perf.data files: their structure by hand, and perf itself as a second reader."""

import re
import struct
from pathlib import Path

import pytest

from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.output.formats import open_output
from spe_unicorn.output.image import ImageInfo, LoadedSegment
from spe_unicorn.spe.packets import DataAddress, PacketType
from spe_unicorn.spe.record import decode_stream, encode
from tests.output.perf_reader import (
    DEFAULT_PERIOD,
    HOST_IS_NO_AARCH64,
    NO_CONTEXTS,
    agree,
    clean,
    packets_of_ours,
    packets_of_perf,
    perf,
)
from tests.output.samples import branch, load, of_every_sort, other, pc, store, stream

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
    writer = open_output(path, image=image, **options)
    for cpu, record in records:
        writer.write(encode(record, align), cpu)
    writer.close()
    return path


def on_cpu_0(*records):
    return [(0, record) for record in records]


# What is in the file


def test_header_and_attribute_stand_where_perf_expects_them(tmp_path):
    data = written(tmp_path / "a.data", on_cpu_0(other()), cpus=2).read_bytes()
    magic, size, attr_size, attrs, attrs_size, start, length = struct.unpack_from("<8s6Q", data)
    assert (magic, size, attr_size, attrs_size) == (b"PERFILE2", 104, 144, 144)
    assert attrs == 104 + 16
    assert start == attrs + 144
    pmu, version = struct.unpack_from("<II", data, attrs)
    sample_type, read_format, flags = struct.unpack_from("<QQQ", data, attrs + 24)
    assert (pmu, version, sample_type, read_format) == (9, 128, 0x18087, 4)
    assert flags == 0x40322  # inherit, exclude_kernel, mmap, comm, sample_id_all
    ids, ids_size = struct.unpack_from("<QQ", data, attrs + 128)
    assert struct.unpack_from(f"<{ids_size // 8}Q", data, ids) == (1, 2)
    bits = struct.unpack_from("<4Q", data, 72)
    assert bits == (1 << 3 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 18, 0, 0, 0)
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


def test_records_come_in_the_order_that_perf_needs(tmp_path):
    records = [(0, other(context_el1=5)), (1, other(el=0))]
    data = written(tmp_path / "a.data", records, cpus=2).read_bytes()
    assert [kind for kind, *_ in records_in(data)] == [
        *(79, 70),  # TIME_CONV, AUXTRACE_INFO
        *(3, 1, 1),  # COMM, MMAP for the kernel
        3,  # COMM of the context
        *(1, 1),  # MMAP for EL0
        *(11, 71, 11, 71),  # AUX and AUXTRACE by cpu
        68,  # FINISHED_ROUND
    ]


def test_every_record_starts_on_8_bytes_even_where_ours_do_not(tmp_path):
    path = written(tmp_path / "a.data", on_cpu_0(other(), other(timestamp=None)), align=0)
    data = path.read_bytes()
    assert all(offset % 8 == 0 for _, _, offset, _ in records_in(data))
    (aux,) = (body for kind, *_, body in records_in(data) if kind == 11)
    assert struct.unpack_from("<QQQ", aux) == (0, 40, 0)  # 23 + 15 bytes and 2 of padding


def test_index_leads_to_each_piece_of_trace(tmp_path, monkeypatch):
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 64)
    data = written(tmp_path / "a.data", on_cpu_0(*[other()] * 3)).read_bytes()
    start, length = struct.unpack_from("<QQ", data, 40)
    index_at, index_size = struct.unpack_from("<QQ", data, start + length + 4 * 16)
    count, *entries = struct.unpack_from(f"<{index_size // 8}Q", data, index_at)
    traces = [offset for kind, _, offset, _ in records_in(data) if kind == 71]
    assert count == 3
    assert entries == [number for offset in traces for number in (offset, 48)]


def test_kernel_maps_carry_the_top_byte_and_user_maps_do_not(tmp_path):
    data = written(tmp_path / "a.data", on_cpu_0(other(el=0))).read_bytes()
    maps = [
        (misc, *struct.unpack_from("<IIQQQ", b)) for k, misc, _, b in records_in(data) if k == 1
    ]
    assert maps == [
        (1, 0xFFFFFFFF, 0, KERNEL | TEXT.vaddr, TEXT.size, TEXT.offset),
        (1, 0xFFFFFFFF, 0, KERNEL | DATA.vaddr, DATA.size, DATA.offset),
        (2, 1, 1, TEXT.vaddr, TEXT.size, TEXT.offset),
        (2, 1, 1, DATA.vaddr, DATA.size, DATA.offset),
    ]


@pytest.mark.parametrize(
    ("el", "ns", "nse", "mapped"),
    [(0, 1, 0, True), (1, 1, 0, False), (2, 1, 0, False), (1, 0, 0, True), (3, 0, 0, True),
     (1, 1, 1, False)],
)  # fmt: skip
def test_process_is_mapped_only_for_addresses_that_are_not_the_kernel_s(
    tmp_path, el, ns, nse, mapped
):
    record = load(pc=pc(MAIN, el, ns, nse), context_el1=3, context_el2=9)
    data = written(tmp_path / "a.data", on_cpu_0(record)).read_bytes()
    maps = [body for kind, misc, _, body in records_in(data) if kind == 1 and misc == 2]
    assert len(maps) == (2 if mapped else 0)
    comms = [struct.unpack_from("<I", body)[0] for kind, *_, body in records_in(data) if kind == 3]
    assert comms == [1, 9]  # perf takes the last context of a record


def test_memory_for_waiting_records_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 4096)
    path = tmp_path / "a.data"
    writer = open_output(path)
    for _ in range(1000):
        writer.write(encode(other(), 6))
        assert len(writer._pending[0]) < 4096
    writer.close()
    assert path.stat().st_size > 64_000


def test_times_are_nanoseconds_by_the_frequency(tmp_path):
    for frequency, shifted in ((62_500_000, 16 << 16), (1_000_000_000, 1 << 16)):
        path = written(tmp_path / "a.data", [], frequency=frequency)
        (body,) = (body for kind, *_, body in records_in(path.read_bytes()) if kind == 79)
        assert struct.unpack_from("<QQ", body) == (16, shifted)


# What perf reads


@pytest.mark.parametrize("align", [0, 3, 6])
def test_perf_reads_every_packet_as_we_do(tmp_path, align):
    records = list(of_every_sort())
    path = written(tmp_path / "a.data", on_cpu_0(*records), align=align)
    (theirs,) = packets_of_perf(clean(perf("report", "-D", "-i", path), HOST_IS_NO_AARCH64))
    data = stream(records, align)
    ours = packets_of_ours(data + bytes(-len(data) % 8))
    assert [packet[:2] for packet in theirs] == [packet[:2] for packet in ours]
    for (offset, _, their_text), (_, _, our_text) in zip(theirs, ours, strict=True):
        assert agree(their_text, our_text), (hex(offset), their_text, our_text)


def test_perf_counts_as_many_records_as_were_written(tmp_path):
    records = [*[load(), store(), branch(timestamp=None), other()] * 25]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    (packets,) = packets_of_perf(clean(perf("report", "-D", "-i", path)))
    terminators = [text for _, _, text in packets if text.split()[0] in ("TS", "END")]
    assert len(terminators) == 100


def test_perf_reads_a_trace_of_each_cpu_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("spe_unicorn.output.perf_data.CHUNK", 128)
    records = [(number % 3, other(timestamp=number)) for number in range(12)]
    path = written(tmp_path / "a.data", records, cpus=3)
    dump = clean(perf("report", "-D", "-i", path))
    assert len(packets_of_perf(dump)) == 6
    script = clean(perf("script", "--itrace=i1i", "-i", path), NO_CONTEXTS)
    cpus = re.findall(r"\[(\d{3})\]", script)
    assert [int(cpu) for cpu in cpus] == [number % 3 for number in range(12)]


def samples_of(path, *warnings, itrace="--itrace=i1i"):
    """Program, thread, address and symbol of each sample that `perf script` prints."""
    done = perf("script", itrace, "-F", "comm,tid,ip,sym,symoff,dso", "-i", path)
    lines = clean(done, *warnings).splitlines()
    return [tuple(re.match(r"(\S+) +(\d+) +(\S+) (\S+)", line.strip()).groups()) for line in lines]


@pytest.mark.parametrize(("el", "nse"), [(1, 0), (2, 0), (1, 1)])
def test_perf_finds_symbols_for_el1_and_el2(tmp_path, el, nse):
    records = [
        load(pc=pc(MAIN + 4, el, 1, nse)),
        store(pc=pc(PRINT_NUMBER, el, 1, nse)),
        other(pc=pc(PRINT_NUMBER + 8, el, 1, nse)),
    ]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    assert samples_of(path, NO_CONTEXTS) == [
        ("hello", "1", f"{KERNEL + MAIN + 4:x}", "main+0x4"),
        ("hello", "1", f"{KERNEL + PRINT_NUMBER:x}", "print_number+0x0"),
        ("hello", "1", f"{KERNEL + PRINT_NUMBER + 8:x}", "print_number+0x8"),
    ]


@pytest.mark.parametrize(("el", "ns"), [(0, 1), (1, 0), (3, 0)])
def test_perf_finds_symbols_for_el0_and_secure_state(tmp_path, el, ns):
    records = [load(pc=pc(MAIN + 4, el, ns)), other(pc=pc(PRINT_NUMBER, el, ns))]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    assert samples_of(path, NO_CONTEXTS, HOST_IS_NO_AARCH64) == [
        ("hello", "1", f"{MAIN + 4:x}", "main+0x4"),
        ("hello", "1", f"{PRINT_NUMBER:x}", "print_number+0x0"),
    ]


def test_perf_takes_contexts_for_threads_of_the_firmware(tmp_path):
    records = [
        load(MAIN, 1, context_el1=0x1234),
        load(MAIN + 4, 0, context_el1=0x1234),
        load(MAIN + 8, 0, context_el1=0x77),
        load(PRINT_NUMBER, 1, context_el1=0x77),
    ]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    assert samples_of(path, HOST_IS_NO_AARCH64) == [
        ("hello", "4660", f"{KERNEL + MAIN:x}", "main+0x0"),
        ("hello", "4660", f"{MAIN + 4:x}", "main+0x4"),
        ("hello", "119", f"{MAIN + 8:x}", "main+0x8"),
        ("hello", "119", f"{KERNEL + PRINT_NUMBER:x}", "print_number+0x0"),
    ]


def test_perf_finds_symbols_of_a_moved_image(tmp_path):
    moved = ImageInfo(PIE, "pie", (LoadedSegment(0x48000000, 0x1000, 0x3340),))
    path = written(tmp_path / "a.data", on_cpu_0(other(0x48000000), other(0x48000000, 0)), moved)
    assert [symbol for *_, symbol in samples_of(path, NO_CONTEXTS, HOST_IS_NO_AARCH64)] == [
        "_start+0x0",
        "_start+0x0",
    ]


def test_perf_report_shows_the_shares_of_functions(tmp_path):
    records = [other(MAIN, context_el1=1)] * 3 + [load(PRINT_NUMBER, context_el1=1)]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    report = clean(perf("report", "--stdio", "--itrace=i1i", "-i", path))
    rows = re.findall(r"^ +([\d.]+)% +(\S+) +(\S+) +\[(.)\] (\S+)", report, re.MULTILINE)
    assert rows == [
        ("75.00", "hello", "hello.elf", "k", "main"),
        ("25.00", "hello", "hello.elf", "k", "print_number"),
    ]


def test_perf_report_without_options_groups_by_event(tmp_path):
    records = [load(PRINT_NUMBER, context_el1=1), branch(MAIN, context_el1=1)]
    path = written(tmp_path / "a.data", on_cpu_0(*records))
    report = clean(perf("report", "--stdio", "-i", path), DEFAULT_PERIOD)
    assert "of event 'l1d-miss'" in report
    assert "of event 'branch-miss'" in report


def test_perf_shows_the_time_in_seconds(tmp_path):
    # One tick of 62.5 MHz is 16 ns.
    path = written(tmp_path / "a.data", on_cpu_0(other(timestamp=62_500_000)))
    script = clean(perf("script", "--itrace=i1i", "-F", "time", "-i", path), NO_CONTEXTS)
    assert script.split() == ["1.000000:"]


def test_perf_names_the_data_source_of_a_known_core(tmp_path):
    neoverse_n1 = 0x413FD0C1
    record = load(MAIN, context_el1=1, data_source=0xE)
    path = written(tmp_path / "a.data", on_cpu_0(record), midr=neoverse_n1)
    script = clean(perf("script", "--itrace=M", "-F", "data_src", "-i", path))
    assert "RAM" in script
    without = written(tmp_path / "b.data", on_cpu_0(record))
    assert "RAM" not in clean(perf("script", "--itrace=M", "-F", "data_src", "-i", without))


def test_perf_mem_finds_the_symbols_of_code_and_data(tmp_path):
    boot_info, neoverse_n1 = ADDRESSES["boot_info"], 0x413FD0C1
    record = load(MAIN, 0, context_el1=1, data_source=8, va=DataAddress(boot_info))
    path = written(tmp_path / "a.data", on_cpu_0(record), midr=neoverse_n1)
    done = perf("mem", "report", "--stdio", "--itrace=M", "--sort=sym,symbol_daddr,mem", "-i", path)
    assert re.search(r" main +\[\.\] boot_info\S* +L2 ", clean(done, HOST_IS_NO_AARCH64))


def test_perf_knows_the_event_by_its_name(tmp_path):
    path = written(tmp_path / "a.data", on_cpu_0(other()), cpus=2)
    assert clean(perf("evlist", "-i", path)) == "arm_spe_0//\n"
    assert "id = { 1, 2 }" in clean(perf("report", "--header-only", "-i", path))


def test_records_without_an_image_are_read_too(tmp_path):
    path = written(tmp_path / "a.data", on_cpu_0(load(el=0), other()), image=None)
    assert len(packets_of_perf(clean(perf("report", "-D", "-i", path)))) == 1


def test_every_sort_of_packet_is_among_those_compared():
    placed = list(decode_stream(stream(of_every_sort())))
    kinds = {packet.type for found in placed for _, packet in found.packets}
    assert kinds == set(PacketType) - {PacketType.PADDING}
