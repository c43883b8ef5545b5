"""The compiled hooks that feed a core model: every data access, and every branch.

They are installed only for ``--model cache``, and before the hooks that count. So they see a block
before it is decided whether it runs. Memory hooks are called with physical addresses, once for each
piece of an access.

A branch ends its block. Where it went is known when the next block begins, whether that block runs
or the engine stops before it. If the engine stops without another block, only Python knows whether
the branch was executed, and calls :meth:`ModelHooks.stopped`. Each branch is resolved once.

**Mispredictions.** Where a branch was mispredicted, ``ModelState.on_misprediction``
(``sampling.awaited``, or ``sampling.walks`` where there are wrong paths) is called as ``void
f(engine, State *, int64_t branch, int64_t predicted, int64_t actual)``: the engine, the state
(``host.native.state``), the branch's address, where it had been predicted to go and where it went,
all virtual. The block at ``actual`` has not been counted then: ``granted - budget`` operations have
been executed, the branch included. So it is where the engine stopped after the branch, when Python
has it called.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.bits import signed
from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    entry,
    int64,
    layout,
    pointer_to,
    record_at,
    routine,
)
from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.caches import (
    LINE_SHIFT,
    LINES,
    NOTED,
    PAGES,
    UNBOUNDED,
    UNNOTED,
    access,
    access_within_line,
    forget_translations,
)
from spe_unicorn.cores.coherence import coherent_access
from spe_unicorn.cores.predictor import BRANCH, Branch, BranchRow, resolve
from spe_unicorn.decode.branches import ZERO_BLOCK_SIZE
from spe_unicorn.host.engine.engine import PC
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.calls import (
    FETCH,
    call_misprediction,
    call_read,
    call_register,
)
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.inline.accesses import STORE, counts_itself
from spe_unicorn.host.native.inline.stores import (
    STORES,
    Stores,
    may_be_fast,
    may_count_itself,
    physical_of,
    prepare_accesses,
)
from spe_unicorn.host.native.sampling.awaited import (
    AGAIN,
    AWAITED,
    FOUND,
    NOTHING,
    TAKEN_BACK,
    Awaited,
    counted,
    is_at_hand,
    leave,
    made_again,
    on_awaited_branch,
    stores_what_it_read,
)
from spe_unicorn.host.native.sampling.pending import is_chosen
from spe_unicorn.host.native.shadow.blocks import checked_block, note_counted
from spe_unicorn.host.native.state.field import Field, Writer
from spe_unicorn.host.native.state.fields import ModelRecord, StateRecord
from spe_unicorn.host.native.state.transit import (
    NO_LINE,
    ZEROING_TOLD,
    branch_resolved,
    forget_access,
    zeroed_by_engine,
)
from spe_unicorn.host.native.state.whole import LAYOUT

_ENDS: Final = 1 << 12
"""Entries of the table of what ends a block, direct-mapped by the block's address."""


class _EndRow(BranchRow):
    """An entry: the branch, or whatever ends the block."""

    block: int
    """The block's address."""
    known: int
    """Its epoch and size."""


_END: Final = layout(_EndRow)
_END_BYTES: Final = _END.itemsize
_ONCE, _HOOKS = Writer.ONCE, Writer.HOOKS
_EVERYTHING: Final = ((1, 0),)
"""The bounds of a hook without bounds."""


class ModelState(ctypes.Structure):
    """What the hooks of a core model and Python share, beside ``host.native.state.whole.State``."""

    FIELDS: Final = (
        Field("state", _ONCE, "Address of the `State`."),
        Field("data_side", _ONCE, "The words of the PE's data caches and TLBs."),
        Field("last", _ONCE, "The words of the last level of cache."),
        Field("peers", _ONCE, "Where the words of all PEs are whose lines are known."),
        Field("coherent", _ONCE, "Whether there are any but this one."),
        Field("stores", _ONCE, "What is known of the engine's pages and blocks: a STORES."),
        Field("predictor", _ONCE, "The words of the branch predictor."),
        Field("ends", _ONCE, "Table of what ends each block: rows of _END."),
        Field("awaited", _ONCE, "What accesses may have to stop the engine: an AWAITED."),
        Field("on_misprediction", _ONCE, "Called for each mispredicted branch."),
        Field("flushed", _HOOKS, "The `flushes` up to which the model has emptied its TLBs."),
        Field("scratch", _HOOKS, "Room for one word that an engine function reads."),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]


_RECORD: Final = layout(
    ModelRecord, np.dtype([(field.name, np.int64) for field in ModelState.FIELDS])
)
_WRITE: Final = int(uc_const.UC_MEM_WRITE)
_SCRATCH: Final = ModelState.scratch.offset
_PC: Final = int(PC)
_AS_IT_WAS: Final = -2
"""No number of noted accesses."""
_NONE = int(Branch.NONE)
_DIRECT = int(Branch.DIRECT)
_CONDITIONAL = int(Branch.CONDITIONAL)
_CALL = int(Branch.CALL)
_INDIRECT = int(Branch.INDIRECT)
_INDIRECT_CALL = int(Branch.INDIRECT_CALL)
_RETURN = int(Branch.RETURN)


@routine
def _offset(word: int, lsb: int, bits: int) -> int:
    """A field of an instruction word as the signed distance of a branch, in bytes."""
    sign = 1 << (bits - 1)
    return ((word >> lsb & (2 * sign - 1) ^ sign) - sign) << 2


@routine
def branch_of(word: int) -> tuple[int, int]:
    """The kind of an instruction as a branch, and the distance to the target of a direct one.

    Python and compiled code both call this. Words that the engine does not execute may be told
    wrong: unallocated ones of the groups of branches, CB<cc>.
    """
    if word & 0xFC00_0000 == 0x1400_0000:
        return _DIRECT, _offset(word, 0, 26)
    if word & 0xFC00_0000 == 0x9400_0000:
        return _CALL, _offset(word, 0, 26)
    if word & 0xFF00_0000 == 0x5400_0000 or word & 0x7E00_0000 == 0x3400_0000:
        return _CONDITIONAL, _offset(word, 5, 19)  # B.cond, BC.cond; CBZ, CBNZ
    if word & 0x7E00_0000 == 0x3600_0000:
        return _CONDITIONAL, _offset(word, 5, 14)  # TBZ, TBNZ
    if word & 0xFE00_0000 == 0xD600_0000:
        operation = word >> 21 & 7
        if operation == 0:
            return _INDIRECT, 0
        if operation == 1:
            return _INDIRECT_CALL, 0
        if operation == 2:
            return _RETURN, 0
    return _NONE, 0


@routine
def _resolve(m: ModelRecord, engine: Pointer, branch: int, actual: int) -> None:
    """The branch that the BRANCH at address ``branch`` tells of went to ``actual``."""
    b = record_at(pointer_to(branch), BRANCH)
    predicted = resolve(pointer_to(m.predictor), b.address, b.kind, b.target, actual)
    if predicted != actual:
        call_misprediction(
            m.on_misprediction, address_of(engine), m.state, b.address, predicted, actual
        )


@entry("void", "pointer", "int64", "int64", "int64")
def mispredicted_at(user: Pointer, branch: int, actual: int, wrong: int) -> None:
    """For blocks that count themselves: that branch was predicted to go to ``actual`` ^ ``wrong``.

    ``user`` is the model. Nobody needs the engine.
    """
    m = record_at(user, _RECORD)
    b = record_at(pointer_to(branch), BRANCH)
    call_misprediction(m.on_misprediction, int64(0), m.state, b.address, actual ^ wrong, actual)


@entry("void", "pointer", "pointer", "int64", "int64")
def went(engine: Pointer, user: Pointer, branch: int, actual: int) -> None:
    """For Python: the branch that the BRANCH at address ``branch`` tells of went to ``actual``."""
    _resolve(record_at(user, _RECORD), engine, branch, actual)


@entry("void", "pointer", "int64", "int64", "pointer", "int64")
def on_block(engine: Pointer, here: int, size: int, user: Pointer, back: int) -> None:
    """A block begins, or the engine stops before it. Its code goes on at ``back``."""
    m = record_at(user, _RECORD)
    state = record_at(pointer_to(m.state), LAYOUT)
    if state.checked != 0:
        checked_block(state, engine, here, size)
    prepare_accesses(record_at(pointer_to(m.stores), STORES), state, engine, here, size, back)
    if state.steps != 0 or state.unattended != 0:
        return
    if state.ending != 0:
        ending = state.ending
        branch_resolved(state)
        _resolve(m, engine, ending, here)
    place = m.ends + (here >> 2 & (_ENDS - 1)) * _END_BYTES
    end = record_at(pointer_to(place), _END)
    known = state.epoch << 16 | size
    if end.block != here or end.known != known:
        end.block = here
        end.known = known
        branch = end.address = here + size - 4
        m.scratch = 0
        call_read(
            state.vmem_read, address_of(engine), branch, FETCH, address_of(user) + _SCRATCH, 4
        )
        kind, distance = branch_of(m.scratch)
        end.kind = kind
        end.target = branch + distance
    if end.kind != _NONE:
        state.ending = place


@entry("int64", "pointer", "int64", "int64", "pointer", "int64")
def on_counted_block(engine: Pointer, here: int, size: int, user: Pointer, back: int) -> int:
    """The hook has counted a block by a call that returns to ``back``: replace it if that is due.

    Return the address to which the call is to return instead, 0 for none. A block that may have
    DC ZVA is never replaced.
    """
    state = record_at(user, LAYOUT)
    m = record_at(pointer_to(state.model), _RECORD)
    if not may_count_itself(m.stores, state, here):
        return 0
    to = counts_itself(state, engine, here, size, back)
    if to != 0 and state.checked != 0:
        note_counted(state, here)
    return to


@routine
def note_flushes(m: ModelRecord | ModelState, flushes: int) -> None:
    """The model has heard of that many flushes of the PE's TLBs."""
    m.flushed = flushes


@routine
def _attended(m: ModelRecord, state: StateRecord) -> bool:
    """Whether accesses are made for the guest; if so, its TLBs follow the maintenance so far."""
    if state.unattended != 0:
        return False
    if state.flushes != m.flushed:
        note_flushes(m, state.flushes)
        forget_translations(pointer_to(m.data_side))
    return True


@routine
def _withhold(m: ModelRecord, state: StateRecord, engine: Pointer, user: Pointer) -> int:
    """Before an access: if samples are pending, have the model note only their operations'.

    Return what :func:`_go_on` puts back after the access.
    """
    if state.pending == 0:
        return _AS_IT_WAS
    own = array_at(pointer_to(m.data_side), (UNBOUNDED,), np.int64)
    noted = own[NOTED]
    call_register(state.reg_read, address_of(engine), _PC, address_of(user) + _SCRATCH)
    if not is_chosen(state, engine, pointer_to(m.state), own, m.scratch):
        own[NOTED] = UNNOTED
        return noted
    if own[NOTED] == UNNOTED:
        own[NOTED] = 0
    return _AS_IT_WAS


@routine
def _go_on(m: ModelRecord, state: StateRecord, noted: int) -> None:
    """After an access: put back what :func:`_withhold` returned, ``noted``."""
    forget_access(state)
    if noted != _AS_IT_WAS:
        array_at(pointer_to(m.data_side), (UNBOUNDED,), np.int64)[NOTED] = noted


@routine
def _accessed(m: ModelRecord, address: int, size: int, write: int, stores: int) -> None:
    """Tell the model of an access at a physical address, and see if it makes an awaited event.

    ``stores`` is as in :func:`~.sampling.awaited.counted`.
    """
    side, last = pointer_to(m.data_side), pointer_to(m.last)
    own = array_at(side, (UNBOUNDED,), np.int64)
    pages, lines = own[PAGES], own[LINES]
    if m.coherent != 0:
        outcome = coherent_access(side, last, pointer_to(m.peers), address, size, int64(write))
    else:
        outcome = access(side, last, address, size)
    a = record_at(pointer_to(m.awaited), AWAITED)
    if a.phase == AGAIN:
        made_again(a, own, (address, size, int64(write)), pages, lines)
    elif a.armed != 0:
        counted(a, own, (address, size, int64(write)), outcome, lines, stores)


@routine
def _stores_later(m: ModelRecord, state: StateRecord, engine: Pointer, user: Pointer) -> bool:
    """Whether the operation that is about to read may store there and reach a goal by that."""
    own = array_at(pointer_to(m.data_side), (UNBOUNDED,), np.int64)
    if not is_at_hand(record_at(pointer_to(m.awaited), AWAITED), own):
        return False
    scratch = address_of(user) + _SCRATCH
    call_register(state.reg_read, address_of(engine), _PC, scratch)
    pc = m.scratch
    m.scratch = 0
    call_read(state.vmem_read, address_of(engine), pc, FETCH, scratch, 4)
    return stores_what_it_read(m.scratch)


@routine
def _told_of_zeroing(state: StateRecord, pc: int) -> bool:
    """Whether an access of the operation at ``pc`` is one of a DC ZVA that the model knows."""
    zeroed = state.zeroing
    if zeroed & -4 != pc:
        zeroed_by_engine(state, 0)
        return False
    zeroed_by_engine(state, pc | ZEROING_TOLD)
    return zeroed & ZEROING_TOLD != 0


@entry("void", "pointer", "int32", "uint64", "int32", "int64", "pointer")
def on_access(
    engine: Pointer, kind: int, address: int, size: int, value: int, user: Pointer
) -> None:
    """A load or store, or a piece of one.

    DC ZVA is one store of its block, also where the engine makes it of bytes.
    """
    m = record_at(user, _RECORD)
    state = record_at(pointer_to(m.state), LAYOUT)
    place, length = int64(address), int64(size)
    a = record_at(pointer_to(m.awaited), AWAITED)
    if a.phase == FOUND:
        leave(a, state, engine, m.awaited)  # the model knows the access (`on_noted_access`)
    if a.phase == TAKEN_BACK:
        return
    if state.zeroing != 0:
        call_register(state.reg_read, address_of(engine), _PC, address_of(user) + _SCRATCH)
        if _told_of_zeroing(state, m.scratch):
            return
        if state.zeroing != 0:
            place, length = place & -ZERO_BLOCK_SIZE, int64(ZERO_BLOCK_SIZE)
    if _attended(m, state):
        noted = _withhold(m, state, engine, user)
        stores = kind != _WRITE and _stores_later(m, state, engine, user)
        _accessed(m, place, length, kind == _WRITE, stores)
        _go_on(m, state, noted)
        if a.phase == FOUND:
            leave(a, state, engine, m.awaited)


@entry("int64", "pointer", "int64", "int64", "int64")
def on_noted_access(user: Pointer, _: int, host: int, what: int) -> int:
    """An access to another line than the one before (``inline.accesses``).

    ``host`` is where the host has what is accessed, ``what`` its size in bytes and STORE. It is not
    0 if the engine is to take the slow way, by which the hook for accesses comes to know.
    """
    m = record_at(user, _RECORD)
    state = record_at(pointer_to(m.state), LAYOUT)
    own = array_at(pointer_to(m.data_side), (UNBOUNDED,), np.int64)
    a = record_at(pointer_to(m.awaited), AWAITED)
    if state.pending != 0 or own[NOTED] != UNNOTED or a.phase != NOTHING or is_at_hand(a, own):
        return 1
    address = physical_of(record_at(pointer_to(m.stores), STORES), host)
    if address < 0 or not _attended(m, state):
        return 1
    size, store = what & STORE - 1, what & STORE
    line = host + size - 1 >> own[LINE_SHIFT] << own[LINE_SHIFT]
    if m.coherent == 0 and a.armed == 0 and line <= host:
        state.line = state.line_stored = line
        shared = array_at(pointer_to(m.last), (UNBOUNDED,), np.int64)
        access_within_line(own, shared, address, size)
        return 0
    _accessed(m, address, size, store != 0, int64(0))
    if a.armed != 0 and a.close != 0:
        line = int64(NO_LINE)
    state.line = state.line_stored = line
    if m.coherent != 0 and store == 0:
        state.line_stored = NO_LINE
    return a.phase == FOUND


@entry("int64", "pointer", "int64", "int64", "int64")
def on_unknown_store(user: Pointer, place: int, address: int, size: int) -> int:
    """A store that the engine's TLB, whose entry for it lies at ``place``, does not have.

    It is not 0 if the slow way is to be taken.
    """
    m = record_at(user, _RECORD)
    state = record_at(pointer_to(m.state), LAYOUT)
    return not may_be_fast(record_at(pointer_to(m.stores), STORES), state, place, address, size)


class ModelHooks:
    """Feeds ``model`` with what one engine does. Install it before any other hook.

    ``memory`` has caches; None for all that there is, wherever the host may have that.
    """

    DERIVED = ("_branch", "_ends", "_stores")

    def __init__(
        self,
        hooks: NativeHooks,
        model: CacheModel,
        memory: RamMemory | None = None,
    ) -> None:
        self.model = model
        self.state = ModelState()
        self._engine = hooks.engine
        self._state = hooks.state
        self._branch = np.zeros(1, BRANCH)
        """A branch of which Python tells."""
        self._ends = np.full(_ENDS, -1, _END)
        m = self.state
        m.state = hooks.state.address
        m.data_side = model.data.words.ctypes.data
        m.last = model.data.last.words.ctypes.data
        m.peers = model.data.last.sides.ctypes.data
        m.predictor = model.predictor.words.ctypes.data
        hooks.state.data_side, hooks.state.predictor = m.data_side, m.predictor
        m.ends = self._ends.ctypes.data
        m.coherent = model.data.last.coherent
        self.awaited = Awaited(hooks.engine, model)
        """What stops the engine at an access."""
        m.on_misprediction = on_awaited_branch.address
        hooks.state.mispredicted = mispredicted_at.address
        m.awaited = hooks.state.awaited = self.awaited.address
        self._stores = Stores(memory, recent=not model.data.last.coherent)
        m.stores = self._stores.address
        at = ctypes.addressof(m)
        hooks.state.model, hooks.state.model_hook = at, on_block.address
        hooks.state.inline_hook = on_counted_block.address
        hooks.state.told_access = on_access.address
        hooks.state.access_hook = on_noted_access.address
        hooks.state.store_hook = on_unknown_store.address
        for bounds in _EVERYTHING if memory is None else memory.ranges():
            kinds = uc_const.UC_HOOK_MEM_READ | uc_const.UC_HOOK_MEM_WRITE
            hooks.add(kinds, on_access.address, bounds=bounds, user=at)

    def begin(self) -> None:
        """The next operation is sampled."""
        self.model.begin()

    def end(self) -> None:
        """The sampled operation is complete."""
        self.model.end()

    def saw_nothing(self) -> None:
        """Forget what the model noted: the sampled operation did none of it."""
        self.model.begin()
        self.model.end()

    def stopped(self, *, executed: bool, pc: int) -> None:
        """The engine has stopped at ``pc``.

        ``executed`` says whether the block that began last has been executed to its end.
        """
        if self._state.ending:
            if executed:
                self._went(int(self._state.ending), pc)
            branch_resolved(self._state)

    def step_by_step(self, *, on: bool) -> None:
        """With ``on`` :meth:`executed` tells the model of branches from now on; else hooks do."""
        self._state.steps = on
        branch_resolved(self._state)

    def executed(self, instruction: Instruction, pc: int, following: int) -> None:
        """An operation was stepped: what it was, where it lies, and where the PE is now."""
        kind, distance = branch_of(instruction.word)
        if kind == _NONE:
            return
        target = signed((pc + distance) & (1 << 64) - 1)
        self._branch[0] = signed(pc), kind, target
        self._went(self._branch.ctypes.data, following)

    def _went(self, branch: int, actual: int) -> None:
        went(self._engine.handle, ctypes.addressof(self.state), branch, signed(actual))
