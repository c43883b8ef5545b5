"""Counting inline: the engine's call of the block hook replaced in place by a subtraction.

The engine puts a call of the block hook before each block that it translates. Once a block has
run twice, the bytes of that call are compared with what they are expected to be, every one of them,
and replaced by what the hook does for nearly every block: subtract, store, go on. Whatever is
different in one byte stays as it is, and is not tried again. Blocks that a run may have to look at
are never replaced.

This is an optional layer (ADR 0030). It changes no number that anybody can see but the time that a
run takes. What it writes is derived: given up with the translations that it stands in.

A replaced block, with the centre of the hot fields of the state in RCX::

    mov   rcx, centre
    cmp   qword [rcx + attend], 0
    jne   entry                     ; the hook has to be asked
    sub   qword [rcx + budget], operations
    js    back                      ; the block does not fit into the budget
    mov   qword [rcx + block], address
    mov   qword [rcx + block_operations], operations

and its stub, in memory of ours within reach of a jump::

    back:   add   qword [rcx + budget], operations
    entry:  call  hook(engine, address, size, state)
    first:  call  check(engine, 0)  ; the engine's own, as it stood after the call of the hook
            jmp   after the replaced bytes

The check of whether somebody has asked the engine to leave is left out where nobody has:
whoever asks sets ``State.attend`` (:func:`~spe_unicorn.host.native.calls.stop_engine`).
"""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np

from spe_unicorn.compiled import address_of, array_at, entry, pointer_to, record_at, routine
from spe_unicorn.host.engine.engine import Engine
from spe_unicorn.host.engine.near_memory import REACH, memory_near, unmap
from spe_unicorn.host.native.blocks_hook import marks_here
from spe_unicorn.host.native.state import LAYOUT, State

INLINE: Final = np.dtype(
    [
        (name, np.int64)
        for name in ("sites", "hook", "place", "free", "end", "seen", "patched", "refused")
    ]
)
"""What compiled code and Python share of this layer: the address of the table of sites; the hook
that stubs call; where translated code was seen; the first free byte for stubs and the end of that
memory; the marks for which a block is never replaced; how many blocks were replaced and refused."""
SITES: Final = 1 << 16
_RUNS: Final = 2
"""Runs of a block, as a site counts them, after which it is replaced."""
_DONE: Final = 3
_STUB: Final = 128
"""Bytes of the largest stub, and more."""
_STUBS: Final = 16 << 20
"""Bytes of memory for stubs."""

_CENTRE: Final = 96
"""What RCX points to in the state, so that all four fields are within a signed byte of it."""
_BUDGET, _BLOCK, _OPERATIONS, _ATTEND = (
    (getattr(State, field).offset - _CENTRE) & 0xFF
    for field in ("budget", "block", "block_operations", "attend")
)
_LARGEST_BYTE: Final = 0x7F
SHORT_ADDRESSES: Final = "Python's heap lies below 4 GiB, where the engine's code is shorter"
"""Why nothing is replaced under a Python that is not position-independent, such as Debian's."""


@routine
def number_at(at: Any, size: Any) -> Any:
    """The number in ``size`` bytes of memory, the lowest first; one of 8 bytes has a sign."""
    data = array_at(pointer_to(at), (8,), np.uint8)
    value = np.int64(0)
    for n in range(size):
        value |= np.int64(data[n]) << 8 * n
    return value


@routine
def put(at: Any, value: Any, size: Any) -> Any:
    """Write the lowest ``size`` bytes of a number; the address after them."""
    data = array_at(pointer_to(at), (8,), np.uint8)
    for n in range(size):
        data[n] = value >> 8 * n & 0xFF
    return at + size


@routine
def _near(distance: Any) -> Any:
    """A distance of 32 bits with a sign, as jumps and calls have it."""
    return (distance << 32) >> 32


@routine
def check_length(at: Any, engine: Any) -> Any:
    """Bytes of the engine's check for requests to leave, if that is what stands there; else 0."""
    if (
        number_at(at, 2) != 0xBF48
        or number_at(at + 2, 8) != engine
        or number_at(at + 10, 2) != 0xF633
    ):
        return 0
    if number_at(at + 12, 1) == 0xE8:
        return 17
    return 18 if number_at(at + 12, 2) == 0x15FF else 0


@routine
def check_target(at: Any) -> Any:
    """The function that the check which stands there calls."""
    if number_at(at + 12, 1) == 0xE8:
        return at + 17 + _near(number_at(at + 13, 4))
    return number_at(at + 18 + _near(number_at(at + 14, 4)), 8)


@routine
def call_begin(back: Any, engine: Any, state: Any, address: Any, size: Any) -> Any:
    """Where the arguments of the call begin that returns to ``back``; 0 if it is not the hook's."""
    if number_at(back - 5, 1) == 0xE8:
        call = back - 5
    elif number_at(back - 6, 2) == 0x15FF:
        call = back - 6
    else:
        return 0
    if number_at(call - 10, 2) != 0xB948 or number_at(call - 8, 8) != state:
        return 0
    if number_at(call - 15, 1) != 0xBA or number_at(call - 14, 4) != size:
        return 0
    if number_at(call - 20, 1) == 0xBE and number_at(call - 19, 4) == address:
        begin = call - 30
    elif number_at(call - 25, 2) == 0xBE48 and number_at(call - 23, 8) == address:
        begin = call - 35
    else:
        return 0
    if number_at(begin, 2) != 0xBF48 or number_at(begin + 2, 8) != engine:
        return 0
    return begin


@routine
def _put_wide(at: Any, code: Any, value: Any) -> Any:
    """An instruction of two bytes that loads a register with 64 bits."""
    return put(put(at, code, 2), value, 8)


@routine
def _put_count(at: Any, kind: Any, operations: Any) -> Any:
    """Add to (kind 0x41) or subtract from (0x69) the budget."""
    if operations <= _LARGEST_BYTE:
        return put(put(at, 0x8348 | kind << 16 | _BUDGET << 24, 4), operations, 1)
    return put(put(at, 0x8148 | kind << 16 | _BUDGET << 24, 4), operations, 4)


@routine
def put_stub(
    at: Any, engine: Any, state: Any, hook: Any, address: Any, size: Any, check: Any, after: Any
) -> Any:
    """Write a stub; its end. See the head of this file."""
    at = _put_count(at, 0x41, size >> 2)
    at = _put_wide(at, 0xBF48, engine)
    at = _put_wide(at, 0xBE48, address)
    at = put(put(at, 0xBA, 1), size, 4)
    at = _put_wide(at, 0xB948, state)
    at = _put_wide(at, 0xB848, hook)
    at = put(at, 0xD0FF, 2)
    at = _put_wide(at, 0xBF48, engine)
    at = put(at, 0xF633, 2)
    at = _put_wide(at, 0xB848, check)
    at = put(at, 0xD0FF, 2)
    return put(put(at, 0xE9, 1), after - at - 5, 4)


@routine
def inline_length(address: Any, operations: Any) -> Any:
    """Bytes of the replaced block's code."""
    length = 10 + 5 + 6 + 6 + 8
    length += 5 if operations <= _LARGEST_BYTE else 8
    if address == _near(address):
        return length + 8
    return length + (9 if address >> 32 == 0 else 14)


@routine
def put_inline(at: Any, stub: Any, state: Any, address: Any, operations: Any) -> Any:
    """Write the replaced block's code, of :func:`inline_length` bytes; its end."""
    entry_ = stub + (5 if operations <= _LARGEST_BYTE else 8)
    at = _put_wide(at, 0xB948, state + _CENTRE)
    at = put(at, 0x798348 | _ATTEND << 24, 5)
    at = put(put(at, 0x850F, 2), entry_ - at - 6, 4)
    at = _put_count(at, 0x69, operations)
    at = put(put(at, 0x880F, 2), stub - at - 6, 4)
    if address == _near(address):
        at = put(put(at, 0x41C748 | _BLOCK << 24, 4), address, 4)
    elif address >> 32 == 0:
        at = put(put(at, 0xBE, 1), address, 4)
        at = put(at, 0x718948 | _BLOCK << 24, 4)
    else:
        at = _put_wide(at, 0xBE48, address)
        at = put(at, 0x718948 | _BLOCK << 24, 4)
    return put(put(at, 0x41C748 | _OPERATIONS << 24, 4), operations, 4)


@routine
def replace(inline: Any, engine: Any, state: Any, address: Any, size: Any, back: Any) -> Any:
    """Replace the call of the hook that returns to ``back``; where it is to return to now, or 0."""
    begin = call_begin(back, engine, state, address, size)
    length = check_length(back, engine)
    if begin == 0 or length == 0:
        return 0
    after = back + length
    stub = inline.free
    room = after - begin - inline_length(address, size >> 2)
    if room < 0 or room > _LARGEST_BYTE or abs(stub - begin) >= REACH - _STUBS:
        return 0
    end = put_stub(stub, engine, state, inline.hook, address, size, check_target(back), after)
    inline.free = end
    at = put_inline(begin, stub, state, address, size >> 2)
    if room == 1:
        put(at, 0x90, 1)
    elif room > 1:
        put(at, 0xEB | room - 2 << 8, 2)
    return end - 5 - 2 - 10 - 2 - 10


@entry("int64", "pointer", "int64", "int64", "pointer", "int64")
def on_counted_block(engine: Any, address: Any, size: Any, user: Any, back: Any) -> Any:
    """A block was counted by a call that returns to ``back``: maybe it is the last such call.

    Gives the address to return to in its place, 0 for none.
    """
    s = record_at(user, LAYOUT)
    inline = record_at(pointer_to(s.inline), INLINE)
    sites = array_at(pointer_to(inline.sites), (SITES,), np.int64)
    n = (back >> 3 ^ back >> 19) & SITES - 1
    site = sites[n]
    if site >> 2 != back:
        sites[n] = back << 2
        return 0
    runs = site & 3
    if runs == _DONE:
        return 0
    if runs + 1 < _RUNS:
        sites[n] = site + 1
        return 0
    if inline.free == 0:
        inline.place = back
        return 0
    if inline.free + _STUB > inline.end or address & 3 != 0:
        return 0
    marks = marks_here(s, engine, address, size >> 2)
    if marks < 0:
        return 0  # nobody knows yet what is in it
    sites[n] = back << 2 | _DONE
    if marks & inline.seen != 0:
        return 0
    to = replace(inline, address_of(engine), address_of(user), address, size, back)
    if to == 0:
        inline.refused += 1
    else:
        inline.patched += 1
    return to


class Inline:
    """Inline counting on one engine.

    Nothing is replaced before :meth:`prepare` has found memory for stubs, which it can when code
    has run.
    """

    DERIVED = ("_numbers", "_sites", "_begin", "_reasons")

    def __init__(self, engine: Engine, state: State, hook: int) -> None:
        self._reasons: list[str] = []
        """What keeps blocks from counting themselves, for the time being or for good."""
        self._engine = engine
        self._state = state
        self._sites = np.zeros(SITES, np.int64)
        self._numbers = np.zeros(1, INLINE)
        self._begin = 0
        """Where the memory for stubs begins, 0 before there is any; -1 if there is none."""
        self._numbers["sites"] = self._sites.ctypes.data
        self._numbers["hook"] = hook
        state.inline = self._numbers.ctypes.data
        engine.code_forgotten.wire(self._forget)
        if engine.uc._uch.value >> 32 == 0:
            self.stop(SHORT_ADDRESSES)

    @property
    def prepared(self) -> bool:
        """Whether memory for stubs has been looked for."""
        return self._begin != 0

    @property
    def numbers(self) -> tuple[int, int]:
        """How many blocks count themselves, or did; how many had code that was not expected."""
        return int(self._numbers["patched"][0]), int(self._numbers["refused"][0])

    @property
    def why_not(self) -> str | None:
        """What keeps blocks from counting themselves; None if nothing does."""
        return self._reasons[0] if self._reasons else None

    def stop(self, why: str) -> None:
        """Replace no more blocks, and give up those that are, until ``why`` is taken back."""
        if why not in self._reasons:
            self._reasons.append(why)
        self._state.inline = 0
        self.give_up()

    def resume(self, why: str) -> None:
        """Take back the reason of a :meth:`stop`: if it was the last, blocks are replaced again."""
        if why in self._reasons:
            self._reasons.remove(why)
        if not self._reasons:
            self._state.inline = self._numbers.ctypes.data

    def never(self, marks: int) -> None:
        """Never replace blocks with one of ``marks``, from here on: a run may have to see them."""
        seen = int(self._numbers["seen"][0])
        if marks & ~seen:
            self._numbers["seen"] = seen | marks
            self.give_up()

    def give_up(self) -> None:
        """Have the blocks call the hook again that count themselves, if there are any."""
        if int(self._numbers["free"][0]) > self._begin:
            self._engine.forget_all_code()

    def prepare(self) -> None:
        """Find memory for stubs, if it is time; begin anew if it is full. The engine stands."""
        free, end, place = (int(self._numbers[name][0]) for name in ("free", "end", "place"))
        if self._begin > 0 and free + _STUB > end:
            self._engine.forget_all_code()
        elif not self._begin and place:
            self._begin = memory_near(place, _STUBS)
            if self._begin > 0:
                weakref.finalize(self._engine.uc, unmap, self._begin, _STUBS)
                self._numbers["end"] = self._begin + _STUBS
                self._numbers["free"] = self._begin
            else:
                self.stop("the host gives no memory near the engine's code")

    def _forget(self) -> None:
        """The engine has no translated code any more."""
        self._sites.fill(0)
        self._numbers["free"] = max(self._begin, 0)
