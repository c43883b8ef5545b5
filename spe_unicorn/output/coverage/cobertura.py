"""Cobertura's XML (coverage-04.dtd), which GitLab, Jenkins and others show."""

from __future__ import annotations

import os
from collections import defaultdict
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from spe_unicorn.output.coverage.model import Coverage, CoveredFile, Share

_HEAD = '<?xml version="1.0" ?>\n'
_TYPE = "<!DOCTYPE coverage SYSTEM 'http://cobertura.sourceforge.net/xml/coverage-04.dtd'>\n"


def cobertura(coverage: Coverage) -> str:
    """The text of the file. Folders are packages, source files are classes."""
    lines, branches = coverage.line_share, coverage.branch_share
    root = Element(
        "coverage",
        {
            "line-rate": _rate(lines),
            "branch-rate": _rate(branches),
            "lines-covered": str(lines.hit),
            "lines-valid": str(lines.all),
            "branches-covered": str(branches.hit),
            "branches-valid": str(branches.all),
            "complexity": "0",
            "version": "1",
            "timestamp": "0",
        },
    )
    common = _common(list(coverage.files))
    SubElement(SubElement(root, "sources"), "source").text = common or "."
    packages = SubElement(root, "packages")
    folders: dict[str, dict[str, CoveredFile]] = defaultdict(dict)
    for path, file in sorted(coverage.files.items()):
        name = os.path.relpath(path, common) if common else path
        folders[os.path.dirname(name)][name] = file
    for folder, files in folders.items():
        _add_package(packages, folder, files)
    indent(root)
    return _HEAD + _TYPE + tostring(root, encoding="unicode") + "\n"


def _common(paths: list[str]) -> str:
    """The folder that holds all files with an absolute path; empty for none."""
    try:
        return os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
    except ValueError:  # absolute and relative paths
        return ""


def _rate(share: Share) -> str:
    return f"{1.0 if share.part is None else share.part:.4f}"


def _add_package(packages: Element, folder: str, files: dict[str, CoveredFile]) -> None:
    whole = Coverage(dict(files))
    package = SubElement(
        packages,
        "package",
        {
            "name": folder.replace("/", ".") or ".",
            "line-rate": _rate(whole.line_share),
            "branch-rate": _rate(whole.branch_share),
            "complexity": "0",
        },
    )
    classes = SubElement(package, "classes")
    for name, file in files.items():
        one = SubElement(
            classes,
            "class",
            {
                "name": os.path.basename(name),
                "filename": name,
                "line-rate": _rate(file.line_share),
                "branch-rate": _rate(file.branch_share),
                "complexity": "0",
            },
        )
        _add_methods(SubElement(one, "methods"), file)
        _add_lines(SubElement(one, "lines"), file)


def _add_methods(methods: Element, file: CoveredFile) -> None:
    for name, (line, hit) in sorted(file.functions.items()):
        rate = f"{hit:.4f}"
        about = {"name": name, "signature": "", "line-rate": rate, "branch-rate": rate}
        method = SubElement(methods, "method", {**about, "complexity": "0"})
        lines = SubElement(method, "lines")
        SubElement(lines, "line", {"number": str(line), "hits": str(hit)})


def _add_lines(lines: Element, file: CoveredFile) -> None:
    ways: dict[int, list[int]] = defaultdict(list)
    for (number, _, _), hit in file.branches.items():
        ways[number].append(hit)
    for number, hit in sorted(file.lines.items()):
        about = {"number": str(number), "hits": str(hit), "branch": "false"}
        if number in ways:
            hits, all_ = sum(way > 0 for way in ways[number]), len(ways[number])
            about["branch"] = "true"
            about["condition-coverage"] = f"{100 * hits // all_}% ({hits}/{all_})"
        SubElement(lines, "line", about)
