"""``--coverage``, ``spe-unicorn coverage``, and what other programs say of the same code."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.coverage.formats import read
from spe_unicorn.output.coverage.lcov import from_lcov
from spe_unicorn.session.covering.resolve import is_conditional

GCC = shutil.which("aarch64-linux-gnu-gcc")
HOST_GCC, GCOV = shutil.which("gcc"), shutil.which("gcov")
GENHTML = shutil.which("genhtml")

PROGRAM = """\
static int classify(int n) {
    if (n < 0)
        return -1;
    if (n == 0)
        return 0;
    return n > 100 ? 2 : 1;
}

__attribute__((noipa)) int never(int n) {
    return n + 1;
}

static inline __attribute__((always_inline)) int twice(int n) {
    if (n & 1)
        return 2 * n + 1;
    return 2 * n;
}

int work(void) {
    int sum = 0;
    for (int n = -3; n < 4; n++) {
        sum += classify(n);
        if (sum > 1000)
            sum = never(sum);
    }
    sum += twice(4);
    switch (sum) {
    case 1:
        return never(1);
    case 8:
        return 0;
    default:
        return 1;
    }
}
"""
START = """\
.global _start
_start: ldr x0, =0x40200000
        mov sp, x0
        bl work
        adr x1, block
        ldr w2, =0x20026
        stp x2, x0, [x1]
        mov w0, #0x18
        hlt #0xf000
        .balign 16
block:  .quad 0, 0
"""


def lines_of_lcov(path: Path, source: str) -> dict[int, int]:
    files = from_lcov(path.read_text()).files
    (found,) = [file for name, file in files.items() if name.endswith(source)]
    return found.lines


def built(folder: Path, *options: str) -> Path:
    assert GCC is not None
    (folder / "work.c").write_text(PROGRAM)
    (folder / "start.S").write_text(START)
    code = [*options, "-g", "-ffreestanding", "-nostdlib", "-static", "-mgeneral-regs-only"]
    link = ["-Wl,-Ttext=0x40080000", "-Wl,--build-id=none", "start.S", "work.c", "-o", "work.elf"]
    subprocess.run([GCC, *code, *link], cwd=folder, check=True)
    return folder / "work.elf"


def test_what_each_format_says(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    for suffix in ("info", "xml", "drcov", "json"):
        command("run", "-q", "--coverage", str(tmp_path / f"a.{suffix}"), firmware("hello"))
    info = lines_of_lcov(tmp_path / "a.info", "hello.c")
    assert info == {7: 1, 8: 1, 10: 1}  # main, its call of print, its return
    root = ElementTree.parse(tmp_path / "a.xml").getroot()
    (hello,) = [one for one in root.iter("class") if one.get("name") == "hello.c"]
    assert [line.get("number") for line in hello.iterfind("lines/line")] == ["7", "8", "10"]
    assert hello.get("line-rate") == "1.0000"
    whole, lcov = (read(str(tmp_path / f"a.{suffix}")).files for suffix in ("json", "info"))
    assert whole.keys() == lcov.keys()
    for path, file in whole.items():
        assert file.lines == lcov[path].lines
        assert file.branches.items() >= lcov[path].branches.items()
        assert file.functions.keys() >= lcov[path].functions.keys()
    text, _, blocks = (tmp_path / "a.drcov").read_bytes().partition(b" bbs\n")
    number = int(text.rsplit(b" ", 1)[1])
    assert len(blocks) == 8 * number
    assert b"Module Table: version 2, count 1\n" in text
    executed = sum(struct.unpack_from("<IHH", blocks, 8 * n)[1] for n in range(number))
    (program,) = json.loads((tmp_path / "a.json").read_text())["programs"].values()
    assert executed == sum(int(b, 16) - int(a, 16) + 4 for a, b in program["executed"])


def test_files_are_merged_and_measured(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    one, two, both = (str(tmp_path / name) for name in ("1.json", "2.json", "b.info"))
    command("run", "-q", "--coverage", one, firmware("hello"))
    command("run", "-q", "--coverage", two, firmware("hello_pie"))
    said = command("coverage", one, two, "-o", both, "--fail-under", "10", "--functions")
    assert "print_number" in said.stdout
    assert "Never run" in said.stdout
    found = read(both)
    assert found.files["firmware/hello.c"].line_share == (3, 3)
    for path, file in read(one).files.items():
        for line, hit in file.lines.items():
            assert found.files[path].lines[line] >= hit
    low = command("coverage", one, "-q", "--fail-under", "99", status=1)
    assert low.stdout == ""
    assert "less than 99%" in low.stderr
    short = command("coverage", one, "-q", "--fail-under", "99.999999", status=1)
    assert "less than 99.999999%" in short.stderr


@pytest.mark.parametrize("number", ["abc", "nan", "-1", "100.5", "inf"])
def test_a_share_that_is_none_is_refused(command: Callable[..., Any], number: str) -> None:
    assert "'--fail-under'" in command("coverage", "a", f"--fail-under={number}", status=2).stderr


def test_several_files_are_written_at_once(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    one = str(tmp_path / "1.json")
    command("run", "-q", "--coverage", one, firmware("hello"))
    names = [str(tmp_path / f"b.{suffix}") for suffix in ("info", "xml", "json", "drcov")]
    command("coverage", one, "-q", *(word for name in names for word in ("-o", name)))
    assert read(names[0]).line_share == read(names[2]).line_share == read(one).line_share
    assert Path(names[1]).read_text().count("<package ") >= 1
    assert Path(names[3]).read_bytes().startswith(b"DRCOV VERSION: 2")
    command("coverage", one, "-q", "-o", names[0], "-o", str(tmp_path / "b.txt"), status=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no source file"),
        ("{", "is no coverage"),
        ('{"format": "other"}', "its format is 'other'"),
        ("SF:a.c\nDA:x,1\nend_of_record\n", "is no coverage"),
    ],
)
def test_a_file_that_is_none_is_one_line(
    command: Callable[..., Any], tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    result = command("coverage", str(file), status=2)
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_name_of_no_format_ends_the_command_before_the_run(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    result = command("run", "--coverage", str(tmp_path / "a.txt"), firmware("hello"), status=2)
    assert ".info, .xml, .drcov or .json" in result.stderr
    assert "Hello" not in result.stdout
    assert not (tmp_path / "a.txt").exists()


def test_which_words_are_conditional_branches() -> None:
    yes = (0x54000040, 0xB4000040, 0x35000040, 0x36000041, 0xB7F80001)
    no = (0x5400000E, 0x14000000, 0xD65F03C0, 0x97FFFFFF, 0xD503201F)
    assert all(map(is_conditional, yes))
    assert not any(map(is_conditional, no))


@pytest.mark.skipif(
    not (GCC and HOST_GCC and GCOV), reason="aarch64-linux-gnu-gcc, gcc or gcov is missing"
)
def test_lines_agree_with_gcov(command: Callable[..., Any], tmp_path: Path) -> None:
    assert HOST_GCC is not None
    assert GCOV is not None
    bare, hosted = tmp_path / "bare", tmp_path / "hosted"
    bare.mkdir()
    hosted.mkdir()
    elf = built(bare, "-O0")
    command("run", "-q", "--coverage", str(tmp_path / "a.info"), str(elf))
    ours = lines_of_lcov(tmp_path / "a.info", "work.c")
    (hosted / "work.c").write_text(PROGRAM)
    (hosted / "main.c").write_text("int work(void);\nint main(void) { return work(); }\n")
    build = [HOST_GCC, "-O0", "--coverage", "-static", "work.c", "main.c", "-o", "work"]
    subprocess.run(build, cwd=hosted, check=True)
    subprocess.run(["./work"], cwd=hosted, check=True)
    (notes,) = (note.name for note in hosted.glob("*work.gcno"))
    subprocess.run([GCOV, notes], cwd=hosted, check=True, capture_output=True)
    text = (hosted / "work.c.gcov").read_text()
    theirs = {
        int(line): int(count[0].isdigit())
        for count, line in re.findall(r"^ *(\S+?)\*?: *(\d+):", text, re.MULTILINE)
        if count != "-" and line != "0"
    }
    labels = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line[-1:] == ":"}
    assert theirs.keys() - ours.keys() <= labels  # which are no code
    assert {n: ours[n] for n in theirs if n in ours} == {n: theirs[n] for n in theirs if n in ours}
    assert len(theirs.keys() & ours.keys()) > 20
    assert {line for line in ours if not ours[line]} == {9, 10, 11, 15, 24, 29, 33}


@pytest.mark.skipif(not GCC, reason="aarch64-linux-gnu-gcc is missing")
def test_optimised_and_stripped_code(command: Callable[..., Any], tmp_path: Path) -> None:
    assert GCC is not None
    elf = built(tmp_path, "-O2")
    command("run", "-q", "--coverage", str(tmp_path / "a.json"), str(elf))
    (file,) = [f for name, f in read(str(tmp_path / "a.json")).files.items() if "work.c" in name]
    assert file.functions["work"] == (19, 1)
    assert file.functions["never"] == (9, 0)
    subprocess.run([GCC.replace("gcc", "strip"), "-g", elf.name], cwd=tmp_path, check=True)
    command("run", "-q", "--coverage", str(tmp_path / "b.json"), str(elf))
    (file,) = read(str(tmp_path / "b.json")).files.values()
    assert {name: hit for name, (_, hit) in file.functions.items()} == {"work": 1, "never": 0}


@pytest.mark.skipif(not GENHTML, reason="genhtml is missing")
def test_genhtml_reads_it(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    assert GENHTML is not None
    command("run", "-q", "--coverage", str(tmp_path / "a.info"), firmware("hello"))
    root = Path(__file__).resolve().parents[3]
    options = ["--branch-coverage", "--ignore-errors", "source", "-o", str(tmp_path / "html")]
    subprocess.run([GENHTML, *options, str(tmp_path / "a.info")], cwd=root, check=True)
    assert "hello.c" in (tmp_path / "html" / "index.html").read_text() or list(
        (tmp_path / "html").rglob("hello.c.gcov.html")
    )


def test_a_full_table_is_said(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "the table of coverage is full: code that ran first later is missing"
    words = ("run", "--coverage", str(tmp_path / "a.json"), str(shipped_firmware("hello")))
    assert said not in command(*words).stderr
    monkeypatch.setattr("spe_unicorn.host.pe.covering.MOST", 10)  # hello has more blocks
    assert said in command(*words).stderr
