"""Memory copies and sets (FEAT_MOPS), which Python carries out at the stop.

Bytes of RAM are moved by the host, page by page. Where a byte cannot be moved so, the engine loads
and stores it: devices answer, and faults are its own, at the very byte. Watchpoints and tags have
been checked before (``host.pe.checks``), for all that one execution moves. It moves no more than
:data:`~spe_unicorn.instructions.copying.MOST` bytes, or :data:`_MOST_BY_ENGINE` of the engine's.
Where more is due, the PC stays, and interrupts are taken before the next execution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.arch.exceptions.copies import copies_enabled, mismatch
from spe_unicorn.arch.exceptions.routing import Routed, alignment_fault, default_target
from spe_unicorn.arch.exceptions.syndromes import UNDEFINED
from spe_unicorn.host.engine.engine import PSTATE, X
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.pe.checks.accesses import values_of
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.instructions.copying import (
    MOST,
    PROLOGUE,
    SET_TAGS,
    Part,
    copy_of,
    is_misaligned,
    part_of,
    wrong,
)

_MASK: Final = (1 << 64) - 1
_PAGE: Final = 4096
_FLAGS: Final = 0xF << 28
_NOWHERE: Final = -1
_MOST_BY_ENGINE: Final = 64
_LDRB, _LDTRB = 0x3940_0000, 0x3840_0800
_STRB, _STTRB = 0x3900_0000, 0x3800_0800
"""Of Wt, [Xn]."""


class Copying:
    """Carries out memory copies and sets on one PE.

    ``access`` has the engine execute a word in place of the operation at the PC; it returns whether
    that raised an exception. ``take`` takes an exception, with the address for FAR_ELx if any.
    ``tag`` gives memory an Allocation Tag: of an address, and for how many bytes.
    """

    TRANSIT = ("unfinished",)

    def __init__(
        self,
        cpu: UnicornCPU,
        access: Callable[[int], bool],
        take: Callable[[Routed, int | None], None],
        tag: Callable[[int, int], None],
    ) -> None:
        self._cpu = cpu
        self._access = access
        self._take = take
        self._tag = tag
        self.unfinished = _NOWHERE
        """The address of the operation, where its last execution has left more to do."""

    def carry_out(self, word: int) -> bool:
        """Carry out ``word``, the operation at the PC. True if it raised an exception."""
        cpu, copy = self._cpu, copy_of(word)
        self.unfinished = _NOWHERE
        if copy is None or not copies_enabled(cpu):
            self._take(Routed(default_target(cpu), UNDEFINED), None)
            return True
        values = values_of(cpu, copy)
        part = part_of(copy, *values)
        iss = wrong(part, cpu.engine.get(PSTATE))
        if iss is not None:
            self._take(mismatch(cpu, iss), None)
            return True
        if is_misaligned(part):
            self._take(alignment_fault(cpu, write=True), part.destination)
            return True
        moved = by_engine = 0
        while part.due and moved < MOST and by_engine < _MOST_BY_ENGINE:
            count = self._in_memory(part, values[1], MOST - moved)
            if not count:
                count = 16 if copy.form == SET_TAGS else 1
                if self._by_engine(part, values[1], count):
                    return True
                by_engine += count
            if copy.form == SET_TAGS:
                self._tag(part.spans(count)[0], count)
            part = part.moved(count)
            moved += count
            self._put(part)
        if part.due == 0:
            if copy.stage == PROLOGUE:
                self._put(part)
                cpu.set_pstate(cpu.pstate & ~_FLAGS)
            cpu.pc = cpu.pc + 4 & _MASK
        else:
            self.unfinished = cpu.pc
        return False

    def _put(self, part: Part) -> None:
        """Have registers hold what is left."""
        engine, copy = self._cpu.engine, part.copy
        destination, source, size = part.registers()
        engine.set_x(copy.destination, destination)
        engine.set_x(copy.size, size)
        if not copy.sets:
            engine.set_x(copy.source, source)

    def _in_memory(self, part: Part, data: int, most: int) -> int:
        """Move the next bytes that are in one page, as far as they are RAM. How many there were."""
        cpu, copy = self._cpu, part.copy
        if not isinstance(cpu.memory, RamMemory) or cpu.secure_memory is not None:
            return 0
        count = min(part.due, most)
        to, source = part.spans(1)
        for address in (to,) if copy.sets else (to, source):
            count = min(count, _PAGE - address % _PAGE if part.forward else address % _PAGE + 1)
        to, source = part.spans(count)
        stored = self._plain(to, count, write=True, unprivileged=copy.writes_unprivileged)
        if stored is None:
            return 0
        if copy.sets:
            stored[:] = bytes((data & 0xFF,)) * count
        else:
            loaded = self._plain(source, count, write=False, unprivileged=copy.reads_unprivileged)
            if loaded is None:
                return 0
            stored[:] = bytes(loaded)
        cpu.engine.forget_code(to, to + count)
        if cpu.virtual.written:
            cpu.virtual.written(to, count)
        return count

    def _plain(
        self, address: int, count: int, *, write: bool, unprivileged: bool
    ) -> memoryview | None:
        """The bytes of a page at a virtual address, if they are RAM that may be accessed."""
        cpu, virtual = self._cpu, self._cpu.virtual
        translate = virtual.translate_unprivileged if unprivileged else virtual.translate
        place = translate(address, write=write)
        if place is None or not isinstance(cpu.memory, RamMemory):
            return None
        return cpu.memory.plain(place, count, write=write)

    def _by_engine(self, part: Part, data: int, count: int) -> bool:
        """Have the engine load and store the next bytes. True if it raised an exception."""
        engine, copy = self._cpu.engine, part.copy
        pc = self._cpu.pc
        named = {copy.destination, copy.source, copy.size}
        n, t = [n for n in range(len(X)) if n not in named][:2]
        kept = engine.x(n), engine.x(t)
        to, source = part.spans(count)
        engine.set_x(t, data & 0xFF)
        try:
            for further in range(count):
                if not copy.sets:
                    engine.set_x(n, source + further & _MASK)
                    word = _LDTRB if copy.reads_unprivileged else _LDRB
                    if self._access(word | n << 5 | t):
                        return True
                    self._cpu.pc = pc
                engine.set_x(n, to + further & _MASK)
                word = _STTRB if copy.writes_unprivileged else _STRB
                if self._access(word | n << 5 | t):
                    return True
                self._cpu.pc = pc
        finally:
            engine.set_x(n, kept[0])
            engine.set_x(t, kept[1])
        return False
