"""Calls by call frame information: for each instruction, where the caller's registers are.

Where there is none of it, the calls further out are those of the frame records to which X29 points.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from spe_unicorn.arch.operation import Calls
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.host.native.sampling.frames import DEPTH
from spe_unicorn.host.pe.calls.frames import Named, is_caller, without_signature
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.symbols.frames import RETURN_ADDRESS, FrameRule

_SP: Final = 31
"""DWARF's number of SP."""
_FRAME_POINTER: Final = 29
_MASK: Final = (1 << 64) - 1
_MOST_RULES: Final = 1 << 16
"""Rules that are remembered, by address."""


def registers_of(cpu: UnicornCPU) -> dict[int, int]:
    """All registers that a rule can name, by DWARF's numbers."""
    values = {number: cpu.engine.x(number) for number in range(_SP)}
    values[_SP] = cpu.engine.get(SP)
    return values


def caller_of(cpu: UnicornCPU, rule: FrameRule, registers: dict[int, int]) -> dict[int, int] | None:
    """The registers of the caller; None without a caller, or where memory cannot be read."""
    if rule.outermost or rule.register not in registers:
        return None
    frame = registers[rule.register] + rule.offset & _MASK
    if frame < registers[_SP]:  # the stack grows down, so callers lie above
        return None
    values = dict(registers)
    for number, offset in rule.saved.items():
        data = cpu.virtual.read(frame + offset & _MASK, 8)
        if data is None:
            return None
        values[number] = int.from_bytes(data, "little")
    values[_SP] = frame
    values[RETURN_ADDRESS] = without_signature(values[RETURN_ADDRESS])
    return values if values[RETURN_ADDRESS] else None


def frame_record(cpu: UnicornCPU, address: int) -> tuple[int, int] | None:
    """The frame record at an address: the caller's frame pointer, and the return address."""
    data = cpu.virtual.read(address, 16) if address and address % 8 == 0 else None
    return None if data is None else struct.unpack("<QQ", data)


def frame_records(cpu: UnicornCPU, frame: int) -> Iterator[int]:
    """The return addresses of the frame records from one on; who asks bounds their number."""
    while (record := frame_record(cpu, frame)) is not None:
        caller, link = record
        if not link:
            return
        yield without_signature(link)
        if caller <= frame:  # the stack grows down, so callers lie above
            return
        frame = caller


class Unwinder:
    """The calls that led to the samples of one PE, by call frame information of ``names``.

    It looks at registers and memory right before the sampled operation, which the runner steps to.
    """

    DERIVED = ("_rules",)

    def __init__(self, cpu: UnicornCPU, names: Named) -> None:
        self._cpu = cpu
        self._names = names
        self._rules: dict[int, FrameRule | None] = {}

    @property
    def by_blocks(self) -> bool:
        """The runner steps to each sampled operation."""
        return False

    def here(self, pc: int) -> Calls:
        """Those that led to the operation at ``pc``, before which the engine stands.

        To one on a wrong path the same calls led as to where the engine stands.
        """
        cpu = self._cpu
        pc, registers = cpu.pc, registers_of(cpu)
        found: list[int] = []
        while len(found) < DEPTH:
            rule = self._rule(pc)
            if rule is None:
                return self._by_records(pc, registers, found)
            if found and RETURN_ADDRESS not in rule.saved:
                break  # a function that has called another has saved its return address
            caller = caller_of(cpu, rule, registers)
            if caller is None:
                break
            registers = caller
            found.append(registers[RETURN_ADDRESS])
            pc = found[-1] - 4 & _MASK
        return tuple(found)

    def noted(self, pcs: Sequence[int]) -> list[Calls]:
        """Compiled code notes nothing."""
        raise RuntimeError(f"{len(pcs)} samples were noted, and each was to be stepped to")

    def pending(self, pc: int, plan: int, n: int) -> Calls:
        """No block with a sampled operation runs."""
        sample = f"sample {n} at {pc:#x}, of plan {plan:#x},"
        raise RuntimeError(f"{sample} is pending, and it was to be stepped to")

    def _by_records(self, pc: int, registers: dict[int, int], found: list[int]) -> Calls:
        """What is found, and the calls further out, where there is no call frame information."""
        recorded = []
        for address in frame_records(self._cpu, registers[_FRAME_POINTER]):
            recorded.append(address)
            if len(found) + len(recorded) >= DEPTH:
                break
        link = without_signature(registers[RETURN_ADDRESS])
        if not found and link and is_caller(self._names, pc, link, recorded):
            recorded.insert(0, link)
        return tuple((found + recorded)[:DEPTH])

    def _rule(self, pc: int) -> FrameRule | None:
        if pc not in self._rules:
            if len(self._rules) >= _MOST_RULES:
                self._rules.clear()
            self._rules[pc] = self._names.frame(pc)
        return self._rules[pc]
