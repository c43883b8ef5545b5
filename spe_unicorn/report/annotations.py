"""What is wrong at lines of source, for tools that show it there: GitHub, SARIF, gcc's form."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from spe_unicorn.output.names import printable

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


class Annotation(NamedTuple):
    """A rule that was broken: ``what`` in one or more lines, at a line of source if it is known.

    ``path`` is as the compiler wrote it. ``place`` is where for people, with the address.
    """

    rule: str
    what: str
    place: str
    path: str | None = None
    line: int | None = None

    @property
    def source(self) -> tuple[str, int] | None:
        """The file from the working folder on, if it lies there, and the line."""
        if self.path is None or self.line is None:
            return None
        path = os.path.relpath(self.path) if os.path.isabs(self.path) else self.path
        return (self.path if path.startswith("..") else path), self.line


def gcc(found: Iterable[Annotation]) -> str:
    """Lines as compilers print them: ``main.c:12: warning: what [rule]``."""
    lines = []
    for each in found:
        what = " ".join(each.what.split())
        at = "spe-unicorn" if each.source is None else f"{each.source[0]}:{each.source[1]}"
        where = f"{each.place}: " if each.source is None and each.place else ""
        lines.append(printable(f"{at}: warning: {where}{what} [{each.rule}]") + "\n")
    return "".join(lines)


def github(found: Iterable[Annotation]) -> str:
    """Workflow commands, which GitHub shows as annotations of lines."""
    lines = []
    for each in found:
        properties = {"title": each.rule}
        if each.source is not None:
            properties = {"file": each.source[0], "line": str(each.source[1]), **properties}
        said = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        lines.append(f"::warning {said}::{_data(_said(each))}\n")
    return "".join(lines)


def _said(each: Annotation) -> str:
    return f"{each.what} (at {each.place})" if each.place else each.what


def _data(text: str) -> str:
    """A message: the characters that would end it are written as GitHub's toolkit does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def sarif(found: Sequence[Annotation]) -> str:
    """SARIF 2.1.0, of one run of this program."""
    rules = list(dict.fromkeys(each.rule for each in found))
    driver = {"name": "spe-unicorn", "rules": [{"id": rule} for rule in rules]}
    run = {"tool": {"driver": driver}, "results": [_result(each, rules) for each in found]}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _result(each: Annotation, rules: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": each.rule,
        "ruleIndex": rules.index(each.rule),
        "level": "warning",
        "message": {"text": _said(each)},
    }
    if each.source is not None:
        path, line = each.source
        place = {"artifactLocation": {"uri": path}, "region": {"startLine": line}}
        result["locations"] = [{"physicalLocation": place}]
    return result


FORMS: Final[dict[str, Callable[[Sequence[Annotation]], str]]] = {
    "github": github,
    "sarif": sarif,
    "gcc": gcc,
}
"""The writers by their names."""
