"""The calls that led to records, as files keep them: each distinct chain of calls once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

from spe_unicorn.arch.operation import Calls

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CALL_GRAPHS = ("fp", "cfi", "calls")
"""How the calls that led to a sample are found: by frame records, by call frame information, or as
calls and returns are executed."""
NO_CHAIN = -1
"""The number of the chain of a record of which the file tells no calls."""
USER_CONTEXT = -512 & (1 << 64) - 1
"""What perf puts before the addresses of software without privileges; we have but one kind."""
NUMBER = 8
"""Bytes of a number in a chain."""
_FIRST = 2
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
        number = self._known.get(data)
        if number is None:
            number = self._known[data] = len(self.chains)
            self.chains.append(Struct(f"<{len(data) // 8}Q").unpack(data))
        numbers = self._numbers.get(cpu)
        if numbers is None:
            numbers = self._numbers[cpu] = array("i")
        numbers.append(number)

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
        import numpy as np

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


def packed(calls: Sequence[int]) -> bytes:
    """Return addresses as bytes: 64 bits each, the lowest byte first."""
    return Struct(f"<{len(calls)}Q").pack(*calls)


def call_chain(pc: int, calls: Sequence[int]) -> bytes:
    """What a sample of perf's has of calls: how many numbers there are, and these."""
    return packed((_FIRST + len(calls), USER_CONTEXT, pc, *calls))


def calls_of_chain(data: bytes) -> bytes | None:
    """The calls in what begins as :func:`call_chain` made it, packed; None for something else."""
    count = int.from_bytes(data[:8], "little")
    if count < _FIRST or 8 + 8 * count > len(data) or data[8:16] != _CONTEXT:
        return None
    return data[8 + 8 * _FIRST : 8 + 8 * count]


_CONTEXT = USER_CONTEXT.to_bytes(8, "little")
