"""The write loop: where bytes go, where the pointer stays, which event follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.arch.features import ImpDef
from spe_unicorn.arch.memory.descriptors import NORMAL_WB, AddressDescriptor, Fault, FaultRecord
from spe_unicorn.arch.registers.spe import BufferStatus, EventClass
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.spe.buffer import ProfilingBuffer
from spe_unicorn.spe.management import ManagementEvent, buffer_bytes, external_abort
from tests.support.fakes import FakeMemory

VA = 0xFFFF_FF80_0000_0000
PA = 0x4000_0000
RECORDS_OF_64 = ImpDef(max_size=6)


class FakeTables:
    """Pages by virtual page number; those that are absent fault at level 3."""

    def __init__(
        self, pages: dict[int, int] | None = None, space: PASpace = PASpace.NonSecure
    ) -> None:
        self.space = space
        self.pages = (
            pages if pages is not None else {VA + n: PA + n for n in range(0, 0x10000, 0x1000)}
        )
        self.walks = 0

    def __call__(self, address: int) -> AddressDescriptor | FaultRecord:
        self.walks += 1
        frame = self.pages.get(address & ~0xFFF)
        if frame is None:
            return FaultRecord(Fault.Translation, 3, write=True)
        return AddressDescriptor(frame | address & 0xFFF, self.space, NORMAL_WB, 12, 3)


def buffer(
    memory: FakeMemory,
    tables: FakeTables,
    *,
    pointer: int = VA,
    limit: int = VA + 0x10000,
    max_record: int = 64,
    reports_aborts: bool = False,
) -> ProfilingBuffer:
    choices = ImpDef(max_size=max_record.bit_length() - 1)
    result = ProfilingBuffer(memory, tables, choices, reports_aborts=reports_aborts)
    result.pointer.set(pointer)
    result.limit = limit
    return result


def full(address: int) -> ManagementEvent:
    return ManagementEvent(EventClass.OTHER, BufferStatus.FULL, address)


RECORD = bytes(range(1, 65))


def test_record_is_written_where_the_pointer_stands() -> None:
    memory = FakeMemory()
    subject = buffer(memory, FakeTables(), pointer=VA + 0x40)
    assert subject.write(RECORD) == (True, None)
    assert memory.read(PA + 0x40, 64) == RECORD
    assert memory.written() == (PA + 0x40, PA + 0x80)
    assert subject.pointer.get() == VA + 0x80


def test_records_follow_each_other() -> None:
    memory = FakeMemory()
    subject = buffer(memory, FakeTables())
    subject.write(RECORD)
    subject.write(RECORD[::-1])
    assert memory.read(PA, 128) == RECORD + RECORD[::-1]


def test_a_page_is_translated_once() -> None:
    tables = FakeTables()
    subject = buffer(FakeMemory(), tables)
    for _ in range(64):
        subject.write(RECORD)
    assert tables.walks == 1
    subject.write(RECORD)
    assert tables.walks == 2


def test_a_page_is_translated_anew_after_invalidation() -> None:
    memory, tables = FakeMemory(), FakeTables()
    subject = buffer(memory, tables)
    subject.write(RECORD)
    tables.pages[VA] = PA + 0x8000
    subject.invalidate()
    subject.write(RECORD)
    assert memory.read(PA + 0x8040, 64) == RECORD


def test_buffer_is_full_after_the_record_that_leaves_no_room_for_another() -> None:
    """The architecture's example: limit 0x10000, records of 64 bytes from 0xF000 on."""
    memory = FakeMemory()
    tables = FakeTables({0xF000: PA})
    subject = buffer(memory, tables, pointer=0xF000, limit=0x10000)
    for _ in range(63):
        assert subject.write(RECORD) == (True, None)
    assert subject.pointer.get() == 0xFFC0
    assert subject.write(RECORD) == (True, full(0x10000))
    assert subject.pointer.get() == 0x10000


def test_buffer_is_full_when_less_than_the_largest_record_is_left() -> None:
    subject = buffer(FakeMemory(), FakeTables(), pointer=VA + 0xFF40, max_record=128)
    assert subject.write(RECORD) == (True, None)
    assert subject.write(RECORD) == (True, full(VA + 0xFFC0))


@pytest.mark.parametrize(
    "pointer",
    [
        pytest.param(VA + 0xFFC1, id="less than a record below the limit"),
        pytest.param(VA + 0x10000, id="at the limit"),
        pytest.param(VA + 0x20000, id="above the limit"),
        pytest.param(VA & ~(0xFF << 56), id="another top byte"),
    ],
)
def test_pointer_outside_the_rules_is_full_and_writes_nothing(pointer: int) -> None:
    memory, tables = FakeMemory(), FakeTables()
    subject = buffer(memory, tables, pointer=pointer)
    assert subject.write(RECORD) == (False, full(pointer))
    assert memory.written() is None
    assert subject.pointer.get() == pointer


@pytest.mark.parametrize(
    ("field", "size"),
    [
        (0x0001, 0x1000),
        (0x01FF, 0x1FF000),
        (0x0200, 0x200000),
        (0x03FF, 0x3FF000),
        (0x0401, 0x402000),
    ],
)
def test_the_largest_buffer_by_its_mantissa_and_exponent(field: int, size: int) -> None:
    """M is MaxBuffSize[8:0], E is [13:9]: M pages where E is 0, else 512 + M of 1 << E + 11."""
    assert buffer_bytes(field) == size


def test_a_buffer_larger_than_the_largest_is_an_event_and_writes_nothing() -> None:
    memory = FakeMemory()
    subject = ProfilingBuffer(memory, FakeTables(), ImpDef(max_size=6, max_buffer=2))
    subject.limit = VA + 0x3000
    subject.pointer.set(VA + 0xFFF)
    event = ManagementEvent(EventClass.OTHER, BufferStatus.TOO_LARGE, VA + 0xFFF)
    assert subject.write(RECORD) == (False, event)
    assert memory.written() is None
    subject.pointer.set(VA + 0x1000)
    assert subject.write(RECORD) == (True, None)


def test_record_crosses_into_another_page_wherever_that_lies() -> None:
    memory = FakeMemory()
    tables = FakeTables({VA: PA, VA + 0x1000: PA + 0x7000})
    subject = buffer(memory, tables, pointer=VA + 0xFF0)
    assert subject.write(RECORD) == (True, None)
    assert memory.read(PA + 0xFF0, 16) == RECORD[:16]
    assert memory.read(PA + 0x7000, 48) == RECORD[16:]
    assert subject.pointer.get() == VA + 0x1030


def test_fault_at_the_first_byte_loses_no_data() -> None:
    memory = FakeMemory()
    subject = buffer(memory, FakeTables({}))
    assert subject.write(RECORD) == (
        False,
        ManagementEvent(EventClass.STAGE1_ABORT, 0x07, VA),
    )
    assert memory.written() is None
    assert subject.pointer.get() == VA


def test_fault_inside_a_record_leaves_its_first_bytes_and_points_at_the_fault() -> None:
    memory = FakeMemory()
    subject = buffer(memory, FakeTables({VA: PA}), pointer=VA + 0xFF0)
    assert subject.write(RECORD) == (
        False,
        ManagementEvent(EventClass.STAGE1_ABORT, 0x07, VA + 0x1000, data_lost=True),
    )
    assert memory.written() == (PA + 0xFF0, PA + 0x1000)
    assert memory.read(PA + 0xFF0, 16) == RECORD[:16]
    assert subject.pointer.get() == VA + 0x1000


def test_writing_goes_on_where_it_stopped_once_the_page_is_there() -> None:
    memory, tables = FakeMemory(), FakeTables({})
    subject = buffer(memory, tables)
    subject.write(RECORD)
    tables.pages[VA] = PA
    assert subject.write(RECORD) == (True, None)
    assert memory.read(PA, 64) == RECORD


def test_external_abort_on_record_data_is_ignored() -> None:
    memory = FakeMemory()
    memory.aborting = {PA + 16}
    subject = buffer(memory, FakeTables())
    assert subject.write(RECORD) == (True, None)
    assert memory.read(PA, 16) == RECORD[:16]
    assert memory.read(PA + 17, 47) == RECORD[17:]
    assert subject.pointer.get() == VA + 64


@pytest.mark.parametrize(("offset", "data_lost"), [(0, False), (16, True)])
def test_external_abort_is_reported_where_the_core_does_so(offset: int, data_lost: bool) -> None:
    memory = FakeMemory()
    memory.aborting = {PA + offset}
    subject = buffer(memory, FakeTables(), reports_aborts=True)
    assert subject.write(RECORD) == (
        False,
        ManagementEvent(
            EventClass.STAGE1_ABORT,
            0x10,
            VA + offset,
            data_lost=data_lost,
            external_abort=True,
        ),
    )
    assert subject.pointer.get() == VA + offset


def test_records_that_can_be_written_without_an_event() -> None:
    subject = buffer(FakeMemory(), FakeTables())
    assert subject.quiet_records(64) == 0, "the page is not known yet"
    subject.write(RECORD)
    assert subject.quiet_records(64) == 63, "to the end of the page"
    assert subject.quiet_records(128) == 31
    subject.pointer.set(VA + 0xFD0)
    assert subject.quiet_records(64) == 0, "it may cross into a page that is not known"
    subject.invalidate()
    subject.pointer.set(VA + 0xFF40)
    subject.write(RECORD)
    assert subject.quiet_records(64) == 1, "after that one a record of 128 bytes may not fit"
    subject.write(RECORD)
    assert subject.quiet_records(64) == 0, "a record of 64 bytes fills the buffer"
    assert subject.write(RECORD).event == full(VA + 0x10000)


def ahead(memory: FakeMemory, tables: FakeTables, peek: FakeTables) -> ProfilingBuffer:
    """A buffer that looks ahead, 0x100 bytes from the end of its first page, which is known."""
    subject = ProfilingBuffer(memory, tables, RECORDS_OF_64, peek=peek)
    subject.pointer.set(VA + 0x1000 - 0x140)
    subject.limit = VA + 0x10000
    assert subject.write(RECORD) == (True, None)
    return subject


def test_with_the_next_page_at_hand_records_go_on_there() -> None:
    memory, tables, peek = FakeMemory(), FakeTables(), FakeTables()
    subject = ahead(memory, tables, peek)
    assert subject.quiet_records(64) == 4 + 64, "four in this page, and the next one"
    subject.write_quietly(RECORD * 6)
    assert subject.pointer.get() == VA + 0x1080
    assert memory.read(PA + 0xF00, 6 * 64) == RECORD * 6
    assert (tables.walks, peek.walks) == (1, 3), "its translation is taken, and two more fetched"


def test_twice_as_many_pages_are_at_hand_from_page_to_page_up_to_sixty_four() -> None:
    peek = FakeTables({VA + 0x1000 * n: PA + 0x1000 * n for n in range(256)})
    subject = ProfilingBuffer(FakeMemory(), peek, RECORDS_OF_64, peek=peek)
    subject.pointer.set(VA)
    subject.limit = VA + 0x100000
    pages = []
    for _ in range(9):
        assert subject.write(RECORD) == (True, None)
        subject.write_quietly(RECORD * 63)
        pages.append(subject.quiet_records(64) // 64)
    assert pages == [1, 2, 4, 8, 16, 32, 64, 64, 64]
    assert peek.walks == 9 + 64, "each translation is fetched once"
    subject.invalidate()
    subject.write(RECORD)
    assert subject.quiet_records(64) == 63 + 64, "and from the beginning after maintenance"


def numbered(pages: dict[int, int], memory: FakeMemory | None = None) -> ProfilingBuffer:
    """A buffer of pages, of which all that come after the first two are at hand."""
    peek = FakeTables(pages)
    subject = ProfilingBuffer(memory or FakeMemory(), peek, RECORDS_OF_64, peek=peek)
    subject.pointer.set(VA)
    subject.limit = VA + 0x1000 * len(pages)
    for _ in range(2):
        subject.write_quietly(bytes(0x1000))
    return subject


PAGES = bytes(n for n in range(1, 6) for _ in range(0x1000))
"""Five pages, each full of its number."""


def test_pages_that_lie_apart_in_memory_get_their_parts() -> None:
    frames = [0, 1, 9, 10, 4, 5, 6, 20]
    memory = FakeMemory()
    subject = numbered({VA + 0x1000 * n: PA + 0x1000 * f for n, f in enumerate(frames)}, memory)
    subject.write_quietly(PAGES[:-0x800])
    found = [memory.read(PA + 0x1000 * frame, 0x1000) for frame in frames[2:7]]
    assert found[:4] == [bytes([n]) * 0x1000 for n in (1, 2, 3, 4)]
    assert found[4] == bytes([5]) * 0x800 + bytes(0x800)
    assert subject.pointer.get() == VA + 0x6800
    assert subject.quiet_records(64) == 32 + 63, "one page is left, and its last place"


def test_pages_in_a_row_reach_as_far_ahead_as_pages_one_by_one() -> None:
    pages = {VA + 0x1000 * n: PA + 0x1000 * n for n in range(256)}
    in_a_row, one_by_one = numbered(pages), numbered(pages)
    assert in_a_row.quiet_records(64) == 64 * 2
    for size in (2, 4):  # those at hand, which brings twice as many for each
        in_a_row.write_quietly(bytes(0x1000 * size))
        for _ in range(size):
            one_by_one.write_quietly(bytes(0x1000))
        assert in_a_row.quiet_records(64) == one_by_one.quiet_records(64)
    assert in_a_row.quiet_records(64) == 64 * 64


class OnePageAtATime(FakeMemory):
    """Memory that takes no write of more than one page."""

    def write(self, address: int, data: bytes, space: PASpace = PASpace.NonSecure) -> bool:
        return len(data) <= 0x1000 and super().write(address, data, space)


def test_pages_in_a_row_that_are_not_one_memory_are_written_one_by_one() -> None:
    memory = OnePageAtATime()
    subject = numbered({VA + 0x1000 * n: PA + 0x1000 * n for n in range(9)}, memory)
    subject.write_quietly(PAGES)
    assert memory.read(PA + 0x2000, 0x5000) == PAGES
    assert subject.pointer.get() == VA + 0x7000


def test_only_the_bytes_without_memory_are_lost_where_aborts_do_not_matter() -> None:
    memory = FakeMemory()
    memory.aborting = {PA + 0x3004}
    subject = numbered({VA + 0x1000 * n: PA + 0x1000 * n for n in range(9)}, memory)
    subject.write_quietly(PAGES)
    memory.aborting.clear()
    expected = PAGES[:0x1004] + b"\0" + PAGES[0x1005:]
    assert memory.read(PA + 0x2000, 0x5000) == expected


def test_as_many_pages_are_at_hand_when_the_buffer_begins_anew() -> None:
    peek = FakeTables({VA + 0x1000 * n: PA + 0x1000 * n for n in range(64)})
    subject = ProfilingBuffer(FakeMemory(), peek, RECORDS_OF_64, peek=peek)
    subject.limit = VA + 0x40000
    subject.pointer.set(VA)
    for _ in range(4):
        subject.write_quietly(RECORD * 64)
    subject.pointer.set(VA)
    subject.write(RECORD)
    assert subject.quiet_records(64) == 63 + 16 * 64


def test_at_the_very_end_of_a_page_the_next_one_is_at_hand() -> None:
    subject = ahead(FakeMemory(), FakeTables(), FakeTables())
    subject.write_quietly(RECORD * 4)
    assert subject.pointer.get() == VA + 0x1000
    assert subject.quiet_records(64) == 64


def test_a_pointer_in_front_of_the_current_page_is_not_quiet() -> None:
    subject = ahead(FakeMemory(), FakeTables(), FakeTables())
    subject.pointer.set(VA - 0x100)
    assert subject.quiet_records(64) == 0


def test_a_next_page_that_cannot_be_looked_at_is_not_relied_on() -> None:
    subject = ahead(FakeMemory(), FakeTables(), FakeTables({}))
    assert subject.quiet_records(64) == 4


def test_a_next_page_at_hand_is_forgotten_with_the_current_one() -> None:
    tables = FakeTables()
    subject = ahead(FakeMemory(), tables, tables)
    subject.invalidate()
    tables.pages = {VA: PA}
    assert subject.write(RECORD * 4) == (True, None)
    assert subject.write(RECORD).event is not None


def test_nothing_is_looked_at_beyond_the_limit() -> None:
    peek = FakeTables()
    subject = ProfilingBuffer(FakeMemory(), FakeTables(), RECORDS_OF_64, peek=peek)
    subject.pointer.set(VA)
    subject.limit = VA + 0x1000
    assert subject.write(RECORD) == (True, None)
    assert peek.walks == 0
    assert subject.quiet_records(64) == 62


def reporting(memory: FakeMemory) -> ProfilingBuffer:
    """A buffer that looks ahead and reports aborts, with one record in its first page."""
    subject = ProfilingBuffer(
        memory, FakeTables(), RECORDS_OF_64, reports_aborts=True, peek=FakeTables()
    )
    subject.pointer.set(VA)
    subject.limit = VA + 0x10000
    assert subject.write(RECORD) == (True, None)
    return subject


def test_where_aborts_matter_the_next_page_is_at_hand_if_memory_is_there() -> None:
    memory = FakeMemory()
    subject = reporting(memory)
    assert subject.quiet_records(64) == 63 + 64
    subject.write_quietly(RECORD * 64)
    assert subject.pointer.get() == VA + 0x1040
    assert subject.quiet_records(64) == 63 + 2 * 64, "the page that was at hand answers, too"


def test_where_aborts_matter_a_next_page_without_memory_is_not_relied_on() -> None:
    memory = FakeMemory()
    memory.aborting = {PA + 0x1000}
    subject = reporting(memory)
    assert subject.quiet_records(64) == 63
    subject.write_quietly(RECORD * 63)
    assert subject.write(RECORD).event == external_abort(VA + 0x1000, data_lost=False)


def test_where_aborts_are_reported_a_page_must_have_answered_once() -> None:
    subject = buffer(FakeMemory(), FakeTables(), reports_aborts=True)
    assert subject.quiet_records(64) == 0
    subject.write(RECORD)
    assert subject.quiet_records(64) == 63
    subject.pointer.set(VA + 0xFC0)
    subject.write(RECORD)
    assert subject.quiet_records(64) == 0, "nothing is known of the next page"


def test_where_aborts_are_reported_a_page_without_memory_is_never_quiet() -> None:
    memory = FakeMemory()
    memory.aborting = {PA + 0x1000}
    subject = buffer(memory, FakeTables(), pointer=VA + 0xFE0, reports_aborts=True)
    written, event = subject.write(RECORD)
    assert not written
    assert event is not None
    assert subject.quiet_records(64) == 0


@given(
    start=st.integers(0, 0x4FF),
    pages=st.integers(1, 4),
    holes=st.sets(st.integers(0, 4)),
    max_size=st.sampled_from([64, 128, 2048]),
    sizes=st.lists(st.sampled_from([16, 48, 64, 112, 2032]), max_size=12),
)
def test_pointer_never_passes_the_limit_and_memory_holds_a_prefix_of_the_records(
    start: int, pages: int, holes: set[int], max_size: int, sizes: list[int]
) -> None:
    memory = FakeMemory()
    tables = FakeTables({VA + n * 0x1000: PA + n * 0x1000 for n in {*range(5)} - holes})
    first = start * 16
    limit = VA + pages * 0x1000
    subject = buffer(memory, tables, pointer=VA + first, limit=limit, max_record=max_size)
    sent = b""
    for number, size in enumerate(sizes, 1):
        record = bytes([number]) * min(size, max_size)
        sent += record
        written, event = subject.write(record)
        pointer = subject.pointer.get()
        assert pointer <= max(limit, VA + first)
        if written:
            assert pointer == VA + first + len(sent)
            assert (event is not None) == (pointer > limit - max_size)
        if event is not None:
            break
    count = subject.pointer.get() - VA - first
    assert memory.read(PA + first, count) == sent[:count]
    assert len(memory.bytes) == count


@given(
    first=st.integers(0, 0x1FF),
    aborting=st.sets(st.integers(0, 0x1FFF), max_size=4),
    holes=st.sets(st.integers(0, 2)),
    reports=st.booleans(),
    sizes=st.lists(st.integers(1, 128), min_size=1, max_size=60),
)
def test_pointer_never_passes_the_limit_whatever_aborts(
    first: int, aborting: set[int], holes: set[int], reports: bool, sizes: list[int]
) -> None:
    memory = FakeMemory()
    memory.aborting = {PA + offset for offset in aborting}
    tables = FakeTables({VA + n * 0x1000: PA + n * 0x1000 for n in {*range(3)} - holes})
    begin, limit = VA + 0x1000 - first, VA + 0x2000
    subject = buffer(
        memory, tables, pointer=begin, limit=limit, max_record=128, reports_aborts=reports
    )
    whole = 0
    for size in sizes:
        written, event = subject.write(bytes([0xEE]) * size)
        pointer = subject.pointer.get()
        assert begin + whole <= pointer <= limit
        if written:
            whole += size
            assert pointer == begin + whole
        if event is not None:
            assert event.external_abort <= reports
            assert event.data_lost == (not written and pointer > begin + whole)
            break
    end = subject.pointer.get() - VA + PA
    assert all(begin - VA + PA <= address < end for address in memory.bytes)


@pytest.mark.parametrize("space", [PASpace.NonSecure, PASpace.Secure])
def test_buffer_reaches_memory_of_its_own_address_space_only(space: PASpace) -> None:
    memory = FakeMemory()
    memory.secure = {*range(PA, PA + 0x1000)}
    subject = buffer(memory, FakeTables(space=space), reports_aborts=True)
    outcome = subject.write(RECORD)
    if space is PASpace.Secure:
        assert outcome == (True, None)
        assert memory.read(PA, 64, space) == RECORD
        assert subject.write(RECORD) == (True, None)
    else:
        assert (outcome.written, outcome.event) == (False, external_abort(VA, data_lost=False))
        assert memory.written() is None
