"""Rules that Python and compiled code share: one text each, and both come to the same.

The words of the rules are checked by hand here where no other test does. That compiled code gets
the same from the same text, in 64 bits with a sign, is checked with random numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from llvmlite import ir

from spe_unicorn.arch.counter import USUAL_RATE
from spe_unicorn.arch.exceptions.entry import ExceptionType
from spe_unicorn.arch.operation import Extend
from spe_unicorn.bits import signed
from spe_unicorn.compiled import Entry, HandWritten, record_at
from spe_unicorn.compiled.machine_code import SYMBOL
from spe_unicorn.decode import condition_holds
from spe_unicorn.devices.timer_cells import is_below, minus
from spe_unicorn.host.native.delivery import (
    FIQ,
    IRQ_UNLESS_MASKED,
    at_level,
    deliverable,
    serror_unless_masked,
)
from spe_unicorn.host.native.exceptions.returns import is_suspect, legal_returns
from spe_unicorn.host.native.hot_path import slot_by
from spe_unicorn.host.native.rules import (
    access_address,
    changes_return,
    count_write,
    first_cycle,
    ticks,
    trap_id,
    vector_address,
)
from spe_unicorn.host.native.state.actions import Action
from spe_unicorn.host.native.state.block_table import ALIGNMENT, slot_of
from spe_unicorn.host.native.state.whole import LAYOUT, State
from spe_unicorn.host.pe.description import condition_failed, misaligned
from spe_unicorn.spe.sample import code_address, physical_address

MASK = (1 << 64) - 1


def word(random: Random) -> int:
    """64 bits, often few of them, often an address of EL1."""
    return random.choice(
        (random.getrandbits(64), random.getrandbits(16), MASK - random.getrandbits(40))
    )


def small(limit: int) -> Callable[[Random], int]:
    return lambda random: random.randrange(limit)


def one_to(limit: int) -> Callable[[Random], int]:
    return lambda random: 1 + random.randrange(limit)


def power(limit: int) -> Callable[[Random], int]:
    return lambda random: 1 << random.randrange(limit)


def system_word(random: Random) -> int:
    """An instruction word, often of MRS, MSR and SYS, or an exception return."""
    others = 0xD69F_03E0, 0xD69F_0BFF, 0xD69F_0FFF, random.getrandbits(32)
    return random.choice((0xD500_0000 | random.getrandbits(22), random.choice(others)))


SHARED = {
    "ticks": (ticks, (lambda random: random.getrandbits(56), one_to(62_500), one_to(10_000_000))),
    "first_cycle": (
        first_cycle,
        (lambda random: random.getrandbits(63), one_to(62_500), one_to(10_000_000)),
    ),
    "minus": (minus, (word, word)),
    "is_below": (is_below, (word, word)),
    "slot_of": (slot_of, (word, lambda random: 1 + random.randrange(1024))),
    "access_address": (access_address, (word, word, small(4), small(5), power(7))),
    "vector_address": (vector_address, (word, small(4), small(4), small(2), small(512))),
    "is_suspect": (is_suspect, (lambda r: r.getrandbits(48), lambda r: 1 + r.randrange(3), word)),
    "deliverable": (deliverable, (lambda random: random.getrandbits(20), word)),
    "misaligned": (misaligned, (word, power(5))),
    "condition_failed": (
        condition_failed,
        (small(2), small(2), lambda r: r.getrandbits(16), small(9), small(13), word),
    ),
    "condition_holds": (condition_holds, (small(16), small(16))),
    "trap_id": (trap_id, (system_word,)),
    "code_address": (code_address, (word, small(4), lambda r: r.getrandbits(1) << 63)),
    "physical_address": (physical_address, (word, lambda random: random.getrandbits(8) << 56)),
}


@pytest.mark.parametrize("name", SHARED)
def test_compiled_and_interpreted_come_to_the_same(name: str) -> None:
    function, kinds = SHARED[name]
    compiled = Entry(function, "int64", *["int64"] * len(kinds))
    random = Random(name)
    for _ in range(2000):
        arguments = [kind(random) for kind in kinds]
        found = compiled(*(signed(value) for value in arguments))
        assert found & MASK == int(function(*arguments)) & MASK, arguments


def test_the_hot_path_finds_the_same_slot() -> None:
    wide = ir.IntType(64)
    module = ir.Module("slot")
    function = ir.Function(module, ir.FunctionType(wide, [wide, wide]), SYMBOL)
    code = ir.IRBuilder(function.append_basic_block())
    code.ret(slot_by(code, *function.args))
    by_hand = HandWritten("tests.slot", str, module)
    slot = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64)(by_hand.address)
    random = Random(4)
    for _ in range(10_000):
        address, operations = word(random) & ~3, 1 + random.randrange(1024)
        assert slot(address, operations) == slot_of(address, operations) << ALIGNMENT


def test_counts_are_subtracted_and_compared_in_64_bits() -> None:
    """Also where the difference of two numbers with a sign would leave 64 bits."""
    for count, other in ((0, 1), (1, MASK), (1 << 63, 1), ((1 << 63) - 1, MASK), (5, 1 << 62)):
        for view in (lambda value: value, signed):
            assert minus(view(count), view(other)) == signed((count - other) & MASK)
            assert is_below(view(count), view(other)) is (count < other)


def test_a_tick_is_sixteen_cycles() -> None:
    assert [USUAL_RATE.ticks(n) for n in (0, 15, 16, 31, 32)] == [0, 0, 1, 1, 2]
    assert USUAL_RATE.cycles(7) == 112


@pytest.mark.parametrize(
    ("extend", "index", "address"),
    [
        (Extend.UXTW, 0xFFFF_FFFF_8000_0001, 0x1000 + (0x8000_0001 << 2)),
        (Extend.SXTW, 0x0000_0000_8000_0001, 0x1000 - (0x7FFF_FFFF << 2)),
        (Extend.SXTW, 0xFFFF_FFFF_7FFF_FFFF, 0x1000 + (0x7FFF_FFFF << 2)),
    ],
)
def test_a_word_index_is_extended_before_it_is_shifted(
    extend: Extend, index: int, address: int
) -> None:
    assert access_address(0x1000, index, extend, 2, 1) & MASK == address & MASK


def test_an_exception_enters_the_quarter_of_its_origin() -> None:
    vbar = 0xFFFF_0000_0000_0FFF  # the low 11 bits are no part of the address
    base = 0xFFFF_0000_0000_0800
    assert vector_address(vbar, 1, 1, 0, ExceptionType.SYNC) == base
    assert vector_address(vbar, 1, 1, 1, ExceptionType.SYNC) == base + 0x200
    assert vector_address(vbar, 0, 1, 0, ExceptionType.IRQ) == base + 0x480
    assert vector_address(vbar, 1, 2, 1, ExceptionType.SERROR) == base + 0x580


def test_interrupts_are_delivered_by_level_and_mask() -> None:
    at_el1 = at_level(1, IRQ_UNLESS_MASKED)
    assert deliverable(at_el1, 0b0101)
    assert not deliverable(at_el1, 1 << 7 | 0b0101)
    assert not deliverable(at_el1, 0)
    assert deliverable(at_level(0, FIQ), 1 << 6)
    serror = serror_unless_masked((0, 1))
    assert deliverable(serror, 0b0100)
    assert not deliverable(serror, 1 << 8 | 0b0100)
    assert not deliverable(serror, 0b1000)


def test_a_return_is_suspect_by_its_mode_il_and_width() -> None:
    legal = legal_returns(lambda el, mode: mode in (0, 4, 5) and mode >> 2 <= el)
    assert not is_suspect(legal, 1, 0b0101)
    assert is_suspect(legal, 1, 0b1001)
    assert is_suspect(legal, 2, 1 << 20 | 0b0100)  # PSTATE.IL
    assert is_suspect(legal, 2, 1 << 4)  # AArch32
    assert not is_suspect(legal, 3, 0b11 << 6)


def _counted(user: Any, action: Any, matters: Any) -> Any:
    return count_write(record_at(user, LAYOUT), action, matters != 0)


def _changes(user: Any, el: Any, spsr: Any) -> Any:
    return changes_return(record_at(user, LAYOUT), el, spsr)


def test_the_effect_of_a_write_is_the_same_in_python_and_compiled() -> None:
    compiled = Entry(_counted, "int64", "pointer", "int64", "int64")
    random = Random(5)
    stops = 0
    for _ in range(2000):
        fields = ("writes", "epoch", "controls_written", "collects", "suspect", "legal_returns")
        values = {name: random.getrandbits(2) for name in fields}
        here, there = State(**values), State(**values)
        action, matters = random.choice(list(Action)), random.getrandbits(1)
        stop = compiled(ctypes.addressof(there), int(action), matters)
        assert bool(stop) == count_write(here, int(action), bool(matters))
        assert bytes(here) == bytes(there)
        stops += stop
    assert 200 < stops < 1900


def test_a_return_changes_alike_in_python_and_compiled() -> None:
    compiled = Entry(_changes, "int64", "pointer", "int64", "int64")
    random = Random(6)
    found = set()
    for _ in range(2000):
        state = State(suspect=random.getrandbits(4), legal_returns=random.getrandbits(48))
        el, spsr = 1 + random.randrange(3), signed(word(random))
        changes = changes_return(state, el, spsr)
        assert bool(compiled(ctypes.addressof(state), el, spsr)) == changes
        found.add(changes)
    assert found == {True, False}


def test_a_write_counts_and_stops_by_its_action() -> None:
    def effect(action: Action, *, matters: bool = True, collects: int = 1) -> tuple[int, ...]:
        s = State(collects=collects)
        stop = count_write(s, int(action), matters)
        return int(stop), int(s.writes), int(s.epoch), int(s.controls_written)

    assert effect(Action.ENGINE) == (0, 0, 0, 0)
    assert effect(Action.TRANSLATION) == (0, 1, 1, 0)
    assert effect(Action.NOTICE) == (1, 1, 0, 1)
    assert effect(Action.REGIME) == (1, 1, 1, 1)
    assert effect(Action.RECORDS) == (1, 1, 0, 2)
    assert effect(Action.RECORDS, collects=0) == (0, 1, 0, 0)
    assert effect(Action.REGIME, matters=False) == (0, 1, 0, 0)
