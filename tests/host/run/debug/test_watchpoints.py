"""Watchpoints: taken before the access, on the first watched byte, alike by both runners."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.registers import debug as d
from spe_unicorn.arch.registers import system
from spe_unicorn.host.pe.vectors import FFR, predicate, vector
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from tests.host.run.debug.debugged import (
    BOTH,
    CODE,
    DATA,
    EIGHT,
    EL0_AND_EL1,
    EL2_ALONE,
    IL,
    LOADS,
    STORES,
    Taken,
    board,
    taken,
)
from tests.support import a64 as a

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
ENABLED = 1
FROM_LOWER, FROM_HERE = 0x34, 0x35
WRITE, CM = 1 << 6, 1 << 8
FP = 3 << 20


def watch(
    address: int, kinds: int = BOTH, selected: int = EIGHT, levels: int = EL0_AND_EL1, more: int = 0
) -> dict[type, int]:
    control = ENABLED | levels | kinds | selected | more
    return {d.DBGWVRS[0]: address, d.DBGWCRS[0]: control}


def esr(ec: int, bits: int = 0) -> int:
    return ec << 26 | IL | bits | 0x22


@RUNNERS
@pytest.mark.parametrize(("at", "el"), [(0, 1), (1, 1), (0, 2), (1, 2)])
def test_a_load_and_a_store_stop_before_they_happen(at: int, el: int, runner: type[Runner]) -> None:
    code = [a.movz(1, 7), a.ldr(1, 6, 8), a.str_(31, 6, 8), a.ldr(2, 6, 16)]
    found, board_ = taken(code, watch(DATA + 8), runner, at, el)
    ec = FROM_HERE if at == el else FROM_LOWER
    assert found == [
        Taken(4, esr(ec), DATA + 8),
        Taken(8, esr(ec, WRITE), DATA + 8),
    ]
    assert board_.cpu.engine.x(1) == 7
    assert board_.memory.read(DATA + 8, 8) == bytes(range(8, 16))
    assert board_.cpu.engine.x(2) == int.from_bytes(bytes(range(16, 24)), "little")


@RUNNERS
def test_el2_watches_itself(runner: type[Runner]) -> None:
    found, _ = taken([a.str_(31, 6)], watch(DATA, levels=EL2_ALONE), runner, at=2, el=2)
    assert found == [Taken(0, esr(FROM_HERE, WRITE), DATA)]


@RUNNERS
@pytest.mark.parametrize(
    ("kinds", "places"), [(LOADS, [0, 8, 12]), (STORES, [4, 8, 12]), (BOTH, [0, 4, 8, 12])]
)
def test_an_atomic_is_a_load_and_a_store(
    kinds: int, places: list[int], runner: type[Runner]
) -> None:
    """LDADD, and a CAS whose comparison fails: WnR is 0 if a read would have raised it."""
    code = [a.ldr(1, 6), a.str_(1, 6), a.ldadd(1, 2, 6), a.cas(3, 4, 6)]
    found, _ = taken(code, watch(DATA, kinds), runner)
    assert [one.place for one in found] == places
    write = 0 if kinds & LOADS else WRITE
    assert [one.esr for one in found if one.place >= 8] == [esr(FROM_HERE, write)] * 2


ACCESSES = {
    "pair, its second register": ([a.pair(True, 1, 2, 6)], 8, 0xFF, 8),
    "pair before": ([a.add_imm(5, 6, 24), a.pair(False, 1, 2, 5, -16)], 16, 0xFF, 16),
    "bytes in the middle": ([a.ldr(1, 6)], 0, 0b0011_0000, 4),
    "a word, over its end": ([a.add_imm(5, 6, 2), a.ldr(1, 5, 0, 2)], 4, 0b0001, 4),
    "an unaligned doubleword": ([a.add_imm(5, 6, 5), a.ldr(1, 5)], 8, 0xFF, 8),
    "over the end of a page": ([a.add_imm(5, 6, 0xFFC), a.str_(1, 5)], 0x1000, 0xFF, 0x1000),
    "post-index": ([a.ldr9(1, 6, 8, 0b01)], 0, 0xFF, 0),
    "pre-index": ([a.str9(1, 6, 8, 0b11)], 8, 0xFF, 8),
    "register offset": ([a.movz(1, 16), a.ldr_reg(2, 6, 1)], 16, 0xFF, 16),
    "vector": ([a.ldr_q(0, 6)], 8, 0xFF, 8),
    "structures": ([a.ld1_two(0, 6)], 24, 0xFF, 24),
    "load exclusive": ([a.ldxr(1, 6)], 0, 0xFF, 0),
    "store exclusive that would fail": ([a.CLREX, a.stxr(1, 2, 6)], 0, 0xFF, 0),
    "store release": ([a.stlr(1, 6)], 0, 0xFF, 0),
    "zeroed block, from within": ([a.add_imm(5, 6, 48), a.dc_zva(5)], 16, 0xFF, 16),
    "invalidated line": ([a.add_imm(5, 6, 16), a.sys(0, 7, 6, 1, 5)], 40, 0xFF, 40),
}


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("name", ACCESSES)
def test_each_kind_of_access_stops_at_its_first_watched_byte(
    name: str, runner: type[Runner]
) -> None:
    code, offset, selected, byte = ACCESSES[name]
    registers = {**watch(DATA + offset, BOTH, selected << 5), system.CPACR_EL1: FP}
    found, board_ = taken(code, registers, runner)
    assert [(one.place, one.far) for one in found] == [(4 * len(code) - 4, DATA + byte)]
    assert bool(found[0].esr & CM) == ("line" in name)
    assert board_.memory.read(DATA, 256) == bytes(range(256))
    if "index" in name:
        assert board_.cpu.engine.x(6) == DATA


BESIDE = {
    "before": [a.ldr(1, 6)],
    "behind": [a.ldr(1, 6, 16)],
    "prefetch": [a.prfm(6, 8)],
    "clean": [a.add_imm(5, 6, 8), a.sys(3, 7, 10, 1, 5)],
    "unwatched bytes": [a.add_imm(5, 6, 12), a.ldr(1, 5, 0, 2)],
}


@RUNNERS
@pytest.mark.parametrize("name", BESIDE)
def test_what_touches_no_watched_byte_goes_on(name: str, runner: type[Runner]) -> None:
    found, _ = taken(BESIDE[name], watch(DATA + 8, selected=0x0F << 5), runner)
    assert found == []


@RUNNERS
def test_a_mask_watches_a_range(runner: type[Runner]) -> None:
    code = [a.ldr(1, 6, 56), a.ldr(1, 6, 64), a.str_(1, 6, 120), a.ldr(1, 6, 128)]
    found, _ = taken(code, watch(DATA + 64, more=6 << 24), runner)
    assert [(one.place, one.far) for one in found] == [(4, DATA + 64), (8, DATA + 120)]


@RUNNERS
@pytest.mark.parametrize(
    ("registers", "spsr"),
    [
        ({d.MDSCR_EL1: 1 << 13}, 0x1C0),  # MDE is 0
        ({d.MDSCR_EL1: 1 << 15}, 0x1C0),  # KDE is 0, at the level that would take it
        ({}, 0x3C0),  # PSTATE.D is 1
        ({d.OSLAR_EL1: 1}, 0x1C0),
        ({d.DBGWCRS[0]: EL0_AND_EL1 | BOTH | EIGHT}, 0x1C0),  # E is 0
        ({d.DBGWCRS[0]: ENABLED | 2 << 1 | BOTH | EIGHT}, 0x1C0),  # EL0 alone
    ],
)
def test_what_disables_a_watchpoint(
    registers: dict[type, int], spsr: int, runner: type[Runner]
) -> None:
    found, _ = taken([a.ldr(1, 6)], {**watch(DATA), **registers}, runner, spsr=spsr)
    assert found == []


@RUNNERS
def test_a_watchpoint_of_el0_is_for_unprivileged_accesses_of_el1(runner: type[Runner]) -> None:
    sttr = 0xF800_0800 | 6 << 5 | 1  # STTR X1, [X6]
    found, _ = taken([a.str_(1, 6), sttr], watch(DATA, levels=2 << 1), runner)
    assert found == [Taken(4, esr(FROM_HERE, WRITE), DATA)]


@RUNNERS
def test_a_linked_watchpoint_needs_its_context(runner: type[Runner]) -> None:
    linked = {
        **watch(DATA, more=1 << 20 | 5 << 16),
        d.DBGBVRS[5]: 0x1234,
        d.DBGBCRS[5]: 3 << 20 | 0xF << 5 | 3 << 1 | 1,
    }
    context = (3, 0, 13, 0, 1)
    code = [a.ldr(1, 6), a.movz(2, 0x1234), a.msr(context, 2), a.ldr(1, 6), a.ISB, a.ldr(1, 6)]
    found, _ = taken(code, linked, runner)
    assert [one.place for one in found if one.place != 12] == [20]


@RUNNERS
def test_a_trap_of_the_operation_goes_first(runner: type[Runner]) -> None:
    registers = {**watch(DATA), system.CPACR_EL1: 0}
    found, _ = taken([a.ldr_q(0, 6), a.ldr(1, 6)], registers, runner)
    assert [(one.place, one.esr >> 26) for one in found] == [(0, 0x07), (4, FROM_HERE)]


def test_a_watched_operation_is_in_the_population_once() -> None:
    records = []
    for runner in (Runner, ReferenceRunner):
        pcs: list[tuple[int, bool, int | None]] = []
        made, before = board(
            [a.movz(1, 3), a.str_(1, 6), a.ldr(2, 6, 8), a.str_(1, 6)],
            watch(DATA, STORES),
            runner,
            sampling=Sampling(1, jitter=False),
        )
        made.unit.recorded.connect(
            lambda _, operation, pcs=pcs: pcs.append(
                (operation.pc - CODE, operation.exception, operation.va)
            )
        )
        made.run(before + 40)
        records.append([one for one in pcs if 0 <= one[0] < 16])
    assert records[0] == records[1]
    assert records[0] == [
        (0, False, None),
        (4, True, DATA),
        (8, False, DATA + 8),
        (12, True, DATA),
    ]


PTRUE_ALL, PTRUE_ONE = 0x25D8_E3E0, 0x25D8_E020
INDEX_BY_8 = 0x04E0_4400 | 8 << 16 | 6 << 5 | 1
"""INDEX Z1.D, X6, #8: the addresses of two doublewords."""
LD1D, ST1D, LDNF1D = (word | 6 << 5 for word in (0xA5E0_A000, 0xE5E0_E000, 0xA5F0_A000))
LDFF1D = 0xA5E0_6000 | 31 << 16 | 6 << 5
GATHER, SCATTER, FIRST_FAULT_GATHER = (
    word | 1 << 5 for word in (0xC5A0_C000, 0xE5C0_A000, 0xC5A0_E000)
)


@RUNNERS
@pytest.mark.parametrize(
    ("word", "with_all", "with_one"),
    [
        (LD1D, 8, None),
        (ST1D, 8, None),
        (GATHER, 8, None),
        (SCATTER, 8, None),
        (LDFF1D, None, None),  # by its first active element alone
        (FIRST_FAULT_GATHER, None, None),
        (LDNF1D, None, None),
    ],
)
def test_active_elements_of_vectors_are_watched(
    word: int, with_all: int | None, with_one: int | None, runner: type[Runner]
) -> None:
    for governor, offset in ((PTRUE_ALL, with_all), (PTRUE_ONE, with_one)):
        registers = {**watch(DATA + 8), system.CPACR_EL1: FP | 3 << 16}
        found, made = taken([INDEX_BY_8, governor, word], registers, runner)
        expected = [] if offset is None else [(8, DATA + offset)]
        assert [(one.place, one.far) for one in found] == expected
        if expected:
            assert made.memory.read(DATA, 16) == bytes(range(16))


@RUNNERS
def test_the_first_active_element_of_a_first_faulting_load(runner: type[Runner]) -> None:
    for word in (LDFF1D, FIRST_FAULT_GATHER):
        registers = {**watch(DATA), system.CPACR_EL1: FP | 3 << 16}
        found, _ = taken([INDEX_BY_8, PTRUE_ALL, word], registers, runner)
        assert [(one.place, one.far) for one in found] == [(8, DATA)]


@RUNNERS
@pytest.mark.parametrize("word", [LDNF1D, LDFF1D, FIRST_FAULT_GATHER])
def test_a_watched_element_after_the_first_ends_the_load(word: int, runner: type[Runner]) -> None:
    """It is no exception: the element is FALSE in FFR, and 0, as Arm allows."""
    registers = {**watch(DATA + 8), system.CPACR_EL1: FP | 3 << 16}
    setffr = 0x252C_9000
    found, made = taken([INDEX_BY_8, PTRUE_ALL, setffr, word], registers, runner)
    assert found == []
    assert predicate(made.cpu, FFR) & 0xFFFF == 0x00FF
    assert vector(made.cpu, 0, 128) == int.from_bytes(bytes(range(8)), "little")


def test_a_snapshot_has_what_is_watched() -> None:
    code = [a.movz(1, 1), a.movz(1, 2), a.str_(1, 6), a.NOP]
    found, _ = taken(code, watch(DATA), Runner)
    made, before = board(code, watch(DATA), Runner)
    made.run(before + 1)
    cpu = made.cpu
    kept = {register: cpu.registers.raw(register) for register in d.DEBUG_REGISTERS}
    checks = made.pes[0].handler.controls.checks
    assert checks.active
    for register in d.DEBUG_REGISTERS:
        cpu.registers.set_raw(register, 0)
    made.pes[0].handler.controls_written()
    assert not checks.active
    for register, value in kept.items():
        cpu.registers.set_raw(register, value)
    made.pes[0].resync()
    assert checks.active
    made.run(40)
    assert made.memory.read(DATA, 8) == bytes(range(8))
    assert len(found) == 1
