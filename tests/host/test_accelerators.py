"""Everything works without accelerators, and all that a guest and its records show is the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.host.accelerators import NAMES, OPTION, chosen, wanted
from spe_unicorn.host.engine.known import why_not
from spe_unicorn.host.pe.access.device_access import RefusedAccesses
from tests.support.machine_runs import Machine, Result

ROOT = Path(__file__).resolve().parents[2]


def test_all_are_in_use_unless_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OPTION, raising=False)
    assert chosen() == set(NAMES)


@pytest.mark.parametrize(
    ("value", "names"),
    [("none", set()), ("gic", {"gic"}), (" uart, inline ", {"uart", "inline"}), ("", set(NAMES))],
)
def test_names_are_chosen(value: str, names: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTION, value)
    assert chosen() == names
    assert {name for name in NAMES if wanted(name)} == names


def test_a_wrong_name_is_told_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTION, "gic,tlb")
    with pytest.raises(ValueError, match="no accelerator 'tlb'; there is none, inline, recipes"):
        chosen()


def test_who_asks_why_blocks_are_not_counted_inline_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(OPTION, "recipes")
    assert why_not() == f"{OPTION}=recipes"


def test_each_stands_in_both_tables_of_its_page() -> None:
    page = (ROOT / "docs/reference/accelerators.md").read_text()
    answers, buys = page.split("## What each buys")
    for table in (answers, buys):
        assert re.findall(r"^\| `(\w+)` \|", table, re.M) == list(NAMES)


PROGRAMS: dict[str, dict[str, Any]] = {
    "hello": {},
    "bench_list": {"period": 997},
    "spe_irq_el1": {},
    "ipi_pingpong": {"smp": 2},
    "world_switch": {"el": 2},
    "spe_counters": {},
    "mix": {"period": 101, "jitter": True, "core": "neoverse-n1", "model": "cache"},
    "priv_el1": {"core": "neoverse-n1", "model": "cache"},
    "priv_vhe": {"core": "neoverse-n1", "model": "cache", "el": 2},
    "priv_el2": {"core": "neoverse-n1", "model": "cache", "el": 2, "period": 61, "jitter": True},
}


def outcome(name: str, accelerators: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv(OPTION, accelerators)
    return Machine(name, **PROGRAMS[name]).run(400_000)


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_without_any(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = outcome(name, "none", monkeypatch)
    assert outcome(name, "", monkeypatch).differences(plain) == {}
    assert plain.operations > 100


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("accelerator", NAMES)
def test_each_works_alone(accelerator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = outcome("ipi_pingpong", "none", monkeypatch)
    assert outcome("ipi_pingpong", accelerator, monkeypatch).differences(plain) == {}


def test_without_the_uarts_python_answers_for_each_character(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered: list[int] = []
    plain = RefusedAccesses.access_within_run

    def noted(self: RefusedAccesses, pc: int) -> bool:
        answered.append(pc)
        return plain(self, pc)

    monkeypatch.setattr(RefusedAccesses, "access_within_run", noted)
    console = outcome("hello", "none", monkeypatch).console
    assert len(answered) >= len(console) > 10
    answered.clear()
    outcome("hello", "uart", monkeypatch)
    assert len(answered) < len(console)
