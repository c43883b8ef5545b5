"""Samples that the compiled hook has noted: described all at once, for ``spe.batch``.

The descriptions are those that ``host.pe.description.OperationDescriber.sampled`` gives one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.access.verdicts import SysRegTable, reaches_its_own
from spe_unicorn.arch.counter import Rate
from spe_unicorn.arch.operation import Family, Instruction
from spe_unicorn.arch.pe import EL1, EL2, EL3, PEAt
from spe_unicorn.arch.registers.fgt import HDFGRTR_EL2
from spe_unicorn.arch.registers.spe import (
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSICR_EL1,
)
from spe_unicorn.arch.registers.system import HCR_EL2, MDCR_EL2, MDCR_EL3, SCR_EL3
from spe_unicorn.bits import signed
from spe_unicorn.compiled import Pointer, array_at, entry, layout, pointer_to, record_at, routine
from spe_unicorn.host.native.flow import FLOW_VALID
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.native.rules import ticks
from spe_unicorn.host.native.state.actions import READ, Action
from spe_unicorn.host.native.state.fields import StateRecord
from spe_unicorn.host.native.state.sample_row import (
    SAMPLE,
    SAMPLE_BYTES,
    SAMPLE_ON_WRONG_PATH,
    SAMPLE_PA,
    SAMPLES,
)
from spe_unicorn.host.native.state.whole import LAYOUT
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import condition_failed, held_by, misaligned
from spe_unicorn.spe.batch import (
    COLUMNS,
    CONDITION_FAILED,
    EL,
    HAS,
    KIND,
    MISALIGNED,
    MISSPECULATED,
    PA,
    PC,
    PREVIOUS_EL,
    PREVIOUS_TARGET,
    SELECTED_AT,
    TARGET,
    TIME,
    VA,
    WAY,
    Kind,
    size_of_next,
)
from spe_unicorn.spe.sample import (
    HAS_DATA_SOURCE,
    HAS_PA,
    HAS_PREVIOUS_TARGET,
    HAS_TARGET,
    HAS_VA,
)
from spe_unicorn.spe.sampler import Sampler

_ELEMENT, _BRANCH, _CONDITIONAL, _HOLDS = range(4)
"""Columns of traits of an instruction: bytes of an accessed element or 0, whether it is a branch,
whether it is conditional, and the set of values of NZCV with which its condition holds."""
_TRAITS: Final = 4
_UNBOUNDED: Final = 1 << 30


routine(misaligned)
routine(condition_failed)


@entry("void", "int64", "pointer", "int64", "int64", "int64", "pointer", "int64")
def _describe(
    rows: int,
    traits: Pointer,
    skipped: int,
    ticks_of: int,
    cycles_of: int,
    out: Pointer,
    count: int,
) -> None:
    """Describe ``count`` rows of the hook's ring in ``out``."""
    trait_of = array_at(traits, (_UNBOUNDED, _TRAITS), np.int64)
    sample_of = array_at(out, (count, COLUMNS), np.int64)
    for n in range(count):
        row = record_at(pointer_to(rows + n * SAMPLE_BYTES), SAMPLE)
        sample = sample_of[n]
        trait = trait_of[row.instruction]
        element, branch = trait[_ELEMENT], trait[_BRANCH]
        wrong = row.level & SAMPLE_ON_WRONG_PATH != 0
        has = HAS_DATA_SOURCE
        way = 0
        if wrong:
            way = MISSPECULATED
        elif element != 0:
            has |= HAS_VA
            if row.level & SAMPLE_PA:
                has |= HAS_PA
            if misaligned(row.va, element):
                way |= MISALIGNED
        else:
            if condition_failed(
                branch, trait[_CONDITIONAL], trait[_HOLDS], row.pc, row.following, row.flags
            ):
                way |= CONDITION_FAILED
            if branch:
                has |= HAS_TARGET  # also of a branch that is not taken, where the core records that
        if row.flow & FLOW_VALID:
            has |= HAS_PREVIOUS_TARGET
        sample[KIND] = row.instruction
        sample[WAY] = way
        sample[PC] = row.pc
        sample[EL] = row.level & 3
        sample[TIME] = ticks(row.cycles + wrong, ticks_of, cycles_of)
        sample[VA] = row.va
        sample[PA] = row.pa
        sample[TARGET] = row.following
        sample[PREVIOUS_TARGET] = row.flow_target
        sample[PREVIOUS_EL] = row.flow & 3
        sample[HAS] = has
        sample[SELECTED_AT] = row.cycles - skipped + 1


class _Moving:
    """What :func:`read_register` has to know: first what ``spe.sampler.Moving`` has."""

    pointer: int
    status: int
    left: int
    busy_until: int
    outcomes: int
    levels: int
    sizes: int
    traits: int
    """Where ``_describe`` finds traits."""
    samples: int
    """Where ``_describe`` has room."""
    ticks_of: int
    cycles_of: int
    told: int
    """How many samples the pointer has been moved by already."""
    unknown: int
    """Whether it could not be moved by the next one."""


_MOVING: Final = layout(_Moving)
_KINDS_AHEAD: Final = 1 << 5
"""Kinds of samples that are worked out ahead after a read that had to wait for one."""
_PMBPTR: Final = PMBPTR_EL1.encoding.key
_PMSICR: Final = PMSICR_EL1.encoding.key


@routine
def _tell(m: _Moving, state: StateRecord) -> bool:
    """Move the pointer by the samples in the ring. False if it cannot be told by how much."""
    new = state.samples_in_ring - m.told
    if new <= 0:
        return True
    rows = state.samples + m.told * SAMPLE_BYTES
    samples = pointer_to(m.samples)
    _describe(rows, pointer_to(m.traits), state.skipped, m.ticks_of, m.cycles_of, samples, new)
    tables = pointer_to(m.outcomes), pointer_to(m.levels), pointer_to(m.sizes)
    for n in range(new):
        size, ends = size_of_next(samples, tables[0], tables[1], tables[2], n, m.busy_until)
        if size < 0:
            m.unknown = 1
            return False
        m.pointer += size
        m.busy_until = ends
        m.told += 1
    return True


@entry("int64", "pointer", "pointer", "int64", "int64")
def read_register(moving: Pointer, user: Pointer, key: int, pc: int) -> int:
    """Read a register that samples move, by the operation at ``pc``, into ``State.scratch``.

    0 if it is not known what the register holds. The reference runner reads it after all samples
    before it have been completed; here they are in the ring.
    """
    m = record_at(moving, _MOVING)
    state = record_at(user, LAYOUT)
    if key == _PMSICR:
        # a selection loads it with one less than what is to the next selection; the read itself
        # has counted
        count = m.left
        if count == 0 or state.samples_itself == 0 or state.weigh != 0:
            return 0
        if state.samples_in_ring != 0:
            gaps = array_at(pointer_to(state.gaps), (SAMPLES,), np.int64)
            count = gaps[state.samples_in_ring - 1] - 1
        left = state.budget + state.block_operations - ((pc - state.block) >> 2)
        state.scratch = min(count, left)
        return 1
    if not _tell(m, state):
        return 0
    state.scratch = m.pointer if key == _PMBPTR else m.status
    return 1


_SAMPLING_REGISTERS: Final = (PMBPTR_EL1, PMBSR_EL1, PMSICR_EL1)
_DECIDING: Final = (*(SCR_EL3, HCR_EL2, MDCR_EL3, MDCR_EL2, HDFGRTR_EL2, PMSCR_EL1, PMSCR_EL2),)
"""What decides whether those may be read, and what their names mean."""
_KNOWN: Final = 64
"""How many answers are remembered."""


class SamplingRegisters:
    """Has compiled code answer reads of PMBPTR_EL1, PMBSR_EL1 and PMSICR_EL1."""

    DERIVED = ("_levels", "_moving")

    def __init__(self, cpu: UnicornCPU, unit: Sampler, noted: Noted, table: SysRegTable) -> None:
        self._cpu = cpu
        self._unit = unit
        self._noted = noted
        self._accessors = [table.get(register.encoding.key) for register in _SAMPLING_REGISTERS]
        self._deciding = [register for register in _DECIDING if register in cpu.registers]
        self._levels: dict[tuple[int, ...], int] = {}
        """``State.sampling_at``, by the registers that it follows from."""
        self._moving = np.zeros(1, _MOVING)
        state = cpu.hooks.state
        state.sampling_register = read_register.address
        state.sampling_registers = self._moving.ctypes.data
        for register in _SAMPLING_REGISTERS:
            if cpu.hooks.accesses.action(register.encoding, READ) is Action.STOP:
                cpu.hooks.accesses.change(Action.SAMPLING, register.encoding, READ)

    def offer(self, request: RunRequest) -> None:
        """Have compiled code answer in a run, unless an observer is told of accesses."""
        looks = request.straight or request.tally or request.heard or request.watched
        alone = self._cpu.model is None and not self._cpu.hooks.follows_flow
        if alone and self._unit.enabled and not looks:
            request.sampling_at = self._answered_at()

    def _answered_at(self) -> int:
        """The Exception levels at which they are answered, a bit each."""
        noted = self._noted
        kinds = noted.learn()
        if self._moving["unknown"][0]:
            self._unit.foresee(noted.kinds, _KINDS_AHEAD)
        moving = self._unit.moving(kinds)
        if moving is None:
            return 0
        key = self._cpu.registers.raws(self._deciding)
        levels = self._levels.get(key)
        if levels is None:
            if len(self._levels) >= _KNOWN:
                self._levels.clear()
            levels = self._levels[key] = sum(
                self._is_untrapped_at(el) << el for el in (EL1, EL2, EL3)
            )
        numbers = signed(moving.pointer), signed(moving.status), *moving[2:4], *moving.tables
        self._moving[0] = (*numbers, *noted.places, 0, 0)
        return levels

    def _is_untrapped_at(self, el: int) -> bool:
        """Whether each of the names means its register at an Exception level, and does not trap."""
        at_level = PEAt(self._cpu, el)
        return all(
            accessor is not None and reaches_its_own(at_level, accessor, read=True)
            for accessor in self._accessors
        )


class Noted:
    """Describes samples, whose instructions are numbers in ``instructions``, a list that grows.

    ``rate`` is that of the system counter, for the times of samples. ``modelled`` says that a core
    model notes what each sample did. Each pair of an instruction and what it did is then a kind.
    """

    DERIVED = (
        "_known",
        "_numbers",
        "_traits",
        "_instructions",
        "_samples",
        "kinds",
        "_known_places",
    )

    def __init__(
        self, instructions: Sequence[Instruction], rate: Rate, *, modelled: bool = False
    ) -> None:
        self.kinds: list[Kind] = []
        """The kinds of samples, by number."""
        self._modelled = modelled
        self._numbers: dict[tuple[int, int], int] = {}
        self._instructions = instructions
        self._rate = rate
        self._traits = np.zeros((1024, _TRAITS), np.int64)
        self._known = 0
        self._samples = np.zeros((SAMPLES, COLUMNS), np.int64)
        self._known_places = self._traits.ctypes.data, self._samples.ctypes.data

    def described(self, rows: NDArray[np.void], skipped: int) -> NDArray[np.int64]:
        """Describe rows of the hook's ring. The next call overwrites what is returned.

        ``skipped`` is the number of cycles that the PE has slept.
        """
        self.learn()
        samples = self._samples[: len(rows)]
        traits, out, *rate = self.places
        _describe(rows.ctypes.data, traits, skipped, *rate, out, len(rows))
        if self._modelled:
            samples[:, KIND] = self._kinds_of(rows)
        return samples

    def _kinds_of(self, rows: NDArray[np.void]) -> list[int]:
        """The number of the kind of each row."""
        found = []
        pairs = zip(rows["instruction"].tolist(), rows["did"].tolist(), strict=True)
        for pair in pairs:
            number = self._numbers.setdefault(pair, len(self.kinds))
            if number == len(self.kinds):
                self.kinds.append(Kind(self._instructions[pair[0]], pair[1]))
            found.append(number)
        return found

    @property
    def places(self) -> tuple[int, int, int, int]:
        """Where traits are, where there is room for samples, and the rate of the counter."""
        return (*self._known_places, self._rate.ticks_of, self._rate.cycles_of)

    def learn(self) -> int:
        """Have the traits of all instructions at hand; how many those are."""
        if self._known < len(self._instructions):
            self._learn()
        return self._known

    def _learn(self) -> None:
        if len(self._instructions) > len(self._traits):
            more = np.zeros((len(self._instructions), _TRAITS), np.int64)
            self._traits = np.concatenate((self._traits, more))
            self._known_places = self._traits.ctypes.data, self._samples.ctypes.data
        for number in range(self._known, len(self._instructions)):
            self._traits[number] = _traits(self._instructions[number])
            if not self._modelled:
                self.kinds.append(Kind(self._instructions[number]))
        self._known = len(self._instructions)


def _traits(instruction: Instruction) -> tuple[int, ...]:
    access = instruction.access
    return (
        0 if access is None else access.element,
        instruction.family is Family.BRANCH,
        instruction.conditional,
        held_by(instruction),
    )
