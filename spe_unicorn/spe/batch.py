"""The records of many samples in one call of compiled code.

A record depends on the instruction, on a few bits of what the operation did, and on registers. The
functions for a single sample work these parts out once, into tables; compiled code then looks them
up and copies them for each sample. Operations that need more (an exception, a vector length) are
not completed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.operation import Instruction, Timing
from spe_unicorn.bits import signed
from spe_unicorn.compiled import (
    Pointer,
    Words,
    array_at,
    entry,
    large_table,
    pointer_to,
    routine,
)
from spe_unicorn.spe.packets import (
    AddressIndex,
    ContextIndex,
    CounterIndex,
    PacketType,
)
from spe_unicorn.spe.record import RecordLayout
from spe_unicorn.spe.sample import (
    SHAPES,
    Recorder,
    code_address,
    physical_address,
)

# Columns of an array of samples, one row each, of 64-bit numbers.
KIND: Final = 0
"""The number of its :class:`Kind`, from 0 up: its place in ``kinds`` of :meth:`Batch.look_up`."""
WAY: Final = 1
"""What the operation did: bits CONDITION_FAILED and MISALIGNED, or MISSPECULATED."""
PC: Final = 2
EL: Final = 3
TIME: Final = 4
VA: Final = 5
PA: Final = 6
TARGET: Final = 7
PREVIOUS_TARGET: Final = 8
PREVIOUS_EL: Final = 9
HAS: Final = 10
"""Which of these the sample has: a shape of ``spe.sample``, in which HAS_DATA_SOURCE is set."""
SELECTED_AT: Final = 11
"""Cycles, by the sampler's clock, at which it was selected."""
COLUMNS: Final = 12

CONDITION_FAILED: Final = 1
MISALIGNED: Final = 2
MISSPECULATED: Final = 4
"""Nothing: it was on a wrong path."""
WAYS: Final = 5
MOST: Final = 4096
"""The most samples in one batch."""

# Columns of the table of outcomes, by kind and way.
_KNOWN, _KEPT, _SHAPES, _TOTAL = range(4)
_FIRST_VALUE: Final = 4
# Sources of payloads, by number: what the outcome has, then what the sample or its level has.
_SATURATED_TOTAL, _ISSUE, _TRANSLATION, _SOURCE, _TYPE, _EVENTS = range(6)
_OUTCOME_VALUES: Final = 6
_TIMES: Final = _FIRST_VALUE + _OUTCOME_VALUES
"""How many samples of the batch have this outcome."""
_OUTCOME_WORDS: Final = _TIMES + 1
_PC, _VA, _PA, _TARGET, _PREVIOUS, _TIME, _CONTEXT1, _CONTEXT2 = range(6, 14)
_VALUES: Final = 14
_WRITTEN: Final = _VALUES
"""Index, after the values, of the number of bytes written."""
_UNBOUNDED: Final = 1 << 30

_SOURCES: Final = {
    (PacketType.CONTEXT, int(ContextIndex.CONTEXTIDR_EL1)): _CONTEXT1,
    (PacketType.CONTEXT, int(ContextIndex.CONTEXTIDR_EL2)): _CONTEXT2,
    (PacketType.COUNTER, int(CounterIndex.TOTAL)): _SATURATED_TOTAL,
    (PacketType.COUNTER, int(CounterIndex.ISSUE)): _ISSUE,
    (PacketType.COUNTER, int(CounterIndex.TRANSLATION)): _TRANSLATION,
    (PacketType.ADDRESS, int(AddressIndex.PC)): _PC,
    (PacketType.ADDRESS, int(AddressIndex.BRANCH_TARGET)): _TARGET,
    (PacketType.ADDRESS, int(AddressIndex.DATA_VA)): _VA,
    (PacketType.ADDRESS, int(AddressIndex.DATA_PA)): _PA,
    (PacketType.ADDRESS, int(AddressIndex.PREVIOUS_BRANCH_TARGET)): _PREVIOUS,
    (PacketType.DATA_SOURCE, 0): _SOURCE,
    (PacketType.OPERATION_TYPE, 0): _TYPE,
    (PacketType.EVENTS, 0): _EVENTS,
    (PacketType.TIMESTAMP, 0): _TIME,
}

# Columns of what holds at an Exception level.
_LAYOUT, _LEVEL_SHAPES, _STATE, _OFFSET, _FIRST_CONTEXT, _SECOND_CONTEXT = range(6)
_LEVEL_WORDS: Final = 6

# What a look at a batch finds.
_OUTCOMES, _ENDS, _OVERLAP, _LEVELS = range(4)
"""How many outcomes there are, when the last sample is complete, whether samples overlap, and a bit
for each Exception level that they are of."""
_FINDINGS: Final = 4

_LARGEST: Final = 2048
"""Bytes of the largest record, padding included: as PMSIDR_EL1.MaxSize can say at most."""
_MOST_BYTES: Final = 128
_MOST_PACKETS: Final = 16
"""No record has more."""
_PLACE: Final = 3
"""A payload: its source, its offset in the record, its size: 1, 2, 4 or 8 bytes."""
_LAYOUT_PLACES: Final = _MOST_PACKETS * _PLACE * 8
"""Bytes of the places of one layout."""


routine(code_address)
routine(physical_address)


@routine
def _number_of(sample: Words) -> int:
    """The number of a sample's outcome."""
    return sample[KIND] * WAYS + sample[WAY]


@routine
def _layout_of(sample: Words, outcome: Words, level: Words) -> int:
    """The number of the layout of a sample's record."""
    return level[_LAYOUT] + (sample[HAS] & level[_LEVEL_SHAPES] & outcome[_SHAPES])


@routine
def size_of_next(
    samples: Pointer,
    outcomes: Pointer,
    levels: Pointer,
    sizes: Pointer,
    number: int,
    busy_until: int,
) -> tuple[int, int]:
    """Bytes that the record of a sample will have, and the cycle at which the sample is complete.

    ``busy_until`` is when the sample before it is. The bytes are -1 if the sample's outcome is not
    known yet, or if it is selected before that cycle.
    """
    sample = array_at(samples, (_UNBOUNDED, COLUMNS), np.int64)[number]
    outcome_rows = array_at(outcomes, (_UNBOUNDED, _OUTCOME_WORDS), np.int64)
    outcome = outcome_rows[_number_of(sample)]
    ends = sample[SELECTED_AT] + outcome[_TOTAL]
    if outcome[_KNOWN] == 0 or sample[SELECTED_AT] < busy_until:
        return -1, ends
    if outcome[_KEPT] == 0:
        return 0, ends
    level = array_at(levels, (4, _LEVEL_WORDS), np.int64)[sample[EL]]
    layout = _layout_of(sample, outcome, level)
    return array_at(sizes, (_UNBOUNDED,), np.int64)[layout], ends


@entry("int64", *["pointer"] * 4, "int64", "int64")
def _go_through(
    samples: Pointer, outcomes: Pointer, numbers: Pointer, findings: Pointer, first: int, count: int
) -> int:
    """Look at the samples from the one at ``first`` on, up to one whose outcome is not known.

    Return where that is, ``count`` if all are known. The numbers of their outcomes go to
    ``numbers``, each once, and what else is found to ``findings``. A look that begins with the
    first sample empties both, any other goes on from what they hold.
    """
    sample_rows = array_at(samples, (count, COLUMNS), np.int64)
    outcome_rows = array_at(outcomes, (_UNBOUNDED, _OUTCOME_WORDS), np.int64)
    number_of = array_at(numbers, (MOST,), np.int64)
    finding = array_at(findings, (_FINDINGS,), np.int64)
    if first == 0:
        for n in range(finding[_OUTCOMES]):
            outcome_rows[number_of[n], _TIMES] = 0
        finding[_OUTCOMES] = finding[_ENDS] = finding[_OVERLAP] = finding[_LEVELS] = 0
    different, ends = finding[_OUTCOMES], finding[_ENDS]
    overlap, levels = finding[_OVERLAP], finding[_LEVELS]
    at = first
    while at < count:
        sample = sample_rows[at]
        number = _number_of(sample)
        outcome = outcome_rows[number]
        if outcome[_KNOWN] == 0:
            break
        if outcome[_TIMES] == 0:
            number_of[different] = number
            different += 1
        outcome[_TIMES] += 1
        if at != 0 and ends > sample[SELECTED_AT]:
            overlap = 1
        ends = sample[SELECTED_AT] + outcome[_TOTAL]
        levels |= 1 << sample[EL]
        at += 1
    finding[_OUTCOMES], finding[_ENDS] = different, ends
    finding[_OVERLAP], finding[_LEVELS] = overlap, levels
    return at


@routine
def _store(place: int, value: int, size: int) -> None:
    """Store the lowest ``size`` bytes of ``value``, the lowest first, at an address."""
    data = array_at(pointer_to(place), (8,), np.uint8)
    data[0] = value & 0xFF
    if size >= 2:
        data[1] = value >> 8 & 0xFF
    if size >= 4:
        data[2] = value >> 16 & 0xFF
        data[3] = value >> 24 & 0xFF
    if size >= 8:
        data[4] = value >> 32 & 0xFF
        data[5] = value >> 40 & 0xFF
        data[6] = value >> 48 & 0xFF
        data[7] = value >> 56 & 0xFF


@entry(
    "int64", "pointer", "pointer", "pointer", "pointer", *["int64"] * 2, "pointer", *["int64"] * 2
)
def _write(
    samples: Pointer,
    outcomes: Pointer,
    levels: Pointer,
    sizes: Pointer,
    templates: int,
    places: int,
    values: Pointer,
    out: int,
    count: int,
) -> int:
    """Write the records of ``count`` samples to the address ``out``; return how many have one.

    ``values`` is room to work in. The number of bytes written is left there, at :data:`_WRITTEN`.
    Up to :data:`_MOST_BYTES` more than those are overwritten.
    """
    sample_rows = array_at(samples, (count, COLUMNS), np.int64)
    outcome_rows = array_at(outcomes, (_UNBOUNDED, _OUTCOME_WORDS), np.int64)
    level_rows = array_at(levels, (4, _LEVEL_WORDS), np.int64)
    size_of = array_at(sizes, (_UNBOUNDED,), np.int64)
    value_of = array_at(values, (_VALUES + 1,), np.int64)
    at = out
    records = 0
    for n in range(count):
        sample = sample_rows[n]
        outcome = outcome_rows[_number_of(sample)]
        if outcome[_KEPT] == 0:
            continue
        level = level_rows[sample[EL]]
        for v in range(_OUTCOME_VALUES):
            value_of[v] = outcome[_FIRST_VALUE + v]
        state = level[_STATE]
        value_of[_PC] = code_address(sample[PC], sample[EL], state)
        value_of[_VA] = sample[VA]
        value_of[_PA] = physical_address(sample[PA], state)
        value_of[_TARGET] = code_address(sample[TARGET], sample[EL], state)
        value_of[_PREVIOUS] = code_address(sample[PREVIOUS_TARGET], sample[PREVIOUS_EL], state)
        value_of[_TIME] = sample[TIME] - level[_OFFSET]
        value_of[_CONTEXT1] = level[_FIRST_CONTEXT]
        value_of[_CONTEXT2] = level[_SECOND_CONTEXT]
        layout = _layout_of(sample, outcome, level)
        size = size_of[layout]
        data = array_at(pointer_to(at), (_LARGEST,), np.uint8)
        template = array_at(pointer_to(templates + layout * _MOST_BYTES), (_MOST_BYTES,), np.uint8)
        for byte in range(_MOST_BYTES):
            data[byte] = template[byte]
        for byte in range(_MOST_BYTES, size):
            data[byte] = 0
        rows = array_at(
            pointer_to(places + layout * _LAYOUT_PLACES), (_MOST_PACKETS, _PLACE), np.int64
        )
        for p in range(_MOST_PACKETS):
            place = rows[p]
            if place[2] == 0:
                break
            _store(at + place[1], value_of[place[0]], place[2])
        at += size
        records += 1
    value_of[_WRITTEN] = at - out
    return records


class Kind(NamedTuple):
    """Samples of one instruction of which the core model noted the same.

    ``did`` is that note, as ``CoreModel.timing`` takes it.
    """

    instruction: Instruction
    did: int = 0


class Outcome(NamedTuple):
    """What becomes of each sample of one kind and one :data:`WAY`.

    ``kept`` is whether the filters keep it, ``shapes`` are the packets that its records can have,
    ``type`` is the Operation Type as a record takes it, ``pmu`` are the PMU events.
    """

    kept: bool
    shapes: int
    timing: Timing
    type: int
    events: int
    pmu: tuple[int, ...]


class Looked(NamedTuple):
    """What a look at the samples of a batch found.

    ``overlap`` is whether one of them is selected before the one before it is complete, ``levels``
    are their Exception levels in ascending order, ``ends`` is when the last of them is complete.
    """

    overlap: bool
    levels: tuple[int, ...]
    ends: int


class Written(NamedTuple):
    """The records of a batch: how many, their bytes, and how often each set of PMU events."""

    records: int
    data: bytes
    pmu: dict[tuple[int, ...], int]


class Batch:
    """Makes records of samples.

    ``judge`` says what becomes of samples of a kind and a way. Call :meth:`forget` when its answers
    change. ``largest`` is the greatest value of a Counter packet.
    """

    DERIVED = (
        "_outcomes",
        "_pmu",
        "_layouts",
        "_sizes",
        "_templates",
        "_places",
        "_levels",
        "_recorders",
        "_values",
        "_out",
        "_known_places",
        "_numbers",
        "_findings",
        "_foreseen",
    )
    """What is known of kinds and recorders, and room to work in."""

    def __init__(self, judge: Callable[[Kind, int], Outcome], largest: int) -> None:
        self._judge = judge
        self._largest = largest
        self._outcomes = np.zeros((1024 * WAYS, _OUTCOME_WORDS), np.int64)
        self._pmu: dict[int, tuple[int, ...]] = {}
        self._foreseen = 0
        """The number of the first kind for which nobody has asked ahead."""
        self._layouts: dict[tuple[bool, ...], int] = {}
        self._sizes = np.zeros(0, np.int64)
        self._templates = np.zeros((0, _MOST_BYTES), np.uint8)
        self._places = np.zeros((0, _MOST_PACKETS, _PLACE), np.int64)
        self._levels = np.zeros((4, _LEVEL_WORDS), np.int64)
        self._recorders: list[Recorder | None] = [None] * 4
        self._known_places: tuple[int, ...] = ()
        """Where the tables are, empty after one of them has moved."""
        self._values = np.zeros(_VALUES + 1, np.int64)
        self._numbers = np.zeros(MOST, np.int64)
        """The numbers of the outcomes of the batch that was looked at last, each once."""
        self._findings = np.zeros(_FINDINGS, np.int64)
        self._out = large_table(MOST * _LARGEST + _MOST_BYTES, dtype=np.uint8)

    def forget(self) -> None:
        """Forget what ``judge`` has answered."""
        self._outcomes[:, _KNOWN] = 0
        self._foreseen = 0

    def foresee(self, kinds: Sequence[Kind], most: int) -> None:
        """Ask ``judge`` ahead for the next ``most`` of ``kinds``, and for their usual ways.

        So the sizes of records can be told before the first sample of a kind is looked up.
        """
        self._make_room(len(kinds))
        end = min(self._foreseen + most, len(kinds))
        for number in range(self._foreseen, end):
            kind = kinds[number]
            if kind.instruction.sve:
                continue  # its samples tell the vector length
            for way in (0, CONDITION_FAILED) if kind.instruction.conditional else (0,):
                outcome = number * WAYS + way
                if not self._outcomes[outcome, _KNOWN]:
                    self._enter(outcome, self._judge(kind, way))
        self._foreseen = end

    def look_up(self, samples: NDArray[np.int64], kinds: Sequence[Kind]) -> Looked:
        """Look at samples, and ask ``judge`` for the outcomes that are not known yet.

        ``kinds`` are by their numbers.
        """
        self._make_room(len(kinds))
        place, count = samples.ctypes.data, len(samples)
        outcomes, *_, numbers, findings = self._addresses()
        at = _go_through(place, outcomes, numbers, findings, 0, count)
        while at < count:
            kind, way = samples[at, KIND : WAY + 1].tolist()
            self._enter(kind * WAYS + way, self._judge(kinds[kind], way))
            at = _go_through(place, outcomes, numbers, findings, at, count)
        _, ends, overlap, levels = self._findings.tolist()
        return Looked(bool(overlap), tuple(el for el in range(4) if levels >> el & 1), ends)

    def write(self, samples: NDArray[np.int64], recorders: dict[int, Recorder]) -> Written:
        """The records of the samples that were looked up last, by the recorder of each level."""
        self._take(recorders)
        *tables, _, _ = self._addresses()
        records = _write(samples.ctypes.data, *tables, len(samples))
        size = int(self._values[_WRITTEN])
        pmu: dict[tuple[int, ...], int] = {}
        numbers = self._numbers[: self._findings[_OUTCOMES]]
        times_of = self._outcomes[numbers, _TIMES].tolist()
        for number, times in sorted(zip(numbers.tolist(), times_of, strict=True)):
            events = self._pmu[number]
            pmu[events] = pmu.get(events, 0) + times
        return Written(records, self._out[:size].tobytes(), pmu)

    def kept(self, samples: NDArray[np.int64]) -> list[bool]:
        """Whether each of the samples that were looked up last has a record."""
        numbers = samples[:, KIND] * WAYS + samples[:, WAY]
        kept: list[bool] = (self._outcomes[numbers, _KEPT] != 0).tolist()
        return kept

    def tables(self, kinds: int, recorders: dict[int, Recorder]) -> tuple[int, int, int]:
        """Where outcomes, levels and sizes are, as :func:`size_of_next` reads them.

        They hold for ``kinds`` kinds and for the levels of ``recorders``, until another method is
        called.
        """
        self._make_room(kinds)
        self._take(recorders)
        outcomes, levels, sizes, *_ = self._addresses()
        return outcomes, levels, sizes

    def _addresses(self) -> tuple[int, ...]:
        """Where the tables are, and the room to work in: for ``_write``, then for ``_look``."""
        if not self._known_places:
            tables = self._outcomes, self._levels, self._sizes, self._templates, self._places
            room = self._values, self._out, self._numbers, self._findings
            self._known_places = tuple(array.ctypes.data for array in (*tables, *room))
        return self._known_places

    def _make_room(self, kinds: int) -> None:
        if kinds * WAYS > len(self._outcomes):
            self._known_places = ()
            more = np.zeros((kinds * WAYS, _OUTCOME_WORDS), np.int64)
            self._outcomes = np.concatenate((self._outcomes, more))

    def _take(self, recorders: dict[int, Recorder]) -> None:
        """Have the layouts of what is to be had at each level at hand."""
        for el, recorder in recorders.items():
            if recorder is not self._recorders[el]:
                self._recorders[el] = recorder
                self._levels[el] = self._level(recorder)

    def _enter(self, number: int, outcome: Outcome) -> None:
        self._pmu[number] = outcome.pmu
        timing = outcome.timing
        self._outcomes[number] = (
            1,
            outcome.kept,
            outcome.shapes,
            timing.total,
            min(timing.total, self._largest),
            min(timing.issue, self._largest),
            min(timing.translation, self._largest),
            timing.data_source or 0,
            outcome.type,
            outcome.events,
            0,
        )

    def _level(self, recorder: Recorder) -> tuple[int, ...]:
        common = recorder.common
        contexts = common.context1 is not None, common.context2 is not None
        offset = common.timestamp_offset
        return (
            self._layouts_of((*contexts, offset is not None), recorder),
            common.shapes,
            signed(common.state),
            signed(offset or 0),
            common.context1 or 0,
            common.context2 or 0,
        )

    def _layouts_of(self, key: tuple[bool, ...], recorder: Recorder) -> int:
        """The number of a recorder's layout for shape 0; those of the other shapes follow."""
        first = self._layouts.get(key)
        if first is None:
            self._known_places = ()
            first = self._layouts[key] = len(self._sizes)
            layouts = [recorder.layout(shape) for shape in range(SHAPES)]
            self._sizes = np.append(self._sizes, [layout.size for layout in layouts])
            self._templates = np.concatenate((self._templates, [_template(x) for x in layouts]))
            self._places = np.concatenate((self._places, [_places(x) for x in layouts]))
        return first


def _template(layout: RecordLayout) -> NDArray[np.int64]:
    padded = layout.template.ljust(_MOST_BYTES, b"\0")
    return np.frombuffer(padded, np.uint8)


def _places(layout: RecordLayout) -> NDArray[np.int64]:
    places = np.zeros((_MOST_PACKETS, _PLACE), np.int64)
    for n, (kind, index, offset, size) in enumerate(layout.places):
        places[n] = _SOURCES[kind, index], offset, size
    return places
