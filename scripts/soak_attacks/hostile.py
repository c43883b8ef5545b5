"""Bare-metal programs that mean their machine no good, as ELF files, and runs of them.

A program boots at EL1, EL2 or EL3, sets vectors at every level that step over what goes wrong,
writes what it likes into control registers, fills its registers and goes to its code at any level
from there down. Memory lies as in the tests' random programs, whose code can be part of it.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from random import Random

from attack import AttackError
from command import call

import spe_unicorn.arch.registers as rooms_of_registers
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import core_names
from tests.decode.words import REGISTERS, TYPES
from tests.support import a64 as a
from tests.support.elf_builder import RAM, Elf, Load
from tests.support.random_programs import (
    BUFFER,
    CODE,
    DATA,
    HOLE,
    STACK,
    UART_BASE,
    random_program,
)
from tests.support.random_runs import settings_of

_FP16 = ((0x8F7E_0C00, 0x0E78_0800), (0x9F60_C400, 0x0E40_0400))
"""Mask and value of two groups of words, on some of which the engine's translator asserts."""
VECTORS, BOOT = RAM, RAM + 0x2000
MEMORY = "16M"
_FIXED = {16: DATA, 17: DATA + 0x400, 18: DATA + 0x800, 19: DATA, 21: UART_BASE, 22: HOLE}
_FIXED |= {23: BUFFER, 24: STACK, 25: CODE, 30: CODE}
"""Registers that programs begin with, as the random programs have them."""
_OP1 = {1: 0, 2: 4, 3: 6}
"""op1 of the registers of an Exception level."""


def _elr(el: int) -> tuple[int, int, int, int, int]:
    return (3, _OP1[el], 4, 0, 1)


def _vbar(el: int) -> tuple[int, int, int, int, int]:
    return (3, _OP1[el], 12, 0, 0)


def _registers() -> list[type[SysReg]]:
    for module in pkgutil.iter_modules(rooms_of_registers.__path__):
        import_module(f"{rooms_of_registers.__name__}.{module.name}")
    found, todo = [], [SysReg]
    while todo:
        subclasses = todo.pop().__subclasses__()
        todo += subclasses
        found += [register for register in subclasses if hasattr(register, "encoding")]
    return sorted(found, key=lambda register: register.encoding)


_SYSTEM_REGISTERS = _registers()
_KNOWN_WORDS = [row[0] for row in TYPES] + [row[0] for row in REGISTERS]


def value(random: Random) -> int:
    """A value for a register: any, with few bits, with nearly all, or near an edge."""
    bits = random.getrandbits(64)
    return random.choice(
        (
            bits,
            bits & random.getrandbits(64) & random.getrandbits(64),
            bits | random.getrandbits(64) | random.getrandbits(64),
            1 << random.randrange(64),
            random.choice((0, 1, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, (1 << 60) - 1)),
            DATA + random.randrange(1 << 16),
            CODE + 4 * random.randrange(1 << 10),
        )
    )


def control(random: Random, rt: int = 0) -> list[int]:
    """Code that writes anything into any register."""
    word = random.choice(_SYSTEM_REGISTERS).encoding.instruction(rt, read=False)
    return [*a.mov64(rt, value(random)), word]


def hostile_word(random: Random) -> int:
    """Any instruction word."""
    kind = random.randrange(40)
    if kind < 15:
        return random.getrandbits(32)
    if kind == 15:
        mask, value = random.choice(_FP16)
        return random.getrandbits(32) & ~mask | value
    if kind < 28:
        word = random.choice(_KNOWN_WORDS)
        for _ in range(random.randrange(4)):
            word ^= 1 << random.randrange(32)
        return word
    if kind < 32:  # any MRS, MSR, SYS, SYSL, hint, barrier or MSR (immediate)
        return 0xD500_0000 | random.getrandbits(22)
    register = random.choice(_SYSTEM_REGISTERS).encoding
    return register.instruction(random.randrange(32), read=random.random() < 0.5)


def random_loop(random: Random) -> list[int]:
    """The loop of one of the tests' random programs."""
    seed = random.getrandbits(40)
    image = random_program(seed, settings_of(3 * seed, spe=random.random() < 0.5))
    data = next(s.data for s in image.segments if CODE <= s.address < DATA)
    return [int.from_bytes(data[n : n + 4], "little") for n in range(0, len(data), 4)]


def _vectors(el: int) -> bytes:
    """Step over whatever happens; after a fetch that failed go on somewhere in the code."""
    handler = [
        a.mrs(26, (3, _OP1[el], 5, 2, 0)),  # ESR
        a.lsr_imm(26, 26, 26),
        a.sub_imm(27, 26, 0x20),
        a.lsr_imm(27, 27, 2),
        a.cbz(27, 5 * 4),  # EC 0x20 to 0x23: instruction aborts, PC alignment
        a.mrs(27, _elr(el)),
        a.add_imm(27, 27, 4),
        a.msr(_elr(el), 27),
        a.ERET,
        a.mrs(27, (3, 3, 14, 0, 2)),  # CNTVCT_EL0
        a.and_low_bits(27, 27, 0, 8),
        a.movz(26, CODE >> 16, 16),
        a.add(27, 27, 26),
        a.and_low_bits(27, 27, 2, 62),
        a.msr(_elr(el), 27),
        a.ERET,
    ]
    return a.code(handler).ljust(0x80, b"\0") * 16


def _boot(random: Random, start: int, target: int, controls: int) -> list[int]:
    words = []
    for el in range(1, start + 1):
        words += [*a.mov64(0, VECTORS + 0x800 * (el - 1)), a.msr(_vbar(el), 0)]
    words += [a.movz(0, 0x33, 16), a.msr((3, 0, 1, 0, 2), 0)]  # CPACR_EL1
    if start >= 2:
        hcr = 1 << 31 | (value(random) if controls and random.random() < 0.3 else 0)
        words += [*a.mov64(0, hcr), a.msr((3, 4, 1, 1, 0), 0)]
    if start == 3:
        scr = 0x531 | (value(random) if controls and random.random() < 0.3 else 0)
        words += [*a.mov64(0, scr), a.msr((3, 6, 1, 1, 0), 0)]
    for _ in range(controls):
        words += control(random)
    for register in range(31):
        words += a.mov64(register, _FIXED.get(register, value(random)))
    spsr = random.choice((0, 0, 0x3C0)) | (0 if target == 0 else target << 2 | 1)
    words += [a.movz(26, spsr), a.msr((3, _OP1[start], 4, 0, 0), 26), *a.mov64(26, CODE)]
    return [*words, a.msr(_elr(start), 26), a.ERET]


def program(
    random: Random, code: Sequence[int], *, start: int, target: int, controls: int = 0
) -> bytes:
    """An ELF file that boots at EL ``start`` and executes ``code`` at EL ``target``, in a loop."""
    words = [*code, a.b(-4 * len(code))] if len(code) < 1 << 20 else [*code]
    data = b"".join(value(random).to_bytes(8, "little") for _ in range(0x800))
    return Elf(
        [
            Load(VECTORS, b"".join(_vectors(el) for el in (1, 2, 3)), flags=7),
            Load(BOOT, a.code(_boot(random, start, target, controls)), flags=7),
            Load(CODE, a.code(words), flags=7),
            Load(DATA, data, flags=7),
        ],
        entry=BOOT,
    ).build()


def levels(random: Random) -> tuple[int, int]:
    """Where a program boots, and where its code is executed."""
    start = random.choice((1, 2, 3))
    return start, random.randrange(start + 1)


def options(random: Random, folder: Path) -> Iterator[str]:
    """What else somebody may have asked for."""
    yield from ("--core", random.choice(core_names()))
    if random.random() < 0.2:
        yield from ("--model", "cache")
    if random.random() < 0.2:
        yield from ("--smp", str(random.randrange(2, 5)))
    if random.random() < 0.15:
        yield "--check-alignment"
    if random.random() < 0.3:
        kinds = random.sample(("sysreg", "exception", "spe"), random.randrange(1, 4))
        yield from ("--trace", f"{','.join(kinds)}:{folder / 'trace'}")
    if random.random() < 0.5:
        yield from ("--json", str(folder / "facts.json"))
    yield from ("--seed", str(random.getrandbits(16)))


def run(random: Random, folder: Path, elf: bytes, start: int, operations: int, *more: str) -> None:
    """Run a program by command, with other options each time, and read back what it wrote.

    Raises AttackError if the command, or one of its outputs, is not as it should be.
    """
    file = folder / "hostile.elf"
    records = folder / f"out.{random.choice(('spe', 'jsonl', 'data'))}"
    file.write_bytes(elf)
    words = [*options(random, folder), *more, "--ram", MEMORY, "--el", str(start), "--quiet"]
    words += ["--max-insns", str(operations), "--timeout", "60"]
    if random.random() < 0.3:
        words = ["record", "-c", str(random.randrange(1, 3000)), "-o", str(records), *words]
    else:
        words = ["run", *words]
        if random.random() < 0.5:
            words += ["-o", str(records)]
        if random.random() < 0.4:
            words += ["--warn", random.choice(("misuse", "error"))]
    result = call(*words, file, stdin=b"input\n" * random.randrange(3))
    if result.exit_code == 2:
        raise AttackError(f"spe-unicorn {' '.join(words)}: refused: {result.stderr}")
    facts = folder / "facts.json"
    if facts.exists():
        json.loads(facts.read_text())
    if records.exists() and records.suffix != ".jsonl":
        read_back(records)


def read_back(records: Path) -> None:
    """Decode what the command itself wrote. Raises AttackError if there is a bad packet."""
    decoded = call("decode", "--format", "json", records)
    empty = records.suffix == ".spe" and not records.stat().st_size
    if decoded.exit_code and not empty:
        raise AttackError(f"decode {records.name}: {decoded.exit_code}: {decoded.stderr[:500]}")
