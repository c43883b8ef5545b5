from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spe_unicorn.cli.commands.decode import decode
from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.output.formats import open_output
from spe_unicorn.output.image import RecordingInfo
from spe_unicorn.session.records import image_info
from spe_unicorn.spe.record import encode
from spe_unicorn.symbols.elf import read_elf
from tests.support.running.processes import WALL_SECONDS
from tests.support.samples import branch, load, of_every_sort, other, store, stream


def run(*arguments, data=None):
    return CliRunner().invoke(decode, [str(argument) for argument in arguments], input=data)


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Any]:
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def recording(path, *records, cpus=1):
    writer = open_output(path, info=RecordingInfo(cpus=cpus))
    for number, record in enumerate(records):
        writer.write(encode(record, 6), number % cpus)
    writer.close()
    return path


def test_each_record_is_a_block_of_text(file: Callable[..., Any]) -> None:
    result = run(file("a.spe", stream([other(), load()])))
    assert result.exit_code == 0
    assert result.stderr == ""
    blocks = result.stdout.split("\n\n")
    assert blocks[0].splitlines() == [
        "record 0 at 0x0 of cpu 0, 23 bytes",
        "  00000000  b0 0c 01 00 40 00 00 00 a0     ADDRESS        pc 0x4000010c EL1 non-secure",
        "  00000009  48 00                          OPERATION_TYPE other",
        "  0000000b  52 02 00                       EVENTS         0x2 retired",
        "  0000000e  71 06 04 00 00 00 00 00 00     TIMESTAMP      1030",
        "  00000017  00 00 00 00 00 00 00 00 00 00  PADDING        41 bytes",
    ]
    assert blocks[1].startswith("record 1 at 0x40 of cpu 0, 52 bytes\n")


def test_each_record_is_a_line_of_json(file: Callable[..., Any]) -> None:
    result = run(file("a.spe", stream([load(), store(), branch()])), "--format", "json")
    assert result.exit_code == 0
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(o["offset"], o["pc"], o["op"]) for o in objects] == [
        (0, "0x40000100", "load general"),
        (64, "0x40000104", "store general"),
        (128, "0x40000108", "branch conditional"),
    ]
    assert "va" not in objects[2]
    assert objects[2]["target"] == "0x40000100"


def test_perf_data_and_raw_file_of_the_same_records_read_alike(tmp_path: Path) -> None:
    records = list(of_every_sort())
    raw = run(recording(tmp_path / "a.spe", *records), "--format", "json")
    perf = run(recording(tmp_path / "a.data", *records), "--format", "json")
    assert raw.exit_code == perf.exit_code == 0
    assert raw.stdout == perf.stdout
    assert len(raw.stdout.splitlines()) == len(records)


def test_json_lines_output_equals_decoded_raw_output(tmp_path: Path) -> None:
    records = list(of_every_sort())
    raw = run(recording(tmp_path / "a.spe", *records), "--format", "json")
    assert recording(tmp_path / "a.jsonl", *records).read_text() == raw.stdout


def test_our_json_lines_come_out_as_they_went_in(tmp_path: Path) -> None:
    file = recording(tmp_path / "a.jsonl", *of_every_sort(), cpus=3)
    result = run(file, "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == file.read_text()


def test_json_lines_are_a_table_by_default_and_never_text(tmp_path: Path) -> None:
    raw = recording(tmp_path / "a.spe", *of_every_sort())
    lines = recording(tmp_path / "a.jsonl", *of_every_sort())
    assert run(lines).stdout == run(raw, "--format", "table").stdout
    refused = run(lines, "--format", "text")
    assert refused.exit_code == 2
    assert "JSON Lines do not hold packets: use --format table or json" in refused.stderr


def test_a_recording_knows_its_program_and_a_raw_file_is_told_of_it(
    tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    elf = firmware("hello")
    (main,) = (s.address for s in read_elf(Path(elf)).symbols if s.name == "main")
    image = image_info(load_elf(elf, RAM_BASE, 1 << 27))
    for name in ("a.data", "a.spe"):
        writer = open_output(tmp_path / name, info=RecordingInfo(image))
        writer.write(encode(load(main + 4), 6))
        writer.close()
    named = run(tmp_path / "a.data", "--format", "table").stdout
    assert "main+0x4" in named
    assert "main+0x4" not in run(tmp_path / "a.spe", "--format", "table").stdout
    for option in ("--symbols", "--elf"):
        assert run(tmp_path / "a.spe", "--format", "table", option, elf).stdout == named
    moved = run(tmp_path / "a.spe", "--format", "table", "--elf", f"{elf}@0x40000000")
    assert "main+0x4" not in moved.stdout


def test_a_position_independent_program_is_named_where_the_machine_puts_it(
    tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    elf = firmware("hello_pie")
    image = load_elf(elf, RAM_BASE, 1 << 27)
    (main,) = (symbol.address for symbol in image.symbols if symbol.name == "main")
    file = recording(tmp_path / "a.spe", load(main))
    assert " main " in run(file, "--format", "table", "--symbols", elf).stdout
    assert " main " in run(file, "--format", "table", "--symbols", f"{elf}@{image.bias:#x}").stdout


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("none.elf", "none.elf: No such file or directory"),
        ("{file}", "is not an ELF file"),
        ("none.elf@main", "'main' is no address"),
        ("none.elf@-4", "an address has 64 bits"),
    ],
)
def test_symbols_that_cannot_be_had_are_refused_in_one_line(
    tmp_path: Path, value: str, message: str
) -> None:
    file = recording(tmp_path / "a.spe", load())
    result = run(file, "--format", "table", "--symbols", value.format(file=file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_symbols_for_programs_are_refused(tmp_path: Path, firmware: Callable[..., Any]) -> None:
    file = recording(tmp_path / "a.spe", load())
    result = run(file, "--format", "json", "--symbols", firmware("hello"))
    assert result.exit_code == 2
    assert "--symbols names places in tables and text" in result.stderr


def test_symbols_name_addresses_in_the_text_with_their_source_lines(
    tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    elf = firmware("spe_irq_el1")
    file = tmp_path / "a.spe"
    record = load()
    plain = run(recording(file, record), "--format", "text").stdout
    named = run(file, "--format", "text", "--symbols", f"{elf}@{record_pc(plain):#x}").stdout
    (line,) = [line for line in named.splitlines() if " pc 0x" in line]
    assert line.endswith(" <_start (el.S:14)>")
    assert re.sub(r" <.*>", "", named) == plain


def record_pc(text: str) -> int:
    found = re.search(r" pc (0x\w+) ", text)
    assert found is not None
    return int(found[1], 16)


def test_a_table_is_for_terminals_and_text_for_files(
    tmp_path: Path, start: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    file = recording(tmp_path / "a.spe", load(), store())
    ours, theirs = pty.openpty()
    process = start("decode", file, stdout=theirs)
    os.close(theirs)
    assert process.wait(WALL_SECONDS) == 0
    shown = os.read(ours, 1 << 16).decode().splitlines()
    assert [line.split()[0] for line in shown] == ["time", "1000", "1010"]
    process = start("decode", file, stdout=subprocess.PIPE)
    assert process.communicate(timeout=WALL_SECONDS)[0].startswith(b"record 0 at 0x0 of cpu 0")


def test_decoding_imports_neither_the_engine_nor_the_compiler(
    tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = recording(tmp_path / "a.data", load())
    code = (
        "import sys; from spe_unicorn.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "assert not {'unicorn', 'numba', 'capstone'} & set(sys.modules)\n"
    )
    for form in ("text", "json", "table"):
        arguments = ("decode", "--format", form, str(file))
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)


def test_a_cut_recording_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    file = recording(tmp_path / "a.data", load(), store(), other())
    data = file.read_bytes()
    end = data.index(encode(other(), 6))
    file.write_bytes(data[:end])
    result = run(file, "--format", "json")
    assert result.exit_code == 1
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [0, 64]
    assert "broken perf.data file: the file is truncated, its data go on to" in result.stderr


def test_cpus_of_a_recording_are_told_apart(tmp_path: Path) -> None:
    result = run(recording(tmp_path / "a.data", load(), store(), other(), cpus=2))
    headings = [line for line in result.stdout.splitlines() if line.startswith("record")]
    assert headings == [
        "record 0 at 0x0 of cpu 0, 52 bytes",
        "record 1 at 0x40 of cpu 0, 23 bytes",
        "record 2 at 0x0 of cpu 1, 41 bytes",
    ]


def test_standard_input_is_read() -> None:
    result = run("-", "--format", "json", data=stream([other()]))
    assert result.exit_code == 0
    assert json.loads(result.stdout)["pc"] == "0x4000010c"


def test_bad_packet_is_reported_with_its_offset_and_the_rest_is_read(
    file: Callable[..., Any],
) -> None:
    data = bytearray(stream([load(), store(), other()]))
    data[64 + 9] = 0xF7  # was the header of the PC
    path = file("a.spe", data)
    result = run(path, "--format", "json")
    assert result.exit_code == 1
    assert result.stderr == (f"{path}: bad packet at offset 0x49 (f7): unknown packet header f7\n")
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [0, 128]


def test_bad_packet_in_perf_data_is_reported_with_its_place_in_the_file(tmp_path: Path) -> None:
    path = recording(tmp_path / "a.data", load(), store())
    data = bytearray(path.read_bytes())
    start = data.index(encode(store(), 6))
    data[start] = 0xFF
    path.write_bytes(data)
    result = run(path)
    assert result.exit_code == 1
    assert f"bad packet at offset {start:#x} (ff)" in result.stderr


def test_record_cut_off_at_the_end_is_reported(file: Callable[..., Any]) -> None:
    path = file("a.spe", stream([load(), store()])[:-45])
    result = run(path)
    assert result.exit_code == 1
    assert result.stderr == (
        f"{path}: bad packet at offset 0x52 (b2): the data ends inside the packet\n"
    )


def test_long_bad_data_is_shown_by_its_beginning(file: Callable[..., Any]) -> None:
    path = file("a.spe", stream([other()]) + b"\x98\x01\x00" * 30)
    result = run(path)
    assert result.exit_code == 1
    assert "(98 01 00): a second COUNTER packet in the record at 0x40" in result.stderr
    path = file("b.spe", stream([other()]) + b"\x48\x00" + bytes(30))
    assert "(48 00 00 00 00 00 00 00 00 00 ...): the data ends" in run(path).stderr


def test_padding_alone_is_a_stream_without_records(file: Callable[..., Any]) -> None:
    result = run(file("a.spe", bytes(64)))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("empty.spe", b"", "the file is empty"),
        (
            "text.spe",
            b"no records here, sorry",
            "holds no SPE records: unknown packet header 6e at offset 0x0",
        ),
        (
            "short.spe",
            b"\xb0\x00",
            "holds no SPE records: the data ends inside the packet at offset 0x0",
        ),
        (
            "wrong.data",
            b"\xb0\x00",
            "not a perf.data file: b0 00 at offset 0x0 where PERFILE2 should be",
        ),
        (
            "cut.data",
            b"PERFILE2",
            "broken perf.data file: the file ends inside its header at offset 0x8",
        ),
    ],
)
def test_bad_file_gets_one_line_and_status_2(
    file: Callable[..., Any], name: str, data: bytes, message: str
) -> None:
    path = file(name, data)
    result = run(path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {path}: {message}\n"


def test_missing_file_and_folder_get_one_line_and_status_2(tmp_path: Path) -> None:
    missing = run(tmp_path / "none.spe")
    assert missing.exit_code == 2
    assert missing.stderr == f"Error: {tmp_path}/none.spe: No such file or directory\n"
    folder = run(tmp_path)
    assert folder.exit_code == 2
    assert folder.stderr == f"Error: {tmp_path}: Is a directory\n"


def test_every_damaged_byte_ends_in_a_verdict(file: Callable[..., Any]) -> None:
    whole = stream([load(), other()])
    for place in range(0, len(whole), 3):
        data = bytearray(whole)
        data[place] ^= 0xFF
        result = run(file("a.spe", data))
        assert result.exit_code in (0, 1, 2)
        assert result.exception is None or isinstance(result.exception, SystemExit)
