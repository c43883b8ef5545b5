from __future__ import annotations

import os
import pty
import tty
from collections.abc import Iterator
from typing import Any

import pytest

from spe_unicorn.cli.run.console import Console


class Errors(list):
    """What the console reported."""


def console(out, *, stopping=lambda: False, errors=None, before_write=lambda: None) -> Console:
    return Console(
        out,
        stopping=stopping,
        on_error=(errors if errors is not None else Errors()).append,
        before_write=before_write,
        buffered=False,
    )


@pytest.fixture
def pipe() -> Iterator[Any]:
    """Both ends of a pipe as text streams; the reading end never waits."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    with os.fdopen(read, "rb", buffering=0) as reader, os.fdopen(write, "w") as writer:
        yield reader, writer


def test_output_without_a_buffer_is_there_at_once(pipe: Any) -> None:
    reader, writer = pipe
    console(writer).write(b"no line end")
    assert reader.read() == b"no line end"


def test_the_progress_line_is_taken_away_in_front_of_output(pipe: Any) -> None:
    reader, writer = pipe
    seen = []
    console(writer, before_write=lambda: seen.append(reader.read())).write(b"x")
    assert seen == [None]  # nothing had been written yet
    assert reader.read() == b"x"


def test_an_unfinished_line_counts_on_a_terminal_only(pipe: Any) -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with os.fdopen(theirs, "w") as terminal:
        one = console(terminal)
        one.write(b"password: ")
        assert one.mid_line
        one.write(b"\n")
        assert not one.mid_line
    os.close(ours)
    other = console(pipe[1])
    other.write(b"password: ")
    assert not other.mid_line


def test_a_full_pipe_is_left_alone_when_the_run_is_to_end(pipe: Any) -> None:
    _, writer = pipe
    stops = []

    def stopping() -> bool:
        stops.append(None)
        return len(stops) > 1

    console(writer, stopping=stopping).write(bytes(1 << 20))
    assert len(stops) == 2


def test_a_reader_that_is_gone_is_reported_once_and_output_dropped(pipe: Any) -> None:
    reader, writer = pipe
    reader.close()
    errors = Errors()
    one = console(writer, errors=errors)
    one.write(b"x")
    one.write(b"y")
    assert [type(error) for error in errors] == [BrokenPipeError]


def test_no_output_stream_takes_everything() -> None:
    console(None).write(b"x")


def test_input_comes_as_it_was_typed_and_then_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        one = console(None)
        os.write(write, b"abc")
        assert one.read(2) == b"ab"
        assert one.read(2) == b"c"
        os.close(write)
        assert one.read(2) == b""


def test_waiting_for_input_ends_when_the_run_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert console(None, stopping=lambda: True).read(1) == b""
    os.close(write)


def test_no_input_stream_is_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert console(None).read(1) == b""
