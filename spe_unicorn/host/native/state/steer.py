"""What Python has worked out for the hooks."""

from __future__ import annotations

import ctypes
from typing import Final

from spe_unicorn.compiled import routine
from spe_unicorn.host.native.state.field import Field, Writer
from spe_unicorn.host.native.state.fields import StateRecord

_HOOKS, _PYTHON = Writer.HOOKS, Writer.PYTHON
LEVEL_BITS: Final = 12
"""Bits that each Exception level has in ``State.watch_at``."""
LEVEL_MARKS: Final = (1 << LEVEL_BITS) - 1
CODE_TOLD, MEND_FOUND = 1, 2
"""Bits of ``State.new_code``."""
ALL_COUNTERS: Final = 0xFF
"""The lower bits of ``State.counters`` when no Exception level is trapped."""
IN_HOST: Final = 8
"""The bit of ``State.counters`` from which on each Exception level has one for ELIsInHost()."""
TIMERS_LEVEL: Final = 8
"""Bits that each Exception level has in ``State.timers_at``."""
TIMERS_IN_HOST: Final = 1 << 7
"""Where the names of timers of EL1 mean those of EL2."""
EVERY_LEVEL: Final = 0xF
"""A bit for each Exception level."""


class Steer(ctypes.Structure):
    """What Python has worked out for the hooks; it can be worked out again at any time.

    Hooks replace some of it by what Python has worked out before (``registers.switches``). So both
    have it written by functions: those below, of ``levels``, and of ``delivery``.
    """

    FIELDS: Final = (
        Field(
            "control_set",
            _HOOKS,
            "The row of the table `control_sets` that holds; 0 if no write may lead to another.",
        ),
        Field("level_marks", _HOOKS, "Marks of what traps, LEVEL_BITS each Exception level."),
        Field(
            "class_pairs",
            _PYTHON,
            "Bit `4 * a + b`: sampling, checks and counters are the same at EL a and EL b.",
        ),
        Field(
            "possible_entries",
            _HOOKS,
            "Bit `4 * a + b`: an exception from EL a to EL b is one that compiled code can enter.",
        ),
        Field(
            "followed",
            _PYTHON,
            "Whether the engine has to stop after each return and at each exception: a watcher,"
            " the branch flow or FEAT_EBEP needs to know of them.",
        ),
        Field(
            "observed",
            _PYTHON,
            "Whether the engine has to stop at each exception: a listener, the core model or"
            " the PMU needs to know of it.",
        ),
        Field(
            "deliver",
            _HOOKS,
            "Pending interrupts. Four bits for each Exception level from EL0 up: IRQ, IRQ unless"
            " PSTATE.I, FIQ, FIQ unless PSTATE.F; above them one bit for each: SError unless"
            " PSTATE.A.",
        ),
        Field(
            "irq_targets",
            _HOOKS,
            "Two bits for each Exception level: where an IRQ goes from there, or a virtual one. 0"
            " where it is not alone in what is pending, or Python enters it.",
        ),
        Field("lines", _HOOKS, "The levels of the physical inputs: 1 for IRQ, 2 for FIQ."),
        Field(
            "deliver_irq",
            _HOOKS,
            "`deliver` while only IRQ is asserted; -1 where more counts than IRQ, FIQ and `virq`."
            " 0 while neither is, on a PE whose state decides which an interrupt asserts.",
        ),
        Field("irq_alone", _HOOKS, "`irq_targets` while only IRQ is asserted."),
        Field("deliver_fiq", _HOOKS, "`deliver` while only FIQ is asserted."),
        Field("virq", _HOOKS, "The level of the virtual IRQ that List registers assert."),
        Field(
            "deliver_virq",
            _HOOKS,
            "`deliver` while only the virtual IRQ is asserted; 0 where EL1 has no virtual ones.",
        ),
        Field(
            "waits",
            _PYTHON,
            "Whether Python has to hear at once when a line of this PE rises: the PE sleeps, or its"
            " getting something to do ends another PE's turn.",
        ),
        Field(
            "gic_at",
            _HOOKS,
            "A bit for each Exception level: the CPU interface of the GIC is answered there in"
            " compiled code.",
        ),
        Field("samples_allowed", _PYTHON, "Samples that the hook may take by itself in this run."),
        Field(
            "relevant",
            _PYTHON,
            "The marks that blocks have been looked out for since the last slice ended. Only blocks"
            " with none of them are counted inline.",
        ),
        Field(
            "new_code",
            _HOOKS,
            "CODE_TOLD once the engine has told of a block that it has translated; MEND_FOUND once"
            " one had an operation that it executes wrongly.",
        ),
        Field("watch_at", _HOOKS, "`watch` for each Exception level, LEVEL_BITS each."),
        Field(
            "entries",
            _HOOKS,
            "Bit `4 * a + b`: an exception from EL a to EL b is entered in compiled code.",
        ),
        Field("alike", _HOOKS, "Bit `4 * a + b`: a return from EL a to EL b needs no stop."),
        Field(
            "counters",
            _HOOKS,
            "Two bits for each EL: CNTPCT and CNTVCT may be read there. Then one for each: there"
            " CNTVCT is read without its offset.",
        ),
        Field(
            "timers_at",
            _HOOKS,
            "TIMERS_LEVEL bits for each EL: one for each name by which timers' registers go, which"
            " reach a timer there, and TIMERS_IN_HOST.",
        ),
        Field(
            "due",
            _HOOKS,
            "The time, in cycles, at which a timer of this PE drives a line by itself.",
        ),
        Field("zeroes_at", _HOOKS, "A bit for each EL: DC ZVA does not trap there."),
        Field(
            "tlbi_at",
            _HOOKS,
            "Bit `2 * op1 + el`: TLBI with this op1 that the engine lacks are executed at this EL.",
        ),
        Field(
            "suspect",
            _HOOKS,
            "A bit for each EL: an ERET there would be illegal, or return with PSTATE.IL.",
        ),
        Field(
            "restored_by_host",
            _PYTHON,
            "The bits of SPSR_ELx that the core has in PSTATE, and that an ERET of the engine"
            " clears there: SSBS, DIT and TCO.",
        ),
        Field("has_pm", _PYTHON, "1 if the core has PSTATE.PM."),
        Field(
            "restoring",
            _HOOKS,
            "A bit for each EL: SPSR_ELx has one of the bits `restored_by_host`.",
        ),
        Field(
            "legal_returns",
            _HOOKS,
            "16 bits for each EL from EL1 up: the values of SPSR_ELx.M[3:0] that are legal.",
        ),
        Field(
            "trapping",
            _HOOKS,
            "Table of what traps now: a byte for each number of `trap_id`, a bit for each EL.",
        ),
        Field("watched", _PYTHON, "Rows of the table `ranges` that are in use."),
        Field(
            "engine_identity",
            _HOOKS,
            "What identification the engine answers at EL1: 1 MIDR_EL1 and MPIDR_EL1, which EL2"
            " chooses; 2 the ID registers, which trap.",
        ),
        Field(
            "lacking",
            _PYTHON,
            "What it takes to carry out instructions that the engine lacks (`lacking.LACKING`); 0"
            " until Python has carried out one, and where compiled code is not to.",
        ),
        Field(
            "tag_access",
            _PYTHON,
            "A bit for each EL: access to Allocation Tags is enabled there (FEAT_MTE2).",
        ),
        Field("sve", _PYTHON, "Whether the core has SVE: else its traps are not what they seem."),
        Field(
            "unattended",
            _PYTHON,
            "Whether the user of the plugin runs the engine by `emu_start`: no hook stops it then.",
        ),
        Field(
            "steps",
            _PYTHON,
            "Whether Python tells the core model of branches, since it steps operations.",
        ),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]


@routine
def set_controls(
    state: StateRecord,
    counters: int,
    timers_at: int,
    engine_identity: int,
    legal_returns: int,
    zeroes_at: int,
    tlbi_at: int,
) -> None:
    """Say what the control registers mean to the hooks for System accesses, and for returns."""
    state.counters = counters
    state.timers_at = timers_at
    state.engine_identity = engine_identity
    state.legal_returns = legal_returns
    state.zeroes_at = zeroes_at
    state.tlbi_at = tlbi_at


@routine
def set_trapping(state: StateRecord, trapping: int) -> None:
    """Say where the table of what traps is."""
    state.trapping = trapping


@routine
def select_set(state: StateRecord, control_set: int, gic_at: int) -> None:
    """Have a set of controls hold, and the CPU interface of the GIC be answered at those levels."""
    state.control_set, state.gic_at = control_set, gic_at


@routine
def set_due(state: StateRecord, due: int) -> None:
    """Say when a timer of the PE drives a line by itself."""
    state.due = due
