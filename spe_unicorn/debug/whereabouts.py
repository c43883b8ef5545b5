"""Where each PE of a board is: at the end of a run, or when the user asks during it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from spe_unicorn.arch.access.syndrome_text import taken_text
from spe_unicorn.debug.backtrace import backtrace, numbered
from spe_unicorn.debug.hints import crash_of, hints
from spe_unicorn.debug.places import Place, call_place, place
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.host.pe.entry import TakenException
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement

_WAITING: Final = {"wfi": ", asleep in a WFI", "wfe": ", waiting in a WFE"}
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True)
class LastException:
    """The last exception that a PE has taken.

    It was taken at ``place``, ``after`` so many operations. ``esr`` and ``far`` are the values that
    it wrote, None for a register that it did not write.
    """

    text: str
    place: Place
    esr: int | None
    far: int | None
    from_el: int
    to_el: int
    after: int

    def __str__(self) -> str:
        return (
            f"{self.text} from {self.place} EL{self.from_el} to EL{self.to_el},"
            f" after {self.after} operations"
        )


@dataclass(frozen=True)
class Whereabouts:
    """Where one PE is, and how it came there.

    ``state`` is ``running``, ``wfi`` or ``wfe`` for a PE that waits there, or ``off``; with ``off``
    the other fields have no meaning. ``backtrace`` begins with the PC, or with the WFI or WFE.
    ``word`` is the instruction there, None where it cannot be read.
    """

    cpu: int
    state: str
    el: int
    word: int | None
    backtrace: tuple[Place, ...]
    last_exception: LastException | None
    hints: tuple[str, ...] = ()
    """What that exception may come from, if the PE is still at the level that took it."""

    @property
    def place(self) -> Place:
        """The PC."""
        return self.backtrace[0]

    @property
    def code(self) -> str:
        """The instruction at the PC, in words."""
        if self.word is None:
            return "cannot be read"
        return f"{self.word:08x}  {disassemble(self.word, self.place.pc)}"

    def __str__(self) -> str:
        if self.state == "off":
            return "is off"
        waits = _WAITING.get(self.state, "")
        lines = [f"at {self.place} EL{self.el}{waits}: {self.code}"]
        lines += numbered(map(str, self.backtrace[1:]))
        lines.append(f"  last exception: {self.last_exception or 'none was taken'}")
        lines += [f"  hint: {hint}" for hint in self.hints]
        return "\n".join(lines)


def whereabouts(board: Board) -> tuple[Whereabouts, ...]:
    """Where all PEs of a board are now. Changes nothing."""
    return tuple(_whereabouts(board, pe) for pe in board.pes)


def _whereabouts(board: Board, pe: ProcessingElement) -> Whereabouts:
    cpu = pe.cpu
    state = state_of(pe)
    (pc, _), *callers = backtrace(cpu, board.names)
    if state in _WAITING:
        pc = pc - 4 & _MASK  # the PE goes on after the WFI, which may be the end of its function
    words = cpu.virtual.code(pc, 1)
    calls = tuple(call_place(board, *call) for call in [(pc, ""), *callers])
    taken = cpu.entries.last_exception
    last = None if taken is None else _last_exception(board, taken)
    word = None if words is None else words[0]
    crash = crash_of(board, pe)
    why = () if crash is None else tuple(hints(crash))
    return Whereabouts(pe.number, state, cpu.el, word, calls, last, why)


def state_of(pe: ProcessingElement) -> str:
    """What a PE does: ``running``, ``wfi``, ``wfe`` or ``off``."""
    if not pe.s.on:
        return "off"
    if pe.s.dozing:
        return "wfe"
    asleep = pe.s.asleep or pe.handler.ending is Ending.ASLEEP
    return "wfi" if asleep else "running"


def _last_exception(board: Board, taken: TakenException) -> LastException:
    return LastException(
        taken_text(taken.kind, taken.esr, taken.far),
        place(board, taken.elr),
        taken.esr,
        taken.far,
        taken.from_el,
        taken.target_el,
        taken.after,
    )


def whereabouts_text(places: tuple[Whereabouts, ...]) -> str:
    """A few lines for each PE, each with its newline."""
    several = len(places) > 1
    return "".join(
        f"spe-unicorn: {f'cpu {place.cpu} ' if several else ''}{place}\n" for place in places
    )


def whereabouts_json(place: Whereabouts) -> dict[str, Any]:
    """The same for programs: addresses are hexadecimal text, None stands for a missing value."""
    off = place.state == "off"
    last = place.last_exception
    return {
        "state": place.state,
        **({"pc": None, "symbol": None, "line": None} if off else _place_json(place.place)),
        "el": None if off else place.el,
        "backtrace": []
        if off
        else [{**_place_json(call), "inlined": list(call.inlined)} for call in place.backtrace],
        "last_exception": None
        if last is None or off
        else {
            "text": last.text,
            **_place_json(last.place),
            "esr": None if last.esr is None else hex(last.esr),
            "far": None if last.far is None else hex(last.far),
            "from_el": last.from_el,
            "to_el": last.to_el,
            "after": last.after,
        },
        "hints": [] if off else list(place.hints),
    }


def _place_json(place: Place) -> dict[str, Any]:
    return {"pc": hex(place.pc), "symbol": place.symbol, "line": place.line}
