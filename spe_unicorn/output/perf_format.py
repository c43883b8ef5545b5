"""The perf.data file format, as far as a file of SPE records needs it.

Layout: a header, the event attributes, the data section (records that each begin with type, misc
and size), then a table of features and the features. Everything is little-endian. Described by the
Linux documents ``perf.data-file-format.txt`` and ``perf_event_open(2)``.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct

MAGIC = b"PERFILE2"

HEADER = Struct("<8sQQ QQ QQ 16x Q 24x")
"""Magic, header size, size of an attribute; offset and size of the attributes and of the data;
event types (unused); feature bits, of 256 the lower 64."""

SECTION = Struct("<QQ")
"""Offset in the file and size, both in bytes."""

ATTRIBUTE = Struct("<IIQQQQQ 80x")
"""perf_event_attr: type, size, config, sample_period, sample_type, read_format, flags."""
ATTRIBUTE_ENTRY_SIZE = ATTRIBUTE.size + SECTION.size

RECORD_HEADER = Struct("<IHH")
"""Type, misc, size of the record with this header."""

SAMPLE_ID = Struct("<IIQI4xQ")
"""pid, tid, time in ns, cpu, id: after every record of a kernel."""
SAMPLE_TYPE = 0x1 | 0x2 | 0x4 | 0x80 | 0x8000 | 0x10000
"""IP, TID, TIME, CPU, DATA_SRC, IDENTIFIER: what :data:`SAMPLE_ID` holds, and that the samples made
from the trace have data sources, without which ``perf mem report`` does not look at them."""
OPERATION_SAMPLE_TYPE = SAMPLE_TYPE | 0x8 | 0x4000
"""And ADDR, WEIGHT: what :data:`SAMPLE` and :data:`SAMPLE_REST` hold."""
CALL_CHAINS = 0x20
"""And CALLCHAIN: between those two stand the calls that led there (``output.calls``)."""
READ_FORMAT_ID = 0x4

SAMPLE_ID_ALL = 1 << 18
ATTRIBUTE_FLAGS = 1 << 1 | 1 << 5 | 1 << 8 | 1 << 9 | SAMPLE_ID_ALL | 1 << 23
"""inherit, exclude_kernel, mmap, comm, sample_id_all, mmap2. There is no Linux kernel in the
recording, and perf is not to ask for its symbols."""

HARDWARE_EVENTS = 0
INSTRUCTIONS = 1
"""A type of event that is no PMU's, and one of its events."""

CPUMODE_KERNEL = 1
CPUMODE_USER = 2


class RecordType(IntEnum):
    """Types of records; those from 64 on are written by perf itself and have no sample id."""

    MMAP = 1
    COMM = 3
    FORK = 7
    SAMPLE = 9
    MMAP2 = 10
    AUX = 11
    FINISHED_ROUND = 68
    AUXTRACE_INFO = 70
    AUXTRACE = 71
    TIME_CONV = 79

    @property
    def has_sample_id(self) -> bool:
        """Whether a kernel wrote it, and it is no sample."""
        return self < 64 and self is not RecordType.SAMPLE


class Feature(IntEnum):
    """Feature bits of the header."""

    HOSTNAME = 3
    OSRELEASE = 4
    """Here: what ran, its name and ``sha256:`` with the digest of its file."""
    ARCH = 6
    NRCPUS = 7
    CPUID = 9
    CMDLINE = 11
    """The words of the command that recorded."""
    EVENT_DESC = 12
    AUXTRACE = 18
    INTERRUPTS = 62
    """Ours: when interrupts were acknowledged and ended."""
    BLOCKS = 63
    """Ours, which perf passes over: blocks of memory that the program got and gave back."""


BLOCK = Struct("<QQQQQ")
"""Of a block: time in ticks, address, size or :data:`GIVEN_BACK`, to where the call returned that
got or gave it, cpu."""
GIVEN_BACK = (1 << 64) - 1

INTERRUPT = Struct("<QIIQ")
"""Of an interrupt: time in ticks, cpu, INTID, and 0 where it is acknowledged, 1 where it ends."""
MOST_INTERRUPTS = 1 << 20
"""Rows of these in a file; later ones are not told."""

DIGEST = "sha256:"
"""Stands before the digest of the image, in hexadecimal, in :attr:`Feature.OSRELEASE`."""


# What follows the header of each type of record; SAMPLE_ID comes after where there is one.

TASK = Struct("<II")
"""pid, tid: the start of COMM and MMAP, of which a name is the end."""

MMAP = Struct("<QQQ")
"""Address, size, offset in the file."""
MMAP2_MORE = Struct("<B3x20sII")
"""What MMAP2 has between these and the name: bytes of the build id, and the build id, or where a
bit of the header does not say so device and inode; protection, flags."""
MAPPED_BY_BUILD_ID = 1 << 14
"""The bit of the header."""
MAP_PRIVATE = 2
BUILD_ID_BYTES = 20
"""The longest build id; a longer one is cut, as the kernel does."""

SAMPLE = Struct("<QQIIQQI4x")
"""Id, IP, pid, tid, time in ns, data address, cpu."""
SAMPLE_REST = Struct("<QQ")
"""Weight, data source."""

AUX = Struct("<QQQ")
"""Offset, size, flags."""
AUX_TRUNCATED = 1
AUX_FLAGS = {AUX_TRUNCATED: "data lost", 4: "gap", 8: "collision"}
"""What the flags of a piece of the buffer mean; bit 1 says that old data were overwritten."""
AUX_EVENT_SHIFT = 8
"""Bits 15:8 of the flags are the PMU's: of a piece without bytes they hold the event's kind."""
AUX_EVENTS = {
    0: "buffer full",
    0x1E: "granule protection check fault",
    0x1F: "IMPLEMENTATION DEFINED management event",
    0x24: "fault at stage 1",
    0x25: "fault at stage 2",
    0x40: "buffer not allowed",
    0x44: "record too large",
}
"""Kinds of management events: PMBSR_ELx.EC, and of EC 0 but for a full buffer 0x40 and the BSC."""

AUXTRACE_INFO = Struct("<I4xQQ")
"""Kind of trace, PMU type, whether maps are per cpu."""
AUXTRACE_KIND_ARM_SPE = 4
AUXTRACE_INFO_2 = Struct("<I4xQQQQ")
"""The same as perf has it since 6.13: kind of trace, version, words of this header, PMU type, cpus.

An older perf takes the version for the PMU type, and a newer one each version but 1 for this. So
the version is the PMU type here, and both read it.
"""
AUXTRACE_INFO_2_WORDS = 4
AUXTRACE_CPU = Struct("<QQQQQQ")
"""And of each cpu: a number that stands before each, the cpu, how many words follow, MIDR_EL1, PMU
type, the least interval."""
AUXTRACE_CPU_MAGIC = 0x1010_1010_1010_1010
AUXTRACE_CPU_WORDS = 3

AUXTRACE = Struct("<QQQIII4x")
"""Size and offset of the data in the AUX stream, reference, index, tid, cpu. The data follow the
record and are not part of its size."""

FORK = Struct("<IIIIQ")
"""pid, that of its parent, tid, that of its parent, time in ns."""

TIME_CONV = Struct("<QQQQQ??6x")
"""Shift, multiplier, zero, cycles, mask, and two capabilities: a time zero, a short counter."""
TIMES = Struct("<QQQ")
"""What all kernels write of it: shift, multiplier, zero."""

EVENT_DESC = Struct("<II")
"""The start of the feature: number of events, size of an attribute; of each event follow the
attribute, the number of ids, the name and the ids."""

NRCPUS = Struct("<II")
"""The feature: cpus available, cpus online."""
