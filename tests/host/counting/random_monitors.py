"""Programs that program the Performance Monitors and SPE at random, and read what they count.

A program is an endless loop of snippets. It goes down to lower Exception levels by ERET, and up by
exceptions: each handler goes on at its own level, after what raised. What is read goes into X3, so
that one read that differs shows in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from random import Random

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers import spe, system
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import Core, ModelName, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.spe.feed import SampleEvent
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.random_runs import run_in_pieces

BASE = 0x4000_0000
CODE, DATA, BUFFER, RAM = BASE + 0x1_0000, BASE + 0x10_0000, BASE + 0x20_0000, 4 << 20
VECTORS = {1: BASE + 0x1000, 2: BASE + 0x2000, 3: BASE + 0x3000}
SNIPPETS = 70
COUNTERS = 7
"""Counters that programs use: one more than most cores have."""
READ, FACTOR, WHERE = 3, 4, 20
"""X registers: what was read so far, an odd number, the data."""
CURRENTEL = (3, 0, 4, 2, 2)
VBAR = {1: system.VBAR_EL1, 2: system.VBAR_EL2, 3: system.VBAR_EL3}
ELR = {1: system.ELR_EL1, 2: system.ELR_EL2, 3: system.ELR_EL3}
SPSR = {1: system.SPSR_EL1, 2: system.SPSR_EL2, 3: system.SPSR_EL3}
ESR = {1: system.ESR_EL1, 2: system.ESR_EL2, 3: system.ESR_EL3}
EVENTS = tuple(sorted({*E, *SampleEvent}))
FILTERS = tuple(1 << bit for bit in range(20, 32))
READABLE: tuple[type[SysReg], ...] = (
    *(r.PMCR_EL0, r.PMCNTENSET_EL0, r.PMCNTENCLR_EL0, r.PMOVSCLR_EL0, r.PMOVSSET_EL0),
    *(r.PMSELR_EL0, r.PMXEVTYPER_EL0, r.PMXEVCNTR_EL0, r.PMCCNTR_EL0, r.PMCCFILTR_EL0),
    *(r.PMINTENSET_EL1, r.PMUSERENR_EL0, r.PMICNTR_EL0, r.PMIAR_EL1, r.PMCEID0_EL0),
    *(spe.PMSICR_EL1, spe.PMBPTR_EL1, spe.PMBSR_EL1),
)


def enc(register: type[SysReg]) -> tuple[int, int, int, int, int]:
    op0, op1, crn, crm, op2 = astuple(register.encoding)
    return op0, op1, crn, crm, op2


def put(register: type[SysReg], value: int) -> list[int]:
    return [*a.mov64(0, value), a.msr(enc(register), 0)]


def _bits(random: Random, *bits: int, often: float = 0.3) -> int:
    return sum(bit for bit in bits if random.random() < often)


def _map(random: Random) -> int:
    """Some counters, the cycle and the instruction counter among them."""
    return _bits(random, *(1 << n for n in (*range(COUNTERS), 31, 32)), often=0.5)


def _count(random: Random) -> int:
    """The value of a counter: 0, or close to an overflow of 32 or 64 bits."""
    distance = random.choice((1, 2, 3, random.randrange(1, 60), random.randrange(1, 2000)))
    return random.choice((0, (1 << 32) - distance, (1 << 64) - distance))


def _type(random: Random) -> int:
    """PMEVTYPER<n>_EL0: an event, seldom a filter, a threshold or the synchronous mode."""
    value = random.choice(EVENTS) | _bits(random, *FILTERS, often=0.08)
    if random.random() < 0.7:
        value |= 1 << 27  # NSH: at EL2, too
    if random.random() < 0.1:
        value |= random.randrange(1, 8) << 61 | random.randrange(3) << 32
    return value | _bits(random, 1 << 58, often=0.1)


def _control(random: Random) -> int:
    """PMCR_EL0, whose E is mostly 1."""
    others = _bits(random, 1 << 1, 1 << 2, 1 << 5, 1 << 6, 1 << 7, 1 << 9, 1 << 32)
    return others | (random.random() < 0.9)


def _monitors(random: Random) -> list[int]:
    """A write to a register of the Performance Monitors."""
    n = random.randrange(COUNTERS)
    register, value = random.choice(
        (
            (r.PMEVTYPERS[n], _type),
            (r.PMEVTYPERS[n], _type),
            (r.PMEVCNTRS[n], _count),
            (r.PMEVCNTRS[n], _count),
            (r.PMCR_EL0, _control),
            (r.PMCNTENSET_EL0, _map),
            (r.PMCNTENSET_EL0, _map),
            (r.PMCNTENCLR_EL0, _map),
            (r.PMOVSSET_EL0, _map),
            (r.PMOVSCLR_EL0, _map),
            (r.PMINTENSET_EL1, _map),
            (r.PMINTENCLR_EL1, _map),
            (r.PMSWINC_EL0, _map),
            (r.PMZR_EL0, _map),
            (r.PMUACR_EL1, _map),
            (r.PMSELR_EL0, lambda some: some.choice((31, some.randrange(COUNTERS)))),
            (r.PMXEVTYPER_EL0, _type),
            (r.PMXEVCNTR_EL0, _count),
            (r.PMCCNTR_EL0, _count),
            (r.PMICNTR_EL0, _count),
            (r.PMCCFILTR_EL0, lambda some: _bits(some, *FILTERS, often=0.1) | 1 << 27),
            (r.PMICFILTR_EL0, lambda some: _bits(some, *FILTERS, 1 << 58, often=0.1) | 1 << 27),
            (r.PMUSERENR_EL0, lambda some: some.getrandbits(7)),
            (r.PMECR_EL1, lambda some: some.choice((0, 3, 7, 7))),
        )
    )
    return put(register, value(random))


def _decides(random: Random) -> list[int]:
    """A write to another register that decides what counts; UNDEFINED below its level."""
    pmee = random.choice((0, 0, 1, 3)) << 40
    if random.random() < 0.5:
        bits = _bits(random, 1 << 17, 1 << 7, 1 << 26, 1 << 23, 1 << 29, 1 << 36)
        return put(system.MDCR_EL2, pmee | bits | random.randrange(COUNTERS) | 3 << 12)
    return put(system.MDCR_EL3, pmee | _bits(random, 1 << 17, 1 << 34, 1 << 35, 1 << 23) | 3 << 12)


def _spe(random: Random) -> list[int]:
    return random.choice(
        (
            put(spe.PMSCR_EL1, random.choice((0, 1, 3, 3, 3))),
            put(spe.PMSCR_EL2, random.choice((0, 3))),
            put(spe.PMSIRR_EL1, random.choice((1, 256, 512, 257, 1024))),
            put(spe.PMSICR_EL1, random.choice((0, 1, 2, 9, 40))),
            put(spe.PMSFCR_EL1, random.choice((0, 0, 1 << 1 | 1 << 17))),
            [*put(spe.PMBSR_EL1, 0), *put(spe.PMBPTR_EL1, BUFFER)],
            put(spe.PMBPTR_EL1, BUFFER + 0x1000 * random.randrange(1, 16)),
            put(spe.PMBLIMITR_EL1, BUFFER + 0x1_0000 | random.choice((0, 1, 1, 0x21, 5))),
            [a.PSB_CSYNC],
        )
    )


def _read(random: Random) -> list[int]:
    register = random.choice((*READABLE, *r.PMEVCNTRS[:COUNTERS], *r.PMEVTYPERS[:COUNTERS]))
    return [a.mrs(1, enc(register)), a.mul(READ, READ, FACTOR), a.eor(READ, READ, 1)]


def _plain(random: Random) -> list[int]:
    """Operations that make events."""
    return random.choice(
        (
            [a.add_imm(5, 5, 1)] * random.randrange(1, 9),
            [a.ldr(6, WHERE, 8 * random.randrange(64)), a.str_(6, WHERE, 8)],
            [a.ldr(6, WHERE, 0), a.ldr9(7, WHERE, random.choice((1, 3, 8)), 0)],
            [a.pair(True, 6, 7, WHERE, 16), a.ldadd(6, 7, WHERE)],
            [a.ldr_q(0, WHERE), a.add_4s(1, 0, 0), a.fadd(2, 1, 1), a.str_q(1, WHERE, 16)],
            [a.ld1_two(0, WHERE), a.dc_zva(WHERE)],
            [a.movz(8, random.randrange(1, 9)), a.sub_imm(8, 8, 1), a.cbnz(8, -4)],
            [a.movz(8, random.randrange(1, 60)), a.NOP, a.sub_imm(8, 8, 1), a.cbnz(8, -8)],
            [a.tbz(5, 0, 8), a.NOP, a.cbz(5, 8), a.NOP],
            [a.bl(8), a.b(8), a.RET],
            [a.ISB],
            [random.choice((0xD501_421F, 0xD501_431F))],  # MSR PM
            [a.msr(enc(system.CONTEXTIDR_EL1), 5), a.msr(enc(system.TTBR0_EL1), 31)],
        )
    )


def _raise(random: Random) -> list[int]:
    """Mostly a call; at some levels UNDEFINED."""
    return [random.choice((a.svc(1), a.svc(2), a.hvc(3), 0xD400_0003, a.brk(4), a.udf(5))), a.NOP]


def _fall(random: Random) -> list[int]:
    """At one level, an ERET to a lower one or to the same. At EL0 the MRS is UNDEFINED."""
    el = random.randrange(1, 4)
    to = random.randrange(el + 1)
    daif = random.choice((0x3C0, 0))
    return [
        *[a.mrs(9, CURRENTEL), a.sub_imm(9, 9, el << 2), a.cbnz(9, 24)],
        *[a.movz(0, daif | to << 2 | bool(to)), a.msr(enc(SPSR[el]), 0)],
        *[a.adr(0, 12), a.msr(enc(ELR[el]), 0), a.ERET],
    ]


def _handler(el: int) -> list[int]:
    """Clears the overflows that raised it, and goes on after what it was taken at, at ``el``."""
    return [
        *[a.mrs(26, enc(ESR[el])), a.lsr_imm(26, 26, 26), a.sub_imm(26, 26, 0x3D)],
        *[a.cbnz(26, 12), a.sub_imm(26, 26, 1), a.msr(enc(r.PMOVSCLR_EL0), 26)],
        *[a.mrs(26, enc(ELR[el])), a.add_imm(26, 26, 4), a.msr(enc(ELR[el]), 26)],
        *[a.movz(26, 0x3C0 | el << 2 | 1), a.msr(enc(SPSR[el]), 26), a.ERET],
    ]


_MAKERS: tuple[tuple[Callable[[Random], list[int]], int], ...] = (
    *((_monitors, 10), (_decides, 1), (_spe, 4), (_read, 8), (_plain, 10), (_raise, 2), (_fall, 2)),
)


def random_monitors(random: Random, el: int) -> Image:
    """A program that starts at ``el``."""
    pmee = random.choice((0, 1)) << 40
    makers = [maker for maker, often in _MAKERS for _ in range(often)]
    words = [word for _ in range(SNIPPETS) for word in random.choice(makers)(random)]
    start = [
        *(word for level in range(1, el + 1) for word in put(VBAR[level], VECTORS[level])),
        *(put(system.SCR_EL3, 0x531) if el == 3 else []),
        *(put(system.HCR_EL2, 1 << 31) if el >= 2 else []),
        *(put(system.MDCR_EL3, pmee | 3 << 12 | 1 << 17) if el == 3 else []),
        *(put(system.MDCR_EL2, pmee | 3 << 12 | 6) if el >= 2 else []),
        *put(spe.PMBSR_EL1, 0),
        *[*put(spe.PMBPTR_EL1, BUFFER), *put(spe.PMBLIMITR_EL1, BUFFER + 0x1_0000 | 1)],
        *[*put(spe.PMSIRR_EL1, 256), *put(spe.PMSFCR_EL1, 0), *put(spe.PMSCR_EL1, 3)],
        *put(system.CPACR_EL1, 3 << 20),
        *[*a.mov64(WHERE, DATA), a.movz(FACTOR, 0x6D2D), a.movz(READ, 1)],
        a.adr(30, 4),  # where a RET goes whose BL was skipped
    ]
    code = [*start, *words]
    loop = [a.b(-4 * (len(words) + n)) for n in range(4)]  # handlers may skip one
    segments = {CODE: a.code([*code, *loop]), DATA: bytes(range(256)) * 4}
    for level, address in VECTORS.items():
        for offset in range(0, 0x800, 0x80):
            segments[address + offset] = a.code(_handler(level))
    return image_of(segments, CODE)


def assert_counted_the_same(
    seed: str, el: int, core: Core, model: ModelName = "none", operations: int = 5000
) -> None:
    """Both runners, the fast one in pieces as well, over the program of ``seed``."""
    random = Random(seed)
    image = random_monitors(random, el)
    options = {"ram": RAM, "seed": random.getrandbits(32), "core": core, "model": model, "el": el}
    reference = Machine(image, runner=ReferenceRunner, **options)
    stepped = reference.run(operations)
    assert stepped.operations == operations
    for pieces in (False, True):
        fast = Machine(image, runner=Runner, **options)
        found = run_in_pieces(fast, operations, random) if pieces else fast.run(operations)
        assert found.differences(stepped) == {}, pieces
        assert monitors_of(fast) == monitors_of(reference), pieces


def monitors_of(machine: Machine) -> object:
    """The state of the counters, with all counted."""
    counting = machine.board.pes[0].counting
    counting.count_executed()
    return counting.monitors.save()


def a_core(random: Random) -> Core:
    """A core with SPE and the Performance Monitors, mostly one with all features."""
    core = load_core(random.choice(("max", "max", "max", "generic", "neoverse-v2")))
    assert Feature.FEAT_PMUv3 in core.features
    return core
