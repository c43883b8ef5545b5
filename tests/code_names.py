"""Which names of code there are, so that a page which names another one is found out.

A page names code in backquotes. A quotation is looked at if it is one of these:

- a path, maybe with the arguments of a program: ``host/run/blocks.py``, ``scripts/bench``;
- a file without its folder: ``test_marks.py``;
- names joined by dots: ``spe.batch.Kind`` from a module, or ``Sampler.streamed`` from a class;
- one name: ``slot_of``.

All else, such as an option or a command line, is not looked at.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "spe_unicorn"
_ROOMS = ("spe_unicorn", "tests", "scripts", "docs", "firmware", "examples")
_OF_OTHERS = {"uc_mem_protect", "uc_ctl_set_exits", "setjmp", "kill", "bs", "bc"}
"""Functions of Unicorn, C and POSIX, and packets of GDB. No code of ours names them."""
_IDENTIFIER = r"[A-Za-z_]\w*"


def quotations(page: str) -> list[str]:
    """What stands in backquotes in the text of a page, each once. Blocks of code are left out."""
    text = re.sub(r"```.*?```", "", page, flags=re.S)
    return list(dict.fromkeys(re.findall(r"`([^`\n]+)`", text)))


class CodeNames:
    """The names of files, modules, classes, their members, and all other names of the project."""

    def __init__(self) -> None:
        self.paths = {file for room in _ROOMS for file in (ROOT / room).rglob("*")}
        self.files = {path.name for path in self.paths} | {path.name for path in ROOT.iterdir()}
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = project["optional-dependencies"]
        libraries = [
            *project["dependencies"],
            *(name for extra in extras.values() for name in extra),
        ]
        self.names = {path.stem for path in self.paths} | {PACKAGE.name, *extras} | _OF_OTHERS
        self.names |= {name for text in libraries for name in re.findall(r"^[\w-]+", text)}
        self.modules: dict[str, set[str]] = {}
        self.members: dict[str, set[str]] = defaultdict(set)
        self._bases: dict[str, set[str]] = defaultdict(set)
        for file in sorted(PACKAGE.rglob("*.py")):
            self._add(file)
        for file in sorted((ROOT / "firmware").rglob("*.c")):
            self.names |= set(re.findall(_IDENTIFIER, file.read_text()))

    def has(self, quotation: str) -> bool:
        """Whether a quotation names something that exists, or names no code."""
        word = quotation.split()[0].removesuffix("()")
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", word) and "/" in word:
            return any((folder / word).exists() for folder in (ROOT, PACKAGE))
        if re.fullmatch(r"[\w-]+\.(py|elf|toml|md)", word):
            return word in self.files
        if word != quotation.removesuffix("()"):
            return True
        if re.fullmatch(rf"{_IDENTIFIER}(\.{_IDENTIFIER})+", word):
            return self._has_dotted(word.split("."))
        return not re.fullmatch(_IDENTIFIER, word) or word in self.names

    def _has_dotted(self, parts: list[str]) -> bool:
        if parts[0] == "spe_unicorn":
            parts = parts[1:]
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            if module in self.modules:
                return self._has_in(self.modules[module], parts[length:])
        if parts[0] in self.members:
            return self._has_in(self.members.keys(), parts)
        return _is_of_a_library(".".join(parts))

    def _has_in(self, names: set[str], parts: list[str]) -> bool:
        if not parts:
            return True
        return parts[0] in names and self._has_in(self._members_of(parts[0]), parts[1:])

    def _members_of(self, name: str) -> set[str]:
        own = set(self.members[name]) if name in self.members else set()
        return own.union(*(self._members_of(base) for base in self._bases.get(name, ())))

    def _add(self, file: Path) -> None:
        path = file.relative_to(PACKAGE).with_suffix("")
        parts = path.parts[:-1] if path.name == "__init__" else path.parts
        tree = ast.parse(file.read_text())
        self.modules[".".join(parts)] = set(_defined(tree.body))
        for node in ast.walk(tree):
            self.names |= set(_named(node))
            if isinstance(node, ast.ClassDef):
                own = {n.attr for n in ast.walk(node) if _is_own_attribute(n)}
                self.members[node.name] |= own | set(_defined(node.body))
                self._bases[node.name] |= {b.id for b in node.bases if isinstance(b, ast.Name)}


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements of a module or a class define or import."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _named(node: ast.AST) -> Iterator[str]:
    """The name that one node of a syntax tree defines or uses, and a text that may be a name."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, (ast.arg, ast.keyword)) and node.arg:
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _is_own_attribute(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def _is_of_a_library(module: str) -> bool:
    """Whether a library or Python itself has a module."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
