"""The leanest machine that still boots the kernel, for comparison.

The same engine, compiled hooks and devices as the emulator's, and of Python only what an interrupt,
a device access, a timer and a WFI need: no sampling unit, no accounting of operations but the
hook's, no traps of FP, no checks. One PE, at EL1.
"""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType
from spe_unicorn.arch.pe import EL1
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.decode import decode, transfer
from spe_unicorn.host.native.state import READ, Action, Answer, Stop
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.calls.psci import SystemAction, is_psci, psci_call
from spe_unicorn.spe.sampler import NOWHERE

_HVC = 11
_SLICE = 1 << 26
_BLOCK = 1 << 10
"""More operations than a block has: how late a timer may be here."""
_IRQ = ExceptionRecord(ExceptionType.IRQ)


class Lean:
    """Runs what has been loaded into a board, without the board's runner and handlers."""

    def __init__(self, board: Board) -> None:
        pe = board.pes[0]
        self.cpu: UnicornCPU = pe.cpu
        self.operations = 0
        self._board = board
        self._pe = pe
        self._state = self.cpu.hooks.state
        self._levels = pe.handler.controls.levels
        self._devices = pe.handler.system._devices
        self._table = pe.handler.system._table
        self._over = False
        self.cpu.hooks.ask_by(self._answer)
        self._do: dict[Stop, Callable[[], None]] = {
            Stop.EXCEPTION: self._exception,
            Stop.SYSTEM: self._system,
            Stop.UNMAPPED: self._device,
            Stop.INTERRUPT: self._interrupt,
            Stop.NONE: self._wait,
        }

    def run(self) -> None:
        """Run until the guest turns the machine off."""
        cpu, state, pe = self.cpu, self._state, self._pe
        self.enter_exceptions()
        while not self._over:
            executed = cpu.executed
            if executed >= pe.deadline:
                pe.happen()
            budget = max(_BLOCK, min(_SLICE, pe.deadline - executed))
            state.granted += budget - state.budget
            state.budget = budget
            state.stop = state.notice = 0
            state.special = bool(state.deliver)
            cpu.engine.run(cpu.pc)
            act = self._do.get(Stop(state.stop))
            if state.controls_written or state.stale_code:
                self._controls_written()
            if act is not None:
                self._give_back()
                act()
        self.operations = cpu.executed

    def _give_back(self) -> None:
        """What of the block that began last was not executed is not counted."""
        state = self._state
        if state.stop in (Stop.EXCEPTION, Stop.SYSTEM, Stop.UNMAPPED):
            done = (self.cpu.pc - state.block) % (1 << 64) // 4
            if done < state.block_operations:
                state.budget += int(state.block_operations) - done

    def _controls_written(self) -> None:
        state = self._state
        if state.stale_code:
            self.cpu.engine.uc.ctl_flush_tb()
        state.controls_written = state.stale_code = 0
        self.enter_exceptions()

    def enter_exceptions(self) -> None:
        """Have compiled code enter exceptions, by what registers say now."""
        self._levels.changed()
        self._levels.watch(NOWHERE, False)
        self._state.watch_at = 0

    def _exception(self) -> None:
        cpu = self.cpu
        exception = cpu.entries.of_engine()
        if exception.number == _HVC and is_psci(cpu.engine.x(0)):
            return self._psci()
        cpu.forget_el()
        cpu.entries.take(exception.record, exception.target_el)
        return None

    def _psci(self) -> None:
        engine = self.cpu.engine
        answer = psci_call(engine.x(0), [engine.x(n) for n in (1, 2, 3)], {})
        if isinstance(answer, int):
            engine.set_x(0, answer)
        else:
            assert answer is SystemAction.OFF
            self._over = True

    def _interrupt(self) -> None:
        self.cpu.forget_el()
        self.cpu.entries.take(_IRQ, EL1)

    def _wait(self) -> None:
        pe = self._pe
        while not pe.interrupts.pending:
            self._state.skipped += max(0, pe.deadline - self.cpu.executed)
            pe.happen()

    def _system(self) -> None:
        cpu, state = self.cpu, self._state
        accessor = self._table.get(Encoding.from_key(state.key).key)
        assert accessor is not None
        rt = state.rt
        device = self._devices.get(accessor.register)
        if state.kind == READ:
            value = device.read() if device else cpu.registers.read(accessor.register).value
            cpu.engine.put(rt, value)
        elif device:
            device.write(cpu.engine.get(rt))
        else:
            cpu.registers.write(accessor.register, cpu.engine.get(rt))
        cpu.pc = cpu.pc + 4

    def _answer(self) -> int:
        """The timer's registers, in the middle of a run."""
        state, engine = self._state, self.cpu.engine
        encoding = Encoding.from_key(state.key)
        accessor = self._table.get(encoding.key)
        device = None if accessor is None else self._devices.get(accessor.register)
        if device is None:
            return Answer.ENGINE
        if state.kind == READ:
            engine.put(state.rt, device.read())
            return Answer.DONE
        device.write(engine.get(state.rt))
        return Answer.NOTICE

    def _device(self) -> None:
        cpu, state, bus = self.cpu, self._state, self._board.peripherals.bus
        (word,) = cpu.virtual.code(cpu.pc, 1) or (0,)
        moved = transfer(word)
        assert moved is not None, hex(word)
        address = state.access_address
        if moved.load:
            cpu.engine.set_x(moved.rt, bus.read(address, moved.size))
        else:
            bus.write(address, moved.size, cpu.engine.x(moved.rt))
        access = decode(word).access
        assert access is not None, hex(word)
        cpu.pc = cpu.pc + 4


def without_spe(board: Board) -> None:
    """Have the hooks look at nothing that SPE alone needs."""
    state = board.cpu.hooks.state
    state.watch = state.suspect = 0
    board.cpu.hooks.accesses.leave_to_engine(Action.NOTICE, Action.RETURN)
