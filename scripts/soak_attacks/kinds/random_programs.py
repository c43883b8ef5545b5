"""Random programs: both runners and a plain trace agree, in every mode.

The programs and what is compared are those of tests/host/run/test_random_programs.py.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from spe_unicorn.arch.features import Feature
from spe_unicorn.cores.profile import Core, ModelName, core_names, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from tests.support.machine_runs import Machine
from tests.support.random_programs import RAM, random_program
from tests.support.random_runs import (
    PERIODS,
    assert_same_by_unit,
    assert_same_from_outside,
    run_in_pieces,
    settings_of,
)

OPERATIONS = 4000


def attack(random: Random, folder: Path) -> int:
    """One program, sampled from outside or by itself."""
    core = load_core(random.choice(core_names()))
    model: ModelName = random.choice(("none", "cache"))
    sve = Feature.FEAT_SVE in core.features and random.random() < 0.5
    unit = Feature.FEAT_SPE in core.features and random.random() < 0.5
    period = random.choice((*PERIODS, random.randrange(1, 1500)))
    seed = random.getrandbits(40)
    operations = OPERATIONS if unit else min(OPERATIONS, 600 * period)
    jitter = not unit and random.random() < 0.3
    if jitter or core.with_model(model).wrong_path:
        sampling = {"period": None if unit else period, "jitter": jitter}
        _assert_runners_agree(seed, sampling, operations, core, model, sve)
    elif unit:
        assert_same_by_unit(seed, operations, core, model, sve=sve)
    else:
        assert_same_from_outside(seed, period, operations, core, model, sve=sve)
    return 1


def _assert_runners_agree(
    seed: int,
    sampling: dict[str, Any],
    operations: int,
    core: Core,
    model: ModelName,
    sve: bool,
) -> None:
    """Without the trace, which knows nothing of wrong paths and of distances that vary."""
    image = random_program(seed, settings_of(seed, spe=sampling["period"] is None, sve=sve))
    options = {**sampling, "ram": RAM, "seed": seed, "core": core, "model": model}
    fast, pieces = Machine(image, **options), Machine(image, **options)
    stepped = Machine(image, runner=ReferenceRunner, **options).run(operations)
    together = Machine(image, together=True, **options)
    assert fast.run(operations).differences(stepped) == {}
    assert run_in_pieces(pieces, operations, Random(seed)).differences(stepped) == {}
    assert together.run(operations).differences(stepped, ignoring=["records"]) == {}
