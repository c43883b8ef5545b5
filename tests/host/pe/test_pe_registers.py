"""Registers of the PE that are worked out when they are read."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of

CODE = 0x4000_0000
NZCV = (3, 3, 4, 2, 0)
READ_RNDR = a.mrs(1, astuple(system.RNDR.encoding))
READ_RNDRRS = a.mrs(2, astuple(system.RNDRRS.encoding))
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def drawn(seed: int, runner: type[Runner] = Runner, period: int | None = None) -> list[int]:
    """RNDR, RNDRRS and RNDR again, and the flags after them, which were all set."""
    words = [
        *a.mov64(5, 0xF000_0000),
        a.msr(NZCV, 5),
        READ_RNDR,
        READ_RNDRRS,
        a.mrs(3, astuple(system.RNDR.encoding)),
        a.mrs(4, NZCV),
    ]
    image = image_of({CODE: a.code([*words, a.b(0)])}, CODE)
    m = Machine(image, seed=seed, runner=runner, period=period)
    m.run(len(words) + 3)
    return [m.board.cpu.engine.x(n) for n in (1, 2, 3, 4)]


@RUNNERS
@pytest.mark.parametrize("seed", [0, 7])
def test_random_numbers_come_from_their_stream_and_clear_the_flags(
    runner: type[Runner], seed: int
) -> None:
    stream = RandomSource(seed).stream("RNDR")
    assert drawn(seed, runner) == [stream.bits64(), stream.bits64(), stream.bits64(), 0]


@pytest.mark.parametrize("period", [1, 2, 3])
def test_sampling_draws_no_random_number_of_the_guest(period: int) -> None:
    assert drawn(0, period=period) == drawn(0)
