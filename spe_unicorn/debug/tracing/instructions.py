"""Traces of each instruction that is executed, and of each access to memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.debug.tracing.tracer import Tracer
from spe_unicorn.decode import transfer
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.host.pe.checks.observing import Note

_EVERYWHERE: Final = ((0, (1 << 64) - 1, True, True),)
_PAGE: Final = 1 << 12
_MASK: Final = (1 << 64) - 1
_TEXTS: Final = 1 << 16
"""The most instructions whose text is remembered."""
_EXCLUSIVE: Final = (0x3FC0_0000, 0x0800_0000)
"""The mask of the bits that exclusive stores have in common, and their values; CASP has them."""
_PAIR, _WIDE = 1 << 21, 1 << 31


def trace_insn(to: Tracer) -> None:
    """Each instruction that is attempted, with its disassembly."""
    checks = to.pe.handler.controls.checks
    texts: dict[tuple[int, int], str] = {}

    def text_of(note: Note) -> str:
        if note.word is None:
            return "cannot be read"
        key = note.pc, note.word
        found = texts.get(key)
        if found is None:
            if len(texts) >= _TEXTS:
                texts.clear()
            found = texts[key] = disassemble(note.word, note.pc)
        return found

    def on_executed(note: Note) -> None:
        if not to.wants(note.pc, note.el):
            return
        code = text_of(note)
        word = "........" if note.word is None else f"{note.word:08x}"
        text = f"{to.place(note.pc)} EL{note.el} {word}  {code}"
        data = {"word": None if note.word is None else word, "text": code}
        to.tell("insn", text, data, note.pc, note.el, note.number)

    checks.note(noted=True)
    to.ends.callback(lambda: checks.note(noted=False))
    to.ends.callback(checks.observers.executed.connect(on_executed))


def trace_memory(to: Tracer) -> None:
    """Each load and store: virtual address, size, and the value that is read or written."""
    to.ends.callback(to.pe.handler.controls.checks.observe(_MemoryTrace(to)))


@dataclass(slots=True)
class _Access:
    """An access that is about to be made. ``value`` is what memory holds or a device is given."""

    access: MemoryAccess
    places: tuple[tuple[int, int], ...]
    """Its pieces, each within one page: physical address and size."""
    value: int | None
    device: bool


class _MemoryTrace:
    """Is told of all loads and stores of one PE."""

    watched: Collection[tuple[int, int, bool, bool]] = _EVERYWHERE
    system: Collection[tuple[int, int]] = ()

    def __init__(self, to: Tracer) -> None:
        self._to = to
        self._cpu = to.pe.cpu
        self._made: list[_Access] = []
        self._word = 0
        self._pc = self._el = 0

    def before(self, pc: int, instruction: Instruction, accesses: Iterable[MemoryAccess]) -> None:
        """Note what is about to be accessed, and what is there."""
        self._made = []
        self._pc, self._el, self._word = pc, self._cpu.el, instruction.word
        if self._to.board.inputs.replaying or not self._to.wants(pc, self._el):
            return
        for access in accesses:
            places = self._places(access)
            if places is None:
                break  # it faults, so the accesses after it are not made
            held = self._held(places)
            device = held is None
            if device:
                if not self._to.pe.claims(places[0][0]):
                    break
                held = None if access.read else self._moved(0, access.size)
            self._made.append(_Access(access, places, held, device))

    def after(self) -> None:
        """Tell of what was accessed."""
        failed = self._failed()
        for number, made in enumerate(self._made):
            access = made.access
            if access.read:
                value = self._moved(number, access.size) if made.device else made.value
                self._tell(made, "read", value)
            if access.write:
                value = made.value if made.device else self._held(made.places)
                self._tell(made, "write", None if failed else value, failed=failed)
        self._made = []

    def _tell(self, made: _Access, what: str, value: int | None, *, failed: bool = False) -> None:
        access, physical = made.access, made.places[0][0]
        shown = "not done, the exclusive access was lost" if failed else "?"
        if value is not None:
            shown = f"{value:#x}"
        size = f"{access.size} byte{'s' if access.size != 1 else ''}"
        device = " of a device" if made.device else ""
        moved = "" if physical == access.address else f" (physical {physical:#x})"
        text = (
            f"{self._to.place(self._pc)} EL{self._el} {what} {size}{device}"
            f" at {access.address:#x}{moved}: {shown}"
        )
        data = {
            "access": what,
            "address": hex(access.address),
            "physical": hex(physical),
            "size": access.size,
            "value": None if value is None else hex(value),
            "device": made.device,
        }
        self._to.tell("memory", text, data, self._pc, self._el)

    def _places(self, access: MemoryAccess) -> tuple[tuple[int, int], ...] | None:
        """Where an access goes, None where it does not translate."""
        virtual = self._cpu.virtual
        own = access.el == self._cpu.el
        translate = virtual.translate if own else virtual.translate_unprivileged
        found = []
        address, left = access.address, access.size
        while left:
            size = min(left, _PAGE - address % _PAGE)
            physical = translate(address, write=access.write)
            if physical is None:
                return None
            found.append((physical, size))
            address, left = address + size & _MASK, left - size
        return tuple(found)

    def _held(self, places: tuple[tuple[int, int], ...]) -> int | None:
        """What memory holds, None where there is none."""
        data = b""
        for address, size in places:
            part = self._to.board.memory.read(address, size)
            if part is None:
                return None
            data += part
        return int.from_bytes(data, "little")

    def _moved(self, number: int, size: int) -> int | None:
        """The value that a load or store of a device moves, from its register."""
        moved = transfer(self._word)
        if moved is None:
            return None
        register = moved.rt2 if number and moved.rt2 is not None else moved.rt
        value = self._cpu.engine.x(register) & (1 << 8 * moved.size) - 1
        if moved.rt2 is not None and not number and size == 2 * moved.size:
            value |= self._cpu.engine.x(moved.rt2) << 8 * moved.size
        return value & (1 << 8 * size) - 1

    def _failed(self) -> bool:
        """Whether the operation was an exclusive store that did not store."""
        word = self._word
        mask, bits = _EXCLUSIVE
        if word & mask != bits or (word & _PAIR and not word & _WIDE):
            return False
        return bool(self._cpu.engine.x(word >> 16 & 31) & 1)
