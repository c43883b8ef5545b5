"""What mypy knows of the memory that compiled code reads: pointers, words, and records by classes.

A record is a class whose fields are annotated. :func:`layout` makes the layout of such records in
memory, a dtype, so mypy refuses a field that no record has. Compilers look at no annotation.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import get_annotations
from typing import Any, Generic, Protocol, TypeVar, cast, overload

import numpy as np

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Pointer:
    """An address as C functions take it. ``address_of`` and ``pointer_to`` make numbers of it."""


class Words(Protocol):
    """Numbers in a row."""

    def __getitem__(self, n: int, /) -> int:
        """The number at ``n``, with 64 bits."""

    def __setitem__(self, n: int | slice, value: int, /) -> None:
        """Store the lowest bits of a number at ``n``, or all along a slice."""

    def __iter__(self) -> Iterator[int]:
        """The numbers, one after the other."""


class Table(Protocol):
    """Rows of numbers."""

    @overload
    def __getitem__(self, n: int, /) -> Words: ...
    @overload
    def __getitem__(self, at: tuple[int, int], /) -> int: ...
    def __getitem__(self, at: Any, /) -> Any:
        """A row, or the number in a row and a column."""

    def __setitem__(self, at: tuple[int, int], value: int, /) -> None:
        """Store the number in a row and a column."""


class Rows(Protocol[R_co]):
    """Records in a row."""

    def __getitem__(self, n: int, /) -> R_co:
        """Record ``n``."""


class Layout(Generic[R]):
    """How mypy sees a dtype whose records have the fields of class ``R``."""

    dtype: np.dtype[np.void]
    itemsize: int
    names: tuple[str, ...]
    fields: dict[str, tuple[np.dtype[np.generic], int]]


def layout(record: type[R], dtype: np.dtype[np.void] | None = None) -> Layout[R]:
    """The layout of records of a class: a number of 64 bits for each field, in their order.

    ``dtype`` is the layout of a record with other fields. The class then says their names only.
    """
    if dtype is None:
        classes = reversed(record.__mro__)
        names = [name for one in classes for name in get_annotations(one)]
        dtype = np.dtype([(name, np.int64) for name in names])
    return cast("Layout[R]", dtype)
