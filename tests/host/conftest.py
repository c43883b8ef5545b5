"""What tests of the host share."""

from __future__ import annotations

import pytest

from spe_unicorn.host.native.requests import RunRequest
from spe_unicorn.host.native.state.report import RunReport
from spe_unicorn.host.run.engine_runs import EngineRuns


@pytest.fixture
def engine_runs(monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """The request of each run of the engine, steps to single operations included."""
    found: list[RunRequest] = []
    run = EngineRuns.run

    def noted(self: EngineRuns, request: RunRequest) -> RunReport:
        found.append(request)
        return run(self, request)

    monkeypatch.setattr(EngineRuns, "run", noted)
    return found
