"""What CLIDR_EL1, CCSIDR_EL1 and CTR_EL0 read as, of the sizes of a core's caches.

The first level is a pair of an instruction cache and a data cache, the levels after it are unified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.registers.caches import CLIDR_EL1, CSSELR_EL1, CTR_EL0

_SEPARATE, _UNIFIED = 3, 4
"""Values of CLIDR_EL1.Ctype<n>."""
_WRITE_BACK, _READ_ONLY = 7, 2
"""CCSIDR_EL1[31:28] as cores had it before these bits became UNKNOWN: write-back with allocation
on reads and writes, and allocation on reads alone."""
_MOST_SETS, _MOST_WAYS = 1 << 15, 1 << 10
"""What CCSIDR_EL1 can say without FEAT_CCIDX."""
LINES: Final = range(16, 2049)
"""Bytes of a cache line that CCSIDR_EL1 can say: powers of two of these."""


@dataclass(frozen=True)
class Cache:
    """The geometry of a cache; ``line`` is in bytes. All are powers of two but for ``ways``."""

    sets: int
    ways: int
    line: int

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.sets * self.ways * self.line


@dataclass(frozen=True)
class Caches:
    """The caches of a core: of instructions, of data at the first level, and the unified ones.

    ``manual`` is CLIDR_EL1 as the core's manual has it, None where there is none: levels that it
    lacks are outside the core, so that CLIDR_EL1 and CCSIDR_EL1 do not tell of them.
    """

    instruction: Cache
    data: Cache
    unified: tuple[Cache, ...]
    manual: int | None = None

    def told(self) -> tuple[Cache, ...]:
        """The caches of data that the registers tell of, by level from the first on."""
        levels = (self.data, *self.unified)
        if self.manual is None:
            return levels
        types = [self.manual >> 3 * n & 7 for n in range(len(levels))]
        return tuple(cache for cache, kind in zip(levels, types, strict=True) if kind)


def untold(caches: Caches, features: Features) -> Iterator[str]:
    """Sentences about caches that CCSIDR_EL1 has no room for; none where all can be said."""
    line = caches.data.line
    if line not in LINES:
        yield f"line = {line}: allowed are {LINES[0]} to {LINES[-1]}, which CCSIDR_EL1 can say"
    if Feature.FEAT_CCIDX not in features:
        for cache in (caches.instruction, *caches.told()):
            if cache.sets > _MOST_SETS or cache.ways > _MOST_WAYS:
                yield (
                    f"{cache.sets} sets of {cache.ways} lines: without FEAT_CCIDX CCSIDR_EL1 has"
                    f" room for {_MOST_SETS} sets of {_MOST_WAYS}"
                )


def clidr_el1(caches: Caches) -> CLIDR_EL1:
    """CLIDR_EL1. Without a manual data is coherent after the last level, code after the first."""
    told = caches.told()
    types = {"Ctype1": _SEPARATE} | {f"Ctype{n}": _UNIFIED for n in range(2, len(told) + 1)}
    if caches.manual is None:
        return CLIDR_EL1.of(LoUU=1, LoUIS=1, LoC=len(told), **types)
    manual = CLIDR_EL1(caches.manual)
    return CLIDR_EL1.of(
        ICB=manual.ICB, LoUU=manual.LoUU, LoUIS=manual.LoUIS, LoC=manual.LoC, **types
    )


def ccsidr_el1(caches: Caches, features: Features, csselr: int) -> int:
    """CCSIDR_EL1 while CSSELR_EL1 has a value; 0 for a cache that is not there."""
    selected = CSSELR_EL1(csselr)
    told = caches.told()
    code = bool(selected.InD)
    if selected.TnD or selected.Level >= (1 if code else len(told)):
        return 0
    cache = caches.instruction if code else told[selected.Level]
    line = cache.line.bit_length() - 5
    if Feature.FEAT_CCIDX in features:
        return cache.sets - 1 << 32 | cache.ways - 1 << 3 | line
    policy = _READ_ONLY if code else _WRITE_BACK
    return policy << 28 | cache.sets - 1 << 13 | cache.ways - 1 << 3 | line


def ctr_el0(caches: Caches, engine: int) -> int:
    """CTR_EL0, of the engine's own: the smallest line of data is that of these caches.

    Software maintains instruction caches by the line that the engine has.
    """
    words = caches.data.line.bit_length() - 3
    theirs = CTR_EL0(engine)
    return theirs.replace(
        DminLine=words, CWG=max(theirs.CWG, words), ERG=max(theirs.ERG, words)
    ).value
