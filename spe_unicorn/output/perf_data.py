"""Writes perf.data files that perf of Linux reads as a recording of Arm SPE."""

from __future__ import annotations

import os
import re
from typing import BinaryIO

from spe_unicorn.output.image import ImageInfo
from spe_unicorn.output.perf_format import (
    ATTRIBUTE,
    ATTRIBUTE_ENTRY_SIZE,
    ATTRIBUTE_FLAGS,
    AUX,
    AUXTRACE,
    AUXTRACE_INFO,
    AUXTRACE_KIND_ARM_SPE,
    CPUMODE_KERNEL,
    CPUMODE_USER,
    EVENT_DESC,
    HEADER,
    MAGIC,
    MMAP,
    NRCPUS,
    READ_FORMAT_ID,
    RECORD_HEADER,
    SAMPLE_ID,
    SAMPLE_TYPE,
    SECTION,
    TASK,
    TIME_CONV,
    Feature,
    RecordType,
)
from spe_unicorn.spe.packets import VA_MASK

CHUNK = 1 << 20
"""Bytes of records of one cpu that are kept before they are written out."""

PROCESS = 1
"""Number of the process and thread that owns records without a Context packet."""

_PMU_TYPE = 9
_NO_PROCESS = 0xFFFF_FFFF
_KERNEL_TOP_BYTE = 0xFF << 56
_TIME_SHIFT = 16
_HOSTNAME = "spe-unicorn"
_EVENT_NAME = "arm_spe_0//"
_ATTRIBUTE = ATTRIBUTE.pack(
    _PMU_TYPE, ATTRIBUTE.size, 0, 1, SAMPLE_TYPE, READ_FORMAT_ID, ATTRIBUTE_FLAGS
)

_RECORD_START = re.compile(
    rb"(?:\x64(.{4}))?(?:\x65(.{4}))?(?:[\x20-\x23]?[\x98-\x9F]..)*(?:\xB0.{7}(.))?", re.DOTALL
)
"""Contexts, counters and the PC in the order of our records: a scan far faster than decoding."""

_NS_AND_EL = 0xE0
_KERNEL_STATES = (0xA0, 0xC0)
"""NS and EL in the top byte of the PC where perf takes the address for a kernel's: EL1 and EL2,
Non-secure or, since it does not look at NSE, Realm."""


class PerfDataWriter:
    """Collects records by cpu and writes them in chunks; :meth:`close` completes the file.

    ``cpus`` is the number of PEs, ``frequency`` that of the timestamps, in Hz, and ``midr`` is
    MIDR_EL1, by which perf picks the meaning of data sources. ``file`` must be able to seek.
    """

    def __init__(
        self,
        file: BinaryIO,
        image: ImageInfo | None = None,
        *,
        cpus: int = 1,
        frequency: int = 62_500_000,
        midr: int | None = None,
    ) -> None:
        self._file = file
        self._image = image
        self._cpus = cpus
        self._midr = midr
        self._pending = [bytearray() for _ in range(cpus)]
        self._written = [0] * cpus
        self._index: list[tuple[int, int]] = []
        self._named: set[int] = set()
        self._mapped: set[int] = set()
        self._attributes = HEADER.size + 8 * cpus
        self._data = self._attributes + ATTRIBUTE_ENTRY_SIZE
        self._write_start(frequency)

    def write(self, record: bytes, cpu: int = 0) -> None:
        """Add one whole record of a cpu. Raises IndexError for a cpu that there is not."""
        pending = self._pending[cpu]
        if self._image is not None:
            self._name_process(record)
        pending += record
        if len(pending) >= CHUNK:
            self._flush(cpu)

    def close(self) -> None:
        """Write what is left and complete the file; harmless when done before."""
        if self._file.closed:
            return
        for cpu in range(self._cpus):
            self._flush(cpu)
        self._write_record(RecordType.FINISHED_ROUND)
        size = self._file.tell() - self._data
        features = self._features()
        self._write_features(features)
        self._file.seek(0)
        self._write_header(size, features)
        self._file.close()

    def _write_start(self, frequency: int) -> None:
        """Everything up to the first record; without a data size perf knows it for unfinished."""
        self._write_header(0, {})
        ids = self._event_ids()
        self._file.write(ids + _ATTRIBUTE + SECTION.pack(HEADER.size, len(ids)))
        # perf 6.1 divides by the multiplier when it sees AUXTRACE_INFO, so times come first.
        multiplier = (10**9 << _TIME_SHIFT) // frequency
        self._write_record(
            RecordType.TIME_CONV, TIME_CONV.pack(_TIME_SHIFT, multiplier, 0, 0, 0, True, False)
        )
        self._write_record(
            RecordType.AUXTRACE_INFO, AUXTRACE_INFO.pack(AUXTRACE_KIND_ARM_SPE, _PMU_TYPE, True)
        )
        self._write_comm(PROCESS)
        if self._image is not None:
            path = str(self._image.path.absolute())
            for vaddr, offset, size in self._image.segments:
                address = vaddr & VA_MASK | _KERNEL_TOP_BYTE
                self._write_mmap(CPUMODE_KERNEL, _NO_PROCESS, address, offset, size, path)

    def _name_process(self, record: bytes) -> None:
        """Introduce the process of ``record`` in front of it, and what it has mapped.

        perf takes the last CONTEXTIDR of a record for a thread. Maps of a process are only
        written for addresses that are not the kernel's: perf complains about each on a machine
        that is no AArch64.
        """
        match = _RECORD_START.match(record)
        el1, el2, state = match.groups() if match else (None, None, None)
        context = el2 or el1
        process = PROCESS if context is None else int.from_bytes(context, "little")
        self._write_comm(process)
        if process not in self._mapped and (
            state is None or state[0] & _NS_AND_EL not in _KERNEL_STATES
        ):
            self._mapped.add(process)
            self._map_image(process)

    def _map_image(self, process: int) -> None:
        """The image as memory of a process."""
        assert self._image is not None
        # Another spelling than that of the kernel's maps: perf 6.1 frees a file twice that it
        # knows in both roles by one name.
        path = self._image.path.absolute()
        spelling = f"{path.parent}/./{path.name}"
        for vaddr, offset, size in self._image.segments:
            self._write_mmap(CPUMODE_USER, process, vaddr & VA_MASK, offset, size, spelling)

    def _write_comm(self, process: int) -> None:
        if process in self._named or self._image is None:
            return
        self._named.add(process)
        self._write_record(
            RecordType.COMM, TASK.pack(process, process) + _text(self._image.comm), process=process
        )

    def _write_mmap(
        self, mode: int, process: int, address: int, offset: int, size: int, path: str
    ) -> None:
        thread = 0 if process == _NO_PROCESS else process
        body = TASK.pack(process, thread) + MMAP.pack(address, size, offset) + _text(path)
        self._write_record(RecordType.MMAP, body, misc=mode, process=process)

    def _flush(self, cpu: int) -> None:
        """Write the records of a cpu that wait, as one piece of its AUX stream."""
        data = self._pending[cpu]
        if not data:
            return
        data += bytes(-len(data) % 8)  # perf wants its own records aligned; this is Padding
        offset = self._written[cpu]
        self._write_record(RecordType.AUX, AUX.pack(offset, len(data), 0), cpu=cpu)
        self._index.append((self._file.tell(), RECORD_HEADER.size + AUXTRACE.size))
        self._write_record(
            RecordType.AUXTRACE, AUXTRACE.pack(len(data), offset, 0, cpu, PROCESS, cpu)
        )
        self._file.write(data)
        self._written[cpu] += len(data)
        data.clear()

    def _write_record(
        self,
        kind: RecordType,
        body: bytes = b"",
        *,
        misc: int = 0,
        process: int = PROCESS,
        cpu: int = 0,
    ) -> None:
        if kind.has_sample_id:
            body += SAMPLE_ID.pack(process, process, 0, cpu, _event_id(cpu))
        self._file.write(RECORD_HEADER.pack(kind, misc, RECORD_HEADER.size + len(body)) + body)

    def _event_ids(self) -> bytes:
        return b"".join(_event_id(cpu).to_bytes(8, "little") for cpu in range(self._cpus))

    def _features(self) -> dict[Feature, bytes]:
        """The features in the order of their bits, which is that of the table of them."""
        features = {
            Feature.HOSTNAME: _string(_HOSTNAME),
            Feature.ARCH: _string("aarch64"),
            Feature.NRCPUS: NRCPUS.pack(self._cpus, self._cpus),
        }
        if self._midr is not None:
            features[Feature.CPUID] = _string(f"0x{self._midr:016x}")
        features[Feature.EVENT_DESC] = (
            EVENT_DESC.pack(1, len(_ATTRIBUTE))
            + _ATTRIBUTE
            + self._cpus.to_bytes(4, "little")
            + _string(_EVENT_NAME)
            + self._event_ids()
        )
        entries = b"".join(SECTION.pack(*entry) for entry in self._index)
        features[Feature.AUXTRACE] = len(self._index).to_bytes(8, "little") + entries
        return features

    def _write_features(self, features: dict[Feature, bytes]) -> None:
        offset = self._file.tell() + SECTION.size * len(features)
        for content in features.values():
            self._file.write(SECTION.pack(offset, len(content)))
            offset += len(content)
        for content in features.values():
            self._file.write(content)

    def _write_header(self, size: int, features: dict[Feature, bytes]) -> None:
        bits = sum(1 << feature for feature in features)
        self._file.write(
            HEADER.pack(
                *(MAGIC, HEADER.size, ATTRIBUTE_ENTRY_SIZE),
                *(self._attributes, ATTRIBUTE_ENTRY_SIZE),
                *(self._data, size),
                bits,
            )
        )


def _event_id(cpu: int) -> int:
    """The number of the event that stands for a cpu; 0 would mean none."""
    return cpu + 1


def _text(text: str) -> bytes:
    """``text`` in a record: ended by NUL, filled up to 8 bytes."""
    data = os.fsencode(text) + b"\0"
    return data + bytes(-len(data) % 8)


def _string(text: str) -> bytes:
    """``text`` in a feature: the length of what follows, then as in a record."""
    data = _text(text)
    return len(data).to_bytes(4, "little") + data
