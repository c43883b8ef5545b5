"""A PE at rest: what its engine and its hooks hold, saved and put back.

What is no part of the architecture's state is forgotten when a PE is saved and when it is restored:
the engine's TLB, translated code, and the translations that the sampling unit keeps. So the PE that
was saved and the one that is restored go on alike.

Two counts only ever go up: the epoch, and the writes of steering registers. What is known of code
and translations holds for one value of them. So a restored PE keeps its own counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from spe_unicorn.arch.exceptions.entry import ExceptionType
from spe_unicorn.host.engine.context import (
    ContextError,
    check_context,
    restore_context,
    save_context,
)
from spe_unicorn.host.native.model import note_flushes
from spe_unicorn.host.native.state.clock import (
    CODE_MAINTENANCE,
    FLUSH_MAINTENANCE,
    TAKEN_ESR,
    TAKEN_FAR,
    TLB_MAINTENANCE,
    Clock,
)
from spe_unicorn.host.native.state.ledger import begin_epoch, register_written, restore
from spe_unicorn.host.native.state.transit import samples_taken, set_entered, wrong_path_taken
from spe_unicorn.host.native.state.wiring import LINES
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.plain import Bits16, Count
from spe_unicorn.spe.sampler import Sampler
from spe_unicorn.stateful import StateError, expect

_OWN: Final = frozenset({"budget", "granted", "epoch", "writes", "flushes"})
_SAVED: Final = tuple(f.name for f in Clock.FIELDS if f.name not in _OWN)
_MOST: Final = {
    "line_count": LINES,
    "pm": 1,
    "maintenance": TLB_MAINTENANCE | CODE_MAINTENANCE | FLUSH_MAINTENANCE,
    "taken_to": 3,
    "taken_has": TAKEN_ESR | TAKEN_FAR,
}
"""The largest values of those that are no mere counts or addresses."""


@dataclass(slots=True)
class EngineState:
    """What is saved of a PE's engine and of the hooks in it."""

    context: bytes = b""
    """``host.engine.context``."""
    executed: Count = 0
    """Operations attempted since the machine began."""
    clock: dict[str, int] = field(default_factory=dict)
    """Other fields of ``host.native.state.clock.Clock`` by name."""
    cells: dict[Bits16, int] = field(default_factory=dict)
    """The table of values for encodings, where it is not 0."""
    entered: bool = False
    """Whether compiled code has entered an exception, which sets the event register."""
    flushed: bool = True
    """Whether the core model has heard of all flushes of the TLB."""


def check_engine(handler: StopHandler, saved: EngineState) -> None:
    """Raise StateError for what no run leaves. The engine and compiled code go by it."""
    engine = handler.cpu.engine
    try:
        check_context(engine.uc, engine.rebuild, saved.context)
    except ContextError as error:
        raise StateError(str(error)) from None
    expect(saved.clock.keys() == set(_SAVED), "what is counted")
    for name, most in _MOST.items():
        expect(0 <= saved.clock[name] <= most, f"`{name}`")
    expect(saved.clock["taken_kind"] in set(ExceptionType), "`taken_kind`")
    values = (*saved.clock.values(), *saved.cells.values())
    expect(all(-1 << 63 <= value < 1 << 63 for value in values), "a value of 64 bits")


def forget(handler: StopHandler, unit: Sampler) -> None:
    """Forget what is no part of the architecture's state."""
    cpu = handler.cpu
    handler.refused.close()
    cpu.engine.flush_tlb()
    cpu.engine.forget_all_code()
    begin_epoch(cpu.state)
    register_written(cpu.state)
    cpu.forget_el()
    unit.forget_translations()
    unit.refresh()


def save_engine(handler: StopHandler) -> EngineState:
    """The state of a PE at rest, after :func:`forget`."""
    return replace(save_hooks(handler), context=save_context(handler.cpu.engine.uc))


def save_hooks(handler: StopHandler) -> EngineState:
    """What :func:`save_engine` gives, without the engine's context: another part saves that."""
    cpu = handler.cpu
    state, model = cpu.state, cpu.model
    return EngineState(
        b"",
        cpu.executed,
        {name: int(getattr(state, name)) for name in _SAVED},
        cpu.hooks.accesses.save(),
        bool(state.entered),
        model is None or model.state.flushed == state.flushes,
    )


def restore_engine(handler: StopHandler, saved: EngineState) -> None:
    """Put the state back into a PE at rest. The caller then derives what follows from it.

    Raises ``host.engine.context.ContextError``.
    """
    restore_context(handler.cpu.engine.uc, saved.context)
    restore_hooks(handler, saved)


def restore_hooks(handler: StopHandler, saved: EngineState) -> None:
    """Put back what :func:`save_hooks` gave."""
    cpu = handler.cpu
    state = cpu.state
    restore(state, saved.executed, saved.clock)
    state.nothing_is_due()
    wrong_path_taken(state)
    samples_taken(state)
    set_entered(state, saved.entered)
    begin_epoch(state)
    register_written(state)
    cpu.hooks.accesses.restore(saved.cells)
    if cpu.model is not None:
        note_flushes(cpu.model.state, state.flushes - (not saved.flushed))
    handler.refused.close()
    cpu.engine.flush_tlb()
    cpu.engine.forget_all_code()
    cpu.forget_el()
