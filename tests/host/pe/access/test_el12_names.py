"""_EL12 names: compiled code and Python do the same with them, and both runners."""

from __future__ import annotations

from dataclasses import astuple
from random import Random

import pytest

from spe_unicorn.arch.registers import banked, system
from spe_unicorn.host.native.state.actions import Action
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe import controls
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.perform import Performer
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
HOST = system.HCR_EL2.of(E2H=1, RW=1, TGE=1).value
VECTORS = RAM + 0x2000
SCTLR, SPSR, ELR, TTBR0 = (
    (3, 5, 1, 0, 0),
    (3, 5, 4, 0, 0),
    (3, 5, 4, 0, 1),
    (3, 5, 2, 0, 0),
)
NAMES = sorted(controls.EL12_NAMES, key=lambda name: name.key)
_PLAIN_SCTLR = 0x30D0_0800
EL1H, EL2H_IL = 0x3C5, 1 << 20 | 0x3C9


def host(code: list[int], runner: type[Runner], hcr: int = HOST) -> Board:
    """EL2, a host's, runs code; the vector of what it takes is a branch to itself."""
    begin = [*put(system.VBAR_EL2, VECTORS), *put(system.HCR_EL2, hcr)]
    subject = board_at([*begin, *code, a.b(0)], el=2, runner=runner)
    for place in (0x200, 0x400):
        subject.memory.fill(VECTORS + place, a.code([a.b(0)]))
    return subject


def finish(subject: Board) -> None:
    assert subject.run(900) is Ending.LIMIT
    assert subject.cpu.virtual.code(subject.cpu.pc, 1) == (a.b(0),)


def random_code(random: Random) -> list[int]:
    code = []
    for _ in range(24):
        name = random.choice(NAMES)
        op = astuple(name)
        if random.random() < 0.7:
            value = random.choice((0, 0xFFFF, random.getrandbits(48)))
            if op == SCTLR:
                value = _PLAIN_SCTLR | random.choice((0, 0b10, 1 << 26))
            if op == SPSR:
                value = random.choice((EL1H, EL2H_IL, 0x3C0, 0x1F0))
            code += [*a.mov64(1, value), a.msr(op, 1)]
        code.append(a.mrs(2 + random.randrange(8), op))
    return code


def outcome(subject: Board) -> dict[str, object]:
    cpu = subject.cpu
    engine = cpu.engine
    return {
        "x": engine.general(),
        "pc": cpu.pc,
        "executed": cpu.executed,
        "el1": [engine.system(el1) for el1 in controls.EL12_NAMES.values()],
        "suspect": int(cpu.state.suspect),
        "counters": int(cpu.state.counters),
        "raw": [cpu.registers.raw(r) for r in cpu.registers],
    }


@pytest.mark.parametrize("seed", range(3))
def test_compiled_code_does_what_python_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code = random_code(Random(seed))
    subjects = [host(code, runner) for runner in (Runner, ReferenceRunner)]
    monkeypatch.setattr(controls, "_BY_EL12", dict.fromkeys(Action, Action.STOP))
    subjects.append(host(code, Runner))
    for subject in subjects:
        finish(subject)
    first, *others = map(outcome, subjects)
    assert others == [first, first]


@RUNNERS
def test_what_is_written_is_the_register_of_el1(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    write = [*a.mov64(1, 0x1234_5678), a.msr(TTBR0, 1), a.mrs(2, TTBR0), a.mrs(31, TTBR0)]
    subject = host([*write, *a.mov64(3, 0x77), a.msr(ELR, 31)], runner)
    subject.cpu.registers.set_raw(banked.ELR[1], 5)
    finish(subject)
    assert subject.cpu.registers.raw(system.TTBR0_EL1) == 0x1234_5678
    assert subject.cpu.registers.raw(system.TTBR0_EL2) != 0x1234_5678
    assert subject.cpu.engine.x(2) == 0x1234_5678
    assert subject.cpu.registers.raw(banked.ELR[1]) == 0


@RUNNERS
@pytest.mark.parametrize(
    "hcr", [system.HCR_EL2.of(RW=1).value, system.HCR_EL2.of(RW=1, TGE=1).value]
)
def test_without_a_host_the_names_are_undefined(
    runner: type[ReferenceRunner] | type[Runner], hcr: int
) -> None:
    subject = host([a.movz(2, 7), a.mrs(2, TTBR0)], runner, hcr)
    finish(subject)
    assert subject.cpu.engine.x(2) == 7
    assert subject.cpu.registers.raw(system.ESR_EL2) == 1 << 25  # EC 0, unknown reason


def test_they_do_not_leave_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[Stop] = []
    after_run = Performer.after_run
    monkeypatch.setattr(
        Performer,
        "after_run",
        lambda self, report: (stops.append(report.stop), after_run(self, report)),
    )
    one = [*a.mov64(1, 0x40), a.msr(TTBR0, 1), a.mrs(2, TTBR0), a.msr(ELR, 2), a.mrs(3, SCTLR)]
    finish(host(one * 30, Runner))
    assert Stop.SYSTEM not in stops
    assert len(stops) < 20
