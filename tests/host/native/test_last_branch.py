"""The last branch before an operation, on cores whose blocks count themselves and tell it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import spe_unicorn
from spe_unicorn.cores.profile import ModelName
from spe_unicorn.host.native.flow import BRANCHES, MAY_BRANCH, PLAIN, kind_of_end
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.options import Sampling
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream
from tests.support import a64 as a
from tests.support.counters import MSR_PM
from tests.support.machine_runs import Machine, image_of
from tests.support.random_programs import ELR_EL1, SPSR_EL1, VBAR_EL1
from tests.support.small_programs import program

CODE = 0x4000_0000
NE, EQ = 1, 0
CORE = "max"
"""Its records have the previous branch's target (FEAT_SPE_PBT)."""


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        (a.b(4), BRANCHES),
        (a.b(-8), BRANCHES),
        (a.bl(64), BRANCHES),
        (a.RET, BRANCHES),
        (a.b_cond(NE, 4), MAY_BRANCH),
        (a.b_cond(NE, 8), PLAIN),
        (a.cbz(3, 4), MAY_BRANCH),
        (a.cbnz(3, -4), PLAIN),
        (a.NOP, PLAIN),
        (a.add_imm(1, 1, 1), PLAIN),
    ],
)
def test_what_a_word_can_do_for_the_operation_after_it(word: int, kind: int) -> None:
    """Only a branch whose target is the next operation can, or one that is always taken."""
    assert kind_of_end(word) == kind


def to_the_next(source: random.Random) -> list[int]:
    """Blocks that end with all kinds of branches, many of them to the operation after them."""
    body: list[int] = []
    for _ in range(source.randrange(6, 14)):
        body += [a.add_imm(2, 2, 1)] * source.randrange(1, 4)
        body += source.choice(
            (
                [a.subs_imm(31, 6, 1), a.b_cond(source.choice((NE, EQ)), 4)],
                [a.subs_imm(6, 6, 1), a.b_cond(NE, 8), a.movz(6, 3)],
                [a.cbz(6, 4)],
                [a.cbnz(6, 4)],
                [a.b(4)],
                [a.bl(4)],
                [a.b(8), a.NOP],
                [a.adr(9, 8), a.br(9)],
                *([a.cbz(10, 8)],) * 6,  # never taken: the block after it begins by no branch
            )
        )
    return [*body, a.b(-4 * len(body))]


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("seed", range(4))
def test_records_tell_it_as_the_reference_does(seed: int, model: ModelName) -> None:
    """Taken or not, to the next operation or elsewhere, before and after blocks count themselves.

    The reference takes each operation by itself, and looks where it went.
    """
    source = random.Random(seed)
    loop = to_the_next(source)
    image = image_of({CODE: a.code([a.movz(6, 3), a.movz(10, 5), *loop])}, CODE)
    period = source.choice((23, 41, 101))
    fast, plain = (
        Machine(image, runner=runner, core=CORE, model=model, period=period)
        for runner in (Runner, ReferenceRunner)
    )
    for piece in (9, 200, 1, 9_000):
        assert not fast.run(piece).differences(plain.run(piece)), piece
    assert fast.sampled


SVC_VECTOR = 0x400
"""A synchronous exception from EL0, by VBAR_EL1."""
PM = 1 << 32
"""SPSR_EL1.PM."""


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("seed", range(2))
def test_exceptions_and_returns_are_branches(seed: int, model: ModelName) -> None:
    """An SVC in each round, whose handler writes PSTATE.PM now and then."""
    source = random.Random(seed)
    body = [*to_the_next(source)[:-1], a.svc(1), *to_the_next(source)[:-1]]
    loop = [*body, a.b(-4 * len(body))]
    start = [a.adr(9, 0x800), a.msr(VBAR_EL1, 9), a.adr(9, 16), a.msr(ELR_EL1, 9)]
    start += [a.msr(SPSR_EL1, 31), a.ERET, a.movz(6, 3), a.movz(10, 5), *a.mov64(11, PM)]
    handler = [a.add(8, 8, 11), a.tbnz(8, 34, 8), MSR_PM[0]]
    handler += [a.and_low_bits(7, 8, 32, 1), a.msr(SPSR_EL1, 7), a.ERET]
    code = {CODE: a.code([*start, *loop]), CODE + 0x800 + SVC_VECTOR: a.code(handler)}
    fast, plain = (
        Machine(image_of(code, CODE), runner=runner, core=CORE, model=model, period=23)
        for runner in (Runner, ReferenceRunner)
    )
    for piece in (30, 200, 1, 6_000):
        assert not fast.run(piece).differences(plain.run(piece)), piece
    assert fast.board.cpu.entries.last_exception
    assert fast.sampled


@pytest.mark.sweep(first=True)
@pytest.mark.accelerated
@pytest.mark.parametrize("core", ["generic", "neoverse-n1", "neoverse-v2", "cortex-x4", CORE])
@pytest.mark.parametrize("model", ["none", "cache"])
@pytest.mark.parametrize("period", [None, 4096])
def test_blocks_count_themselves(core: str, model: ModelName, period: int | None) -> None:
    """Where records tell the last branch and where members are micro-operations, sampled or not."""
    code = [a.movz(6, 100), a.subs_imm(6, 6, 1), a.b_cond(NE, -4), a.b(4), a.NOP, a.b(-20)]
    machine = Machine(image_of({CODE: a.code(code)}, CODE), core=core, model=model, period=period)
    for _ in range(2):  # the first run finds where the engine's code lies
        machine.run(10_000)
    counted = machine.board.cpu.hooks.counted_inline
    assert counted.on, counted.why_not
    assert counted.blocks >= 3  # all but what began the run


def target_before(record: Record) -> int | None:
    return None if record.previous_target is None else record.previous_target.VA


def test_a_block_that_goes_on_after_a_stop_in_its_midst_was_not_branched_to(tmp_path: Path) -> None:
    """Where accesses are checked, a write of a table's address stops it."""
    ttbr1_el1 = (3, 0, 2, 0, 1)
    loop = [a.add_imm(2, 2, 1), a.msr(ttbr1_el1, 31), *[a.add_imm(2, 2, 1)] * 3, a.b(-20)]
    machine = spe_unicorn.Machine(
        program(tmp_path, a.code(loop)),
        core=CORE,
        sampling=Sampling(5, jitter=False),
        check_alignment=True,
    )
    machine.run(600)
    placed = list(decode_stream(machine.pes[0].records.raw))
    records = [one.record for one in placed if isinstance(one, PlacedRecord)]
    assert len(records) > 60
    assert {target_before(record) for record in records[3:]} == {CODE}
