"""One record as a plain dictionary, and as a flat row with the keys of columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import spe_unicorn
from spe_unicorn.report.rows import ROW
from spe_unicorn.spe.record import Record, encode
from tests.support.samples import load, of_every_sort


def test_a_dictionary_is_what_json_lines_have_without_the_place() -> None:
    found = spe_unicorn.record_dict(load())
    assert "offset" not in found
    assert "cpu" not in found
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("record", list(of_every_sort()))
def test_a_row_is_what_the_columns_of_a_file_have(record: Record, tmp_path: Path) -> None:
    file = tmp_path / "one.spe"
    file.write_bytes(encode(record, 0))
    columns = spe_unicorn.read(file).arrays()
    row = spe_unicorn.record_row(record)
    assert tuple(row) == ROW
    assert set(ROW) == set(columns) - {"offset", "cpu"}
    for name, value in row.items():
        column = columns[name][0]
        assert value == (None if column is np.ma.masked else column), name
