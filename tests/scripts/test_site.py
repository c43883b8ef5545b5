"""The web site: every page, and no link that leads nowhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    words = ("-m", "mkdocs", "build", "--strict", "--site-dir", str(site))
    return subprocess.run(
        [sys.executable, *words], cwd=checkout, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = build(ROOT, folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout, with the settings of ours."""
    root = tmp_path / "checkout"
    (root / "scripts/site").mkdir(parents=True)
    (root / "docs/how-to").mkdir(parents=True)
    (root / "tools").mkdir()
    shutil.copy(ROOT / "mkdocs.yml", root)
    shutil.copy(ROOT / "scripts/site/hooks.py", root / "scripts/site")
    (root / "README.md").write_text("# First\n\n[use](docs/how-to/use.md#twice)\n")
    (root / "docs/how-to/use.md").write_text("# Use\n\n## Twice\n\n[tool](../../tools/tool.py)\n")
    (root / "tools/tool.py").write_text("print('a tool')\n")
    return root


def test_every_page_of_the_documentation_is_there(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    names = [
        page.with_name("index.html") if page.stem == "README" else page.with_suffix(".html")
        for page in sorted(pages)
    ]
    assert [str(name) for name in names if not (site / name).exists()] == []


def test_the_first_page_is_the_readme(site: Path) -> None:
    assert "Statistical Profiling Extension" in (site / "index.html").read_text()


def test_the_python_interface_has_the_signatures_and_docstrings(site: Path) -> None:
    page = re.sub("<[^>]+>", "", (site / "reference/api.html").read_text())
    for name in ("attach", "Machine", "Recording", "record_dict"):
        assert name in page
    assert "Raises" in page


def test_what_is_written_can_be_searched_for(site: Path) -> None:
    assert "PMSCR_EL1" in (site / "search/search_index.json").read_text()


def test_a_file_outside_docs_that_a_page_links_to_has_a_page(
    checkout: Path, tmp_path: Path
) -> None:
    result = build(checkout, tmp_path / "site")
    assert result.returncode == 0, result.stderr
    assert "a tool" in (tmp_path / "site/tools/tool.py.html").read_text()
    assert 'href="../tools/tool.py.html"' in (tmp_path / "site/how-to/use.html").read_text()
    assert 'href="how-to/use.html#twice"' in (tmp_path / "site/index.html").read_text()


@pytest.mark.parametrize(
    "link", ["missing.md", "../../missing.py", "use.md#thrice", "/absolute.md"]
)
def test_a_dead_link_fails_the_build(checkout: Path, tmp_path: Path, link: str) -> None:
    page = checkout / "docs/how-to/use.md"
    page.write_text(f"{page.read_text()}\n[dead]({link})\n")
    result = build(checkout, tmp_path / "site")
    assert result.returncode != 0
    assert "Doc file 'how-to/use.md' contains a link" in result.stderr
