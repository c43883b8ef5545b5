"""Answers accesses to registers that the engine lacks, in the middle of anybody's run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.access.verdicts import SysRegTable, Undefined, access
from spe_unicorn.host.native.state.actions import READ, Answer
from spe_unicorn.host.native.state.ledger import register_written
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.access import monitor_registers
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.plugin.around import Raised, UsersHandler

_DONE, _ENGINE, _STOP = int(Answer.DONE), int(Answer.ENGINE), int(Answer.STOP)


class Answers:
    """Called by the hooks at an MRS or MSR. In runs of the attachment's the engine stops for it.

    ``stop`` stops the engine.
    """

    def __init__(
        self,
        cpu: UnicornCPU,
        table: SysRegTable,
        handler: UsersHandler,
        interrupts: Raised,
        stop: Callable[[], None],
    ) -> None:
        self._cpu = cpu
        self._table: Final = table
        self._handler = handler
        self._interrupts = interrupts
        self._stop = stop

    def __call__(self) -> int:
        """What the hooks are to do."""
        try:
            return self._decide()
        except BaseException as error:
            self._raise(error)
            return _DONE

    def _decide(self) -> int:
        cpu, handler = self._cpu, self._handler
        state = cpu.hooks.state
        running = self._interrupts.running
        accessor = self._table.get(state.key)
        if not running:
            register_written(state)  # the user may have written registers
        if monitor_registers.is_engines(state.key):
            handler.system.stopped()
            return handler.system.answer()
        cpu.forget_el()
        verdict = None if accessor is None else access(cpu, accessor, read=state.kind == READ)
        if verdict is None or isinstance(verdict, Undefined):
            return _ENGINE
        if running:
            return _STOP
        handler.error = None
        handler.handle(Stop.SYSTEM)
        handler.system.nested_access = None  # nothing was sampled
        if handler.error is not None:
            self._raise(handler.error)
        return _DONE

    def _raise(self, error: BaseException) -> None:
        """Stop the engine and have the binding raise ``error``, as for one in a user's hook."""
        self._cpu.engine.uc._hook_exception = error
        self._cpu.pc = self._cpu.pc  # written, it is where the engine leaves its block
        self._stop()
