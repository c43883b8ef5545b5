"""Guest memory as GDB reads and writes it: through a PE's translation, or physical.

All memory can be written, also flash and pages that the guest may only read. Devices are no memory:
reading a device has effects, and debugging has none.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.memory.descriptors import FaultRecord, acc_desc_gpr
from spe_unicorn.arch.memory.regimes import context_at
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.pe import SecurityState
from spe_unicorn.arch.rules.effective import security_state_at
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement

_PAGE: Final = 1 << 12
_MASK: Final = (1 << 64) - 1


class DebuggerMemory:
    """Memory of one board. ``physical`` is whether GDB's addresses are physical ones."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self.physical = False

    def read(self, pe: ProcessingElement, address: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``address`` on, as many as can be read."""
        found = bytearray()
        while len(found) < size:
            at = address + len(found) & _MASK
            length = min(size - len(found), _PAGE - at % _PAGE)
            place = self._place(pe, at)
            data = None if place is None else self._board.memory.read(place[0], length, place[1])
            if data is None:
                break
            found += data
        return bytes(found)

    def write(self, pe: ProcessingElement, address: int, data: bytes) -> bool:
        """Store ``data``; False, and nothing is written, if a part of it cannot be."""
        pieces = []
        done = 0
        while done < len(data):
            at = address + done & _MASK
            piece = data[done : done + _PAGE - at % _PAGE]
            place = self._place(pe, at)
            if place is None or self._board.memory.read(place[0], len(piece), place[1]) is None:
                return False
            pieces.append((place[0], piece))
            done += len(piece)
        for place_of, piece in pieces:
            self._board.memory.fill(place_of, piece)
        if pieces:
            for other in self._board.pes:
                other.resync()
        return True

    def _place(self, pe: ProcessingElement, address: int) -> tuple[int, PASpace] | None:
        """The physical address behind one of GDB's, and its address space."""
        if self.physical:
            return address, PASpace.Secure
        return translate(pe, address)


def translate(
    pe: ProcessingElement, address: int, el: int | None = None
) -> tuple[int, PASpace] | None:
    """The physical address behind a virtual one, None where nothing is mapped.

    Without ``el`` it is the translation of the PE's Exception level, whatever the permissions. With
    another ``el`` the tables of that level's regime are walked, without the PE's TLB.
    """
    cpu = pe.cpu
    if el is None or el == cpu.el:
        found = cpu.virtual.translate(address, write=False)
        if found is not None:
            secure = security_state_at(cpu, cpu.el) is not SecurityState.NON_SECURE
            return found, PASpace.Secure if secure else PASpace.NonSecure
    level = cpu.el if el is None else el
    context = context_at(cpu, level)
    for as_el in dict.fromkeys((level, max(level, 1), 0)):
        result = full_translate(context, address, acc_desc_gpr(as_el, read=True), cpu.memory)
        if not isinstance(result, FaultRecord):
            return result.paddress, result.paspace
    return None
