"""Writes ``host/native/state/fields.py``: the fields of shared records, as mypy sees them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from spe_unicorn.host.native.model import ModelState
from spe_unicorn.host.native.state.field import Field
from spe_unicorn.host.native.state.whole import PARTS

PLACE = Path(__file__).resolve().parents[1] / "spe_unicorn/host/native/state/fields.py"
HEAD = '''"""The fields that hooks and Python share, as mypy sees them.

``scripts/record-types`` makes this file. A ``Field`` declares each field, and says what it means.
"""

from __future__ import annotations
'''


def record(name: str, doc: str, fields: Iterable[Field]) -> str:
    """A class with these fields."""
    lines = "".join(f"    {field.name}: int\n" for field in fields)
    return f'\n\nclass {name}:\n    """{doc}"""\n\n{lines}'


def text() -> str:
    """What the file has to say."""
    state = (field for part in PARTS for field in part.FIELDS)
    return (
        HEAD
        + record("StateRecord", "The fields of ``whole.State``.", state)
        + record("ModelRecord", "The fields of ``native.model.ModelState``.", ModelState.FIELDS)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="scripts/record-types", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare it")
    if parser.parse_args().check:
        sys.exit(PLACE.read_text() != text())
    PLACE.write_text(text())
