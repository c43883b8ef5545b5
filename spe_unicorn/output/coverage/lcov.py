"""The tracefiles of lcov: what ``geninfo(1)`` describes, as genhtml and others read them."""

from __future__ import annotations

from spe_unicorn.output.coverage.model import Coverage, CoveredFile


def to_lcov(coverage: Coverage) -> str:
    """The text of a tracefile."""
    lines: list[str] = []
    for path, file in sorted(coverage.files.items()):
        lines += ["TN:", f"SF:{path}", *_records(file), "end_of_record"]
    return "".join(f"{line}\n" for line in lines)


def _records(file: CoveredFile) -> list[str]:
    functions = sorted(file.functions.items(), key=lambda item: (item[1][0], item[0]))
    records = [f"FN:{line},{name}" for name, (line, _) in functions]
    records += [f"FNDA:{hit},{name}" for name, (_, hit) in functions]
    share = file.function_share
    records += [f"FNF:{share.all}", f"FNH:{share.hit}"]
    for (line, number, way), hit in sorted(file.branches.items()):
        records.append(f"BRDA:{line},{number},{way},{'-' if hit < 0 else hit}")
    share = file.branch_share
    records += [f"BRF:{share.all}", f"BRH:{share.hit}"]
    records += [f"DA:{line},{hit}" for line, hit in sorted(file.lines.items())]
    share = file.line_share
    return [*records, f"LF:{share.all}", f"LH:{share.hit}"]


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
