"""The registers that instructions of this room read and write, as they lie in memory."""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import layout

VECTOR_WORDS: Final = 32
"""Words of 64 bits that a vector register has in memory: 2048 bits."""
PREDICATE_WORDS: Final = 4
"""Words of 64 bits that a predicate register has in memory: 256 bits, one for each byte."""
VECTORS: Final = 32
PREDICATES: Final = 16
GENERAL: Final = 32
SCRATCH_ROWS: Final = 5
"""Vectors that ``RegistersRecord.scratch`` has room for."""


class RegistersRecord:
    """Where the registers are, and those that are numbers. All fields have 64 bits."""

    z: int
    """Address of Z0 to Z31, each ``VECTOR_WORDS`` long."""
    p: int
    """Address of P0 to P15, each ``PREDICATE_WORDS`` long."""
    x: int
    """Address of X0 to X30, and of SP behind them."""
    bytes: int
    """The vector length, in bytes: 16 to 256. What is beyond is left as it is."""
    scratch: int
    """Address of ``SCRATCH_ROWS`` vectors for copies of operands."""
    nzcv: int
    """The flags, at the places where PSTATE has them."""
    fpcr: int
    fpsr: int
    gcr: int
    """GCR_EL1."""
    rgsr: int
    """RGSR_EL1."""
    tags: int
    """Whether access to Allocation Tags is enabled."""


REGISTERS: Final = layout(RegistersRecord)
"""A :class:`RegistersRecord` in memory."""
