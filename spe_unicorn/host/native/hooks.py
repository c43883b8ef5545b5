"""The compiled hooks: count operations down, notice what needs Python, stop the engine there.

Every hook is a C function made by numba, so no compiler is needed where this runs. A hook hardly
ever decides anything about the architecture: it counts, it looks a number up in a table, and where
that does not settle the matter it leaves a :class:`Stop` and what is known of it in :class:`State`
and stops the engine. All decisions are then made between two runs of the engine, with the PE at
rest. The exceptions are samples that need no more than a few registers (``blocks_hook``), and
exceptions and returns that an operating system lives on (``exception``).

The engine reports the start of a block before it runs, so a block is counted whole and given back
in part when an exception ends it early.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numba import carray, cfunc, types
from unicorn import UcError
from unicorn import arm64_const as regs
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import ESR_EL2
from spe_unicorn.host.engine.engine import PC, Engine, address_of, lib
from spe_unicorn.host.native.blocks_hook import PROBE_HOOK, SPECIAL_HOOK
from spe_unicorn.host.native.calls import USER, call1, call2, call_register
from spe_unicorn.host.native.calls import address_of as pointer_value
from spe_unicorn.host.native.code import named_registers, rows_of
from spe_unicorn.host.native.exception import enter, saved_states
from spe_unicorn.host.native.flow import FLOW_HOOK
from spe_unicorn.host.native.hot_path import compile_block_hook
from spe_unicorn.host.native.state import (
    BLOCKS,
    CODE_WORDS,
    ENTRY_PSTATE,
    KEYS,
    LAYOUT,
    LINES,
    PLANS,
    SAMPLE_WORDS,
    SAMPLES,
    Action,
    State,
    Stop,
    signed,
)
from spe_unicorn.host.native.system import READ_HOOK, SYSTEM_HOOK, WRITE_HOOK

_STOP_PC: Final = State.pc.offset
_PC: Final = int(PC)
_STOP_EXCEPTION, _STOP_UNMAPPED = int(Stop.EXCEPTION), int(Stop.UNMAPPED)
_WRITE_UNMAPPED: Final = int(uc_const.UC_MEM_WRITE_UNMAPPED)
_FETCH_UNMAPPED: Final = int(uc_const.UC_MEM_FETCH_UNMAPPED)
_WRITE_PROT: Final = int(uc_const.UC_MEM_WRITE_PROT)
_FETCH_PROT: Final = int(uc_const.UC_MEM_FETCH_PROT)


@cfunc(types.void(types.voidptr, types.uint32, USER), cache=True)  # type: ignore[untyped-decorator]
def _on_interrupt(engine: Any, number: Any, user: Any) -> None:
    """Enter an exception, or keep what the engine knows of it, which it forgets, and stop."""
    s = carray(user, (1,), LAYOUT)[0]
    call_register(s.reg_read, pointer_value(engine), _PC, pointer_value(user) + _STOP_PC)
    call2(s.context_save, pointer_value(engine), s.context)
    if enter(s, engine, user, np.int64(number)):
        return
    s.stop = _STOP_EXCEPTION
    s.interrupt = np.int64(number)
    call1(s.emu_stop, pointer_value(engine))


@cfunc(
    types.boolean(types.voidptr, types.int32, types.uint64, types.int32, types.int64, USER),
    cache=True,
)  # type: ignore[untyped-decorator]
def _on_unmapped(engine: Any, kind: Any, address: Any, size: Any, value: Any, user: Any) -> bool:
    """Note an access to memory that is not there, or not for it; the engine stops before it."""
    s = carray(user, (1,), LAYOUT)[0]
    s.stop = _STOP_UNMAPPED
    if kind == _FETCH_PROT:
        s.access_type = _FETCH_UNMAPPED
    elif kind == _WRITE_PROT:
        s.access_type = _WRITE_UNMAPPED
    else:
        s.access_type = np.int64(kind)
    s.access_address = np.int64(address)
    s.access_size = np.int64(size)
    s.access_value = value
    return False


class NativeHooks:
    """The compiled hooks on one engine, and the tables that they read."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.state = State()
        self.actions = np.zeros((3, KEYS), np.uint8)
        self.cells = np.zeros(KEYS, np.int64)
        self.matters = np.full(KEYS, -1, np.int64)
        self.block_keys = np.full(BLOCKS, -1, np.int64)
        self.block_epochs = np.zeros(BLOCKS, np.int64)
        self.block_marks = np.zeros(BLOCKS, np.int64)
        self.block_plans = np.zeros(BLOCKS, np.int64)
        self.weights = np.zeros(BLOCKS, np.int64)
        self.plans = np.zeros(PLANS, np.int64)
        self.samples = np.zeros((SAMPLES, SAMPLE_WORDS), np.int64)
        self.gaps = np.zeros(SAMPLES, np.int64)
        self.quick = np.full(BLOCKS, -1, np.int64)
        self.code = np.zeros(CODE_WORDS, np.uint32)
        self.context = engine.uc.context_save()
        state = self.state
        for function in (
            *("emu_stop", "reg_read", "reg_write", "context_save", "context_restore"),
            *("vmem_translate", "vmem_read"),
        ):
            setattr(state, function, address_of(f"uc_{function}"))
        state.context_write = address_of("uc_context_reg_write")
        state.control = address_of("uc_ctl")
        self.named = named_registers()
        self.lines = np.zeros(LINES, np.int64)
        self.saved_states = saved_states()
        self.alias = rows_of(ESR_EL2.encoding)
        self.entry_pstate = np.zeros(ENTRY_PSTATE, np.int64)
        state.context = self.context.context.value
        for table in (
            "actions",
            "cells",
            "matters",
            "block_keys",
            "block_epochs",
            "block_marks",
            "block_plans",
            "weights",
            "plans",
            "code",
            "samples",
            "gaps",
            "quick",
            "named",
            "lines",
            "saved_states",
            "entry_pstate",
            "alias",
        ):
            setattr(state, table, getattr(self, table).ctypes.data)
        self._hooks: list[ctypes.c_size_t] = []
        self.follows_flow = False
        """Whether the last branch is known."""
        self.trapped: frozenset[int] = frozenset()
        """What blocks have ``MARK_TRAP`` for (``arch.access.fine_grained_traps``)."""

    def install(
        self,
        gaps: Iterable[tuple[int, int]] = (),
        read_only: Iterable[tuple[int, int]] = (),
        secure: Iterable[tuple[int, int]] = (),
        *,
        weighed: bool = False,
    ) -> None:
        """Add the hooks to the engine, whose translated code must be none or be flushed.

        ``weighed``: the population that is sampled can be micro-operations.
        ``gaps`` are the physical address ranges, first to last, where there is no memory and
        accesses are ours to answer, ``read_only`` those where stores are if the engine has no right
        to them, ``secure`` those where the same goes for loads and fetches. They are needed
        exactly: a hook over memory that is there makes every store to it ten times slower.
        """
        instruction = uc_const.UC_HOOK_INSN
        self.state.weighed = weighed
        self.add(uc_const.UC_HOOK_BLOCK, compile_block_hook(SPECIAL_HOOK, weighed))
        if self.follows_flow:
            self.add(uc_const.UC_HOOK_BLOCK, FLOW_HOOK)
        self.stop_at_exceptions()
        for gap in gaps:
            self.add(uc_const.UC_HOOK_MEM_UNMAPPED, _on_unmapped.address, bounds=gap)
        refused = uc_const.UC_HOOK_MEM_READ_PROT | uc_const.UC_HOOK_MEM_FETCH_PROT
        for kinds, ranges in ((uc_const.UC_HOOK_MEM_WRITE_PROT, read_only), (refused, secure)):
            for bounds in ranges:
                self.add(kinds, _on_unmapped.address, bounds=bounds)
        self.add(instruction, READ_HOOK, regs.UC_ARM64_INS_MRS)
        self.add(instruction, WRITE_HOOK, regs.UC_ARM64_INS_MSR)
        self.add(instruction, SYSTEM_HOOK, regs.UC_ARM64_INS_SYS)

    def add(
        self,
        kind: int,
        hook: int,
        *arguments: int,
        bounds: tuple[int, int] = (1, 0),
        user: int | None = None,
    ) -> ctypes.c_size_t:
        """Add a hook: its kind, its address, and what the engine wants to know besides.

        ``bounds`` are the first and last address that it is for, by default all. It is given the
        address ``user``, by default that of the state. Returns the engine's handle.
        """
        handle = ctypes.c_size_t()
        status = lib.uc_hook_add(
            self.engine.handle,
            ctypes.byref(handle),
            kind,
            ctypes.c_void_p(hook),
            ctypes.c_void_p(ctypes.addressof(self.state) if user is None else user),
            ctypes.c_uint64(bounds[0]),
            ctypes.c_uint64(bounds[1]),
            *(ctypes.c_int32(a) for a in arguments),
        )
        if status != uc_const.UC_ERR_OK:
            raise UcError(status)
        self._hooks.append(handle)
        return handle

    def follow_flow(self) -> None:
        """Keep the last branch known from now on."""
        if not self.follows_flow:
            self.follows_flow = True
            if self._hooks:
                self.add(uc_const.UC_HOOK_BLOCK, FLOW_HOOK)
                self.engine.uc.ctl_flush_tb()

    def mark_traps(self, trapped: frozenset[int]) -> None:
        """Have blocks marked that hold what fine-grained traps trap: those seen before, too."""
        if trapped != self.trapped:
            self.trapped = trapped
            self.block_keys.fill(-1)
            self.quick.fill(-1)

    def stop_at_exceptions(self) -> None:
        """Have exceptions stop the engine, behind all other hooks for them."""
        self._exceptions = self.add(uc_const.UC_HOOK_INTR, _on_interrupt.address)

    def ignore_exceptions(self) -> None:
        """Leave exceptions to the engine and to other hooks."""
        self.delete(self._exceptions)

    def delete(self, handle: ctypes.c_size_t) -> None:
        """Take a hook off the engine; translations that call it must be flushed."""
        self._hooks.remove(handle)
        lib.uc_hook_del(self.engine.handle, handle)

    def probe(self, address: int) -> None:
        """Have the registers of the operation at ``address`` noted there when it is sampled."""
        self.add(uc_const.UC_HOOK_CODE, PROBE_HOOK, bounds=(address, address))
        self.engine.forget_code(address, address + 4)

    def remove(self) -> None:
        """Take the hooks off the engine, and the translations that call them."""
        for handle in self._hooks:
            lib.uc_hook_del(self.engine.handle, handle)
        self._hooks.clear()
        self.engine.uc.ctl_flush_tb()

    def ask_by(self, answer: Callable[[], int]) -> None:
        """The function behind :attr:`Action.ASK`; it must not raise."""
        self._ask = ctypes.CFUNCTYPE(ctypes.c_int32)(answer)
        self.state.ask = ctypes.cast(self._ask, ctypes.c_void_p).value or 0

    def act(self, action: Action, encoding: Encoding, *kinds: int, cell: int = 0) -> None:
        """Choose what the hooks do with an encoding, for each of READ, WRITE and SYSTEM named."""
        for kind in kinds:
            self.actions[kind, encoding.key] = action
        self.set_cell(encoding, cell)

    def set_cell(self, encoding: Encoding, value: int) -> None:
        """What :attr:`Action.CELL` reads, or the offset that :attr:`Action.COUNT` subtracts."""
        self.cells[encoding.key] = signed(value)
