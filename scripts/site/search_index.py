"""The index of the site's search, as a script: a browser reads no other files from the disk."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig


def _text(words: str) -> str:
    """The text of a section, without the blanks that mkdocs puts around what was marked up."""
    return re.sub(r"(?<=[(]) | (?=[,.:;)])", "", words)


def _page(entry: dict[str, str]) -> str:
    return entry["location"].partition("#")[0]


def on_post_build(config: MkDocsConfig) -> None:
    """Write pages with their sections: title, address, and anchor, title and text of each."""
    folder = Path(config.site_dir) / "search"
    made = folder / "search_index.json"
    pages = [
        {
            "address": address,
            "title": whole["title"],
            "sections": [
                [entry["location"].partition("#")[2], entry["title"], _text(entry["text"])]
                for entry in sections or [whole]
            ],
        }
        for address, entries in groupby(json.loads(made.read_text())["docs"], _page)
        for whole, *sections in [list(entries)]
    ]
    made.unlink()
    (folder / "index.js").write_text(
        f"const PAGES = {json.dumps(pages, separators=(',', ':'), sort_keys=True)};\n"
    )
