"""Random programs whose memory is mapped at stage 2 on first touch: the runners agree."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from spe_unicorn.arch.pe import EL2
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from tests.host.stage2_guests import RAM, stage2_guest
from tests.support.machine_runs import Machine
from tests.support.random_runs import run_in_pieces, settings_of

OPERATIONS = 3000


@pytest.mark.sweep
@pytest.mark.parametrize("period", [None, 1, 7, 257])
@pytest.mark.parametrize("seed", range(12))
def test_runners_agree_on_a_guest_of_stage_2(seed: int, period: int | None) -> None:
    image = stage2_guest(seed, settings_of(seed, spe=period is None))
    options = {"ram": RAM, "el": EL2, "period": period, "seed": seed}
    stepped = Machine(image, runner=ReferenceRunner, **options).run(OPERATIONS)
    assert stepped.ending is Ending.LIMIT, stepped.failure
    assert Machine(image, **options).run(OPERATIONS).differences(stepped) == {}
    pieces = run_in_pieces(Machine(image, **options), OPERATIONS, Random(seed))
    assert pieces.differences(stepped) == {}


def test_such_guests_take_exceptions_at_vectors_that_are_not_mapped() -> None:
    """A fetch at a vector of EL1 is the first thing after an exception to EL1."""
    at_vectors = 0
    for seed in range(24):
        machine = Machine(stage2_guest(seed, settings_of(seed)), ram=RAM, el=EL2)
        taken: list[tuple[int, int, int]] = []
        machine.board.cpu.exception_taken.connect(
            lambda record, entry, taken=taken: taken.append(
                (entry.target_el, entry.elr, entry.vector)
            )
        )
        machine.run(OPERATIONS)
        at_vectors += sum(
            (before[0], after[:2]) == (1, (2, before[2])) for before, after in pairwise(taken)
        )
    assert at_vectors > 12


@pytest.mark.parametrize("seed", [107, 124])
def test_the_model_knows_branches_in_pages_that_are_not_readable(seed: int) -> None:
    """Stage 2 lets some pages of code be executed, and not read."""
    image = stage2_guest(seed, settings_of(seed, spe=True))
    options = {"ram": RAM, "el": EL2, "core": "neoverse-v1", "model": "cache", "seed": seed}
    stepped = Machine(image, runner=ReferenceRunner, **options).run(OPERATIONS)
    assert Machine(image, **options).run(OPERATIONS).differences(stepped) == {}


def test_the_runners_agree_on_previous_branch_targets() -> None:
    """After a return to EL1 the first operation is a SEV, which the host executes."""
    image = stage2_guest(34, settings_of(34))
    options = {"ram": RAM, "el": EL2, "core": "max", "period": 7, "jitter": True, "seed": 34}
    stepped = Machine(image, runner=ReferenceRunner, **options).run(OPERATIONS)
    assert Machine(image, **options).run(OPERATIONS).differences(stepped) == {}
