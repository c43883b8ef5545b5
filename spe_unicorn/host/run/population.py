"""The members of the sample population that a PE executes: counted, and completed if sampled.

They are operations, or micro-operations where the unit has a cracker. Operations are counted down
in the hook's budget. Micro-operations are counted beside them, as time and limits are in
operations.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.operation import Operation
from spe_unicorn.decode import decode
from spe_unicorn.host.native.plans import cracked
from spe_unicorn.host.native.state import Sample, Stop, slot_of
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import OperationDescriber
from spe_unicorn.host.pe.stops import CALLS
from spe_unicorn.host.run.blocks import Blocks
from spe_unicorn.host.run.samples import Noted
from spe_unicorn.host.run.wrong_paths import WrongPaths
from spe_unicorn.spe.sampler import Sampler

_MASK: Final = (1 << 64) - 1


class Population:
    """Tells ``unit`` of what one PE has executed, and has records made of what is sampled."""

    DERIVED = ("_counted", "_epoch", "_known_weights", "row")

    def __init__(
        self, cpu: UnicornCPU, unit: Sampler, blocks: Blocks, describer: OperationDescriber
    ) -> None:
        self.row: list[int] | None = None
        """How many members the operations are that run without being weighed by the hook."""
        self.wrong_paths: WrongPaths | None = None
        """What is begun after mispredicted branches, where that belongs to the population."""
        if unit.cracker is not None and unit.wrong_path:
            self.wrong_paths = WrongPaths(cpu, unit.cracker, unit.wrong_path)
        self._cpu = cpu
        self._unit = unit
        self._cracker = unit.cracker
        self._blocks = blocks
        self._describer = describer
        self._noted = Noted(blocks.instructions, cpu.rate, modelled=cpu.model is not None)
        self._known_weights: dict[int, int] = {}
        self._state = cpu.hooks.state
        self._model = cpu.model
        self._epoch = int(self._state.epoch)
        self._counted = self.position
        """Members gone by of which the unit has been told."""

    @property
    def position(self) -> int:
        """Members of the population gone by, operations that do not count among them."""
        state = self._state
        if self._cracker is None:
            return self._cpu.executed
        return int(state.members_granted - state.members)

    def pass_by(self, members: int) -> None:
        """So many members went by, or fewer, apart from those that the hook has counted."""
        if self._cracker is not None:
            self._state.members -= members

    def weights(self, pc: int, operations: int) -> list[int]:
        """How many members each of some operations is; none of them where profiling is disabled."""
        if not self._unit.enabled:
            return [0] * operations
        words = self._cpu.virtual.code(pc, operations) or ()
        return [self._weight(word) for word in words]

    def _weight(self, word: int) -> int:
        weight = self._known_weights.get(word)
        if weight is None:
            weight = self._known_weights[word] = len(cracked(decode(word), self._cracker))
        return weight

    def members(self, pc: int) -> int:
        """How many members the operation at ``pc`` is."""
        if self._cracker is None:
            return 1
        return sum(self.weights(pc, 1))

    def weight_from(self, place: int) -> int:
        """How many members the block that began last has from an operation on."""
        if self.row is not None:
            return sum(self.row[place : self._state.block_operations])
        block, _ = self._blocks.at(slot_of(self._state.block, self._state.block_operations))
        return sum(plan.place >= place for plan in block.plans)

    def count_all(self) -> None:
        """Tell the unit of everything that has been executed since it was last told."""
        if self._count(self.position - self._counted):
            raise RuntimeError("an operation was chosen that nobody looked at")
        self.take_wrong_path()
        self._unit.told()

    def take_wrong_path(self) -> None:
        """Count what was begun after a mispredicted branch, if compiled code has left that to us.

        It takes no time: only the branch itself does.
        """
        if not self._state.wrong:
            return
        assert self.wrong_paths is not None
        walk = self.wrong_paths.take()
        if not self._unit.enabled:
            return
        self.pass_by(len(walk))
        for member in self.select(len(walk)):
            if self._model is not None:
                self._model.saw_nothing()
            self.complete(self._describer.misspeculated(*walk[member]))

    def _count(self, members: int) -> bool:
        """Tell the unit of members of its population, if they are; True if the last is sampled."""
        self._counted += members
        return bool(members) and self._unit.enabled and self._unit.advance(members)

    def select(self, members: int) -> list[int]:
        """Tell the unit of the members that one operation is; which of them are sampled."""
        unit = self._unit
        self._counted += members
        if not unit.enabled:
            return []
        selected = []
        done = 0
        while done < members:
            step = min(unit.until_hit(), members - done)
            done += step
            if unit.advance(step):
                selected.append(done - 1)
        return selected

    def take_back(self, members: int, selected: int) -> None:
        """An operation was told of while profiling was enabled, and did not retire."""
        if self._cracker is not None:
            self.pass_by(-members)
            self._counted -= members
        self._unit.take_back(members, selected)

    # Samples

    def complete_noted(self) -> None:
        """Complete the samples that the compiled hook took by itself, in order."""
        cpu = self._cpu
        state = self._state
        rows = cpu.hooks.samples.take()
        executed, skipped = cpu.executed, int(state.skipped)
        self._unit.refresh()  # they may be of several Exception levels
        members = int(rows["members"][-1]) - self._counted
        noted = self._noted
        if self._unit.complete_all(noted.described(rows, skipped), noted.kinds, members):
            self._counted += members
            return
        instructions = self._blocks.instructions
        for sample in map(Sample._make, rows.tolist()):
            cpu.ahead = executed - (sample.cycles - skipped + 1)
            if self._count(sample.members - self._counted):
                operation = self._describer.sampled(instructions[sample.instruction], sample)
                self._unit.complete(operation, sample.did)
        cpu.ahead = 0

    def complete_pending(self, stop: Stop, done: int) -> None:
        """The sampled operation's block ran, ``done`` operations of it at least."""
        self._complete_pending(stop, done)
        if self._model is not None:
            self._model.end()

    def _complete_pending(self, stop: Stop, done: int) -> None:
        state = self._state
        member = int(state.pending) - 1
        state.pending = 0
        block, start = self._blocks.at(int(state.slot))
        plan = block.plans[member]
        k = plan.place
        if k >= done:
            return  # an exception came first, or it is the operation at which the engine stands
        cpu = self._cpu
        behind = done - k - 1
        cpu.ahead = behind
        after = sum(plan.place < done for plan in block.plans[member + 1 :])
        if self._count(self.position - after - self._counted):
            following = cpu.pc if k == len(block.code) - 1 else start + 4 * k + 4 & _MASK
            before = cpu.cycles - behind - 1
            operation = self._describer.describe(plan, start + 4 * k & _MASK, before, following)
            operation.exception = not behind and stop is Stop.EXCEPTION and state.interrupt in CALLS
            self.complete(operation)
        cpu.ahead = 0

    def complete(self, operation: Operation) -> None:
        """Have the unit make a record, with translations as they are now."""
        self.look_at_translations()
        self._unit.complete(operation)
        self._unit.refresh()

    def reload(self) -> None:
        """A register was written that steers profiling or translation."""
        self._epoch = int(self._state.epoch)
        self._unit.reload()

    def restored(self) -> None:
        """The PE is at another place than it was; of what went by before, the unit was told."""
        self.row = None
        self._counted = self.position
        self._epoch = int(self._state.epoch)

    def look_at_translations(self) -> None:
        """Forget translations that guest code has made untrue."""
        if self._state.epoch != self._epoch:
            self._epoch = int(self._state.epoch)
            self._unit.forget_translations()
