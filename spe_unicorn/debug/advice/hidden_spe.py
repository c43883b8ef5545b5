"""Whether a program that is sampled from outside has a driver of SPE, which is hidden from it."""

from __future__ import annotations

from typing import Final

import numpy as np

from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1
from spe_unicorn.machine.boot.image import EXECUTE, Image

_MSR_PMBLIMITR: Final = 0xD518_9A00
"""MSR PMBLIMITR_EL1, X0: who gives SPE a buffer writes it (Arm ARM D24.7)."""
_RT: Final = 31


def hidden_spe(image: Image) -> str | None:
    """What to say of an image with symbols whose code gives SPE a buffer, None for others."""
    if not image.symbols:
        return None
    for segment in image.segments:
        if not segment.flags & EXECUTE:
            continue
        words = np.frombuffer(segment.data, "<u4", len(segment.data) // 4)
        for index in np.flatnonzero(words & ~np.uint32(_RT) == _MSR_PMBLIMITR):
            place = image.symbols.symbolize(segment.vaddr + 4 * int(index))
            if place is not None:
                return _said(place)
    return None


def _said(place: str) -> str:
    return (
        f"the program gives SPE a buffer ({PMBLIMITR_EL1.__name__} at {place}), and sees no SPE"
        " here, as it is sampled from outside: `spe-unicorn run` has SPE, and its -o writes the"
        " program's own records"
    )
