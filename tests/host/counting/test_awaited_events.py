"""The engine stops in the midst of a block, at the operation that makes an awaited event.

Each access of the program touches lines that no access has touched before. So a load of a pair that
reaches into two lines misses twice, and whatever was done before a stop would show if it were done
twice: an addition to memory, a register that moves on, a count of the core model.
"""

from __future__ import annotations

import pytest

from spe_unicorn.decode import decode
from spe_unicorn.host.accelerators import OPTION
from spe_unicorn.host.native.marks import is_whole
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of

CODE, DATA = 0x4000_0000, 0x4010_0000
CPACR_EL1 = (3, 0, 1, 0, 2)
TURNS = 12
EVENTS = ["l1d_cache_refill", "ll_cache_miss", "l1d_tlb_refill", "l1d_cache", "l1d_tlb", "ll_cache"]
CASP = 0x4824_7C26
"""CASP X4, X5, X6, X7, [X1]."""
LDXP, STXP = 0xC87F_0C22, 0xC829_0C22
"""LDXP X2, X3, [X1], and STXP W9, X2, X3, [X1]."""
ONWARD = [a.add_imm(1, 1, 128), a.add_imm(8, 1, 56)]
"""X1 goes on to another line, X8 to the last bytes of that."""
ACCESSES = [
    [a.pair(True, 2, 3, 8)],
    [a.pair(False, 2, 3, 8)],
    [a.pair(True, 2, 3, 8, 16, a.POST)],
    [a.ldr(2, 8)],
    [a.str_(2, 8)],
    [a.ldr9(2, 8, 4, a.PLAIN)],
    [a.str9(2, 8, 8, a.PRE)],
    [a.ldadd(10, 3, 8)],
    [a.swp(10, 3, 8)],
    [a.cas(10, 3, 8)],
    [a.ldr_q(1, 1)],
    [a.str_q(1, 1)],
    [a.ld1_two(1, 1)],
    [a.ldxr(2, 8), a.add_imm(2, 2, 1), a.stxr(9, 2, 8)],
    [LDXP, STXP],
    [a.dc_zva(1)],
    [CASP],
]


def program() -> list[int]:
    """Turns of all accesses, with a branch that goes another way in each second turn."""
    body = [word for access in ACCESSES for word in (*ONWARD, *access)]
    loop = [*body, a.tbz(5, 0, 8), a.add_imm(7, 7, 1), a.subs_imm(5, 5, 1)]
    begin = [*a.mov64(2, 3 << 20), a.msr(CPACR_EL1, 2), a.ISB]  # no trap of vectors
    begin += [*a.mov64(1, DATA), a.movz(5, TURNS), a.movz(10, 7)]
    return [*begin, *loop, a.b_cond(a.NE, -4 * len(loop)), a.b(0)]


def sampled(event: str, period: int, smp: int, runner: type[Runner] = Runner) -> Result:
    """What a run shows: its records, registers, memory, and what the core model knows."""
    image = image_of({CODE: a.code(program())}, CODE)
    options = {"core": "neoverse-n1", "model": "cache", "event": event, "smp": smp}
    machine = Machine(image, runner=runner, period=period, **options)
    result = machine.run((len(program()) - 20) * TURNS)
    assert result.failure is None
    return result


def differences(event: str, period: int, smp: int = 1) -> dict[str, str]:
    """What differs between the runners."""
    stepped = sampled(event, period, smp, ReferenceRunner)
    assert stepped.records or period > 3
    return sampled(event, period, smp).differences(stepped, ignoring=["ending"])


@pytest.mark.parametrize("smp", [1, 2])
@pytest.mark.parametrize("event", EVENTS)
def test_nothing_of_an_operation_is_done_twice(event: str, smp: int) -> None:
    assert [differences(event, period, smp) for period in (1, 2, 3, 7)] == [{}] * 4


@pytest.mark.parametrize("period", [1, 2])
def test_a_mispredicted_branch_is_described_as_steps_describe_it(period: int) -> None:
    assert differences("branch-misses", period) == {}


def test_the_same_comes_of_a_stop_at_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    found = sampled("l1d_cache_refill", 5, 1)
    monkeypatch.setenv(OPTION, "inline,recipes,sampling")
    assert sampled("l1d_cache_refill", 5, 1).differences(found) == {}


def test_what_the_engine_does_not_leave_in_its_midst_is_known_by_its_word() -> None:
    """Pairs of exclusives, CASP, DC ZVA (Arm ARM C4.1.88), and all of SVE."""
    whole = [LDXP, STXP, CASP, a.dc_zva(1), 0xA540_A000]
    assert all(is_whole(decode(word)) for word in whole)
    single = [
        a.ldxr(2, 1),
        a.stxr(9, 2, 1),
        a.cas(2, 3, 1),
        a.ldadd(2, 3, 1),
        a.pair(True, 2, 3, 1),
    ]
    assert not any(is_whole(decode(word)) for word in single)
