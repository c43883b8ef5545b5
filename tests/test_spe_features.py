"""The page of SPE's features names every feature, and tests that exist."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

from spe_unicorn.arch.features import Feature

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "reference" / "spe-features.md").read_text()


@lru_cache
def functions_in(file: str) -> frozenset[str]:
    """The names of the test functions in a file under ``tests/``; none if it is not there."""
    path = ROOT / "tests" / file
    if not path.exists():
        return frozenset()
    tree = ast.parse(path.read_text())
    names = (n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))


def rows() -> dict[str, str]:
    """The rows of the tables by their first cell."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return {line.split("|")[1].strip(): line for line in lines}


def test_every_feature_of_spe_has_a_row_that_names_a_test():
    others = {"FEAT_SPECRES", "FEAT_SPECRES2"}  # restrictions of speculation
    features = sorted({f.value for f in Feature if f.value.startswith("FEAT_SPE")} - others)
    assert len(features) >= 20
    found = rows()
    assert [f for f in features if ".py" not in found.get(f, "")] == []


def test_every_test_that_the_page_names_exists():
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) >= 20
    missing = [(f, n) for f, n in named if not (n in functions_in(f) if n else functions_in(f))]
    assert missing == []


def test_every_program_that_the_page_names_exists():
    named = set(re.findall(r"`firmware/(\w+)`", PAGE))
    assert {name for name in named if not (ROOT / "firmware" / f"{name}.c").exists()} == set()
