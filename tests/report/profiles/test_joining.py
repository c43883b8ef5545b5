"""Rows of text that are made many at once are those that are made one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from spe_unicorn.report.profiles import joining
from spe_unicorn.report.profiles.joining import decimal, joined_rows, truths
from spe_unicorn.report.texts import Coded


def column(chance: random.Random, rows: int) -> Coded | str:
    """Few or many texts, some of them alike, empty or of no row."""
    if chance.random() < 0.3:
        return chance.choice(["", ",", "x\n"])
    count = chance.choice([1, 2, 3, 7, rows, 3 * rows])
    names = [chance.choice(["", "a", "é", f"n{n}", "long" * 9]) for n in range(count)]
    return Coded(names, np.array([chance.randrange(count) for _ in range(rows)], np.int32))


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_the_texts_of_their_columns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(joining, "_TOLD_APART", chance.choice([1 << 20, 64]))
    rows = chance.choice([1, 3, 40, 400])
    columns = [column(chance, rows) for _ in range(chance.randrange(8))]
    columns.insert(chance.randrange(len(columns) + 1), Coded(["q", "r"], np.arange(rows) % 2))
    lists = [[c] * rows if isinstance(c, str) else c.tolist() for c in columns]
    assert joined_rows(columns) == "".join(map("".join, zip(*lists, strict=True)))


def test_no_rows_are_no_text() -> None:
    assert joined_rows([Coded([], np.zeros(0, np.int32)), "\n"]) == ""
    assert joined_rows(["a", *decimal(np.zeros(0, np.uint64))]) == ""


@pytest.mark.parametrize(
    "values",
    [
        [0],
        [7, 7, 7],
        [5, 63, 68],
        [0, 4095],
        [0, 9, 99, 999, 1000, 1001, 9999, 10_000],
        [1000, 999_999, 5_000_000, 5_000_007, 12_000],
        [(1 << 64) - 1, 0, 1 << 63],
        [(1 << 64) - 1, (1 << 64) - 3],
    ],
)
def test_digits_of_numbers_are_those_that_python_writes(values: list[int]) -> None:
    made = joined_rows([*decimal(np.array(values, np.uint64)), "\n"])
    assert made.split() == [str(value) for value in values]


def test_digits_of_numbers_with_a_sign() -> None:
    values = [-1, 4_000_000, -(1 << 40), 0, 17]
    made = joined_rows([*decimal(np.array(values, np.int64)), "\n"])
    assert made.split() == [str(value) for value in values]


def test_truths_are_words() -> None:
    for values in ([False, False], [True, False], [True, True]):
        told = truths(np.array(values))
        columns = [Coded(["-"], np.zeros(2, np.int32)), told, "\n"]
        assert joined_rows(columns).split() == [f"-{str(value).lower()}" for value in values]
