"""The leanest machine that still boots the kernel, for comparison.

The same engine, compiled hooks, handler of stops and devices as the emulator's, and nothing around
them: no sampling unit, no accounting of operations but the hook's, no traps of FP, no checks before
operations. One PE.
"""

from __future__ import annotations

from unicorn import unicorn_const as uc_const

from spe_unicorn.host.engine.engine import NEVER
from spe_unicorn.host.native.levels import restore_watch
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.native.state.actions import Action
from spe_unicorn.host.native.state.ledger import charge
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.transit import go_on
from spe_unicorn.host.pe.stops import CALLS, PREFETCH_ABORT
from spe_unicorn.machine.board import Board

_SLICE = 1 << 26
_BLOCK = 1 << 10
"""More operations than a block has: how late a timer may be here."""
_NOWHERE = (False,) * 4
_MASK = (1 << 64) - 1


class Lean:
    """Runs what has been loaded into a board, without the board's runner."""

    def __init__(self, board: Board) -> None:
        self._pe = board.pes[0]
        self._cpu = self._pe.cpu
        self._handler = self._pe.handler
        self._state = self._cpu.hooks.state
        self._state.suspect = 0
        self._cpu.hooks.accesses.leave_to_engine(Action.NOTICE, Action.RETURN)

    @property
    def operations(self) -> int:
        """Operations executed so far."""
        return self._cpu.executed

    def run(self) -> None:
        """Run until the guest turns the machine off, or cannot go on."""
        cpu, state, pe, handler = self._cpu, self._state, self._pe, self._handler
        handler.ending = None
        while handler.ending is None:
            if cpu.hooks.inline is not None:
                cpu.hooks.inline.prepare()
            executed = cpu.executed
            if executed >= pe.deadline:
                pe.happen()
            budget = max(_BLOCK, min(_SLICE, pe.deadline - executed))
            ends = executed + budget
            request = RunRequest(cpu.pc, NEVER, budget, limit=ends, horizon=ends)
            _, request.entries = handler.controls.levels.watch(_NOWHERE, watched=False)
            request.write(state)
            restore_watch(state, 0, int(state.alike))
            self._after_stop(self._execute())

    def _execute(self) -> Stop:
        """Run the engine up to what is more than a device that answers."""
        cpu, state, pe, handler = self._cpu, self._state, self._pe, self._handler
        deadline = pe.deadline
        while True:
            handler.status = cpu.execute(cpu.pc, NEVER)
            cpu.forget_el()
            stop = Stop(state.stop)
            if stop not in (Stop.SYSTEM, Stop.UNMAPPED) or state.notice:
                return stop
            answers = handler.refused if stop is Stop.UNMAPPED else handler.system
            if not answers.access_within_run(cpu.pc):
                return stop
            go_on(state)
            if handler.ending is not None or pe.deadline != deadline or state.budget <= 0:
                return Stop.NOTICED

    def _after_stop(self, stop: Stop) -> None:
        """Count what was executed, and do what the stop asks for."""
        state, handler = self._state, self._handler
        at_an_operation = stop in (Stop.EXCEPTION, Stop.SYSTEM, Stop.UNMAPPED)
        if at_an_operation:
            begun = int(state.block_operations)
            charge(state, min(begun, self._executed_of_block(stop)) - begun)
        if state.controls_written or state.stale_code:
            self._catch_up()
        state.nothing_is_due()
        if at_an_operation:
            handler.handle(stop)
        elif stop is Stop.INTERRUPT:
            handler.interrupts.take()
        elif stop is Stop.NONE:
            handler.idle()

    def _executed_of_block(self, stop: Stop) -> int:
        """How many operations of the block that began last are over, the stop's own included."""
        state = self._state
        if stop is Stop.EXCEPTION:
            if state.interrupt == PREFETCH_ABORT:
                return int(state.block_operations)
            return (int(state.pc - state.block) & _MASK) // 4 + (state.interrupt not in CALLS)
        if stop is Stop.UNMAPPED and state.access_type == uc_const.UC_MEM_FETCH_UNMAPPED:
            return int(state.block_operations)
        return (int(self._cpu.pc - state.block) & _MASK) // 4 + 1

    def _catch_up(self) -> None:
        """What compiled code has left for after the block."""
        if self._state.stale_code:
            self._cpu.engine.forget_all_code()
        self._handler.controls_written()
