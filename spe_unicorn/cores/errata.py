"""Errata of cores: which silicon has each, as MIDR_EL1 tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.features import ImpDef

_REVISION: Final = 0xF0_000F
"""Variant and revision in MIDR_EL1: r4p0 is 0x400000."""


@dataclass(frozen=True)
class Erratum:
    """What only one core has, up to a revision."""

    choice: str
    """The field of :class:`ImpDef` by which it is chosen."""
    last: int
    """MIDR_EL1 of the last revision that has it."""
    name: str
    """That core and revision, for people."""

    def is_of(self, midr: int) -> bool:
        """Whether silicon with this MIDR_EL1 can have it."""
        same = (midr ^ self.last) & ~_REVISION == 0
        return same and midr & _REVISION <= self.last & _REVISION

    def midr(self, midr: int) -> int:
        """That of the core of ``midr`` where it has the erratum; the same for other cores."""
        return self.last if (midr ^ self.last) & ~_REVISION == 0 and midr > self.last else midr


ERRATA: Final = (Erratum("erratum_1694299", 0x414F_D0C0, "Neoverse N1 up to r4p0"),)


def midr_with(choices: ImpDef, midr: int) -> int:
    """MIDR_EL1 of a core of which nothing but errata was asked for: an older revision has them."""
    for erratum in ERRATA:
        if getattr(choices, erratum.choice):
            midr = erratum.midr(midr)
    return midr


def wrong_errata(choices: ImpDef, midr: int) -> Iterator[str]:
    """Sentences about errata that silicon with this MIDR_EL1 does not have."""
    for erratum in ERRATA:
        if getattr(choices, erratum.choice) and not erratum.is_of(midr):
            yield f"{erratum.choice} = true: allowed for {erratum.name}, not where midr = {midr:#x}"
