"""Records as tests ask for them: how many there are of a kind, and which."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, Protocol, overload

from spe_unicorn.output.names import DATA_SOURCES, event_names, operation_name
from spe_unicorn.spe.packets import CounterIndex, canonical_address
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream

_KEYS: Final = ("op", "pc", "el", "event", "va", "source", "min_latency", "max_latency")
Test = Callable[[Record], bool]
Place = str | int | tuple[int, int]
"""A function's name, an address, or a range of addresses (the end is not in it)."""


class Functions(Protocol):
    """The functions of a program, by address and by name."""

    def function(self, address: int) -> str | None:
        """The name of the function at an address, None for code without a name."""

    def check(self, name: str) -> object:
        """Raise ValueError for a name that no function of the program has."""


class Decoded(Collection[Record]):
    """The records of whole streams, decoded each time they are gone through."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def __iter__(self) -> Iterator[Record]:
        for found in decode_stream(self._raw):
            if not isinstance(found, PlacedRecord):
                raise RuntimeError(f"a record of ours cannot be read: {found}")
            yield found.record

    @cached_property
    def _count(self) -> int:
        return sum(1 for _ in decode_stream(self._raw))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, record: object) -> bool:
        return any(record == one for one in self)


class RecordSet(Sequence[Record]):
    """Some records, in their order. It does not change: a run adds to none that was made before.

    >>> len(records), records[0].pc, records[-10:].count
    >>> records.where(op="load", pc="memcpy", min_latency=100).count
    """

    def __init__(
        self,
        records: Collection[Record],
        functions: Functions,
        raw: bytes | None = None,
        said: str = "",
    ) -> None:
        self._given = records
        """A tuple once one of them was asked for by its number."""
        self._functions = functions
        self._said = said
        self.raw = raw
        """Their bytes; None of records that were picked."""

    @classmethod
    def of(cls, raw: bytes, functions: Functions) -> RecordSet:
        """The records that ``raw`` holds, which is whole streams one after another."""
        return cls(Decoded(raw), functions, raw)

    def where(self, **wanted: Any) -> RecordSet:
        """Those records that have all of this.

        ``op``: words of the operation (``load``, ``store simd-fp``, ``branch conditional``), all of
        them. ``pc``, ``va``: a function's name, an address, or ``(from, to)``. ``el``: the
        Exception level. ``event``: an event by its name in JSON (``mispredicted``). ``source``: a
        data source (``L2``, ``DRAM``). ``min_latency``, ``max_latency``: bounds of the total
        latency in cycles, both allowed.

        Raises TypeError for another key and ValueError for a word that no record can have, such as
        the name of a function that the program does not have.
        """
        for key in wanted:
            if key not in _KEYS:
                raise TypeError(f"records are not picked by {key!r}: there are {', '.join(_KEYS)}")
        for key in ("pc", "va"):
            if isinstance(wanted.get(key), str):
                self._functions.check(wanted[key])
        function = self._functions.function
        tests = [_TESTS[key](value, function) for key, value in wanted.items()]
        said = ", ".join(f"{key}={value!r}" for key, value in wanted.items())
        both = f"{self._said}, {said}" if self._said and said else self._said or said
        kept = tuple(record for record in self if all(test(record) for test in tests))
        return RecordSet(kept, self._functions, said=both)

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many there are, as ``len()`` says."""
        return len(self)

    def __len__(self) -> int:
        return len(self._given)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._given)

    @overload
    def __getitem__(self, number: int) -> Record: ...
    @overload
    def __getitem__(self, number: slice) -> RecordSet: ...
    def __getitem__(self, number: int | slice) -> Record | RecordSet:
        if not isinstance(self._given, tuple):
            self._given = tuple(self._given)
        if isinstance(number, slice):
            return RecordSet(self._given[number], self._functions, said=self._said)
        return self._given[number]

    def __repr__(self) -> str:
        return f"<{len(self)} records{f' where {self._said}' if self._said else ''}>"


def _op(value: str, _functions: object) -> Test:
    words = set(value.split())
    known: dict[tuple[int, int], bool] = {}

    def test(record: Record) -> bool:
        if record.op_class is None:
            return False
        key = record.op_class, record.op_payload
        if key not in known:
            known[key] = words <= set(operation_name(*key).split())
        return known[key]

    return test


def _address(field: str) -> Callable[[Place, Callable[[int], str | None]], Test]:
    def make(value: Place, functions: Callable[[int], str | None]) -> Test:
        def test(record: Record) -> bool:
            payload = getattr(record, field)
            if payload is None:
                return False
            address = canonical_address(payload.value)
            if isinstance(value, str):
                return functions(address) == value
            if isinstance(value, tuple):
                return value[0] <= address < value[1]
            return address == value

        return test

    return make


def _el(value: int, _functions: object) -> Test:
    return lambda record: record.pc is not None and value == record.pc.EL


def _event(value: str, _functions: object) -> Test:
    known = event_names((1 << 64) - 1)
    if value not in known:
        raise ValueError(f"no event is called {value!r}: there are {', '.join(known)}")
    return lambda record: bool(record.events >> known.index(value) & 1)


def _source(value: str, _functions: object) -> Test:
    numbers = {number for number, name in DATA_SOURCES.items() if name == value}
    if not numbers:
        raise ValueError(
            f"no data source is called {value!r}: there are {', '.join(DATA_SOURCES.values())}"
        )
    return lambda record: record.data_source in numbers


def _latency(record: Record) -> int | None:
    return record.counter(CounterIndex.TOTAL)


def _min_latency(value: int, _functions: object) -> Test:
    return lambda record: (_latency(record) or 0) >= value


def _max_latency(value: int, _functions: object) -> Test:
    return lambda record: (latency := _latency(record)) is not None and latency <= value


_TESTS: Final[dict[str, Callable[[Any, Callable[[int], str | None]], Test]]] = {
    "op": _op,
    "pc": _address("pc"),
    "va": _address("va"),
    "el": _el,
    "event": _event,
    "source": _source,
    "min_latency": _min_latency,
    "max_latency": _max_latency,
}
