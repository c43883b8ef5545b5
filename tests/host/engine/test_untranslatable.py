"""Instruction words that end in an assertion of the engine, and guests that execute them."""

from __future__ import annotations

import ctypes
import mmap
import signal
import subprocess
import sys
from itertools import product
from typing import Any

import pytest
from unicorn import UC_HOOK_BLOCK, UC_HOOK_INTR, Uc
from unicorn import arm64_const as regs

from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.host.engine.engine import Engine, lib, new_engine
from spe_unicorn.host.engine.surviving import ABORTED, MOST_ABORTS, surviving_aborts
from spe_unicorn.host.engine.untranslatable import translation_fails
from spe_unicorn.host.pe.stops import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.host.run.untranslated import Untranslated
from spe_unicorn.machine.board import Board
from spe_unicorn.plugin.attach import attach
from tests.support import a64 as a
from tests.support.small_boards import MIB, RAM, board_at

THREE_SAME = 0x0EC0_2400
"""U 0, a 1, opcode 100 of the three-same group, V0, V0, V0: unallocated."""
TWO_MISC = 0x0E78_0800
"""U 0, a 0, opcode 00000 of the two-register group: unallocated."""
FCMLT = 0x0EF8_E820
"""FCMLT V0.4H, V1.4H, #0.0 of the same group, which is an instruction."""
UNDEFINED = 0x0200_0000
VECTORS, BUFFER, LAST = RAM + 0x2000, RAM + 0x3000, RAM + MIB - 4
VBAR = {EL1: (3, 0, 12, 0, 0), EL2: (3, 4, 12, 0, 0), EL3: (3, 6, 12, 0, 0)}
ELR = {EL1: (3, 0, 4, 0, 1), EL2: (3, 4, 4, 0, 1), EL3: (3, 6, 4, 0, 1)}
ESR = {EL1: (3, 0, 5, 2, 0), EL2: (3, 4, 5, 2, 0), EL3: (3, 6, 5, 2, 0)}
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def group_words() -> list[int]:
    """Each combination of the bits that decide, in both groups."""
    words = [
        THREE_SAME & ~(1 << 23 | 7 << 11) | q << 30 | u << 29 | big << 23 | op << 11 | rm << 16 | 5
        for q, u, big, op, rm in product(range(2), range(2), range(2), range(8), (0, 31))
    ]
    for scalar, q, u, big, op in product(range(2), range(2), range(2), range(2), range(32)):
        words.append(TWO_MISC | scalar << 28 | q << 30 | u << 29 | big << 23 | op << 12 | 5)
    return words


def board(code: list[int], el: int = EL3, runner: type[Runner] = Runner) -> Board:
    """``code``, then a branch to itself. The vector counts in X20 and goes on after.

    X21 is the last syndrome, X22 the address of the first exception less that of the code.
    """
    start = [*a.mov64(0, VECTORS), a.msr(VBAR[el], 0)]
    result = board_at([*start, *code, a.b(0)], el=el, runner=runner)
    handler = [
        a.add_imm(20, 20, 1),
        a.mrs(21, ESR[el]),
        a.mrs(23, ELR[el]),
        a.cbnz(22, 8),
        a.add_imm(22, 23, 0),
        a.add_imm(23, 23, 4),
        a.msr(ELR[el], 23),
        a.ERET,
    ]
    result.memory.fill(VECTORS + 0x200, a.code(handler))
    return result


CODE = RAM + 4 * len([*a.mov64(0, VECTORS), 0])


def test_the_words_that_the_engine_cannot_translate_are_known() -> None:
    memory = mmap.mmap(-1, 0x1000)
    at = ctypes.c_uint32.from_buffer(memory)
    found, expected = set(), set()
    engine = None
    with surviving_aborts(lib.uc_emu_start):
        for word in group_words():
            if engine is None or engine.exhausted:
                uc = new_engine(16)
                uc.mem_map_ptr(0, 0x1000, 7, ctypes.addressof(at))
                uc.hook_add(UC_HOOK_BLOCK, lambda uc, *_: uc.emu_stop())
                engine = Engine(uc)
            at.value = word
            engine.forget_code(0, 4)
            if engine.run(0) == ABORTED:
                found.add(word)
            if translation_fails(word):
                expected.add(word)
    assert found == expected
    assert {THREE_SAME | 5, TWO_MISC | 5} <= found
    assert not translation_fails(FCMLT)


@RUNNERS
@pytest.mark.parametrize("el", [EL1, EL2, EL3])
@pytest.mark.parametrize("word", [THREE_SAME, TWO_MISC])
def test_such_a_word_raises_undefined_at_its_own_address(
    word: int, el: int, runner: type[Runner]
) -> None:
    code = [a.movz(1, 3), a.add_imm(2, 2, 1), word, a.sub_imm(1, 1, 1), a.cbnz(1, -12), word]
    subject = board(code, el, runner)
    assert subject.run(200) is Ending.LIMIT
    x = subject.cpu.engine.x
    assert (x(20), x(21), x(22), x(2)) == (4, UNDEFINED, CODE + 8, 3)


@RUNNERS
def test_operations_around_such_a_word_are_counted_once(runner: type[Runner]) -> None:
    subject = board([a.NOP, TWO_MISC, a.NOP, a.WFI], runner=runner)
    assert subject.run() is Ending.ASLEEP
    # before the code, the four of it, and the handler: eight without what cbnz skips
    assert subject.cpu.executed == len([*a.mov64(0, VECTORS), 0]) + 4 + 8


@RUNNERS
def test_a_wfi_in_front_of_such_a_word_waits(runner: type[Runner]) -> None:
    subject = board([a.b(8), a.NOP, a.WFI, THREE_SAME], runner=runner)
    assert subject.run() is Ending.ASLEEP
    assert subject.cpu.engine.x(20) == 0
    assert subject.cpu.pc == CODE + 12
    subject = board([a.b(8), TWO_MISC, a.NOP, a.WFI, THREE_SAME], runner=runner)
    assert subject.run() is Ending.ASLEEP
    assert subject.cpu.engine.x(20) == 0


def stores(word: int, maintained: bool) -> list[int]:
    """Put ``word`` and a return into the buffer and call it."""
    code = [*a.mov64(5, word | a.ret() << 32), *a.mov64(6, BUFFER), a.str_(5, 6)]
    if maintained:
        code += [a.sys(3, 7, 5, 1, 6), a.DSB_SY, a.ISB]
    return [*code, a.blr(6)]


@RUNNERS
@pytest.mark.parametrize("maintained", [False, True])
def test_such_a_word_may_be_stored_over_code_that_has_run(
    maintained: bool, runner: type[Runner]
) -> None:
    count = a.add_imm(2, 2, 1)
    code = [w for word in (count, TWO_MISC, count, THREE_SAME) for w in stores(word, maintained)]
    subject = board(code, runner=runner)
    assert subject.run(300) is Ending.LIMIT
    x = subject.cpu.engine.x
    assert (x(20), x(21), x(22), x(2)) == (2, UNDEFINED, BUFFER, 2)


def test_both_ways_to_run_agree_on_them() -> None:
    code = [a.movz(1, 9), *stores(TWO_MISC, False), THREE_SAME, a.sub_imm(1, 1, 1)]
    code += [a.cbnz(1, -4 * (len(code) - 1))]
    states = []
    for runner in (Runner, ReferenceRunner):
        subject = board(code, runner=runner)
        subject.run(1000)
        states.append((subject.cpu.executed, subject.cpu.pc, subject.cpu.engine.general()))
    assert states[0] == states[1]


def test_data_executed_in_many_places_ends_the_run_with_a_sentence() -> None:
    """Each page of them costs the engine something that it has only so much of."""
    pages = MOST_ABORTS + 5
    loop = [a.blr(6), a.add(6, 6, 7), a.sub_imm(1, 1, 1), a.cbnz(1, -12)]
    code = [a.movz(1, pages), *a.mov64(6, RAM + 0x10000), a.movz(7, 0x1000), *loop]
    subject = board(code)
    for page in range(pages):
        subject.memory.fill(RAM + 0x10000 + 0x1000 * page, a.code([TWO_MISC, a.ret()]))
    assert subject.run(10_000) is Ending.FAILED
    failure = subject.running.handler.failure
    assert failure is not None
    assert f"failed {MOST_ABORTS} times to translate code" in failure.reason
    assert subject.cpu.engine.x(20) == MOST_ABORTS - 1


def test_data_executed_again_and_again_costs_the_engine_once_for_each_page() -> None:
    pages = a.mov64(6, RAM + 0x10000), a.mov64(7, RAM + 0x12000)
    loop = [a.blr(6), a.blr(7), a.sub_imm(1, 1, 1), a.cbnz(1, -12)]
    times = MOST_ABORTS
    subject = board([a.movz(1, times), *pages[0], *pages[1], *loop])
    for page in (0x10000, 0x12000):
        subject.memory.fill(RAM + page, a.code([TWO_MISC, a.NOP, THREE_SAME, a.ret()]))
    assert subject.run(40 * times) is Ending.LIMIT
    assert subject.cpu.engine.x(20) == 4 * times


@RUNNERS
def test_such_a_word_may_be_the_last_of_memory(runner: type[Runner]) -> None:
    subject = board([*a.mov64(6, LAST), a.blr(6)], runner=runner)
    subject.memory.fill(LAST, a.code([TWO_MISC]))
    subject.run(50)
    assert subject.cpu.engine.x(22) == LAST


class Page:
    """What :class:`Untranslated` knows of a PE: the page up to 0x5000, and an engine's halts."""

    exhausted = False

    def __init__(self, *words: int) -> None:
        self.words = dict(zip(range(0x5000 - 4 * len(words), 0x5000, 4), words, strict=True))
        self.pc = min(self.words)
        self.halts: set[int] = set()
        self.forgotten: list[tuple[int, int]] = []
        self.ended = self.status = 0
        self.virtual = self.engine = self

    def code(self, address: int, operations: int) -> tuple[int, ...] | None:
        if address + 4 * operations > 0x5000:
            return None
        return tuple(self.words[address + 4 * n] for n in range(operations))

    def halt_at(self, addresses: set[int]) -> None:
        self.halts = addresses

    def forget_code(self, first: int, end: int) -> None:
        self.forgotten.append((first, end))

    def idle(self) -> None:
        self.ended += 1


def untranslated(page: Page) -> Untranslated:
    anything: Any = page
    return Untranslated(anything, anything)


def test_such_words_are_looked_for_up_to_the_end_of_their_page() -> None:
    page = Page(TWO_MISC, a.NOP, THREE_SAME, a.NOP)
    page.halts = {0x1234}
    untranslated(page).find()
    assert page.halts == {0x1234, 0x4FF0, 0x4FF8}
    assert page.ended == 0


def test_4096_halts_are_kept_and_then_all_are_forgotten() -> None:
    page = Page(TWO_MISC)
    page.halts = set(range(0, 4 * 4095, 4))
    untranslated(page).find()
    assert len(page.halts) == 4096
    untranslated(page).find()
    assert page.halts == {0x4FFC}


def test_an_engine_that_fails_at_no_such_word_ends_the_run() -> None:
    page = Page(a.NOP, a.NOP)
    untranslated(page).find()
    assert (page.ended, page.halts, page.status) == (1, set(), ABORTED)


def test_where_the_code_has_changed_the_engine_halts_no_more() -> None:
    page = Page(TWO_MISC, THREE_SAME)
    untranslated(page).find()
    assert untranslated(page).is_at(0x4FF8)
    page.words[0x4FF8] = a.NOP
    assert not untranslated(page).is_at(0x4FF8)
    assert (page.halts, page.forgotten) == ({0x4FFC}, [(0x4FF8, 0x4FFC)])


def test_what_the_engine_says_of_it_does_not_get_into_standard_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    subject = board([TWO_MISC])
    subject.run(100)
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""


def test_with_the_plugin_the_hook_of_the_user_gets_the_exception() -> None:
    uc = new_engine()
    uc.mem_map(0, 0x1000)
    uc.mem_write(0, a.code([a.NOP, THREE_SAME, a.movz(3, 7), a.b(0)]))
    seen = []

    def on_interrupt(uc: Uc, number: int, data: object) -> None:
        seen.append((number, uc.reg_read(regs.UC_ARM64_REG_PC)))
        uc.reg_write(regs.UC_ARM64_REG_PC, uc.reg_read(regs.UC_ARM64_REG_PC) + 4)

    uc.hook_add(UC_HOOK_INTR, on_interrupt)
    attach(uc).emu_start(0, 12)
    assert seen == [(1, 4)]
    assert uc.reg_read(regs.UC_ARM64_REG_X3) == 7


_IN_A_HOOK = """
import os
from unicorn import UC_HOOK_BLOCK
from spe_unicorn.host.engine.engine import Engine, lib, new_engine
from spe_unicorn.host.engine.surviving import surviving_aborts
uc = new_engine()
uc.mem_map(0, 0x1000)
uc.hook_add(UC_HOOK_BLOCK, lambda *_: {action})
with surviving_aborts(lib.uc_emu_start):
    Engine(uc).run(0)
"""


@pytest.mark.parametrize("action", ["os.abort()", "os.kill(os.getpid(), 6)"])
def test_an_abort_that_is_not_the_engines_ends_the_process(action: str) -> None:
    program = _IN_A_HOOK.format(action=action)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGABRT


def test_the_signal_is_given_back_behind_a_run() -> None:
    read = signal.getsignal(signal.SIGABRT)
    board([TWO_MISC]).run(100)
    assert signal.getsignal(signal.SIGABRT) == read
    program = "import os\n" + _IN_A_HOOK.format(action="uc.emu_stop()") + "os.abort()\n"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGABRT


def test_engines_end_at_halts_and_at_until_alike() -> None:
    uc = new_engine()
    uc.mem_map(0, 0x1000)
    uc.mem_write(0, a.code([a.NOP] * 4))
    engine = Engine(uc)
    engine.halt_at({8})
    assert engine.run(0) == 0
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == 8
    assert engine.run(0, 4) == 0
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == 4
    engine.halt_at(())
    assert engine.run(0, 12) == 0
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == 12
