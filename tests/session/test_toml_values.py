"""Values of options in TOML files: what each check takes, and what it says of others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from spe_unicorn.session import toml_values as check


@pytest.mark.parametrize(
    ("taken", "value", "given"),
    [
        (check.text, "a", "a"),
        (check.text, "", ""),
        (check.truth, False, False),
        (check.whole(1), 1, 1),
        (check.whole(0), 0, 0),
        (check.seconds, 1, 1.0),
        (check.seconds, 0.25, 0.25),
        (check.size, 4096, 4096),
        (check.size, "128M", 128 << 20),
        (check.size, "0x1000", 4096),
        (check.texts, [], ()),
        (check.texts, ["a", "b"], ("a", "b")),
    ],
)
def test_a_right_value_is_given_on(
    taken: Callable[..., Any], value: Any, given: float | str | tuple[str, str]
) -> None:
    found = taken(value)
    assert (found, type(found)) == (given, type(given))


@pytest.mark.parametrize(
    ("refuses", "value", "said"),
    [
        (check.text, 3, "is a text, got 3"),
        (check.text, ["a"], "is a text, got ['a']"),
        (check.truth, 1, "is true or false, got 1"),
        (check.truth, "true", "is true or false, got 'true'"),
        (check.whole(1), 0, "is a whole number from 1 on, got 0"),
        (check.whole(0), -1, "is a whole number from 0 on, got -1"),
        (check.whole(0), True, "is a whole number from 0 on, got True"),
        (check.whole(0), 1.0, "is a whole number from 0 on, got 1.0"),
        (check.whole(0), "1", "is a whole number from 0 on, got '1'"),
        (check.seconds, 0, "is a number of seconds, got 0"),
        (check.seconds, float("inf"), "is a number of seconds, got inf"),
        (check.seconds, float("nan"), "is a number of seconds, got nan"),
        (check.seconds, True, "is a number of seconds, got True"),
        (check.size, "1X", "'1X' is no size; write 128M, 1G or a number of bytes"),
        (check.size, 0, 'is a number of bytes or such as "128M", got 0'),
        (check.size, 1.5, 'is a number of bytes or such as "128M", got 1.5'),
        (check.texts, "a", "is a list of texts, got 'a'"),
        (check.texts, ["a", 1], "is a list of texts, got ['a', 1]"),
    ],
)
def test_a_wrong_value_is_refused_with_what_it_is(
    refuses: Callable[..., Any], value: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        refuses(value)
