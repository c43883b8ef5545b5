"""What the decision records say of licences is what the metadata of the libraries says."""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FAMILIES = re.compile(r"Apache|BSD|MIT|ISC|MPL|[Pp]ublic domain|GPL")


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=;]", requirement)[0].strip()


NAMED = [
    (extra, name_of(requirement))
    for extra, requirements in PROJECT["optional-dependencies"].items()
    for requirement in requirements
    if name_of(requirement) != PROJECT["name"]
]


def is_installed(library: str) -> bool:
    try:
        metadata(library)
    except PackageNotFoundError:
        return False
    return True


def families(library: str) -> set[str]:
    """The families of licences that an installed library's metadata names."""
    found = metadata(library)
    texts = [found.get("License-Expression"), found.get("License")]
    texts += [c for c in found.get_all("Classifier", []) if c.startswith("License ::")]
    return {word for text in texts if text for word in FAMILIES.findall(text[:80])}


def said_of(extra: str, library: str) -> str | None:
    """The family of licences that the decision record names for a library of an extra."""
    text = (ROOT / "docs/adr/0001-licence.md").read_text()
    (row,) = re.findall(rf"^\| `{extra}` \|(.*)\|$", text, re.MULTILINE)
    said = re.search(rf"(?<![\w-]){library}(?![\w-])[^;|]*?({FAMILIES.pattern})", row)
    return None if said is None else said[1]


@pytest.mark.parametrize(("extra", "library"), NAMED)
def test_each_library_of_an_extra_is_named_with_a_licence(extra: str, library: str) -> None:
    assert said_of(extra, library) is not None


@pytest.mark.parametrize(
    ("extra", "library"), [(extra, library) for extra, library in NAMED if is_installed(library)]
)
def test_that_licence_is_one_that_the_library_names(extra: str, library: str) -> None:
    assert said_of(extra, library) in families(library)


def test_a_licence_that_a_library_does_not_name_is_found() -> None:
    assert "Apache" not in families("pytest")


@pytest.mark.parametrize("library", [name_of(r) for r in PROJECT["dependencies"]])
def test_each_library_that_is_always_needed_is_named(library: str) -> None:
    text = (ROOT / "docs/adr/0001-licence.md").read_text()
    assert library in text.lower()
