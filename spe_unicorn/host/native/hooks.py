"""The compiled hooks: count operations down, find what needs Python, stop the engine there.

Every hook is an :func:`~spe_unicorn.compiled.entry`: Python text that becomes a C function, so no
C compiler is needed where this runs. A hook counts, and looks numbers up in tables. Where that is
not enough, it leaves a :class:`Stop` and what is known of it in :class:`State`, and stops the
engine. Python then decides between two runs of the engine, with the PE at rest. Some things are
decided in compiled code because they are frequent: samples that need only a few registers
(``blocks_hook``), frequent exceptions and returns (``exception``), and interrupts between PEs
(``gic``).

The engine calls the hook before a block runs. So the hook counts the whole block, and operations
are given back when an exception ends the block early.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
from unicorn import UcError
from unicorn import arm64_const as regs
from unicorn import unicorn_const as uc_const

from spe_unicorn.arch.registers.debug import MDSCR_EL1
from spe_unicorn.arch.registers.system import ESR_EL2
from spe_unicorn.compiled import (
    Pointer,
    address_of,
    array_at,
    entry,
    int64,
    pointer_to,
    record_at,
)
from spe_unicorn.decode.branches import ZERO_BLOCK_SIZE
from spe_unicorn.host.engine.engine import PC, Engine, lib
from spe_unicorn.host.engine.engine import address_of as address_of_function
from spe_unicorn.host.engine.known import Counted, slow_stores_by
from spe_unicorn.host.engine.mistakes import executes_wrongly
from spe_unicorn.host.native.blocks_hook import on_probe, on_special_block
from spe_unicorn.host.native.calls import (
    FETCH,
    TRANSLATED,
    call_context,
    call_read,
    call_register,
    stop_engine,
)
from spe_unicorn.host.native.code import named_registers, rows_of
from spe_unicorn.host.native.exceptions.exception import (
    enter,
    is_look_behind,
    saved_states,
    set_pc,
)
from spe_unicorn.host.native.exceptions.lacking import carried_out
from spe_unicorn.host.native.flow import ENDS, flow_at_host, on_flow
from spe_unicorn.host.native.hot_path import (
    BLOCK_HOOKS,
    MODELLED_BLOCK_HOOKS,
    REPLACING_BLOCK_HOOKS,
    REPLACING_MODELLED_BLOCK_HOOKS,
)
from spe_unicorn.host.native.inline.layer import Inline
from spe_unicorn.host.native.inline.replacing import on_counted_block
from spe_unicorn.host.native.marks import is_absent
from spe_unicorn.host.native.recipes.evaluate import control_registers
from spe_unicorn.host.native.recipes.steps import MOST_STEPS
from spe_unicorn.host.native.registers.system import on_mrs, on_msr, on_sys
from spe_unicorn.host.native.state.block_table import CODE_WORDS
from spe_unicorn.host.native.state.budget import end_after_block
from spe_unicorn.host.native.state.steer import CODE_TOLD, MEND_FOUND
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.native.state.whole import LAYOUT, State, offset_of
from spe_unicorn.host.native.tables import (
    AccessTable,
    BlockTable,
    CodeLines,
    EntryTable,
    SampleRing,
)
from spe_unicorn.host.native.translated import note_translated
from spe_unicorn.instructions.known.finding import MOST_NUMBERS, TABLE

if TYPE_CHECKING:
    from spe_unicorn.host.native.shadow.blocks import CheckedAccesses

_STOP_PC: Final = offset_of("pc")
_SCRATCH: Final = offset_of("scratch")
_PC: Final = int(PC)
_STOP_EXCEPTION, _STOP_UNMAPPED = int(Stop.EXCEPTION), int(Stop.UNMAPPED)
_WRITE_UNMAPPED: Final = int(uc_const.UC_MEM_WRITE_UNMAPPED)
_FETCH_UNMAPPED: Final = int(uc_const.UC_MEM_FETCH_UNMAPPED)
_WRITE_PROT: Final = int(uc_const.UC_MEM_WRITE_PROT)
_FETCH_PROT: Final = int(uc_const.UC_MEM_FETCH_PROT)
_SEES_ACCESSES: Final = "somebody is told of accesses"
_HIDDEN: Final = "a core model needs a function that this library of Unicorn does not export"


@entry("void", "pointer", "uint32", "pointer")
def on_interrupt(engine: Pointer, number: int, user: Pointer) -> None:
    """Enter an exception, carry out what the engine lacks, or save what the engine says, and stop.

    The engine forgets the exception. Where new code is to be searched, it always stops until it has
    told of a block that it has translated, as whoever starts it looks at the block that it starts
    with.
    """
    state = record_at(user, LAYOUT)
    call_register(state.reg_read, address_of(engine), _PC, address_of(user) + _STOP_PC)
    call_context(state.context_save, address_of(engine), state.context)
    if is_look_behind(state, int64(number)):
        stop_engine(state, engine)  # it is where it was to end
        return
    if state.seeks == 0 or state.new_code & CODE_TOLD != 0:
        if enter(state, engine, user, int64(number)):
            return
        if carried_out(state, engine, user, int64(number)):
            set_pc(state, address_of(engine), address_of(user) + _SCRATCH, state.pc)
            return
    state.stop = _STOP_EXCEPTION
    state.interrupt = int64(number)
    stop_engine(state, engine)


@entry("bool", "pointer", "int32", "uint64", "int32", "int64", "pointer")
def on_unmapped(
    engine: Pointer, kind: int, address: int, size: int, value: int, user: Pointer
) -> bool:
    """Note an access to memory that the engine does not have or must not access, and stop."""
    state = record_at(user, LAYOUT)
    state.stop = _STOP_UNMAPPED
    if kind == _FETCH_PROT:
        state.access_type = _FETCH_UNMAPPED
    elif kind == _WRITE_PROT:
        state.access_type = _WRITE_UNMAPPED
    else:
        state.access_type = int64(kind)
    state.access_address = int64(address)
    return False


@entry("void", "pointer", "pointer", "pointer", "pointer")
def on_translated(engine: Pointer, block: Pointer, before: Pointer, user: Pointer) -> None:
    """The engine has translated a block, and is about to execute it.

    Search it for operations that the engine executes wrongly, and those that the core lacks. At the
    first one the run ends before the block, if runs of its kind may.
    """
    state = record_at(user, LAYOUT)
    state.new_code |= CODE_TOLD
    new = record_at(block, TRANSLATED)
    operations = min(new.sizes >> 18 & 0x3FFF, CODE_WORDS)
    note_translated(state, address_of(engine), new.pc, 4 * operations)
    if state.new_code & MEND_FOUND != 0:
        return
    if (
        call_read(state.vmem_read, address_of(engine), new.pc, FETCH, state.code, 4 * operations)
        != 0
    ):
        return
    code = array_at(pointer_to(state.code), (CODE_WORDS,), np.uint32)
    known = array_at(pointer_to(state.known), (MOST_NUMBERS,), np.int64)
    found = 0
    for n in range(operations):
        word = int64(code[n])
        found |= executes_wrongly(word) or is_absent(known, state.absent, word)
    if found == 0:
        return
    state.new_code |= MEND_FOUND
    if state.seeks != 0:
        state.again = 0
        end_after_block(state)


class NativeHooks:
    """The compiled hooks on one engine. The tables that they read have owners of their own."""

    TRANSIT = ("_constants",)
    WIRING = (
        "checked",
        "follows_flow",
        "inline",
        "_ask",
        "_block",
        "_exceptions",
        "_hooks",
        "_not_inline",
        "_weighed",
        "_writes",
    )

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.state = state = State()
        self.blocks = BlockTable(state)
        self.accesses = AccessTable(state)
        self.samples = SampleRing(state)
        self.lines = CodeLines(state)
        self.entries = EntryTable(state)
        self.follows_flow = False
        """Whether the hooks follow the last branch."""
        self.inline: Inline | None = None
        """Inline counting, where there is any."""
        self.checked: CheckedAccesses | None = None
        """What has accesses looked at without a hook, where memory is checked."""
        self._not_inline: str | None = "somebody else has the engine"
        self._hooks: list[ctypes.c_size_t] = []
        self._writes: list[ctypes.c_size_t] = []
        """Those of MSR and SYS."""
        for function in (
            "emu_stop",
            "reg_read",
            "reg_write",
            "context_save",
            "context_restore",
            "vmem_translate",
            "vmem_read",
            "mem_write",
        ):
            setattr(state, function, address_of_function(f"uc_{function}"))
        state.context_write = address_of_function("uc_context_reg_write")
        state.control = address_of_function("uc_ctl")
        self._context = engine.uc.context_save()
        state.context = self._context.context.value
        self._constants = {
            "named": named_registers(),
            "saved_states": saved_states(),
            "stepping": rows_of(MDSCR_EL1.encoding),
            "alias": rows_of(ESR_EL2.encoding),
            "system_controls": control_registers(),
            "values": np.zeros(MOST_STEPS, np.int64),
            "code": np.zeros(CODE_WORDS, np.uint32),
            "zeros": np.zeros(ZERO_BLOCK_SIZE, np.uint8),
            "known": TABLE,
            "ends": np.full(ENDS, -1, np.int64),
        }
        """Names of registers with room for their values, and room for the words of a block."""
        for name, table in self._constants.items():
            setattr(state, name, table.ctypes.data)

    def install(
        self,
        gaps: Iterable[tuple[int, int]] = (),
        read_only: Iterable[tuple[int, int]] = (),
        withheld: Iterable[tuple[int, int]] = (),
        *,
        weighed: bool = False,
        not_inline: str | None = "somebody else has the engine",
    ) -> None:
        """Add the hooks to the engine, whose translated code must be none or be flushed.

        ``weighed``: the population that is sampled can be micro-operations. ``not_inline`` says why
        blocks must not come to count themselves; None: they may. Others' block hooks forbid it.

        The ranges are physical, first to last address. In ``gaps`` there is no memory, and Python
        answers accesses. In ``read_only`` Python answers stores where the engine has no right to
        them, in ``withheld`` loads and fetches where it has no right to them. Ranges must not
        contain other memory: a hook over memory makes every store to it ten times slower.
        """
        instruction = uc_const.UC_HOOK_INSN
        self.state.special_hook = on_special_block.address
        modelled = self.state.model_hook != 0
        self._not_inline = not_inline
        if modelled and self._not_inline is None and not slow_stores_by():
            self._not_inline = _HIDDEN
        if self._not_inline is not None:
            hooks = MODELLED_BLOCK_HOOKS if modelled else BLOCK_HOOKS
        else:
            hooks = REPLACING_MODELLED_BLOCK_HOOKS if modelled else REPLACING_BLOCK_HOOKS
            if not modelled:
                self.state.inline_hook = on_counted_block.address
            self.inline = Inline(self.engine, self.state, hooks[weighed].address)
        self._weighed = weighed
        self._block = self.add(uc_const.UC_HOOK_BLOCK, hooks[weighed].address)
        self.stop_at_exceptions()
        for gap in gaps:
            self.add(uc_const.UC_HOOK_MEM_UNMAPPED, on_unmapped.address, bounds=gap)
        refused = uc_const.UC_HOOK_MEM_READ_PROT | uc_const.UC_HOOK_MEM_FETCH_PROT
        for kinds, ranges in ((uc_const.UC_HOOK_MEM_WRITE_PROT, read_only), (refused, withheld)):
            for bounds in ranges:
                self.add(kinds, on_unmapped.address, bounds=bounds)
        self.add(instruction, on_mrs.address, regs.UC_ARM64_INS_MRS)
        self._writes = [
            self.add(instruction, on_msr.address, regs.UC_ARM64_INS_MSR),
            self.add(instruction, on_sys.address, regs.UC_ARM64_INS_SYS),
        ]

    def write_by(self, msr: int, sys: int, user: int) -> None:
        """Have hooks at these addresses called for MSR and SYS: the engine calls one hook for each.

        They are given ``user``, and do what those of :meth:`install` do.
        """
        for handle in self._writes:
            self.delete(handle)
        self._writes = [
            self.add(uc_const.UC_HOOK_INSN, msr, regs.UC_ARM64_INS_MSR, user=user),
            self.add(uc_const.UC_HOOK_INSN, sys, regs.UC_ARM64_INS_SYS, user=user),
        ]

    def tell_first(self, user: int, hook: int, counted: int) -> None:
        """Have ``hook`` told of each block before all else, as that of a core model is.

        It is given ``user``. ``counted`` is the hook that replaces calls, as ``State.inline_hook``
        says. For blocks that may count themselves, and without a core model.
        """
        state, inline = self.state, self.inline
        if inline is None or state.model_hook:
            raise RuntimeError("no block may count itself, or there is a core model")
        state.model, state.model_hook, state.inline_hook = user, hook, counted
        block = REPLACING_MODELLED_BLOCK_HOOKS[self._weighed].address
        self.delete(self._block)
        self._block = self.add(uc_const.UC_HOOK_BLOCK, block)
        inline.call(block)
        self.engine.forget_all_code()

    def notice_new_code(self) -> None:
        """Have a hook told of each block that the engine translates, but for its first ones.

        It is told of a block once a block before has come to its end without an exception.
        """
        self.add(uc_const.UC_HOOK_EDGE_GENERATED, on_translated.address)

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
            ctypes.c_void_p(self.state.address if user is None else user),
            ctypes.c_uint64(bounds[0]),
            ctypes.c_uint64(bounds[1]),
            *(ctypes.c_int32(a) for a in arguments),
        )
        if status != uc_const.UC_ERR_OK:
            raise UcError(status)
        self._hooks.append(handle)
        return handle

    def begin_at_host(self, pc: int, el: int, *, enabled: bool) -> None:
        """The host executes the operation at ``pc``, and the engine has begun no block there.

        ``enabled`` says whether profiling is enabled.
        """
        if self.follows_flow:
            engine, state = self.engine.handle.value, self.state.address
            flow_at_host.called(engine, pc, state, el, enabled)

    def follow_flow(self) -> None:
        """Keep the last branch known from now on."""
        if not self.follows_flow:
            self.follows_flow = True
            self.state.flow_hook = on_flow.address
            if self._hooks:
                self.engine.forget_all_code()  # no block that counts itself follows it

    def stop_inline(self, why: str) -> None:
        """Have all blocks call the hook from now on, and say ``why`` to those who ask."""
        if self.inline is not None:
            self.inline.stop(why)

    def hook_accesses(self, *, wanted: bool) -> None:
        """Another program has, or has no longer, a hook that is to see each access."""
        if self.inline is not None and self.state.model:
            change = self.inline.stop if wanted else self.inline.resume
            change(_SEES_ACCESSES)

    @property
    def counted_inline(self) -> Counted:
        """How many blocks of this engine count themselves."""
        inline = self.inline
        if inline is None:
            return Counted(on=False, why_not=self._not_inline, blocks=0, refused=0)
        return Counted(inline.why_not is None, inline.why_not, *inline.numbers)

    def stop_at_exceptions(self) -> None:
        """Have exceptions stop the engine, after all other hooks for them."""
        self._exceptions = self.add(uc_const.UC_HOOK_INTR, on_interrupt.address)

    def ignore_exceptions(self) -> None:
        """Leave exceptions to the engine and to other hooks."""
        self.delete(self._exceptions)

    def delete(self, handle: ctypes.c_size_t) -> None:
        """Take a hook off the engine; translations that call it must be flushed."""
        self._hooks.remove(handle)
        lib.uc_hook_del(self.engine.handle, handle)

    def probe(self, address: int) -> None:
        """Add a hook to the operation at ``address`` that notes its registers if it is sampled."""
        self.add(uc_const.UC_HOOK_CODE, on_probe.address, bounds=(address, address))
        self.engine.forget_code(address, address + 4)

    def remove(self) -> None:
        """Take the hooks off the engine, and the translations that call them."""
        for handle in self._hooks:
            lib.uc_hook_del(self.engine.handle, handle)
        self._hooks.clear()
        self.engine.forget_all_code()

    def ask_by(self, answer: Callable[[], int]) -> None:
        """Have ``answer`` called for :attr:`Action.ASK`; it must not raise."""
        self._ask = ctypes.CFUNCTYPE(ctypes.c_int32)(answer)
        self.state.ask = ctypes.cast(self._ask, ctypes.c_void_p).value or 0
