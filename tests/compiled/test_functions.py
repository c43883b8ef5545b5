"""What compiled code depends on is part of its key: no edit leaves old machine code in use."""

from __future__ import annotations

import subprocess
import sys
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from spe_unicorn.compiled import (
    Entry,
    ForeignCall,
    array_at,
    entry,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.compiled.functions import dependencies, reached, routine_of
from tests.support.every_entry import every_entry

STEP = 3
PAIR = np.dtype([("low", np.int64), ("high", np.int64)])
WORDS = {"a": 1}
WITHOUT_NUMBERS = {"spe_unicorn.host.native.model.mispredicted_at"}
call_twice = ForeignCall("int32", ("int32",))


@routine
def tripled(number: Any) -> Any:
    return number * STEP


@entry("int64", "int64")
def tripled_and_one(number: Any) -> Any:
    return tripled(number) + 1


@entry("int64", "int64")
def tripled_by_constants(number: Any) -> Any:
    return tripled(5) + tripled(7) + number


@entry("int64", "pointer")
def sum_of_pair(pair: Any) -> Any:
    p = record_at(pair, PAIR)
    p.high += p.low
    return p.high


@entry("uint32", "int64", "int64", "int64")
def cell(table: Any, row: Any, column: Any) -> Any:
    return array_at(pointer_to(table), (2, 3), np.uint32)[row, column]


@entry("int64", "int64", "int64")
def ask(function: Any, number: Any) -> Any:
    return call_twice(function, number)


@entry("int64")
def reads_a_dictionary() -> Any:
    return WORDS["a"]


def key_with(known: Entry, namespace: dict[str, Any]) -> str:
    """The key that an entry would have if its module's globals were others."""
    function = known.function
    other = FunctionType(function.__code__, function.__globals__ | namespace, function.__name__)
    other.__qualname__ = function.__qualname__
    return Entry(other, known.result, *known.arguments).key


def test_an_entry_computes_what_its_text_says() -> None:
    assert tripled_and_one(5) == 16
    assert tripled_and_one(-(1 << 62)) == 1 + (1 << 62)  # 64 bits: three times -2^62 is 2^62
    assert tripled(5) == 15  # the routine stays a function of Python


def test_an_entry_is_made_in_one_piece_with_its_text() -> None:
    lines = tripled_and_one.ir().splitlines()
    assert not [line for line in lines if "noinline" in line and not line.startswith(";")]


def test_a_program_that_uses_numba_itself_gets_code_that_runs() -> None:
    import numba

    before = numba.njit(lambda number: number + 1)
    assert before(1) == 2
    assert "entry" in tripled_and_one.ir()
    assert before(1.5) == 2.5
    assert numba.njit(lambda number: number + 2)(1) == 3
    assert numba.njit(lambda words, n: words[n])(np.arange(4), -1) == 3  # from the array's end


def test_an_index_is_an_index() -> None:
    """No compiled code counts from an array's end, so that none asks whether it does."""
    assert not [line for line in cell.ir().splitlines() if "icmp slt" in line]


def test_a_routine_is_compiled_once_for_all_constants() -> None:
    from spe_unicorn.compiled import translate

    assert tripled_by_constants(5) == 15 + 21 + 5
    assert tripled_by_constants.ir()  # compiled here, whatever the cache has
    assert len(translate._routines[tripled].signatures) == 1


def test_records_arrays_and_calls_by_address() -> None:
    pair = np.zeros(1, PAIR)
    pair["low"], pair["high"] = 5, -2
    assert sum_of_pair(pair.ctypes.data) == 3
    assert pair["high"][0] == 3
    table = np.arange(6, dtype=np.uint32).reshape(2, 3)
    assert cell(table.ctypes.data, 1, 2) == 5
    import ctypes

    doubled = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(lambda number: number * 2)
    address = ctypes.cast(doubled, ctypes.c_void_p).value
    assert address is not None
    assert ask(address, -21) == -42


def test_a_number_that_a_routine_reads_is_part_of_the_key() -> None:
    renumbered = FunctionType(tripled.__code__, tripled.__globals__ | {"STEP": 4}, "tripled")
    assert key_with(tripled_and_one, {"tripled": routine(renumbered)}) != tripled_and_one.key
    assert key_with(tripled_and_one, {}) == tripled_and_one.key


def test_a_layout_is_part_of_the_key() -> None:
    swapped = np.dtype([("high", np.int64), ("low", np.int64)])
    assert key_with(sum_of_pair, {"PAIR": swapped}) != sum_of_pair.key


def test_the_text_of_a_routine_is_part_of_the_key_and_what_its_docstring_says_is_not() -> None:
    def variant(doc: str, sign: str) -> str:
        namespace: dict[str, Any] = {"STEP": 3}
        exec(f"def tripled(number):\n    '{doc}'\n    return number {sign} STEP", namespace)
        return key_with(tripled_and_one, {"tripled": routine(namespace["tripled"])})

    assert variant("Thrice.", "*") == variant("Three times as much.", "*")
    assert variant("Thrice.", "*") != variant("Thrice.", "+")


def test_what_could_change_unseen_is_refused() -> None:
    with pytest.raises(TypeError, match="reads the global name WORDS, a dict"):
        _ = reads_a_dictionary.address
    lost = FunctionType(reads_a_dictionary.function.__code__, {}, "reads_a_dictionary")
    with pytest.raises(TypeError, match="reads_a_dictionary reads WORDS, which is not defined"):
        _ = Entry(lost, "int64").address
    with pytest.raises(TypeError, match="closure or default values"):
        routine(lambda number=1: number)
    with pytest.raises(TypeError, match="'float' is none of void, bool"):
        entry("float")(tripled)


def test_words_of_compiled_code_mean_nothing_to_python() -> None:
    with pytest.raises(TypeError, match="compiled code only"):
        array_at(0, (1,), np.int64)


@pytest.mark.parametrize(
    "known", [e for e in every_entry() if isinstance(e, Entry)], ids=lambda e: e.name
)
def test_every_number_that_the_package_compiles_in_changes_its_key(known: Entry) -> None:
    """Also those of other modules: this was not so once, and old code stayed in the cache."""
    lines = list(dependencies(known.function))
    functions = [known.function]
    numbers = 0
    for function in functions:
        for name, value in reached(function):
            called = routine_of(value)
            if called is not None and called not in functions:
                functions.append(called)
            if isinstance(value, int):
                assert f"{name} = {int(value)}" in lines
                changed = FunctionType(
                    function.__code__, function.__globals__ | {name: value + 1}, function.__name__
                )
                assert list(dependencies(changed)) != list(dependencies(function)), name
                numbers += 1
    assert (numbers > 0) == (known.name not in WITHOUT_NUMBERS)


def test_all_machine_code_of_the_package_is_kept_and_then_loaded_without_numba() -> None:
    for known in every_entry():
        assert known.address
    code = (
        "import sys\n"
        "from tests.support.every_entry import every_entry\n"
        "assert all(known.address for known in every_entry())\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'numba'])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr
    assert result.stderr == ""
