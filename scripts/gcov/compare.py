"""Compares lines of an lcov file with those of gcov's files: ``compare.py INFO FOLDER``.

A line that only one of both has must have no statement: braces, labels and ``else``, and the head
of a function, which gcov counts at its name and DWARF at its first brace.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_NOTHING = re.compile(r"\s*([{}]|else\b.*|(case .*|default|\w+)\s*:.*)\s*(/\*.*)?")
_HEAD = re.compile(r"\w[\w *]*\(.*")


def ours(path: Path) -> dict[str, dict[int, bool]]:
    """Whether a line was executed, by file and line."""
    files: dict[str, dict[int, bool]] = {}
    lines: dict[int, bool] = {}
    for text in path.read_text().splitlines():
        kind, _, value = text.partition(":")
        if kind == "SF":
            lines = files.setdefault(Path(value).name, {})
        elif kind == "DA":
            number, count = value.split(",")[:2]
            lines[int(number)] = int(count) > 0
    return files


def theirs(path: Path) -> dict[int, bool]:
    """The same of one file of gcov's."""
    lines: dict[int, bool] = {}
    for row in path.read_text(errors="replace").splitlines():
        count, line = (part.strip() for part in row.split(":")[:2])
        if count != "-" and line != "0":
            lines[int(line)] = lines.get(int(line), False) or count[0].isdigit()
    return lines


def main(info: str, folder: str) -> int:
    """Compare, say what it came to, and return an exit status."""
    same, wrong, alone = 0, 0, 0
    for name, mine in sorted(ours(Path(info)).items()):
        listed = Path(folder, f"{name}.gcov")
        if not listed.exists():
            continue  # the start-up code
        other = theirs(listed)
        source = Path(folder, name).read_text(errors="replace").splitlines()
        for line in sorted(mine.keys() | other.keys()):
            text = source[line - 1]
            if line in mine and line in other:
                same += mine[line] == other[line]
                differs = mine[line] != other[line]
            else:
                alone += 1
                head = line in other and _HEAD.fullmatch(text) is not None
                differs = not head and _NOTHING.fullmatch(text) is None
            if differs:
                wrong += 1
                print(f"{name}:{line}: {text.strip()}: {mine.get(line)}, gcov {other.get(line)}")
    print(f"{same} lines are the same, {wrong} differ; {alone} without a statement has one of both")
    if not same:
        return 2
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
