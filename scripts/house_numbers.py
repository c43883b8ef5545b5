"""How the house is kept, in numbers: what ``scripts/house`` prints."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

from spe_unicorn import Machine
from spe_unicorn.host.native.model import ModelState
from spe_unicorn.host.native.state.whole import PARTS
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.claims import all_objects, attributes, changed, claimed, held, unclaimed

ROOT = Path(__file__).resolve().parents[1]
MOST_PARAMETERS = 6
MOST_ATTRIBUTES = 20
RULES = ROOT / "docs/adr/0026-one-text-for-a-rule.md"


def folders() -> str:
    """How many folders hold Python files, and the fullest ones."""
    files = [f for room in ("spe_unicorn", "tests", "scripts") for f in (ROOT / room).rglob("*.py")]
    counts = Counter(str(file.parent.relative_to(ROOT)) for file in files)
    fullest = ", ".join(f"{name} {count}" for name, count in counts.most_common(5))
    return f"folders       {len(counts)}, {len(files)} Python files; the fullest: {fullest}"


def contracts() -> str:
    """How many contracts of imports there are."""
    count = (ROOT / "pyproject.toml").read_text().count("[[tool.importlinter.contracts]]")
    return f"contracts     {count} of imports; lint-imports says whether they are kept"


def fields() -> list[str]:
    """The fields that hooks and Python share, part by part, and those of a model, by writer."""
    lines = []
    for part in (*PARTS, ModelState):
        writers = Counter(field.writer for field in part.FIELDS)
        by = ", ".join(f"{count} {writer.name.lower()}" for writer, count in writers.items())
        lines.append(f"{part.__name__.lower():13} {len(part.FIELDS)} fields; writers: {by}")
    return lines


def parsed() -> Iterator[ast.AST]:
    """Everything that the text of the package says."""
    for file in sorted((ROOT / "spe_unicorn").rglob("*.py")):
        yield from ast.walk(ast.parse(file.read_text("utf-8")))


def anys() -> str:
    """How often the package says ``Any``; tests/compiled/test_types.py keeps it from hooks."""
    files = (ROOT / "spe_unicorn").rglob("*.py")
    said = sum(len(re.findall(r"\bAny\b", file.read_text("utf-8"))) for file in files)
    return f"Any           {said} in the package"


def parameters() -> str:
    """How many functions have more than :data:`MOST_PARAMETERS`, without ``self``."""
    many = 0
    for node in parsed():
        if isinstance(node, ast.FunctionDef):
            given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            many += sum(each.arg not in ("self", "cls") for each in given) > MOST_PARAMETERS
    return f"parameters    {many} functions have more than {MOST_PARAMETERS}"


def booleans() -> str:
    """How many truths are given or taken by position, by ruff's three rules."""
    command = ["ruff", "check", "--isolated", "--select", "FBT", "--output-format", "concise"]
    done = subprocess.run([*command, "spe_unicorn"], cwd=ROOT, capture_output=True, text=True)
    found = Counter(re.findall(r"\b(FBT\d+)\b", done.stdout))
    room = Counter(re.findall(r"^spe_unicorn/(\w+).*\bFBT", done.stdout, re.M))
    by_rule = ", ".join(f"{rule} {count}" for rule, count in sorted(found.items()))
    by_room = ", ".join(f"{name} {count}" for name, count in room.most_common(5))
    return f"booleans      by position: {found.total()} ({by_rule}); the most: {by_room}"


def large_classes() -> str:
    """The classes with more than :data:`MOST_ATTRIBUTES` that are not plain data."""
    large = []
    for node in parsed():
        if not isinstance(node, ast.ClassDef) or not any(map(_initializes, node.body)):
            continue
        held = {each.attr for each in ast.walk(node) if _is_set_on_self(each)}
        if len(held) > MOST_ATTRIBUTES:
            large.append((len(held), node.name))
    named = ", ".join(f"{name} {count}" for count, name in sorted(large, reverse=True))
    return f"classes       {len(large)} hold more than {MOST_ATTRIBUTES} attributes: {named}"


def _initializes(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"


def _is_set_on_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    return stored and isinstance(node.value, ast.Name) and node.value.id == "self"


def rules() -> str:
    """How many rules of both paths have one text, and how many two, by the decision record."""
    page = RULES.read_text()
    row = re.compile(r"^\| (?!Rule)([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.M)
    rows = row.findall(page)
    twice = len(row.findall(page.partition("| Rule | Its texts |")[2]))
    held_by = {name for row in rows for name in re.findall(r"`(test_\w+\.py)`", row[2])}
    homes = {name for row in rows for name in re.findall(r"`([\w/]+/\w+\.py)`", row[1])}
    there = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    gone = sorted(held_by - there)
    gone += sorted(home for home in homes if not (ROOT / "spe_unicorn" / home).exists())
    missing = f"; files that are not there: {', '.join(gone)}" if gone else ""
    return (
        f"rules         of both paths: {len(rows) - twice} with one text, {twice} with two;"
        f" each has its test{missing}"
    )


def attributes_claimed() -> str:
    """Attributes of a machine that runs a driver, and those that nobody claims."""
    machine = Machine(shipped_firmware("spe_irq_el1"))
    machine.run(operations=500)
    things = all_objects(machine)
    before = held(things)
    machine.run(operations=100_000)
    classes = {type(thing): set(attributes(thing)) for _, thing in things}
    names = sum(len(found) for found in classes.values())
    by_name = sum(len(found & claimed(cls)) for cls, found in classes.items())
    nobody = len(unclaimed(things)) + len(changed(things, before))
    return (
        f"attributes    {names} of {len(classes)} classes: {by_name} claimed by name,"
        f" {names - by_name - nobody} wiring that does not change, {nobody} claimed by nobody"
    )


for line in (
    *(folders(), contracts(), *fields(), rules(), attributes_claimed()),
    *(anys(), parameters(), booleans(), large_classes()),
):
    print(line)
