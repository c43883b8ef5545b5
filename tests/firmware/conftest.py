"""Fixtures that run the shipped firmware."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.host.machine_runs import Machine, Result

WholeRun = Callable[..., Result]


@pytest.fixture(scope="session")
def whole_run() -> WholeRun:
    """Runs a firmware from reset to its end with the options of ``Machine``, once for all tests."""
    done: dict[tuple[object, ...], Result] = {}

    def run(name: str, **options: object) -> Result:
        key = (name, *sorted(options.items()))
        if key not in done:
            done[key] = Machine(name, **options).run()  # type: ignore[arg-type]
        return done[key]

    return run
