"""The Profiling Buffer in fill mode: records go to memory byte after byte (Arm ARM D17.7, D17.8).

The write pointer stands after the last byte that was written, so it never passes the limit, and a
fault leaves it at the byte that could not be written. Software that enables the buffer with a
pointer outside the rules gets a buffer full event before the first record, one of the outcomes
that the architecture lists.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.memory.descriptors import AddressDescriptor, FaultRecord
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.registers.sysreg import OwnCell
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.spe.management import (
    ManagementEvent,
    buffer_bytes,
    buffer_full,
    external_abort,
    mmu_fault,
    not_allowed,
    too_large,
)

Translate = Callable[[int], AddressDescriptor | FaultRecord]
"""Translates the address of a Profiling Buffer write in the owning translation regime."""

_PAGE: Final = 0x1000
"""The smallest granule: no translation changes inside such a block."""
_OFFSET: Final = _PAGE - 1
_NO_PAGE: Final = -1
_AHEAD: Final = 64
"""The most pages after the current one that are translated ahead: a batch fits into them."""


_OUTSIDE: Final[tuple[Callable[[int], ManagementEvent | None], ...]] = (
    buffer_full,
    not_allowed,
    lambda _: None,
)
"""By ``ImpDef.pointer_outside``."""


class Outcome(NamedTuple):
    """What became of a record: whether all of it was written, and the event that followed."""

    written: bool
    event: ManagementEvent | None


_WRITTEN = Outcome(True, None)


class ProfilingBuffer:
    """Writes records at PMBPTR_EL1, and says what goes wrong.

    ``pointer`` is the cell of PMBPTR_EL1; put it into the register file. ``choices`` are
    those of the implementation, such as the size of the largest record. ``reports_aborts`` is one
    that is open before FEAT_SPEv1p3: to report External aborts on record data as management events.
    Without it such bytes count as written, and ``aborted`` is called for each, if it is given.

    ``peek`` is ``translate`` without side effects: it gives a fault where a translation table would
    have to be changed. With it the buffer translates the pages after the current one on entering
    the current one, as hardware may, so that a batch of records can cross the ends of pages. Where
    aborts matter, a page is translated ahead only if its memory answers a read. The number of these
    pages doubles from page to page: a guest that often changes translations pays for few of them.
    """

    DERIVED = ("_limit", "_last", "_page", "_frame", "_space", "_following", "_reach", "_answers")
    """The limit is that of PMBLIMITR_EL1. Known translations are as entries of a TLB."""

    def __init__(
        self,
        memory: PhysicalMemory,
        translate: Translate,
        choices: ImpDef,
        *,
        reports_aborts: bool = False,
        aborted: Callable[[], None] | None = None,
        peek: Translate | None = None,
    ) -> None:
        self._choices = choices
        self.pointer = OwnCell()
        self._memory = memory
        self._translate = translate
        self._max_record = 1 << choices.max_size
        self._most = buffer_bytes(choices.max_buffer)
        self._reports_aborts = reports_aborts
        self._aborted = aborted
        self._aborts_matter = reports_aborts or aborted is not None
        self._limit = 0
        self._last = 0
        self._page = _NO_PAGE
        self._frame = 0
        self._space = PASpace.NonSecure
        self._peek = peek
        self._following: deque[AddressDescriptor] = deque()
        """The translations of the next pages after the current one, in order."""
        self._reach = 0
        """How many of those were wanted when the current page was entered."""
        self._answers = False
        """Whether memory has taken a write to the current page: it then takes every write there."""

    @property
    def limit(self) -> int:
        """The address of the first byte after the buffer: PMBLIMITR_EL1.LIMIT, twelve zeros."""
        return self._limit

    @limit.setter
    def limit(self, address: int) -> None:
        self._limit = address
        self._last = address - self._max_record  # the last place where a record may begin

    def invalidate(self) -> None:
        """Forget what pages translate to: the regime may translate differently now."""
        self._page = _NO_PAGE
        self._following.clear()
        self._reach = 0

    def quiet_records(self, size: int) -> int:
        """How many records of up to ``size`` bytes can be written surely without an event."""
        pointer = self.pointer.value
        last_known = self._page + len(self._following)
        if not self._page <= pointer >> 12 <= last_known or (pointer ^ self._limit) >> 56:
            return 0
        if self._limit - pointer > self._most:
            return 0
        if self._aborts_matter and not self._answers:
            return 0
        room = (last_known + 1 << 12) - pointer
        return max(0, min(room, self._last - pointer) // size)

    def ahead(self) -> list[tuple[int, int]]:
        """Where the next bytes go, as far as translations are at hand: physical begins and ends."""
        pointer = self.pointer.value
        found = []
        for number, frame in enumerate((self._frame, *(p.paddress for p in self._following))):
            begin = frame & ~_OFFSET
            if self._page + number == pointer >> 12:
                found.append((begin | pointer & _OFFSET, begin + _PAGE))
            elif self._page + number > pointer >> 12:
                found.append((begin, begin + _PAGE))
        return found

    def fits(self, size: int) -> bool:
        """Whether the buffer is not full after ``size`` bytes more."""
        pointer = self.pointer.value
        return pointer + size <= self._last and not (pointer ^ self._limit) >> 56

    def write(self, record: bytes) -> Outcome:
        """Write a whole record, padding included. Profiling must not be stopped."""
        pointer = self.pointer.value
        if pointer > self._last or (pointer ^ self._limit) >> 56:
            return Outcome(False, _OUTSIDE[self._choices.pointer_outside](pointer))
        if self._limit - pointer > self._most:
            return Outcome(False, too_large(pointer))
        end = pointer + len(record)
        in_page = pointer >> 12 == self._page == end - 1 >> 12
        if in_page and self._memory.write(self._frame | pointer & _OFFSET, record, self._space):
            self.pointer.value = end
        elif event := self._write_in_pieces(pointer, record):
            return Outcome(False, event)
        if end > self._last:
            return Outcome(True, buffer_full(end))
        return _WRITTEN

    def write_quietly(self, records: bytes) -> None:
        """Write records of which :meth:`quiet_records` said that they cause no event.

        Raises RuntimeError if they cause one.
        """
        start = self.pointer.value
        fits = start + len(records) <= self._last
        if not fits or self._write_in_pieces(start, records) is not None:
            raise RuntimeError(f"records of {len(records)} bytes do not fit at {start:#x}")

    def _write_in_pieces(self, start: int, record: bytes) -> ManagementEvent | None:
        """Translate and write page by page, up to the first fault."""
        address = start
        end = start + len(record)
        while address < end:
            fault = self._find_page(address)
            if fault is not None:
                return mmu_fault(
                    fault,
                    address,
                    data_lost=address != start or self._choices.data_lost_at_start,
                    walk_abort_ea=self._choices.walk_abort_ea,
                )
            if pages := self._pages_in_a_row(end):
                last = self._page + pages
                piece = record[address - start : (last + 1 << 12) - start]
                if self._memory.write(self._frame | address & _OFFSET, piece, self._space):
                    self._enter(last)
                    address += len(piece)
                    self.pointer.value = address
                    continue
            piece = record[address - start : (address | _OFFSET) + 1 - start]
            stored = self._store(self._frame | address & _OFFSET, piece)
            address += stored
            self.pointer.value = address
            if stored < len(piece):
                return external_abort(address, data_lost=address != start)
        return None

    def _find_page(self, address: int) -> FaultRecord | None:
        """Make the page of ``address`` the current one; the fault if it has no translation."""
        page = address >> 12
        if page == self._page:
            return None
        if self._following and page == self._page + 1:
            self._enter(page)
            return None
        result = self._translate(address)
        if isinstance(result, FaultRecord):
            return result
        self._following.clear()
        self._answers = False
        self._make_current(page, result)
        self._translate_ahead(self._peek)
        return None

    def _pages_in_a_row(self, end: int) -> int:
        """How many of the pages before ``end`` follow the current one in physical memory, too.

        Their translations are at hand.
        """
        wanted = (end - 1 >> 12) - self._page
        expected = self._frame
        pages = 0
        for found in self._following:
            expected += _PAGE
            in_a_row = found.paddress & ~_OFFSET == expected and found.paspace is self._space
            if pages == wanted or not in_a_row:
                break
            pages += 1
        return pages

    def _enter(self, page: int) -> None:
        """Go on to one of the next pages, whose translation is at hand."""
        while self._page < page:
            self._make_current(self._page + 1, self._following.popleft())
        self._answers = self._aborts_matter
        self._translate_ahead(self._peek)

    def _make_current(self, page: int, found: AddressDescriptor) -> None:
        self._page = page
        self._frame = found.paddress & ~_OFFSET
        self._space = found.paspace
        self._reach = min(self._reach * 2 or 1, _AHEAD)

    def _translate_ahead(self, peek: Translate | None) -> None:
        """Translate pages after the current one, up to the limit."""
        address = self._page + 1 + len(self._following) << 12
        while peek is not None and len(self._following) < self._reach and address < self._limit:
            found = peek(address)
            if isinstance(found, FaultRecord) or not self._serves(found):
                return
            self._following.append(found)
            address += _PAGE

    def _serves(self, found: AddressDescriptor) -> bool:
        """Whether aborts do not matter, or the page is memory that answers a read."""
        if not self._aborts_matter:
            return True
        if found.memattrs.is_device:
            return False
        frame = found.paddress & ~_OFFSET
        return self._memory.read(frame, 1, found.paspace) is not None

    def _store(self, physical: int, piece: bytes) -> int:
        """Store ``piece``; how many of its bytes count as written."""
        write, space = self._memory.write, self._space
        if write(physical, piece, space):
            self._answers = True
            return len(piece)
        for i in range(len(piece)):
            if write(physical + i, piece[i : i + 1], space):
                continue
            if self._reports_aborts:
                return i
            if self._aborted is not None:
                self._aborted()
        return len(piece)
