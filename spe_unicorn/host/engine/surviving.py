"""Runs of the engine in which a failed assertion of the engine does not end the process.

Some words that no A64 instruction has fail an assertion in the engine's translator, which is
``abort()``. The one hook that runs before translation makes every store ten times slower (decision
record 0023). So such words are found by trying: the function that calls the engine saves its place
by ``setjmp``, and the handler of SIGABRT goes back there by ``longjmp``. The translator is plain C,
holds no lock and begins each block afresh. All that an abandoned block leaves is one of the
engine's levels of nested runs.

The handler is installed while :func:`surviving_aborts` is active. It passes every other abort to
the handler that the signal had before: that of another thread, one that was sent by ``kill``, and
one while Python code runs, whose frames ``longjmp`` must not leave.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from llvmlite import binding

from spe_unicorn.host.engine.builds import host, release_numbers
from spe_unicorn.host.engine.builds.forms import Host

ABORTED: Final = -1
"""The status of a run that a failed assertion ended, in place of an error number of the engine."""
_LEVELS_LEFT: Final = 4
"""Levels of nested runs that the engine uses by itself, and more."""
MOST_ABORTS: Final = release_numbers().nested_runs - _LEVELS_LEFT
"""How many failed assertions one engine survives. Each takes one of its levels of nested runs."""

_IOLBF: Final = 1
_STDOUT_BUFFER: Final = 4096
"""Bytes of a buffer for the C library's standard output, where that has no buffer."""
_SA_SIGINFO, _SA_NODEFER = 4, 0x4000_0000


@lru_cache(maxsize=1)
def _sig_action(mask_words: int) -> type[ctypes.Structure]:
    """``struct sigaction`` of the C library, with a mask of ``mask_words`` words."""
    fields = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * mask_words),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )
    return type("SigAction", (ctypes.Structure,), {"_fields_": fields})


def _source(host: Host, start: int, key: int, holds_gil: int, before: int) -> str:
    """The two functions as LLVM code, as nothing else can call ``setjmp``.

    ``key`` is the thread's slot for the jump buffer of the current run. ``before`` is where the
    address of the handler is kept that the signal had before.
    """
    return f"""
declare i32 @_setjmp(i8*) returns_twice
declare void @longjmp(i8*, i32) noreturn
declare i32 @pthread_setspecific(i32, i8*)
declare i8* @pthread_getspecific(i32)
declare i8* @signal(i32, i8*)
declare i32 @raise(i32)

define i32 @run(i8* %buffer, i8* %uc, i64 %begin, i64 %until, i64 %timeout, i64 %count) noinline {{
enter:
  %outer = call i8* @pthread_getspecific(i32 {key})
  %again = call i32 @_setjmp(i8* %buffer) returns_twice
  %first = icmp eq i32 %again, 0
  br i1 %first, label %go, label %aborted
go:
  %1 = call i32 @pthread_setspecific(i32 {key}, i8* %buffer)
  %status = call i32 inttoptr (i64 {start} to i32 (i8*, i64, i64, i64, i64)*)
    (i8* %uc, i64 %begin, i64 %until, i64 %timeout, i64 %count)
  %2 = call i32 @pthread_setspecific(i32 {key}, i8* %outer)
  ret i32 %status
aborted:
  %3 = call i32 @pthread_setspecific(i32 {key}, i8* %outer)
  ret i32 {ABORTED}
}}

define void @handler(i32 %number, i8* %info, i8* %context) noinline {{
enter:
  %code.byte = getelementptr i8, i8* %info, i64 {host.code_of_info}
  %code.at = bitcast i8* %code.byte to i32*
  %code = load i32, i32* %code.at
  %own = icmp eq i32 %code, {host.own_signal}
  br i1 %own, label %abort, label %theirs
abort:
  %buffer = call i8* @pthread_getspecific(i32 {key})
  %outside = icmp eq i8* %buffer, null
  br i1 %outside, label %theirs, label %engine
engine:
  %gil = call i32 inttoptr (i64 {holds_gil} to i32 ()*)()
  %python = icmp ne i32 %gil, 0
  br i1 %python, label %theirs, label %back
back:
  call void @longjmp(i8* %buffer, i32 1)
  unreachable
theirs:
  %before = load i64, i64* inttoptr (i64 {before} to i64*)
  %default = icmp eq i64 %before, 0
  br i1 %default, label %die, label %handled
die:
  %4 = call i8* @signal(i32 %number, i8* null)
  %5 = call i32 @raise(i32 %number)
  ret void
handled:
  %ignored = icmp eq i64 %before, 1
  br i1 %ignored, label %done, label %pass
pass:
  %theirs.handler = inttoptr i64 %before to void (i32, i8*, i8*)*
  call void %theirs.handler(i32 %number, i8* %info, i8* %context)
  br label %done
done:
  ret void
}}
"""


class _Survival:
    """The compiled functions, and when the handler has the signal."""

    TRANSIT = ("_users",)

    def __init__(self, host: Host, start: int) -> None:
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        key = ctypes.c_uint()
        if self._libc.pthread_key_create(ctypes.byref(key), None):
            raise OSError("no thread-specific data left")
        self._libc.pthread_getspecific.restype = ctypes.c_void_p
        self._stdout = ctypes.c_void_p.in_dll(self._libc, "stdout")
        self._before = ctypes.c_int64()
        holds_gil = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p).value or 0
        source = _source(host, start, key.value, holds_gil, ctypes.addressof(self._before))
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        target = binding.Target.from_default_triple().create_target_machine(opt=2)
        self._code = binding.create_mcjit_compiler(binding.parse_assembly(source), target)
        self._code.finalize_object()
        self.jump_buffer = host.jump_buffer
        prototype = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *(ctypes.c_uint64,) * 4
        )
        self.run = prototype(self._code.get_function_address("run"))
        self._action = _sig_action(host.mask_words)
        self._new = self._action(
            self._code.get_function_address("handler"), flags=_SA_SIGINFO | _SA_NODEFER
        )
        self._old = self._action()
        self._key = key
        self._lock = threading.Lock()
        self._users = 0
        self._buffer = ctypes.create_string_buffer(_STDOUT_BUFFER)

    def begin(self) -> None:
        """Install the handler, until :meth:`end`."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._libc.fflush(self._stdout)
                if self._libc["__fbufsize"](self._stdout) == 1:
                    # PYTHONUNBUFFERED: what is said could not be forgotten; lines still go out
                    self._libc.setvbuf(self._stdout, self._buffer, _IOLBF, _STDOUT_BUFFER)
                self._exchange(self._new, self._old)
                self._before.value = self._old.handler or 0

    def end(self) -> None:
        """Put the handler back that the signal had before, after the last user."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._exchange(self._old, self._action())

    def _exchange(self, new: ctypes.Structure, old: ctypes.Structure) -> None:
        self._libc.sigaction(int(signal.SIGABRT), ctypes.byref(new), ctypes.byref(old))

    def purge(self) -> None:
        """Discard the engine's message about its assertion, else it would be printed."""
        self._libc["__fpurge"](self._stdout)

    def disarm(self) -> int:
        """Pass aborts of this thread on from now on. Return what to give to :meth:`arm`."""
        was = int(self._libc.pthread_getspecific(self._key) or 0)
        self.arm(0)
        return was

    def arm(self, buffer: int) -> None:
        """Survive aborts of this thread again."""
        self._libc.pthread_setspecific(self._key, ctypes.c_void_p(buffer))


@lru_cache(maxsize=1)
def _survival(start: int) -> _Survival | None:
    """The functions for ``uc_emu_start`` at ``start``; None on a host that is not known."""
    known = host()
    return None if known is None else _Survival(known, start)


class SurvivingStart:
    """``start``, the C function ``uc_emu_start``, with :data:`ABORTED` as one more status.

    Each thread, and each engine, needs one of its own.
    """

    def __init__(self, start: Callable[..., int]) -> None:
        self._start = start
        self._survival = _survival(_address(start))
        survival = self._survival
        self._buffer = ctypes.create_string_buffer(0 if survival is None else survival.jump_buffer)
        self.address = _address(start if survival is None else survival.run)
        """Where the C function is, for compiled code."""
        self.buffer = 0 if survival is None else ctypes.addressof(self._buffer)
        """What that function takes before the arguments of ``start``; 0 if it takes no more."""

    def __call__(self, engine: Any, begin: int, until: int, timeout: int, count: int) -> int:
        """Run the engine. Return its status."""
        if self._survival is None:
            return self._start(engine, begin, until, timeout, count)
        return self.ended(
            int(self._survival.run(self._buffer, engine, begin, until, timeout, count))
        )

    def ended(self, status: int) -> int:
        """A run has ended with ``status``, which is returned."""
        if status == ABORTED and self._survival is not None:
            self._survival.purge()
        return status


@contextmanager
def surviving_aborts(start: Callable[..., int]) -> Iterator[None]:
    """While this is active, runs by :class:`SurvivingStart` survive."""
    survival = _survival(_address(start))
    if survival is None:
        yield
        return
    survival.begin()
    try:
        yield
    finally:
        survival.end()


@contextmanager
def not_surviving(start: Callable[..., int]) -> Iterator[None]:
    """For a hook in Python: aborts in here are not of the run that called the hook."""
    survival = _survival(_address(start))
    if survival is None:
        yield
        return
    buffer = survival.disarm()
    try:
        yield
    finally:
        survival.arm(buffer)


def _address(function: Callable[..., int]) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
