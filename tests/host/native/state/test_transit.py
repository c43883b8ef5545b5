"""What a field says of the function that empties it is true: that function is there, and does."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import spe_unicorn
from spe_unicorn.host.native.state.transit import Transit

HOST = Path(spe_unicorn.__file__).parent / "host"
SAID = re.compile(r"((?:`[\w.]+`(?: and )?)+) (?:empties|empty) it\b")
"""How a field names the functions that empty it."""


def functions() -> dict[str, list[dict[str, ast.FunctionDef]]]:
    """The functions of host by name, `Class.method` for methods, each with its neighbours."""
    found: dict[str, list[dict[str, ast.FunctionDef]]] = defaultdict(list)
    for source in sorted(HOST.rglob("*.py")):
        module = ast.parse(source.read_text("utf-8"))
        classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
        for prefix, body in [("", module.body), *((f"{c.name}.", c.body) for c in classes)]:
            beside = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
            for name in beside:
                found[prefix + name].append(beside)
    return found


FUNCTIONS = functions()
EMPTIED = [
    pytest.param(field.name, function, id=f"{field.name}-{function}")
    for field in Transit.FIELDS
    for names in SAID.findall(field.meaning)
    for function in re.findall(r"`([\w.]+)`", names)
]


def of_its_own(function: ast.FunctionDef) -> Iterator[str]:
    """The attributes of `self` that a method reads, its other methods among them."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
            yield node.attr


def stored(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """The attributes that a function stores to, as `object.attribute`, each with its value."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                targets = target.elts if isinstance(target, ast.Tuple) else [target]
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                values = values if several else [node.value] * len(targets)
                for place, value in zip(targets, values, strict=True):
                    yield ast.unparse(place), ast.unparse(value)


def empties(name: str, field: str) -> bool:
    """Whether a function, or a method of its own that it calls, stores 0 to a field of a state."""
    (beside,) = FUNCTIONS[name]
    reached = [name.rpartition(".")[2]]
    for one in reached:
        for place, value in stored(beside[one]):
            of, _, attribute = place.rpartition(".")
            states = {"self"} if name.startswith("State.") else {"s", "state", "_state"}
            if attribute == field and value == "0" and of.rpartition(".")[2] in states:
                return True
        reached += [n for n in of_its_own(beside[one]) if n in beside and n not in reached]
    return False


def test_whoever_empties_a_field_is_named_in_the_form_that_is_looked_up():
    for field in Transit.FIELDS:
        assert "empt" not in SAID.sub("", field.meaning), field.name


def test_the_fields_that_python_has_to_act_on_name_who_does():
    assert {"notice", "controls_written", "stale_code", "wrong", "rose", "notes_held"} <= {
        one.values[0] for one in EMPTIED
    }


@pytest.mark.parametrize(("field", "function"), EMPTIED)
def test_the_function_that_a_field_names_empties_it(field, function):
    assert len(FUNCTIONS[function]) == 1, f"{function} is defined {len(FUNCTIONS[function])} times"
    assert empties(function, field)
