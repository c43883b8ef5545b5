"""Operations that make the engine fail when it translates them: found, and kept from it."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.surviving import ABORTED
from spe_unicorn.host.engine.untranslatable import translation_fails
from spe_unicorn.host.native.state import CODE_WORDS
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.stops import StopHandler

_PAGE: Final = 1 << 12
_HALTS: Final = 1 << 12
"""Addresses where the engine halts, from which on they are found out anew."""
_MASK: Final = (1 << 64) - 1


class Untranslated:
    """Has one PE's engine halt before operations that it cannot translate."""

    def __init__(self, cpu: UnicornCPU, handler: StopHandler) -> None:
        self._cpu = cpu
        self._engine = cpu.engine
        self._handler = handler

    def find(self) -> None:
        """The engine gave up on the block at the PC: have it halt before the operation.

        And before all such operations of the page, as each failure costs the engine something.
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

        If that is no longer so, the engine does not halt there any more.
        """
        words = self._cpu.virtual.code(pc, 1)
        if words is not None and translation_fails(words[0]):
            return True
        self._engine.halt_at(self._engine.halts - {pc})
        self._engine.forget_code(pc, pc + 4)
        return False
