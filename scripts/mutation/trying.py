"""Tests, collected once: which functions each enters, and whether they find a fault.

Every run of tests is a fork of the process that has collected them.
"""

from __future__ import annotations

import ast
import fcntl
import gc
import multiprocessing
import os
import resource
import select
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

import pytest
from faults import Fault

WINDOW: Final = 60
"""Seconds on the wall of which a fault's processes want a processor for some: else they hang."""
LOOK: Final = 2
"""Seconds between two looks at how long they have wanted one: some live no longer."""
MEMORY: Final = 8 << 30
"""Bytes that a fault may take."""
TIMES: Final = 3
"""A fault's CPU seconds, in those that its tests took while they were measured."""
_FORK: Final = multiprocessing.get_context("fork")


class Fate(Enum):
    """What became of a fault."""

    FOUND = "found"
    SURVIVED = "survives"
    NO_TEST = "survives: no test enters its function"
    NOT_PLANTED = "changes no code"


@dataclass(frozen=True)
class Entered:
    """What a test enters, by file and first line; the names that it reads; its CPU seconds."""

    functions: set[tuple[str, int]]
    names: set[str]
    seconds: float


class Tests:
    """The tests of a session. ``least`` is how many CPU seconds a fault has at the least."""

    def __init__(self, session: pytest.Session, package: Path, least: int) -> None:
        self._session = session
        self._package = package
        self._least = least
        self._entered: dict[str, Entered] = {}
        gc.unfreeze()  # functions are looked for among what the garbage collector knows of

    def measure(self, files: Iterable[Path]) -> list[str]:
        """Run all tests with no fault, note what each enters, and answer those that fail.

        The functions of ``files`` get new code that is the same, as a planted fault gives them.
        """
        answer = _forked(lambda: self._measured(files), None)
        if isinstance(answer, int):
            return [f"the tests ended their process, with status {answer}"]
        failed, self._entered = answer
        return list(failed)

    def fate(self, fault: Fault) -> Fate:
        """Plant a fault and run the tests that enter its function, the quickest first."""
        chosen = [item for item in self._session.items if self._enters(item, fault)]
        chosen.sort(key=lambda item: self._entered[item.nodeid].seconds)
        if not chosen:
            return Fate.NO_TEST if _is_read(fault) else Fate.NOT_PLANTED
        seconds = sum(self._entered[item.nodeid].seconds for item in chosen)
        limit = max(self._least, int(TIMES * seconds) + 1)
        answer = _forked(lambda: self._found(fault, chosen), limit)
        return answer if isinstance(answer, Fate) else Fate.FOUND  # it hung, or ended the process

    def _enters(self, item: pytest.Item, fault: Fault) -> bool:
        entered = self._entered[item.nodeid]
        if fault.constant is not None:
            return fault.constant in entered.names
        return (str(fault.path), fault.function) in entered.functions

    def _measured(self, files: Iterable[Path]) -> tuple[list[str], dict[str, Entered]]:
        for path in files:
            code = _compiled(ast.parse(path.read_text()), path)
            _exchange(code, code)
        trace = _Trace(self._package, self._session)
        return list(self._failures(self._session.items)), trace.by_test()

    def _found(self, fault: Fault, chosen: Sequence[pytest.Item]) -> Fate:
        if not _planted(fault):
            return Fate.NOT_PLANTED
        return Fate.FOUND if any(self._failures(chosen)) else Fate.SURVIVED

    def _failures(self, items: Sequence[pytest.Item]) -> Iterator[str]:
        reports = _Reports()
        self._session.config.pluginmanager.register(reports)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield from reports.failures()


class _Reports:
    def __init__(self) -> None:
        self._failed: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report)

    def failures(self) -> list[str]:
        found = [f"{x.nodeid}: {str(x.longrepr).splitlines()[-1]}" for x in self._failed]
        self._failed.clear()
        return found


class _Trace:
    """Which functions of a package tests enter, and fixtures that several of them share."""

    def __init__(self, package: Path, session: pytest.Session) -> None:
        self._package = f"{package}{os.sep}"
        self._session = session
        self._seen: dict[int, CodeType] = {}
        self._of_fixture: dict[Any, set[CodeType]] = defaultdict(set)
        self._of_test: dict[str, tuple[set[CodeType], float]] = {}
        session.config.pluginmanager.register(self)
        threading.settrace(self._call)
        sys.settrace(self._call)

    def by_test(self) -> dict[str, Entered]:
        """What was found out."""
        sys.settrace(None)
        result = {}
        for item in self._session.items:
            codes, seconds = self._of_test[item.nodeid]
            info = getattr(item, "_fixtureinfo", None)
            for fixtures in info.name2fixturedefs.values() if info else ():
                codes = codes.union(*(self._of_fixture.get(one, ()) for one in fixtures))
            functions = {(code.co_filename, code.co_firstlineno) for code in codes}
            names = {name for code in codes for name in code.co_names}
            result[item.nodeid] = Entered(functions, names, seconds)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._seen.clear()
        began = _cpu_seconds()
        try:
            return (yield)
        finally:
            self._of_test[item.nodeid] = self._taken(), _cpu_seconds() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        before, self._seen = self._seen, {}
        try:
            return (yield)
        finally:
            self._of_fixture[fixturedef] |= self._taken()
            self._seen.update(before)

    def _call(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        self._seen[id(code)] = code

    def _taken(self) -> set[CodeType]:
        sys.settrace(self._call)  # a test may have ended it
        seen, self._seen = self._seen, {}
        return {code for code in seen.values() if code.co_filename.startswith(self._package)}


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _compiled(tree: ast.Module, path: Path) -> CodeType:
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def _is_read(fault: Fault) -> bool:
    """Whether a function reads what has the fault: a constant may be read by classes alone."""
    return fault.constant is None or any(
        fault.constant in code.co_names
        for thing in gc.get_objects()
        if isinstance(thing, FunctionType)
        for code in _codes(thing.__code__)
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)


def _planted(fault: Fault) -> bool:
    """Plant it in the modules and functions of this process. Whether that changes anything."""
    if fault.constant is not None:
        return _planted_constant(fault, fault.constant)
    old = _compiled(fault.tree, fault.path)
    fault.plant()
    try:
        return _exchange(old, _compiled(fault.tree, fault.path))
    except (SyntaxError, ValueError):  # ValueError: it has other variables of functions around it
        return False


def _planted_constant(fault: Fault, name: str) -> bool:
    """Give another value to a constant, also where it was imported by its name."""
    home = next(
        module
        for module in sys.modules.values()
        if str(getattr(module, "__file__", None)) == str(fault.path)
    )
    was = getattr(home, name)
    fault.plant()
    exec(_compiled(fault.tree, fault.path), space := {"__name__": home.__name__})
    value = space[name]
    if value == was:
        return False
    setattr(home, name, value)
    for module in list(sys.modules.values()):
        for known_as in _imported_as(name, module):
            if vars(module).get(known_as) is was:
                setattr(module, known_as, value)
    return True


def _imported_as(name: str, module: ModuleType) -> Iterator[str]:
    """Under which names a module below this folder has imported a name of another one.

    A module's own constant of that name and value is another one.
    """
    path = Path(str(getattr(module, "__file__", None)))
    if path.suffix != ".py" or not path.is_relative_to(Path.cwd()) or ".venv" in path.parts:
        return
    text = path.read_text()
    if name in text:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                yield from (one.asname or name for one in node.names if one.name == name)


def _exchange(old: CodeType, new: CodeType) -> bool:
    """Give functions with the code of a module's text another one. Whether any is different."""
    others = dict(_pairs(old, new))
    changed = False
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename == old.co_filename:
            was = thing.__code__
            thing.__code__ = others.get(was, was)
            changed |= thing.__code__ != was
    return changed


def _pairs(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code of each function, before and after a change of one of them."""
    yield old, new
    within, there = (
        [part for part in code.co_consts if isinstance(part, CodeType)] for code in (old, new)
    )
    if len(within) == len(there):
        for one, other in zip(within, there, strict=True):
            yield from _pairs(one, other)


def _forked(act: Callable[[], Any], seconds: int | None) -> Any:
    """What ``act`` answers in a child, or the child's exit status where it does not."""
    receiver, sender = _FORK.Pipe(duplex=False)
    watched, held = os.pipe()
    child = _FORK.Process(target=_in_child, args=(act, sender, seconds, watched, held))
    child.start()
    sender.close()
    os.close(watched)
    answer = None
    try:
        if seconds is None or _answers(receiver, child.pid or 0):
            with suppress(EOFError):
                answer = receiver.recv()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid or 0, signal.SIGKILL)
        child.join()
        os.close(held)
    return child.exitcode if answer is None else answer


def _answers(receiver: Any, group: int) -> bool:
    """Whether the processes of ``group`` answer. They do not if they stand still for a window.

    Time is counted in which they run or could run: on a busy host that is most of it, and a test
    that waits for what never comes wants little.
    """
    before: dict[str, int] = {}
    while True:
        wanted = 0
        for _ in range(WINDOW // LOOK):
            if receiver.poll(LOOK):
                return True
            now = _wanted(group)
            wanted += sum(max(ns - before.get(task, 0), 0) for task, ns in now.items())
            before = now
        if wanted < WINDOW * 10**9 // 4:
            return False


def _wanted(group: int) -> dict[str, int]:
    """Nanoseconds for which each thread of a process group has run or has waited to run."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                for task in (process / "task").iterdir():
                    ran, waited, _ = (task / "schedstat").read_text().split()
                    found[task.name] = int(ran) + int(waited)
    return found


def _in_child(
    act: Callable[[], Any], sender: Any, seconds: int | None, watched: int, held: int
) -> None:
    os.setsid()
    os.close(held)
    _die_with_the_parent(watched)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    sender.send(act())


def _die_with_the_parent(watched: int) -> None:
    """Have the kernel kill this process and its group when the other end of a pipe is closed.

    The parent alone holds that end. Nothing is ever written to it.
    """
    fcntl.fcntl(watched, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(watched, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(watched, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([watched], [], [], 0)[0]:  # it was closed before the kernel was asked
        os._exit(1)
