"""Columns as Arrow tables and pandas DataFrames, whose libraries are the extra ``parquet``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spe_unicorn.report.columns import Columns, Masked
from spe_unicorn.report.texts import Coded

if TYPE_CHECKING:
    import pandas
    import pyarrow


_LISTS = "calls"
"""The column whose elements are lists of addresses."""


class MissingLibraryError(ImportError):
    """A library of an extra that is not installed; the message says what to do."""


def library(name: str, extra: str = "parquet") -> Any:
    """A module of an optional library. Raises MissingLibraryError where it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise MissingLibraryError(
            f"{package} is not installed; pip install 'spe-unicorn[{extra}]' brings it"
        ) from error


def arrow_table(columns: Columns) -> pyarrow.Table:
    """An Arrow table of columns, null where they are masked."""
    pa = library("pyarrow")
    result: pyarrow.Table = pa.table(
        {name: _arrow_array(pa, name, column) for name, column in columns.items()}
    )
    return result


def _arrow_array(pa: Any, name: str, column: Masked) -> Any:
    mask = np.ma.getmaskarray(column)
    if name == _LISTS:
        return pa.array(column.data, pa.list_(pa.uint64()), mask=mask)
    if column.dtype != object:
        return pa.array(column.data, mask=mask)
    return pa.array(column.data, pa.string(), mask=mask).dictionary_encode()


def dataframe(columns: Columns) -> pandas.DataFrame:
    """A DataFrame of columns, NA where they are masked."""
    pd = library("pandas")
    result: pandas.DataFrame = pd.DataFrame(
        {name: _series(pd, name, column) for name, column in columns.items()}
    )
    return result


def _series(pd: Any, name: str, column: Masked) -> Any:
    mask = np.ma.getmaskarray(column)
    if name == _LISTS:
        return pd.Series(column.filled(None), dtype=object)
    if column.dtype == object:
        values = column.data.copy()
        values[mask] = None
        return pd.array(values, dtype="string")
    if column.dtype == bool:
        return pd.arrays.BooleanArray(column.data.copy(), mask.copy())
    return pd.arrays.IntegerArray(column.data.copy(), mask.copy())


Plain = Mapping[str, npt.NDArray[Any] | Coded]
"""Columns of plain arrays and of labels."""


@contextmanager
def appending_parquet(path: Path) -> Iterator[Callable[[Plain], None]]:
    """A Parquet file that columns are appended to, piece by piece, of the same types each time.

    Raises MissingLibraryError, OSError.
    """
    pa = library("pyarrow")
    parquet = library("pyarrow.parquet")
    with ExitStack() as opened:
        writers: list[Any] = []

        def append(columns: Plain) -> None:
            table = pa.table({name: _plain_array(pa, values) for name, values in columns.items()})
            if not writers:
                writer = parquet.ParquetWriter(path, table.schema, compression="zstd")
                writers.append(opened.enter_context(writer))
            writers[0].write_table(table)

        yield append


def _plain_array(pa: Any, values: npt.NDArray[Any] | Coded) -> Any:
    if isinstance(values, Coded):
        names = pa.array([*values.names, ""], pa.string())
        return names.take(pa.array(values.numbers))
    return pa.array(values, pa.string() if values.dtype == object else None)


def write_records(path: Path, columns: Columns) -> None:
    """Write the columns of records as a Parquet file. Raises MissingLibraryError, OSError."""
    parquet = library("pyarrow.parquet")
    parquet.write_table(arrow_table(columns), path, compression="zstd")


def write_rows(
    path: Path, rows: Sequence[Mapping[str, object]], columns: Mapping[str, type]
) -> None:
    """Write rows as a Parquet file, with the types of ``columns``; None is null.

    Raises MissingLibraryError, OSError.
    """
    pa = library("pyarrow")
    parquet = library("pyarrow.parquet")
    types = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), float: pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    parquet.write_table(pa.Table.from_pylist(list(rows), schema), path, compression="zstd")
