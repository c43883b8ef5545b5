"""What a recording shows, compared with what is known of the program that was recorded.

Everything here is a function of values; ``checks`` has guests run and asks these.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from elftools.elf.elffile import ELFFile

from spe_unicorn.output.perf_format import HEADER, RECORD_HEADER, RecordType
from spe_unicorn.output.reader import Stream, read_streams
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream

PAGE = 4096
TICK_NANOSECONDS = 16


@dataclass(frozen=True)
class Workload:
    """What ``hot`` says of itself. Arrays are ranges of addresses, pages by address frames."""

    pid: int
    clocks: tuple[tuple[int, int], ...]
    """The system counter and CLOCK_MONOTONIC_RAW in nanoseconds, before and after the loops."""
    operations: dict[str, int]
    arrays: dict[str, range]
    frames: dict[int, int]


def read_workload(text: str) -> Workload:
    """Read the output of ``hot``. Raises ValueError if it is not whole."""
    pid, clocks = 0, []
    operations: dict[str, int] = {}
    arrays: dict[str, range] = {}
    frames: dict[int, int] = {}
    for line in text.splitlines():
        what, *words = line.split()
        if what == "pid":
            pid = int(words[0])
        elif what == "clock":
            clocks.append((int(words[0]), int(words[1])))
        elif what == "function":
            operations[words[0]] = int(words[1])
        elif what == "array":
            start = int(words[1])
            arrays[words[0]] = range(start, start + int(words[2]))
        elif what == "page":
            frames[int(words[0])] = int(words[1])
    if not (pid and len(clocks) == 2 and operations and arrays and frames):
        raise ValueError(f"the workload did not print what it has to: {text[:80]!r}")
    return Workload(pid, tuple(clocks), operations, arrays, frames)


def read_records(data: bytes, *, raw: bool = False) -> tuple[list[Record], int]:
    """The records in a perf.data file, or of a stream, in their order; how many packets are bad."""
    pieces = [data] if raw else [stream.data for stream in _streams(data)]
    found = [item for piece in pieces for item in decode_stream(piece)]
    records = [item.record for item in found if isinstance(item, PlacedRecord)]
    return records, len(found) - len(records)


def cpus(perf_data: bytes) -> list[int]:
    """The CPUs with records in a perf.data file."""
    return sorted({stream.cpu for stream in _streams(perf_data) if len(stream.data)})


def _streams(perf_data: bytes) -> list[Stream]:
    """The streams in a perf.data file."""
    with tempfile.NamedTemporaryFile(suffix=".data") as file:
        file.write(perf_data)
        file.flush()
        return read_streams(file.name)


def aux_flags(perf_data: bytes) -> dict[str, int]:
    """How often perf was handed a piece of the buffer with each combination of flags.

    T is truncated, O overwritten, P partial, C collision, - none.
    """
    found: dict[str, int] = {}
    for _, flags in aux_pieces(perf_data):
        text = "".join(c for n, c in enumerate("TOPC") if flags >> n & 1) or "-"
        found[text] = found.get(text, 0) + 1
    return found


def aux_pieces(perf_data: bytes) -> list[tuple[int, int]]:
    """Size and flags of each piece of the buffer that perf was handed."""
    if not perf_data:
        return []
    found = []
    _, _, _, _, _, position, size, _ = HEADER.unpack_from(perf_data)
    end = position + size
    while position < end:
        kind, _, length = RECORD_HEADER.unpack_from(perf_data, position)
        if kind == RecordType.AUX:
            told = (perf_data[position + n : position + n + 8] for n in (16, 24))
            piece, flags = (int.from_bytes(number, "little") for number in told)
            found.append((piece, flags))
        elif kind == RecordType.AUXTRACE:
            length += int.from_bytes(perf_data[position + 8 : position + 16], "little")
        position += length
    return found


def function_of(record: Record, functions: Mapping[str, range]) -> str | None:
    """The function in which an operation was sampled."""
    pc = record.pc
    if pc is None:
        return None
    return next((name for name, code in functions.items() if pc.VA in code), None)


def shares(
    records: Sequence[Record], functions: Mapping[str, range], operations: Mapping[str, int]
) -> dict[str, tuple[int, float]]:
    """By function: its samples, and how many were to be expected of that many in all of them."""
    counts = dict.fromkeys(operations, 0)
    for record in records:
        name = function_of(record, functions)
        if name in counts:
            counts[name] += 1
    samples, executed = sum(counts.values()), sum(operations.values())
    return {name: (n, samples * operations[name] / executed) for name, n in counts.items()}


def chi_square(pairs: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Pearson's statistic of counts and expectations, and the chance that it is so large or larger.

    The chance is Wilson and Hilferty's approximation, good to a few thousandths.
    """
    statistic = sum((count - expected) ** 2 / expected for count, expected in pairs)
    k = len(pairs) - 1
    deviation = ((statistic / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))
    return statistic, math.erfc(deviation / math.sqrt(2)) / 2


def strays(
    records: Sequence[Record], functions: Mapping[str, range], homes: Mapping[str, range]
) -> list[Record]:
    """Accesses of functions in ``homes`` that lie outside the array that the function is given."""
    return [
        record
        for record in records
        if (name := function_of(record, functions)) in homes
        and record.va is not None
        and record.va.VA not in homes[name]
    ]


def misplaced(records: Sequence[Record], frames: Mapping[int, int]) -> tuple[int, list[Record]]:
    """How many records have addresses in known pages, and those with another physical address."""
    known = [
        record
        for record in records
        if record.va is not None and record.va.VA // PAGE * PAGE in frames
    ]
    wrong = [
        record
        for record in known
        if record.va is not None
        and (
            record.pa is None
            or frames[record.va.VA // PAGE * PAGE] * PAGE + record.va.VA % PAGE != record.pa.PA
        )
    ]
    return len(known), wrong


def timestamps(records: Sequence[Record]) -> list[int]:
    """The times of the records, in ticks."""
    return [record.timestamp for record in records if record.timestamp is not None]


def most_frequent_distance(times: Sequence[int]) -> tuple[int, float]:
    """The distance that most neighbours have, and the part of them that has it."""
    distances = [b - a for a, b in pairwise(times)]
    most = max(set(distances), key=distances.count)
    return most, distances.count(most) / len(distances)


def functions_of(elf: Path) -> dict[str, range]:
    """The functions of a program that say how large they are."""

    with elf.open("rb") as stream:
        symbols = ELFFile(stream).get_section_by_name(".symtab").iter_symbols()
        return {
            s.name: range(s["st_value"], s["st_value"] + s["st_size"])
            for s in symbols
            if s["st_info"]["type"] == "STT_FUNC" and s["st_size"]
        }


_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_SHARED_LINE = re.compile(r"^ +\d+ +(0x[0-9a-f]+) +\d+ +\d+ +[\d.]+% +(\d+) ", re.M)
"""A row of the table of shared lines: its number, address, node, PA count, share, peer snoops."""
_PARETO_LINE = re.compile(r"^ +\d+(?: +\d+){5} +(0x[0-9a-f]+)$")
"""The title of a line's part of the distribution: number, counts and address."""
_PARETO_ROW = re.compile(r"^(?: +[\d.]+%){5} +(0x[0-9a-f]+) +\d+ +\d+ +0x")
"""A row of that part: shares, then the offset of what was accessed, before the code address."""


def _plain(report: str) -> str:
    """What perf prints on a terminal, without its colours."""
    return _COLOUR.sub("", report)


def shared_lines(report: str) -> dict[int, int]:
    """The addresses of the lines that ``perf c2c report`` names, each with its peer snoops."""
    return {int(m[1], 16): int(m[2]) for m in _SHARED_LINE.finditer(_plain(report))}


def offsets_of(report: str, line: int) -> set[int]:
    """The offsets at which ``perf c2c report`` says that a line was accessed."""
    found = set()
    here = False
    for row in _plain(report).splitlines():
        if title := _PARETO_LINE.match(row):
            here = int(title[1], 16) == line
        elif here and (match := _PARETO_ROW.match(row)):
            found.add(int(match[1], 16))
    return found


@dataclass(frozen=True)
class Selftest:
    """What came of one of the kernel's selftests: its name and arguments, status and last lines."""

    name: str
    status: int | None
    said: tuple[str, ...]

    @property
    def good(self) -> bool:
        """Whether it passed, or does not apply here and says so."""
        return self.status in (_PASSED, _SKIPPED)

    @property
    def told(self) -> str:
        """The result in a line."""
        if self.status == _SKIPPED:
            return f"{self.name} # SKIP {self._reason}"
        if self.status == _KILLED:
            return f"{self.name}: still runs when its time is over"
        return self.name if self.status == _PASSED else f"{self.name}: exit status {self.status}"

    @property
    def _reason(self) -> str:
        skipped = [line.partition("SKIP")[2].strip(" -") for line in self.said if "SKIP" in line]
        return skipped[0] if skipped else "it gives no reason"


_PASSED, _SKIPPED, _KILLED = 0, 4, 128 + 9
"""Exit statuses of the kernel's selftests (``kselftest.h``), and of what SIGKILL has ended."""


def selftest_results(console: str) -> list[Selftest]:
    """What the scenario ``kvm_selftests`` says of each program."""
    found = []
    for section in re.split(r"^=== ", console, flags=re.MULTILINE):
        title, *lines = section.splitlines() or [""]
        if title.startswith("selftest "):
            status = next((int(n[1]) for n in map(_STATUS.fullmatch, lines) if n), None)
            said = tuple(line for line in lines if not _STATUS.fullmatch(line))
            found.append(Selftest(title.removeprefix("selftest ").strip(), status, said))
    return found


_STATUS = re.compile(r"status (\d+)")
