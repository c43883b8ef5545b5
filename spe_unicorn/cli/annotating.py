"""``--warn-format FORM[:FILE]``: mistakes and findings for tools that show them in the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from spe_unicorn.debug.misuse_found import Misuse
    from spe_unicorn.machine.names import Names
    from spe_unicorn.report.annotations import Annotation
    from spe_unicorn.session.checking.found import CheckFinding

_FORMS = ("github", "sarif", "gcc")


class WarnFormat(NamedTuple):
    """A form, and the file that gets it; None for standard error."""

    form: str
    file: str | None


def warn_format(text: str) -> WarnFormat:
    """``FORM[:FILE]``, for click."""
    form, colon, file = text.partition(":")
    if form not in _FORMS or bool(colon) != bool(file):
        raise click.BadParameter(f"{text!r} is none of {', '.join(_FORMS)}, with :FILE behind it")
    return WarnFormat(form, file or None)


def written(form: str, found: Sequence[Annotation]) -> str:
    """The text of a form."""
    from spe_unicorn.report.annotations import FORMS

    return FORMS[form](found)


def annotated(
    names: Names, misuses: Sequence[Misuse], checks: Sequence[CheckFinding]
) -> Iterator[Annotation]:
    """Mistakes and what checks have found, with their lines of source."""
    from spe_unicorn.report.annotations import Annotation

    for misuse in misuses:
        what = f"{misuse.what}; {misuse.rule.advice}"
        yield _at(names, misuse.pc, Annotation(misuse.rule.name, what, misuse.place))
    for found in checks:
        yield _at(names, found.pc, Annotation(f"check-{found.check}", found.what, found.place))


def _at(names: Names, pc: int | None, annotation: Annotation) -> Annotation:
    line = None if pc is None else names.line(pc)
    return annotation if line is None else annotation._replace(path=line.path, line=line.number)
