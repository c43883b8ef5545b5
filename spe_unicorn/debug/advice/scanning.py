"""Which instructions of an ELF file a core lacks, by function, without running it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spe_unicorn.cores.profile import Core
from spe_unicorn.debug.advice.lacking import core_has
from spe_unicorn.instructions.known.features import BIT, ISA, Here, IsaFeature, named
from spe_unicorn.instructions.known.finding import known
from spe_unicorn.symbols.code import read_code_of
from spe_unicorn.symbols.elf import read_elf
from spe_unicorn.symbols.lines import Line


class Lacking(NamedTuple):
    """An instruction that the core lacks, or that is not executed here, in one function."""

    function: str | None
    """None for code that no symbol names."""
    feature: IsaFeature
    instruction: str
    times: int
    first: int
    """The lowest address, as it was linked."""
    line: Line | None
    core_has: bool | None
    """Whether the core has the feature, which this machine does not execute."""


class Scan(NamedTuple):
    """What is in a file."""

    operations: int
    lacking: tuple[Lacking, ...]
    """By the first address."""


def scan(path: Path, core: Core) -> Scan:
    """Look at all code of a file.

    Raises OSError for a file that cannot be read, and ElfError for one that is no ELF of AArch64.
    """
    file = read_elf(path)
    code = read_code_of(file)
    missing = _missing(core)
    found: dict[tuple[str | None, str, str], Lacking] = {}
    for address, word in code.operations.items():
        row = known(word)
        if row is None or not row.needs & missing:
            continue
        feature = named(row.needs & missing)[-1]
        symbol = file.symbols.function_at(address)
        function = None if symbol is None else symbol.name
        key = function, feature.name, row.name
        before = found.get(key)
        if before is not None:
            found[key] = before._replace(times=before.times + 1)
            continue
        line = code.lines.get(address)
        has = core_has(core, feature)
        found[key] = Lacking(function, feature, row.name, 1, address, line, has)
    return Scan(len(code.operations), tuple(found.values()))


def _missing(core: Core) -> int:
    """The features that a core lacks or that are not executed here, a bit each."""
    return sum(BIT[feature.name] for feature in ISA if _is_missing(core, feature))


def _is_missing(core: Core, feature: IsaFeature) -> bool:
    return feature.here is Here.NOBODY or core_has(core, feature) is False


def lines_of(found: Scan, core: Core) -> Iterator[tuple[str, ...]]:
    """A row of a table for each instruction that is lacking."""
    for one in found.lacking:
        where = f"{one.first:#x}" if one.line is None else f"{one.first:#x} {one.line.short}"
        why = f"{core.name} has no {one.feature.name}"
        if one.core_has is not False:
            why = f"this machine executes no {one.feature.name}"
        yield one.function or "?", str(one.times), one.instruction, why, where
