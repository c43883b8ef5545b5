"""Finds operations that make the engine fail when it translates them, and halts it before them."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.surviving import ABORTED
from spe_unicorn.host.engine.untranslatable import translation_fails
from spe_unicorn.host.native.state.block_table import CODE_WORDS
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import StopHandler

_PAGE: Final = 1 << 12
_HALTS: Final = 1 << 12
"""How many addresses to halt at are kept. Then all are forgotten, to be found again."""
_MASK: Final = (1 << 64) - 1


class Untranslated:
    """Has one PE's engine halt before operations that it cannot translate."""

    def __init__(self, cpu: UnicornCPU, handler: StopHandler) -> None:
        self._cpu = cpu
        self._engine = cpu.engine
        self._handler = handler

    def find(self) -> None:
        """Have the engine halt before the operation of the block at the PC that it failed at.

        It halts before all such operations of the page, as an engine survives few failures.
        """
        pc = self._cpu.pc
        operations = min((_PAGE - pc % _PAGE) // 4, CODE_WORDS)
        words = self._cpu.virtual.code(pc, operations) or ()
        found = {pc + 4 * n & _MASK for n, word in enumerate(words) if translation_fails(word)}
        if not found or self._engine.exhausted:
            self._handler.status = ABORTED
            self._handler.idle()
            return
        halts = self._engine.halts
        self._engine.halt_at(found | (halts if len(halts) < _HALTS else set()))

    def is_at(self, pc: int) -> bool:
        """Whether the engine cannot translate the operation at ``pc``, where it halts.

        If it can, since the code has changed, the engine no longer halts there.
        """
        words = self._cpu.virtual.code(pc, 1)
        if words is not None and translation_fails(words[0]):
            return True
        self._engine.halt_at(self._engine.halts - {pc})
        self._engine.forget_code(pc, pc + 4)
        return False
