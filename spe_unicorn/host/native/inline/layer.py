"""Counting inline: the engine's call of the block hook replaced in place by a subtraction.

The engine puts a call of the block hook before each block that it translates. Once a block has
run twice, every byte of that call is compared with the byte that is expected. Then the call is
replaced by what the hook does for nearly every block: subtract, add up what the block holds, go on.
If one byte differs, the block stays as it is, and is not tried again. Blocks that a run may have to
look at are never replaced.

This is an optional layer (ADR 0030). It changes nothing that anybody can see except the time that a
run takes. What it writes is derived. It is given up together with the translations that it changes.
"""

from __future__ import annotations

import weakref
from typing import Final

import numpy as np

from spe_unicorn.cores.predictor import resolve_at
from spe_unicorn.host.engine.engine import Engine
from spe_unicorn.host.engine.known import lookup_by, slow_stores_by
from spe_unicorn.host.engine.near_memory import memory_near, unmap
from spe_unicorn.host.native.inline.replacing import STUBS
from spe_unicorn.host.native.inline.shared import INLINE, SITES
from spe_unicorn.host.native.inline.written import STUB
from spe_unicorn.host.native.state.whole import State

_TIMES: Final = 4
"""How often blocks may be replaced again that no run has to see any more."""


class Inline:
    """Inline counting on one engine.

    Nothing is replaced before :meth:`prepare` has found memory for stubs. That needs the address of
    translated code, so some code has to run first.
    """

    DERIVED = ("_numbers", "_sites", "_begin", "_reasons", "_allowed")

    def __init__(self, engine: Engine, state: State, hook: int) -> None:
        self._reasons: list[str] = []
        """What keeps blocks from counting themselves, for the time being or for good."""
        self._engine = engine
        self._state = state
        self._sites = np.zeros(SITES, np.int64)
        self._numbers = np.zeros(1, INLINE)
        self._allowed = 0
        """How often :meth:`allow` did so."""
        self._begin = 0
        """Where the memory for stubs begins, 0 before there is any; -1 if there is none."""
        self._numbers["sites"] = self._sites.ctypes.data
        self._numbers["hook"] = hook
        state.inline = self._numbers.ctypes.data
        self._numbers["engine"] = engine.handle.value
        self._numbers["state"] = state.address
        self._numbers["model"] = state.model
        self._numbers["predictor"] = state.predictor
        self._numbers["resolve_at"] = resolve_at.address
        self._numbers["lookup"] = lookup_by()
        self._numbers["page_bits"] = engine.page_bits
        self._numbers["reset_dirty"] = slow_stores_by()
        engine.code_forgotten.wire(self._forget)

    @property
    def prepared(self) -> bool:
        """Whether memory for stubs has been looked for."""
        return self._begin != 0

    @property
    def numbers(self) -> tuple[int, int]:
        """How many blocks were replaced so far; how many had code that was not expected."""
        return int(self._numbers["patched"][0]), int(self._numbers["refused"][0])

    @property
    def anew(self) -> int:
        """How often a block that counts itself was written anew, to count other things."""
        return int(self._numbers["anew"][0])

    @property
    def why_not(self) -> str | None:
        """What keeps blocks from counting themselves; None if nothing does."""
        return self._reasons[0] if self._reasons else None

    def stop(self, why: str) -> None:
        """Replace no blocks, and give up the replaced ones, until :meth:`resume` of ``why``."""
        if why not in self._reasons:
            self._reasons.append(why)
        self._state.inline = 0
        self.give_up()

    def resume(self, why: str) -> None:
        """Take back the reason of a :meth:`stop`. Without any reason blocks are replaced again."""
        if why not in self._reasons:
            return
        self._reasons.remove(why)
        if not self._reasons:
            self._state.inline = self._numbers.ctypes.data
            if self._state.model:  # `accesses` has to see each block from the first time on
                self._engine.forget_all_code()

    def call(self, hook: int) -> None:
        """Have stubs call the hook at another address, where no block has a stub."""
        self._numbers["hook"] = hook

    def tell(self, told: int, hook: int, user: int) -> None:
        """Have ``hook`` told each time a block begins whose address a table has (``told``)."""
        self._numbers["told"], self._numbers["on_told"] = told, hook
        self._numbers["told_user"] = user

    def never(self, marks: int) -> None:
        """From now on never replace a block with one of ``marks``: a run may have to see it."""
        seen = int(self._numbers["seen"][0])
        if marks & ~seen:
            self._numbers["seen"] = seen | marks
            self.give_up()

    def allow(self, marks: int) -> None:
        """No run has to see blocks with other marks than ``marks`` any more. The engine stands.

        All code is translated anew, so it is done :data:`_TIMES` times and no more: guests trap and
        allow FP by turns.
        """
        seen = int(self._numbers["seen"][0])
        if seen & ~marks and self._allowed < _TIMES:
            self._allowed += 1
            self._numbers["seen"] = seen & marks
            self._engine.forget_all_code()

    def give_up(self) -> None:
        """Have the blocks that count themselves call the hook again, if there are any."""
        if int(self._numbers["free"][0]) > self._begin:
            self._engine.forget_all_code()

    def prepare(self) -> None:
        """Find memory for stubs once code has run. If it is full, empty it. The engine stands."""
        numbers = self._numbers
        if self._begin > 0:
            if numbers["free"][0] + STUB > numbers["end"][0]:
                self._engine.forget_all_code()
        elif not self._begin and (place := int(numbers["place"][0])):
            self._begin = memory_near(place, STUBS)
            if self._begin > 0:
                weakref.finalize(self._engine.uc, unmap, self._begin, STUBS)
                self._numbers["begin"] = self._begin
                self._numbers["end"] = self._begin + STUBS
                self._numbers["free"] = self._begin
            else:
                self.stop("the host gives no memory near the engine's code")

    def _forget(self) -> None:
        """The engine has no translated code any more."""
        self._sites.fill(0)
        self._numbers["free"] = max(self._begin, 0)
        self._numbers["common"] = self._numbers["looked_up"] = 0
