"""Finds the records in a file: raw, in the AUX data of a perf.data file, or as JSON Lines."""

from __future__ import annotations

import mmap
import os
import shlex
import stat
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from spe_unicorn.output.calls import CHAIN_HEAD, NUMBER, USER_CONTEXT, CallTable, calls_of_chain
from spe_unicorn.output.jsonl import BadLineError, record_from_line
from spe_unicorn.output.perf_format import (
    ATTRIBUTE,
    AUXTRACE,
    AUXTRACE_INFO,
    AUXTRACE_KIND_ARM_SPE,
    CALL_CHAINS,
    DIGEST,
    HEADER,
    MAGIC,
    OPERATION_SAMPLE_TYPE,
    RECORD_HEADER,
    SAMPLE,
    SECTION,
    TIMES,
    Feature,
    RecordType,
)
from spe_unicorn.output.perf_tasks import TOLD_BY, Handover, ends_of, handover, task_event
from spe_unicorn.output.tasks import Clock, Mapping, TaskEvent
from spe_unicorn.spe.record import encode


class BadFileError(ValueError):
    """A file that holds no stream of records; the message is one line with its name."""


_LARGE = 1 << 24
"""Bytes of a file from which on it is not read at once."""
_LET_GO = 1 << 26
"""Bytes of a large file that are in memory at once while its records are looked through."""
_PIECE = 1 << 20
"""Bytes of samples whose calls are read at once."""
_SIZE_LSB = np.uint64(48 + 3)
_TYPE_AND_ODD_BYTES = np.uint64(7 << 48 | 0xFFFF_FFFF)
"""Of the first number of a record: its size in numbers; its type, and bytes that are no number."""
_CPU = (RECORD_HEADER.size + SAMPLE.size) // NUMBER - 1
_BEFORE_CALLS = _CPU + 2
"""Numbers of a sample before the one that begins with its cpu, and before its calls."""
_LEAST_CALLS = _BEFORE_CALLS + CHAIN_HEAD
"""Numbers of a sample with room for a context and a PC."""
_MOST_ALIKE = 1 << 12
"""Records of which it is told at once whether their headers are alike."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A piece of the record stream of one cpu, whole records only.

    ``offset`` is the place of its first byte in all of that stream, ``file_offset`` in the file.
    """

    cpu: int
    offset: int
    file_offset: int
    data: memoryview


@dataclass(frozen=True)
class RecordFile:
    """What a file of records holds.

    ``form`` is ``raw``, ``perf`` or ``jsonl``. ``damage`` says in a sentence what is wrong with a
    file that is shown as far as it goes, None for a whole one. A perf.data file tells
    of the ``acts`` of its processes, of ``clocks`` that make nanoseconds of timestamps and, if it
    is ours, of the ``digest`` of the program (SHA-256), of the ``command`` that recorded, and of
    ``handovers`` of the buffer. The streams of JSON Lines hold the same
    records, but not the bytes that they were made of.
    """

    path: str
    form: str
    streams: list[Stream] = field(default_factory=list)
    damage: str | None = None
    digest: str | None = None
    acts: list[TaskEvent] = field(default_factory=list)
    clocks: list[Clock] = field(default_factory=list)
    handovers: list[Handover] = field(default_factory=list)
    command: str | None = None
    calls: CallTable = field(default_factory=CallTable)
    """The calls that led to records, where the file tells them."""
    blocks: bytes = b""
    """The blocks of memory that the program got and gave back, each a ``perf_format.BLOCK``."""
    interrupts: bytes = b""
    """When interrupts were acknowledged and ended, each a ``perf_format.INTERRUPT``."""
    mapped: mmap.mmap | None = None
    """The file in memory, page by page as it is read; None for one that was read at once."""

    @property
    def mappings(self) -> list[Mapping]:
        """The files that a process had in memory, in the order of the file."""
        return [act.mapping for act in self.acts if act.mapping is not None]

    @property
    def threads(self) -> dict[int, str]:
        """The last name of each thread, by its number."""
        return {act.thread: act.name for act in self.acts if act.name}

    def let_go(self) -> None:
        """Have the memory back that what was read of the file takes; it is read again if needed."""
        if self.mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapped.madvise(mmap.MADV_DONTNEED)

    @property
    def has_bytes(self) -> bool:
        """Whether the bytes of the streams are those that the hardware wrote."""
        return self.form != "jsonl"


def read_streams(path: str) -> list[Stream]:
    """The streams of a file, in the order of the file; ``-`` is standard input.

    A damaged file gives what can be read of it. Raises BadFileError for a file that cannot be
    read, is empty, or holds no stream of records.
    """
    return read_file(path).streams


def read_file(path: str) -> RecordFile:
    """The streams of a raw, perf.data or JSON Lines file; ``-`` is standard input.

    Which of them it is its first bytes say. Raises BadFileError for a file that cannot be read, is
    empty, or holds no stream of records.
    """
    mapped = None
    if path == "-":
        data = memoryview(sys.stdin.buffer.read())
    else:
        try:
            mapped = _mapped(path)
            data = memoryview(Path(path).read_bytes() if mapped is None else mapped)
        except OSError as error:
            raise BadFileError(f"{path}: {error.strerror or error}") from None
        except MemoryError:
            raise BadFileError(f"{path}: is too large for this host") from None
    if not data:
        raise BadFileError(f"{path}: the file is empty")
    start = bytes(data[: len(MAGIC)])
    if start == MAGIC:
        return _perf_file(path, data, mapped)
    if path.endswith(".data"):
        raise BadFileError(
            f"{path}: not a perf.data file: {start[:8].hex(' ')} at offset 0x0"
            f" where {MAGIC.decode()} should be"
        )
    if start.startswith(b"{"):  # no packet has this header
        return _json_lines(path, bytes(data))
    return RecordFile(path, "raw", [Stream(0, 0, 0, data)], mapped=mapped)


def _mapped(path: str) -> mmap.mmap | None:
    """A large file in memory, page by page as it is read; None for others, which are read at once.

    What is not a file of a disk is none of a known size.
    """
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size < _LARGE:
            return None
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class _DamageError(Exception):
    """Where a perf.data file cannot be read any further: offset and reason."""


def _perf_file(path: str, data: memoryview, mapped: mmap.mmap | None) -> RecordFile:
    file = RecordFile(path, "perf", mapped=mapped)
    try:
        _read_perf_records(path, data, file)
    except _DamageError as damage:
        offset, reason = damage.args
        sentence = f"broken perf.data file: {reason} at offset {offset:#x}"
        if not file.streams:
            raise BadFileError(f"{path}: {sentence}") from None
        return replace(file, damage=sentence)
    return replace(
        file,
        digest=_digest(data),
        command=_command(data),
        damage=_missing(data),
        blocks=_feature(data, Feature.BLOCKS),
        interrupts=_feature(data, Feature.INTERRUPTS),
    )


def _missing(data: memoryview) -> str | None:
    """What is missing after the data section, as a sentence; None for a file that was completed.

    Who records adds the features last: a file without any was left by a writer that was killed,
    or whose disk was full.
    """
    *_, position, size, bits = HEADER.unpack_from(data)
    if not bits:
        return "the recording was not completed: what came last is missing"
    table = position + size
    count = bits.bit_count()
    end = table + SECTION.size * count
    if end <= len(data):
        sections = SECTION.iter_unpack(data[table:end])
        end = max(offset + length for offset, length in sections)
    if end > len(data):
        return f"the file is truncated: what it says of its recording goes on to {end:#x}"
    return None


def _cut(data: memoryview, end: int) -> _DamageError:
    if len(data) < end:
        return _DamageError(len(data), f"the file is truncated, its data go on to {end:#x},")
    return _DamageError(end, "the data end inside a record")


def _feature(data: memoryview, feature: Feature) -> bytes:
    """What a feature holds; nothing if it is not there."""
    *_, position, size, bits = HEADER.unpack_from(data)
    if not bits >> feature & 1:
        return b""
    place = position + size + SECTION.size * (bits & (1 << feature) - 1).bit_count()
    if place + SECTION.size > len(data):
        return b""
    offset, length = SECTION.unpack_from(data, place)
    return bytes(data[offset : offset + length])


def _digest(data: memoryview) -> str | None:
    """The digest of the image, as PerfDataWriter writes it; None if it is not there."""
    text = _feature(data, Feature.OSRELEASE)[4:].partition(b"\0")[0].decode(errors="replace")
    _, mark, digest = text.rpartition(f" {DIGEST}")
    return digest if mark else None


def _command(data: memoryview) -> str | None:
    """The command that recorded, as a shell takes it; None if it is not there or not whole."""
    content = _feature(data, Feature.CMDLINE)
    words, position = [], 4
    while position + 4 <= len(content):
        start = position + 4
        position = start + int.from_bytes(content[position:start], "little")
        words.append(content[start:position].partition(b"\0")[0].decode(errors="replace"))
    whole = words and len(words) == int.from_bytes(content[:4], "little")
    return shlex.join(words) if whole else None


def _read_perf_records(path: str, data: memoryview, file: RecordFile) -> None:
    """Add what the file holds to ``file``. Raises _DamageError where it goes wrong."""
    if len(data) < HEADER.size:
        raise _DamageError(len(data), "the file ends inside its header")
    _, size, _, _, _, position, data_size, _ = HEADER.unpack_from(data)
    if size == RECORD_HEADER.size + len(MAGIC):
        raise BadFileError(
            f"{path}: written by perf to a pipe; turn it into a file: perf inject -i IN -o OUT"
        )
    if size != HEADER.size:
        raise _DamageError(8, f"unknown header size {size}")
    # The kernel's perf fills in the size when it ends: one that was killed leaves 0.
    end = position + data_size if data_size else len(data)
    traced = False
    ends = ends_of(data)
    tells_calls = _tells_calls(data)
    kept = position
    while position < end:
        if position - kept > _LET_GO:
            file.let_go()
            kept = position
        if min(len(data), end) - position < RECORD_HEADER.size:
            raise _cut(data, end)
        kind, _, size = RECORD_HEADER.unpack_from(data, position)
        if size < RECORD_HEADER.size or position + size > end:
            raise _DamageError(position, f"a record of type {kind} has size {size}")
        start = position + size
        if start > len(data):
            raise _cut(data, end)
        if kind == RecordType.SAMPLE and not tells_calls:
            position += size * _alike(data[position : min(len(data), end)], size)
            continue
        if kind == RecordType.TIME_CONV and size >= RECORD_HEADER.size + TIMES.size:
            shift, multiplier, zero = TIMES.unpack_from(data, position + RECORD_HEADER.size)
            file.clocks.append(Clock(shift & 63, multiplier, zero))
        if kind == RecordType.AUXTRACE_INFO:
            _check_trace(path, data, position, size)
            traced = True
        if tells_calls and kind == RecordType.SAMPLE:
            stop = min(len(data), end, position + _LET_GO)
            following = _add_calls_of_many(data, position, stop, file.calls)
            if following > position:
                position = following
                continue
            _add_calls(bytes(data[position:start]), file.calls)
        if kind in TOLD_BY:
            act = task_event(bytes(data[position:start]), ends.time)
            if act is not None:
                file.acts.append(act)
        if kind == RecordType.AUX:
            piece = handover(bytes(data[position:start]), ends)
            if piece is not None:
                file.handovers.append(piece)
        if kind == RecordType.AUXTRACE:
            if size < RECORD_HEADER.size + AUXTRACE.size:
                raise _DamageError(position, f"a record of type {kind} has size {size}")
            length, offset, _, _, _, cpu = AUXTRACE.unpack_from(data, position + RECORD_HEADER.size)
            stop = min(start + length, end, len(data))
            if stop > start:
                file.streams.append(Stream(cpu, offset, start, data[start:stop]))
            start += length
            if start > stop:
                raise _cut(data, end)
        position = start
    if not traced:
        raise BadFileError(
            f"{path}: a perf.data file without a trace of Arm SPE:"
            " record it with perf record -e arm_spe_0//"
        )


def _alike(data: memoryview, size: int) -> int:
    """How many records in a row have the header of the first: 1 at least, and not always all."""
    count = min(len(data) // size, _MOST_ALIKE)
    while count > 1:
        piece = bytes(data[: size * count])
        if all(piece[n::size] == piece[n : n + 1] * count for n in range(RECORD_HEADER.size)):
            return count
        count //= 4
    return 1


def _tells_calls(data: memoryview) -> bool:
    """Whether the samples of the first event are ours, with the calls that led to them."""
    _, _, _, position, size, *_ = HEADER.unpack_from(data)
    if size < ATTRIBUTE.size or position + ATTRIBUTE.size > len(data):
        return False
    *_, sample_type, _, _ = ATTRIBUTE.unpack_from(data, position)
    return bool(sample_type == OPERATION_SAMPLE_TYPE | CALL_CHAINS)


def _add_calls_of_many(data: memoryview, position: int, end: int, calls: CallTable) -> int:
    """Take the calls of whole samples in a row, the first at a position; return where they end.

    The row ends before a sample without room for a context and a PC, or of a size that is no
    multiple of 8, and after :data:`_PIECE` bytes.
    """
    stop = min(end, position + _PIECE)
    words = np.frombuffer(data[position : position + (stop - position & -NUMBER)], np.uint64)
    # how far it is from each word to the next sample, if a sample begins there
    sizes = words >> _SIZE_LSB
    fits = (words & _TYPE_AND_ODD_BYTES == RecordType.SAMPLE) & (sizes >= _LEAST_CALLS)
    fits &= sizes <= np.arange(len(words), 0, -1, dtype=np.uint64)
    steps = memoryview(sizes * fits)
    starts = []
    at = 0
    while at < len(steps) and (step := steps[at]):
        starts.append(at)
        at += step
    if starts:
        first = np.array(starts, np.int64)
        room = sizes[first] - np.uint64(_BEFORE_CALLS)
        told = words[first + _BEFORE_CALLS - 1]
        whole = words[first + _BEFORE_CALLS] == USER_CONTEXT
        whole &= (told >= CHAIN_HEAD) & (told <= room)
        lengths = np.where(whole, told, CHAIN_HEAD).astype(np.int64) - CHAIN_HEAD
        cpus = words[first + _CPU] & np.uint64(0xFFFF_FFFF)
        calls.add_many(cpus, words, first + _BEFORE_CALLS + CHAIN_HEAD, lengths)
    return position + at * NUMBER


def _add_calls(sample: bytes, calls: CallTable) -> None:
    """Take the calls of a sample of ours; one that is too short has none."""
    head = RECORD_HEADER.size + SAMPLE.size
    if len(sample) >= head:
        *_, cpu = SAMPLE.unpack_from(sample, RECORD_HEADER.size)
        calls.add_packed(cpu, calls_of_chain(sample[head:]) or b"")


def _check_trace(path: str, data: memoryview, position: int, size: int) -> None:
    """Make sure that the trace of a recording is one of SPE."""
    if size < RECORD_HEADER.size + AUXTRACE_INFO.size - 16:
        raise _DamageError(position, f"a record of type {RecordType.AUXTRACE_INFO} has size {size}")
    kind = int.from_bytes(data[position + RECORD_HEADER.size :][:4], "little")
    if kind != AUXTRACE_KIND_ARM_SPE:
        raise BadFileError(
            f"{path}: its hardware trace is of kind {kind}, not of Arm SPE"
            f" (kind {AUXTRACE_KIND_ARM_SPE})"
        )


def _json_lines(path: str, data: bytes) -> RecordFile:
    """Streams of the records that the lines describe, one stream for each run of a cpu."""
    streams: list[Stream] = []
    pieces: list[bytes] = []
    cpu = offset = behind = 0
    calls = CallTable()

    def flush() -> None:
        if pieces:
            streams.append(Stream(cpu, offset, 0, memoryview(b"".join(pieces))))
            pieces.clear()

    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record, this_offset, this_cpu, led = record_from_line(line)
            encoded = encode(record, 0)
        except (BadLineError, ValueError) as error:
            flush()
            sentence = f"line {number} is no record of ours: {error}"
            if not streams:
                raise BadFileError(f"{path}: {sentence}") from None
            return RecordFile(path, "jsonl", streams, sentence, calls=calls)
        gap = this_offset - behind
        if not pieces or this_cpu != cpu or not 0 <= gap < _MAX_PADDING:
            flush()
            cpu, offset, gap = this_cpu, this_offset, 0
        pieces.append(bytes(gap) + encoded)
        behind = this_offset + len(encoded)
        if led is not None and record.pc is not None:
            calls.add(cpu, led)
    flush()
    return RecordFile(path, "jsonl", streams, calls=calls)


_MAX_PADDING = 2048
"""The longest padding that stands behind a record: PMBIDR_EL1.Align is at most 11."""
