"""HCR_EL2.VI and VF are the host's: the engine never has them, and all its runs end."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.host.virtual_interrupts import (
    BITS,
    OPERATIONS,
    RUNNERS,
    WAYS,
    without_el2_name,
    written,
)
from tests.support.running.processes import WALL_SECONDS, limit_cpu

VECTOR = {"VI": 0x280, "VF": 0x300, "both": 0x300}
"""From EL1 with SP_EL1. FIQ comes first, which is the machine's choice."""


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> dict[str, dict[str, int] | None]:
    """What each way that is asked for has come to."""
    items = [item for item in request.session.items if item.path == request.path]
    asked = [item.callspec.params for item in items if isinstance(item, pytest.Function)]
    ways = [str(of.get("way") or without_el2_name(str(of["runner"]))) for of in asked]
    answer = subprocess.run(
        [sys.executable, "-m", "tests.host.virtual_interrupts", *ways],
        stdout=subprocess.PIPE,
        check=False,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    return dict(json.loads(line) for line in answer.stdout.splitlines())


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
def test_a_guest_that_sets_them_goes_on(way: str, found: dict[str, dict[str, int] | None]) -> None:
    bits = WAYS[way][0]
    hcr = written(bits)
    assert found.get(way) == {
        "first": hcr,
        "second": hcr,
        "isr": BITS[bits],  # I and F have the places of VI and VF
        "vector": VECTOR[bits],
        "hcr": hcr,
        "engine": hcr & ~BITS["both"],
        "operations": OPERATIONS,
    }


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_core_without_el2_goes_on(runner: str, found: dict[str, dict[str, int] | None]) -> None:
    """HCR_EL2 is RES0 from EL3 there (Arm ARM D24.2, HCR_EL2)."""
    assert found.get(without_el2_name(runner)) == {"first": 0, "operations": OPERATIONS}
