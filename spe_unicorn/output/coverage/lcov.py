"""The tracefiles of lcov: what ``geninfo(1)`` describes, as genhtml and others read them.

Since 2.0 genhtml refuses what optimised code has: functions at lines without code, functions that
are hit without a line of their own, and lines that are hit without a branch of theirs. The first
are moved, the others left out; the other formats have them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from spe_unicorn.output.coverage.model import Coverage, CoveredFile


def to_lcov(coverage: Coverage) -> str:
    """The text of a tracefile."""
    lines: list[str] = []
    for path, file in sorted(coverage.files.items()):
        lines += ["TN:", f"SF:{path}", *_records(file), "end_of_record"]
    return "".join(f"{line}\n" for line in lines)


def _records(file: CoveredFile) -> list[str]:
    functions = list(_functions(file))
    records = [f"FN:{line},{name}" for line, name, _ in functions]
    records += [f"FNDA:{hit},{name}" for _, name, hit in functions]
    records += [f"FNF:{len(functions)}", f"FNH:{sum(bool(hit) for *_, hit in functions)}"]
    taken = {line for (line, _, _), hit in file.branches.items() if hit > 0}
    branches = sorted(
        (place, hit)
        for place, hit in file.branches.items()
        if place[0] in taken or not file.lines.get(place[0])
    )
    for (line, number, way), hit in branches:
        records.append(f"BRDA:{line},{number},{way},{'-' if hit < 0 else hit}")
    records += [f"BRF:{len(branches)}", f"BRH:{sum(hit > 0 for _, hit in branches)}"]
    records += [f"DA:{line},{hit}" for line, hit in sorted(file.lines.items())]
    share = file.line_share
    return [*records, f"LF:{share.all}", f"LH:{share.hit}"]


def _functions(file: CoveredFile) -> Iterator[tuple[int, str, int]]:
    """The functions of a file: the first line with code, the name, whether it was hit.

    One that is inlined everywhere has no code where it is declared, and one that only calls such
    functions may be hit without a line of its own: that one is left out.
    """
    executable = sorted(file.lines)
    found: list[tuple[int, str, int]] = []
    for name, (line, hit) in file.functions.items():
        place = bisect_left(executable, line)
        found.append((executable[place] if place < len(executable) else line, name, hit))
    found.sort()
    begins = sorted({line for line, _, _ in found})
    for line, name, hit in found:
        after = bisect_left(begins, line + 1)
        end = begins[after] if after < len(begins) else max(line, *executable[-1:]) + 1
        own = executable[bisect_left(executable, line) : bisect_left(executable, end)]
        if not hit or not own or any(file.lines[each] for each in own):
            yield line, name, hit


def from_lcov(text: str) -> Coverage:
    """Read a tracefile. Raises ValueError for what is none, also for an empty one."""
    coverage = Coverage()
    file: CoveredFile | None = None
    for row in text.splitlines():
        kind, _, value = row.partition(":")
        if kind == "SF":
            file = CoveredFile()
            known = coverage.files.setdefault(value, CoveredFile())
        elif row == "end_of_record" and file is not None:
            known.merge(file)
            file = None
        elif file is not None:
            _read_record(file, kind, value)
        elif row.strip() and kind != "TN":
            raise ValueError(f"{row[:40]!r} stands outside of a file")
    if not coverage.files:
        raise ValueError("it names no source file")
    return coverage


def _read_record(file: CoveredFile, kind: str, value: str) -> None:
    if kind == "DA":
        line, hits = value.split(",")[:2]
        file.lines[int(line)] = int(int(hits) > 0)
    elif kind == "FN":
        line, *_, name = value.split(",")
        file.functions[name] = int(line), file.functions.get(name, (0, 0))[1]
    elif kind == "FNDA":
        hits, _, name = value.partition(",")
        file.functions[name] = file.functions.get(name, (0, 0))[0], int(int(hits) > 0)
    elif kind == "BRDA":
        line, number, way, hits = value.split(",")
        hit = -1 if hits == "-" else int(int(hits) > 0)
        file.branches[int(line), int(number), int(way)] = hit
