"""What concerns the present run and the last stop. Nothing of it outlives a safe point."""

from __future__ import annotations

import ctypes
from typing import Final

from spe_unicorn.compiled import routine
from spe_unicorn.host.native.state.block_table import LANES
from spe_unicorn.host.native.state.field import Field, Writer
from spe_unicorn.host.native.state.fields import StateRecord

_HOOKS: Final = Writer.HOOKS
ZEROING, ZEROING_TOLD = 1, 2
"""Bits of ``State.zeroing``."""
NO_LINE: Final = -1
"""``State.line`` where it is no address."""
CONTROLS_WRITTEN, RECORD_CONTROLS_WRITTEN = 1, 2
"""Bits of ``State.controls_written``."""


class Transit(ctypes.Structure):
    """The block, the samples and the stop of the current run; empty at a safe point.

    ``begin_run`` empties what only one run needs, and what Python has read by then. What Python
    acts on between two runs is emptied by the function below that says so, which the field names,
    or by ``nothing_is_due``. A field that describes a block, a sample or a stop counts only while
    there is one, and is then left as it is.
    """

    FIELDS: Final = (
        Field(
            "block",
            _HOOKS,
            "Address of the block that began last, or before which the engine stopped.",
        ),
        Field("block_operations", _HOOKS, "How many operations that block has."),
        Field(
            "attend",
            _HOOKS,
            "What blocks that count themselves (`inline`) have to count beside operations:"
            " `2 * tally + weigh`. One that counts anything else calls the block hook. -1 if all"
            " have to: an interrupt is pending, or the engine is to leave.",
        ),
        *(
            Field(
                f"tallied{n}",
                _HOOKS,
                f"Lanes {2 * n} and {2 * n + 1} of the sum over the blocks that have run."
                " `tallies_taken` empties it.",
            )
            for n in range(LANES // 2)
        ),
        Field(
            "jumps",
            _HOOKS,
            "Conditional branches at the end of a block that were taken. The branch of `falls_to`"
            " is not yet among them. `tallies_taken` empties it.",
        ),
        Field(
            "zeroing",
            _HOOKS,
            "The address of the last DC ZVA that the engine makes of stores of bytes, with ZEROING,"
            " or with ZEROING_TOLD once a core model has been told of it; 0: none.",
        ),
        Field("flow_twice", _HOOKS, "Whether the block that begins will begin a second time."),
        Field("flow_el", _HOOKS, "The Exception level of the block that begins."),
        Field("flow_then", _HOOKS, "The Exception level after that block."),
        Field("flow_now", _HOOKS, "What `flow` becomes by a branch to that block."),
        Field(
            "flow_asks",
            _HOOKS,
            "Whether the next block has to call the hook, as only that can tell whether a branch"
            " led there.",
        ),
        Field(
            "falls_to",
            _HOOKS,
            "The address after the conditional branch that ends the block that runs, 0 for none. If"
            " the next block is elsewhere, the branch was taken, and is added to `jumps`."
            " `way_known` empties it.",
        ),
        Field(
            "ending",
            _HOOKS,
            "For the core model: address of the `cores.predictor.BRANCH` of the branch that ends"
            " the current block; 0 if that block ends with none. `branch_resolved` empties it.",
        ),
        Field(
            "covering",
            _HOOKS,
            "For coverage, the number of the row of the block that runs, from 1, if there is more"
            " to be learned at it; -1 if the block that was executed last is not `block`.",
        ),
        Field("cover_row", _HOOKS, "What `covering` becomes if the block at hand runs."),
        Field("cover_keeps", _HOOKS, "Whether that block must go on calling the hook."),
        Field("special", _HOOKS, "Whether blocks have to be looked at before they run."),
        Field("watch", _HOOKS, "The marks of blocks to look out for at the PE's Exception level."),
        Field(
            "notes_fences",
            _HOOKS,
            "Whether context synchronization events at the end of blocks are noted in `fence`. 0"
            " where the engine stops before each of them, or none is to be told.",
        ),
        Field(
            "fence",
            _HOOKS,
            "How many operations will have been executed after the last context synchronization"
            " event that was noted in this run. It may not come, if its block is left before its"
            " end. 0: none. `begin_run` empties it.",
        ),
        Field("fence_before", _HOOKS, "`fence` as it was before that one."),
        Field(
            "samples_itself",
            _HOOKS,
            "Whether the hook takes the next `samples_allowed` samples by itself, `gaps` apart, as"
            " long as `epoch` is `gap_epoch`. 0 where samples are taken by stopping.",
        ),
        Field(
            "pending",
            _HOOKS,
            "How many members of the block that runs are chosen: rows of the table `chosen`, in"
            " order. `samples_over` empties it.",
        ),
        Field("noting", _HOOKS, "The first row of the operation of which the core model notes."),
        Field("probe", _HOOKS, "Address of the operation that a probe has to note; 0: none."),
        Field("slot", _HOOKS, "Where the block of the pending samples stands in the block table."),
        Field("physical", _HOOKS, "The physical address that the engine gave last for a virtual."),
        Field(
            "samples_in_ring",
            _HOOKS,
            "Samples in the ring that Python has not completed. `samples_taken` empties it.",
        ),
        Field(
            "line",
            _HOOKS,
            "Where in the host's memory the line lies that the core model's last access was to;"
            " NO_LINE if the next access is not to be compared with it.",
        ),
        Field(
            "line_stored",
            _HOOKS,
            "The line with which the next store is compared, as a load is with `line`. After a load"
            " it is NO_LINE where other PEs have caches: the first store has to be told to them.",
        ),
        Field(
            "wrong",
            _HOOKS,
            "Whether the members of the wrong path at `wrong_path` have to be counted yet, from the"
            " one `wrong_from` on. `wrong_path_taken` empties it.",
        ),
        Field("wrong_path", _HOOKS, "The address at which that wrong path begins."),
        Field("wrong_from", _HOOKS, "The first member of that wrong path that is not counted."),
        Field(
            "again",
            _HOOKS,
            "Not 0 if the next block has to begin anew: twice the budget that is left then, plus 1."
            " `begin_anew` empties it.",
        ),
        Field(
            "notice",
            _HOOKS,
            "Not 0 if the engine is to stop after the block: NOTICE_RETURN where the block ends in"
            " an ERET, else BUDGET_SPENT. `caught_up` and `begin_anew` empty it.",
        ),
        Field(
            "controls_written",
            _HOOKS,
            "Whether the guest has written a register that steers SPE or the hooks"
            " (CONTROLS_WRITTEN), or one of which only records tell (RECORD_CONTROLS_WRITTEN)."
            " `caught_up` empties it once what the write means has been worked out.",
        ),
        Field(
            "control_key",
            _HOOKS,
            "`Encoding.key` of the one register whose write has set `controls_written`; 0 if there"
            " were several writes, or the hook noted none by its key.",
        ),
        Field("control_value", _HOOKS, "The value that was written to the register `control_key`."),
        Field(
            "stale_code",
            _HOOKS,
            "Whether the engine has to forget all code after the block, because of instruction"
            " cache maintenance. `caught_up` empties it.",
        ),
        Field("level", _HOOKS, "The Exception level at which the ERET of `notice` was executed."),
        Field(
            "entered",
            _HOOKS,
            "Whether compiled code has entered an exception, which sets the event register."
            " Python hears of it at a WFE, SEV or SEVL.",
        ),
        Field(
            "event_due",
            _HOOKS,
            "Number, from 1, of the SEV in the block that runs; -1 less the Exception level of a"
            " WFE at its end that does not wait; 0: neither. No budget is left after that block,"
            " and the next one shows that it has been executed. Where the engine stops before"
            " that, Python sees how far the block came. `complete_event` and `begin_run` empty it.",
        ),
        Field(
            "event",
            _HOOKS,
            "The Event Register: whether there was an event, and no WFE since. `entered` is one.",
        ),
        Field("event_level", _HOOKS, "The Exception level of the last WFE."),
        Field(
            "restored",
            _HOOKS,
            "What the ERET at the end of the block that runs sets in PSTATE beside what the engine"
            " does, as `after_event` says; 0: nothing. `on_special_block`, `pstate_restored` and"
            " `begin_run` empty it.",
        ),
        Field("after_event", _HOOKS, "The budget from that next block on."),
        Field(
            "sent",
            _HOOKS,
            "Whether the engine has executed a SEV of which other PEs have to hear. `go_on` and"
            " `begin_run` empty it.",
        ),
        Field("vectors", _HOOKS, "The page of vectors that was last found to be there."),
        Field(
            "stop",
            _HOOKS,
            "Why a hook stopped the engine: a `Stop`. `answered` and `begin_run` empty it.",
        ),
        Field(
            "interrupt",
            _HOOKS,
            "The number by which the engine calls the exception of `Stop.EXCEPTION`.",
        ),
        Field("pc", _HOOKS, "The PC before the last exception that a hook was told of or entered."),
        Field("access_type", _HOOKS, "The engine's number of the kind of access that was refused."),
        Field("access_address", _HOOKS, "The physical address of the access that was refused."),
        Field("key", _HOOKS, "`Encoding.key` of the system access that Python has to make."),
        Field("kind", _HOOKS, "Whether the System access at `key` is a READ, WRITE or SYSTEM."),
        Field("rt", _HOOKS, "The engine's number of the general register of that System access."),
        Field("scratch", _HOOKS, "Room for one value that an engine function reads or writes."),
        Field(
            "looked_at_pc",
            _HOOKS,
            "The PC of the System access before which a hook stopped the run, plus 1; 0: none."
            " `begin_run` empties it.",
        ),
        Field(
            "rose",
            _HOOKS,
            "PEs whose interrupt lines rose and of which Python has to hear, a bit each."
            " `go_on` and `begin_run` empty it.",
        ),
        Field(
            "uart_sent",
            _HOOKS,
            "Characters in the table `uart` that compiled code has taken from the guest."
            " `go_on` and `begin_run` empty it.",
        ),
        Field(
            "notes_held",
            _HOOKS,
            "Operations in the ring `notes` that Python has not taken. `notes_taken` empties it.",
        ),
        Field(
            "allocating",
            _HOOKS,
            "How many calls of an allocator have not returned, if that matters.",
        ),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]


@routine
def forget_access(state: StateRecord) -> None:
    """Compare the next access with no line: the core model has to be told of it."""
    state.line = state.line_stored = NO_LINE


@routine
def work_out_special(state: StateRecord) -> None:
    """Work ``special`` and ``attend`` out anew."""
    state.special = (
        state.watch | state.deliver | state.weigh | state.samples_allowed | state.tally
    ) != 0
    watched = state.covering | state.cover_row  # of this block, and of the one that may run next
    others = state.deliver | state.notice | state.unattended | state.steps | watched
    asked = state.allocating | state.flow_asks
    state.attend = -1 if others | asked != 0 else 2 * state.tally + state.weigh


@routine
def answered(state: StateRecord) -> None:
    """What stopped the run has been answered: it goes on."""
    state.stop = 0
    work_out_special(state)


@routine
def go_on(state: StateRecord) -> None:
    """As :func:`answered`, by Python, which has passed on what the run had for others."""
    state.rose = state.uart_sent = state.sent = 0
    answered(state)


# Messages: what is left for Python, and that Python has acted on it


@routine
def note_controls(state: StateRecord, which: int) -> None:
    """Note that the guest has written a register: CONTROLS_WRITTEN, RECORD_CONTROLS_WRITTEN."""
    state.controls_written |= which


@routine
def caught_up(state: StateRecord) -> None:
    """What had to be done after the block has been done."""
    state.notice = state.controls_written = state.stale_code = 0


@routine
def nothing_is_due(state: StateRecord) -> None:
    """Python has acted on what the hooks noticed, or it is not needed."""
    caught_up(state)
    state.pending = state.event_due = state.sent = 0


@routine
def pstate_restored(state: StateRecord) -> None:
    """PSTATE has what an ERET sets in it, or the ERET was not executed."""
    state.restored = 0


@routine
def is_told_twice(state: StateRecord) -> bool:
    """Whether the block that begins will begin a second time; to be asked once."""
    twice: bool = state.flow_twice != 0
    state.flow_twice = 0
    return twice


@routine
def put_event(state: StateRecord, event: int, level: int) -> None:
    """Set the Event Register, and the Exception level of the last WFE."""
    state.event, state.event_level = event, level


@routine
def set_event(state: StateRecord) -> None:
    """There was an event."""
    state.event = 1


@routine
def is_event(state: StateRecord, el: int) -> bool:
    """Whether a WFE at an Exception level does not wait."""
    return state.event | state.entered != 0 or el < state.event_level


@routine
def take_event(state: StateRecord, el: int) -> None:
    """A WFE has been executed at an Exception level. Nothing is left of an event."""
    state.entered = 0
    put_event(state, 0, el)


@routine
def complete_event(state: StateRecord) -> None:
    """The block before has been executed, and what changes Event Registers in it."""
    if state.event_due > 0:
        state.sent = 1
        set_event(state)
    elif state.event_due < 0:
        take_event(state, -1 - state.event_due)
    state.event_due = 0


@routine
def set_entered(state: StateRecord, entered: int) -> None:
    """Say whether compiled code has entered an exception of which the event register must hear."""
    state.entered = entered


@routine
def zeroed_by_engine(state: StateRecord, zeroing: int) -> None:
    """Note the DC ZVA that the engine makes of stores of bytes, as ``State.zeroing``."""
    state.zeroing = zeroing


@routine
def samples_taken(state: StateRecord) -> None:
    """The samples in the ring have been completed, or are to be forgotten."""
    state.samples_in_ring = 0


@routine
def samples_over(state: StateRecord) -> None:
    """The pending samples have been noted or completed, or their operations were not executed."""
    state.pending = 0


@routine
def notes_taken(state: StateRecord) -> None:
    """The operations in the ring ``notes`` have been taken."""
    state.notes_held = 0


@routine
def wrong_path_taken(state: StateRecord) -> None:
    """The wrong path has been counted, or is to be forgotten."""
    state.wrong = 0


@routine
def tallies_taken(state: StateRecord) -> None:
    """What compiled code has added up has been taken."""
    state.tallied0 = state.tallied1 = state.tallied2 = state.tallied3 = state.jumps = 0


@routine
def way_known(state: StateRecord) -> None:
    """Which way the conditional branch at the end of the block went has been counted."""
    state.falls_to = 0


@routine
def branch_resolved(state: StateRecord) -> None:
    """The core model has been told of the branch at the end of the block, or is not to be."""
    state.ending = 0
