"""The report of a run that cannot go on: where, why, the registers, and how it got there."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from spe_unicorn.arch.exceptions.syndromes import EC, Syndrome
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
from spe_unicorn.arch.rules.effective import security_state_at
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.memory_map import wanting

_FRAMES: Final = 32
"""Frames that a backtrace shows."""
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
    lines += _registers(board)
    nowhere = _nowhere(board)
    if nowhere is not None:
        ram = f"RAM is {board.ram.base:#x} to {board.ram.base + board.ram.size - 1:#x}"
        lines.append(f"  nothing is at physical address {nowhere:#x}; {ram}")
    lines.append("backtrace by frame pointer:")
    for number, (address, how) in enumerate(backtrace(board)):
        lines.append(f"  #{number:<2} {place(board, address)}{how}")
    if nowhere is not None:
        lines.append(f"hint: {wanting(nowhere)}")
    if failure.hint:
        lines.append(f"hint: {failure.hint}")
    return "\n".join(lines) + "\n"


def place(board: Board, address: int) -> str:
    """An address with its symbol, if it has one."""
    symbol = board.image.symbolize(address) if board.image is not None else None
    return f"{address:#x}" + (f" <{symbol}>" if symbol else "")


def _place(board: Board, pc: int) -> Iterator[str]:
    words = board.running.cpu.read_code(pc, 1)
    code = "cannot be read" if words is None else f"{words[0]:08x}  {disassemble(words[0], pc)}"
    yield f"  PC   {place(board, pc)} at EL{board.running.cpu.el}: {code}"


def _registers(board: Board) -> Iterator[str]:
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
    syndrome = _SYNDROMES[max(cpu.el, EL1)]
    values = [(register.__name__, cpu.registers.raw(register)) for register in syndrome]
    yield "  " + "  ".join(f"{name} {value:#x}" for name, value in values)


def _nowhere(board: Board) -> int | None:
    """The physical address of a data abort where nothing is, if that is why the board failed."""
    cpu = board.running.cpu
    esr, far, elr = (cpu.registers.raw(register) for register in _SYNDROMES[max(cpu.el, EL1)])
    syndrome = Syndrome.of_esr(esr)
    if elr != cpu.pc or syndrome.ec not in (EC.DataAbort, EC.DataAbort + 1):
        return None
    physical = cpu.translate(far, write=False)
    space = PASpace(security_state_at(cpu, cpu.el))
    there = physical is None or board.memory.read(physical, 1, space) is not None
    return None if there else physical


def backtrace(board: Board) -> list[tuple[int, str]]:
    """Addresses of the calls that led here, innermost first, each with a remark.

    Follows the frame records that X29 points to. A function that has made none yet, or needs none,
    is found by X30.
    """
    cpu = board.running.cpu
    frame, link = cpu.engine.x(29), cpu.engine.x(30)
    result = [(cpu.pc, "")]
    record = _frame(board, frame)
    if link and (record is None or record[1] != link) and _leaf(board, cpu.pc, link):
        result.append((link - 4, " (X30)"))
    while record is not None and len(result) < _FRAMES:
        caller, link = record
        if not link:
            break
        result.append((link - 4, ""))
        if caller <= frame:  # the stack grows down, so callers lie above
            break
        frame = caller
        record = _frame(board, frame)
    return result


def _frame(board: Board, address: int) -> tuple[int, int] | None:
    """The frame record at an address: the caller's frame pointer, and the return address."""
    data = board.running.cpu.read_virtual(address, 16) if address and address % 8 == 0 else None
    return None if data is None else struct.unpack("<QQ", data)


def _leaf(board: Board, pc: int, link: int) -> bool:
    """Whether X30 may be the return address of the function at ``pc``: it leads out of it."""
    if board.image is None:
        return False
    here, there = _function(board.image, pc), _function(board.image, link - 4)
    return there is not None and here != there


def _function(image: Image, address: int) -> str | None:
    symbol = image.symbolize(address)
    return None if symbol is None else symbol.partition("+")[0]
