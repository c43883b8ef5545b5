"""Many rows of text at once, each the texts of its columns one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spe_unicorn.report.texts import Coded, Distinct, distinct

_FEW: Final = 4
"""Texts of several columns are made together where each is used so often."""
_TOLD_APART: Final = 1 << 20
"""Of two columns that could make more texts than this, the texts are not counted."""
_LOW: Final = 1000
"""Numbers that lie far apart are two texts: what stands above the last three digits, and these."""
_FAR: Final = 4096
_NEAR: Final = 64
"""Of so many numbers the texts are made whether they are used or not."""
_LOW_DIGITS: Final = [*map(str, range(_LOW)), *(f"{low:03d}" for low in range(_LOW))]


def joined_rows(columns: Sequence[Coded | str]) -> str:
    """The rows of some columns, of which those that are one text are the same in all rows.

    What neighbouring columns say together is made once for all rows that say it. Each column that
    stands alone is one more text of each row to join, which is what takes the time.
    """
    count = next(len(column.numbers) for column in columns if isinstance(column, Coded))
    if not count:
        return ""
    most = max(1, count // _FEW)
    groups: list[_Group] = []
    for each in columns:
        column = each if isinstance(each, Coded) else Coded([each], np.zeros(count, np.int32))
        if not groups or not groups[-1].takes(column, most):
            groups.append(_Group(column))
    parts = [""] * (count * len(groups))
    for place, group in enumerate(groups):
        parts[place :: len(groups)] = group.texts()
    return "".join(parts)


def decimal(values: npt.NDArray[Any]) -> list[Coded]:
    """Whole numbers as columns of texts, which together are their digits."""
    if not len(values):
        return [Coded([], values)]
    low, high = int(np.min(values)), int(np.max(values))
    if high - low < _NEAR:
        numbers = (values - values.dtype.type(low)).astype(np.int32)
        return [Coded(list(map(str, range(low, high + 1))), numbers)]
    if low < 0 or high - low < _FAR:
        return [_as_texts(distinct(values))]
    return _in_two(values)


def truths(values: npt.NDArray[np.bool_]) -> Coded | str:
    """Truths as texts."""
    return Coded(["false", "true"], values.astype(np.int32)) if values.any() else "false"


def _in_two(values: npt.NDArray[Any]) -> list[Coded]:
    """Whole numbers as two columns, the second of which are the last three digits."""
    thousand = values.dtype.type(_LOW)
    high = distinct(values // thousand)
    texts = _as_texts(high)
    low = (values % thousand).astype(np.int32) + np.int32(_LOW)
    if not high.values[0]:
        texts.names[0] = ""
        low[high.numbers == 0] -= _LOW
    return [texts, Coded(_LOW_DIGITS, low)]


def _as_texts(found: Distinct) -> Coded:
    return Coded(list(map(str, found.values.tolist())), found.numbers)


class _Group:
    """Neighbouring columns whose texts are made together.

    ``_code`` says which text of each column a row has: a number of as many digits as there are
    ``_columns``, each digit of the size of its column. It is one of ``_size`` numbers.
    """

    def __init__(self, column: Coded) -> None:
        self._columns = [column.names]
        self._code: npt.NDArray[Any] = column.numbers
        self._size = len(column.names)
        self._is_made = False
        """Whether there is one column, and a row for each of its texts."""

    def takes(self, column: Coded, most: int) -> bool:
        """Take one more column, if that makes no more than ``most`` texts."""
        if len(column.names) > 1 and self._size_with(column) > most:
            if not self._is_made:
                self._make(distinct(self._code))
            column = _used(column)
        if len(column.names) > 1 and self._size_with(column) > most:
            if self._size_with(column) > _TOLD_APART:
                return False
            found = distinct(self._code_with(column))
            if len(found.values) > most:
                return False
            self._columns.append(column.names)
            self._make(found)
            return True
        self._code, self._size = self._code_with(column), self._size_with(column)
        self._columns.append(column.names)
        self._is_made = False
        return True

    def texts(self) -> list[str]:
        """The text of each row."""
        if len(self._columns) > 1:
            self._make(distinct(self._code))
        made: list[str] = np.array(self._columns[0], dtype=object)[self._code].tolist()
        return made

    def _size_with(self, column: Coded) -> int:
        """How many texts there could be with one more column."""
        return self._size * len(column.names)

    def _code_with(self, column: Coded) -> npt.NDArray[Any]:
        if len(column.names) == 1:
            return self._code
        if self._size == 1:
            return column.numbers
        return self._code.astype(np.int64) * len(column.names) + column.numbers

    def _make(self, found: Distinct) -> None:
        """Make the texts that rows have, once for each. ``found`` are the codes of the rows."""
        parts: list[Sequence[str]] = []
        left = found.values
        for names in reversed(self._columns):
            if len(names) == 1:
                parts.append(names * len(left))
            else:
                parts.append([names[n] for n in (left % len(names)).tolist()])
                left = left // len(names)
        self._columns = [list(map("".join, zip(*reversed(parts), strict=True)))]
        self._code, self._size = found.numbers, len(found.values)
        self._is_made = True


def _used(column: Coded) -> Coded:
    """A column without the texts that no row has."""
    found = distinct(column.numbers)
    if len(found.values) == len(column.names):
        return column
    return Coded([column.names[n] for n in found.values.tolist()], found.numbers)
