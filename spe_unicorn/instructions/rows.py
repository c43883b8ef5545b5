"""What a row of the tables says of an instruction."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final, NamedTuple


class Needs(IntFlag):
    """What a PE must have for an instruction to be there; a row may ask for several."""

    SVE = 1
    I8MM = 2
    BF16 = 4


class Unit(IntEnum):
    """The file whose ``carry`` knows an instruction."""

    I8MM = 1
    BF16 = 2


class Uses(IntFlag):
    """Registers beside vectors and predicates."""

    NOTHING = 0
    FP = 1
    """FPCR is read, FPSR is read and written."""
    FLAGS = 2
    """NZCV is written."""


class Row(NamedTuple):
    """An instruction: its name, its encoding, and how it is carried out."""

    name: str
    """As the Arm ARM's headings have it, with the group where a name is there twice."""
    pattern: str
    """Bits 31 to 0: ``0``, ``1``, or a letter for a bit of an operand."""
    needs: Needs
    unit: Unit
    form: int
    """Which operands there are, and in which order they are worked on; each unit has its own."""
    kind: int = 0
    """What is done with them."""
    uses: Uses = Uses.NOTHING

    @property
    def sve(self) -> bool:
        """Whether it is an instruction of SVE, which CheckSVEEnabled() is asked about."""
        return bool(self.needs & Needs.SVE)

    @property
    def mask(self) -> int:
        """The bits of the word by which it is known."""
        return int("".join("1" if bit in "01" else "0" for bit in self.pattern), 2)

    @property
    def value(self) -> int:
        """What those bits are."""
        return int("".join(bit if bit in "01" else "0" for bit in self.pattern), 2)


_BITS: Final = 32


def row(
    name: str,
    pattern: str,
    needs: Needs,
    unit: Unit,
    form: int,
    kind: int = 0,
    uses: Uses = Uses.NOTHING,
) -> Row:
    """A row; blanks in the pattern are for people. Raises ValueError if it has not 32 bits."""
    plain = pattern.replace(" ", "")
    if len(plain) != _BITS:
        raise ValueError(f"{name}: the pattern has {len(plain)} bits")
    return Row(name, plain, needs, unit, form, kind, uses)
