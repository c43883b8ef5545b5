"""Settings for every test."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

from tests.support.running.skips import said_of

# A run that failed must fail again, on a busy machine as well as on an idle one. To look for new
# counterexamples: pytest --hypothesis-profile explore
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("steady")

NO_SKIPS = "SPE_UNICORN_NO_SKIPS"
"""The environment variable with which a skipped test fails; .ci/run sets it."""

SWEEP = "SPE_UNICORN_SWEEP"
"""The environment variable with the hash of a commit, which says what of sweeps runs: an eighth of
the tests that are marked so. Without it all run; .ci/run sets it."""
_PARTS = 8


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Tests are made and kept: to look for garbage among them is a quarter of their collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what of sweeps runs with other commits."""
    commit = os.environ.get(SWEEP)
    if not commit:
        return
    part = int(commit[:8], 16) % _PARTS
    begun: set[str] = set()
    others = [item for item in items if _part_of(item, begun) not in (None, part)]
    config.hook.pytest_deselected(items=others)
    left_out = set(map(id, others))
    items[:] = [item for item in items if id(item) not in left_out]


def _part_of(item: pytest.Item, begun: set[str]) -> int | None:
    """The part of the sweeps that a test belongs to, None if it always runs.

    ``begun`` has the sweeps whose first row has been seen.
    """
    sweep = item.get_closest_marker("sweep")
    if sweep is None:
        return None
    name = item.nodeid.partition("[")[0]
    if sweep.kwargs.get("first") and name not in begun:
        begun.add(name)
        return None
    name = item.location[0] if sweep.kwargs.get("together") else item.nodeid
    return crc32(name.encode()) % _PARTS


def pytest_configure() -> None:
    """Let children take signals that we ignore, as under nohup or in the background of a script.

    A program inherits what is ignored, and not what is handled by doing nothing.
    """
    for number in (signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection_finish() -> None:
    """Garbage is looked for among what tests make, not among the tests: a quarter of their time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    return _without_skips((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    return _without_skips((yield))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Each reason for which tests were skipped, and what to install."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("skipped tests")
        for line in said_of(report.longrepr[2] for report in skipped):
            terminalreporter.write_line(line)


def _without_skips(report: Any) -> Any:
    if os.environ.get(NO_SKIPS) and report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: nothing is skipped with {NO_SKIPS} set. {why}"
    return report
