"""The runs of a campaign as JUnit's XML, which CI services show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from xml.etree import ElementTree

from spe_unicorn.output.names import printable
from spe_unicorn.report.campaigns.runs import Row, how_it_ended, run_names, where_it_ended


def junit(
    name: str,
    rows: Sequence[Row],
    is_error: Callable[[Row], bool],
    commands: Mapping[str, str],
    console: Callable[[Row], str],
) -> str:
    """A test case a run. The runs with ``commands`` failed, those that ``is_error`` as errors.

    ``commands`` has by a run's key what repeats it; ``console`` gives what a run printed.
    """
    cases = []
    failures = errors = 0
    for row, title in zip(rows, run_names(rows), strict=True):
        case = ElementTree.Element("testcase", classname=_text(name), name=_text(title))
        case.set("time", f"{row['host_seconds'] or 0:.3f}")
        cases.append(case)
        if row["key"] not in commands:
            continue
        errors += is_error(row)
        failures += not is_error(row)
        said = ElementTree.SubElement(case, "error" if is_error(row) else "failure")
        said.set("message", _text(_why(row)))
        said.text = _text(f"key: {row['key']}\nto see it again: {commands[row['key']]}\n")
        printed = ElementTree.SubElement(case, "system-out")
        printed.text = "\n".join(map(_text, console(row).split("\n")))
    suite = ElementTree.Element("testsuite", name=_text(name), tests=str(len(rows)))
    suite.set("failures", str(failures))
    suite.set("errors", str(errors))
    suite.extend(cases)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _why(row: Row) -> str:
    place = f" at {where_it_ended(row)}" if where_it_ended(row) else ""
    cause = f": {row['cause']}" if row["cause"] else ""
    return f"ended by {how_it_ended(row)}{place}{cause}"


def _text(text: str) -> str:
    """A text without the characters that XML has no way to write."""
    return "\n".join(map(printable, text.split("\n")))
