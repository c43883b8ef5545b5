"""Code that is patched through another mapping than the one that it runs in."""

from __future__ import annotations

import struct
from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import SysReg
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
FUNCTION = CODE + 0x1000
TABLE = CODE + 0x2000
ALIAS = 0x8000_0000 - CODE
"""What is to be added to an address for its second mapping, where nothing may be executed."""
MMU_ON = 0x30D0_0801
TCR = 25 | 25 << 16 | 0b10 << 30 | 0b10 << 32
"""39 bits of addresses, tables of 4 KiB pages."""


def msr(register: type[SysReg], rt: int) -> int:
    return a.msr(astuple(register.encoding), rt)


def tables() -> bytes:
    """1 GiB at 0x40000000 as it is, and once more at 0x80000000 with UXN and PXN."""
    block = CODE | 1 << 10 | 0b01
    return struct.pack("<512Q", 0, block, block | 0b11 << 53, *[0] * 509)


def function(value: int) -> list[int]:
    return [a.movz(0, value), a.ret()]


def patched_run(maintenance: list[int]) -> list[int]:
    """What the function returns at first, and after a patch and ``maintenance``.

    X1 is the function's address where it runs, X2 the one through which it is patched.
    """
    setup = [
        *(*a.mov64(9, 0xFF), msr(system.MAIR_EL1, 9)),
        *(*a.mov64(9, TCR), msr(system.TCR_EL1, 9)),
        *(*a.mov64(9, TABLE), msr(system.TTBR0_EL1, 9)),
        *(*a.mov64(9, MMU_ON), msr(system.SCTLR_EL1, 9), a.ISB),
        *a.mov64(1, FUNCTION),
        *a.mov64(2, FUNCTION + ALIAS),
        *a.mov64(3, a.movz(0, 2)),
        a.ldr(9, 2, size=2),
        a.str_(9, 2, size=2),
        *(a.blr(1), a.orr(10, 31, 0)),
        a.str_(3, 2, size=2),
        *maintenance,
        *(a.blr(1), a.orr(11, 31, 0)),
    ]
    program = a.code([*setup, a.b(0)])
    image = image_of({CODE: program, FUNCTION: a.code(function(1)), TABLE: tables()}, CODE)
    machine = Machine(image)
    machine.run(len(setup) + 2 * len(function(1)))
    assert machine.board.handler.failure is None
    return [machine.board.cpu.engine.x(n) for n in (10, 11)]


@pytest.mark.parametrize("by", [1, 2], ids=["its own address", "the address of the other mapping"])
def test_code_patched_through_another_mapping_runs_as_patched_after_maintenance(by: int) -> None:
    assert patched_run([a.sys(3, 7, 5, 1, by), a.ISB]) == [1, 2]


def test_maintenance_of_all_code_has_the_patch_seen() -> None:
    assert patched_run([a.sys(0, 7, 5, 0), a.ISB]) == [1, 2]


def test_the_engine_alone_misses_the_patch() -> None:
    """An engine that sees the patch would make ``host.native.code`` needless."""
    assert patched_run([a.ISB]) == [1, 1]


def test_maintenance_of_an_address_without_memory_does_nothing() -> None:
    assert patched_run([a.sys(3, 7, 5, 1, 31), a.sys(3, 7, 5, 1, 2), a.ISB]) == [1, 2]


ALL = [a.sys(0, 7, 5, 0), a.ISB]
"""IC IALLU, ISB. After the first one it is known which code is translated."""
SETUP = [
    *(*a.mov64(9, 0xFF), msr(system.MAIR_EL1, 9)),
    *(*a.mov64(9, TCR), msr(system.TCR_EL1, 9)),
    *(*a.mov64(9, TABLE), msr(system.TTBR0_EL1, 9)),
    *(*a.mov64(9, MMU_ON), msr(system.SCTLR_EL1, 9), a.ISB),
    *(*a.mov64(1, FUNCTION), *a.mov64(2, FUNCTION + ALIAS)),
    *(*a.mov64(3, a.movz(0, 2)), *a.mov64(4, a.movz(0, 1))),
    *ALL,
    a.str_(4, 2, size=2),  # from now on the engine does not look for code at stores by X2
]


def results_of(body: list[int], operations: int, count: int) -> tuple[list[int], Machine]:
    """X10 and on after SETUP and ``body``, so many; ``operations``: how many that executes."""
    image = image_of(
        {
            CODE: a.code([*SETUP, *body, a.b(0)]),
            FUNCTION: a.code(function(1)),
            TABLE: tables(),
        },
        CODE,
    )
    machine = Machine(image)
    machine.run(len(SETUP) + operations)
    assert machine.board.handler.failure is None
    return [machine.board.cpu.engine.x(10 + n) for n in range(count)], machine


def call(register: int) -> list[int]:
    return [a.blr(1), a.orr(register, 31, 0)]


def test_a_patch_is_seen_after_maintenance_of_all_code_that_was_known() -> None:
    body = [*call(10), a.str_(3, 2, size=2), *ALL, *call(11)]
    assert results_of(body, len(body) + 4, 2)[0] == [1, 2]


def test_code_that_is_again_what_it_was_is_seen_after_maintenance() -> None:
    """1 is patched to 2 by a store that the engine sees, and back by one that it misses.

    The page then holds what it held when the engine first translated code of it.
    """
    seen, missed = a.str_(3, 1, size=2), a.str_(4, 2, size=2)
    body = [*call(10), seen, a.ISB, *call(11), missed, a.ISB, *call(12), *ALL, *call(13)]
    found, _ = results_of(body, len(body) + 8, 4)
    assert (found[0], found[1], found[3]) == (1, 2, 1)
    assert found[2] == 2, "an engine that sees the patch would make this test needless"


@pytest.mark.accelerated
def test_maintenance_of_all_code_stops_nothing_where_no_code_has_changed(
    engine_runs: list[int],
) -> None:
    loop = [*call(10), *ALL, a.subs_imm(19, 19, 1)]
    body = [*a.mov64(19, 200), *loop, a.b_cond(1, -4 * len(loop))]
    before = len(engine_runs)
    results_of(body, 4 + 200 * (len(loop) + 3), 1)
    assert len(engine_runs) - before < 20


@pytest.mark.accelerated
def test_what_is_known_of_code_is_given_up_where_there_are_too_many_pages() -> None:
    """A function in each of 300 pages: 256 are known. All are executed as they are patched."""
    pages = 300
    walk = [
        *a.mov64(19, pages),
        *a.mov64(20, CODE + 0x10_0000),
        *a.mov64(21, 0),
        *[a.str_(3, 20, size=2), a.blr(20), a.add(21, 21, 0)],
        *[*a.mov64(9, 0x1000), a.add(20, 20, 9), a.subs_imm(19, 19, 1)],
    ]
    back = -4 * (len(walk) - 3 * len(a.mov64(0, 0)))
    assert len(a.mov64(19, pages)) == len(a.mov64(21, 0))
    body = [*walk, a.b_cond(1, back), *ALL, *ALL, a.orr(10, 31, 21)]
    image = image_of({CODE: a.code([*SETUP, *body, a.b(0)]), TABLE: tables()}, CODE)
    machine = Machine(image)
    for n in range(pages):
        machine.board.memory.fill(CODE + 0x10_0000 + 0x1000 * n, a.code(function(1)))
    machine.run(len(SETUP) + pages * 20 + 100)
    assert machine.board.cpu.engine.x(10) == 2 * pages
