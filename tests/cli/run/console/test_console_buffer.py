"""When the guest's output appears: at the end of its line, and wherever somebody waits for it."""

from __future__ import annotations

import io
import os
from typing import IO

import pytest

from spe_unicorn.cli.run.console import Console


class Terminal(io.BytesIO):
    """Standard output inside Python; each write is kept by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.buffer = self

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.written.append(bytes(data))
        return len(data)


def console(out: IO[bytes], *, buffered: bool = True) -> Console:
    return Console(
        out,
        stopping=lambda: True,
        on_error=lambda error: pytest.fail(str(error)),
        buffered=buffered,
    )


def test_a_line_is_written_at_once_at_its_end() -> None:
    out = Terminal()
    subject = console(out)
    for byte in b"hello\nwor":
        subject.write(bytes([byte]))
    assert out.written == [b"hello\n"]
    subject.flush()
    subject.flush()
    assert out.written == [b"hello\n", b"wor"]


@pytest.mark.parametrize("method", ["read", "wait", "close"])
def test_a_prompt_is_there_before_anybody_waits_for_an_answer(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(os.devnull, encoding="ascii") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        out = Terminal()
        subject = console(out)
        subject.write(b"name? ")
        assert out.written == []
        getattr(subject, method)(*([1] if method == "read" else []))
        assert out.written == [b"name? "]


def test_a_look_between_two_characters_is_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, encoding="ascii") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        out = Terminal()
        subject = console(out)
        for byte in b"name? ":
            subject.arrived(1)
            subject.write(bytes([byte]))
        subject.arrived(1)
        assert out.written == []
        subject.arrived(1)
        assert out.written == [b"name? "]


def test_input_is_silent_after_a_look_that_found_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = os.pipe()
    with open(theirs, encoding="ascii") as typed, open(ours, "wb", buffering=0) as keys:
        monkeypatch.setattr("sys.stdin", typed)
        subject = console(Terminal())
        seen = [(subject.arrived(1), subject.silent())]
        keys.write(b"ab")
        seen += [(subject.arrived(1), subject.silent()) for _ in range(3)]
    assert seen == [(b"", True), (b"a", False), (b"b", False), (b"", True)]


def test_a_line_without_an_end_does_not_grow() -> None:
    out = Terminal()
    subject = console(out)
    for _ in range(10_000):
        subject.write(b"x")
    assert [len(data) for data in out.written] == [4096, 4096]


def test_unbuffered_output_is_written_byte_by_byte() -> None:
    out = Terminal()
    subject = console(out, buffered=False)
    subject.write(b"a")
    subject.write(b"b")
    assert out.written == [b"a", b"b"]
