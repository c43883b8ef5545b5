"""Samples whose addresses and flags are worked out before their block runs, against the reference.

What a recipe needs is loaded here from memory, from a device, and from where there is nothing.
"""

from __future__ import annotations

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.memory_map import UART
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, DATA, VECTORS = 0x4000_0000, 0x4010_0000, 0x4030_0000
LIST = [
    a.ldr(1, 9),
    a.ldr(1, 1, 8),
    a.subs(31, 1, 2),
    a.csel(3, 1, 9, a.NE),
    a.ldr_reg(4, 3, 5, a.LSL, 1),
    a.str_(4, 3, 16),
    a.ldr(1, 3, 16),
    a.ldr(3, 9, 8),
    a.subs_imm(31, 6, 1),
]
"""Pointers are loaded and followed, and lost again; the flags are set twice."""
DEVICE = [*a.mov64(6, UART.base), a.ldr(7, 6, 0x18, 2), a.add(8, 9, 7), a.ldr(7, 8), a.movz(8, 0)]
"""A load whose address comes from a register of the UART."""
NOTHING = [a.movz(6, 8), a.ldr(7, 6), a.ldr(7, 7), a.movz(6, 0)]
"""A load by a pointer that cannot be loaded: the first load aborts."""
STORES = [
    a.add_imm(6, 9, 8),
    a.str_(9, 9, 0x40),
    a.ldr(1, 9, 0x40),
    a.ldr(2, 1, 8),
    a.subs(31, 8, 2),
    a.csel(7, 9, 6, a.NE),
    a.str_(2, 7, 0x80),
    a.pair(True, 2, 3, 9, 0x80),
    a.subs(31, 2, 3),
    a.csel(4, 9, 6, a.NE),
    a.ldr(5, 4, 0x40),
    a.str_(5, 4, 0xC0, 2),
    a.ldr(5, 9, 0xC0),
    a.subs(31, 5, 3),
    a.csel(4, 9, 6, a.NE),
    a.ldr(5, 4, 0x40),
    a.add_imm(8, 8, 1),
    a.subs_imm(31, 8, 1),
]
"""Pointers and flags from loads after stores: to the same place, beside it, to a part of it."""


ELR_EL1, VBAR_EL1 = (3, 0, 4, 0, 1), (3, 0, 12, 0, 0)
SKIP = [a.mrs(10, ELR_EL1), a.add_imm(10, 10, 4), a.msr(ELR_EL1, 10), a.ERET]
"""The handler of an abort: it goes on after the operation that caused it."""


def run(runner: type[Runner], words: list[int], period: int) -> Machine:
    before = [*a.mov64(9, VECTORS), a.msr(VBAR_EL1, 9), *a.mov64(9, DATA)]
    program = a.code([*before, *words, a.b(-4 * len(words))])
    image = image_of({CODE: program, VECTORS + 0x200: a.code(SKIP)}, CODE)
    machine = Machine(image, runner=runner, period=period)
    memory = machine.board.memory
    memory.write(DATA, (DATA + 0x100).to_bytes(8, "little"))
    memory.write(DATA + 8, (DATA + 0x200).to_bytes(8, "little"))
    memory.write(DATA + 0x108, (DATA + 0x300).to_bytes(8, "little"))
    machine.run(3000)
    return machine


NAMES = ["list", "device", "nothing", "stores"]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("period", [7, 64, 101])
@pytest.mark.parametrize("words", [LIST, DEVICE, NOTHING, STORES], ids=NAMES)
def test_samples_are_those_of_the_reference(words: list[int], period: int) -> None:
    fast, plain = (run(runner, words, period) for runner in (Runner, ReferenceRunner))
    assert len(plain.sampled) >= 3000 // period - 1
    assert fast.sampled == plain.sampled
    assert fast.board.cpu.pc == plain.board.cpu.pc


def test_a_pointer_that_is_followed_shows_where_it_led() -> None:
    """The operations that are sampled at one place have the address that the list says."""
    machine = run(Runner, LIST, 7)
    followed = a.ldr(1, 1, 8)
    found = {o.va for o in machine.operations if o.instruction.word == followed}
    assert found == {DATA + 0x108}
