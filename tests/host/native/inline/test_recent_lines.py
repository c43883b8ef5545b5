"""What stubs of accesses do without the core model's hook is run here, beside the model itself."""

from __future__ import annotations

import ctypes
import mmap
from random import Random
from typing import Any

import numpy as np
import pytest

from spe_unicorn.compiled import entry
from spe_unicorn.cores.caches import DataSide, Grain, Level, SharedCache
from spe_unicorn.host.engine import known
from spe_unicorn.host.native.inline.recent import (
    PLACE,
    RECENT,
    knows_recent,
    put_recent,
    recent_for,
)
from spe_unicorn.host.native.inline.shared import put
from spe_unicorn.host.native.state.transit import NO_LINE

pytestmark = pytest.mark.skipif(
    known.why_not() is not None, reason="inline counting is for Linux on x86-64"
)

HOST, PHYSICAL, SIZE = 0x7F00_1234_0000, 0x8_4000_0000, 0x1_0000
"""Memory: where the host has it, where the guest has it, its bytes."""


@entry("int64", "int64", "int64", "int64", "int64", "int64")
def write(at: Any, words: Any, memory: Any, what: Any, common: Any) -> Any:
    return put_recent(at, words, memory, what, common)


@entry("void", "int64", "int64")
def write_common(at: Any, gave_up: Any) -> None:
    """Write what notes that the code gave up: ``mov rdi, gave_up; inc qword [rdi]; ret``."""
    put(put(put(put(at, 0xBF48, 2), gave_up, 8), 0x07FF48, 3), 0xC3, 1)


@entry("void", "int64", "int64", "int64")
def write_call(at: Any, line: Any, recent: Any) -> None:
    """Write what C can call: ``mov rax, line; jmp recent``."""
    at = put(put(put(at, 0xB848, 2), line, 8), 0xE9, 1)
    put(at, recent - at - 4, 4)


@entry("bool", "int64", "int64")
def knows(words: Any, memory: Any) -> Any:
    return knows_recent(words, memory)


def side(tlb: Level, l1d: Level, line: int = 64, page: int = 4096) -> DataSide:
    level = Level(entries=64, ways=4)
    last = SharedCache(level)
    grain = Grain(line, page)
    return DataSide(l1_tlb=tlb, l2_tlb=level, l1d=l1d, l2=level, last=last, grain=grain)


class Recent:
    """The code, as it stands in memory, with the words that it changes."""

    def __init__(self, data: DataSide) -> None:
        self.data = data
        self.numbers = np.zeros(2, np.int64)
        """``State.line``, and how often the code gave up."""
        self.place = np.array([(HOST, HOST + SIZE, PHYSICAL)], PLACE)
        self.memory = mmap.mmap(-1, 4 * 4096, prot=7)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        numbers = self.numbers.ctypes.data
        write_common(begin, numbers + 8)
        self._calls = {}
        for n, what in enumerate((1, 2, 4, 8, 0x101, 0x102, 0x104, 0x108)):
            call, recent = begin + 64 + 32 * n, recent_for(begin + 4096, what)
            memory = self.place.ctypes.data
            end = write(recent, data.words.ctypes.data, memory, what, begin)
            assert end <= recent + RECENT
            write_call(call, numbers, recent)
            self._calls[what] = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(call)

    def access(self, host: int, size: int, store: bool = False) -> bool:
        """Whether the code did an access: its second argument is RSI."""
        before = self.numbers[1]
        self._calls[size | store << 8](0, host)
        return bool(self.numbers[1] == before)


SIDES = {
    "one set of pages": (Level(entries=48, ways=48), Level(entries=64, ways=4)),
    "sets of pages": (Level(entries=32, ways=4), Level(entries=64, ways=4)),
    "one set of lines": (Level(entries=16, ways=8), Level(entries=4, ways=4)),
}


@pytest.mark.parametrize("sizes", SIDES.values(), ids=SIDES)
def test_it_does_what_the_model_does_or_nothing(sizes: tuple[Level, Level]) -> None:
    """It does what is to the first line, and to one of the first eight pages, of a set."""
    random = Random(15)
    recent, twin = Recent(side(*sizes)), side(*sizes)
    tlb_sets, l1d_sets = (level.entries // level.ways for level in sizes)
    done = 0
    pages: dict[int, list[int]] = {n: [] for n in range(tlb_sets)}
    lines: dict[int, int] = {}
    near = [random.randrange(0, SIZE) for _ in range(7)]
    for _ in range(4000):
        offset = min(random.choice(near) + random.choice((0, 0, 1, 7, 60)), SIZE - 1)
        if random.random() < 0.02:
            near[random.randrange(len(near))] = random.randrange(0, SIZE)
        size = random.choice((1, 2, 4, 8))
        address = PHYSICAL + offset
        page, line = address >> 12, address >> 6
        order = pages[page % tlb_sets]
        within = (address + size - 1) >> 6 == line
        expected = (
            within and page in order[: min(8, sizes[0].ways)] and lines.get(line % l1d_sets) == line
        )
        recent.numbers[0] = 0x40
        was = recent.data.words.copy()
        assert recent.access(HOST + offset, size, random.random() < 0.5) == expected
        twin.access(address, size)
        if expected:
            done += 1
            assert recent.numbers[0] == HOST + offset & -64
        else:
            assert recent.numbers[0] == 0x40
            assert recent.data.words.tolist() == was.tolist()
            recent.data.access(address, size)
        assert recent.data.words.tolist() == twin.words.tolist()
        for at in (address, address + size - 1):
            order = pages[(at >> 12) % tlb_sets]
            if at >> 12 in order:
                order.remove(at >> 12)
            order.insert(0, at >> 12)
            del order[sizes[0].ways :]
            lines[(at >> 6) % l1d_sets] = at >> 6
    assert 200 < done < 3900


def ready() -> Recent:
    """The first and last line of memory, and one line on either side of it, are recent ones."""
    recent = Recent(side(*SIDES["one set of pages"]))
    for offset in (0, SIZE - 64, SIZE + 64, -128):
        recent.data.access(PHYSICAL + offset, 8)
    return recent


def test_memory_ends_where_it_ends() -> None:
    recent = ready()
    assert recent.access(HOST, 8)
    assert recent.access(HOST + SIZE - 8, 8)
    assert not recent.access(HOST + SIZE + 64, 8)
    assert not recent.access(HOST - 128, 8)


def test_where_the_next_access_is_not_to_be_compared_the_hook_has_to_know() -> None:
    recent = ready()
    recent.numbers[0] = NO_LINE
    assert not recent.access(HOST, 8)
    assert recent.numbers[0] == NO_LINE
    recent.numbers[0] = 0
    assert recent.access(HOST, 8)


def test_without_memory_or_for_too_small_a_tlb_it_is_not_written() -> None:
    four, three = Level(entries=4, ways=4), Level(entries=2, ways=2)
    data = side(four, four)
    assert knows(data.words.ctypes.data, 1)
    assert not knows(data.words.ctypes.data, 0)
    assert not knows(side(three, four).words.ctypes.data, 1)
    assert not knows(side(four, four, line=128, page=64).words.ctypes.data, 1)
