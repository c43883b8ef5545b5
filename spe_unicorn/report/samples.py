"""Records as samples that can be grouped: by function, line, thread, operation and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has, RecordArrays, canonical
from spe_unicorn.output.names import CONTEXTS, DATA_SOURCES, operation_name
from spe_unicorn.report.blocks import Blocks
from spe_unicorn.report.interrupts import NONE, Interrupts
from spe_unicorn.report.lines import Calls, Lines
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.spaces import Name, Spaces, function_or_nothing, symbol_or_nothing
from spe_unicorn.report.texts import Coded, coded, distinct, said
from spe_unicorn.report.views.cache_lines import LineUsers, lines_of
from spe_unicorn.spe.packets import Event
from spe_unicorn.symbols.inlined import Frame
from spe_unicorn.symbols.places import Places
from spe_unicorn.symbols.table import printable

Labels = npt.NDArray[np.object_]
Truths = npt.NDArray[np.bool_]

UNKNOWN = "[unknown]"
"""The label of what has no name: code without a symbol, a record without that packet."""

_CALLED_BY = " < "
"""Between an inlined function and the one that it was inlined into."""

OPERATION = 4
"""Bytes of an instruction: what a call is before the address to which it returns."""
_REMEMBERED = 1 << 17
"""Addresses of which is remembered what was said of them, of each thing that is asked."""
_REGION = 20
"""Data addresses without a symbol are grouped by 1 MiB."""


class Group(NamedTuple):
    """Samples with the same labels; ``rows`` are their numbers."""

    labels: tuple[str, ...]
    weight: float
    rows: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Weight:
    """What shares are of: what it is called, and how much each sample counts."""

    name: str
    of: Callable[[RecordArrays], Array]


def _event(event: Event) -> Callable[[RecordArrays], Array]:
    return lambda arrays: (arrays.events & np.uint64(event) != 0).astype(np.float64)


WEIGHTS = {
    "samples": Weight("samples", lambda arrays: np.ones(len(arrays))),
    "latency": Weight("cycles of total latency", lambda arrays: arrays.total.astype(np.float64)),
    "l1d-miss": Weight("L1D misses", _event(Event.L1D_MISS)),
    "llc-miss": Weight("LLC misses", _event(Event.LLC_MISS)),
    "tlb-walk": Weight("TLB walks", _event(Event.TLB_WALK)),
    "mispredict": Weight("mispredicted branches", _event(Event.MISPREDICTED)),
}
"""What shares can be of, by the word of ``--by``."""


class Samples:
    """The samples of a recording. Labels are made when they are asked for, once."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._labels: dict[str, Labels] = {}
        self._coded: dict[str, tuple[list[str], Array]] = {}
        self.lines = Lines()
        self._calls = Calls()
        self._whole = self
        self._asked: dict[str, Name] = {}

    def __len__(self) -> int:
        return len(self.recording)

    @property
    def arrays(self) -> RecordArrays:
        """The records, all of them at once."""
        return self.recording.raw_arrays

    def pieces(self) -> Iterator[Samples]:
        """The samples in their order, piece by piece, as :meth:`Recording.pieces` has them."""
        for piece in self.recording.pieces():
            yield self if piece is self.recording else self._with(piece)

    def chosen(self) -> Samples:
        """Samples that stand for all, as :meth:`Recording.chosen` has them."""
        return self if self.recording.is_small else self._with(self.recording.chosen())

    def only(self, rows: Array) -> Samples:
        """Some of the samples, by number; they tell no calls."""
        return self._with(self.recording.only(rows))

    def joined(self, several: Sequence[Samples]) -> Samples:
        """Several pieces as one; it tells no calls."""
        return self._with(self.recording.joined([each.recording for each in several]))

    def _with(self, recording: Recording) -> Samples:
        """Other samples of the file, with what is known of its ELF files."""
        result = Samples(recording)
        result.lines, result._calls, result._whole = self.lines, self._calls, self._whole
        return result

    @property
    def spaces(self) -> Spaces:
        """What names addresses."""
        return self.recording.spaces

    def names(self, addresses: Array, say: Name) -> Coded:
        """What ``say`` says of each sample's address, asked once for all pieces.

        It is a function of this file, or a method of these samples.
        """
        asked = self._whole._asked
        name = say.__name__
        if name not in asked:
            asked[name] = lru_cache(_REMEMBERED)(say)
        return self.spaces.names(addresses, asked[name])

    def with_event(self, event: Event) -> Truths:
        """Which samples have an event."""
        result: Truths = self.arrays.events & np.uint64(event) != 0
        return result

    def weights(self, by: str) -> npt.NDArray[np.float64]:
        """How much each sample counts by a word of :data:`WEIGHTS`."""
        return WEIGHTS[by].of(self.arrays)

    def labels(self, key: str) -> Labels:
        """The label of each sample by a word of :data:`KEYS`."""
        if key not in self._labels:
            names, numbers = self.coded(key)
            self._labels[key] = Coded(names, numbers).labels
        return self._labels[key]

    def coded(self, key: str) -> tuple[list[str], Array]:
        """The labels of a key that there are, in order, and the number of each sample's."""
        if key not in self._coded:
            self._coded[key] = coded(KEYS[key](self))
        return self._coded[key]

    def groups(
        self, keys: Sequence[str], weights: npt.NDArray[np.float64], among: Truths | None = None
    ) -> list[Group]:
        """Samples by their labels, the heaviest first; those without weight are in no group."""
        taken = weights > 0 if among is None else (weights > 0) & among
        rows = np.flatnonzero(taken)
        if not len(rows):
            return []
        codes = self.coded(keys[0])[1][rows]
        for key in keys[1:]:
            names, code = self.coded(key)
            codes = distinct(codes.astype(np.int64) * len(names) + code[rows]).numbers
        if codes.dtype.itemsize > 2 and int(np.max(codes)) < 1 << 16:
            codes = codes.astype(np.uint16)  # which are sorted far faster
        order = np.argsort(codes, kind="stable")
        edges = np.flatnonzero(np.diff(codes[order])) + 1
        members_of = rows[order]
        sums = np.add.reduceat(weights[members_of], np.append(0, edges)).tolist()
        groups = []
        for members, weight in zip(np.split(members_of, edges), sums, strict=True):
            labels = tuple(self.label(key, int(members[0])) for key in keys)
            groups.append(Group(labels, weight, members))
        return sorted(groups, key=lambda group: (-group.weight, group.labels))

    def label(self, key: str, row: int) -> str:
        """The label of one sample."""
        names, numbers = self.coded(key)
        return names[int(numbers[row])]

    def line_of(self, places: Places, address: int) -> str:
        """The source line of an address, as ``main.c:12``."""
        return self.lines.at(places, address) or UNKNOWN

    def got_at(self, back: int) -> str:
        """What blocks are called that an allocator's call gave that returned to ``back``."""
        places, call = self.recording.places, back - OPERATION
        name = symbol_or_nothing(places, call) or hex(call)
        line = self.lines.at(places, call)
        return f"block of {name} ({printable(line)})" if line else f"block of {name}"

    def frames_of(self, places: Places, address: int) -> tuple[Frame, ...]:
        """The functions that an address is in, inlined ones first; none without a symbol."""
        return self._calls.at(places, address)

    def inlined_at(self, places: Places, address: int) -> str:
        """The function that the code was written in, and those that it was inlined into."""
        names = [printable(frame.function) for frame in self.frames_of(places, address)]
        return _CALLED_BY.join(names) or UNKNOWN

    @property
    def line_users(self) -> LineUsers:
        """Who uses the cache lines of all samples of the recording."""
        return self._whole._line_users

    @cached_property
    def _line_users(self) -> LineUsers:
        result = LineUsers()
        for piece in self.pieces():
            result.add(piece.arrays, Coded(*piece.coded("data")))
        return result

    @property
    def interrupts(self) -> Interrupts:
        """The interrupts of the recording."""
        return self._whole._interrupts

    @cached_property
    def _interrupts(self) -> Interrupts:
        return Interrupts(self.recording.file.interrupts)

    @cached_property
    def pcs(self) -> npt.NDArray[np.uint64]:
        """Where each sample is in the program; 0 without a PC."""
        result: npt.NDArray[np.uint64] = canonical(self.arrays.pc)
        return result

    @cached_property
    def chains(self) -> npt.NDArray[np.int64]:
        """The number of the calls that led to each sample, -1 where the file tells none."""
        return self.recording.chains


def _function(places: Places, address: int) -> str:
    """The function that an address is in."""
    return function_or_nothing(places, address) or UNKNOWN


def _object_or_region(places: Places, address: int) -> str:
    """What is at a data address: its object, or else the MiB that it is in."""
    name = _function(places, address)
    if name != UNKNOWN:
        return name
    base = address >> _REGION << _REGION
    return f"{base:#x}-{base + (1 << _REGION) - 1:#x}"


def _symbol_or_number(places: Places, address: int) -> str:
    return places.symbolize(address) or hex(address)


def _of_pc(say: Name) -> Callable[[Samples], Coded]:
    return lambda samples: _where(samples, Has.PC, samples.names(samples.pcs, say))


def _paths(between: str, *, from_callee: bool) -> Callable[[Samples], Labels]:
    """Labels of all functions of a stack; ``from_callee``: the sampled one first."""

    def labels(samples: Samples) -> Labels:
        chains = samples.recording.file.calls.chains
        inner = samples.labels("inline")

        def callers(places: Places, chain: int) -> str:
            names = [
                name
                for back in (chains[chain - 1] if chain else ())
                for name in samples.inlined_at(places, back - OPERATION).split(_CALLED_BY)
            ]
            return _CALLED_BY.join(names)

        outer = samples.spaces.names(samples.chains + 1, callers).labels
        result = np.empty(len(samples), dtype=object)
        known: dict[tuple[str, str], str] = {}
        for row, pair in enumerate(zip(inner.tolist(), outer.tolist(), strict=True)):
            if pair not in known:
                words = _CALLED_BY.join(filter(None, pair)).split(_CALLED_BY)
                known[pair] = between.join(words if from_callee else reversed(words))
            result[row] = known[pair]
        return result

    return labels


def _objects(samples: Samples) -> Coded:
    names, numbers = samples.spaces.objects(samples.pcs)
    return _where(samples, Has.PC, Coded([name or UNKNOWN for name in names], numbers))


def _comms(samples: Samples) -> Labels:
    names: Labels = samples.spaces.comms()
    unnamed = names == ""
    names[unnamed] = samples.labels("thread")[unnamed]
    return names


def _processes(samples: Samples) -> Coded:
    """Processes with their last names; where none is known, threads stand for them."""
    labels, numbers = samples.coded("thread")
    labels, numbers = list(labels), numbers.astype(np.int64)
    names = samples.recording.file.threads
    processes = samples.spaces.processes()
    for process in distinct(processes).values.tolist():
        if process in names:
            numbers[processes == process] = len(labels)
            labels.append(f"{names[process]} {process}")
    return Coded(labels, numbers)


def _where(samples: Samples, packet: Has, labels: Coded) -> Coded:
    return labels.where(samples.arrays.where(packet), UNKNOWN)


def _operations(samples: Samples) -> Coded:
    arrays = samples.arrays
    kinds = arrays.op_class.astype(np.uint16) << 8 | arrays.op_payload
    names = said(kinds, lambda kind: operation_name(kind >> 8, kind & 0xFF))
    return _where(samples, Has.OPERATION, names)


def _sources(samples: Samples) -> Coded:
    names = said(samples.arrays.data_source, lambda n: DATA_SOURCES.get(n, f"source {n:#x}"))
    return _where(samples, Has.DATA_SOURCE, names)


def _threads(samples: Samples) -> Coded:
    """The last context of each record, which is what perf takes for a thread, with its name."""
    arrays = samples.arrays
    threads = samples.recording.file.threads
    names, numbers = [UNKNOWN], np.zeros(len(arrays), np.int32)
    for index, (values, bit) in enumerate(
        ((arrays.context_el1, Has.CONTEXT_EL1), (arrays.context_el2, Has.CONTEXT_EL2))
    ):
        register = CONTEXTS[index]

        def say(value: int, register: str = register) -> str:
            return f"{threads[value]} {value}" if value in threads else f"{register} {value:#x}"

        there = arrays.where(bit)
        if there.any():
            found = said(values[there], say)
            numbers[there] = found.numbers + len(names)
            names += found.names
    return Coded(names, numbers)


def _data(samples: Samples) -> Coded:
    """Variables, blocks by the call that got them, or else the MiB."""
    arrays = samples.arrays
    addresses = canonical(arrays.va)
    names = samples.names(addresses, _object_or_region)
    blocks = Blocks(samples.recording.file.blocks)
    if len(blocks):
        timed = arrays.where(Has.TIMESTAMP)
        ticks = np.where(timed, arrays.timestamp, np.uint64((1 << 64) - 1))
        rows = np.flatnonzero(arrays.where(Has.VA))
        block = blocks.at(addresses[rows], ticks[rows])
        rows, block = rows[block >= 0], block[block >= 0]
        found = said(blocks.place[block], samples.got_at)
        numbers = names.numbers.astype(np.int64)
        numbers[rows] = found.numbers + len(names.names)
        names = Coded([*names.names, *found.names], numbers)
    return _where(samples, Has.VA, names)


def _cache_lines(samples: Samples) -> Coded:
    rows, lines = lines_of(samples.arrays)
    found = distinct(lines)
    numbers = np.full(len(samples), len(found.values), np.int64)
    numbers[rows] = found.numbers
    return Coded([*samples.line_users.labels(found.values), UNKNOWN], numbers)


def _interrupts(samples: Samples) -> Coded:
    arrays = samples.arrays
    timed = arrays.where(Has.TIMESTAMP)
    found = samples.interrupts.at(arrays.cpu, arrays.timestamp)
    names = said(found, lambda intid: UNKNOWN if intid == NONE else f"INTID {intid}")
    return names.where(timed, UNKNOWN)


def _targets(samples: Samples) -> Coded:
    names = samples.names(canonical(samples.arrays.target), _symbol_or_number)
    return _where(samples, Has.TARGET, names)


KEYS: dict[str, Callable[[Samples], Labels | Coded]] = {
    "symbol": _of_pc(_function),
    "line": lambda samples: _of_pc(samples.line_of)(samples),
    "inline": lambda samples: _of_pc(samples.inlined_at)(samples),
    "caller": _paths(" > ", from_callee=False),
    "callee": _paths(_CALLED_BY, from_callee=True),
    "address": _of_pc(_symbol_or_number),
    "pc": lambda samples: _where(samples, Has.PC, said(samples.pcs, hex)),
    "file": _objects,
    "cpu": lambda samples: said(samples.arrays.cpu, str),
    "thread": _threads,
    "process": _processes,
    "comm": _comms,
    "el": lambda samples: _where(
        samples,
        Has.PC,
        said(samples.arrays.pc >> np.uint64(61) & np.uint64(3), lambda el: f"EL{el}"),
    ),
    "interrupt": _interrupts,
    "op": _operations,
    "source": _sources,
    "data": _data,
    "object": lambda samples: samples.labels("data"),
    "cacheline": _cache_lines,
    "target": _targets,
}
"""What samples can be grouped by, by the words of ``--sort``."""

OF_CALLS = frozenset({"caller", "callee"})
"""Those that tell nothing of a file without calls."""

PERF_KEYS = {
    "sym": "symbol",
    "srcline": "line",
    "dso": "file",
    "tid": "thread",
    "pid": "process",
    "symbol_daddr": "data",
    "mem": "source",
    "symbol_to": "target",
}
"""perf's words for some of them."""


def percentiles(
    values: Sequence[int] | Array, points: Sequence[float], counts: Array | None = None
) -> list[int]:
    """Percentiles of ascending whole numbers, each of which is one of them.

    ``counts`` says how often there is each of them, by default once.
    """
    upto = np.cumsum(np.ones(len(values), np.int64) if counts is None else counts)
    places = np.searchsorted(upto, [int(upto[-1]) * point / 100 for point in points])
    return [int(values[place]) for place in places.tolist()]
