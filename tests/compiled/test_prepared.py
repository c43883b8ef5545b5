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

from spe_unicorn.compiled import Entry, entry, functions, machine_code, prepared, routine
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


def replace(place: Path, contents: bytes) -> None:
    with ZipFile(place) as archive:
        (name,) = archive.namelist()
    with ZipFile(place, "w") as archive:
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


def test_prepared_code_computes_what_its_text_says(archive, monkeypatch) -> None:
    monkeypatch.setattr(Entry, "ir", lambda self: pytest.fail("numba was asked"))
    assert fresh()(5) == 16


@pytest.mark.parametrize("contents", [b"", b"\xff", b"target datalayout", None])
def test_a_damaged_file_is_as_good_as_none(archive, contents) -> None:
    if contents is None:
        archive.write_bytes(b"no archive")
    else:
        replace(archive, contents)
    assert prepared.read(fresh()) is None
    assert fresh()(5) == 16


def test_without_the_file_numba_makes_the_code(archive) -> None:
    archive.unlink()
    assert prepared.read(fresh()) is None
    assert fresh()(5) == 16


def test_code_that_this_version_of_llvm_does_not_know_is_made_anew(archive) -> None:
    text = prepared.read(fresh())
    assert text is not None
    replace(archive, text.replace("mul ", "multiply ").encode())
    assert "multiply" in str(prepared.read(fresh()))
    assert fresh()(5) == 16


def test_code_for_another_layout_of_data_is_not_taken(archive, monkeypatch) -> None:
    monkeypatch.setattr(machine_code, "layout", lambda: 'target datalayout = "E-m:e"\n')
    assert prepared.read(fresh()) is None


@pytest.mark.parametrize("known", ENTRIES, ids=lambda known: known.name)
def test_prepared_code_calls_nothing_that_a_process_does_not_have(known: Entry) -> None:
    text = prepared.read(known)
    assert text is not None
    assert machine_code.emit(text, machine_code.SYMBOL, optimized=False)


def text_key(body: str, tmp_path: Path, **numbers: int) -> str:
    """The key of :func:`tripled_and_one` if :func:`tripled` had that text."""
    file = tmp_path / "written.py"
    file.write_text(f"def tripled(number):\n{body}\n")
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


def test_a_function_without_a_text_has_no_prepared_code(archive) -> None:
    namespace: dict[str, Any] = {}
    exec("def f(number):\n    return number", namespace)
    unwritten = Entry(namespace["f"], "int64", "int64")
    with pytest.raises(OSError, match="source"):
        _ = unwritten.text_key
    assert unwritten(7) == 7


@pytest.mark.parametrize("known", ENTRIES, ids=lambda known: known.name)
def test_every_number_that_a_function_reads_is_part_of_its_key(known: Entry) -> None:
    lines = list(functions.dependencies(known.function, functions._text))
    for name, value in functions.reached(known.function):
        if isinstance(value, int):
            assert f"{name} = {int(value)}" in lines
