"""The decoder beside the engine: one word at a time is executed and its effects compared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import capstone
import pytest
from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc, UcError, arm64_const, unicorn_const

from spe_unicorn.arch.operation import NZCV, SP, CostClass, Family, Instruction, Mark
from spe_unicorn.decode import (
    branch_taken,
    branch_target,
    decode,
    effective_address,
    transfer,
)
from tests.decode.words import mutated_words, random_words

CODE = 0x1000_0000
DATA = 0x0400_0000
DATA_SIZE = 0x0800_0000
"""The data mapping, from 0: DATA, in its middle, plus what offsets and indices can add."""
PATTERN = 0x2_0000
"""Bytes on either side of DATA that hold random values."""

REGISTERS = [
    *(getattr(arm64_const, f"UC_ARM64_REG_X{n}") for n in range(31)),
    arm64_const.UC_ARM64_REG_SP,
    arm64_const.UC_ARM64_REG_NZCV,
]
"""Numbered as in the sets ``reads`` and ``writes``."""


@dataclass
class Executed:
    before: list[int]
    after: list[int]
    pc: int
    touched: set[int] = field(default_factory=set)
    """Addresses of all bytes that were read or written."""
    failed: bool = False


class OneStep:
    """An engine that executes single words with registers of our choice."""

    def __init__(self) -> None:
        self.uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(arm64_const.UC_CPU_ARM64_MAX)
        self.uc.mem_map(0, DATA_SIZE)
        self.uc.mem_map(CODE, 0x1000)
        self.uc.reg_write(arm64_const.UC_ARM64_REG_CPACR_EL1, 0x0033_0000)  # FP, SIMD and SVE
        self.random = random.Random(3)
        self.pattern = self.random.randbytes(2 * PATTERN)
        self.executed = Executed([], [], 0)
        self.uc.hook_add(
            unicorn_const.UC_HOOK_MEM_READ | unicorn_const.UC_HOOK_MEM_WRITE, self._on_memory
        )
        self.uc.hook_add(unicorn_const.UC_HOOK_INTR, self._on_exception)

    def _on_memory(
        self, uc: Uc, access: int, address: int, size: int, value: int, data: object
    ) -> None:
        self.executed.touched |= set(range(address, address + size))

    def _on_exception(self, uc: Uc, number: int, data: object) -> None:
        self.executed.failed = True
        uc.emu_stop()

    def _value(self) -> int:
        """A register value: an address in the data, or a small number either way."""
        kind = self.random.randrange(4)
        if kind < 2:
            return DATA + 64 * self.random.randrange(256)
        small = self.random.randrange(2048)
        return small if kind == 2 else -small % (1 << 64)

    def run(self, word: int) -> Executed:
        before = [self._value() for _ in range(31)]
        before += [DATA + 16 * self.random.randrange(64), self.random.randrange(16) << 28]
        self.uc.mem_write(DATA - PATTERN, self.pattern)
        self.uc.mem_write(CODE, word.to_bytes(4, "little"))
        self.uc.ctl_remove_cache(CODE, CODE + 4)
        for register, value in zip(REGISTERS, before, strict=True):
            self.uc.reg_write(register, value)
        self.executed = executed = Executed(before, before, CODE)
        try:
            self.uc.emu_start(CODE, (1 << 64) - 4, count=1)
        except UcError:
            executed.failed = True
        executed.pc = self.uc.reg_read(arm64_const.UC_ARM64_REG_PC)
        executed.after = [self.uc.reg_read(register) for register in REGISTERS]
        return executed


@pytest.fixture(scope="module")
def one_step() -> OneStep:
    return OneStep()


def candidates(words: Iterator[int]) -> Iterator[tuple[int, Instruction]]:
    """Words that change nothing but registers, memory and the PC.

    And that capstone knows: on some unallocated vector words, and on some that were allocated
    after its time, the engine aborts the whole process.
    """
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    for word in words:
        instruction = decode(word)
        harmless = instruction.mark in (Mark.NONE, Mark.HINT)
        if not harmless or instruction.cost is CostClass.SYSTEM:
            continue
        if next(disassembler.disasm_lite(word.to_bytes(4, "little"), CODE), None) is not None:
            yield word, instruction


def written_by(executed: Executed) -> int:
    pairs = zip(executed.before, executed.after, strict=True)
    return sum(1 << number for number, (old, new) in enumerate(pairs) if old != new)


def address_problems(instruction: Instruction, executed: Executed) -> Iterator[str]:
    access = instruction.access
    if access is None or instruction.sve or not executed.touched:
        return
    address = effective_address(access, CODE, executed.before[:31], executed.before[SP])
    first = min(executed.touched)
    if address != first:
        yield f"goes to {first:#x}, not {address:#x}"
    if executed.failed:
        return  # on the way; what follows speaks of the whole
    if len(executed.touched) != access.size:
        yield f"touches {len(executed.touched)} bytes, not {access.size}"
    moved = transfer(instruction.word)
    loads_base = moved is not None and moved.load and access.base in (moved.rt, moved.rt2)
    if access.base is not None and access.writeback is not None and not loads_base:
        expected = (executed.before[access.base] + access.writeback) % (1 << 64)
        if executed.after[access.base] != expected:
            yield f"leaves {executed.after[access.base]:#x} in the base, not {expected:#x}"


def branch_problems(instruction: Instruction, executed: Executed) -> Iterator[str]:
    x = executed.before[:31]
    flags = executed.before[NZCV] >> 28
    if instruction.family is not Family.BRANCH:
        expected: int | None = CODE + 4
    elif branch_taken(instruction, x, flags):
        expected = branch_target(instruction, CODE, x)
    else:
        expected = CODE + 4
    if expected is not None and executed.pc != expected:
        yield f"goes on at {executed.pc:#x}, not {expected:#x}"


def transfer_problems(
    instruction: Instruction, executed: Executed, one_step: OneStep
) -> Iterator[str]:
    moved = transfer(instruction.word)
    access = instruction.access
    if moved is None or access is None:
        return
    address = effective_address(access, CODE, executed.before[:31], executed.before[SP])
    for place, register in enumerate([moved.rt] if moved.rt2 is None else [moved.rt, moved.rt2]):
        memory = bytes(one_step.uc.mem_read(address + place * moved.size, moved.size))
        value = int.from_bytes(memory, "little", signed=moved.signed)
        if not moved.load:
            stored = (executed.before[register] if register != 31 else 0) % (1 << 8 * moved.size)
            if value != stored:
                yield f"stores {value:#x}, not {stored:#x}"
        elif register != 31 and register != access.base and moved.rt != moved.rt2:
            expected = value % (1 << (64 if moved.width64 else 32))
            if executed.after[register] != expected:
                yield f"loads {executed.after[register]:#x}, not {expected:#x}"


def differences(one_step: OneStep, words: Iterator[int]) -> list[str]:
    found = []
    completed = 0
    for word, instruction in candidates(words):
        executed = one_step.run(word)
        missed = written_by(executed) & ~instruction.writes
        problems = [f"misses writes {missed:#x}"] if missed else []
        problems += address_problems(instruction, executed)
        if not executed.failed:
            completed += 1
            problems += branch_problems(instruction, executed)
            problems += transfer_problems(instruction, executed, one_step)
        found += [f"{word:08x}: {problem}" for problem in problems]
    assert completed > 100  # most words do run; else this compares nothing
    return found


def test_mutated_words_do_what_they_say(one_step: OneStep) -> None:
    assert differences(one_step, mutated_words(5_000)) == []


@pytest.mark.slow
def test_random_words_do_what_they_say(one_step: OneStep) -> None:
    assert differences(one_step, random_words(30_000)) == []


def test_dc_zva_zeroes_the_block_that_the_access_names(one_step: OneStep) -> None:
    dc_zva_x3 = 0xD50B_7423
    access = decode(dc_zva_x3).access
    assert access is not None
    runs = [one_step.run(dc_zva_x3) for _ in range(16)]
    completed = [run for run in runs if not run.failed]
    assert completed
    for run in completed:
        address = effective_address(access, CODE, run.before[:31], run.before[SP])
        assert run.touched == set(range(address, address + access.size))
