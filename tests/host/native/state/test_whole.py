"""The state that hooks and Python share: what each field means, who writes it, how a run begins."""

from __future__ import annotations

import ast
import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import spe_unicorn
from spe_unicorn.host.native.state.budget import (
    UNBOUNDED,
    begin_anew,
    begin_anew_after_block,
    end_after_block,
)
from spe_unicorn.host.native.state.clock import Clock
from spe_unicorn.host.native.state.field import Writer
from spe_unicorn.host.native.state.ledger import grant
from spe_unicorn.host.native.state.transit import NO_LINE, Transit
from spe_unicorn.host.native.state.whole import LAYOUT, PARTS, State
from spe_unicorn.host.native.state.wiring import Wiring

WRITERS = {field.name: field.writer for part in PARTS for field in part.FIELDS}
BY_THE_ENGINE = {"pc", "physical"}
"""What functions of the engine write, at the address that they are given."""
HELD = (Writer.LEDGER, Writer.HOOKS)
"""What compiled code writes."""
MODEL = "model.py"
"""A file with a state of its own, which it calls `self.state`."""
STRANGERS = frozenset({"arch", "cores", "decode", "devices", "pmu", "spe", "symbols"})
"""Rooms that cannot know the state, and use the same short names for their own."""
PACKAGE = Path(spe_unicorn.__file__).parent
LEDGER = PACKAGE / "host/native/state/ledger.py"
"""Where what is counted is written, for hooks and Python."""
TURNS = PACKAGE / "host/native/turns/take.py"
ASKING = (PACKAGE / "host/native/requests.py", TURNS)
"""Where requests are written: for Python, and in its place for the turns of compiled code."""
BEGINS = "begin_run"
"""The compiled function that begins a run, also with what is Python's or the request's to write."""
RECORD = PACKAGE.parent / "docs/adr/0051-one-writer-for-each-field.md"
SOURCES = sorted(
    source
    for source in PACKAGE.rglob("*.py")
    if source.relative_to(PACKAGE).parts[0] not in STRANGERS
)


class Store(NamedTuple):
    """Where the package's text stores to a field of the state."""

    field: str
    source: Path
    function: str
    compiled: bool

    @property
    def by(self) -> set[Writer]:
        """The writers that may store so."""
        if self.source == LEDGER:
            return {Writer.LEDGER}
        if not self.compiled:
            asks = self.source in ASKING
            return {Writer.ONCE, Writer.PYTHON, *([Writer.REQUEST] if asks else [])}
        if self.source in ASKING or self.function == BEGINS:
            return {Writer.HOOKS, Writer.PYTHON, Writer.REQUEST}
        return {Writer.HOOKS}


def is_compiled(function: ast.FunctionDef) -> bool:
    names = {
        getattr(d.func if isinstance(d, ast.Call) else d, "id", "") for d in function.decorator_list
    }
    return bool(names & {"routine", "entry"})


def is_state(value: ast.expr, source: Path) -> bool:
    """Whether an expression is the shared state, by the names that it goes by in the package."""
    text = ast.unparse(value)
    if source.name == MODEL:
        return text in {"state", "self._state", "hooks.state"}
    return text.split(".")[-1] in {"state", "_state", "other"}


def functions(source: Path) -> Iterator[ast.FunctionDef]:
    """The functions and methods of a file; a function within another is part of that one."""
    for node in ast.parse(source.read_text("utf-8")).body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef):
                yield inner


def stores() -> list[Store]:
    """Wherever the package's text stores to a field of the state."""
    return [
        Store(node.attr, source, function.name, is_compiled(function))
        for source in SOURCES
        for function in functions(source)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if node.attr in WRITERS and is_state(node.value, source)
    ]


def called_by_python() -> set[tuple[str, str]]:
    """What functions of Python call by name, with the file that it stands in."""
    found = set()
    for source in SOURCES:
        tree = ast.parse(source.read_text("utf-8"))
        homes = {
            alias.name: f"{node.module.removeprefix('spe_unicorn.').replace('.', '/')}.py"
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        here = str(source.relative_to(PACKAGE))
        for function in functions(source):
            for call in [] if is_compiled(function) else ast.walk(function):
                if isinstance(call, ast.Call):
                    name = ast.unparse(call.func).removesuffix(".called")
                    found.add((homes.get(name, here), name))
    return found


def test_each_field_is_one_of_one_part_and_says_what_it_means():
    names = [field.name for part in PARTS for field in part.FIELDS]
    assert len(names) == len(set(names))
    assert all(len(field.meaning) > 4 for part in PARTS for field in part.FIELDS)
    assert all(field.writer is Writer.ONCE for field in Wiring.FIELDS)


def test_compiled_code_sees_the_fields_where_python_has_them():
    assert LAYOUT.itemsize == ctypes.sizeof(State)
    for name in WRITERS:
        assert LAYOUT.fields is not None
        assert LAYOUT.fields[name][1] == getattr(State, name).offset


def test_a_field_is_written_by_its_one_writer_and_nobody_else():
    found = stores()
    # the names of the state are still those above
    held = {name for name, writer in WRITERS.items() if writer in HELD}
    assert {store.field for store in found} > held - BY_THE_ENGINE
    for store in found:
        assert WRITERS[store.field] in store.by, store


def test_a_store_by_somebody_else_is_found():
    """Python may not store to what is the hooks', nor hooks to what is Python's or the ledger's."""
    for field, compiled in (
        ("stop", False),
        ("budget", True),
        ("budget", False),
        ("samples_allowed", True),
    ):
        store = Store(field, PACKAGE / "host/run/runner.py", "somebody", compiled)
        assert WRITERS[field] not in store.by


def test_the_decision_record_names_what_python_calls_to_have_something_written():
    text = RECORD.read_text("utf-8")
    rows = re.findall(r"^\| `(host/[\w/]+\.py)` \| (.+) \|$", text, re.M)
    told = {(file, name) for file, names in rows for name in re.findall(r"`(\w+)`", names)}
    own = {(str(s.source.relative_to(PACKAGE)), s.function) for s in stores() if s.compiled}
    found = own & called_by_python()
    assert told == found


def test_a_grant_leaves_what_has_been_executed():
    state = State(granted=1000, budget=40)
    grant(state, 7)
    assert (state.budget, state.granted - state.budget) == (7, 960)


def test_a_run_ends_after_the_block_when_nothing_is_left():
    state = State(granted=1000, budget=40)
    end_after_block(state)
    assert (state.notice, state.budget, state.granted) == (1, 0, 960)


def test_a_block_begins_anew_with_the_budget_that_was_left():
    state = State(granted=1000, budget=-3, begins_anew=1)
    begin_anew_after_block(state)
    assert (state.notice, state.budget, state.granted) == (1, 0, 1003)
    begin_anew(state)
    assert (state.notice, state.budget, state.granted, state.again) == (0, -3, 1000, 0)


def test_where_no_block_may_begin_twice_the_engine_stops_instead():
    state = State(granted=1000, budget=40)
    begin_anew_after_block(state)
    assert (state.notice, state.budget, state.again) == (1, 0, 0)


def test_a_run_begins_with_nothing_left_of_the_one_before():
    every = dict.fromkeys(WRITERS, 77)
    state = State(**every)
    state.granted, state.budget = 1000, 40
    state.begin(UNBOUNDED)
    assert state.granted - state.budget == 960
    assert state.budget == UNBOUNDED
    emptied = ("watch", "entries", "weigh", "speculates", "checking", "stop", "probe", "special")
    assert not any(getattr(state, name) for name in emptied)
    assert (state.samples_itself, state.samples_allowed) == (0, 0)
    kept = {name for name in WRITERS if getattr(state, name) == 77}
    assert {field.name for field in Clock.FIELDS} - kept == {"budget", "granted"}
    assert {field.name for field in Wiring.FIELDS} <= kept
    assert {field.name for field in Transit.FIELDS} - kept == {
        *("watch", "stop", "probe", "special", "attend", "samples_itself", "looked_at_pc"),
        *("again", "control_key", "line", "line_stored", "flow_asks", "flow_twice"),
        *("covering", "cover_row", "cover_keeps"),
        *("notes_fences", "fence", "fence_before", "event_due", "restored"),
        *("sent", "rose", "uart_sent"),
    }
    assert state.line == state.line_stored == NO_LINE
