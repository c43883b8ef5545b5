"""Random monitors at EL3: what they and both worlds see, however fast the worlds are changed.

Compiled code changes worlds by itself while the engine has no rights to Secure memory and no
interrupt is pending (docs/adr/0016, 0042). Here monitors and guests also use that memory, and
interrupts are pending, of which the Security state says whether they are IRQs or FIQs. They use
devices, one of which only Secure state has.
"""

from __future__ import annotations

from dataclasses import astuple
from random import Random

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.pe import control_sets
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.memory_map import RTC, SECURE_RAM, SECURE_UART, UART
from tests.host.guests import put
from tests.host.outcomes import IN_GUEST, VECTORS, outcome
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

GUESTS, EL3_VECTORS, EL2_VECTORS, EL1_VECTORS = (
    *(RAM + 0x8000, RAM + 0x1_0000, RAM + 0x1_1000, RAM + 0x1_2000),
)
ROUNDS, ENTRIES = 5, 8
MOST = 5000
SMC = 0xD400_0003
EL0T, EL1H, EL1H_OPEN, EL2H = 0x3C0, 0x3C5, 0x305, 0x3C9
NS, IRQ, FIQ, EA, HCE, RW, ST, TWE, RES1 = 1, 2, 4, 8, 1 << 8, 1 << 10, 1 << 11, 1 << 13, 3 << 4
SCR = [
    *(RW | RES1 | EA | more for more in (0, FIQ, FIQ | IRQ, ST)),
    *(RW | RES1 | EA | NS | HCE | more for more in (0, 0, FIQ, FIQ | IRQ, ST, TWE)),
]
PMR, IGRPEN0, IGRPEN1_EL3 = (3, 0, 4, 6, 0), (3, 0, 12, 12, 6), (3, 6, 12, 12, 7)
SGI1R, ASGI1R, SGI0R = (3, 0, 12, 11, 5), (3, 0, 12, 11, 6), (3, 0, 12, 11, 7)
IAR1, EOIR1, ISR = (3, 0, 12, 12, 0), (3, 0, 12, 12, 1), (3, 0, 12, 1, 0)
PLACE = 27
"""The register with the address of Secure memory."""
SENDS = [
    [*a.mov64(6, intid << 24 | 1), a.msr(how, 6)]
    for intid, how in ((1, SGI0R), (2, SGI1R), (3, SGI1R), (2, ASGI1R), (3, ASGI1R))
]
USES = [a.ldr(5, PLACE), a.add_imm(5, 5, 1), a.str_(5, PLACE)]
PRINTS = [*a.mov64(6, UART.base), a.ldr(7, 6, 0x18, 2), a.str_(5, 6, 0, 2)]
IN_WORLD = [
    *([word] for word in IN_GUEST[:8]),
    *(USES, USES, [a.mrs(6, ISR)], [a.daifclr(3)], [a.daifset(3)], [a.svc(1)]),
    *([a.mrs(6, IAR1), a.msr(EOIR1, 6)], [a.NOP], PRINTS, PRINTS),
    *([*a.mov64(6, device.base), a.ldr(7, 6, 0x18, 2)] for device in (SECURE_UART, RTC)),
]


CORES = ("generic", "neoverse-n1", "max")
PMU_EXCEPTIONS = tuple(system.MDCR_EL3.of(PMEE=enable).value for enable in (0, 1, 3))
"""Overflows are interrupts, or delegated, or exceptions, where the core has FEAT_EBEP."""


def monitor(seed: int, runner: type[Runner], interrupts: bool) -> Board:
    """EL3 changes its controls and enters worlds, some rounds; X24 tells of exceptions."""
    random = Random(seed)
    begin = [
        *[*put(system.VBAR_EL3, EL3_VECTORS), *put(system.VBAR_EL2, EL2_VECTORS)],
        *[
            *put(system.VBAR_EL1, EL1_VECTORS),
            *put(system.SCR_EL3, SCR[-1]),
            *put(system.HCR_EL2, 1 << 31),
        ],
        *[*put(system.SCTLR_EL1, 0x30D0_0800), *put(system.SCTLR_EL2, 0x30C5_0830)],
        *[*put(system.CPACR_EL1, 3 << 20), *put(system.CPTR_EL2, 0x33FF), *put(system.MDCR_EL2, 0)],
        *[*put(system.CPTR_EL3, 0), *put(system.MDCR_EL3, 0), *put(system.CNTHCTL_EL2, 3)],
        *[*put(system.SPSR_EL1, EL0T), *put(system.ELR_EL1, GUESTS), *put(system.SPSR_EL2, EL1H)],
        *[*put(system.ELR_EL2, GUESTS), *a.mov64(6, 0xF0), a.msr(PMR, 6), *a.mov64(6, 3)],
        *[a.msr(IGRPEN1_EL3, 6), a.msr(IGRPEN0, 6), *a.mov64(PLACE, SECURE_RAM.base)],
        *[*a.mov64(24, 1), *a.mov64(5, 0), *a.mov64(19, ROUNDS)],
    ]
    code = list(begin)
    worlds = []
    keeps = random.random() < 0.4
    for n in range(ENTRIES):
        code += put(system.SCR_EL3, random.choice(SCR))
        if random.random() < 0.3:
            code += put(
                system.HCR_EL2, random.choice((1 << 31, 1 << 31 | 1 << 4, 1 << 31 | 1 << 27))
            )
        if random.random() < 0.3:
            code += put(system.MDCR_EL3, random.choice(PMU_EXCEPTIONS))
        if keeps and random.random() < 0.5:
            code += USES
        if random.random() < 0.3:
            code += PRINTS
        if interrupts and random.random() < 0.4:
            code += random.choice(SENDS)
        code += put(system.SPSR_EL3, random.choice((EL1H, EL1H, EL1H_OPEN, EL0T, EL2H)))
        code += [*put(system.ELR_EL3, GUESTS + 0x100 * n), a.adr(25, 8), a.ERET]
        pieces = [random.choice(IN_WORLD) for _ in range(4)]
        worlds.append([*(word for piece in pieces for word in piece), SMC])
    code += [a.subs_imm(19, 19, 1), a.b_cond(1, 4 * (len(begin) - len(code) - 1))]
    core = CORES[seed % len(CORES)]
    subject = board_at([*code, a.b(0)], runner=runner, secure=True, core=core)
    syndrome, address = (astuple(r.encoding) for r in (system.ESR_EL3, system.ELR_EL3))
    taken = [a.mrs(21, syndrome), a.mrs(22, address), a.eor(24, 24, 21), a.add(24, 24, 24)]
    for place in (*VECTORS, 0x300, 0x500):
        acknowledges = [a.mrs(23, IAR1), a.msr(EOIR1, 23)] if place & 0xFF else []
        words = [*acknowledges, *taken, a.add(24, 24, 22), a.br(25)]
        subject.memory.fill(EL3_VECTORS + place, a.code(words))
        for vectors in (EL1_VECTORS, EL2_VECTORS):
            subject.memory.fill(vectors + place, a.code([*acknowledges, SMC]))
    for n, world in enumerate(worlds):
        subject.memory.fill(GUESTS + 0x100 * n, a.code(world))
    gic = subject.peripherals.gic
    gic.distributor.write(0, 4, 0b111, secure=True)
    sgis = 0x1_0000
    for offset, value in ((0x80, 0b1000), (0xD00, 0b0100), (0x100, 0b1110)):
        # SGI 1 is in Group 0, 2 Secure, 3 not
        gic.redistributors.write(sgis + offset, 4, value, secure=True)
    for intid in (1, 2, 3):
        gic.redistributors.write(sgis + 0x400 + intid, 1, 0x80, secure=True)
    return subject


def seen(subject: Board) -> dict[str, object]:
    lines = subject.pes[0].interrupts
    return {
        **outcome(subject),
        "secure": subject.memory.read(SECURE_RAM.base, 64),
        "lines": (lines.pending, lines.status.value, subject.cpu.state.deliver != 0),
    }


@pytest.mark.sweep
@pytest.mark.parametrize("inline", ["", "0"])
@pytest.mark.parametrize("seed", range(16))
def test_worlds_are_changed_as_python_and_the_reference_runner_do(
    seed: int, inline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPE_UNICORN_INLINE", inline)
    found = []
    for runner, has_sets in ((Runner, True), (Runner, False), (ReferenceRunner, False)):
        with monkeypatch.context() as context:
            if not has_sets:
                context.setattr(control_sets, "may_have_sets", lambda cpu: False)
            subject = monitor(seed, runner, interrupts=seed % 2 == 1)
            assert subject.run(MOST) is Ending.LIMIT
            found.append(seen(subject))
    first, *others = found
    for other in others:
        assert other == first
    assert first["x"][19] == 0  # type: ignore[index]  # all rounds are over


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(16, 40))
def test_worlds_are_changed_alike_wherever_a_run_ends(seed: int) -> None:
    boards = [monitor(seed, runner, True) for runner in (Runner, ReferenceRunner)]
    random = Random(seed)
    for _ in range(25):
        piece = random.randrange(1, 150)
        for board in boards:
            board.run(piece)
        assert seen(boards[0]) == seen(boards[1])


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_an_interrupt_is_taken_by_the_run_that_goes_on(runner: type[Runner]) -> None:
    """It is pending all the time. The first run ends with the operation that unmasks it."""
    code = [*put(system.VBAR_EL1, EL1_VECTORS), a.NOP, a.daifclr(2), a.NOP, a.NOP, a.b(0)]
    subject = board_at(code, el=1, runner=runner)
    subject.memory.fill(EL1_VECTORS + 0x280, a.code([a.NOP, a.b(0)]))
    subject.pes[0].interrupts.irq.set_level(True)
    unmasked = len(code) - 3
    subject.run(unmasked)
    assert subject.cpu.pc == RAM + 4 * unmasked
    subject.run(1)
    assert subject.cpu.pc == EL1_VECTORS + 0x284
