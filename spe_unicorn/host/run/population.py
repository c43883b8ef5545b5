"""The members of the sample population that a PE executes: counted, and completed if sampled.

Members are operations, or micro-operations where the unit has a cracker. The hook's budget counts
operations down. Micro-operations are counted beside it, as time and limits are in operations.
"""

from __future__ import annotations

from itertools import starmap
from typing import Final

from spe_unicorn.arch.operation import Calls, Operation
from spe_unicorn.cores.cache_model import MISPREDICTED
from spe_unicorn.decode import decode
from spe_unicorn.host.native.plans import Plan, cracked
from spe_unicorn.host.native.sampling.pending import keep_noted_before
from spe_unicorn.host.native.state.leaving import known_members_from
from spe_unicorn.host.native.state.ledger import charge_members
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.sample_row import Pending, Sample
from spe_unicorn.host.native.state.transit import samples_over
from spe_unicorn.host.pe.access.system_access import TABLE
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import OperationDescriber
from spe_unicorn.host.run.blocks import Blocks
from spe_unicorn.host.run.host_operations import Members
from spe_unicorn.host.run.samples import Noted, SamplingRegisters
from spe_unicorn.host.run.wrong_paths import wrong_paths_of
from spe_unicorn.spe.sampler import Sampler

_MASK: Final = (1 << 64) - 1


class Population(Members):
    """Tells ``unit`` what one PE has executed, and has it make records of sampled members."""

    DERIVED = ("_counted", "_epoch", "_known_weights", "row")

    def __init__(
        self, cpu: UnicornCPU, unit: Sampler, blocks: Blocks, describer: OperationDescriber
    ) -> None:
        self.row: list[int] | None = None
        """How many members each operation has, in a run in which the hook does not weigh blocks."""
        self.wrong_paths = wrong_paths_of(cpu, unit, blocks.numbered)
        """Operations on wrong paths, where they are members."""
        super().__init__(cpu, unit)
        self._cracker = unit.cracker
        self._blocks = blocks
        self._describer = describer
        self._noted = Noted(blocks.instructions, cpu.rate, modelled=cpu.model is not None)
        self.sampling_registers = SamplingRegisters(cpu, unit, self._noted, TABLE)
        """Registers that move with each sample."""
        self._known_weights: dict[int, int] = {}
        self._model = cpu.model
        self._counted = self.position
        """How many members the unit has been told of."""

    @property
    def position(self) -> int:
        """A count of members gone by. It may include operations while profiling was disabled."""
        state = self._state
        if self._cracker is None:
            return self._cpu.executed
        return int(state.members_granted - state.members)

    def pass_by(self, members: int) -> None:
        """Count members that went by and that the hook has not counted; negative to take back."""
        if self._cracker is not None:
            charge_members(self._state, members)

    def weights(self, pc: int, operations: int) -> list[int]:
        """How many members each of ``operations`` operations has; 0 where profiling is disabled."""
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
        """How many members the operation at ``pc`` has."""
        if self._cracker is None:
            return 1
        return sum(self.weights(pc, 1))

    def weight_from(self, place: int) -> int:
        """How many members the block that began last has from operation ``place`` on."""
        if self.row is not None:
            return sum(self.row[place : self._state.block_operations])
        members = int(known_members_from.called(self._state.address, place))
        if members >= 0:
            return members
        pc = self._state.block + 4 * place & _MASK
        return sum(self.weights(pc, int(self._state.block_operations) - place))

    def learn_begun(self) -> bool:
        """Add the block that began last to the table of this epoch.

        False if it is there, or cannot be read. A block that counts itself needs no row, and goes
        on when a new epoch begins.
        """
        state = self._state
        address, operations = state.block & _MASK, int(state.block_operations)
        if self._blocks.find(address, operations) is not None:
            return False
        words = self._cpu.virtual.code(address, operations)
        if words is None:
            return False
        self._blocks.add(address, words)
        return True

    def count_all(self) -> None:
        """Tell the unit of everything that has been executed since it was last told."""
        position, counted = self.position, self._counted
        if self._pass_by(position - counted):
            raise RuntimeError(
                f"member {position} was chosen, and nobody looked at it: the unit knew of {counted}"
            )
        if self._state.wrong:
            self.take_wrong_path()
        self._unit.told()
        if self._model is not None:
            self._complete_branch(self._model.awaited.take_branch())

    def _complete_branch(self, branch: tuple[int, int] | None) -> None:
        """Complete the sample of a branch that was executed last, if it made an awaited event.

        It is given by its address, and where it went.
        """
        if branch is None or not self._unit.owes:
            return
        pc, following = branch
        operation = self._describer.branched(pc, following)
        if operation is not None:
            self._unit.choose_last()
            self.complete(operation, MISPREDICTED)

    def take_wrong_path(self) -> None:
        """Count the wrong path after a mispredicted branch, if compiled code left that to Python.

        A wrong path takes no time; only the branch does.
        """
        if not self._state.wrong:
            return
        if self.wrong_paths is None:
            start = self._state.wrong_path & _MASK
            raise RuntimeError(f"a wrong path from {start:#x} is to count, and none is a member")
        walk = self.wrong_paths.take()
        if not self._unit.enabled:
            return
        self.pass_by(len(walk))
        for member in self.select(len(walk)):
            if self._model is not None:
                self._model.saw_nothing()
            self.complete(self._describer.misspeculated(*walk[member]))

    def _pass_by(self, members: int) -> bool:
        """Tell the unit of members that the engine has executed. True if the last is chosen."""
        self._counted += members
        return bool(members) and self._unit.enabled and self._unit.pass_by(members)

    def _count(self, members: int) -> bool:
        """Tell the unit of members, if profiling is enabled. Return True if the last is sampled."""
        self._counted += members
        return bool(members) and self._unit.enabled and self._unit.advance(members)

    def select(self, members: int) -> list[int]:
        """Tell the unit of the members of one operation. Return which of them are sampled."""
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
        """Take back an operation that the unit was told of and that did not retire."""
        if self._cracker is not None:
            self.pass_by(-members)
            self._counted -= members
        self._unit.take_back(members, selected)

    # Samples

    def complete_noted(self) -> None:
        """Complete the samples that the compiled hook noted by itself, in order."""
        cpu = self._cpu
        state = self._state
        rows = cpu.hooks.samples.take()
        executed, skipped = cpu.executed, int(state.skipped)
        self._unit.refresh()  # the samples may be of several Exception levels
        members = int(rows["members"][-1]) - self._counted
        noted = self._noted
        calls: list[Calls] = []
        if cpu.callers is not None:
            calls = cpu.callers.noted(rows["pc"].tolist())
        if self._unit.complete_all(noted.described(rows, skipped), noted.kinds, members, calls):
            self._counted += members
            return
        instructions = self._blocks.instructions
        for number, sample in enumerate(starmap(Sample, rows.tolist())):
            cpu.ahead = executed - (sample.cycles - skipped + 1)
            if self._count(sample.members - self._counted):
                operation = self._describer.sampled(instructions[sample.instruction], sample)
                operation.calls = calls[number] if calls else ()
                self._unit.complete(operation, sample.did)
        cpu.ahead = 0

    def complete_pending(self, report: RunReport) -> None:
        """Complete the samples of the block that ran whose operations were executed.

        If the engine stopped at a chosen operation, the host executes it, and what the core model
        has noted of it stays noted until then.
        """
        state, done = self._state, report.done
        keep_noted_before.called(self._cpu.engine.handle.value, state.address, done)
        samples = self._cpu.hooks.samples.pending()
        samples_over(state)
        block, start = self._blocks.at(int(state.slot))
        for n, noted in enumerate(samples):
            plan = block.plans[noted.member]
            behind = done - plan.place - 1
            if behind < 0:
                break  # an exception came first, or the engine stands at the operation
            self._cpu.ahead = behind
            after = sum(plan.place < done for plan in block.plans[noted.member + 1 :])
            if self._count(self.position - after - self._counted):
                operation = self._pending(plan, start, behind, noted)
                operation.exception = report.call and not behind
                if self._cpu.callers is not None:
                    operation.calls = self._cpu.callers.pending(operation.pc, noted.plan, n)
                self.complete(operation, None if self._model is None else noted.did)
        self._cpu.ahead = 0

    def _pending(self, plan: Plan, start: int, behind: int, noted: Pending) -> Operation:
        """Describe a chosen operation of the block at ``start`` that has run.

        ``behind`` operations have been executed after it.
        """
        pc = start + 4 * plan.place & _MASK
        block_ends = plan.place == self._state.block_operations - 1
        following = self._cpu.pc if block_ends else pc + 4 & _MASK
        before = self._cpu.cycles - behind - 1
        return self._describer.describe(plan, pc, noted, before, following)

    def restored(self) -> None:
        """After a restore: take what went by so far as told to the unit."""
        self.row = None
        super().restored()
        self._counted = self.position
