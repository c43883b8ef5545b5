"""The state that hooks and Python share: what each field means, who writes it, how a run begins."""

from __future__ import annotations

import ast
import ctypes
import re
from collections import defaultdict
from pathlib import Path

import spe_unicorn
from spe_unicorn.host.native.state.budget import (
    UNBOUNDED,
    begin_anew,
    begin_anew_after_block,
    end_after_block,
    grant,
)
from spe_unicorn.host.native.state.clock import Clock
from spe_unicorn.host.native.state.field import Writer
from spe_unicorn.host.native.state.transit import NO_LINE, Transit
from spe_unicorn.host.native.state.whole import LAYOUT, PARTS, State
from spe_unicorn.host.native.state.wiring import Wiring

WRITERS = {field.name: field.writer for part in PARTS for field in part.FIELDS}
OTHERS = ("model.py", "reads.py")
"""Files with states of their own, which have fields of the same names."""
STRANGERS = frozenset({"arch", "cores", "decode", "devices", "pmu", "spe", "symbols"})
"""Rooms that cannot know the state, and use the same short names for their own."""
PACKAGE = Path(spe_unicorn.__file__).parent
WHOLE = PACKAGE / "host/native/state/whole.py"
"""Where `State` stands, whose methods call it `self`."""
TURNS = PACKAGE / "host/native/turns/plain.py"
ASKING = (PACKAGE / "host/native/requests.py", TURNS)
"""Where requests are written: for Python, and in its place for the turns of compiled code."""
BETWEEN_RUNS = {"begin_run"}
"""Compiled code that stands in Python's place, between two runs of the engine."""
RECORD = PACKAGE.parent / "docs/adr/0040-fields-written-in-turns.md"
SOURCES = sorted(
    source
    for source in PACKAGE.rglob("*.py")
    if source.relative_to(PACKAGE).parts[0] not in STRANGERS
)


def is_a_hook(source: Path, function: ast.FunctionDef) -> bool:
    """Whether a function runs while the engine does, as compiled code mostly does."""
    return is_compiled(function) and source != TURNS and function.name not in BETWEEN_RUNS


def is_compiled(function: ast.FunctionDef) -> bool:
    names = {
        getattr(d.func if isinstance(d, ast.Call) else d, "id", "") for d in function.decorator_list
    }
    return bool(names & {"routine", "entry"})


def is_state(value: ast.expr) -> bool:
    """Whether an expression is the shared state, by the names that it goes by in the package."""
    return ast.unparse(value) in {
        *("s", "state", "self._state", "self.state", "cpu.state", "self._cpu.state"),
        *("hooks.state", "cpu.hooks.state", "self.cpu.state"),
    }


def stores() -> dict[str, set[Writer]]:
    """The fields that the package's text stores to, and whether hooks or Python do."""
    found: dict[str, set[Writer]] = defaultdict(set)

    def look(node: ast.AST, side: Writer, begins: bool = False) -> None:
        if isinstance(node, ast.FunctionDef):
            side = Writer.HOOKS if is_a_hook(source, node) else Writer.PYTHON
            begins = node.name in BETWEEN_RUNS
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own = begins or (source == WHOLE and ast.unparse(node.value) == "self")
            field = (own or is_state(node.value)) and node.attr in WRITERS
            reset = own and WRITERS.get(node.attr) is Writer.HOOKS
            if field and not reset:
                request = WRITERS[node.attr] is Writer.REQUEST and (begins or source in ASKING)
                found[node.attr].add(Writer.REQUEST if request else side)
        for child in ast.iter_child_nodes(node):
            look(child, side, begins)

    for source in SOURCES:
        if source.name not in OTHERS:
            look(ast.parse(source.read_text("utf-8")), Writer.PYTHON)
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


def test_a_field_is_written_by_the_side_that_it_names_and_no_other():
    found = stores()
    assert len(found) > 60  # the names of the state are still those above
    for name, sides in found.items():
        writer = WRITERS[name]
        if writer is Writer.HOOKS:
            assert sides == {Writer.HOOKS}, name
        elif writer is Writer.TURNS:
            assert sides == {Writer.HOOKS, Writer.PYTHON}, name
        elif writer is Writer.REQUEST:
            assert sides == {Writer.REQUEST}, name
        else:
            assert sides == {Writer.PYTHON}, name


def test_the_decision_record_has_a_reason_for_each_field_that_is_written_in_turns():
    text = RECORD.read_text("utf-8")
    table = re.findall(r"^\| (`[^|]+) \| [^|]+ \|$", text, re.M)
    told = [name for row in table for name in re.findall(r"`(\w+)`", row)]
    turns = [name for name, writer in WRITERS.items() if writer is Writer.TURNS]
    assert sorted(told) == sorted(turns)


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
    assert [getattr(state, name) for name in (*emptied, "samples_itself", "room")] == [0] * 10
    kept = {name for name in WRITERS if getattr(state, name) == 77}
    assert {field.name for field in Clock.FIELDS} - kept == {"budget", "granted"}
    assert {field.name for field in Wiring.FIELDS} <= kept
    assert {field.name for field in Transit.FIELDS} - kept == {
        *("watch", "stop", "probe", "special", "attend", "samples_itself", "looked_at_pc"),
        *("again", "control_key", "line", "line_stored"),
        *("notes_fences", "fence", "fence_before", "sev"),
    }
    assert state.line == state.line_stored == NO_LINE
