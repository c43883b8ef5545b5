"""mypy knows the fields of the records that compiled functions are given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.host.native.model import ModelState
from spe_unicorn.host.native.state.fields import ModelRecord, StateRecord
from spe_unicorn.host.native.state.whole import PARTS, offset_of

ROOT = Path(__file__).resolve().parents[4]
STATE = "spe_unicorn/host/native/state"


def mypy(file: str, *options: str) -> tuple[int, str]:
    """What mypy says of one file of the package."""
    command = [sys.executable, "-m", "mypy", "--follow-imports", "silent", *options, file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_classes_have_the_fields_that_are_declared() -> None:
    """If they have not, somebody has to run scripts/record-types."""
    declared = [field.name for part in PARTS for field in part.FIELDS]
    assert list(StateRecord.__annotations__) == declared
    assert list(ModelRecord.__annotations__) == [field.name for field in ModelState.FIELDS]


@pytest.mark.sweep
def test_a_field_that_no_record_has_is_found_before_a_run(tmp_path: Path) -> None:
    file = f"{STATE}/ledger.py"
    text = (ROOT / file).read_text("utf-8")
    assert text.count("state.granted += budget") == 1
    (tmp_path / "ledger.py").write_text(
        text.replace("state.granted += budget", "state.grantd += budget")
    )
    cache = ("--cache-dir", str(tmp_path / "cache"))
    assert mypy(file, *cache)[0] == 0
    status, said = mypy(file, *cache, "--shadow-file", file, str(tmp_path / "ledger.py"))
    assert status == 1
    assert '"StateRecord" has no attribute "grantd"' in said


def test_an_offset_is_that_of_a_field() -> None:
    assert (offset_of("granted"), offset_of("members_granted")) == (0, 8)
    with pytest.raises(KeyError, match="grantd"):
        offset_of("grantd")
