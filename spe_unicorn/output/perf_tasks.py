"""Records of a perf.data file that tell of processes and buffers: COMM, FORK, mappings, AUX."""

from __future__ import annotations

import os
from typing import NamedTuple

from spe_unicorn.output.perf_format import (
    ATTRIBUTE,
    AUX,
    AUX_EVENT_SHIFT,
    AUX_EVENTS,
    AUX_FLAGS,
    FORK,
    HEADER,
    MMAP,
    MMAP2_MORE,
    RECORD_HEADER,
    SAMPLE_ID_ALL,
    TASK,
    RecordType,
)
from spe_unicorn.output.tasks import Act, Mapping, TaskEvent
from spe_unicorn.spe.packets import canonical_address

_EXECUTED = 1 << 13
"""misc of a COMM record: the name comes of ``execve``."""
_TIME = 0x4
_CPU = 0x80
_AFTER_TIME = (0x40, 0x200, 0x80, 0x10000)
"""ID, STREAM_ID, CPU, IDENTIFIER: what may stand between the time and the end of a record."""

_NAMES = {
    RecordType.COMM: RECORD_HEADER.size + TASK.size,
    RecordType.MMAP: RECORD_HEADER.size + TASK.size + MMAP.size,
    RecordType.MMAP2: RECORD_HEADER.size + TASK.size + MMAP.size + MMAP2_MORE.size,
}
"""Where the name stands in a record."""
TOLD_BY = frozenset((*_NAMES, RecordType.FORK))
"""Types of records that tell of processes."""


class Ends(NamedTuple):
    """How many bytes before the end of a record of the kernel its time and its cpu are."""

    time: int | None = None
    cpu: int | None = None


def ends_of(data: memoryview) -> Ends:
    """Where the records of a file end with what; None for nowhere.

    All events of a file say it in the same way, so the first one is asked.
    """
    _, _, _, position, size, *_ = HEADER.unpack_from(data)
    if size < ATTRIBUTE.size or position + ATTRIBUTE.size > len(data):
        return Ends()
    *_, sample_type, _, flags = ATTRIBUTE.unpack_from(data, position)
    if not flags & SAMPLE_ID_ALL:
        return Ends()
    before = 8 + 8 * sum(bool(sample_type & bit) for bit in _AFTER_TIME)
    identifier = 8 if sample_type & _AFTER_TIME[-1] else 0
    return Ends(
        before if sample_type & _TIME else None, 8 + identifier if sample_type & _CPU else None
    )


class Handover(NamedTuple):
    """A piece of a cpu's buffer that perf got, at a time in nanoseconds.

    ``size`` is in bytes; a recording of ours has a piece without bytes for each management event.
    """

    time: int
    cpu: int
    size: int
    flags: int

    @property
    def text(self) -> str:
        """What happened."""
        said = [text for bit, text in AUX_FLAGS.items() if self.flags & bit]
        kind = self.flags >> AUX_EVENT_SHIFT & 0xFF
        if self.size:
            return ", ".join(said) or "buffer read"
        if kind or not said:
            said.insert(0, AUX_EVENTS.get(kind, "management event"))
        return ", ".join(said)


def handover(record: bytes, ends: Ends) -> Handover | None:
    """What an AUX record tells; None where it has no time."""
    least = RECORD_HEADER.size + AUX.size
    if ends.time is None or len(record) - ends.time < least:
        return None
    time = int.from_bytes(record[-ends.time :][:8], "little")
    cpu = 0 if ends.cpu is None else int.from_bytes(record[-ends.cpu :][:4], "little")
    _, size, flags = AUX.unpack_from(record, RECORD_HEADER.size)
    return Handover(time, cpu, size, flags) if time else None


def task_event(record: bytes, time_at: int | None) -> TaskEvent | None:
    """What a record of :data:`TOLD_BY` tells; None for one that is too short to tell it."""
    kind, misc, size = RECORD_HEADER.unpack_from(record)
    least = _NAMES.get(kind, RECORD_HEADER.size + FORK.size)
    if size < least or (kind in _NAMES and size == least):
        return None
    process, thread = TASK.unpack_from(record, RECORD_HEADER.size)
    time = 0
    if time_at is not None and size - time_at >= least:
        time = int.from_bytes(record[size - time_at :][:8], "little")
    if kind == RecordType.FORK:
        process, parent, thread, parent_thread, _ = FORK.unpack_from(record, RECORD_HEADER.size)
        return TaskEvent(Act.FORK, process, thread, time, "", parent, parent_thread)
    name = os.fsdecode(record[least:].partition(b"\0")[0])
    if kind == RecordType.COMM:
        act = Act.EXECUTE if misc & _EXECUTED else Act.NAME
        return TaskEvent(act, process, thread, time, name)
    address, length, offset = MMAP.unpack_from(record, RECORD_HEADER.size + TASK.size)
    mapping = Mapping(name, canonical_address(address), length, offset)
    return TaskEvent(Act.MAP, process, thread, time, mapping=mapping)
