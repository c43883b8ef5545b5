"""Random numbers: one seed, many streams with names, equal on every machine and Python.

Each use draws from a stream of its own (reset values, the sample interval, RNDR, the core model),
so that one more draw here never shifts what another user sees.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GAMMA = 0x9E37_79B9_7F4A_7C15


class RandomStream:
    """A splitmix64 sequence (Steele, Lea and Flood, 2014): a counter and a mixing function.

    ``state`` is all there is to save and restore.
    """

    STATE = ("state",)
    __slots__ = ("state",)

    def __init__(self, state: int) -> None:
        self.state = state & _MASK

    def bits64(self) -> int:
        """The next 64 random bits."""
        value = self._peek()
        self.state = (self.state + _GAMMA) & _MASK
        return value

    def byte(self) -> int:
        """The next random byte, 0 to 255. It takes one step, as :meth:`bits64` does."""
        return self.bits64() >> 56

    def peek_byte(self) -> int:
        """What :meth:`byte` would give next, without taking it."""
        return self._peek() >> 56

    def at(self, number: int) -> int:
        """The 64 random bits that come ``number`` steps later, without taking any."""
        return RandomStream(self.state + number * _GAMMA)._peek()

    def ahead(self, count: int) -> NDArray[np.uint64]:
        """What the next ``count`` calls of :meth:`bits64` would give, without taking any."""
        steps = np.arange(1, count + 1, dtype=np.uint64)
        mixed: NDArray[np.uint64] = _mix(steps * _GAMMA + np.uint64(self.state))
        return mixed

    def skip(self, count: int) -> None:
        """Take ``count`` random numbers and look at none of them."""
        self.state = (self.state + count * _GAMMA) & _MASK

    def _peek(self) -> int:
        mixed: int = _mix((self.state + _GAMMA) & _MASK)
        return mixed


def _mix(z: Any) -> Any:
    """The mixing function, of an integer of 64 bits or of an array of them."""
    z = (z ^ z >> 30) * 0xBF58_476D_1CE4_E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D0_49BB_1331_11EB & _MASK
    return z ^ z >> 31


class RandomSource:
    """The one source of chance in a machine: a seed, any integer.

    Each PE, by its number, has streams of its own.
    """

    def __init__(self, seed: int, pe: int = 0) -> None:
        self.seed = seed
        self._prefix = f"{seed}/pe{pe}" if pe else f"{seed}"

    def stream(self, name: str) -> RandomStream:
        """The stream called ``name``, from its beginning; equal names give equal sequences."""
        digest = blake2b(f"{self._prefix}/{name}".encode(), digest_size=8).digest()
        return RandomStream(int.from_bytes(digest, "little"))
