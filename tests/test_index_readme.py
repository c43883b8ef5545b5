"""README.md as a package index shows it."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
INTERFACE = "hatchling.metadata.plugin.interface"


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the file of the hook defines; hatchling is where packages are built, not here."""
    interface = ModuleType(INTERFACE)
    interface.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, INTERFACE, interface)
    return runpy.run_path(str(ROOT / "scripts/index_readme.py"))


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[engine](https://x.org/a)", "[engine](https://x.org/a)"),
        ("[docs/a.md](docs/a.md)", "`docs/a.md`"),
        ("[a.md](docs/a.md)", "`docs/a.md`"),
        ("[docs/adr/](docs/adr/README.md)", "docs/adr/ (`docs/adr/README.md`)"),
        ("measures it ([how](docs/a.md#b))", "measures it (`docs/a.md`)"),
        ("the [recipes](examples/ci) too", "the recipes (`examples/ci`) too"),
    ],
)
def test_a_link_to_a_file_becomes_its_name(hook: dict[str, Any], link: str, shown: str) -> None:
    assert hook["without_local_links"](f"{link}.").splitlines()[0] == f"{shown}."


def test_the_metadata_has_no_link_that_leads_nowhere(hook: dict[str, Any]) -> None:
    made = hook["CustomMetadataHook"]()
    made.root = str(ROOT)
    metadata = {}
    made.update(metadata)
    assert metadata["readme"]["content-type"] == "text/markdown"
    text = metadata["readme"]["text"]
    assert len(text) > 5000
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert [target for target in targets if not target.startswith("https://")] == []
