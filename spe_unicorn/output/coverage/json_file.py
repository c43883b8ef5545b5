"""Coverage as JSON: all that is known, so that files of several runs can be merged."""

from __future__ import annotations

import json
from typing import Final

from spe_unicorn.arch.operation import FELL, TAKEN
from spe_unicorn.output.coverage.model import Coverage, CoveredFile, Program, ranges

_FORMAT: Final = "spe-unicorn coverage 1"
_WAYS: Final = {FELL: "not taken", TAKEN: "taken", FELL | TAKEN: "both", 0: "none"}
_WAYS_BY_NAME: Final = {name: ways for ways, name in _WAYS.items()}
_WORD: Final = 4


def to_json(coverage: Coverage) -> str:
    """The text of the file."""
    files = {path: _file(file) for path, file in sorted(coverage.files.items())}
    programs = {path: _program(one) for path, one in sorted(coverage.programs.items())}
    said: dict[str, object] = {"format": _FORMAT, "files": files, "programs": programs}
    if coverage.incomplete:
        said |= {"incomplete": True}
    return json.dumps(said, indent=1) + "\n"


def _file(file: CoveredFile) -> dict[str, object]:
    return {
        "lines": {str(line): hit for line, hit in sorted(file.lines.items())},
        "functions": {
            name: {"line": line, "hit": hit} for name, (line, hit) in sorted(file.functions.items())
        },
        "branches": [[*branch, hit] for branch, hit in sorted(file.branches.items())],
    }


def _program(program: Program) -> dict[str, object]:
    executed = [[f"{a:#x}", f"{b:#x}"] for a, b in ranges(program.operations, _WORD)]
    branches = {f"{a:#x}": _WAYS[ways] for a, ways in sorted(program.branches.items())}
    return {"executed": executed, "branches": branches}


def from_json(text: str) -> Coverage:
    """Read the text of a file. Raises ValueError, LookupError or TypeError for what is none."""
    data = json.loads(text)
    if data.get("format") != _FORMAT:
        raise ValueError(f"its format is {data.get('format')!r}, and not {_FORMAT!r}")
    coverage = Coverage(incomplete=bool(data.get("incomplete")))
    for path, file in data["files"].items():
        coverage.files[path] = CoveredFile(
            {int(line): int(hit) for line, hit in file["lines"].items()},
            {name: (int(f["line"]), int(f["hit"])) for name, f in file["functions"].items()},
            {(int(a), int(b), int(c)): int(hit) for a, b, c, hit in file["branches"]},
        )
    for path, one in data["programs"].items():
        program = coverage.programs[path] = Program()
        for first, last in one["executed"]:
            program.operations.update(range(int(first, 16), int(last, 16) + _WORD, _WORD))
        for address, ways in one["branches"].items():
            program.branches[int(address, 16)] = _WAYS_BY_NAME[ways]
    return coverage
