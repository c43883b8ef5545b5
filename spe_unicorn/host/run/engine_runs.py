"""One run of the engine: what it is granted, and how far it came."""

from __future__ import annotations

from typing import Final

from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.exceptions.syndromes import EC, SOFTWARE_STEPS
from spe_unicorn.arch.operation import Mark
from spe_unicorn.decode import decode
from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.engine.surviving import ABORTED
from spe_unicorn.host.native.marks import MARK_EVENT, MARK_FENCE, MARK_ORDER
from spe_unicorn.host.native.state.budget import NOTICE_RETURN, UNBOUNDED, grant
from spe_unicorn.host.native.state.steer import OWN_HVC, OWN_SMC
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import CALLS, PREFETCH_ABORT, StopHandler
from spe_unicorn.host.run.population import Population
from spe_unicorn.host.run.watching import Watching
from spe_unicorn.spe.sampler import Sampler

_ACCESSES: Final = 1 << 8
"""Device accesses in a run after which it ends, so that Ctrl-C and limits are looked at."""
_MASK: Final = (1 << 64) - 1
_OWN_CALLS: Final = {None: OWN_HVC | OWN_SMC, "hvc": 0, "smc": OWN_HVC}
"""``State.own_calls`` by how firmware is called. An SMC where that is by HVC is UNDEFINED."""
AT_AN_OPERATION: Final = frozenset({Stop.EXCEPTION, Stop.SYSTEM, Stop.UNMAPPED, Stop.ACCESS})
"""Stops before an operation in the middle of a block; after it if that is SVC, HVC or SMC."""
_TRAP: Final = 1
"""The engine's number of Undefined exceptions, traps and software step."""
_OF_DEVICES: Final = (int(Stop.UNMAPPED), int(Stop.SYSTEM))
"""Stops before an operation that may concern a device alone."""
_WITHIN: Final = frozenset({*AT_AN_OPERATION, Stop.NONE, Stop.UNTRANSLATED})
"""Stops that are not before a block which has not been counted."""
_STOPS: Final = {int(stop): stop for stop in Stop}
"""``Stop`` by ``State.stop``: a look-up takes a quarter of the time of ``Stop(number)``."""


class EngineRuns:
    """The runs of one PE's engine."""

    TRANSIT = ("target",)

    def __init__(
        self,
        cpu: UnicornCPU,
        unit: Sampler,
        handler: StopHandler,
        population: Population,
        watching: Watching,
    ) -> None:
        self.target = NEVER
        """The address at which the last run was to end."""
        self._cpu = cpu
        self._unit = unit
        self._handler = handler
        self._population = population
        self._watching = watching
        self._state = cpu.hooks.state
        self._cracker = unit.cracker
        self._model = cpu.model
        self._plain = (
            self._model is None
            and self._cracker is None
            and cpu.secure_memory is None
            and not cpu.hooks.follows_flow
        )
        """Whether nobody has to be told of an operation, so that counting it is all."""

    def run(
        self,
        pc: int,
        budget: int,
        until: int,
        samples_itself: bool = False,
        members: int = UNBOUNDED,
        *,
        straight: bool = False,
    ) -> Stop:
        """Grant ``budget`` operations and run the engine from ``pc`` on until something stops it.

        ``straight`` says that the run executes ``budget`` operations in a row from the PC on, so
        the hooks have no block to look at.
        """
        state = self._state
        population = self._population
        state.begin(budget, samples_itself)
        collects = self._watching.watcher is not None or True in self._unit.enabled_at
        collects = collects or self._cpu.follows_context
        if collects and not state.collects:
            self._cpu.steering.resync_cells()
        state.collects = collects
        if not straight:
            watched = self._watching.tracking
            state.watch = self._handler.controls.look_out(self._unit.enabled_at, watched)
            if watched:
                self._look_out_for_order()
        state.own_calls = self._own_calls
        state.tally = 0 if straight else self._cpu.tally
        state.checking = self.checking()
        population.row = None
        position = 0 if self._cracker is None else population.position
        weigh = self._cracker is not None and not straight and self._unit.enabled
        state.weigh = weigh
        state.speculates = population.wrong_paths is not None and self._unit.enabled
        if self._cracker is not None:
            # the hook subtracts weights from `members` even where the population is operations
            state.members_granted, state.members = position + members, members
            if straight:
                population.row = population.weights(pc, budget)
        plain = self._plain and not straight and not self._cpu.tally
        if plain and not weigh:
            state.gic_at = self._handler.gic_levels()
            state.uart_at = self._handler.uart_at()
            state.sends_events = self._sends_events()
        state.begins_anew = self._model is None and not self._cpu.hooks.follows_flow
        if state.begins_anew and self._unit.enabled and not straight and not self._cpu.tally:
            heard = bool(self._handler.system.accessed) or self._watching.watcher is not None
            state.sampling_at = 0 if heard else population.registers.levels()
        self.note_flow()
        state.ready()
        self.target = until
        self._execute(pc, until, plain)
        if plain:
            self._go_on(until)
        self._look_at_stop()
        state.weigh = 0
        if self._cracker is not None and not weigh:
            state.members_granted = position + state.members
        if population.row is not None:
            population.pass_by(sum(population.row[: budget - int(state.budget)]))
        stop = _STOPS[state.stop]
        if self._model is not None:
            whole = stop in _WITHIN and self.executed_of_block(stop) == state.block_operations
            pc = state.pc & _MASK if stop is Stop.EXCEPTION else self._cpu.pc
            self._model.stopped(whole, pc)
        return stop

    def _sends_events(self) -> bool:
        """``State.sends_events``."""
        state = self._state
        if not state.watch & MARK_EVENT or state.checking or self._watching.watcher is not None:
            return False
        return not self._handler.platform.event_awaited

    @property
    def _own_calls(self) -> int:
        """``State.own_calls``."""
        return _OWN_CALLS[self._handler.platform.conduit]

    @property
    def plain(self) -> bool:
        """Whether compiled code may begin runs, as nobody has to be told of an operation."""
        nobody = not self._cpu.tally and self._watching.watcher is None
        return self._plain and nobody and True not in self._unit.enabled_at

    def stand_by(self) -> tuple[int, int]:
        """Prepare plain runs that compiled code begins.

        Return ``State.gic_at`` and ``State.uart_at``, which hold for all of them.
        """
        self._handler.controls.look_out(self._unit.enabled_at, watched=False)
        self._state.own_calls = self._own_calls
        return self._handler.gic_levels(), self._handler.uart_at()

    def resume(self, status: int) -> Stop:
        """Go on with a plain run that compiled code has begun, and that has ended with ``status``.

        Return what has stopped it, as :meth:`run` does.
        """
        self.target = NEVER
        self._cpu.stand()
        self._stopped(self._cpu.engine.ended(status))
        self._go_on(NEVER)
        self._look_at_stop()
        return _STOPS[self._state.stop]

    def _look_at_stop(self) -> None:
        """The engine stands: see at which Exception level, and whether a stop is one at all."""
        state = self._state
        if state.notice == NOTICE_RETURN:
            self._cpu.left_from(int(state.level))
        else:
            self._cpu.forget_el()
        if state.stop == Stop.EXCEPTION and self._trapped_at_its_end():
            state.stop = 0
            self._cpu.pc = self._cpu.pc + 4 & _MASK

    def _look_out_for_order(self) -> None:
        """Have compiled code stop before operations that the watcher tracks, or note them.

        Where the population is operations, what came of it up to one that was noted can be told.
        """
        state = self._state
        operations = self._cracker is None and self._population.wrong_paths is None
        state.notes_fences = operations and not self._watching.at_once
        state.watch |= MARK_ORDER if state.notes_fences else MARK_ORDER | MARK_FENCE

    def _execute(self, pc: int, until: int, plain: bool) -> None:
        self._stopped(self._cpu.execute(pc, until, through=plain))

    def _stopped(self, status: int) -> None:
        """A run of the engine has ended with ``status``."""
        self._handler.controls.follow()
        if status == ABORTED and self._state.stop == Stop.NONE:
            self._state.stop = Stop.UNTRANSLATED
            status = 0
        self._handler.status = status
        sent = int(self._state.uart_sent)
        if sent:
            self._state.uart_sent = 0
            self._handler.uart_sent(sent)
        if self._state.sent:
            self._state.sent = 0
            self._handler.platform.send_event()
        rose = int(self._state.rose)
        if rose:
            self._state.rose = 0
            self._handler.interrupts_rose(rose)

    def _go_on(self, until: int) -> None:
        """Go on after stops that take an access to a device and nothing else."""
        state = self._state
        for _ in range(_ACCESSES):
            if state.stop not in _OF_DEVICES:
                return
            pc = self._cpu.pc
            if not self._answer_device(pc):
                return
            state.stop = 0
            state.update_special()
            self._execute(pc + 4 & _MASK, until, plain=True)

    def _answer_device(self, pc: int) -> bool:
        """Carry out the access at ``pc``, where the engine is, if it concerns a device alone."""
        state = self._state
        self._cpu.forget_el()
        if state.pending or state.notice or state.weigh or state.sev:
            return False
        handler, platform = self._handler, self._handler.platform
        deadline = platform.deadline
        answers = handler.memory if state.stop == Stop.UNMAPPED else handler.system
        if not answers.plain_access(pc):
            return False
        if platform.deadline != deadline or handler.ending is not None:
            # the access has moved the next horizon, or ends the run: this run of the engine is over
            grant(state, 0)
            state.samples_itself = False
        if state.budget <= 0 and self._cpu.s.stepped == (self._cpu.pc, self._cpu.executed):
            # the engine would take the Software Step exception, which is for the next run
            state.stop = Stop.NOTICED
            return False
        return True

    def note_flow(self) -> None:
        """Tell the hook that follows the last branch what holds in the run that begins."""
        if self._cpu.hooks.follows_flow:
            self._state.flow_enabled = self._unit.enabled
            self._state.flow_el = self._cpu.el

    def _trapped_at_its_end(self) -> bool:
        """Whether the WFI by which the engine ends a run at an address was trapped.

        The exception then looks like one of the operation before it, which has been executed.
        """
        cpu = self._cpu
        following = cpu.pc + 4 & _MASK
        if following != self.target and following not in cpu.engine.halts:
            return False
        syndrome = cpu.entries.of_engine().record.syndrome
        if syndrome is None or syndrome.ec != EC.WFxTrap:
            return False
        words = cpu.virtual.code(cpu.pc, 1)
        return words is not None and decode(words[0]).mark is not Mark.WFI

    def halted(self) -> bool:
        """Whether the engine, which no hook stopped, is at an address where the run must end.

        A WFI of the guest just before that address stops the engine, too. That WFI is then the last
        operation of its block.
        """
        cpu, state = self._cpu, self._state
        pc = cpu.pc
        if pc == self.target:
            return True
        if pc not in cpu.engine.halts:
            return False
        if int(state.block + 4 * state.block_operations) & _MASK != pc:
            return True
        words = cpu.virtual.code(pc - 4 & _MASK, 1)
        return words is None or decode(words[0]).mark is not Mark.WFI

    def checking(self) -> int:
        """What is checked before the next operation: ``State.checking``."""
        checks = self._handler.controls.checks
        return checks.at(self._cpu.el) if checks.active else 0

    def learn(self, operations: int) -> None:
        """Tell the hook before each operation what to check at the next ``operations``."""
        self._handler.controls.checks.learn(self._cpu.pc, operations)

    def executed_of_block(self, stop: Stop) -> int:
        """How many operations of the block that began last were executed before the stop."""
        state = self._state
        begun = int(state.block_operations)
        pc = state.pc if stop is Stop.EXCEPTION else self._cpu.pc
        if stop is Stop.EXCEPTION:
            whole = state.interrupt == PREFETCH_ABORT or self.stepped()
        elif stop is Stop.UNMAPPED:
            whole = state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED
        else:
            at_its_end = stop is Stop.NONE and pc == self.target
            whole = at_its_end or stop is Stop.UNTRANSLATED
        if whole:
            return begun
        index = int(pc - state.block & _MASK) >> 2
        if stop is Stop.EXCEPTION and state.interrupt not in CALLS:
            # a user's hook may have moved the PC on; the operation is in the block all the same
            return min(begun - 1, index)
        return min(begun, index)

    def stepped(self) -> bool:
        """Whether the exception at which the engine stopped is a Software Step exception."""
        if self._state.interrupt != _TRAP:
            return False
        syndrome = self._cpu.entries.of_engine().record.syndrome
        return syndrome is not None and syndrome.ec in SOFTWARE_STEPS

    def finished(self, stop: Stop) -> bool:
        """Whether the last operation of the block that began last has been executed."""
        state = self._state
        if stop is Stop.EXCEPTION and state.interrupt in CALLS:
            return True
        if stop is Stop.EXCEPTION and (state.interrupt == PREFETCH_ABORT or self.stepped()):
            return True
        return stop is Stop.UNMAPPED and state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED
