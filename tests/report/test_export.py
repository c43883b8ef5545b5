"""Tables in files, by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from spe_unicorn.report import export
from spe_unicorn.report.texts import Coded


def table(count: int) -> dict[str, Any]:
    return {"cpu": np.zeros(count, np.int64), "pc": np.arange(count, dtype=np.uint64)}


def test_csv_has_a_heading_and_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_ROWS_AT_ONCE", 2)
    written = export.write_tables(tmp_path / "a", ".csv", [{"loads": table(3), "rest": table(0)}])
    assert written == {tmp_path / "a-loads.csv": 3, tmp_path / "a-rest.csv": 0}
    assert (tmp_path / "a-loads.csv").read_text() == "cpu,pc\n0,0\n0,1\n0,2\n"
    assert (tmp_path / "a-rest.csv").read_text() == "cpu,pc\n"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_pieces_of_a_table_follow_each_other(tmp_path: Path, suffix: str) -> None:
    said = [Coded(['a "b", c', "d"], np.array([0, 1, 0])), Coded(["e\nf"], np.array([0]))]
    true = [np.array([True, False, True]), np.array([False])]
    pieces = [{"n": table(len(b))["pc"], "s": s, "b": b} for s, b in zip(said, true, strict=True)]
    export.write_tables(tmp_path / "a", suffix, [{"x": piece} for piece in pieces])
    frame = (pd.read_csv if suffix == ".csv" else pd.read_parquet)(tmp_path / f"a-x{suffix}")
    assert frame["n"].tolist() == [0, 1, 2, 0]
    assert frame["s"].tolist() == ['a "b", c', "d", 'a "b", c', "e\nf"]
    assert frame["b"].tolist() == [True, False, True, False]


def test_where_one_table_cannot_be_written_no_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-loads.csv").write_text("before")

    @contextmanager
    def full(path: Path) -> Iterator[Callable[[object], None]]:
        def append(_table: object) -> None:
            path.write_text("half")
            if "rest" in path.name:
                raise OSError("No space left on device")

        yield append

    monkeypatch.setitem(export.WRITERS, ".csv", full)
    with pytest.raises(OSError, match="No space left"):
        export.write_tables(tmp_path / "a", ".csv", [{"loads": table(1), "rest": table(1)}])
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [
        ("a-loads.csv", "before")
    ]
