"""What a failed test shows: of its machines much, of our own frames nothing."""

from __future__ import annotations

import shlex
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

import spe_unicorn
from spe_unicorn.symbols.table import printable

if TYPE_CHECKING:
    from spe_unicorn.pytest_plugin.machine import MachineOfTest
    from spe_unicorn.session.processing_element import PE

_CONSOLE_LINES: Final = 50
_HOME: Final = Path(spe_unicorn.__file__).parent
_PYTHON: Final = Path(sysconfig.get_path("stdlib"))
_FACE: Final = ("pytest_plugin", "session", "bits.py", "arch/registers/by_name.py")
"""What tests call directly: an error that these raise is about the call."""


def plain(text: str) -> str:
    """What a guest printed, without characters that a terminal would obey."""
    return "\n".join(
        "".join(c if c == "\t" else printable(c) for c in line) for line in text.split("\n")
    )


def evidence(machine: MachineOfTest) -> list[tuple[str, str]]:
    """Headings and texts: command, place, registers, trace, console."""
    from spe_unicorn.debug.whereabouts import whereabouts_text

    outcome = machine.outcome
    places = "" if outcome is None else whereabouts_text(outcome.places)
    console = "\n".join(machine.console.splitlines()[-_CONSOLE_LINES:])
    return [
        ("to see it again", _again(machine)),
        ("where it is", places or "it has not run\n"),
        ("registers", "".join(map(_registers, machine.pes))),
        (f"the last {len(machine.lines)} lines of the trace", "".join(machine.lines)),
        ("console", plain(console)),
    ]


def _again(machine: MachineOfTest) -> str:
    """The command that leads to the same place, and what the test did besides."""
    from spe_unicorn.session.reproduce import command_words, piped

    options = machine.machine.options
    more: tuple[str, ...] = () if options.sampling is None else ("-o", "records.spe")
    if machine.exit_status is None and machine.machine.operations:
        more += ("--max-insns", str(machine.machine.operations))
    words = shlex.join(command_words(options, more))
    first = [text for operation, text in machine.typed if not operation]
    command = piped(b"".join(first), words)
    later = [
        f"at operation {operation} the test typed {text!r}"
        for operation, text in machine.typed
        if operation
    ]
    return "\n".join([command, *later])


def _registers(pe: PE) -> str:
    """The general registers of a PE, and those of SPE that are not 0."""
    from spe_unicorn.arch.registers.spe import SPE_REGISTERS

    lines = [f"cpu {pe.number} EL{pe.el} PC {pe.pc:016x} SP {pe.sp:016x} {pe.pstate}"]
    values = list(pe.x)
    for first in range(0, 31, 4):
        words = [f"X{n:<2} {values[n]:016x}" for n in range(first, min(first + 4, 31))]
        lines.append("  ".join(words))
    for register in SPE_REGISTERS:
        if register.__name__ in dir(pe.registers):
            value = getattr(pe.registers, register.__name__)
            if int(value):
                lines.append(repr(value))
    return "\n".join(lines) + "\n"


def cut_to_the_test(error: BaseException) -> None:
    """Leave our frames out of the traceback of an error that says what the test did wrong.

    An error of another kind is one of ours, and keeps them.
    """
    entries = list(_entries(error.__traceback__))
    theirs = [place for place, entry in enumerate(entries) if not _is_ours(entry)]
    if not theirs or theirs[-1] == len(entries) - 1:
        return
    after = entries[theirs[-1] + 1 :]
    is_public = type(error).__module__.partition(".")[0] == spe_unicorn.__name__ and isinstance(
        error, (ValueError, LookupError, RuntimeError)
    )
    is_plain = isinstance(error, (AttributeError, LookupError, TypeError, ValueError))
    if is_public or (is_plain and all(map(_is_face, after))):
        entries[theirs[-1]].tb_next = None


def _entries(traceback: TracebackType | None) -> Iterable[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _file(entry: TracebackType) -> Path:
    return Path(entry.tb_frame.f_code.co_filename)


def _is_ours(entry: TracebackType) -> bool:
    """Whether a frame is ours, or Python's own that we called."""
    file = _file(entry)
    if file.name == "<string>":  # what dataclasses generate
        return True
    return _HOME in file.parents or (_PYTHON in file.parents and "site-packages" not in file.parts)


def _is_face(entry: TracebackType) -> bool:
    file = _file(entry)
    return _HOME in file.parents and file.relative_to(_HOME).as_posix().startswith(_FACE)
