"""Fine-grained traps of code that runs: before the operation, at EL1 and EL0, by both runners."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.pe import EL1
from spe_unicorn.arch.registers import fgt, system
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.blocks import Block, Blocks
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from tests.host.guests import FROM_LOWER, GUEST, VECTORS, board, enter_application, put, run
from tests.support import a64 as a
from tests.support.small_boards import RAM

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
VBAR = (3, 0, 12, 0, 0)
TPIDR, TPIDR_EL0 = (3, 0, 13, 0, 4), (3, 3, 13, 0, 2)
SYSREG = 0x6200_0000
ERETAA, SVC = 0xD69F_0BFF, 0xD400_0001


def iss(op: tuple[int, ...], rt: int, read: bool) -> int:
    op0, op1, crn, crm, op2 = op
    return op0 << 20 | op2 << 17 | op1 << 14 | crn << 10 | rt << 5 | crm << 1 | read


@RUNNERS
def test_read_in_the_middle_of_a_block_is_trapped_in_front_of_it(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    guest = [a.movz(5, 1), a.mrs(6, VBAR), a.add_imm(5, 5, 1), a.mrs(7, TPIDR)]
    subject = board({fgt.HFGRTR_EL2: 1 << 38}, guest, runner)
    assert run(subject) == (1, SYSREG | iss(VBAR, 6, True), GUEST + 4)
    assert (subject.cpu.el, subject.cpu.engine.x(5)) == (EL1, 2)


@RUNNERS
def test_write_that_is_trapped_writes_nothing(runner: type[ReferenceRunner] | type[Runner]) -> None:
    guest = [a.movz(5, 0x77), a.msr(TPIDR, 5), a.msr(TPIDR_EL0, 5), a.mrs(6, TPIDR_EL0)]
    subject = board({fgt.HFGWTR_EL2: 1 << 33}, guest, runner)
    subject.cpu.registers.set_raw(system.VBAR_EL1, 0)
    assert run(subject) == (1, SYSREG | iss(TPIDR, 5, False), GUEST + 4)
    assert subject.cpu.engine.x(6) == 0x77
    assert subject.cpu.engine.system(Encoding(*TPIDR)) != 0x77


@RUNNERS
def test_code_that_has_run_before_is_trapped_from_now_on(
    runner: type[ReferenceRunner] | type[Runner],
) -> None:
    reads = [a.mrs(6, VBAR), a.mrs(7, TPIDR)]
    subject = board({}, [*reads, a.b(-8)], runner)
    assert subject.run(120) is Ending.LIMIT
    assert subject.cpu.engine.x(20) == 0
    subject.cpu.registers.set_raw(fgt.HFGRTR_EL2, 1 << 33)
    subject.handler.controls_written()
    assert subject.run(120) is Ending.LIMIT
    assert 10 < subject.cpu.engine.x(20) < 40
    assert subject.cpu.engine.x(21) == SYSREG | iss(TPIDR, 7, True)


def test_blocks_without_what_is_trapped_stay_in_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered: list[int] = []
    add = Blocks.add

    def note(self: Blocks, address: int, words: tuple[int, ...]) -> Block:
        entered.append(address)
        return add(self, address, words)

    monkeypatch.setattr(Blocks, "add", note)
    guest = [*[a.add_imm(5, 5, 1), a.b(4)] * 20, a.mrs(6, VBAR)]
    subject = board({fgt.HFGRTR_EL2: 1 << 38}, guest, Runner)
    assert run(subject) == (1, SYSREG | iss(VBAR, 6, True), GUEST + 160)
    assert entered
    assert not any(GUEST <= address < GUEST + 160 for address in entered)


IVAU, VMALLE1 = (1, 3, 7, 5, 1), (1, 0, 8, 7, 0)


@RUNNERS
@pytest.mark.parametrize(
    ("bit", "word", "op", "rt"),
    [(2, a.sys(3, 7, 5, 1, 9), IVAU, 9), (42, a.sys(0, 8, 7, 0), VMALLE1, 31)],
)
def test_system_instructions_are_trapped(
    runner: type[ReferenceRunner] | type[Runner], bit: int, word: int, op: tuple[int, ...], rt: int
) -> None:
    subject = board({fgt.HFGITR_EL2: 1 << bit}, [*a.mov64(9, RAM), word], runner)
    assert run(subject)[:2] == (1, SYSREG | iss(op, rt, False))


@RUNNERS
def test_el0_is_trapped_to_el2(runner: type[ReferenceRunner] | type[Runner]) -> None:
    application = [a.mrs(6, TPIDR_EL0), *a.mov64(9, RAM), a.sys(3, 7, 5, 1, 9)]
    traps = {fgt.HFGRTR_EL2: 1 << 35, fgt.HFGITR_EL2: 1 << 2}
    subject = board(traps, enter_application(), runner, application)
    assert run(subject)[:2] == (2, SYSREG | iss(IVAU, 9, False))
    assert subject.cpu.el == 0


@RUNNERS
def test_svc_is_trapped_with_its_own_address(runner: type[ReferenceRunner] | type[Runner]) -> None:
    subject = board({fgt.HFGITR_EL2: 1 << 53}, [a.movz(5, 1), SVC | 0x12 << 5], runner)
    assert run(subject) == (1, 0x5600_0012, GUEST + 4)


@RUNNERS
@pytest.mark.parametrize(("word", "detail"), [(a.ERET, 0), (ERETAA, 2)])
def test_eret_of_el1_is_trapped(
    runner: type[ReferenceRunner] | type[Runner], word: int, detail: int
) -> None:
    guest = [*enter_application()[:-1], word]
    subject = board({fgt.HFGITR_EL2: 1 << 51}, guest, runner)
    assert run(subject) == (1, 0x6A00_0000 | detail, GUEST + 4 * len(guest) - 4)
    assert subject.cpu.el == EL1


@RUNNERS
def test_traps_can_be_taken_away_again(runner: type[ReferenceRunner] | type[Runner]) -> None:
    reads = [a.mrs(6, VBAR), a.hvc(0), a.mrs(6, VBAR)]
    subject = board({fgt.HFGRTR_EL2: 1 << 38}, reads, runner, skips=0)
    handler = [
        a.add_imm(20, 20, 1),
        a.mrs(21, astuple(system.ESR_EL2.encoding)),
        *put(fgt.HFGRTR_EL2, 0),
        a.ERET,
    ]
    subject.memory.fill(VECTORS + FROM_LOWER, a.code(handler))
    assert run(subject)[:2] == (2, 0x5A00_0000)


def test_both_runners_sample_the_same_operations_of_code_with_traps() -> None:
    guest = [a.movz(5, 0), a.mrs(6, VBAR), a.add_imm(5, 5, 1), a.msr(TPIDR, 5), SVC] * 30

    def records(runner: type[Runner]) -> list[bytes]:
        traps = {fgt.HFGRTR_EL2: 1 << 38, fgt.HFGWTR_EL2: 1 << 33, fgt.HFGITR_EL2: 1 << 53}
        subject = board(traps, guest, runner, sampling=Sampling(3))
        seen: list[bytes] = []
        unit = subject.pes[0].unit
        unit.recorded.connect(lambda record, _: seen.append(bytes(record)))
        subject.run(900)
        return seen

    fast = records(Runner)
    assert len(fast) == 300
    assert fast == records(ReferenceRunner)
