"""What the web site has beside the pages of docs/, and how links between files become links there.

README.md is the first page, and that of docs/ the page "contents". A link from any page to a file
that lies outside docs/ gives that file a page of its own: Markdown as it is, a notebook cell by
cell, anything else as code.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
HOME = "index.md"
FIRST = "README.md"
CONTENTS = "docs/README.md"
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_SCHEME = re.compile(r"[a-z]+:")
SECTIONS = {"How to": "How to", "Reference": "Reference", "Adr": "Decisions"}
"""Titles of sections by what their folders are called, in their order."""


def _uri(path: str) -> str:
    """Where on the site a file of the checkout is, by its path from the root."""
    if path == FIRST:
        return HOME
    if path == CONTENTS:
        return "contents.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    name = path.removesuffix("/README.md") if path.endswith("/README.md") else path
    return f"{name.removesuffix('.md')}.md"


def _path(uri: str, outside: dict[str, str]) -> str:
    """The file of the checkout that a page of the site is made of."""
    return outside.get(uri, f"docs/{uri}")


def _targets(path: str) -> list[str]:
    """The files that a page links to, by their paths from the root."""
    folder = posixpath.dirname(path)
    found = _LINK.findall((ROOT / path).read_text())
    links = [link for _, link, _ in found if not _SCHEME.match(link)]
    return [posixpath.normpath(posixpath.join(folder, link)) for link in links]


def _outside() -> dict[str, str]:
    """Files outside docs/ that have a page: its address on the site, and the file's path."""
    todo = [FIRST, *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md")))]
    seen = set(todo)
    while todo:
        path = todo.pop()
        if not path.endswith(".md"):
            continue
        for target in _targets(path):
            if target not in seen and not target.startswith("..") and (ROOT / target).exists():
                seen.add(target)
                todo.append(_readme(target))
                seen.add(_readme(target))
    files = {path for path in seen if (ROOT / path).is_file()}
    inside = {path for path in files if path.startswith("docs/")} - {CONTENTS}
    return {_uri(path): path for path in sorted(files - inside)}


def _readme(path: str) -> str:
    """A link to a folder means its README."""
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def _text(path: str) -> str:
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    if path.endswith(".ipynb"):
        return "\n\n".join(map(_cell, json.loads(text)["cells"]))
    if "." not in posixpath.basename(path):
        return f"# {path}\n\n```text\n{text}```\n"
    return f"# {path}\n\n```{path.rpartition('.')[2].replace('py', 'python')}\n{text}```\n"


def _cell(cell: dict[str, Any]) -> str:
    """A cell of a notebook."""
    source = "".join(cell["source"])
    return source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"


OUTSIDE = _outside()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of files outside docs/."""
    for uri, path in OUTSIDE.items():
        files.append(File.generated(config, uri, content=_text(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files into links to their pages."""
    path = _path(page.file.src_uri, OUTSIDE)
    here = posixpath.dirname(page.file.src_uri)

    def on_site(found: re.Match[str]) -> str:
        text, link, anchor = found.groups()
        if _SCHEME.match(link):
            return found.group(0)
        target = _readme(posixpath.normpath(posixpath.join(posixpath.dirname(path), link)))
        return f"[{text}]({posixpath.relpath(_uri(target), here or '.')}{anchor or ''})"

    return _LINK.sub(on_site, markdown)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Pages first, then sections in the order in which people need them."""
    order = list(SECTIONS)

    def place(item: object) -> int:
        if not isinstance(item, Section):
            return -1
        return order.index(item.title) if item.title in order else len(order)

    nav.items.sort(key=place)
    for item in nav.items:
        if isinstance(item, Section):
            item.title = SECTIONS.get(item.title, item.title)
    return nav
