"""LLVM code that is in the package: of every compiled function as it is now, and of no other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any
from zipfile import ZipFile

import pytest

from spe_unicorn import zstd
from spe_unicorn.compiled import Entry, cache, entry, functions, machine_code, prepared, routine
from tests.support.every_entry import every_entry

STEP = 3
ENTRIES = [known for known in every_entry() if isinstance(known, Entry)]
NO_NUMBA = """
import sys
from spe_unicorn.host.native.hooks import on_unmapped
on_unmapped.address
print("numba" in sys.modules)
"""


@routine
def tripled(number: Any) -> Any:
    """Three times as much."""
    return number * STEP  # and nothing else


@entry("int64", "int64")
def tripled_and_one(number: Any) -> Any:
    return tripled(number) + 1


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another file with LLVM code, of :func:`tripled_and_one`, and an empty cache."""
    monkeypatch.setenv("SPE_UNICORN_CACHE_DIR", str(tmp_path / "cache"))
    place = tmp_path / "prepared.zip"
    monkeypatch.setattr(prepared, "PLACE", place)
    prepared.write([tripled_and_one], place)
    return place


def fresh() -> Entry:
    """The same entry, with no machine code yet."""
    return Entry(tripled_and_one.function, "int64", "int64")


def replace(place: Path, contents: bytes, comment: str | None = None) -> None:
    """Put other bytes in the place of the only part, and perhaps another comment."""
    prepared._is_known.cache_clear()
    with ZipFile(place) as archive:
        (name,) = archive.namelist()
        before = archive.comment
    with ZipFile(place, "w") as archive:
        archive.comment = before if comment is None else comment.encode()
        archive.writestr(name, contents)


def test_the_package_has_the_code_of_all_its_compiled_functions_and_no_other() -> None:
    """Whoever changes one of them, or a number that it reads, runs scripts/prepare."""
    assert len(ENTRIES) > 25
    assert prepared.stale(ENTRIES) == []


def test_a_first_run_needs_no_numba(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", NO_NUMBA],
        env={**os.environ, "SPE_UNICORN_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == "False\n"


def test_prepared_code_computes_what_its_text_says(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Entry, "ir", lambda self: pytest.fail("numba was asked"))
    assert fresh()(5) == 16


DAMAGED = [b"", b"\xff", b"target datalayout", zstd.compress(b"\xff", 1), None]


@pytest.mark.parametrize("contents", DAMAGED)
def test_a_damaged_file_is_as_good_as_none(archive: Path, contents: bytes | None) -> None:
    if contents is None:
        archive.write_bytes(b"no archive")
    else:
        replace(archive, contents)
    assert prepared.read(fresh()) is None
    assert fresh()(5) == 16


def test_without_the_file_numba_makes_the_code(archive: Path) -> None:
    archive.unlink()
    assert prepared.read(fresh()) is None
    assert fresh()(5) == 16


def test_code_that_this_version_of_llvm_does_not_know_is_made_anew(archive: Path) -> None:
    text = prepared.read(fresh())
    assert text is not None
    replace(archive, zstd.compress(text.replace("mul ", "multiply ").encode(), 1))
    assert "multiply" in str(prepared.read(fresh()))
    assert fresh()(5) == 16


def test_code_of_a_newer_llvm_is_not_shown_to_this_one(archive: Path) -> None:
    """LLVM 20 ends the process by an assertion for some of what LLVM 22 wrote."""
    text = prepared.read(fresh())
    assert text is not None
    packed = zstd.compress(text.encode(), 1)
    for version, known in (("LLVM 99, newer", False), ("no version", False), ("LLVM 15", True)):
        replace(archive, packed, version)
        assert (prepared.read(fresh()) is not None) == known
        assert fresh()(5) == 16


def test_code_for_another_layout_of_data_is_not_taken(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "layout", lambda: 'target datalayout = "E-m:e"\n')
    assert prepared.read(fresh()) is None


LAYOUTS = {
    "x86_64-unknown-linux-gnu": (
        "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
    ),
    "aarch64-unknown-linux-gnu": (
        "e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32"
    ),
}
"""How data lie on each kind of host, as LLVM 22 says it."""


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_host_of_each_kind_gets_the_code_for_its_layout(
    monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    line = f'target datalayout = "{layout}"\n'
    monkeypatch.setattr(machine_code, "layout", lambda: line)
    assert [known.name for known in ENTRIES if prepared.read(known) is None] == []
    for known in ENTRIES:
        assert str(prepared.read(known)).startswith(line)


def test_the_file_has_code_for_x86_64_and_aarch64() -> None:
    assert [host.triple for host in machine_code.HOSTS] == [*LAYOUTS]
    assert {len(prepared.read_all(known)) for known in ENTRIES} == {2}


def test_nothing_is_said_where_nothing_is_compiled(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cache, "_said", False)
    assert fresh()(5) == 16
    assert capsys.readouterr().err == ""


def test_a_cache_that_cannot_be_written_is_named_without_a_word_of_compiling(
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cache, "_said", False)
    monkeypatch.setenv("SPE_UNICORN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").write_text("")
    assert fresh()(5) == 16
    assert capsys.readouterr().err == (
        f"spe-unicorn: each run takes a second to begin: {tmp_path}/file/cache/compiled:"
        " Not a directory; set SPE_UNICORN_CACHE_DIR\n"
    )


@pytest.mark.parametrize("known", ENTRIES, ids=lambda known: known.name)
def test_prepared_code_calls_nothing_that_a_process_does_not_have(known: Entry) -> None:
    text = prepared.read(known)
    assert text is not None
    assert machine_code.emit(text, machine_code.SYMBOL, optimized=False)


def text_key(body: str, tmp_path: Path, head: str = "(number)", **numbers: int) -> str:
    """The key of :func:`tripled_and_one` if :func:`tripled` had that text."""
    file = tmp_path / "written.py"
    file.write_text(f"def tripled{head}:\n{body}\n")
    namespace: dict[str, Any] = {"STEP": 3, **numbers}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    import linecache

    linecache.checkcache()
    called = {"tripled": routine(namespace["tripled"])}
    function = tripled_and_one.function
    other = FunctionType(function.__code__, function.__globals__ | called, function.__name__)
    return Entry(other, "int64", "int64").text_key


def test_the_key_is_of_what_a_function_says_and_not_of_its_comments(tmp_path: Path) -> None:
    plain = text_key("    return number * STEP", tmp_path)
    assert text_key("    'Thrice.'\n    return (number * STEP)  # so much", tmp_path) == plain
    assert text_key("    return number + STEP", tmp_path) != plain
    assert text_key("    return number * STEP", tmp_path, STEP=4) != plain


def test_annotations_are_no_part_of_the_key(tmp_path: Path) -> None:
    plain = text_key("    three = STEP\n    return number * three", tmp_path)
    body = "    three: int = STEP\n    return number * three"
    assert text_key(body, tmp_path, "(number: int) -> int") == plain


def test_a_function_without_a_text_has_no_prepared_code(archive: Path) -> None:
    namespace: dict[str, Any] = {}
    exec("def f(number):\n    return number", namespace)
    unwritten = Entry(namespace["f"], "int64", "int64")
    with pytest.raises(OSError, match="source"):
        _ = unwritten.text_key
    assert unwritten(7) == 7


@pytest.mark.parametrize("known", ENTRIES, ids=lambda known: known.name)
def test_every_number_that_a_function_reads_is_part_of_its_key(known: Entry) -> None:
    lines = list(functions.dependencies(known.function, functions._text))
    reached = list(functions.reached(known.function))
    numbers = {name: int(value) for name, value in reached if isinstance(value, int)}
    assert [name for name, value in numbers.items() if f"{name} = {value}" not in lines] == []
