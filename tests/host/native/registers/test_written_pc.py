"""After compiled code has written the PC, each later access of the run is found where it is."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.devices.gicv3 import registers as icc
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.perform import Performer
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.console_ends import ConsoleEnds
from tests.host.guests import put
from tests.host.native.registers.gic_accesses import PMR, asks
from tests.host.native.registers.gic_boards import EOIR1, IAR1, SGI1R
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

UART, UARTFR, ELSEWHERE = 0x0900_0000, 0x18, 0x8000_0000
TTBR0_EL12 = (3, 5, 2, 0, 0)
ESR_EL2, ELR_EL2 = astuple(system.ESR_EL2.encoding), (3, 4, 4, 0, 1)
VECTORS, SYNC = RAM + 0x2000, 0x200
EC_DATA_ABORT = 0x25
NE, PRE_INDEX = 1, 0b11
ROUNDS = 6
"""A block comes to count itself in its second or third run."""
CAUSES = {
    "MRS _EL12": [a.mrs(3, TTBR0_EL12)],
    "MSR _EL12": [a.msr(TTBR0_EL12, 10)],
    "two _EL12": [a.mrs(3, TTBR0_EL12), a.msr(TTBR0_EL12, 3)],
    "MRS ICC": [a.mrs(3, PMR)],
    "MSR ICC": [a.msr(PMR, 11)],
    "interrupt": [a.msr(SGI1R, 12), a.mrs(3, IAR1), a.msr(EOIR1, 3)],
    "SVC": [a.svc(0)],
    "HVC": [a.hvc(0)],
    "_EL12 and HVC": [a.mrs(3, TTBR0_EL12), a.hvc(0)],
    "_EL12 and SVC": [a.mrs(3, TTBR0_EL12), a.svc(0)],
}
ACCESSES = {
    "store": [a.str_(2, 1, size=0)],
    "load with write-back": [a.add_imm(6, 1, 0), a.ldr9(7, 6, UARTFR, PRE_INDEX, size=2)],
    "External abort": [a.ldr(7, 8)],
}
HANDLER = [
    a.str_(13, 1, size=0),
    a.add_imm(24, 24, 1),
    a.mrs(20, ESR_EL2),
    a.mrs(23, ELR_EL2),
    a.add(25, 25, 23),
    a.lsr_imm(22, 20, 26),
    a.subs_imm(22, 22, EC_DATA_ABORT),
    a.cbnz(22, 12),
    a.add_imm(23, 23, 4),
    a.msr(ELR_EL2, 23),
    a.ERET,
]
"""It prints, counts in X24, adds up return addresses in X25, and goes on after what aborted."""


def board(cause: list[int], access: list[int], runner: type[Runner]) -> tuple[Board, bytearray]:
    """Rounds of a cause with the access after it: at once, further on, and two blocks later."""
    far = [*cause, a.add_imm(4, 4, 1), a.b(4), a.add_imm(4, 4, 1), a.add_imm(5, 5, 1), *access]
    body = [*cause, *access, *cause, a.add_imm(4, 4, 1), *access, a.add_imm(5, 5, 1), *far]
    hcr = system.HCR_EL2.of(E2H=1, RW=1, TGE=1, IMO=1, FMO=1).value
    code = [
        *[*put(system.VBAR_EL2, VECTORS), *put(system.HCR_EL2, hcr)],
        *[*a.mov64(1, UART), a.movz(2, ord("a")), a.movz(13, ord("h"))],
        *[*a.mov64(8, ELSEWHERE), *a.mov64(10, 0x1234_5000), a.movz(11, 0xE0), a.movz(9, ROUNDS)],
        *[*a.mov64(12, 5 << 24 | 1), a.movz(4, 0), a.movz(5, 0)],
        *[a.movz(24, 0), a.movz(25, 0)],
        *[*body, a.subs_imm(9, 9, 1), a.b_cond(NE, -4 * (len(body) + 1)), a.b(0)],
    ]
    printed = bytearray()
    result = board_at(code, el=2, runner=runner, console=ConsoleEnds(printed.extend))
    result.memory.fill(VECTORS + SYNC, a.code(HANDLER))
    gic = result.peripherals.gic
    gic.distributor.write(0, 4, 0b11)
    gic.redistributors.write(0x1_0080, 4, 0xFFFF)
    gic.redistributors.write(0x1_0100, 4, 0xFFFF)
    gic.cpu_interfaces[0].write(icc.ICC_PMR_EL1, 0xF0)
    gic.cpu_interfaces[0].write(icc.ICC_IGRPEN1_EL1, 1)
    return result, printed


@pytest.mark.sweep(first=True)
@pytest.mark.accelerated
@pytest.mark.parametrize("inline", ["1", "0"])
@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("cause", CAUSES)
def test_an_access_is_made_once_and_where_it_is(cause, access, inline, monkeypatch) -> None:
    monkeypatch.setenv("SPE_UNICORN_INLINE", inline)
    asked = asks(monkeypatch)
    stops: list[Stop] = []
    after_run = Performer.after_run
    monkeypatch.setattr(
        Performer,
        "after_run",
        lambda self, report: (stops.append(report.stop), after_run(self, report)),
    )
    outcomes = []
    for runner in (Runner, ReferenceRunner):
        subject, printed = board(CAUSES[cause], ACCESSES[access], runner)
        asked.clear()
        assert subject.run(3000) is Ending.LIMIT
        engine = subject.cpu.engine
        outcomes.append((bytes(printed), engine.general(), subject.cpu.pc, subject.cpu.executed))
        if runner is Runner:
            assert Stop.SYSTEM not in stops
            assert asked == []
    assert outcomes[0] == outcomes[1]
    printed, x, pc, _ = outcomes[0]
    assert subject.cpu.virtual.code(pc, 1) == (a.b(0),)
    exceptions = 3 * ROUNDS * (("SVC" in cause or "HVC" in cause) + (access == "External abort"))
    assert printed.count(b"h") == x[24] == exceptions
    assert printed.count(b"a") == (3 * ROUNDS if access == "store" else 0)
    assert (x[4], x[5]) == (3 * ROUNDS, 2 * ROUNDS)
    if access == "load with write-back":
        assert x[6] == UART + UARTFR
