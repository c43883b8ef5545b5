"""The C functions that compiled hooks call at addresses, and what the engine calls hooks with."""

from __future__ import annotations

from typing import Final

from unicorn import UC_PROT_EXEC
from unicorn.unicorn_const import UC_CTL_IO_WRITE, UC_CTL_TB_REMOVE_CACHE, UC_CTL_TLB_FLUSH

from spe_unicorn.compiled import ForeignCall, Pointer, address_of, int64, layout, routine
from spe_unicorn.host.engine.engine import PC, PSTATE
from spe_unicorn.host.native.state.budget import begin_anew_after_block
from spe_unicorn.host.native.state.fields import StateRecord

FETCH: Final = int(UC_PROT_EXEC)
"""How ``uc_vmem_read`` reads what the PE would fetch."""
_PC, _PSTATE = int(PC), int(PSTATE)
_FLUSH_TLB: Final = UC_CTL_IO_WRITE << 30 | UC_CTL_TLB_FLUSH
_REMOVE: Final = UC_CTL_IO_WRITE << 30 | 2 << 26 | UC_CTL_TB_REMOVE_CACHE


class TranslatedBlock:
    """A block as the engine tells hooks of it: ``uc_tb``."""

    pc: int
    """Its address."""
    sizes: int
    """Its size in bytes, in bits 31 to 16."""


TRANSLATED: Final = layout(TranslatedBlock)

call_ask: Final = ForeignCall("int32")
"""The function that answers :attr:`~state.actions.Action.ASK`, ``int f(void)``."""
call_stop: Final = ForeignCall("int32", ("pointer",))
"""``uc_emu_stop(engine)``."""
call_start: Final = ForeignCall("int32", ("pointer", "uint64", "uint64", "uint64", "uint64"))
"""``uc_emu_start(engine, begin, until, timeout, count)``."""
call_surviving: Final = ForeignCall(
    "int32", ("pointer", "pointer", "uint64", "uint64", "uint64", "uint64")
)
"""The same for a function that is called with a buffer, as ``host.engine.surviving`` has it."""
call_context: Final = ForeignCall("int32", ("pointer", "pointer"))
"""``uc_context_save(engine, context)`` and ``uc_context_restore``."""
call_register: Final = ForeignCall("int32", ("pointer", "int32", "pointer"))
"""``uc_reg_read(engine, register, value)``, ``uc_reg_write``, ``uc_context_reg_write``."""
call_translate: Final = ForeignCall("int32", ("pointer", "uint64", "uint32", "pointer"))
"""``uc_vmem_translate(engine, va, protection, pa)``."""
call_read: Final = ForeignCall("int32", ("pointer", "uint64", "uint32", "pointer", "uint64"))
"""``uc_vmem_read(engine, va, protection, to, size)``."""
call_write: Final = ForeignCall("int32", ("pointer", "uint64", "pointer", "uint64"))
"""``uc_mem_write(engine, pa, from, size)``."""
call_reset_dirty: Final = ForeignCall("void", ("pointer", "uint64", "uint64"))
"""The engine's ``tlb_reset_dirty(cpu, begin, size)``: stores to memory of the host between these
addresses take the slow way, by each entry of the TLB."""
call_control: Final = ForeignCall("int32", ("pointer", "int32", "uint64", "uint64"), variadic=2)
"""``uc_ctl(engine, control, begin, end)``."""
call_sampling: Final = ForeignCall("int64", ("pointer", "pointer", "int64", "int64"))
"""``host.run.samples.read_register(what, state, key, pc)``."""
call_access: Final = ForeignCall(
    "void", ("pointer", "int32", "uint64", "int32", "int64", "pointer")
)
"""``model.on_access(engine, kind, pa, size, value, model)``."""
call_misprediction: Final = ForeignCall("void", ("pointer", "pointer", "int64", "int64", "int64"))
"""``ModelState.on_misprediction``."""


@routine
def stop_engine(state: StateRecord, engine: Pointer) -> None:
    """Have the engine leave; blocks that count themselves look only at ``attend``."""
    state.attend = -1
    call_stop(state.emu_stop, address_of(engine))


@routine
def flush_tlb(state: StateRecord, uc: int) -> None:
    """Empty the TLB of the engine at an address."""
    call_control(state.control, uc, _FLUSH_TLB, 0, 0)


@routine
def forget_code(state: StateRecord, uc: int, begin: int, end: int) -> None:
    """Drop the translations of code between two virtual addresses, as ``Engine.forget_code``."""
    call_control(state.control, uc, _REMOVE, begin, end)


@routine
def physical_of(state: StateRecord, uc: int, address: int, access: int, place: int) -> int:
    """The physical address of a virtual one, -1 if an ``access`` (UC_PROT_*) to it would fault.

    ``place`` is the address of ``State.physical``.
    """
    if call_translate(state.vmem_translate, uc, address, access, place) != 0:
        return int64(-1)
    return state.physical


@routine
def current_el(state: StateRecord, uc: int, scratch: int) -> int:
    """The PE's Exception level. ``State.scratch``, which lies at ``scratch``, has PSTATE then."""
    call_register(state.reg_read, uc, _PSTATE, scratch)
    return state.scratch >> 2 & 3


@routine
def move_on(state: StateRecord, uc: int, scratch: int) -> None:
    """Move the PC past the System access in whose hook this is: the engine does not make it.

    ``scratch`` is the address of ``State.scratch``.
    """
    call_register(state.reg_read, uc, _PC, scratch)
    state.scratch += 4
    call_register(state.reg_write, uc, _PC, scratch)
    begin_anew_after_block(state)
