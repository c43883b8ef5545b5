"""README.md as a package index shows it: files of the source have no address there, and are named.

A hook of hatchling's: it makes the metadata's ``readme`` when a wheel or an sdist is built.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(\(?)\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)(\)?)")
_NOTE = "Files that are named here without a link are in the source distribution.\n"


def without_local_links(text: str) -> str:
    """The text, in which a link to a file has become the file's name."""

    def name(link: re.Match[str]) -> str:
        opening, said, target, closing = link.groups()
        path = target.partition("#")[0]
        if said.endswith(path.rstrip("/").rpartition("/")[2]):
            return f"{opening}`{path}`{closing}"
        if opening and closing:
            return f"(`{path}`)"
        return f"{opening}{said} (`{path}`){closing}"

    return f"{_LINK.sub(name, text)}\n{_NOTE}"


class CustomMetadataHook(MetadataHookInterface):
    """Gives the metadata its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``readme``, which pyproject.toml calls dynamic."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": without_local_links(text),
        }
