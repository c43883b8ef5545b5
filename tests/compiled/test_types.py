"""Compiled functions say what they are given, so that mypy can find what no record has."""

from __future__ import annotations

import pytest

from spe_unicorn.compiled import Entry, functions
from tests.support.every_entry import every_entry

EVERY = [known for known in every_entry() if isinstance(known, Entry)]
ROUTINES = sorted(
    (one for one in functions._ROUTINES if one.__module__.startswith("spe_unicorn.")),
    key=lambda one: (one.__module__, one.__qualname__),
)


def test_no_parameter_of_a_compiled_function_is_any() -> None:
    assert len(ROUTINES) > 200
    untyped = {
        f"{one.__module__}.{one.__qualname__}: {name}"
        for one in ROUTINES
        for name, kind in one.__annotations__.items()
        if "Any" in str(kind).split(".")[-1]
    }
    assert untyped == set()
    for one in ROUTINES:
        code = one.__code__
        assert {*code.co_varnames[: code.co_argcount], "return"} == {*one.__annotations__}, one


@pytest.mark.parametrize("known", EVERY, ids=lambda known: str(known.name))
def test_the_types_of_an_entry_are_those_of_its_prototype(known: Entry) -> None:
    *given, returned = map(str, known.function.__annotations__.values())
    assert given == ["Pointer" if kind == "pointer" else "int" for kind in known.arguments]
    results = {"void": {"None"}, "bool": {"bool"}, "pointer": {"Pointer"}}
    assert returned in results.get(known.result, {"int"})
