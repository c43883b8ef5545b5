"""The web site: every page, and no link that leads nowhere."""

from __future__ import annotations

import html
import inspect
import re
import shutil
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.session.keywords import MachineKeywords
from tests.scripts.site_build import build

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout, with the settings of ours."""
    root = tmp_path / "checkout"
    (root / "scripts").mkdir(parents=True)
    (root / "docs/how-to").mkdir(parents=True)
    (root / "tools").mkdir()
    shutil.copy(ROOT / "mkdocs.yml", root)
    shutil.copytree(ROOT / "scripts/site", root / "scripts/site")
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


def text(markup: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "", markup))


def body(page: Path) -> str:
    """What is between the navigation and the foot of a page."""
    return page.read_text().partition('itemprop="articleBody">')[2].partition("<footer>")[0]


def test_the_python_interface_has_the_signatures_and_docstrings(site: Path) -> None:
    page = text(body(site / "reference/api.html"))
    for name in ("attach", "Machine", "Recording", "record_dict"):
        assert name in page
    assert "Raises" in page


def signature(page: str, name: str) -> str:
    """The signature below the heading of a name of the Python interface, in one line."""
    block = re.search(rf'<h2 id="{re.escape(name)}".*?</h2>\s*<div[^>]*>(.*?)</div>', page, re.S)
    assert block is not None
    return re.sub(r"\s+", " ", text(block[1])).strip()


def test_the_python_interface_shows_the_whole_signature_of_a_machine(site: Path) -> None:
    shown = signature(
        (site / "reference/api.html").read_text(), "spe_unicorn.session.machine.Machine"
    )
    own = list(inspect.signature(Machine).parameters)
    assert own == ["firmware", "console", "misuse", "records", "options"]
    assert re.findall(r"(\w+): ", shown) == [*own[:-1], *MachineKeywords.__annotations__]
    assert shown.startswith(
        "Machine( firmware: File | Image | MachineOptions | None = None, *,"
        " console: ConsoleEnds | None = None, misuse: bool = False, records: bool = True, "
    )
    assert " smp: int = ..., " in shown


def test_the_python_interface_has_every_option_of_a_machine(site: Path) -> None:
    name = "spe_unicorn.machine.options.MachineOptions"
    shown = signature((site / "reference/api.html").read_text(), name)
    for option in ("kernel", "core", "smp", "seed", "sampling"):
        assert f" {option}: " in shown


def test_roles_and_backticks_of_docstrings_are_rendered(site: Path) -> None:
    page = body(site / "reference/api.html")
    assert re.findall(r":\w+:(?:`|<code>)[^ ]*", page) == []
    assert re.findall(r"`+[^`\n]*`+", text(page)) == []
    assert "{@" not in page


@pytest.mark.parametrize(
    ("before", "words", "target"),
    [
        ("for ", "restore", "spe_unicorn.session.machine.Machine.restore"),
        ("the files of ", "write_records", "spe_unicorn.session.machine.Machine.write_records"),
        ("output is kept\nin ", "console", "spe_unicorn.session.machine.Machine.console"),
        ("Read a file of ", "write_snapshot", "spe_unicorn.session.snapshot_file.write_snapshot"),
        ("is a combination of ", "Event", None),
    ],
)
def test_what_a_role_names_is_linked_where_the_page_has_it(
    site: Path, before: str, words: str, target: str | None
) -> None:
    page = re.sub("</?span>", "", body(site / "reference/api.html"))
    code = f"<code>{words}</code>"
    assert before + (code if target is None else f'<a href="#{target}">{code}</a>') in page


def test_alternatives_in_a_table_stand_with_a_bar(checkout: Path, tmp_path: Path) -> None:
    table = "| Option | Default |\n| --- | --- |\n| `--el 1\\|2\\|3` | `a\\|b` or c \\| d |\n"
    (checkout / "docs/how-to/use.md").write_text(f"# Use\n\n## Twice\n\n{table}")
    result = build(checkout, tmp_path / "site")
    assert result.returncode == 0, result.stderr
    page = body(tmp_path / "site/how-to/use.html")
    cells = [text(cell) for cell in re.findall(r"<td>(.*?)</td>", page, re.S)]
    assert cells == ["--el 1|2|3", "a|b or c | d"]


def test_no_table_shows_a_backslash_before_a_bar(site: Path) -> None:
    pages = {page: text(body(page)) for page in site.rglob("*.html")}
    assert "--warn misuse|error" in pages[site / "reference/cli.html"]
    tables = {page: re.findall(r"<table.*?</table>", body(page), re.S) for page in pages}
    shown = {page for page, found in tables.items() if any("\\|" in text(one) for one in found)}
    assert shown == set()


LOADS = r"""(?x)
    <(?:link|script|img|iframe|source|video|audio|embed|object|input)\b[^>]*
        \b(?:href|src|srcset|data)="\s*(?:[a-z+.-]+:)?//
    | (?:url\(|@import)\s*["']?\s*(?:[a-z+.-]+:)?//
"""
SCRIPTS_LOAD = r"""["'`](?:https?:)?//(?!www\.w3\.org/)[\w$]"""
COMMENTS = r"/\*.*?\*/|(?m:^\s*//.*$)"


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css", ".js", ".svg")]
    assert {file.suffix for file in files} == {".html", ".css", ".js", ".svg"}
    loads = {}
    for file in files:
        content = file.read_text()
        found = re.findall(LOADS, content)
        if file.suffix == ".js" and file.parent.name != "search":  # the index is text alone
            found += re.findall(SCRIPTS_LOAD, re.sub(COMMENTS, "", content, flags=re.S))
        if found:
            loads[str(file.relative_to(site))] = found
    assert loads == {}


@pytest.mark.parametrize(
    "markup",
    [
        '<script src="https://cdn.example/a.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/a.css" />',
        "@import url('https://cdn.example/a.css');",
        "src: url(http://cdn.example/a.woff)",
    ],
)
def test_what_is_loaded_from_another_host_is_found(markup: str) -> None:
    assert re.search(LOADS, markup)
    assert not re.search(LOADS, markup.replace("https:", "").replace("http:", "").replace("//", ""))
    assert not re.search(LOADS, '<a href="https://www.unicorn-engine.org">the engine</a>')


def test_a_notebook_has_its_cells(site: Path) -> None:
    page = body(site / "examples/records.ipynb.html")
    assert "From a run to a plot</h1>" in page
    assert "cell_type" not in text(page)
    assert "import spe_unicorn" in text(page)


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
