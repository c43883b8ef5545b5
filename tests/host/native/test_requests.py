"""Requests for runs of the engine: what the hooks are told, and that nothing is left untold."""

from __future__ import annotations

from dataclasses import fields

import pytest

from spe_unicorn.host.native.flow import FLOW_VALID
from spe_unicorn.host.native.requests import Grant, RunRequest
from spe_unicorn.host.native.state.request import Request
from spe_unicorn.host.native.state.whole import State

TOLD_OTHERWISE = {
    "gap_epoch": "epoch",
    "flow_enabled": "flow",
    "flow_el": "flow",
    "flow_now": "flow",
}
"""Fields of the state that follow from something of another name."""
FOR_PYTHON = {"pc", "until", "budget", "members", "straight", "watched", "heard"}
FOR_PYTHON |= {"goes_through", "in_rows", "only_counted", "passes_wfi", "goals"}
"""What the hooks need not know, or know as a count."""
BY_RUN = {"samples_itself", "watch", "entries", "control_set", "notes_fences", "gic_at"}
"""What a run begins with, and hooks may change in it."""


def test_a_request_has_all_that_the_hooks_read_of_one() -> None:
    told = {field.name for field in fields(RunRequest)}
    asked = {TOLD_OTHERWISE.get(field.name, field.name) for field in Request.FIELDS}
    assert asked - {"epoch"} == told - FOR_PYTHON - BY_RUN


def test_a_request_is_written_whole() -> None:
    """Each number is another one, so that none can stand in the place of another."""
    request = RunRequest(0x4000, 0x5000, budget=10, limit=1011, horizon=1012, samples_itself=True)
    request.flow = True, 2
    names = sorted(field.name for field in fields(RunRequest))
    skipped = {"pc", "until", "budget", "limit", "horizon", "samples_itself", "flow"}
    numbers = {name: 100 + n for n, name in enumerate(names) if name not in skipped}
    for name, number in numbers.items():
        setattr(request, name, number)
    state = State(**{field.name: 7 for field in Request.FIELDS})
    state.granted, state.budget, state.epoch, state.samples_allowed = 1000, 0, 9, 5
    request.write(state)
    assert (state.granted - state.budget, state.budget) == (1000, 10)
    assert (state.limit, state.horizon, state.gap_epoch) == (1011, 1012, 9)
    assert (state.samples_itself, state.samples_allowed) == (1, 5)
    assert (state.flow_enabled, state.flow_el, state.flow_now) == (1, 2, FLOW_VALID | 2)
    for name in numbers.keys() - FOR_PYTHON:
        assert getattr(state, name) == numbers[name], name


@pytest.mark.parametrize("what", ["watch", "weigh", "tally"])
def test_blocks_are_looked_at_where_something_is_asked_of_them(what: str) -> None:
    request = RunRequest(0, 0, budget=10, limit=10, horizon=10)
    state = State()
    request.write(state)
    assert state.special == 0
    setattr(request, what, 1)
    request.write(state)
    assert state.special == 1


def test_samples_that_are_not_allowed_leave_no_room() -> None:
    state = State(room=5)
    RunRequest(0, 0, budget=10, limit=10, horizon=10).write(state)
    assert (state.samples_allowed, state.samples_itself) == (0, 0)


def test_a_grant_allows_no_samples_unless_it_says_so() -> None:
    assert not Grant(5).samples_itself
