"""PSCI calls with any arguments, by HVC and SMC, on several PEs."""

from __future__ import annotations

from pathlib import Path
from random import Random

from hostile import program, run, value

from tests.support import a64 as a
from tests.support.random_programs import CODE

CALLS = 100
OPERATIONS = 30_000
SMC = 0xD400_0003


def _argument(random: Random) -> int:
    return random.choice((random.randrange(10), CODE + 4 * random.randrange(400), value(random)))


def _call(random: Random) -> list[int]:
    base = random.choice((0x8400_0000, 0xC400_0000))
    function = base | random.randrange(0x20) if random.random() < 0.9 else value(random)
    if function & 0xFFFF == 8 and random.random() < 0.8:
        function += 1  # not so often off at once
    words = a.mov64(0, function)
    for register in (1, 2, 3):
        words += a.mov64(register, _argument(random))
    return [*words, random.choice((a.hvc(0), a.hvc(random.randrange(1 << 16)), SMC))]


def attack(random: Random, folder: Path) -> int:
    """One program of such calls, which all PEs execute that it turns on."""
    start = random.choice((1, 1, 2, 3))
    code = [word for _ in range(CALLS) for word in _call(random)]
    elf = program(random, code, start=start, target=random.randrange(1, start + 1))
    run(random, folder, elf, start, OPERATIONS, "--smp", str(random.randrange(1, 9)))
    return CALLS
