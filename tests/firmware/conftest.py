"""Fixtures that run the shipped firmware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.firmware.programs import firmware_machine
from tests.support.machine_runs import Result

WholeRun = Callable[..., Result]
LIMIT = 50_000_000
"""Operations after which a program is taken for lost."""


@pytest.fixture(scope="session")
def whole_run() -> WholeRun:
    """Runs a firmware from reset to its end with the options of ``Machine``, once for all tests."""
    done: dict[tuple[object, ...], Result] = {}

    def run(name: str, **options: Any) -> Result:
        key = (name, *sorted(options.items()))
        if key not in done:
            done[key] = firmware_machine(name, **options).run(LIMIT)
        return done[key]

    return run
