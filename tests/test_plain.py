"""Plain data as JSON and back: what a file says is what its type says, or nothing."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

import numpy as np
import pytest

from spe_unicorn.arch.registers.spe import PMSCR_EL1
from spe_unicorn.plain import (
    Bits8,
    Bits64,
    Count,
    PlainError,
    Within,
    decode,
    decode_array,
    encode,
)


class Colour(Enum):
    RED = 1
    BLUE = "blue"


@dataclass
class Thing:
    flag: bool = False
    number: Bits8 = 0
    items: list[Bits8] = field(default_factory=list)


@pytest.mark.parametrize(
    ("hint", "value", "as_json"),
    [
        (bool, True, True),
        (bool, False, False),
        (int, 1, 1),
        (int, -1, -1),
        (str, "a", "a"),
        (type(None), None, None),
        (bool | None, None, None),
        (bool | None, True, True),
        (bytes, b"\x00\xff", "AP8="),
        (bytearray, bytearray(b"a"), "YQ=="),
        (Colour, Colour.BLUE, "blue"),
        (dict[int, bool], {3: True}, [[3, True]]),
        (dict[str, bytes], {"a": b"a"}, [["a", "YQ=="]]),
        (set[int], {2, 1}, [1, 2]),
        (deque[int], deque([2, 1]), [2, 1]),
        (tuple[int, bool], (1, True), [1, True]),
        (tuple[int, ...], (1, 2, 3), [1, 2, 3]),
        (Thing, Thing(True, 7, [1]), {"flag": True, "number": 7, "items": [1]}),
        (list[Thing], [], []),
    ],
)
def test_a_value_comes_back_with_its_type(hint: Any, value: Any, as_json: Any) -> None:
    written = json.loads(json.dumps(encode(value)))
    assert repr(written) == repr(as_json)  # 1 == True, but a truth value stays one
    found = decode(hint, written)
    assert repr(found) == repr(value)
    assert type(found) is type(value)


def test_a_register_is_its_number() -> None:
    register = PMSCR_EL1(3)
    assert encode(register) == 3
    assert type(encode(register)) is int
    assert decode(PMSCR_EL1, 3) == register


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (bool, 0),
        (bool, 1),
        (bool, None),
        (bool, "true"),
        (int, True),
        (int, False),
        (int, 1.0),
        (int, "1"),
        (str, 1),
        (str, None),
        (type(None), False),
        (bytes, "A"),
        (bytes, [65]),
        (bytes, "a b="),
        (Colour, 3),
        (Colour, None),
        (Colour, [1]),
        (Colour, True),
        (PMSCR_EL1, True),
        (PMSCR_EL1, -1),
        (PMSCR_EL1, 1 << 64),
        (PMSCR_EL1, "x"),
        (list[int], {}),
        (list[int], "12"),
        (list[int], [True]),
        (dict[int, int], {"1": 1}),
        (dict[int, int], [[1]]),
        (dict[int, int], [[1, 2, 3]]),
        (dict[int, int], [[True, 2]]),
        (tuple[int, int], [1]),
        (tuple[int, int], [1, 2, 3]),
        (Thing, {"flag": True, "number": 1}),
        (Thing, {"flag": True, "number": 1, "items": [], "more": 1}),
        (Thing, {"flag": 1, "number": 1, "items": []}),
        (Thing, {"flag": True, "number": True, "items": []}),
        (Thing, {"flag": True, "number": 256, "items": []}),
        (Thing, {"flag": True, "number": 1, "items": [-1]}),
        (Thing, [True, 1, []]),
        (float, 1.0),
        (object, None),
        (int, 1 << 64),
        (int, -1 - (1 << 63)),
        pytest.param(int, 10**5000, id="a number that Python does not write"),
        (Bits64, -1),
        (Count, -1),
        (Count, 1 << 62),
        (Annotated[bytes, Within(1, 2)], ""),
        (Annotated[bytes, Within(1, 2)], "AAAA"),
        (Annotated[list[int], Within(0, 2)], [1, 2, 3]),
    ],
)
def test_what_a_type_does_not_say_is_refused_in_a_line(hint: Any, data: Any) -> None:
    with pytest.raises(PlainError) as raised:
        decode(hint, data)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("value", [0, 255])
def test_the_ends_of_a_range_are_in_it(value: int) -> None:
    assert decode(Bits8, value) == value
    assert decode(list[Bits8], [value]) == [value]


def test_an_array_has_the_type_and_length_that_is_expected() -> None:
    like = np.zeros((2, 3), np.int64)
    values = np.arange(6, dtype=np.int64).reshape(2, 3)
    assert (decode_array(like, encode(values)) == values).all()
    kind, data = encode(values)
    for other in (["<u8", data], [kind, data[:-4]], [kind, 7], [kind], {}, None, [kind, data, 0]):
        with pytest.raises(PlainError):
            decode_array(like, other)


@pytest.mark.parametrize("value", [1.5, object(), lambda: 0, 1j])
def test_what_is_no_plain_data_is_not_written(value: Any) -> None:
    with pytest.raises(PlainError, match="is no plain data"):
        encode(value)
