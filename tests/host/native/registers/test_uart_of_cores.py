"""Accesses to devices stay in a run on every core, with a model of it, and while it is sampled."""

from __future__ import annotations

import random

import pytest

from spe_unicorn.cores.profile import ModelName
from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.native.state.block_table import slot_of
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.uart_guests import BUSY, FR, NE, UART, random_accesses
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE, DATA = 0x4000_0000, 0x4010_0000
RTC = 0x0901_0000
WAYS: list[tuple[str, ModelName]] = [
    ("neoverse-n1", "none"),
    ("neoverse-v2", "none"),
    ("max", "none"),
    ("generic", "cache"),
    ("neoverse-n1", "cache"),
    ("max", "cache"),
]
"""Micro-operations, records of the previous branch target, a core model; and together."""
EACH_WAY = pytest.mark.parametrize(("core", "model"), WAYS)


def around(source: random.Random) -> list[int]:
    """Accesses to devices among loads, stores and branches of which records and the model tell."""
    near = source.choice((8, 16))
    body: list[int] = []
    for word in random_accesses(source):
        body.append(word)
        kind = source.random()
        if kind < 0.1:
            body += [a.ldr(0, 4, near), a.str_(0, 4, 0x40), a.ldr(0, 5, 0, size=2)]
        elif kind < 0.2:
            body += [a.subs_imm(31, 6, 2), a.b_cond(NE, 8), a.add_imm(4, 4, 0x40)]
    body.append(a.add_imm(6, 6, 1))
    start = [*a.mov64(1, UART), *a.mov64(4, DATA), *a.mov64(5, RTC)]
    return [*start, *body, a.b(-4 * len(body))]


@pytest.mark.sweep
@EACH_WAY
@pytest.mark.parametrize("period", [None, 7, 101])
def test_they_are_as_the_reference_has_them(
    core: str, model: ModelName, period: int | None
) -> None:
    """Records, events, the model and everything that software sees."""
    source = random.Random(f"{core} {model} {period}")
    image = image_of({CODE: a.code(around(source))}, CODE)
    pieces = [source.choice((1, 2, 7, 50, 300)) for _ in range(5)] + [900]
    fast, plain = (
        Machine(image, runner=runner, core=core, model=model, period=period)
        for runner in (Runner, ReferenceRunner)
    )
    for piece in pieces:
        assert not fast.run(piece).differences(plain.run(piece)), piece
    assert fast.console
    assert bool(fast.sampled) == (period is not None)


@pytest.mark.accelerated
@EACH_WAY
@pytest.mark.parametrize("period", [None, 4096])
def test_the_engine_is_hardly_ever_asked_anew(
    core: str, model: ModelName, period: int | None, engine_runs: list[RunRequest]
) -> None:
    """3,000 accesses to the UART take some twenty runs, with an operation sampled now and then."""
    loop = [*BUSY[:1], a.subs_imm(6, 6, 1), a.b_cond(NE, -8)]
    code = [*a.mov64(1, UART), *a.mov64(6, 1 << 20), *loop]
    machine = Machine(
        image_of({CODE: a.code(code)}, CODE), core=core, model=model, period=period, together=True
    )
    assert loop[0] == a.ldr(3, 1, FR, size=1)
    machine.run(9_000)
    assert len(engine_runs) < 60


@pytest.mark.accelerated
@pytest.mark.parametrize("device", [UART + FR, RTC])
def test_nor_is_it_where_a_new_epoch_begins_now_and_then(
    device: int, engine_runs: list[RunRequest]
) -> None:
    """Blocks that count themselves go on; TLB maintenance has forgotten their members."""
    inner = [a.ldr(3, 1, 0, size=2), a.subs_imm(6, 6, 1), a.b_cond(NE, -8)]
    loop = [a.movz(6, 100), *inner, a.sys(0, 8, 7, 0), a.DSB_SY, a.ISB]
    code = [*a.mov64(1, device), *loop, a.b(-4 * len(loop))]
    image = image_of({CODE: a.code(code)}, CODE)
    machine = Machine(image, core="neoverse-n1", period=4096, together=True)
    machine.run(9_000)
    assert len(engine_runs) < 300


@pytest.mark.parametrize("core", ["neoverse-n1", "max"])
@pytest.mark.parametrize("device", [UART + FR, RTC])
def test_a_block_that_counts_itself_outlives_its_place_in_the_table(core: str, device: int) -> None:
    """Another block takes the place; members after an access to a device are still given back.

    Both kinds of access: the UART's in compiled code, the RTC's by Python within the run.
    """
    first, second = CODE, CODE ^ (9 ^ 3) << 11
    assert slot_of(first, 9) == slot_of(second, 3)
    loads = [a.ldr9(7, 4, 8, 0b01)] * 6
    here = [a.ldr(3, 1, 0, size=2), *loads, a.subs_imm(6, 6, 1), a.b_cond(NE, -32)]
    here.append(a.b(second - first - 36))
    there = [a.movz(6, 20), a.NOP, a.b(first - second - 8)]
    start = CODE + 0x8000
    set_up = [*a.mov64(1, device), *a.mov64(4, DATA), a.movz(6, 20)]
    code = {
        first: a.code(here),
        second: a.code(there),
        start: a.code([*set_up, a.b(first - start - 4 * len(set_up))]),
    }
    fast, plain = (
        Machine(image_of(code, start), runner=runner, core=core, period=101)
        for runner in (Runner, ReferenceRunner)
    )
    for piece in (50, 700, 3_000):
        assert not fast.run(piece).differences(plain.run(piece)), piece
    assert fast.sampled
