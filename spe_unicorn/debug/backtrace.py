"""The calls that led a PE to where it is, by call frame information and by frame records.

Call frame information says for each instruction where the caller's registers are. Frame records are
the pairs of X29 and X30 in memory to which X29 points by the procedure call standard.

An exception is no call: the code at its vector keeps the interrupted X29, and the interrupted place
is in ELR_ELx. So where the calls lead to the code of a vector, that place comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Final

from spe_unicorn.arch.registers.banked import ELR, VBAR
from spe_unicorn.bits import signed
from spe_unicorn.host.pe.calls.unwinding import caller_of, frame_record, registers_of
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.machine.names import Names
from spe_unicorn.symbols.frames import RETURN_ADDRESS

_FRAMES: Final = 32
"""The most frames that a backtrace shows."""
_FRAME_POINTER: Final = 29
_VECTORS, _SLOT = 0x800, 0x80
"""Bytes of a vector table, and of the code for one kind of exception."""
_B, _B_MASK = 0x1400_0000, 0xFC00_0000
_MASK: Final = (1 << 64) - 1


def numbered(calls: Iterable[str], first: int = 1) -> Iterator[str]:
    """Calls in lines, numbered from ``first``; one that is there several times in a row, once."""
    number = first
    for call, times in once_each(calls):
        yield f"  #{number:<2} {call}"
        number += times


def once_each(calls: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Each call, and how often it is there in a row; the text says so if that is more than once."""
    for call, same in groupby(calls):
        times = len(list(same))
        yield (f"{call} ({times} times)" if times > 1 else call), times


def backtrace(cpu: UnicornCPU, names: Names) -> list[tuple[int, str]]:
    """Addresses of the calls that led here, innermost first, each with a remark.

    X30 gives the caller of a function that has neither call frame information nor a frame record,
    if ``names`` names the functions. In the handler of an exception the interrupted place is among
    them, and is the last one where another Exception level was interrupted. There are at most 32
    addresses, whatever memory holds.
    """
    return _with_interrupted(cpu, names, _calls(cpu, names))


def _calls(cpu: UnicornCPU, names: Names) -> list[tuple[int, str]]:
    """The calls as memory has them."""
    result = [(cpu.pc, "")]
    registers = registers_of(cpu)
    pc = cpu.pc
    while len(result) < _FRAMES:
        rule = names.frame(pc)
        if rule is None:
            break
        if len(result) > 1 and RETURN_ADDRESS not in rule.saved:
            return result  # a function that has called another has saved its return address
        caller = caller_of(cpu, rule, registers)
        if caller is None:
            return result
        registers = caller
        pc = registers[RETURN_ADDRESS] - 4 & _MASK
        result.append((pc, ""))
    return result + _by_frame_records(cpu, names, registers, len(result))


def _with_interrupted(
    cpu: UnicornCPU, names: Names, calls: list[tuple[int, str]]
) -> list[tuple[int, str]]:
    """The calls with the place that the last exception interrupted, if they lead to its vector."""
    taken = cpu.entries.last_exception
    if taken is None or taken.target_el != cpu.el:
        return calls
    base = cpu.registers.raw(VBAR[cpu.el])
    routines = _routines(cpu, names, base)
    for number, (address, _) in enumerate(calls):
        name = names.function(address)
        if not base <= address < base + _VECTORS and name not in routines:
            continue
        elr = cpu.registers.raw(ELR[cpu.el])
        rest = calls[number + 1 :]
        if taken.from_el != cpu.el:
            interrupted, rest = [(elr, f" (interrupted at EL{taken.from_el})")], []
        else:
            interrupted = [(elr, " (interrupted)")]
        if rest and rest[0][0] in (elr, elr - 4):  # the handler has made a frame record of it
            rest = rest[1:]
        if rest and rest[0][1] and not _leaf(names.function, elr, rest[0][0] + 4):
            rest = rest[1:]  # X30 as the interrupted function's own last call has left it
        return [*calls[: number + 1], *interrupted, *rest][:_FRAMES]
    return calls


def _routines(cpu: UnicornCPU, names: Names, base: int) -> set[str]:
    """The names of what the vectors branch to: it runs as they do, and is called by nobody."""
    found = set()
    for slot in range(base, base + _VECTORS, _SLOT):
        for n, word in enumerate(cpu.virtual.code(slot, _SLOT // 4) or ()):
            if word & _B_MASK == _B:
                target = slot + 4 * n + 4 * signed(word, 26) & _MASK
                if (name := names.function(target)) is not None:
                    found.add(name)
                break
    return found


def _by_frame_records(
    cpu: UnicornCPU, names: Names, registers: dict[int, int], found: int
) -> list[tuple[int, str]]:
    """The calls further out, by the frame records that X29 points to."""
    result: list[tuple[int, str]] = []
    frame, link = registers[_FRAME_POINTER], registers[RETURN_ADDRESS]
    record = frame_record(cpu, frame)
    recorded = found > 1 or (record is not None and record[1] == link)
    if link and not recorded and _leaf(names.symbol, cpu.pc, link):
        result.append((link - 4, " (X30)"))
    while record is not None and found + len(result) < _FRAMES:
        caller, link = record
        if not link:
            break
        result.append((link - 4, ""))
        if caller <= frame:  # the stack grows down, so callers lie above
            break
        frame = caller
        record = frame_record(cpu, frame)
    return result


def _leaf(function: Callable[[int], str | None], pc: int, link: int) -> bool:
    """Whether X30 may be the return address of the function at ``pc``: it leads out of it."""
    there = function(link - 4)
    return there is not None and function(pc) != there
