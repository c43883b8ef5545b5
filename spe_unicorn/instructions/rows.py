"""What a row of the tables says of an instruction."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from functools import cache
from typing import Final, NamedTuple


class Needs(IntFlag):
    """What a PE must have for an instruction to be there; a row may ask for several."""

    SVE = 1
    I8MM = 2
    BF16 = 4
    SVE2 = 8
    BITPERM = 16
    SVE_SHA3 = 32
    SVE_AES = 64
    SVE_SM4 = 128
    F32MM = 256
    CSSC = 512
    MTE = 2048
    ROW = 1024
    """The engine has it. It is carried out only after others, so that the engine goes on later."""
    LSE128 = 4096
    HBC = 8192
    MTE2 = 16384
    MOPS = 32768
    F64MM = 65536
    LRCPC3 = 131072
    LUT = 262144
    CMPBR = 524288
    LS64 = 1048576
    SVE2P1 = 2097152


class Unit(IntEnum):
    """Who carries an instruction out: the file of ``carry``, or ``host.pe.amended``."""

    I8MM = 1
    BF16 = 2
    SVE2_LANEWISE = 3
    SVE2_WIDENING = 4
    SVE2_SELECTING = 5
    SVE2_FLOATING = 6
    SVE2_MEMORY = 7
    SVE_AES = 8
    COMPANY = 9
    SVE_SM4 = 10
    MATRIX = 11
    CSSC = 12
    TAGS = 13
    TAG_ACCESS = 14
    LSE128 = 15
    BRANCH = 16
    COPYING = 17
    QUADWORDS = 18
    OCTAWORD = 19
    ORDERED = 20
    LOOKUP = 21
    LS64 = 22
    SVE2P1_PREDICATES = 23
    SVE2P1_REDUCTIONS = 24
    SVE2P1_SEGMENTS = 25
    SVE2P1_ARITHMETIC = 26
    SVE2P1_MEMORY = 27


class Uses(IntFlag):
    """Registers beside vectors and predicates."""

    NOTHING = 0
    FP = 1
    """FPCR is read, FPSR is read and written."""
    FLAGS = 2
    """NZCV is written."""
    MEMORY = 4
    """Memory is accessed, or it is a branch: compiled code leaves it to Python."""
    GENERAL = 8
    """General registers alone: no trap of FP or SVE is asked about."""
    LONG_VECTORS = 16
    """UNDEFINED where vectors have fewer than 256 bits."""


class Row(NamedTuple):
    """An instruction: its name, its encoding, and how it is carried out."""

    name: str
    """As the Arm ARM's headings have it, with the group where a name is there twice."""
    pattern: str
    """Bits 31 to 0: ``0``, ``1``, or a letter for a bit of an operand. One ``t`` at least is 1.
    ``x`` and ``y`` are the numbers of general registers."""
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
        return pattern_of(self.pattern)[0]

    @property
    def value(self) -> int:
        """What those bits are."""
        return pattern_of(self.pattern)[1]

    @property
    def any_of(self) -> int:
        """Bits of which one at least must be 1; none if that does not matter."""
        return int("".join("1" if bit == "t" else "0" for bit in self.pattern), 2)


LONG_VECTOR: Final = 256
"""The bits that vectors must have for ``Uses.LONG_VECTORS``."""
_BITS: Final = 32


@cache  # rows are asked for mask and value, by two tables
def pattern_of(pattern: str) -> tuple[int, int]:
    """The bits by which a word is known, and what they are; blanks are for people.

    Raises ValueError if the pattern has not 32 bits.
    """
    plain = pattern.replace(" ", "")
    if len(plain) != _BITS:
        raise ValueError(f"{pattern}: the pattern has {len(plain)} bits")
    mask = int("".join("1" if bit in "01" else "0" for bit in plain), 2)
    return mask, int("".join(bit if bit in "01" else "0" for bit in plain), 2)


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
