"""The numbers of the cache model, as a core's profile gives them; what it leaves out is as here.

Sizes are in bytes, latencies in CPU cycles. A latency is what it takes to have the data (caches and
memory) or the translation (TLBs and the walk), counted from the access.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final

_MOST: Final = 1 << 24
"""Entries that any part of the model can have: a last-level cache of 1 GiB."""
_LARGEST: Final = (1 << 32) - 1
"""Of any number."""


@dataclass(frozen=True)
class Level:
    """The size of a cache or TLB: ``entries`` lines or pages in sets of ``ways``.

    Raises ValueError unless there is a power of two of whole sets, and for more than the host is
    to keep.
    """

    entries: int
    ways: int

    def __post_init__(self) -> None:
        if self.ways < 1 or self.entries < 1 or self.entries % self.ways:
            raise ValueError(f"{self.entries} entries are not whole sets of {self.ways}")
        if self.sets & self.sets - 1:
            raise ValueError(f"{self.entries} entries in sets of {self.ways} are {self.sets} sets")
        if self.entries > _MOST:
            raise ValueError(f"{self.entries} entries: allowed are {_MOST}")

    @property
    def sets(self) -> int:
        """How many sets there are."""
        return self.entries // self.ways


@dataclass(frozen=True)
class PredictorSizes:
    """How large a predictor is: powers of two but for the return stack.

    ``counters`` two-bit counters, ``history`` directions (bits, 0 for a bimodal predictor),
    ``targets`` entries of the branch target buffer, ``returns`` of the return stack. Raises
    ValueError for sizes that cannot be.
    """

    counters: int
    history: int
    targets: int
    returns: int

    def __post_init__(self) -> None:
        for name in ("counters", "targets"):
            size = getattr(self, name)
            if size < 1 or size & size - 1:
                raise ValueError(f"{name} = {size}: allowed are powers of two")
        if not 0 <= self.history < self.counters.bit_length():
            raise ValueError(
                f"history = {self.history}: allowed are 0 to {self.counters.bit_length() - 1},"
                " since it selects a counter"
            )
        if self.returns < 1:
            raise ValueError(f"returns = {self.returns}: allowed are 1 and more")
        for name in ("counters", "targets", "returns"):
            if getattr(self, name) > _MOST:
                raise ValueError(f"{name} = {getattr(self, name)}: allowed are up to {_MOST}")


@dataclass(frozen=True)
class CacheNumbers:
    """A cache. Raises ValueError without a power of two of whole sets, as do TLBs."""

    size: int
    ways: int
    cycles: int


@dataclass(frozen=True)
class InstructionCacheNumbers:
    """An instruction cache, which the model does not have: what registers tell of it."""

    size: int
    ways: int


@dataclass(frozen=True)
class TLBNumbers:
    """A TLB."""

    entries: int
    ways: int
    cycles: int


@dataclass(frozen=True)
class ModelNumbers:
    """Caches, TLBs and a branch predictor: small ones of no product, so that programs miss them.

    Raises ValueError for sizes that cannot be, and for latencies that do not grow with the level.
    """

    line: int = 64
    """A cache line."""
    page: int = 4096
    """What one entry of a TLB covers."""
    l1_tlb: TLBNumbers = TLBNumbers(32, 32, 1)
    l2_tlb: TLBNumbers = TLBNumbers(512, 4, 4)
    walk: int = 40
    """Cycles of a translation that no TLB holds."""
    l1i: InstructionCacheNumbers = InstructionCacheNumbers(32 << 10, 4)
    l1d: CacheNumbers = CacheNumbers(32 << 10, 4, 4)
    l2: CacheNumbers = CacheNumbers(256 << 10, 8, 11)
    last: CacheNumbers = CacheNumbers(2 << 20, 16, 70)
    """The last-level cache, which all PEs share."""
    memory: int = 200
    """Cycles of an access that no cache holds."""
    cluster: int = 4
    """PEs in a cluster: PEs 0 to 3 are the first one."""
    peer_core: int = 45
    """Cycles of an access to what another PE of the cluster has in its caches."""
    peer_cluster: int = 120
    """Cycles of an access to what a PE of another cluster has in its caches."""
    wrong_path: int = 32
    """Operations that are begun after a mispredicted branch before that is known."""
    predictor: PredictorSizes = field(default_factory=lambda: PredictorSizes(4096, 10, 1024, 16))

    def __post_init__(self) -> None:
        for name in ("line", "page"):
            size = getattr(self, name)
            if size & size - 1:
                raise ValueError(f"{name} = {size}: allowed are powers of two")
        for name in ("l1_tlb", "l2_tlb", "l1i", "l1d", "l2", "last"):
            self.level(name)
        for what, cycles in (
            ("l1_tlb, l2_tlb, walk", (self.l1_tlb.cycles, self.l2_tlb.cycles, self.walk)),
            (
                "l1d, l2, last, memory",
                (self.l1d.cycles, self.l2.cycles, self.last.cycles, self.memory),
            ),
            ("peer_core, peer_cluster", (self.peer_core, self.peer_cluster)),
        ):
            if sorted(cycles) != list(cycles):
                raise ValueError(f"{what} = {cycles} cycles: allowed is what grows")

    def level(self, name: str) -> Level:
        """The sets and ways of the TLB or cache of that name."""
        numbers = getattr(self, name)
        if isinstance(numbers, TLBNumbers):
            entries = numbers.entries
        elif numbers.size % self.line:
            raise ValueError(f"{name}: {numbers.size} bytes are not whole lines of {self.line}")
        else:
            entries = numbers.size // self.line
        try:
            return Level(entries, numbers.ways)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error


def parse_numbers(table: object) -> ModelNumbers:
    """The numbers of a profile's table ``model``. Raises ValueError that names key and value."""
    numbers: ModelNumbers = _changed(ModelNumbers(), table, "model")
    return numbers


def _changed(numbers: Any, table: Any, at: str) -> Any:
    """``numbers`` with what ``table`` says instead."""
    if type(table) is not dict:
        raise ValueError(f"{at} = {table!r}: allowed is a table")
    known = tuple(f.name for f in fields(numbers))
    values = {}
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"{at}.{key}: no such number; allowed are {', '.join(known)}")
        old = getattr(numbers, key)
        if is_dataclass(old):
            values[key] = _changed(old, value, f"{at}.{key}")
        elif type(value) is not int or not (key != "history") <= value <= _LARGEST:
            raise ValueError(f"{at}.{key} = {value!r}: allowed is an integer from 1 to {_LARGEST}")
        else:
            values[key] = value
    try:
        return replace(numbers, **values)
    except ValueError as error:
        raise ValueError(f"{at}: {error}") from error
