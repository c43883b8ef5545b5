"""The tests' own house: nothing is taken from a test file, and there is one fake of each kind."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_FILES = 20
FILES = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])


def imported_modules(file: Path) -> list[str]:
    nodes = ast.walk(ast.parse(file.read_text()))
    return [n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module]


def test_nothing_is_imported_from_a_test_file() -> None:
    assert len(FILES) > 200
    wrong = [
        (str(file.relative_to(ROOT)), module)
        for file in FILES
        for module in imported_modules(file)
        if module.startswith("tests.") and module.split(".")[-1].startswith("test_")
    ]
    assert wrong == []


def test_there_is_one_fake_of_each_kind() -> None:
    names = [
        node.name
        for file in FILES
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name.startswith("Fake")
    ]
    assert {"FakePE", "FakeMemory", "FakeLine", "FakeEvents"} <= set(names)
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_no_folder_has_more_than_twenty_files() -> None:
    files = [*FILES, *(ROOT / "spe_unicorn").rglob("*.py")]
    folders = Counter(str(file.parent.relative_to(ROOT)) for file in files)
    assert {folder: count for folder, count in folders.items() if count > MOST_FILES} == {}


def test_the_package_has_no_bare_assert() -> None:
    """What must hold is checked by the types, or by an error with the numbers in it."""
    files = sorted((ROOT / "spe_unicorn").rglob("*.py"))
    assert len(files) > 200
    asserts = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assert)
    ]
    assert asserts == []
