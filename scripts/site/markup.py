"""What GitHub and Python's help print well and the site would not: tables, roles, code in lines."""

from __future__ import annotations

import html
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

_CODE = re.compile(r"`[^`]+`")
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):<code>(~?)([\w.]+)(\(\))?</code>")
_NAMED = re.compile(r'<h\d id="([\w.]+)"')
_BODY = re.compile(r'(?<=itemprop="articleBody">).*(?=<footer>)', re.S)
_PRE_OR_CODE = re.compile(r"<pre.*?</pre>|<code>([^<]+)</code>", re.S)
_PIECES = re.compile(r"( )|(?<=[|,=])")
_LONGEST = 40
"""Characters of a piece of code that is never broken; at 400 pixels a line has about as many."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    r"""Give code in tables its ``|``, which GitHub takes as ``\|`` there and Markdown otherwise."""
    return "\n".join(
        _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if line.startswith("|") else line
        for line in markdown.split("\n")
    )


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn roles of docstrings into code, with a link where the page has what they name."""
    names = _NAMED.findall(content)

    def shown(found: re.Match[str]) -> str:
        short, name, call = found.groups()
        before = _NAMED.findall(content, 0, found.start())
        text = f"<code>{name.rpartition('.')[2] if short else name}{call or ''}</code>"
        target = _target(name, before[-1] if before else "", names)
        return f'<a href="#{target}">{text}</a>' if target else text

    return _ROLE.sub(shown, content)


def _target(name: str, place: str, names: list[str]) -> str | None:
    """The anchor of what a role at ``place`` names, looked for from there outwards."""
    while place:
        if f"{place}.{name}" in names:
            return f"{place}.{name}"
        place = place.rpartition(".")[0]
    ends = [other for other in names if f".{other}".endswith(f".{name}")]
    return ends[0] if len(ends) == 1 else None


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Keep the words of code in lines and tables whole, and let keys scroll blocks of code.

    Without it ``--smp`` breaks at its dashes.
    """
    return _BODY.sub(lambda body: _PRE_OR_CODE.sub(_whole_words, body[0]), output)


def _whole_words(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[0].replace("<pre>", '<pre tabindex="0">', 1)
    pieces = _PIECES.split(found[1].replace("\n", " "))
    words = (
        f"<span>{piece}</span>" if 1 < len(html.unescape(piece)) <= _LONGEST else piece
        for piece in pieces
        if piece
    )
    return f"<code>{''.join(words)}</code>"
