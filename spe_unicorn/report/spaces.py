"""Which memory each sample was taken in: that of a process, as a recording of Linux tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array, Has, RecordArrays
from spe_unicorn.output.reader import RecordFile
from spe_unicorn.output.tasks import Mapping, Space, Tasks
from spe_unicorn.report.places import Files
from spe_unicorn.report.texts import Coded, Distinct, distinct, said
from spe_unicorn.symbols.choice import SymbolChoice
from spe_unicorn.symbols.elf import ElfFile, Piece
from spe_unicorn.symbols.places import Places
from spe_unicorn.symbols.table import SymbolTable

Name = Callable[[Places, int], str]
"""Says something of an address in a space."""


class Spaces:
    """The memory of the processes of a recording: one for all of a firmware."""

    def __init__(
        self, file: RecordFile, choices: Iterable[SymbolChoice], arrays: Callable[[], RecordArrays]
    ) -> None:
        self._arrays = arrays
        self._sorted: tuple[Array, Distinct] | None = None
        self._files = Files(file, choices)
        self._known: dict[tuple[Mapping, ...], Places] = {}
        self.used: list[ElfFile] | None = None
        """The files that name addresses, where they were found piece by piece."""
        self._clock = file.clocks[-1] if file.clocks else None
        self.tasks = Tasks.of(file.acts)
        self._memories = dict.fromkeys(
            tuple(reversed(space.mappings)) for space in self.tasks.spaces if space.mappings
        )
        own = next(iter(self._memories)) if len(self._memories) == 1 else ()
        self.common: Places = self._files.places((*own, *self.tasks.everywhere))
        """What is in the memory of all processes; of one process or of a firmware, everything."""

    def of(self, arrays: RecordArrays) -> Spaces:
        """The same memory, for other records of the file."""
        result = copy(self)
        result.used = None
        result._arrays = lambda: arrays
        result._sorted = None
        for name in ("threads", "_times", "_mapped", "_numbered", "_maps"):
            result.__dict__.pop(name, None)
        return result

    def __bool__(self) -> bool:
        return bool(self.files)

    @property
    def is_one(self) -> bool:
        """Whether all samples are in the same memory, as those of a firmware are."""
        return len(self._memories) < 2

    @property
    def files(self) -> list[ElfFile]:
        """The ELF files that name addresses."""
        if self.used is not None:
            return self.used
        places = self._numbered[0]
        return list({str(file.path): file for one in places for file in one.files}.values())

    def names(self, addresses: Array, say: Name) -> Coded:
        """What ``say`` says of each sample's address, asked once for each that there is."""
        return self._asked(addresses, say, self._numbered[0])

    def objects(self, addresses: Array) -> Coded:
        """The name of the file that each sample's address is in, empty for none."""

        def say(places: Places, address: int) -> str:
            found = places.at(address)
            return "" if found is None else found.file.path.name

        return self._asked(addresses, say, self._maps)

    def comms(self) -> npt.NDArray[np.object_]:
        """The name that the thread of each sample had then, empty where it is not known."""
        return self.tasks.names(self.threads, self._times)

    def processes(self) -> Array:
        """The process of each sample."""
        return self.tasks.processes(self.threads)

    @cached_property
    def threads(self) -> Array:
        """The thread of each sample: its last context, as perf has it, and -1 without one."""
        arrays = self._arrays()
        el2, el1 = arrays.where(Has.CONTEXT_EL2), arrays.where(Has.CONTEXT_EL1)
        contexts = np.where(el2, arrays.context_el2, arrays.context_el1).astype(np.int64)
        return np.where(el1 | el2, contexts, -1)

    def _asked(self, addresses: Array, say: Name, places: list[Places]) -> Coded:
        number = self._numbered[1]
        if number is None:
            # of PCs several things are asked
            if self._sorted is None or self._sorted[0] is not addresses:
                self._sorted = addresses, distinct(addresses)
            return said(self._sorted[1], partial(say, places[0]))
        names: list[str] = []
        result = np.zeros(len(addresses), np.int64)
        for index, one in enumerate(places):
            rows = np.flatnonzero(number == index)
            if len(rows):
                found = said(addresses[rows], partial(say, one))
                result[rows] = found.numbers + len(names)
                names += found.names
        return Coded(names, result)

    @cached_property
    def _times(self) -> Array:
        ticks = self._arrays().timestamp
        times = ticks if self._clock is None else self._clock.nanoseconds(ticks)
        there = self._arrays().where(Has.TIMESTAMP)
        result: Array = np.where(there, times, np.uint64((1 << 64) - 1))
        return result

    @cached_property
    def _mapped(self) -> tuple[list[tuple[Mapping, ...]], Array | None]:
        """The different memories, and the number of that of each sample; None for the first."""
        everywhere = tuple(self.tasks.everywhere)
        if self.is_one:
            return [(*mappings, *everywhere) for mappings in self._memories or ((),)], None
        memories: dict[tuple[Mapping, ...], int] = {(): 0}
        number_of: dict[Space | None, int] = {None: 0}
        spaces: list[Space | None] = self.tasks.spaces_of(self.threads, self._times).tolist()
        for space in dict.fromkeys(spaces):
            if space is not None:
                mappings = tuple(reversed(space.mappings))
                number_of[space] = memories.setdefault(mappings, len(memories))
        numbers = np.array([number_of[space] for space in spaces], np.int32)
        return [(*mappings, *everywhere) for mappings in memories], numbers

    @cached_property
    def _numbered(self) -> tuple[list[Places], Array | None]:
        memories, numbers = self._mapped
        if numbers is None:
            return [self.common], None
        for mappings in memories:
            if mappings not in self._known:
                self._known[mappings] = self._files.places(mappings)
        return [self._known[mappings] for mappings in memories], numbers

    @cached_property
    def _maps(self) -> list[Places]:
        """As :attr:`_numbered`, of all files, also those that cannot be read."""
        memories, _ = self._mapped
        if not any(memories):
            return [self.common]
        result = []
        for mappings in memories:
            places = Places()
            for mapping in mappings:
                piece = Piece(mapping.address, mapping.address, mapping.offset, *[mapping.size] * 2)
                path = Path(_object(mapping.path))
                places.add_file(ElfFile(path, (piece,), SymbolTable(), False, 1))
            result.append(places)
        return result


def _object(path: str) -> str:
    """A mapped file as perf writes it: ``[kernel.kallsyms]_text`` without its first symbol."""
    name, bracket, _ = path.partition("]")
    return f"{name}]" if path.startswith("[") and bracket else path


def coded_at(
    places: Places | Spaces | None, addresses: Array, say: Callable[[Places, int], str]
) -> Coded:
    """What ``say`` says of addresses, be they in one memory or in those of several processes."""
    if isinstance(places, Spaces):
        return places.names(addresses, say)
    one: Any = Places() if places is None else places
    return said(addresses, lambda address: say(one, address))


def names_at(
    places: Places | Spaces | None, addresses: Array, say: Callable[[Places, int], str]
) -> npt.NDArray[np.object_]:
    """The same as an array of texts."""
    return coded_at(places, addresses, say).labels


def function_or_nothing(places: Places, address: int) -> str:
    """The function that an address is in, without an offset; empty where there is none."""
    place = places.at(address)
    symbol = None if place is None else place.file.symbols.function_at(place.linked)
    return "" if symbol is None else symbol.name


def symbol_or_nothing(places: Places, address: int) -> str:
    """``name+0x10``, empty where no symbol covers an address."""
    return places.symbolize(address) or ""
