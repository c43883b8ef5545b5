"""Writes perf.data files that perf of Linux reads as a recording of Arm SPE.

Each record is there twice: its packets, as a recording of ``arm_spe_0//``, and an ordinary sample
of the event ``operations`` (``output/perf_samples.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from spe_unicorn.arch.operation import Calls
from spe_unicorn.output.arrays import RecordArrays
from spe_unicorn.output.calls import call_chain
from spe_unicorn.output.image import (
    EXECUTE,
    READ,
    WRITE,
    ImageInfo,
    LoadedSegment,
    RecordingInfo,
)
from spe_unicorn.output.perf_format import (
    ATTRIBUTE,
    ATTRIBUTE_ENTRY_SIZE,
    ATTRIBUTE_FLAGS,
    AUX,
    AUX_EVENT_SHIFT,
    AUX_TRUNCATED,
    AUXTRACE,
    AUXTRACE_CPU,
    AUXTRACE_CPU_MAGIC,
    AUXTRACE_CPU_WORDS,
    AUXTRACE_INFO,
    AUXTRACE_INFO_2,
    AUXTRACE_INFO_2_WORDS,
    AUXTRACE_KIND_ARM_SPE,
    BLOCK,
    BUILD_ID_BYTES,
    CALL_CHAINS,
    CPUMODE_KERNEL,
    CPUMODE_USER,
    DIGEST,
    EVENT_DESC,
    GIVEN_BACK,
    HARDWARE_EVENTS,
    HEADER,
    INSTRUCTIONS,
    INTERRUPT,
    MAGIC,
    MAP_PRIVATE,
    MAPPED_BY_BUILD_ID,
    MMAP,
    MMAP2_MORE,
    MOST_INTERRUPTS,
    NRCPUS,
    OPERATION_SAMPLE_TYPE,
    READ_FORMAT_ID,
    RECORD_HEADER,
    SAMPLE_ID,
    SAMPLE_REST,
    SAMPLE_TYPE,
    SECTION,
    TASK,
    TIME_CONV,
    Feature,
    RecordType,
)
from spe_unicorn.output.perf_samples import NO_THREAD, perf_samples, records_of
from spe_unicorn.spe.packets import VA_MASK

CHUNK = 1 << 20
"""Bytes of records of one cpu that are kept before they are written out."""
LONGEST = 1 << 12
"""And more, so that a whole record begins after them: two of the largest alignment (PMBIDR_EL1)."""

PROCESS = 1
"""Number of the process that the firmware is, and of its thread without a Context packet.

Thread 0 is a process of its own, whatever a file says: that of an idle cpu.
"""

_PMU_TYPE = 9
_LEAST_INTERVAL = 0
"""Not told, as by a kernel that does not know it."""
_NO_PROCESS = 0xFFFF_FFFF
_KERNEL_TOP_BYTE = 0xFF << 56
_TIME_SHIFT = 16
_PROTECTION = {READ: 1, WRITE: 2, EXECUTE: 4}
"""The rights of an ELF file as the kernel's bits of a mapping."""
_FORMS = {
    **dict.fromkeys(("misc", "size"), "u2"),
    **dict.fromkeys(("kind", "process", "thread", "cpu", "zero"), "u4"),
}
_ORDER = "kind misc size event pc process thread time va cpu zero latency source"
_SAMPLES = np.dtype([(name, _FORMS.get(name, "u8")) for name in _ORDER.split()])
"""RECORD_HEADER, SAMPLE and SAMPLE_REST: a sample without calls."""
_HOSTNAME = "spe-unicorn"
_OPERATIONS = "operations"
_TRACE = "arm_spe_0//"


class _Of(NamedTuple):
    """Whose a record is, and of when: what its sample id says."""

    process: int = PROCESS
    thread: int = PROCESS
    cpu: int = 0
    time: int = 0


_OF_THE_FIRMWARE = _Of()


class PerfDataWriter:
    """Collects records by cpu and writes them in chunks; :meth:`close` completes the file.

    The header counts the data of each chunk as soon as all of the chunk is written. A file whose
    writer was killed, or whose disk is full, holds everything up to its last whole chunk; it lacks
    the features, which no reader needs for the samples.

    ``file`` must be able to seek.
    """

    def __init__(self, file: BinaryIO, info: RecordingInfo) -> None:
        cpus = info.cpus
        self._file = file
        self._command = info.command
        self._image = image = info.image
        self._cpus = cpus
        self._midr = info.midr
        self._pending = [bytearray() for _ in range(cpus)]
        self._led: list[list[Calls]] = [[] for _ in range(cpus)]
        """The calls that led to each of those records, where that is told."""
        self._tells_calls = info.calls
        self._written = [0] * cpus
        self._index: list[tuple[int, int]] = []
        self._blocks = bytearray()
        self._interrupts = bytearray()
        self._named: set[int] = set()
        self._mapped: set[int] = set()
        # perf shows events in this order: what a user looks for comes first
        self._events = (
            _Event(
                info.event or _OPERATIONS,
                _attribute(OPERATION_SAMPLE_TYPE | CALL_CHAINS * info.calls, info.period),
                range(cpus, 2 * cpus),
            ),
            _Event(_TRACE, _attribute(SAMPLE_TYPE, 1, _PMU_TYPE), range(cpus)),
        )
        self._attributes = HEADER.size + sum(len(event.ids) for event in self._events)
        self._data = self._attributes + ATTRIBUTE_ENTRY_SIZE * len(self._events)
        self._data_size = 0
        self._failed = False
        self._digest = None if image is None else image.digest
        self._multiplier = (10**9 << _TIME_SHIFT) // info.frequency
        self._write_start()

    def write(self, record: bytes, cpu: int = 0, calls: Sequence[Calls] = ()) -> None:
        """Add whole records of a cpu, with the ``calls`` that led to each, if they are told.

        Raises IndexError for a cpu that there is not, and OSError where the file takes no more.
        """
        pending = self._pending[cpu]
        pending += record
        if self._tells_calls:
            self._led[cpu] += calls
        while len(pending) >= CHUNK + LONGEST:
            self._flush(cpu)

    def manage(self, ticks: int, data_lost: bool, kind: int = 0, cpu: int = 0) -> None:
        """Add a management event of a cpu, at a time: a piece of the buffer without bytes.

        ``kind`` is one of ``perf_format.AUX_EVENTS``. Raises as :meth:`write` does.
        """
        with self._whole_or_none():
            time = self._nanoseconds(ticks)
            flags = kind << AUX_EVENT_SHIFT | (AUX_TRUNCATED if data_lost else 0)
            body = AUX.pack(self._written[cpu], 0, flags)
            self._write_record(RecordType.AUX, body, _Of(cpu=cpu, time=time))

    def block(self, ticks: int, address: int, size: int | None, place: int, cpu: int = 0) -> None:
        """Add a block that the program got, or gave back: then ``size`` is None."""
        self._blocks += BLOCK.pack(ticks, address, GIVEN_BACK if size is None else size, place, cpu)

    def interrupt(self, ticks: int, intid: int, ends: bool, cpu: int = 0) -> None:
        """Add that an interrupt was acknowledged, or that it ended."""
        if len(self._interrupts) < MOST_INTERRUPTS * INTERRUPT.size:
            self._interrupts += INTERRUPT.pack(ticks, cpu, intid, ends)

    def close(self) -> None:
        """Write what is left and complete the file; harmless when done before."""
        if self._file.closed:
            return
        try:
            if not self._failed:
                self._complete()
        finally:
            self._file.close()

    def _complete(self) -> None:
        for cpu, pending in enumerate(self._pending):
            while pending:
                self._flush(cpu)
        with self._whole_or_none():
            self._write_record(RecordType.FINISHED_ROUND)
            self._data_size = self._file.tell() - self._data
            features = self._features()
            self._write_features(features)
            self._file.flush()
            self._file.seek(0)
            self._write_header(features)
            self._file.flush()

    @contextmanager
    def _whole_or_none(self) -> Iterator[None]:
        """What is written within counts as written if all of it can be; else nothing follows."""
        try:
            yield
        except OSError:
            self._failed = True
            raise

    def _count_data(self) -> None:
        """Let the header count everything that has been written so far.

        What it counts is handed to the system first: whoever kills us between two writes leaves
        a header that counts too little, never too much.
        """
        self._file.flush()
        end = self._file.tell()
        self._data_size = end - self._data
        self._file.seek(0)
        self._write_header({})
        self._file.flush()
        self._file.seek(end)

    def _trace_info(self) -> bytes:
        """What AUXTRACE_INFO says: which core each cpu is, where that is known."""
        if self._midr is None:
            return AUXTRACE_INFO.pack(AUXTRACE_KIND_ARM_SPE, _PMU_TYPE, True)
        head = (_PMU_TYPE, AUXTRACE_INFO_2_WORDS, _PMU_TYPE, self._cpus)
        return AUXTRACE_INFO_2.pack(AUXTRACE_KIND_ARM_SPE, *head) + b"".join(
            AUXTRACE_CPU.pack(
                AUXTRACE_CPU_MAGIC, cpu, AUXTRACE_CPU_WORDS, self._midr, _PMU_TYPE, _LEAST_INTERVAL
            )
            for cpu in range(self._cpus)
        )

    def _write_start(self) -> None:
        """Everything up to the first record."""
        self._write_header({})
        self._file.write(b"".join(event.ids for event in self._events))
        place = HEADER.size
        for event in self._events:
            self._file.write(event.attribute + SECTION.pack(place, len(event.ids)))
            place += len(event.ids)
        # perf 6.1 divides by the multiplier when it sees AUXTRACE_INFO, so times come first.
        self._write_record(
            RecordType.TIME_CONV,
            TIME_CONV.pack(_TIME_SHIFT, self._multiplier, 0, 0, 0, True, False),
        )
        self._write_record(RecordType.AUXTRACE_INFO, self._trace_info())
        if self._image is not None:
            path = str(self._image.path.absolute())
            for segment in self._image.segments:
                # where the samples are that perf makes itself
                there = segment._replace(vaddr=segment.vaddr & VA_MASK | _KERNEL_TOP_BYTE)
                self._write_mmap(CPUMODE_KERNEL, _NO_PROCESS, there, self._image, path)
        self._count_data()

    def _introduce(self, process: int, thread: int) -> None:
        """Name a thread before its first sample, and have the image in its process."""
        if thread in self._named or self._image is None:
            return
        self._named.add(thread)
        comm = TASK.pack(process, thread) + _text(self._image.comm)
        self._write_record(RecordType.COMM, comm, _Of(process, thread))
        if process not in self._mapped:
            self._mapped.add(process)
            self._map_image(process, self._image)

    def _map_image(self, process: int, image: ImageInfo) -> None:
        """The image as memory of a process."""
        # Another spelling than that of the kernel's maps: perf 6.1 frees a file twice that it
        # knows in both roles by one name.
        path = image.path.absolute()
        spelling = f"{path.parent}/./{path.name}"
        for segment in image.segments:
            self._write_mmap(CPUMODE_USER, process, segment, image, spelling)

    def _write_mmap(
        self, mode: int, process: int, segment: LoadedSegment, image: ImageInfo, path: str
    ) -> None:
        thread = 0 if process == _NO_PROCESS else process
        vaddr, offset, size, rights = segment
        protection = sum(bit for right, bit in _PROTECTION.items() if rights & right)
        name = image.build_id[:BUILD_ID_BYTES]
        body = TASK.pack(process, thread) + MMAP.pack(vaddr, size, offset)
        body += MMAP2_MORE.pack(len(name), name, protection, MAP_PRIVATE) + _text(path)
        misc = mode | (MAPPED_BY_BUILD_ID if name else 0)
        self._write_record(RecordType.MMAP2, body, _Of(process, thread), misc=misc)

    def _flush(self, cpu: int) -> None:
        """Write the first records of a cpu that wait, as one piece of its AUX stream.

        These are the ones that begin within CHUNK bytes, however many have come at a time: the file
        does not tell how fast the host was.
        """
        pending, led = self._pending[cpu], self._led[cpu]
        data = bytes(pending[: CHUNK + LONGEST])
        records = records_of(data)
        first = int(np.searchsorted(records.offset, CHUNK))
        if first < len(records):
            data = data[: int(records.offset[first])]
            records = records.take(np.arange(first))
        size = len(data)
        with self._whole_or_none():
            self._write_samples(records, led, cpu)
            data += bytes(-size % 8)  # perf wants its own records aligned; this is Padding
            offset = self._written[cpu]
            self._write_record(RecordType.AUX, AUX.pack(offset, len(data), 0), _Of(cpu=cpu))
            self._index.append((self._file.tell(), RECORD_HEADER.size + AUXTRACE.size))
            self._write_record(
                RecordType.AUXTRACE, AUXTRACE.pack(len(data), offset, 0, cpu, PROCESS, cpu)
            )
            self._file.write(data)
            self._count_data()
        self._written[cpu] += len(data)
        del pending[:size], led[: len(records)]

    def _write_samples(self, records: RecordArrays, led: Sequence[Calls], cpu: int) -> None:
        """An ordinary sample for each of the records of a cpu, and the threads that they name.

        ``led`` are the calls that led to each, where that is told.
        """
        found = perf_samples(records)
        threads = np.where(found.thread == NO_THREAD, PROCESS, found.thread)
        samples = np.zeros(len(threads), _SAMPLES)
        for name, value in {
            "kind": RecordType.SAMPLE,
            "misc": CPUMODE_USER,
            "size": _SAMPLES.itemsize,
            "event": _event_id(self._cpus + cpu),
            "pc": found.pc,
            "process": np.where(threads, PROCESS, 0),
            "thread": threads,
            "time": self._nanoseconds(found.timestamp),
            "va": found.va,
            "cpu": cpu,
            "latency": found.latency,
            "source": found.data_source,
        }.items():
            samples[name] = value
        chains: list[bytes] = []
        if self._tells_calls:
            calls = (led[row] if row < len(led) else () for row in found.row.tolist())
            chains = list(map(call_chain, found.pc.tolist(), calls))
            samples["size"] += np.array([len(chain) for chain in chains], np.uint16)
        begin = 0
        numbers, first = np.unique(threads, return_index=True)
        for at, number in sorted(zip(first.tolist(), numbers.tolist(), strict=True)):
            if number not in self._named:
                self._file.write(_packed(samples[begin:at], chains[begin:at]))
                begin = at
                self._introduce(PROCESS if number else 0, number)
        self._file.write(_packed(samples[begin:], chains[begin:]))

    def _nanoseconds(self, ticks: Any) -> Any:
        """When something was, from ticks of the system counter: as perf counts, in 64 bits."""
        whole = ticks >> _TIME_SHIFT
        rest = ticks & (1 << _TIME_SHIFT) - 1
        time = whole * self._multiplier + (rest * self._multiplier >> _TIME_SHIFT)
        return time & (1 << 64) - 1

    def _write_record(
        self,
        kind: RecordType,
        body: bytes = b"",
        of: _Of = _OF_THE_FIRMWARE,
        *,
        misc: int = 0,
    ) -> None:
        if kind.has_sample_id:
            body += SAMPLE_ID.pack(of.process, of.thread, of.time, of.cpu, _event_id(of.cpu))
        self._file.write(RECORD_HEADER.pack(kind, misc, RECORD_HEADER.size + len(body)) + body)

    def _features(self) -> dict[Feature, bytes]:
        """The features in the order of their bits, which is that of the table of them."""
        features = {
            Feature.HOSTNAME: _string(_HOSTNAME),
            Feature.ARCH: _string("aarch64"),
            Feature.NRCPUS: NRCPUS.pack(self._cpus, self._cpus),
        }
        if self._digest is not None and self._image is not None:
            release = f"{self._image.path.name} {DIGEST}{self._digest}"
            features[Feature.OSRELEASE] = _string(release)
        if self._midr is not None:
            features[Feature.CPUID] = _string(f"0x{self._midr:016x}")
        if self._command:
            words = b"".join(map(_string, self._command))
            features[Feature.CMDLINE] = len(self._command).to_bytes(4, "little") + words
        features[Feature.EVENT_DESC] = EVENT_DESC.pack(
            len(self._events), ATTRIBUTE.size
        ) + b"".join(
            event.attribute + self._cpus.to_bytes(4, "little") + _string(event.name) + event.ids
            for event in self._events
        )
        entries = b"".join(SECTION.pack(*entry) for entry in self._index)
        if self._interrupts:
            features[Feature.INTERRUPTS] = bytes(self._interrupts)
        if self._blocks:
            features[Feature.BLOCKS] = bytes(self._blocks)
        features[Feature.AUXTRACE] = len(self._index).to_bytes(8, "little") + entries
        return dict(sorted(features.items()))

    def _write_features(self, features: dict[Feature, bytes]) -> None:
        offset = self._file.tell() + SECTION.size * len(features)
        for content in features.values():
            self._file.write(SECTION.pack(offset, len(content)))
            offset += len(content)
        for content in features.values():
            self._file.write(content)

    def _write_header(self, features: dict[Feature, bytes]) -> None:
        bits = sum(1 << feature for feature in features)
        self._file.write(
            HEADER.pack(
                MAGIC,
                HEADER.size,
                ATTRIBUTE_ENTRY_SIZE,
                self._attributes,
                ATTRIBUTE_ENTRY_SIZE * len(self._events),
                self._data,
                self._data_size,
                bits,
            )
        )


def _packed(samples: npt.NDArray[np.void], chains: Sequence[bytes]) -> bytes:
    """Samples as the file has them, each with the chain of its calls where there are chains."""
    data = samples.tobytes()
    if not chains:
        return data
    size, before = _SAMPLES.itemsize, _SAMPLES.itemsize - SAMPLE_REST.size
    pieces: list[bytes] = []
    for at, chain in zip(range(0, len(data), size), chains, strict=True):
        pieces += data[at : at + before], chain, data[at + before : at + size]
    return b"".join(pieces)


class _Event:
    """An event that perf knows: its name, its attribute, and its ids, one a cpu."""

    def __init__(self, name: str, attribute: bytes, numbers: range) -> None:
        self.name = name
        self.attribute = attribute
        self.ids = b"".join(_event_id(number).to_bytes(8, "little") for number in numbers)


def _attribute(sample_type: int, period: int, pmu: int | None = None) -> bytes:
    """The attribute of an event of ``pmu``, or of none."""
    type_, config = (HARDWARE_EVENTS, INSTRUCTIONS) if pmu is None else (pmu, 0)
    return ATTRIBUTE.pack(
        type_, ATTRIBUTE.size, config, period, sample_type, READ_FORMAT_ID, ATTRIBUTE_FLAGS
    )


def _event_id(number: int) -> int:
    """An id: that of the trace of a cpu by its number, those of others after; 0 would be none."""
    return number + 1


def _text(text: str) -> bytes:
    """``text`` in a record: ended by NUL, filled up to 8 bytes."""
    data = os.fsencode(text) + b"\0"
    return data + bytes(-len(data) % 8)


def _string(text: str) -> bytes:
    """``text`` in a feature: the length of what follows, then as in a record."""
    data = _text(text)
    return len(data).to_bytes(4, "little") + data
