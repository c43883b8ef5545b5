"""Direct writes to the Performance Monitors that take effect later (Arm ARM D24.1.2)."""

from __future__ import annotations

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.stateful import StateError
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4008_0000
PMCR, PMCNTENSET, PMCNTENCLR = (3, 3, 9, 12, 0), (3, 3, 9, 12, 1), (3, 3, 9, 12, 2)
PMSELR, PMXEVCNTR = (3, 3, 9, 12, 5), (3, 3, 9, 13, 2)
PMEVCNTR0, PMEVTYPER0 = (3, 3, 14, 8, 0), (3, 3, 14, 12, 0)
INST_RETIRED = 8
SET_UP = [
    *[a.movz(9, INST_RETIRED), a.msr(PMEVTYPER0, 9), a.msr(PMEVCNTR0, 31)],
    *[*a.mov64(9, (1 << 64) - 1), a.msr(PMCNTENCLR, 9), a.movz(9, 1), a.msr(PMCR, 9), a.ISB],
]
runners = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def found(words: list[int], late: int, runner: type[Runner]) -> tuple[Machine, list[int]]:
    """X0 to X3 after the code of a machine whose writes are so late."""
    code = [*SET_UP, *words]
    image = image_of({CODE: a.code([*code, a.b(0)])}, CODE)
    machine = Machine(image, core=f"max,late_pmu_writes={late}", runner=runner)
    machine.board.run(len(code))
    return machine, [machine.board.cpu.engine.x(number) for number in range(4)]


@runners
def test_a_counter_begins_as_much_later_as_its_enable_takes_effect(runner: type[Runner]) -> None:
    words = [a.msr(PMCNTENSET, 9), *[a.NOP] * 20, a.mrs(0, PMEVCNTR0)]
    assert found(words, 0, runner)[1][0] == 1 + 20  # the MSR is counted, too
    assert [found(words, late, runner)[1][0] for late in (1, 7, 20)] == [19, 13, 0]


@runners
def test_an_isb_has_it_take_effect_and_so_does_a_read_by_its_name(runner: type[Runner]) -> None:
    other, name = a.mrs(0, PMCNTENCLR), a.mrs(1, PMCNTENSET)
    write = a.msr(PMCNTENSET, 9)
    assert found([write, other, name], 100, runner)[1][:2] == [0, 1]
    assert found([write, name, other], 100, runner)[1][:2] == [1, 1]
    assert found([write, a.ISB, other], 100, runner)[1][0] == 1
    assert found([write, *[a.NOP] * 100, other], 100, runner)[1][0] == 1


@runners
def test_what_pmselr_selects_needs_an_isb(runner: type[Runner]) -> None:
    """Counter 0 holds 77, counter 1 holds 5; the mistake is to read right after the selection."""
    counters = [a.movz(9, 77), a.msr(PMEVCNTR0, 9), a.movz(9, 5), a.msr((3, 3, 14, 8, 1), 9)]
    first = [*counters, a.msr(PMSELR, 31), a.movz(9, 1), a.ISB]
    select, read = a.msr(PMSELR, 9), a.mrs(0, PMXEVCNTR)
    assert found([*first, select, a.ISB, read], 50, runner)[1][0] == 5
    assert found([*first, select, read], 50, runner)[1][0] == 77
    assert found([*first, select, read], 0, runner)[1][0] == 5


def test_late_writes_are_saved_and_checked() -> None:
    machine, _ = found([a.msr(PMCNTENSET, 9)], 50, Runner)
    late = machine.board.pes[0].counting.late
    assert late is not None
    state = late.save()
    assert [(write.register, write.value) for write in state.writes] == [("PMCNTENSET_EL0", 1)]
    late.check(state)
    state.writes[0].register = "PMSCR_EL1"
    with pytest.raises(StateError, match="PMSCR_EL1"):
        late.check(state)
