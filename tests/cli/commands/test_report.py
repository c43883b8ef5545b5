from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.spe.record import encode
from spe_unicorn.symbols.elf import read_elf
from tests.support.elf_builder import RAM, Elf, Load, Sym
from tests.support.perf_reader import perf
from tests.support.samples import load, other


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from click.testing import CliRunner

    from spe_unicorn.cli import main
    from spe_unicorn.machine.shipped import shipped_firmware

    file = tmp_path_factory.mktemp("report") / "a.data"
    options = ["-c", "100", "--model", "cache", "--max-insns", "1200000", "-o", str(file)]
    result = CliRunner().invoke(
        main, ["record", "-q", *options, str(shipped_firmware("bench_hash"))]
    )
    assert result.exit_code == 124, result.stderr
    return file


def rows(text: str, title: str) -> list[list[str]]:
    """The rows of a table of the text, cells apart by two spaces or more."""
    lines = iter(text.splitlines())
    for line in lines:
        if line == title:
            break
    next(lines), next(lines)
    found = []
    for line in lines:
        if not line.strip() or " more with " in line:
            break
        found.append(re.split(r" {2,}", line.strip()))
    return found


def test_a_report_tells_of_everything_that_the_records_hold(
    command: Callable[..., Any], recording: Path
) -> None:
    text = command("report", str(recording)).stdout
    assert re.match(rf"{recording}: \d+ samples of .*bench_hash.elf\n", text)
    for title in ("Functions", "Lines", "Instructions", "Operations", "Latency in cycles",
                  "Data sources", "Mispredicted branches", "Data", "PEs"):  # fmt: skip
        assert rows(text, title), title


def test_hot_functions_agree_with_perf_to_the_sample(
    command: Callable[..., Any], recording: Path, firmware: Callable[..., Any]
) -> None:
    done = perf("report", "--stdio", "-F", "sample,sym", "-i", str(recording))
    first = done.stdout.partition("of event 'arm_spe")[0].partition("of event 'l1d")[0]
    table = read_elf(Path(firmware("bench_hash")))
    addresses = {symbol.name: symbol.address for symbol in table.symbols}
    theirs: dict[str, int] = {}
    for count, name in re.findall(r"^ +(\d+) +\[.\] (\S+)", first, re.M):
        # perf may name a label inside of a function
        function = table.symbols.function_at(addresses[name])
        theirs[function.name] = theirs.get(function.name, 0) + int(count)
    assert theirs
    text = command("report", str(recording), "--sort", "sym", "--rows", "1000").stdout
    ours = {row[-1]: int(row[1]) for row in rows(text, "Samples")}
    assert ours == theirs


def test_hot_instructions_agree_with_perf_to_the_sample(
    command: Callable[..., Any], recording: Path
) -> None:
    done = perf("script", "-F", "event,ip", "-i", str(recording))
    theirs: dict[str, int] = {}
    for event, address in re.findall(r"^ *(\S+): +([0-9a-f]+)", done.stdout, re.M):
        if event.startswith("operations"):
            theirs[f"0x{address}"] = theirs.get(f"0x{address}", 0) + 1
    text = command("report", str(recording), "--sort", "pc", "--rows", "100000").stdout
    assert {row[-1]: int(row[1]) for row in rows(text, "Samples")} == theirs


def test_annotate_says_which_function_may_have_been_meant(
    command: Callable[..., Any], recording: Path
) -> None:
    ended = command("annotate", str(recording), "bench_wrok", status=2)
    assert "no symbol bench_wrok in " in ended.stderr
    assert re.search(r"; near are bench_work\b", ended.stderr)


def test_annotate_shows_instructions_with_their_samples(
    command: Callable[..., Any], recording: Path
) -> None:
    text = command("annotate", str(recording), "bench_work").stdout
    count = int(re.match(r"bench_work of bench_hash.elf, (\d+) samples\n", text)[1])
    function = command("report", str(recording), "--sort", "sym").stdout
    assert ["bench_work", str(count)] in [[r[-1], r[1]] for r in rows(function, "Samples")]
    assert re.search(r"400801d0 +stp x29, x30, \[sp, #-0x20\]!", text)
    shown = sum(int(number) for number in re.findall(r"^ +[\d.]+% +(\d+) ", text, re.M))
    assert shown == count


def test_diff_says_what_moved(command: Callable[..., Any], recording: Path) -> None:
    same = command("diff", str(recording), str(recording)).stdout
    assert set(re.findall(r"^ +([+-]\d+\.\d\d) ", same, re.M)) == {"+0.00"}
    assert " *  " not in same


def test_a_report_without_symbols_says_how_to_get_them(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "a.spe"
    file.write_bytes(encode(load(), 6))
    text = command("report", str(file)).stdout
    assert "Give the ELF file by --symbols FILE to see names and lines." in text
    assert "0x40000100" in text
    assert "Functions" not in text


HOSTILE = "\x1b[31m[bold]evil[/bold]\x07\r</script>"


def test_names_are_data_and_reach_no_terminal_as_they_are(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    elf = tmp_path / "evil.elf"
    code = Load(RAM, bytes(64))
    elf.write_bytes(Elf([code], symbols=[Sym(HOSTILE, RAM, 64)]).build())
    file = tmp_path / "a.spe"
    file.write_bytes(encode(load(RAM), 6) + encode(other(RAM + 4), 6))
    shown = r"\x1b[31m[bold]evil[/bold]\x07\r</script>"
    for arguments in (
        ("report", str(file)),
        ("report", str(file), "--sort", "sym"),
        ("decode", "--format", "table", str(file)),
        ("diff", str(file), str(file)),
    ):
        text = command(*arguments, "--symbols", str(elf)).stdout
        assert shown in text
        assert not {"\x1b", "\x07", "\r"} & set(text)
    text = command("annotate", str(file), HOSTILE, "--symbols", str(elf)).stdout
    assert text.startswith(f"{shown} of evil.elf, 2 samples")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "none.data"), "No such file or directory"),
        (("report", "{empty}"), "the file is empty"),
        (("report", "{padding}"), "holds no SPE records"),
        (("report", "{noise}"), "holds no SPE records: unknown packet header"),
        (("report", "{good}", "--sort", "colour"), "'colour': allowed are symbol, line"),
        (("report", "{good}", "--by", "colour"), "Invalid value for '--by'"),
        (("report", "{good}", "--percent-limit", "101"), "a percentage is 0 to 100"),
        (("report", "{good}", "--percent-limit", "x"), "'x' is no percentage"),
        (("report", "-g", "{good}"), "tells no calls: record it with record -g"),
        (("report", "--children", "{good}"), "tells no calls: record it with record -g"),
        (("report", "--sort", "caller", "{good}"), "tells no calls: record it with record -g"),
        (("annotate", "-g", "{good}", "main"), "this shows no calls"),
        (("annotate", "{good}", "main"), "does not name its ELF file: give it by --symbols"),
        (("diff", "{good}", "{good}", "--sort", "sym,cpu"), "--sort takes one key here"),
        (("diff", "{good}", "{empty}"), "the file is empty"),
    ],
)
def test_what_cannot_be_reported_gets_one_line(
    command: Callable[..., Any], tmp_path: Path, arguments: tuple[Any, ...], message: str
) -> None:
    files = {"good": encode(load(), 6), "empty": b"", "padding": bytes(64), "noise": b"\xff" * 64}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    filled = [word.format(**{name: tmp_path / name for name in files}) for word in arguments]
    result = command(*filled, status=2)
    assert message in result.stderr


def test_another_elf_file_than_the_recorded_one_is_told_of(
    command: Callable[..., Any], recording: Path, firmware: Callable[..., Any], tmp_path: Path
) -> None:
    said = f"not the file that {recording} was recorded of, whose SHA-256 is "
    for arguments in (
        ("report", str(recording)),
        ("annotate", str(recording), "main"),
        ("decode", "--format", "table", str(recording)),
        ("export", "-q", str(recording), "-o", str(tmp_path / "x.csv")),
    ):
        result = command(*arguments, "--symbols", firmware("hello"))
        assert result.stderr.startswith(f"Warning: {firmware('hello')}: {said}")
        assert result.stderr.endswith("; names may be wrong\n")
        if arguments[0] != "annotate":
            assert command(*arguments, "--symbols", firmware("bench_hash")).stderr == ""


def test_a_damaged_file_is_reported_as_far_as_it_goes(
    command: Callable[..., Any], tmp_path: Path, recording: Path
) -> None:
    file = tmp_path / "cut.data"
    file.write_bytes(recording.read_bytes()[:-20000])
    result = command("report", str(file), status=1)
    assert "Functions" in result.stdout
    assert "truncated" in result.stderr
