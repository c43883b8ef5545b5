"""The tests' own house: nothing is taken from a test file, and there is one fake of each kind."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_FILES = 20
FILES = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])


class Found(NamedTuple):
    """What the tests here ask of a file. Lines are numbers of lines."""

    imported: list[str]
    """Modules from which something is imported."""
    fakes: list[str]
    """Classes of the module whose name begins with Fake."""
    asserts: list[int]
    """The lines of ``assert``."""
    unpacked: list[int]
    """The lines where a tuple or a list is unpacked into another."""
    tests: list[ast.FunctionDef]
    limits: list[int]
    """The lines where a process is waited for by a number of seconds of the test's own."""
    typed: bool
    """Whether each function says its types."""


@cache  # each file is read and walked once, which takes ten seconds for all
def found_in(file: Path) -> Found:
    tree = ast.parse(file.read_text())
    nodes = list(ast.walk(tree))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return Found(
        imported=[n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module],
        fakes=[
            node.name
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name.startswith("Fake")
        ],
        asserts=[node.lineno for node in nodes if isinstance(node, ast.Assert)],
        unpacked=[
            node.lineno
            for node in nodes
            if isinstance(node, ast.Starred) and isinstance(node.value, (ast.Tuple, ast.List))
        ],
        tests=[node for node in functions if node.name.startswith("test_")],
        limits=list(own_limits(nodes)),
        typed=all(is_typed(node) for node in functions),
    )


def test_nothing_is_imported_from_a_test_file() -> None:
    assert len(FILES) > 200
    wrong = [
        (str(file.relative_to(ROOT)), module)
        for file in FILES
        for module in found_in(file).imported
        if module.startswith("tests.") and module.split(".")[-1].startswith("test_")
    ]
    assert wrong == []


def test_there_is_one_fake_of_each_kind() -> None:
    names = [name for file in FILES for name in found_in(file).fakes]
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
        f"{file.relative_to(ROOT)}:{line}" for file in files for line in found_in(file).asserts
    ]
    assert asserts == []


def test_no_tuple_is_unpacked_into_another() -> None:
    """The formatter says where lines end, not stars."""
    files = sorted((ROOT / "spe_unicorn").rglob("*.py"))
    rooms = {"host", "compiled"}
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        if file.relative_to(ROOT).parts[1] not in rooms
        for line in found_in(file).unpacked
    ]
    assert found == []


def may_assert_nothing(test: ast.FunctionDef) -> bool:
    """Whether each ``assert`` of a test stands inside an ``if`` that has no ``else`` with one.

    What raises, and helpers whose name begins with "expect", count as an ``assert``.
    """
    where = list(_asserted(test.body, always=True))
    return bool(where) and not any(where)


def _asserted(body: list[ast.stmt], *, always: bool) -> Iterator[bool]:
    """For each ``assert`` below these statements whether it is reached by every case."""
    for node in body:
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and _expects(node.value)):
            yield always
        elif isinstance(node, ast.If):
            found = [list(_asserted(way, always=False)) for way in (node.body, node.orelse)]
            yield from [always] if all(found) else found[0] + found[1]
        elif isinstance(node, ast.Match):
            for case in node.cases:
                yield from _asserted(case.body, always=False)
        elif isinstance(node, (ast.For, ast.While, ast.With, ast.Try)):
            if isinstance(node, ast.With) and any(_expects(i.context_expr) for i in node.items):
                yield always
            yield from _asserted(node.body, always=always)


def _expects(value: ast.expr) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = _last_name(value.func)
    return name in {"raises", "warns", "fail"} or name.startswith("expect")


def _last_name(function: ast.expr) -> str:
    """Of ``a.b.c`` the ``c``; "" for what is no name."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def test_no_test_asserts_only_where_a_condition_holds() -> None:
    """A test whose condition never holds would pass; it counts the cases in which it did."""
    tests = [(file, test) for file in FILES for test in found_in(file).tests]
    assert len(tests) > 3000
    assert [f"{file.name}: {node.name}" for file, node in tests if may_assert_nothing(node)] == []


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("if a:\n        assert b", True),
        ("for a in b:\n        if a:\n            assert b", True),
        ("if a:\n        assert b\n    else:\n        pass", True),
        ("if a:\n        assert b\n    else:\n        assert c", False),
        ("if a:\n        assert b\n    assert c", False),
        ("with raises(ValueError):\n        a()", False),
        ("if a:\n        assert b\n    else:\n        expect_event(c)", False),
        ("a()", False),
    ],
)
def test_such_a_test_is_found(body: str, wrong: bool) -> None:
    (test,) = ast.parse(f"def test_it():\n    {body}").body
    assert isinstance(test, ast.FunctionDef)
    assert may_assert_nothing(test) == wrong


def own_limits(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """The lines where a process is waited for by a number of seconds of the test's own."""
    for node in nodes:
        if isinstance(node, ast.Call) and _waits(node.func):
            limits = [key.value for key in node.keywords if key.arg == "timeout"]
            yield from (node.lineno for limit in limits if isinstance(limit, ast.Constant))


def _waits(function: ast.expr) -> bool:
    """Whether a function waits for a process. Its whole name is made up only where that counts."""
    name = _last_name(function)
    if name in {"run", "create_connection"}:
        return ast.unparse(function) in {"subprocess.run", "socket.create_connection"}
    return name in {"communicate", "wait", "settimeout"}


def test_no_test_fails_because_the_machine_is_busy() -> None:
    """``WALL_SECONDS`` ends what sleeps for ever; ``limit_cpu`` what works for ever."""
    tests = [file for file in FILES if file.is_relative_to(ROOT / "tests")]
    assert len(tests) > 200
    wrong = [f"{f.name}:{n}" for f in tests for n in found_in(f).limits]
    assert wrong == []


def test_a_limit_of_its_own_is_found() -> None:
    text = (
        "subprocess.run(a, timeout=60)\np.communicate(timeout=WALL_SECONDS)\nmachine.run(timeout=1)"
    )
    assert list(own_limits(ast.walk(ast.parse(text)))) == [1]


def is_typed(function: ast.FunctionDef) -> bool:
    """Whether a function says the types of its result and of all that it is given."""
    given = function.args
    names = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    said = [name.annotation for name in names if name and name.arg not in ("self", "cls")]
    return function.returns is not None and None not in said


def test_tests_say_their_types_but_for_files_that_are_listed() -> None:
    """A file that has learned to leaves the list, and no other comes on it."""
    listed = (ROOT / "tests" / "untyped.txt").read_text().splitlines()
    tests = sorted((ROOT / "tests").rglob("*.py"))
    assert [str(f.relative_to(ROOT)) for f in tests if not found_in(f).typed] == listed


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("def f() -> None: ...", True),
        ("def f(): ...", False),
        ("def f(a) -> None: ...", False),
        ("def f(self, a: int, *b: int, c: int, **d: int) -> int: ...", True),
        ("def f(*b) -> None: ...", False),
        ("def f(*, c) -> None: ...", False),
    ],
)
def test_a_function_without_types_is_found(text: str, typed: bool) -> None:
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert is_typed(function) == typed
