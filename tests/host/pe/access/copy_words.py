"""Words of memory copies and sets (FEAT_MOPS): Arm ARM C6.2."""

from __future__ import annotations

PROLOGUE, MAIN, EPILOGUE = range(3)
STAGES = (PROLOGUE, MAIN, EPILOGUE)


def cpy(stage: int, d: int, s: int, n: int, options: int = 0) -> int:
    """CPYP, CPYM, CPYE [Xd]!, [Xs]!, Xn!; ``options`` are bits 15:12."""
    return 0x1D00_0400 | stage << 22 | s << 16 | options << 12 | n << 5 | d


def cpyf(stage: int, d: int, s: int, n: int, options: int = 0) -> int:
    """CPYFP, CPYFM, CPYFE."""
    return cpy(stage, d, s, n, options) & ~(1 << 26)


def sets(stage: int, d: int, n: int, s: int, options: int = 0) -> int:
    """SETP, SETM, SETE [Xd]!, Xn!, Xs; ``options`` are bits 13:12."""
    return 0x19C0_0400 | s << 16 | stage << 14 | options << 12 | n << 5 | d


def setg(stage: int, d: int, n: int, s: int, options: int = 0) -> int:
    """SETGP, SETGM, SETGE."""
    return sets(stage, d, n, s, options) | 1 << 26
