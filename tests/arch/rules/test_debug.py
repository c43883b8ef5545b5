"""Breakpoints and watchpoints as rules, by hand from Arm ARM D2.8, D2.9 and J1."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.system import SPSR_EL1
from spe_unicorn.arch.rules.debug import (
    MemoryAccess,
    Watched,
    armed_breakpoints,
    armed_watchpoints,
    breakpoint_matches,
    breaks,
    debug_exception_return_ss,
    generate_debug_exceptions_from,
    state_match,
    step_is_pending,
    watched,
    watches,
    watchpoint_match,
)

F = Feature
FEATURES = frozenset({F.FEAT_EL2, F.FEAT_EL3, F.FEAT_VHE, F.FEAT_DoubleLock})
TGE, E2H, TDE = 1 << 27, 1 << 34, 1 << 8
BOTH_ELS, LOADS, STORES, BOTH = 3 << 1, 1 << 3, 2 << 3, 3 << 3


def pe(el: int = 1, features: frozenset[Feature] = FEATURES, **values: int) -> StillPE:
    """A PE in Non-secure state, its OS lock open; registers by name."""
    made = StillPE(features, el=el)
    made.registers.set_raw(system.SCR_EL3, system.SCR_EL3.of(NS=1, RW=1).value)
    made.registers.set_raw(d.OSLSR_EL1, 8)
    for name, value in values.items():
        made.registers.set_raw(named(name), value)
    return made


def named(name: str) -> type:
    if name[:6] in ("DBGBVR", "DBGBCR", "DBGWVR", "DBGWCR"):
        return getattr(d, f"{name[:6]}S")[int(name[6:])]
    return getattr(system, name, None) or getattr(d, name)


# Which exceptions are generated

KDE = 1 << 13


@pytest.mark.parametrize(
    ("el", "mask", "values", "generated"),
    [
        (0, True, {}, True),
        (1, False, {}, False),
        (1, False, {"MDSCR_EL1": KDE}, True),
        (1, True, {"MDSCR_EL1": KDE}, False),
        (2, False, {"MDSCR_EL1": KDE}, False),
        (3, False, {"MDSCR_EL1": KDE}, False),
        (0, True, {"MDCR_EL2": TDE}, True),
        (1, True, {"MDCR_EL2": TDE}, True),
        (2, False, {"MDCR_EL2": TDE}, False),
        (2, False, {"MDCR_EL2": TDE, "MDSCR_EL1": KDE}, True),
        (2, True, {"MDCR_EL2": TDE, "MDSCR_EL1": KDE}, False),
        (0, True, {"HCR_EL2": TGE}, True),
        (2, False, {"HCR_EL2": TGE, "MDSCR_EL1": KDE}, True),
        (3, False, {"MDCR_EL2": TDE, "MDSCR_EL1": KDE}, False),
        (0, False, {"OSLSR_EL1": 0xA}, False),
        (0, False, {"OSDLR_EL1": 1}, False),
        (0, False, {"OSDLR_EL1": 1, "DBGPRCR_EL1": 1}, True),
        # Secure state, with an EL2 that is not enabled there
        (0, False, {"SCR_EL3": 0x400, "MDCR_EL2": TDE}, True),
        (1, False, {"SCR_EL3": 0x400, "MDCR_EL2": TDE, "MDSCR_EL1": KDE}, True),
        (0, False, {"SCR_EL3": 0x400, "MDCR_EL3": 1 << 16}, False),
        (0, False, {"MDCR_EL3": 1 << 16}, True),  # SDD is for Secure state
    ],
)
def test_where_debug_exceptions_are_generated(
    el: int, mask: bool, values: dict[str, int], generated: bool
) -> None:
    assert generate_debug_exceptions_from(pe(el, **values), el, mask=mask) is generated


def test_without_the_double_lock_its_register_does_nothing() -> None:
    without = pe(0, FEATURES - {F.FEAT_DoubleLock}, OSDLR_EL1=1)
    assert generate_debug_exceptions_from(without, 0, mask=False)


@pytest.mark.parametrize(
    ("values", "el", "to", "spsr", "ss"),
    [
        ({"MDSCR_EL1": 1}, 1, 0, 1 << 21, True),
        ({"MDSCR_EL1": 1}, 1, 0, 0, False),
        ({"MDSCR_EL1": 0}, 1, 0, 1 << 21, False),
        ({"MDSCR_EL1": 1 | KDE}, 1, 1, 1 << 21 | 5, True),  # PSTATE.D is 1 at the source
        ({"MDSCR_EL1": 1 | KDE}, 1, 1, 1 << 21 | 1 << 9 | 5, False),
        ({"MDSCR_EL1": 1}, 1, 1, 1 << 21 | 5, False),
        ({"MDSCR_EL1": 1, "MDCR_EL2": TDE}, 2, 1, 1 << 21 | 1 << 9 | 5, True),
        ({"MDSCR_EL1": 1, "OSLSR_EL1": 0xA}, 1, 0, 1 << 21, False),
        ({"MDSCR_EL1": 1, "OSDLR_EL1": 1}, 1, 0, 1 << 21, False),
    ],
)
def test_ss_after_an_exception_return(
    values: dict[str, int], el: int, to: int, spsr: int, ss: bool
) -> None:
    pstate = SPSR_EL1(1 << 9 | el << 2 | 1)
    assert debug_exception_return_ss(pe(el, **values), pstate, to, SPSR_EL1(spsr)) is ss


def test_a_step_is_pending_without_pstate_ss() -> None:
    stepped = pe(0, MDSCR_EL1=1)
    assert step_is_pending(stepped, SPSR_EL1(0))
    assert not step_is_pending(stepped, SPSR_EL1(1 << 21))
    assert not step_is_pending(pe(1, MDSCR_EL1=1), SPSR_EL1(5))


# HMC, SSC and PAC: which Exception levels match in Non-secure and in Secure state

STATES = [
    # hmc, ssc, pac, Non-secure, Secure; Arm ARM Table D2-13
    (0, 0, 1, {1}, {1}),
    (0, 0, 2, {0}, {0}),
    (0, 0, 3, {0, 1}, {0, 1}),
    (0, 1, 1, {1}, set()),
    (0, 1, 2, {0}, set()),
    (0, 1, 3, {0, 1}, set()),
    (0, 2, 1, set(), {1}),
    (0, 2, 2, set(), {0}),
    (0, 2, 3, set(), {0, 1}),
    (1, 0, 1, {1, 2}, {1, 2, 3}),
    (1, 0, 3, {0, 1, 2}, {0, 1, 2, 3}),
    (1, 1, 1, {1, 2}, set()),
    (1, 1, 3, {0, 1, 2}, set()),
    (1, 2, 0, set(), {3}),
    (1, 2, 1, set(), {1, 2, 3}),
    (1, 2, 3, set(), {0, 1, 2, 3}),
    (1, 3, 0, {2}, {2}),
    # with Secure EL2 alone
    (0, 3, 0, set(), {2}),
    (0, 3, 1, set(), {1, 2}),
    (0, 3, 3, set(), {0, 1, 2}),
    (1, 1, 0, {2}, set()),
    (1, 3, 1, {1, 2}, {1, 2}),
    (1, 3, 3, {0, 1, 2}, {0, 1, 2}),
    # never
    (0, 0, 0, set(), set()),
    (0, 1, 0, set(), set()),
    (0, 2, 0, set(), set()),
    (0, 3, 2, set(), set()),
    (1, 0, 0, set(), set()),
    (1, 0, 2, set(), set()),
    (1, 1, 2, set(), set()),
    (1, 2, 2, set(), set()),
    (1, 3, 2, set(), set()),
]
NEEDS_SECURE_EL2 = {(0, 3, 0), (0, 3, 1), (0, 3, 3), (1, 1, 0), (1, 3, 1), (1, 3, 3)}


@pytest.mark.parametrize(("hmc", "ssc", "pac", "non_secure", "secure"), STATES)
@pytest.mark.parametrize("kind", [d.DBGWCR, d.DBGBCR])
def test_state_match(
    hmc: int, ssc: int, pac: int, non_secure: set[int], secure: set[int], kind: type
) -> None:
    name = "PAC" if kind is d.DBGWCR else "PMC"
    control = kind.of(HMC=hmc, SSC=ssc, **{name: pac})  # type: ignore[attr-defined]
    everything = FEATURES | {F.FEAT_SEL2}
    eel2 = 1 << 18 | 0x400
    found = [
        {el for el in levels if state_match(pe(el, everything, SCR_EL3=scr), el, control)}
        for scr, levels in ((0x401, (0, 1, 2)), (eel2, (0, 1, 2, 3)))
    ]
    assert found == [non_secure, secure]
    if (hmc, ssc, pac) in NEEDS_SECURE_EL2:
        assert not any(state_match(pe(el), el, control) for el in range(4))


def test_without_el2_and_el3_only_plain_levels_match() -> None:
    small = frozenset({F.FEAT_SPE})
    plain, both = d.DBGWCR.of(PAC=3), d.DBGWCR.of(HMC=1, PAC=3)
    assert state_match(pe(1, small), 1, plain)
    assert not state_match(pe(1, small), 1, both)
    assert not state_match(pe(1, small), 1, d.DBGWCR.of(SSC=1, PAC=3))


# Watchpoints

ON = 1 | BOTH_ELS | BOTH


@pytest.mark.parametrize(
    ("value", "control", "ranges"),
    [
        (0x1000, ON | 0xFF << 5, [(0x1000, 0x1007)]),
        (0x1000, ON | 0x01 << 5, [(0x1000, 0x1000)]),
        (0x1000, ON | 0x3C << 5, [(0x1002, 0x1005)]),
        (0x1004, ON | 0x0F << 5, [(0x1004, 0x1007)]),
        (0x1004, ON | 0xF3 << 5, [(0x1004, 0x1005)]),  # the upper four are ignored
        (0x1000, ON | 0x81 << 5, [(0x1000, 0x1000), (0x1007, 0x1007)]),
        (0x1000, ON, []),
        (0x1000, ON | 0xFF << 5 | 3 << 24, [(0x1000, 0x1007)]),
        (0x1000, ON | 0xFF << 5 | 12 << 24, [(0x1000, 0x1FFF)]),
        (0x8000_0000, ON | 0xFF << 5 | 31 << 24, [(0x8000_0000, 0xFFFF_FFFF)]),
        (0x1000, ON | 0xFF << 5 | 1 << 24, []),  # reserved
        (0x1000, (ON & ~1) | 0xFF << 5, []),
        (0x1000, (ON & ~BOTH) | 0xFF << 5, []),
        (0xFFFF_8000_0000_1000, ON | 0xFF << 5, [(0x1_8000_0000_1000, 0x1_8000_0000_1007)]),
    ],
)
def test_which_bytes_are_watched(value: int, control: int, ranges: list[tuple[int, int]]) -> None:
    subject = pe(DBGWVR2=value, DBGWCR2=control)
    assert watched(subject, 2) == tuple(Watched(*places, True, True) for places in ranges)


def reading(address: int, size: int, el: int = 1) -> MemoryAccess:
    return MemoryAccess(address, size, el, read=True, write=False)


def writing(address: int, size: int, el: int = 1) -> MemoryAccess:
    return MemoryAccess(address, size, el, read=False, write=True)


@pytest.mark.parametrize(
    ("access", "kinds", "byte"),
    [
        (reading(0x1000, 8), LOADS, 0x1000),
        (reading(0x0FF9, 8), LOADS, 0x1000),
        (reading(0x0FF8, 8), LOADS, None),
        (reading(0x1007, 1), LOADS, 0x1007),
        (reading(0x1008, 8), LOADS, None),
        (reading(0x1000, 8), STORES, None),
        (writing(0x1000, 8), STORES, 0x1000),
        (writing(0x0FC0, 128), STORES, 0x1000),
        (reading(0xAA00_0000_0000_1000, 8), LOADS, 0xAA00_0000_0000_1000),  # with a tag
    ],
)
def test_the_first_watched_byte(access: MemoryAccess, kinds: int, byte: int | None) -> None:
    subject = pe(DBGWVR0=0x1000, DBGWCR0=1 | BOTH_ELS | kinds | 0xFF << 5)
    assert watchpoint_match(subject, 0, access) == byte


def test_the_lowest_of_several_watchpoints_counts_if_it_is_on() -> None:
    both = {
        "DBGWVR0": 0x1008,
        "DBGWCR0": ON | 0xFF << 5,
        "DBGWVR3": 0x1000,
        "DBGWCR3": ON | 0x80 << 5,
    }
    pstate = SPSR_EL1(0)
    enabled = pe(0, MDSCR_EL1=1 << 15, **both)
    assert watches(enabled, pstate, reading(0x1000, 16, el=0)) == 0x1007
    assert watches(pe(0, **both), pstate, reading(0x1000, 16, el=0)) is None
    assert armed_watchpoints(enabled, 0) == (0, 3)
    assert armed_watchpoints(enabled, 1) == ()  # KDE is 0


# Breakpoints

AT, CONTEXT = 0xF << 5 | BOTH_ELS | 1, 0xF << 5 | BOTH_ELS | 1


def test_an_address_matches_its_operation_alone() -> None:
    subject = pe(DBGBVR0=0x1004, DBGBCR0=AT)
    assert breakpoint_matches(subject, 0, 0x1004)
    assert not breakpoint_matches(subject, 0, 0x1008)
    assert not breakpoint_matches(pe(DBGBVR0=0x1004, DBGBCR0=AT & ~1), 0, 0x1004)
    kernel = pe(DBGBVR0=0xFFFF_8000_0000_1004, DBGBCR0=AT)
    assert breakpoint_matches(kernel, 0, 0xFFFF_8000_0000_1004)


@pytest.mark.parametrize("number", [4, 5])
@pytest.mark.parametrize(
    ("bt", "value", "el", "values", "matches"),
    [
        (2, 0x77, 0, {"CONTEXTIDR_EL1": 0x77}, True),
        (2, 0x77, 1, {"CONTEXTIDR_EL1": 0x78}, False),
        (2, 0x77, 2, {"CONTEXTIDR_EL1": 0x77}, False),
        (2, 0x77, 2, {"HCR_EL2": E2H, "CONTEXTIDR_EL2": 0x77}, True),
        (2, 0x77, 0, {"HCR_EL2": E2H | TGE, "CONTEXTIDR_EL2": 0x77}, True),
        (6, 0x77, 1, {"CONTEXTIDR_EL1": 0x77}, True),
        (6, 0x77, 0, {"HCR_EL2": E2H | TGE, "CONTEXTIDR_EL1": 0x77}, False),
        (8, 5 << 32, 1, {"VTTBR_EL2": 5 << 48}, True),
        (8, 5 << 32, 1, {"VTTBR_EL2": 0x105 << 48}, True),  # 8 bits count
        (8, 5 << 32, 1, {"VTTBR_EL2": 0x105 << 48, "VTCR_EL2": 1 << 19}, False),
        (8, 5 << 32, 2, {"VTTBR_EL2": 5 << 48}, False),
        (10, 5 << 32 | 7, 0, {"VTTBR_EL2": 5 << 48, "CONTEXTIDR_EL1": 7}, True),
        (10, 5 << 32 | 7, 0, {"VTTBR_EL2": 5 << 48, "CONTEXTIDR_EL1": 8}, False),
        (12, 9 << 32, 1, {"CONTEXTIDR_EL2": 9}, True),
        (12, 9 << 32, 1, {"CONTEXTIDR_EL2": 8}, False),
        (14, 9 << 32 | 7, 1, {"CONTEXTIDR_EL2": 9, "CONTEXTIDR_EL1": 7}, True),
        (14, 9 << 32 | 7, 1, {"CONTEXTIDR_EL2": 9, "CONTEXTIDR_EL1": 6}, False),
        (4, 0x2000, 1, {}, False),  # mismatch is reserved
    ],
)
def test_contexts(
    number: int, bt: int, value: int, el: int, values: dict[str, int], matches: bool
) -> None:
    levels = 0xF << 5 | 1 | (1 << 13 | 3 << 14 if el == 2 else BOTH_ELS)
    alone = pe(el, **{f"DBGBVR{number}": value, f"DBGBCR{number}": bt << 20 | levels}, **values)
    assert breakpoint_matches(alone, number, 0x2000) is matches
    # the same, linked to: the address counts as well
    links = {
        f"DBGBVR{number}": value,
        f"DBGBCR{number}": (bt | 1) << 20 | 0xF << 5 | 1,
        "DBGBVR0": 0x2000,
        "DBGBCR0": 1 << 20 | number << 16 | levels,
    }
    linked = pe(el, **links, **values)
    assert breakpoint_matches(linked, 0, 0x2000) is matches
    assert not breakpoint_matches(linked, 0, 0x2004)
    assert not breakpoint_matches(linked, number, 0x2000)  # it is for links alone


def test_contexts_are_for_the_last_two() -> None:
    values = {"DBGBVR3": 0x77, "DBGBCR3": 2 << 20 | CONTEXT, "CONTEXTIDR_EL1": 0x77}
    assert not breakpoint_matches(pe(0, **values), 3, 0)
    links = {"DBGBVR0": 0x2000, "DBGBCR0": 1 << 20 | 3 << 16 | AT, **values}
    links["DBGBCR3"] = 3 << 20 | CONTEXT
    assert not breakpoint_matches(pe(0, **links), 0, 0x2000)


def test_contexts_of_el2_came_with_armv8_1() -> None:
    old = FEATURES - {F.FEAT_VHE}
    values = {"DBGBVR5": 0x77, "DBGBCR5": 6 << 20 | CONTEXT, "CONTEXTIDR_EL1": 0x77}
    assert not breakpoint_matches(pe(0, old, **values), 5, 0)
    assert breakpoint_matches(pe(0, old | {F.FEAT_Debugv8p2}, **values), 5, 0)


def test_breaks_needs_mde() -> None:
    values = {"DBGBVR0": 0x1000, "DBGBCR0": AT}
    assert breaks(pe(0, MDSCR_EL1=1 << 15, **values), SPSR_EL1(0), 0x1000)
    assert not breaks(pe(0, **values), SPSR_EL1(0), 0x1000)
    assert armed_breakpoints(pe(0, MDSCR_EL1=1 << 15, **values), 0) == (0,)
    assert armed_breakpoints(pe(0, MDSCR_EL1=1 << 15, **values), 1) == ()
