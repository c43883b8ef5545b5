"""Runs of random programs, in several ways that must come to the same."""

from __future__ import annotations

from random import Random

from unicorn import UC_HOOK_CODE, UC_HOOK_MEM_READ, UC_HOOK_MEM_WRITE, Uc

from spe_unicorn.arch.operation import Mark
from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.predictor import Branch
from spe_unicorn.cores.profile import Core, ModelName, load_core
from spe_unicorn.decode import decode
from spe_unicorn.decode.branches import ZERO_BLOCK_SIZE
from spe_unicorn.host.engine.engine import PSTATE, X
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.memory_map import RAM_BASE
from tests.support.a64 import dc_zva, sys
from tests.support.branch_kinds import branch_kind
from tests.support.machine_runs import Machine, Result
from tests.support.random_programs import RAM, Settings, random_program

GENERIC, NEOVERSE, MAX = (load_core(name) for name in ("generic", "neoverse-v2", "max"))
TLBI_VMALLE1 = sys(0, 8, 7, 0)
EL_BITS = 0b1100
"""PSTATE.EL: none of these bits is set at EL0, where TLBI is UNDEFINED."""
PLACES = (0, 0xFC0, 0xFF8, 0x124)
"""Where in its page a loop begins: it may well end in the next one."""


class Trace:
    """Every operation that an engine attempts: its PC, and the physical addresses it uses.

    ``pieces`` are all accesses to RAM, physical address and size, as the engine makes them, and
    None where all translations are forgotten. DC ZVA is one.
    """

    def __init__(self, machine: Machine) -> None:
        self.pcs: list[int] = []
        self.words: list[int] = []
        self.accesses: dict[int, list[int]] = {}
        self.pieces: list[tuple[int, int] | None] = []
        self._zeroed: tuple[int, int] | None = None
        """The last DC ZVA, if it is not known whether it was executed: its PC, and its block.

        That is a virtual address: these programs have memory where it is."""
        self._cpu = machine.board.cpu
        uc = machine.board.cpu.engine.uc
        uc.hook_add(UC_HOOK_CODE, self._on_operation)
        uc.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, self._on_access)

    def end(self) -> None:
        """The trace is over: the last operation has been executed, or has not."""
        self._went_on(self._cpu.pc)

    def _went_on(self, pc: int) -> None:
        if self._zeroed is not None and pc == self._zeroed[0] + 4:
            self.pieces.append((self._zeroed[1], ZERO_BLOCK_SIZE))
        self._zeroed = None

    def _on_operation(self, uc: Uc, address: int, size: int, data: object) -> None:
        self._went_on(address)
        self.pcs.append(address)
        words = self._cpu.virtual.code(address, 1)
        assert words is not None
        self.words.append(words[0])
        if words[0] == TLBI_VMALLE1 and uc.reg_read(PSTATE) & EL_BITS:
            self.pieces.append(None)
        if words[0] & ~31 == dc_zva(0):
            block = uc.reg_read(X[words[0] & 31]) & -ZERO_BLOCK_SIZE
            self._zeroed = address, block

    def _on_access(
        self, uc: Uc, kind: int, address: int, size: int, value: int, data: object
    ) -> None:
        self.accesses.setdefault(len(self.pcs), []).append(address)
        if self._zeroed is None and RAM_BASE <= address < RAM_BASE + RAM:
            self.pieces.append((address, size))


def members(trace: Trace, core: Core) -> list[tuple[int, int, int]]:
    """The population of a trace: operation counted from 1, PC, and which micro-operation it is."""
    found = []
    for number, (pc, word) in enumerate(zip(trace.pcs, trace.words, strict=True), 1):
        instruction = decode(word)
        parts = core.cracking.parts(instruction) if core.cracking else (instruction,)
        found += [(number, pc, part.part) for part in parts]
    return found


def settings_of(seed: int, *, spe: bool = False, sve: bool = False) -> Settings:
    """The settings of a seed: every combination turns up."""
    mmu, el0 = ((False, False), (True, False), (True, True))[seed % 3]
    return Settings(mmu=mmu, el0=el0, at=PLACES[seed // 3 % len(PLACES)], spe=spe, sve=sve)


def run_in_pieces(machine: Machine, operations: int, random: Random) -> Result:
    """Run ``operations`` with stops at random places in between."""
    left = operations
    while left:
        piece = min(left, random.choice((1, 2, random.randrange(1, 50), operations)))
        before = machine.board.cpu.executed
        ending = machine.board.run(piece)
        assert machine.board.cpu.executed - before == piece, ending
        left -= piece
    return machine.result(ending)


def assert_model_saw(trace: Trace, machine: Machine) -> None:
    """The cache model of a machine saw each access of the trace, and each branch, once."""
    model = machine.board.models[0]
    if not isinstance(model, CacheModel):
        return
    branches = sum(branch_kind(decode(word)) is not Branch.NONE for word in trace.words)
    trace.end()
    assert model.predictor.resolved == branches > 0
    other = CacheModel(machine.board.core.numbers)
    for piece in trace.pieces:
        if piece is None:
            other.data.forget_translations()
        else:
            other.data.access(*piece)
    if trace.pieces[-1:] == [None]:
        model.data.forget_translations()  # which it does before the next access
    model.begin()
    other.begin()
    assert (model.data.words == other.data.words).all()
    assert (model.data.last.words == other.data.last.words).all()


def assert_same_from_outside(
    seed: int,
    period: int,
    operations: int,
    core: Core = GENERIC,
    model: ModelName = "none",
    *,
    sve: bool = False,
) -> None:
    """Both runners and the trace, over the program of ``seed``."""
    image = random_program(seed, settings_of(seed, sve=sve))
    fast, reference = (
        Machine(image, runner=runner, period=period, ram=RAM, seed=seed, core=core, model=model)
        for runner in (Runner, ReferenceRunner)
    )
    trace = Trace(reference)
    stepped = reference.run(operations)
    assert stepped.operations == operations == len(trace.pcs)
    sampled = [
        (s.operation, s.pc, o.instruction.part)
        for s, o in zip(stepped.records, reference.operations, strict=True)
    ]
    assert sampled == members(trace, core)[period - 1 :: period]
    assert fast.run(operations).differences(stepped) == {}
    assert fast.operations == reference.operations
    for sampled, operation in zip(reference.sampled, reference.operations, strict=True):
        touched = trace.accesses.get(sampled.operation)
        # the engine's hooks see DC ZVA as writes of bytes, and not the first one first
        zva = operation.instruction.mark is Mark.SYS
        if touched is not None and operation.va is not None and not operation.exception and not zva:
            if operation.instruction.part or operation.instruction.elements:
                assert operation.pa in touched, operation
            else:
                assert operation.pa == touched[0], operation
    pieces, together = (
        Machine(image, period=period, ram=RAM, seed=seed, core=core, model=model, together=many)
        for many in (False, True)
    )
    assert run_in_pieces(pieces, operations, Random(seed)).differences(stepped) == {}
    assert together.run(operations).differences(stepped, ignoring=["records"]) == {}
    assert_model_saw(trace, pieces)


def assert_same_by_unit(
    seed: int,
    operations: int,
    core: Core = GENERIC,
    model: ModelName = "none",
    *,
    sve: bool = False,
) -> None:
    """Both runners over the program of ``seed``, which programs SPE itself."""
    image = random_program(seed, settings_of(seed, spe=True, sve=sve))
    fast, reference = (
        Machine(image, runner=runner, ram=RAM, seed=seed, core=core, model=model)
        for runner in (Runner, ReferenceRunner)
    )
    trace = Trace(reference)
    stepped = reference.run(operations)
    assert stepped.operations == operations == len(trace.pcs)
    assert [s.pc for s in stepped.records] == [trace.pcs[s.operation - 1] for s in stepped.records]
    assert fast.run(operations).differences(stepped) == {}
    assert fast.operations == reference.operations
    pieces, together = (
        Machine(image, ram=RAM, seed=seed, core=core, model=model, together=many)
        for many in (False, True)
    )
    assert run_in_pieces(pieces, operations, Random(seed)).differences(stepped) == {}
    assert together.run(operations).differences(stepped, ignoring=["records"]) == {}
    assert_model_saw(trace, pieces)


PERIODS = (1, 2, 3, 5, 7, 64, 257, 1000)
