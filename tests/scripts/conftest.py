"""What tests of several scripts share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scripts.site_build import build

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The web site of this checkout."""
    folder = tmp_path_factory.mktemp("site")
    result = build(ROOT, folder)
    assert result.returncode == 0, result.stderr
    return folder
