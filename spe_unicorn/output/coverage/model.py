"""What was covered, as it is merged and written: source files and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

INCOMPLETE: Final = "the table of coverage is full: code that ran first later is missing"
"""What people are told of coverage that is :attr:`Coverage.incomplete`."""


class Share(NamedTuple):
    """How much of something was run."""

    hit: int
    all: int

    @property
    def part(self) -> float | None:
        """From 0 to 1; None where there is nothing."""
        return self.hit / self.all if self.all else None


@dataclass(slots=True)
class CoveredFile:
    """A source file, or an ELF file without debug information, whose lines are its functions."""

    lines: dict[int, int] = field(default_factory=dict)
    """1 for a line of which something was executed, else 0, by number."""
    functions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where it is declared, and whether something of it was executed, by name."""
    branches: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """By line, number of the conditional branch in that line, and way (0: not taken, 1: taken):
    whether it has gone that way. -1 if the branch was never executed."""

    def merge(self, other: CoveredFile) -> None:
        """Add what another run has covered of the same file."""
        for line, hit in other.lines.items():
            self.lines[line] = max(hit, self.lines.get(line, 0))
        for name, (line, hit) in other.functions.items():
            known = self.functions.get(name, (line, 0))
            self.functions[name] = known[0], max(hit, known[1])
        for branch, hit in other.branches.items():
            self.branches[branch] = max(hit, self.branches.get(branch, -1))
        reached = {branch[:2] for branch, hit in self.branches.items() if hit >= 0}
        for branch, hit in self.branches.items():
            if hit < 0 and branch[:2] in reached:
                self.branches[branch] = 0

    @property
    def line_share(self) -> Share:
        """How many of its lines."""
        return Share(sum(map(bool, self.lines.values())), len(self.lines))

    @property
    def branch_share(self) -> Share:
        """How many of its ways of branches."""
        return Share(sum(hit > 0 for hit in self.branches.values()), len(self.branches))

    @property
    def function_share(self) -> Share:
        """How many of its functions."""
        return Share(sum(bool(hit) for _, hit in self.functions.values()), len(self.functions))


@dataclass(slots=True)
class Program:
    """An ELF file: which of its operations were executed, by the addresses of the link."""

    operations: set[int] = field(default_factory=set)
    branches: dict[int, int] = field(default_factory=dict)
    """The ways that conditional branches have gone: FELL, TAKEN."""

    def merge(self, other: Program) -> None:
        """Add what another run has executed."""
        self.operations |= other.operations
        for branch, ways in other.branches.items():
            self.branches[branch] = self.branches.get(branch, 0) | ways


@dataclass(slots=True)
class Coverage:
    """What was covered in one run or in several."""

    files: dict[str, CoveredFile] = field(default_factory=dict)
    """By path, as the compiler wrote it."""
    programs: dict[str, Program] = field(default_factory=dict)
    """By path."""
    incomplete: bool = False
    """Whether the table of a PE was full, so that more was executed."""

    def merge(self, other: Coverage) -> None:
        """Add what other runs have covered."""
        self.incomplete |= other.incomplete
        for path, file in other.files.items():
            self.files.setdefault(path, CoveredFile()).merge(file)
        for path, program in other.programs.items():
            self.programs.setdefault(path, Program()).merge(program)

    def moved(self, place: Callable[[str], str]) -> Coverage:
        """The same, with each path as ``place`` gives it; several may become one."""
        there = Coverage(incomplete=self.incomplete)
        for path, file in self.files.items():
            there.merge(Coverage({place(path): file}))
        for path, program in self.programs.items():
            there.merge(Coverage({}, {place(path): program}))
        return there

    @property
    def line_share(self) -> Share:
        """How many lines of all files."""
        return total(file.line_share for file in self.files.values())

    @property
    def branch_share(self) -> Share:
        """How many ways of branches of all files."""
        return total(file.branch_share for file in self.files.values())

    @property
    def function_share(self) -> Share:
        """How many functions of all files."""
        return total(file.function_share for file in self.files.values())


def total(shares: Iterable[Share]) -> Share:
    """The sum of shares."""
    known = list(shares)
    return Share(sum(share.hit for share in known), sum(share.all for share in known))


def ranges(numbers: Iterable[int], step: int = 1) -> list[tuple[int, int]]:
    """Numbers as ranges, first and last, of those that are ``step`` apart."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + step:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
