"""The calls that led to records, as files keep them: each distinct chain of calls once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.operation import Calls

CALL_GRAPHS = ("fp", "cfi", "calls")
"""How the calls that led to a sample are found: by frame records, by call frame information, or as
calls and returns are executed."""
NO_CHAIN = -1
"""The number of the chain of a record of which the file tells no calls."""
USER_CONTEXT = -512 & (1 << 64) - 1
"""What perf puts before the addresses of software without privileges; we have but one kind."""
NUMBER = 8
"""Bytes of a number in a chain."""
_SPREAD: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
"""A factor that spreads the numbers of a chain over 64 bits."""
CHAIN_HEAD = 2
"""Numbers before the return addresses of a chain of ours: the context, and the PC."""


class CallTable:
    """The chains of calls of a file: ``chains`` by number, and the number of each record's.

    The records of a cpu that have a PC have their numbers in the order of the file.
    """

    def __init__(self) -> None:
        self.chains: list[Calls] = []
        self._known: dict[bytes, int] = {}
        self._numbers: dict[int, array[int]] = {}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def add(self, cpu: int, calls: Sequence[int]) -> None:
        """The next record of a cpu was led to by ``calls``, the last one first."""
        self.add_packed(cpu, packed(calls))

    def add_packed(self, cpu: int, data: bytes) -> None:
        """As :meth:`add`, for calls as :func:`packed` gives them."""
        self._of(cpu).append(self._number(data))

    def _number(self, data: bytes) -> int:
        """The number of a chain, a new one where it has none."""
        number = self._known.get(data)
        if number is None:
            number = self._known[data] = len(self.chains)
            self.chains.append(Struct(f"<{len(data) // 8}Q").unpack(data))
        return number

    def _of(self, cpu: int) -> array[int]:
        numbers = self._numbers.get(cpu)
        if numbers is None:
            numbers = self._numbers[cpu] = array("i")
        return numbers

    def add_many(
        self,
        cpus: NDArray[np.uint64],
        words: NDArray[np.uint64],
        firsts: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> None:
        """As :meth:`add` for each of ``cpus`` in turn, whose calls are words of ``words``.

        ``firsts`` and ``lengths`` say which: the places of the first ones, and how many there are.
        """
        groups = []
        found: list[tuple[int, bytes]] = []  # a row that each distinct chain has, and the chain
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            chains = words[firsts[rows][:, None] + np.arange(length)]
            distinct, which = _distinct(chains)
            groups.append((rows, len(found) + which))
            places = rows[distinct].tolist()
            found += [(row, chains[n].tobytes()) for row, n in zip(places, distinct, strict=True)]
        known = np.zeros(len(found), np.int32)
        for n in sorted(range(len(found)), key=lambda n: found[n][0]):
            known[n] = self._number(found[n][1])
        numbers = np.zeros(len(cpus), np.int32)
        for rows, which in groups:
            numbers[rows] = known[which]
        for cpu in np.unique(cpus).tolist():
            self._of(cpu).frombytes(numbers[cpus == cpu].tobytes())

    def in_order(self) -> Callable[[int], Calls | None]:
        """A function of a cpu that gives the calls of its next record with a PC, in turn."""
        numbers = {cpu: iter(numbers) for cpu, numbers in self._numbers.items()}

        def following(cpu: int) -> Calls | None:
            number = next(numbers[cpu], NO_CHAIN) if cpu in numbers else NO_CHAIN
            return None if number == NO_CHAIN else self.chains[number]

        return following

    def of(self, cpus: NDArray[Any], with_pc: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The number of the chain of each record, NO_CHAIN where the file tells none.

        ``cpus`` are those of the records, ``with_pc`` says which of them have a PC.
        """
        return self.numbering()(cpus, with_pc)

    def numbering(self) -> Callable[[NDArray[Any], NDArray[np.bool_]], NDArray[np.int64]]:
        """As :meth:`of`, for records piece by piece, in their order."""
        known = {cpu: np.frombuffer(numbers, np.int32) for cpu, numbers in self._numbers.items()}

        def of(cpus: NDArray[Any], with_pc: NDArray[np.bool_]) -> NDArray[np.int64]:
            result = np.full(len(cpus), NO_CHAIN, np.int64)
            for cpu, numbers in known.items():
                rows = np.flatnonzero(with_pc & (cpus == cpu))
                count = min(len(rows), len(numbers))
                result[rows[:count]] = numbers[:count]
                known[cpu] = numbers[count:]
            return result

        return of


def _distinct(chains: NDArray[np.uint64]) -> tuple[list[int], NDArray[np.int64]]:
    """A row of each distinct one of ``chains``, its first, and for each row which of these it is.

    ``chains`` has the shape (chains, calls of each).
    """
    if not chains.shape[1]:
        return [0], np.zeros(len(chains), np.int64)
    factors = np.arange(1, chains.shape[1] + 1, dtype=np.uint64) * _SPREAD | np.uint64(1)
    sums = (chains * factors).sum(axis=1, dtype=np.uint64)
    _, first, which = np.unique(sums, return_index=True, return_inverse=True)
    if not (chains == chains[first][which]).all():  # two chains have the same sum
        _, first, which = np.unique(chains, axis=0, return_index=True, return_inverse=True)
    return first.tolist(), which.reshape(-1)


def packed(calls: Sequence[int]) -> bytes:
    """Return addresses as bytes: 64 bits each, the lowest byte first."""
    return Struct(f"<{len(calls)}Q").pack(*calls)


def call_chain(pc: int, calls: Sequence[int]) -> bytes:
    """What a sample of perf's has of calls: how many numbers there are, and these."""
    return packed((CHAIN_HEAD + len(calls), USER_CONTEXT, pc, *calls))


def calls_of_chain(data: bytes) -> bytes | None:
    """The calls in what begins as :func:`call_chain` made it, packed; None for something else."""
    count = int.from_bytes(data[:8], "little")
    if count < CHAIN_HEAD or 8 + 8 * count > len(data) or data[8:16] != _CONTEXT:
        return None
    return data[8 + 8 * CHAIN_HEAD : 8 + 8 * count]


_CONTEXT = USER_CONTEXT.to_bytes(8, "little")
