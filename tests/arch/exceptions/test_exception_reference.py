"""Exception entry, routing and return over random states, against tables written by hand.

The tables follow the layout of those in the Arm ARM (D1.3.3, D1.3.6): a row a case, and nothing
here calls what the rules under test call.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType, take_exception
from spe_unicorn.arch.exceptions.returns import exception_return
from spe_unicorn.arch.exceptions.routing import default_target, route_interrupt
from spe_unicorn.arch.exceptions.syndromes import Syndrome
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.id import (
    ID_AA64MMFR1_EL1,
    ID_AA64MMFR2_EL1,
    ID_AA64PFR0_EL1,
    ID_AA64PFR1_EL1,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
    SCTLR_EL3,
    SPSR_EL1,
    VBAR_EL1,
    VBAR_EL2,
    VBAR_EL3,
)
from tests.support.fakes import ALL_LEVELS, FakePE

IDENTITY: dict[type[SysReg], int] = {
    ID_AA64PFR0_EL1: 1 << 48,  # DIT
    ID_AA64PFR1_EL1: 1 << 4 | 1,  # SSBS, BT
    ID_AA64MMFR1_EL1: 1 << 20,  # PAN
    ID_AA64MMFR2_EL1: 1 << 4,  # UAO
}
SCTLR = {1: SCTLR_EL1, 2: SCTLR_EL2, 3: SCTLR_EL3}
VBAR = {1: VBAR_EL1, 2: VBAR_EL2, 3: VBAR_EL3}
DSSBS, SPAN = 1 << 44, 1 << 23
RW, TGE, E2H = 1 << 31, 1 << 27, 1 << 34
SCR_NS, SCR_RW = 1 << 0, 1 << 10

words = st.integers(0, (1 << 64) - 1)
flags = st.booleans()


class Bits(NamedTuple):
    """Where a field of PSTATE stands in SPSR_ELx, and what an exception makes of it."""

    lsb: int
    width: int
    entry: str


PSTATE = {
    "NZCV": Bits(28, 4, "kept"),
    "TCO": Bits(25, 1, "set"),
    "DIT": Bits(24, 1, "kept"),
    "UAO": Bits(23, 1, "clear"),
    "PAN": Bits(22, 1, "PAN"),
    "SS": Bits(21, 1, "clear"),
    "IL": Bits(20, 1, "clear"),
    "SSBS": Bits(12, 1, "SSBS"),
    "BTYPE": Bits(10, 2, "clear"),
    "DAIF": Bits(6, 4, "set"),
    "nRW": Bits(4, 1, "clear"),
    "EL": Bits(2, 2, "EL"),
    "zero": Bits(1, 1, "clear"),
    "SP": Bits(0, 1, "set"),
}
"""PSTATE of a PE with every feature that adds to it but those of profiling."""


def field(value: int, name: str) -> int:
    bits = PSTATE[name]
    return value >> bits.lsb & (1 << bits.width) - 1


def make(values: dict[str, int]) -> int:
    return sum(value << PSTATE[name].lsb for name, value in values.items())


@st.composite
def states(draw: st.DrawFn) -> int:
    """A PSTATE, of an Exception level and stack pointer that exist."""
    values = {name: draw(st.integers(0, (1 << b.width) - 1)) for name, b in PSTATE.items()}
    values.update(nRW=0, zero=0, SS=0)
    values["EL"], values["SP"] = draw(
        st.sampled_from([(0, 0), *((el, sp) for el in (1, 2, 3) for sp in (0, 1))])
    )
    return make(values)


def pe(registers: dict[type[SysReg], int], el: int = 1) -> FakePE:
    return FakePE(
        {**IDENTITY, **registers},
        features=ALL_LEVELS | {Feature.FEAT_MTE2, Feature.FEAT_VHE},
        el=el,
    )


QUARTER = {
    # target level above the current one, SP_ELx selected
    (False, False): 0x000,
    (False, True): 0x200,
    (True, False): 0x400,
    (True, True): 0x400,
}
VECTOR = {
    ExceptionType.SYNC: 0x00,
    ExceptionType.IRQ: 0x80,
    ExceptionType.FIQ: 0x100,
    ExceptionType.SERROR: 0x180,
}


@given(
    states(),
    st.integers(1, 3),
    st.sampled_from(ExceptionType),
    st.tuples(words, words, words),
    st.tuples(words, words, words),
    flags,
    flags,
    words,
)
def test_entry_is_what_the_tables_say(
    before: int,
    target: int,
    kind: ExceptionType,
    vbars: tuple[int, int, int],
    sctlrs: tuple[int, int, int],
    e2h: bool,
    tge: bool,
    pc: int,
) -> None:
    el = field(before, "EL")
    target = max(target, el, 1)
    registers: dict[type[SysReg], int] = {
        HCR_EL2: RW | e2h * E2H | tge * TGE,
        SCR_EL3: SCR_RW | SCR_NS,
    }
    for n in (1, 2, 3):
        registers[VBAR[n]], registers[SCTLR[n]] = vbars[n - 1], sctlrs[n - 1]
    syndrome = Syndrome(0x15, 0x1234) if kind is ExceptionType.SYNC else None
    entry = take_exception(
        pe(registers, el), SPSR_EL1(before), ExceptionRecord(kind, syndrome), target, pc
    )

    quarter = QUARTER[target > el, bool(field(before, "SP"))]
    assert entry.vector == (vbars[target - 1] & ~0x7FF) + quarter + VECTOR[kind]
    assert (entry.target_el, entry.elr, entry.spsr) == (target, pc, before)
    assert entry.esr == (0x5600_1234 if syndrome else None)
    sctlr = sctlrs[target - 1]
    sets_pan = not sctlr & SPAN and (target == 1 or (target == 2 and e2h and tge))
    rules = {
        "kept": lambda name: field(before, name),
        "set": lambda name: (1 << PSTATE[name].width) - 1,
        "clear": lambda name: 0,
        "PAN": lambda name: 1 if sets_pan else field(before, name),
        "SSBS": lambda name: int(sctlr & DSSBS != 0),
        "EL": lambda name: target,
    }
    expected = {name: rules[bits.entry](name) for name, bits in PSTATE.items()}
    assert {name: field(entry.pstate.value, name) for name in PSTATE} == expected
    assert entry.pstate.value == make(expected)


HELD = None
"""The interrupt stays pending: nothing takes it at that Exception level."""
ROUTES: dict[tuple[int, int, int], tuple[int | None, int | None, int | None, int | None]] = {
    # SCR_EL3 bit, HCR_EL2.TGE, HCR_EL2 bit: the level that takes it, from EL0, EL1, EL2, EL3
    (0, 0, 0): (1, 1, HELD, HELD),
    (0, 0, 1): (2, 2, 2, HELD),
    (0, 1, 0): (2, 2, 2, HELD),
    (0, 1, 1): (2, 2, 2, HELD),
    (1, 0, 0): (3, 3, 3, 3),
    (1, 0, 1): (3, 3, 3, 3),
    (1, 1, 0): (3, 3, 3, 3),
    (1, 1, 1): (3, 3, 3, 3),
}
"""Physical interrupts of a PE with EL2, enabled, and EL3. (EL1 with TGE cannot be.)"""
SCR_BIT = {ExceptionType.IRQ: 1 << 1, ExceptionType.FIQ: 1 << 2, ExceptionType.SERROR: 1 << 3}
HCR_BIT = {ExceptionType.IRQ: 1 << 4, ExceptionType.FIQ: 1 << 3, ExceptionType.SERROR: 1 << 5}


@given(
    st.sampled_from(sorted(SCR_BIT)),
    st.tuples(flags, flags, flags),
    flags,
    st.integers(0, 3),
    flags,
    words,
)
def test_interrupts_are_routed_and_masked_as_the_table_says(
    kind: ExceptionType, row: tuple[bool, bool, bool], e2h: bool, el: int, mask: bool, noise: int
) -> None:
    to_el3, tge, to_el2 = row
    others_scr = sum(bit for k, bit in SCR_BIT.items() if k is not kind) & noise
    others_hcr = sum(bit for k, bit in HCR_BIT.items() if k is not kind) & noise
    registers: dict[type[SysReg], int] = {
        SCR_EL3: SCR_RW | SCR_NS | to_el3 * SCR_BIT[kind] | others_scr,
        HCR_EL2: RW | tge * TGE | e2h * E2H | to_el2 * HCR_BIT[kind] | others_hcr,
    }
    if el == 1 and tge:
        return
    route = route_interrupt(pe(registers, el), kind, mask=mask)
    target = ROUTES[int(to_el3), int(tge), int(to_el2)][el]
    if target is HELD:
        assert route.masked
        return
    assert route.target_el == target
    # PSTATE masks what the level itself takes, what EL1 takes, and what a host takes from its EL0
    obeys = target == el or target == 1 or (target == 2 and el == 0 and e2h and tge)
    assert route.masked == (obeys and mask)


@given(st.integers(0, 3), flags, flags)
def test_synchronous_exceptions_go_to_el1_or_stay(el: int, tge: bool, e2h: bool) -> None:
    registers: dict[type[SysReg], int] = {
        SCR_EL3: SCR_RW | SCR_NS,
        HCR_EL2: RW | tge * TGE | e2h * E2H,
    }
    expected = {0: 2 if tge else 1, 1: 1, 2: 2, 3: 3}[el]
    assert default_target(pe(registers, el)) == expected


LEGAL = {
    # from: the modes that SPSR_ELx.M[4:0] may ask for, TGE being 0 and 1
    1: ({0b00000, 0b00100, 0b00101}, {0b00000}),
    2: ({0b00000, 0b00100, 0b00101, 0b01000, 0b01001}, {0b00000, 0b01000, 0b01001}),
    3: (
        {0b00000, 0b00100, 0b00101, 0b01000, 0b01001, 0b01100, 0b01101},
        {0b00000, 0b01000, 0b01001, 0b01100, 0b01101},
    ),
}
REINSTATED = ("NZCV", "PAN", "DAIF")
"""What an illegal return takes from SPSR_ELx; all else stays, and IL becomes 1."""


@given(states(), words, st.integers(0, 31), flags, flags, words)
def test_return_is_what_the_tables_say(
    before: int, noise: int, mode: int, tge: bool, e2h: bool, elr: int
) -> None:
    el = field(before, "EL")
    if el == 0 or (el == 1 and tge):
        return
    spsr = noise & 0xFFFF_FFE0 & ~(1 << 21) | mode
    registers: dict[type[SysReg], int] = {
        SCR_EL3: SCR_RW | SCR_NS,
        HCR_EL2: RW | tge * TGE | e2h * E2H,
    }
    result = exception_return(pe(registers, el), SPSR_EL1(before), SPSR_EL1(spsr), elr)
    legal = mode in LEGAL[el][tge]
    assert (result.illegal, result.pc) == (not legal, elr)
    assert result.aarch32 == bool(mode & 0b10000)
    if legal:
        expected = {name: field(spsr, name) for name in PSTATE}
    else:
        expected = {
            name: field(spsr if name in REINSTATED else before, name) for name in PSTATE
        } | {"IL": 1}
    assert {name: field(result.pstate.value, name) for name in PSTATE} == expected
