"""The report of a run that cannot go on: where, why, the registers, and how it got there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spe_unicorn.arch.pe import EL1
from spe_unicorn.arch.registers.system import (
    ELR_EL1,
    ELR_EL2,
    ELR_EL3,
    ESR_EL1,
    ESR_EL2,
    ESR_EL3,
    FAR_EL1,
    FAR_EL2,
    FAR_EL3,
)
from spe_unicorn.debug.backtrace import backtrace, numbered
from spe_unicorn.debug.hints import Crash, crash_of, hints, is_ours
from spe_unicorn.debug.places import call_place, place
from spe_unicorn.debug.whereabouts import whereabouts
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.machine.board import Board

_COLUMNS: Final = 4
_SYNDROMES: Final = {
    1: (ESR_EL1, FAR_EL1, ELR_EL1),
    2: (ESR_EL2, FAR_EL2, ELR_EL2),
    3: (ESR_EL3, FAR_EL3, ELR_EL3),
}
_FLAGS: Final = ((31, "N"), (30, "Z"), (29, "C"), (28, "V"), (9, "D"), (8, "A"), (7, "I"), (6, "F"))


def failure_report(board: Board) -> str:
    """What a person needs to see of a board that stopped for good. Ends with a newline.

    Raises ValueError for a board that did not fail.
    """
    failure = board.running.handler.failure
    if failure is None:
        raise ValueError("the board has not failed")
    lines = [f"spe-unicorn: the guest cannot go on: {failure.reason}"]
    if len(board.pes) > 1:
        lines.append(f"  on cpu {board.running.number}")
    lines += _place(board, failure.pc)
    crash = crash_of(board, board.running)
    lines += _registers(board, crash)
    nowhere = None if crash is None else crash.physical
    if nowhere is not None:
        ram = f"RAM is {board.ram.base:#x} to {board.ram.base + board.ram.size - 1:#x}"
        lines.append(f"  nothing is at physical address {nowhere:#x}; {ram}")
    lines.append("backtrace by frame pointer:")
    found = backtrace(board.running.cpu, board.names)
    lines += numbered((f"{call_place(board, at)}{how}" for at, how in found), first=0)
    for other in whereabouts(board):
        if other.cpu != board.running.number:
            lines.append(f"cpu {other.cpu} {other}")
    if crash is not None:
        lines += [f"hint: {hint}" for hint in hints(crash)]
    if failure.hint and (crash is None or not is_ours(crash)):
        lines.append(f"hint: {failure.hint}")
    return "\n".join(lines) + "\n"


def _place(board: Board, pc: int) -> Iterator[str]:
    words = board.running.cpu.virtual.code(pc, 1)
    code = "cannot be read" if words is None else f"{words[0]:08x}  {disassemble(words[0], pc)}"
    yield f"  PC   {place(board, pc)} at EL{board.running.cpu.el}: {code}"


def _registers(board: Board, crash: Crash | None) -> Iterator[str]:
    cpu = board.running.cpu
    *general, sp, _ = cpu.engine.general()
    values = [(f"X{number}", value) for number, value in enumerate(general)]
    values.append(("SP", sp))
    for start in range(0, len(values), _COLUMNS):
        yield "  " + "  ".join(
            f"{name:<4} {value:016x}" for name, value in values[start : start + _COLUMNS]
        )
    pstate = cpu.pstate
    flags = "".join(letter if pstate >> bit & 1 else "-" for bit, letter in _FLAGS)
    stack = "h" if pstate & 1 else "t"
    yield f"  PSTATE {pstate:#x}: {flags[:4]} {flags[4:]} EL{cpu.el}{stack}"
    target = cpu.el if crash is None else crash.target_el
    syndrome = _SYNDROMES[max(target, EL1)]
    values = [(register.__name__, cpu.registers.raw(register)) for register in syndrome]
    yield "  " + "  ".join(f"{name} {value:#x}" for name, value in values)
