"""What becomes of a sample: its type, its events, and whether it passes the filters."""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features, ImpDef
from spe_unicorn.arch.operation import Operation, Timing
from spe_unicorn.arch.ports import CoreModel
from spe_unicorn.spe.batch import CONDITION_FAILED, MISALIGNED, MISSPECULATED, Kind, Outcome
from spe_unicorn.spe.feed import Feed
from spe_unicorn.spe.filter import Filter
from spe_unicorn.spe.operation_type import OperationType, operation_type
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.sample import (
    HAS_DATA_SOURCE,
    HAS_PA,
    HAS_PREVIOUS_TARGET,
    HAS_TARGET,
    HAS_VA,
    Format,
    events_of,
    implemented_events,
)


class Judge:
    """Judges the samples of one core, whose operations take what ``model`` says.

    ``features`` are those of the records, ``impdef`` the core's choices.
    """

    DERIVED = ("_types", "filter")

    def __init__(self, model: CoreModel, features: Features, impdef: ImpDef) -> None:
        self.timing = model.timing
        """Latencies, events and data source of an operation: ``CoreModel.timing``."""
        self.format = Format.of(features, impdef)
        """What records of this core look like."""
        self.counts_tests = Feature.FEAT_SPEv1p2 in features
        """Whether there are PMU events for the tests of the filters."""
        self.filter = Filter()
        """What :meth:`outcome` judges by."""
        self._features = features
        self._feed = Feed(features)
        self._implemented = implemented_events(features, impdef)
        self._drops = impdef.wrong_path_dropped
        self._types: dict[int, OperationType] = {}
        """By instruction word, with the part above it; for SVE the vector length above that."""

    def judged(
        self, operation: Operation, timing: Timing, filter_: Filter
    ) -> tuple[OperationType, int, bool, tuple[int, ...]]:
        """A sample's type and Events, whether it passes the filters, and which PMU events it is."""
        type_ = self._type(operation)
        events = events_of(operation, timing, self._implemented)
        flags, total, source = type_.flags, timing.total, timing.data_source
        kept = not filter_.active or filter_.keeps(flags, events, total, source)
        kept = kept and not (self._drops and operation.misspeculated)
        return type_, events, kept, self._feed.events(filter_, flags, events, total, source, kept)

    def outcome(self, kind: Kind, way: int) -> Outcome:
        """What becomes of samples of a kind and a way, as :meth:`judged` finds it for one."""
        instruction = kind.instruction
        misspeculated = way == MISSPECULATED
        operation = Operation(
            instruction,
            0,
            0,
            condition_failed=bool(way & CONDITION_FAILED),
            misaligned=bool(way & MISALIGNED),
            va=None if misspeculated or instruction.access is None else 0,
            misspeculated=misspeculated,
        )
        timing = self.timing(operation, kind.did)
        type_, events, kept, pmu = self.judged(operation, timing, self.filter)
        taken = type_.op_class is OperationClass.BRANCH and not operation.condition_failed
        every = not self.format.previous_target_of_branches
        shapes = HAS_PREVIOUS_TARGET if taken or every else 0
        if type_.memory:
            shapes |= HAS_VA | HAS_PA
        elif type_.op_class is OperationClass.BRANCH and (
            not operation.condition_failed or self.format.not_taken_target
        ):
            shapes |= HAS_TARGET
        if timing.data_source is not None:
            shapes |= HAS_DATA_SOURCE
        return Outcome(kept, shapes, timing, type_.packet, events, pmu)

    def _type(self, operation: Operation) -> OperationType:
        instruction = operation.instruction
        kind = instruction.word
        if instruction.part or instruction.sve:
            kind |= instruction.part << 32 | operation.vector_bits << 40
        type_ = self._types.get(kind)
        if type_ is None:
            type_ = operation_type(instruction, self._features, operation.vector_bits)
            self._types[kind] = type_
        return type_
