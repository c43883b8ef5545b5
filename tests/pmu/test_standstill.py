"""Why an enabled counter does not count, in words, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.arch.features import Features
from spe_unicorn.arch.registers.pmu import PMCR_EL0
from spe_unicorn.arch.registers.spe import PMBLIMITR_EL1
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.pmu.standstill import standstill_text
from tests.pmu.monitored_pe import ALL, CYCLES, FREEZE, LEVELS, P7, SYNC, F, monitors

P5_LEVELS = P7 | LEVELS
NSH, P = 1 << 27, 1 << 31
EL1_STAYS = {"el": 1, "features": P5_LEVELS}


def why(counter: int, *, overflowed: int = 0, type_: int | None = None, **given: Any) -> str | None:
    """What keeps a counter still; None for one that counts. Counters 0 and 1 are EL1's, 2 EL2's."""
    features: Features = given.pop("features", P7)
    fields = {name: given.pop(name) for name in list(given) if name.isupper()}
    control = PMCR_EL0.of(**{"E": 1, **{n: v for n, v in fields.items() if n in CONTROL}}).value
    subject, pe = monitors(
        *(E.INST_RETIRED, E.BR_RETIRED, E.CPU_CYCLES), features=features, control=control, **given
    )
    for register in (MDCR_EL2, MDCR_EL3):
        mine = {n: v for n, v in fields.items() if n in {f.name for f in register.fields}}
        if mine and register in pe.registers:
            before = {f.name: v for f, v in pe.registers.read(register).items()}
            pe.set(register, **{**before, **mine})
    if "PMFZ" in fields:
        pe.set(PMBLIMITR_EL1, E=1, PMFZ=1)
    if type_ is not None:
        subject.configure(counter, type_)
    subject.s.overflowed = overflowed
    found = subject.standstill(counter)
    assert (found is None) == subject.counts(counter)
    return None if found is None else standstill_text(subject, pe, counter, found)


CONTROL = ("E", "FZO", "FZS", "DP", "LP")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"counter": 0}, None),
        ({"counter": 5}, "the core does not have it"),
        ({"counter": 0, "enabled": ALL & ~1}, "its bit in PMCNTENSET_EL0 is 0"),
        ({"counter": 0, "E": 0}, "PMCR_EL0.E is 0"),
        (
            {"counter": 2, "HPMN": 2, "HPME": 0, **EL1_STAYS},
            "MDCR_EL2.HPME is 0",
        ),
        ({"counter": 0, "type_": P | E.INST_RETIRED}, "its filter leaves EL1 out"),
        ({"counter": 0, "el": 2, "features": P5_LEVELS}, "its filter leaves EL2 out"),
        (
            {"counter": CYCLES, "el": 2, "features": P5_LEVELS, "type_": NSH, "HCCD": 1},
            "MDCR_EL2.HCCD is 1",
        ),
        (
            {"counter": CYCLES, "el": 3, "features": P5_LEVELS, "SCCD": 1},
            "MDCR_EL3.SCCD is 1",
        ),
        (
            {"counter": CYCLES, "el": 3, "features": P5_LEVELS, "MCCD": 1},
            "MDCR_EL3.MCCD is 1",
        ),
        (
            {"counter": 0, "el": 2, "features": P5_LEVELS, "type_": NSH | E.BR_RETIRED, "HPMD": 1},
            "MDCR_EL2.HPMD is 1",
        ),
        (
            {"counter": CYCLES, "el": 2, "features": P5_LEVELS, "type_": NSH, "HPMD": 1, "DP": 1},
            "PMCR_EL0.DP is 1, and MDCR_EL2.HPMD is 1",
        ),
        ({"counter": CYCLES, "el": 2, "features": P5_LEVELS, "type_": NSH, "HPMD": 1}, None),
        ({"counter": 0, "el": 3, "features": P5_LEVELS}, "MDCR_EL3.SPME is 0"),
        ({"counter": 0, "el": 3, "features": P5_LEVELS, "MPMX": 1}, "MDCR_EL3.MPMX is 1"),
        (
            {"counter": 0, "FZO": 1, "overflowed": 0b10},
            "PMCR_EL0.FZO is 1, and PMOVSSET_EL0 is 0x2",
        ),
        ({"counter": CYCLES, "FZO": 1, "overflowed": 0b10}, None),
        (
            {"counter": CYCLES, "FZO": 1, "DP": 1, "overflowed": 0b10},
            "PMCR_EL0.DP is 1, and PMCR_EL0.FZO is 1, and PMOVSSET_EL0 is 0x2",
        ),
        (
            {"counter": 2, "HPMN": 2, "HPME": 1, "HPMFZO": 1, "overflowed": 4, **EL1_STAYS},
            "MDCR_EL2.HPMFZO is 1, and PMOVSSET_EL0 is 0x4",
        ),
        (
            {"counter": 0, "FZS": 1, "PMFZ": 1, "stopped": True, "features": FREEZE},
            "PMCR_EL0.FZS and PMBLIMITR_EL1.PMFZ are 1, and profiling has stopped",
        ),
        (
            {"counter": 1, "type_": 1 << 58 | E.LD_RETIRED, "features": SYNC},
            "SYNC is 1, and the event is not one of synchronous mode",
        ),
    ],
)
def test_the_first_rule_that_keeps_a_counter_still(
    given: dict[str, Any], expected: str | None
) -> None:
    assert why(**given) == expected


def test_features_of_the_cases_are_there() -> None:
    assert {F.FEAT_EL2, F.FEAT_EL3, F.FEAT_PMUv3p7} <= P5_LEVELS
