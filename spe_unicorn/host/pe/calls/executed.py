"""Calls as they are executed: the calls, and exceptions, that have not been returned from.

Compiled code follows them (``native.sampling.calls``). What it does not see is told here: the ends
of runs, operations that are stepped over, and exceptions that the host takes and returns from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.exceptions.entry import ExceptionRecord
from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.operation import Calls
from spe_unicorn.bits import signed
from spe_unicorn.compiled import large_table
from spe_unicorn.host.native.sampling.calls import (
    CALLS,
    EXCEPTION_RETURN,
    FORKS,
    FRAME,
    FRAMES,
    KIND,
    KINDS,
    NEITHER,
    STACK,
    STACKS,
    begin_calls,
    followed,
    kind_of,
    on_calls,
    on_code_of_calls,
    took_exception,
)
from spe_unicorn.host.native.sampling.frames import COUNT, FIRST, ROW_WORDS, frames_here
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.native.state.sample_row import SAMPLES
from spe_unicorn.host.pe.cpu import UnicornCPU

_MASK: Final = (1 << 64) - 1
_OF_BLOCK: Final = -1
"""To :func:`followed`: the kind of the block that began last."""
_MOST_KNOWN: Final = 1 << 16
"""Different chains of calls that are remembered."""
_CALLS_OF_SOFTWARE: Final = frozenset({EC.SupervisorCall, EC.HypervisorCall, EC.MonitorCall})


class Stacks:
    """The stacks of calls of all PEs, and their frames."""

    DERIVED = ("_frames", "_table")

    def __init__(self) -> None:
        self._table = np.zeros(STACKS + 1 + FORKS, STACK)
        self._frames = large_table((STACKS + 1 + FORKS) * FRAMES, FRAME.itemsize // 8)

    @property
    def addresses(self) -> tuple[int, int]:
        """Where the tables of stacks and of frames lie."""
        return self._table.ctypes.data, self._frames.ctypes.data

    def take(self) -> int:
        """The number of a stack without calls, for a PE to be on."""
        number = int(self._table[STACKS]["count"])
        self._table[STACKS]["count"] = number + 1
        self._table[number] = 0
        self._table[number]["taken"] = 1
        return number

    def forget(self) -> None:
        """Forget all of them: each PE has to take another."""
        self._table[:] = 0


class ExecutedCalls:
    """The calls that led to the samples of one PE, as they were executed from now on.

    ``by_blocks``: compiled code follows blocks. Else each operation is told to :meth:`stepped`.
    """

    DERIVED = ("_calls", "_kinds", "_known", "_noted")
    WIRING = ("stacks",)

    def __init__(self, cpu: UnicornCPU, stacks: Stacks, *, by_blocks: bool) -> None:
        self._cpu = cpu
        self.stacks = stacks
        self._noted = large_table(SAMPLES + 1, ROW_WORDS)
        self._kinds = large_table(KINDS if by_blocks else 1, KIND.itemsize // 8)
        self._known: dict[bytes, Calls] = {}
        self._calls = np.zeros(1, CALLS)
        row = self._calls[0]
        row["current"] = stacks.take()
        row["stacks"], row["frames"] = stacks.addresses
        row["kinds"] = self._kinds.ctypes.data
        state = cpu.state
        state.led = self._noted.ctypes.data
        state.call_stacks = self._calls.ctypes.data
        if by_blocks:
            state.cover_hook = on_calls.address
            cpu.hooks.add(uc_const.UC_HOOK_EDGE_GENERATED, on_code_of_calls.address)
            cpu.engine.forget_all_code()
        cpu.hooks.blocks.forget()

    @property
    def by_blocks(self) -> bool:
        """Compiled code notes them, so that blocks with a sampled operation may run."""
        return True

    def here(self, pc: int) -> Calls:
        """Those that led to the operation at ``pc``, before which the engine stands."""
        cpu = self._cpu
        frames_here.called(cpu.engine.handle.value, cpu.state.address)
        return self._at(int(cpu.state.samples_in_ring))

    def noted(self, pcs: Sequence[int]) -> list[Calls]:
        """Those that compiled code has noted of the samples of its ring, at ``pcs``."""
        calls = [self._at(row) for row in range(len(pcs))]
        # what the next samples find when the ring is empty
        pending = int(self._cpu.state.pending)
        self._noted[:pending] = self._noted[len(pcs) : len(pcs) + pending]
        return calls

    def pending(self, pc: int, plan: int, n: int) -> Calls:
        """Those of sample ``n``, at ``pc``, of the block that ran last. The ring is empty."""
        return self._at(n)

    def _at(self, number: int) -> Calls:
        row = self._noted[number]
        key = row[FIRST : FIRST + int(row[COUNT])].tobytes()
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = tuple(np.frombuffer(key, np.uint64).tolist())
        return known

    # What happens to the PE

    def ran(self, report: RunReport) -> None:
        """A run of the engine has ended."""
        whole = report.begun and not report.before and report.done == report.operations
        self._follow(_OF_BLOCK, 0, whole=whole)

    def stepped(self, word: int, pc: int) -> None:
        """The operation ``word`` at ``pc`` was executed alone; the PE stands after it."""
        self._follow(int(kind_of(word)), pc + 4, whole=True)

    def took(self, record: ExceptionRecord, to: int, level: int) -> None:
        """An exception has been taken that returns to ``to``.

        ``level`` is the number of the stack pointer of the software that was interrupted.
        """
        called = record.syndrome is not None and record.syndrome.ec in _CALLS_OF_SOFTWARE
        state = self._cpu.state
        took_exception.called(
            self._cpu.engine.handle.value, state.address, signed(to), called, level
        )

    def returned(self) -> None:
        """The host has executed an exception return."""
        self._follow(EXCEPTION_RETURN, 0, whole=True)

    def reset(self) -> None:
        """The PE has been reset."""
        begin_calls.called(self._cpu.state.address)

    def restored(self) -> None:
        """After a restore, and after :meth:`Stacks.forget`: no call is known."""
        self._calls[0]["kind"] = NEITHER
        self._calls[0]["current"] = self.stacks.take()

    def _follow(self, kind: int, after: int, *, whole: bool) -> None:
        cpu = self._cpu
        followed.called(
            cpu.engine.handle.value,
            cpu.state.address,
            kind,
            signed(after & _MASK),
            signed(cpu.pc),
            whole,
        )
