"""Random programs as guests whose pages are mapped at stage 2 when they are touched.

The programs are those of tests/host/run/test_stage2_guests.py. Both runners agree, and no guest
ends the machine.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from attack import AttackError

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL2
from spe_unicorn.cores.profile import core_names, load_core
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from tests.host.stage2_guests import RAM, stage2_guest
from tests.support.machine_runs import Machine
from tests.support.random_runs import PERIODS, run_in_pieces, settings_of

OPERATIONS = 4000


def attack(random: Random, folder: Path) -> int:
    """One guest, sampled from outside or by itself."""
    core = load_core(random.choice(core_names()))
    sve = Feature.FEAT_SVE in core.features and random.random() < 0.5
    unit = Feature.FEAT_SPE in core.features and random.random() < 0.5
    period = None if unit else random.choice((*PERIODS, random.randrange(1, 1500)))
    seed = random.getrandbits(40)
    operations = OPERATIONS if period is None else min(OPERATIONS, 600 * period)
    options: dict[str, Any] = {
        "core": core,
        "model": random.choice(("none", "cache")),
        "period": period,
        "jitter": not unit and random.random() < 0.3,
        "seed": seed,
        "ram": RAM,
        "el": EL2,
    }
    shown = {**options, "core": core.name, "sve": sve}
    image = stage2_guest(seed, settings_of(seed, spe=unit, sve=sve))
    stepped = Machine(image, runner=ReferenceRunner, **options).run(operations)
    if stepped.ending is not Ending.LIMIT:
        raise AttackError(f"guest {seed} with {shown} ended: {stepped.failure}")
    ways = {
        "run": Machine(image, **options).run(operations),
        "run in pieces": run_in_pieces(Machine(image, **options), operations, Random(seed)),
    }
    for way, result in ways.items():
        found = result.differences(stepped)
        if found:
            raise AttackError(f"guest {seed} with {shown}, {way}: {found}")
    return 1
