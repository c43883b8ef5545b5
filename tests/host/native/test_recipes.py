"""What a sampled operation will find, worked out before its block runs: checked by running it.

The engine is the oracle: blocks of random integer instructions and loads run on it, and what it
leaves in each register and in the flags is what the recipe said at the block's start. A few
recipes are also followed by hand.
"""

from __future__ import annotations

import ctypes
from random import Random
from typing import Any

import numpy as np
import pytest
from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc

from spe_unicorn.arch.operation import NZCV, SP
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MAIR_EL1,
    SCR_EL3,
    SCTLR_EL1,
    TCR_EL1,
    TTBR0_EL1,
)
from spe_unicorn.compiled import entry, pointer_to, record_at
from spe_unicorn.decode import decode
from spe_unicorn.host.engine import engine as e
from spe_unicorn.host.engine.engine import Engine
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.plans import plan_block
from spe_unicorn.host.native.recipes.evaluate import foresee
from spe_unicorn.host.native.recipes.integers import bit_mask
from spe_unicorn.host.native.recipes.steps import MOST_STEPS, Kind, Recipe
from spe_unicorn.host.native.recipes.values import Values
from spe_unicorn.host.native.state.sample_row import PENDING, Pending
from spe_unicorn.host.native.state.whole import LAYOUT
from tests.support import a64 as a

MASK = (1 << 64) - 1
CODE, DATA, NOTHING = 0x4000_0000, 0x4001_0000, 0x5000_0000
POINTER, OFFSET = 20, 21
"""Registers that random instructions leave alone: an address in DATA, and a small number."""
REGISTERS = (*range(31), SP, NZCV)


@entry("bool", "pointer", "pointer", "int64", "int64", "int64")
def foreseen(engine: Any, user: Any, block: Any, plans: Any, recipe: Any) -> Any:
    s = record_at(user, LAYOUT)
    return foresee(engine, user, block, plans, recipe, record_at(pointer_to(s.chosen), PENDING))


class Guest:
    """An engine with hooks on it that do not run, at EL1 and without translation."""

    def __init__(self) -> None:
        self.uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        self.uc.mem_map(CODE, 0x2_0000)
        self.engine = Engine(self.uc)
        self.hooks = NativeHooks(self.engine)
        self.state = self.hooks.state
        self.rows = np.zeros(1, PENDING)
        self.state.chosen = self.rows.ctypes.data

    def value(self, register: int) -> int:
        if register == NZCV:
            return self.engine.get(e.NZCV) & 0xF000_0000
        return self.engine.get(e.SP if register == SP else e.X[register])

    @property
    def noted(self) -> Pending:
        """What was noted last."""
        return Pending(*self.rows[0].tolist())

    def says(self, recipe: Recipe) -> bool:
        words = np.array([0, 0, *recipe.words], np.int64)
        uc, state = self.uc._uch.value, ctypes.addressof(self.state)
        answer: bool = foreseen(uc, state, CODE, words.ctypes.data, recipe.at(2))
        return answer

    def run(self, words: list[int]) -> None:
        self.uc.mem_write(CODE, a.code(words))
        self.engine.forget_all_code()
        self.uc.emu_start(CODE, CODE + 4 * len(words))


@pytest.fixture(scope="module")
def guest() -> Guest:
    return Guest()


def after(words: list[int], *, loads: bool = True) -> Values:
    values = Values([decode(word) for word in words], loads=loads)
    values.go_on_to(len(words))
    return values


def integer(random: Random) -> int:
    """An integer instruction of the kinds that recipes know, and of some that they do not."""
    word = random.getrandbits(32) & ~0x1F | random.randrange(16)
    word = word & ~(0x1F << 5) | random.choice((*range(16), 31)) << 5
    word = word & ~(0x1F << 16) | random.choice((*range(16), 31)) << 16
    fixed, bits = random.choice(
        (
            (0x1000_0000, 0x1F00_0000),  # ADR, ADRP
            (0x1100_0000, 0x1F80_0000),  # ADD, SUB (immediate)
            (0x1200_0000, 0x1F80_0000),  # logical (immediate)
            (0x1280_0000, 0x1F80_0000),  # move wide
            (0x1300_0000, 0x1F80_0000),  # bit fields
            (0x1380_0000, 0x7FA0_0000),  # EXTR
            (0x0A00_0000, 0x1F00_0000),  # logical (register)
            (0x0B00_0000, 0x1F20_0000),  # ADD, SUB (shifted register)
            (0x0B20_0000, 0x1FE0_0000),  # ADD, SUB (extended register)
            (0x3A40_0000, 0x3FE0_0410),  # CCMP, CCMN
            (0x1A80_0000, 0x3FE0_0800),  # conditional select
            (0x1AC0_2000, 0x7FE0_F000),  # shifts
            (0x1B00_0000, 0x7FE0_0000),  # MADD, MSUB
            (0x9B20_0000, 0xFF60_0000),  # SMADDL, UMADDL and the like
            (0x1A00_0000, 0x1FE0_FC00),  # ADC, SBC: unknown
            (0x5AC0_0000, 0x7FFF_F800),  # RBIT, REV16: unknown
        )
    )
    return word & ~bits | fixed


def load(random: Random) -> int:
    d, size = random.randrange(16), random.randrange(4)
    return random.choice(
        (
            a.ldr(d, POINTER, 8 * random.randrange(16), 3),
            a.ldr(d, POINTER, random.randrange(16) << size, size),
            a.ldrs(d, POINTER, random.randrange(16) << 2),
            a.ldr9(d, POINTER, random.randrange(-64, 64), a.POST, size),
            a.ldr9(d, POINTER, random.randrange(-64, 64), a.PRE, size),
            a.ldr_reg(d, POINTER, OFFSET, random.choice((a.LSL, a.UXTW, a.SXTW)), 1, size),
            a.pair(True, d, (d + 1) % 16, POINTER, 8 * random.randrange(-8, 8)),
            a.ldr_literal(d, 8 * random.randrange(4)),
        )
    )


def runs_here(word: int) -> bool:
    return decode(word).mark.name == "NONE"


def compare(guest: Guest, words: list[int]) -> tuple[list[Recipe], list[Recipe]]:
    """Run ``words``: each recipe is right or says nothing. Return those that spoke, and the others.

    A recipe says what one register holds afterwards.
    """
    guest.uc.mem_write(CODE, a.code(words))
    values = after(words)
    said: dict[int, int] = {}
    spoke, silent = [], []
    for register in REGISTERS:
        value = values.of(register)
        recipe = None if value is None else values.recipe(value, None, None)
        if recipe is None:
            continue
        if guest.says(recipe):
            said[register] = guest.noted.base & MASK
            spoke.append(recipe)
        else:
            silent.append(recipe)
    guest.run(words)
    found = {register: guest.value(register) for register in said}
    if NZCV in said:
        said[NZCV] &= 0xF000_0000
    assert said == found, [hex(word) for word in words]
    return spoke, silent


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(8))
def test_the_engine_comes_to_what_recipes_say(guest: Guest, seed: int) -> None:
    random = Random(seed)
    known = 0
    for _ in range(150):
        words: list[int] = []
        while len(words) < 6:
            word = load(random) if random.randrange(4) == 0 else integer(random)
            if runs_here(word):
                words.append(word)
        guest.uc.mem_write(DATA, random.randbytes(0x1000))
        for n in range(31):
            bits = random.choice((64, 64, 32, 8))
            guest.engine.put(e.X[n], random.choice((random.getrandbits(bits), MASK, 1 << 63, 0)))
        guest.engine.put(e.X[POINTER], DATA + 0x800)
        guest.engine.put(e.X[OFFSET], random.choice((0, 3, 16)))
        guest.engine.put(e.SP, random.getrandbits(64))
        guest.engine.put(e.NZCV, random.getrandbits(4) << 28)
        spoke, silent = compare(guest, words)
        assert not silent, [hex(word) for word in words]
        known += len(spoke)
    assert known > 150 * 20


def test_a_pointer_that_is_loaded_and_followed(guest: Guest) -> None:
    """X1 := [DATA + 8 * X2], and then the list's next element is read by it."""
    words = [a.ldr_reg(1, 0, 2, a.LSL, 1), a.add_imm(1, 1, 16), a.ldr(1, 1, 8)]
    guest.uc.mem_write(DATA + 8 * 5, (DATA + 0x100).to_bytes(8, "little"))
    guest.engine.put(e.X[0], DATA)
    guest.engine.put(e.X[2], 5)
    values = after(words[:2])
    recipe = values.recipe(values.of(1), values.of(2), None)
    assert recipe is not None
    assert guest.says(recipe)
    assert guest.noted.base == DATA + 0x100 + 16
    assert guest.noted.index == 5


def test_flags_of_a_compare_that_is_overwritten(guest: Guest) -> None:
    """5 - 7 borrows and is negative; 7 - 7 is zero and does not borrow: Arm ARM, SUBS."""
    values = after([a.subs(31, 1, 2)])
    recipe = values.recipe(None, None, values.of(NZCV))
    assert recipe is not None
    for first, flags in ((5, 0b1000), (7, 0b0110), (1 << 63, 0b0011)):
        guest.engine.put(e.X[1], first)
        guest.engine.put(e.X[2], 7)
        assert guest.says(recipe)
        assert guest.noted.flags >> 28 & 15 == flags


@pytest.mark.parametrize("before", [a.stxr(5, 3, 4), a.ldadd(3, 5, 4)])
def test_memory_that_the_block_may_have_written_is_not_known(before: int) -> None:
    assert after([before, a.ldr(1, 0)]).of(1) is None
    assert after([a.ldr(1, 0), before]).of(1) is not None


OTHER = 22
"""Another register that random instructions leave alone: an address in DATA."""
DISTANCES = (0, 0, 0, 8, -8, 4, 3, 16, 0x1000, -0x1000, 0x1004, 0x40)
"""OTHER less POINTER: the same memory, memory beside it, a part of it, another page."""


def load_or_store(random: Random) -> int:
    d, size, base = random.randrange(16), random.randrange(4), random.choice((POINTER, OTHER))
    offset = random.randrange(4) << size
    form = random.choice((a.POST, a.PRE))
    nearby = random.choice((-16, -8, 8))
    return random.choice(
        (
            a.ldr(d, base, offset, size),
            a.str_(d, base, offset, size),
            a.str_(random.choice((d, 31)), base, 8 * random.randrange(3), 3),
            a.ldr(d, base, 8 * random.randrange(3), 3),
            a.ldrs(d, base, random.randrange(4) << 2),
            a.ldr9(d, base, nearby, form, size),
            a.str9(d, base, nearby, form, size),
            a.str_reg(d, base, OFFSET, a.UXTW, 0, size),
            a.pair(True, d, (d + 1) % 16, base, 8 * random.randrange(-2, 2)),
            a.pair(False, d, (d + 1) % 16, base, 8 * random.randrange(-2, 2)),
        )
    )


def tells_apart(recipe: Recipe) -> bool:
    return any(step.kind is Kind.APART for step in recipe.steps)


@pytest.mark.parametrize("seed", range(8))
def test_the_engine_loads_behind_stores_what_recipes_say(guest: Guest, seed: int) -> None:
    random = Random(seed)
    said_of_loads = refused = 0
    for _ in range(150):
        words: list[int] = []
        while len(words) < 7:
            word = integer(random) if random.randrange(4) == 0 else load_or_store(random)
            if runs_here(word):
                words.append(word)
        guest.uc.mem_write(DATA, random.randbytes(0x4000))
        for n in range(31):
            guest.engine.put(e.X[n], random.getrandbits(64))
        guest.engine.put(e.X[POINTER], DATA + 0x2000)
        guest.engine.put(e.X[OTHER], DATA + 0x2000 + random.choice(DISTANCES))
        guest.engine.put(e.X[OFFSET], random.choice((0, 8, 16)))
        spoke, silent = compare(guest, words)
        assert all(map(tells_apart, silent)), [hex(word) for word in words]
        said_of_loads += sum(map(tells_apart, spoke))
        refused += len(silent)
    assert said_of_loads > 60
    assert refused > 20


def foreseen_load(guest: Guest, words: list[int]) -> int | None:
    """What X1 will hold after ``words``, None if its recipe says nothing."""
    values = after(words)
    recipe = values.recipe(values.of(1), None, None)
    assert recipe is not None
    return guest.noted.base & MASK if guest.says(recipe) else None


def test_a_load_behind_stores_by_other_registers(guest: Guest) -> None:
    words = [a.str_(3, 4), a.str_(5, 6), a.ldr(1, 0)]
    for n, value in ((0, DATA + 0x100), (3, 33), (5, 55)):
        guest.engine.put(e.X[n], value)
    guest.uc.mem_write(DATA + 0x100, (77).to_bytes(8, "little"))
    for first, second, expected in (
        (DATA + 0x100, DATA + 0x200, 33),
        (DATA + 0x200, DATA + 0x100, 55),
        (DATA + 0x100, DATA + 0x100, 55),
        (DATA + 0x108, DATA + 0xF8, 77),
        (DATA + 0x1100, DATA + 0x200, 77),
        (DATA + 0x104, DATA + 0x200, None),
        (DATA + 0x200, DATA + 0xF9, None),
        (DATA + 0x10F9, DATA + 0x200, 77),
        (DATA + 0xFFC, DATA + 0x200, 77),
    ):
        guest.engine.put(e.X[4], first)
        guest.engine.put(e.X[6], second)
        assert foreseen_load(guest, words) == expected, (hex(first), hex(second))


def test_a_load_of_what_was_stored_by_the_same_register_takes_no_memory(guest: Guest) -> None:
    guest.engine.put(e.SP, NOTHING)
    guest.engine.put(e.X[3], 0x1_8000_0001)
    saved = a.pair(False, 3, 2, 31, -16, 0b11)
    assert foreseen_load(guest, [saved, a.movz(3, 9), a.ldr(1, 31)]) == 0x1_8000_0001
    narrow = [a.str_(3, 31, 4, 2), a.movz(3, 9)]
    assert foreseen_load(guest, [*narrow, a.ldr(1, 31, 4, 2)]) == 0x8000_0001
    assert foreseen_load(guest, [*narrow, a.ldrs(1, 31, 4)]) == 0xFFFF_FFFF_8000_0001
    assert after([*narrow, a.ldr(1, 31)]).of(1) is None, "a part of it was stored"


def test_a_page_that_is_mapped_twice_is_one_memory() -> None:
    """The pages DATA and DATA + 0x1000 are one, DATA + 0x2000 is another."""
    guest = Guest()
    first, second, third = DATA + 0xC000, DATA + 0xD000, DATA + 0xE000
    normal = 0x703  # a page or table, AF, inner shareable
    guest.uc.mem_write(first + 8, (second | 3).to_bytes(8, "little"))
    guest.uc.mem_write(second, (third | 3).to_bytes(8, "little"))
    for page in range(CODE, CODE + 0x2_0000, 0x1000):
        frame = DATA if page == DATA + 0x1000 else page
        place = third + 8 * (page - CODE >> 12)
        guest.uc.mem_write(place, (frame | normal).to_bytes(8, "little"))
    for register, value in (
        (SCR_EL3, 0x531),  # Non-secure, and AArch64 below
        (HCR_EL2, 1 << 31),
        (MAIR_EL1, 0xFF),
        (TCR_EL1, 25 | 0x3500),  # addresses of 39 bits
        (TTBR0_EL1, first),
        (SCTLR_EL1, guest.engine.system(SCTLR_EL1.encoding) | 1),
    ):
        guest.engine.set_system(register.encoding, value)
    guest.engine.rebuild()
    guest.uc.mem_write(DATA + 0x100, (77).to_bytes(8, "little"))
    guest.engine.put(e.X[0], DATA + 0x100)
    for place, expected in ((DATA + 0x1100, None), (DATA + 0x1108, 77), (DATA + 0x2100, 77)):
        guest.engine.put(e.X[4], place)
        assert foreseen_load(guest, [a.str_(3, 4), a.ldr(1, 0)]) == expected, hex(place)


def test_memory_is_not_known_where_a_read_may_have_effects() -> None:
    assert after([a.ldr(1, 0)], loads=False).of(1) is None
    assert after([a.ldr9(1, 0, 8, a.POST)], loads=False).of(0) is not None


@pytest.mark.parametrize("word", [a.ldxr(1, 0), a.mrs(1, (3, 3, 4, 2, 0)), a.fmov_to_x(1, 0)])
def test_what_other_instructions_write_is_not_known(word: int) -> None:
    assert after([word]).of(1) is None


def test_memory_that_is_not_there_says_nothing(guest: Guest) -> None:
    values = after([a.ldr(1, 0)])
    recipe = values.recipe(values.of(1), None, None)
    assert recipe is not None
    guest.engine.put(e.X[0], NOTHING)
    guest.rows["base"] = 77
    assert not guest.says(recipe)
    assert guest.noted.base == 77


def test_big_endian_data_says_nothing(guest: Guest) -> None:
    values = after([a.ldr(1, 0)])
    recipe = values.recipe(values.of(1), None, None)
    assert recipe is not None
    guest.engine.put(e.X[0], DATA)
    controls = guest.engine.system(SCTLR_EL1.encoding)
    guest.engine.set_system(SCTLR_EL1.encoding, controls | 1 << 25)
    assert not guest.says(recipe)
    guest.engine.set_system(SCTLR_EL1.encoding, controls)
    assert guest.says(recipe)


def test_a_value_of_too_many_steps_has_no_recipe() -> None:
    values = after([a.mul(1, 1, 2) if n % 2 else a.add(1, 1, 3) for n in range(MOST_STEPS)])
    assert values.of(1) is not None
    assert values.recipe(values.of(1), None, None) is None


@pytest.mark.parametrize(
    ("n", "imms", "immr", "mask"),
    [
        (1, 0, 0, 1),
        (1, 7, 0, 0xFF),
        (1, 7, 4, 0xF000_0000_0000_000F),
        (0, 0b111100, 0, 0x5555_5555_5555_5555),
        (0, 7, 8, 0xFF00_0000_FF00_0000),
    ],
)
def test_immediates_of_logical_instructions(n: int, imms: int, immr: int, mask: int) -> None:
    """By the examples of the Arm ARM's DecodeBitMasks(): element size, ones, turned right."""
    assert bit_mask(n, imms, immr) == mask


@pytest.mark.accelerated
def test_a_plan_by_a_recipe_replaces_the_exact_step() -> None:
    """Index X0 is made in the block and lost in it, so neither end of the block shows it."""
    code = [
        decode(word) for word in (a.lsr_imm(0, 4, 49), a.ldr_reg(0, 19, 0), a.subs_imm(31, 0, 1))
    ]
    plan = plan_block(code, loads=True)[1]
    assert not plan.exact
    assert plan.recipe is not None
    assert plan.recipe.base
    assert plan.recipe.index
    assert not plan.recipe.flags
