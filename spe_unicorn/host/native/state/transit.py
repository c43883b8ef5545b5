"""What concerns the present run and the last stop. Nothing of it outlives a safe point."""

from __future__ import annotations

import ctypes
from typing import Final

from spe_unicorn.compiled import routine
from spe_unicorn.host.native.state.block_table import LANES
from spe_unicorn.host.native.state.field import Field, Writer
from spe_unicorn.host.native.state.fields import StateRecord

_HOOKS, _TURNS = Writer.HOOKS, Writer.TURNS
NO_LINE: Final = -1
"""``State.line`` where it is no address."""
CONTROLS_WRITTEN, RECORD_CONTROLS_WRITTEN = 1, 2
"""Bits of ``State.controls_written``."""


class Transit(ctypes.Structure):
    """The block, the samples and the stop of the current run; empty at a safe point.

    ``begin_run`` empties what one run alone needs. What Python has to act on is emptied by the
    function that acts on it, which the field names, or by ``State.nothing_is_due``. A field that
    describes a block, a sample or a stop counts only while there is one, and is then left as it is.
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
            _TURNS,
            "What blocks that count themselves (`inline`) have to count beside operations:"
            " `2 * tally + weigh`. One that counts anything else calls the block hook. -1 if all"
            " have to: an interrupt is pending, or the engine is to leave.",
        ),
        *(
            Field(
                f"tallied{n}",
                _HOOKS,
                f"Lanes {2 * n} and {2 * n + 1} of the sum over the blocks that have run."
                " `State.take_tallied` empties it.",
            )
            for n in range(LANES // 2)
        ),
        Field(
            "jumps",
            _HOOKS,
            "Conditional branches at the end of a block that were taken. The branch of `falls_to`"
            " is not yet among them. `State.take_tallied` empties it.",
        ),
        Field(
            "falls_to",
            _TURNS,
            "The address after the conditional branch that ends the block that runs, 0 for none. If"
            " the next block is elsewhere, the branch was taken, and is added to `jumps`."
            " `Tallies.after_block` empties it.",
        ),
        Field(
            "ending",
            _TURNS,
            "Where a `cores.predictor.BRANCH` tells of the branch that ends the block that began"
            " last, for the core model; 0 if that block ends with none. `ModelHooks.stopped`"
            " empties it.",
        ),
        Field("special", _TURNS, "Whether blocks have to be looked at before they run."),
        Field("watch", _TURNS, "The marks of blocks to look out for at the PE's Exception level."),
        Field(
            "notes_fences",
            _TURNS,
            "Whether context synchronization events at the end of blocks are noted in `fence`. 0"
            " where the engine stops before each of them, or nobody is told.",
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
            _TURNS,
            "Whether the hook takes the next `room` samples by itself, `gaps` apart, as long as"
            " `epoch` is `gap_epoch`. 0 where samples are taken by stopping.",
        ),
        Field(
            "pending",
            _TURNS,
            "Number, from 1, of the chosen member of the block that runs; 0: none. `_note_sample`"
            " empties it when it notes the sample. `Population.complete_pending` empties it when it"
            " completes the member after a stop.",
        ),
        Field("probe", _HOOKS, "Address of the operation that a probe has to note; 0: none."),
        Field("slot", _HOOKS, "Where the block of the pending sample stands in the block table."),
        Field("plan", _HOOKS, "First word of the pending sample's plan."),
        Field("access", _HOOKS, "Second word of the pending sample's plan (`PLAN.access`)."),
        Field("instruction", _HOOKS, "Number of the pending sample's instruction."),
        Field("physical", _HOOKS, "The physical address that the engine gave last for a virtual."),
        Field("base", _HOOKS, "Value of the pending sample's base register, as noted."),
        Field("index", _HOOKS, "Value of the pending sample's index register, as noted."),
        Field("flags", _HOOKS, "Condition flags at the pending sample, as noted."),
        Field(
            "samples_in_ring",
            _TURNS,
            "Samples in the ring that Python has not completed. `SampleRing.take` empties it.",
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
            _TURNS,
            "Whether Python has to look at the wrong path at `wrong_path`. `WrongPaths.take`"
            " empties it.",
        ),
        Field("wrong_path", _HOOKS, "The address at which that wrong path begins."),
        Field(
            "again",
            _HOOKS,
            "Not 0 if the next block has to begin anew: twice the budget that is left then, plus 1."
            " `begin_anew` empties it.",
        ),
        Field(
            "notice",
            _TURNS,
            "Not 0 if the engine is to stop after the block: NOTICE_RETURN where the block ends in"
            " an ERET, else BUDGET_SPENT. `HostOperations.catch_up` and `begin_anew` empty it.",
        ),
        Field(
            "controls_written",
            _TURNS,
            "Whether the guest has written a register that steers SPE or the hooks"
            " (CONTROLS_WRITTEN), or one of which only records tell (RECORD_CONTROLS_WRITTEN)."
            " `HostOperations.catch_up` empties it once it has worked out what the write means.",
        ),
        Field(
            "control_key",
            _TURNS,
            "`Encoding.key` of the one register whose write has set `controls_written`; 0 if there"
            " were several writes, or the hook noted none by its key.",
        ),
        Field("control_value", _HOOKS, "The value that was written to the register `control_key`."),
        Field(
            "stale_code",
            _TURNS,
            "Whether the engine has to forget all code after the block, because of instruction"
            " cache maintenance. `HostOperations.catch_up` empties it.",
        ),
        Field("level", _HOOKS, "The Exception level at which the ERET of `notice` was executed."),
        Field(
            "entered",
            _TURNS,
            "Whether compiled code has entered an exception, which sets the event register."
            " `StopHandler.handle` empties it at a WFE, SEV or SEVL.",
        ),
        Field(
            "sev",
            _TURNS,
            "Number, from 1, of the SEV in the block that runs; 0: none. No budget is left after"
            " that block, and the next block shows that the SEV has been executed. Where the engine"
            " stops before that, Python sees how far the block came. `Accounts.settle` and"
            " `on_special_block` empty it.",
        ),
        Field("after_sev", _HOOKS, "The budget from that next block on."),
        Field(
            "sent",
            _TURNS,
            "Whether the engine has executed a SEV of which Python has to hear. `EngineRuns.run`"
            " empties it after each run of the engine.",
        ),
        Field("vectors", _HOOKS, "The page of vectors that was last found to be there."),
        Field("stop", _TURNS, "Why a hook stopped the engine: a `Stop`. `begin_run` empties it."),
        Field(
            "interrupt",
            _HOOKS,
            "The number by which the engine calls the exception of `Stop.EXCEPTION`.",
        ),
        Field("pc", _HOOKS, "The PC before the last exception that a hook was told of or entered."),
        Field("access_type", _HOOKS, "The engine's number of the kind of access that was refused."),
        Field("access_address", _HOOKS, "The physical address of the access that was refused."),
        Field("key", _TURNS, "`Encoding.key` of the system access that Python has to make."),
        Field("kind", _TURNS, "Whether the System access at `key` is a READ, WRITE or SYSTEM."),
        Field("rt", _TURNS, "The engine's number of the general register of that System access."),
        Field("scratch", _HOOKS, "Room for one value that an engine function reads or writes."),
        Field(
            "looked_at_pc",
            _TURNS,
            "The PC of the System access before which a hook stopped the run, plus 1; 0: none."
            " `UnicornCPU.stand` empties it.",
        ),
        Field(
            "rose",
            _TURNS,
            "PEs whose interrupt lines rose and of which Python has to hear, a bit each."
            " `EngineRuns.run` empties it after each run of the engine.",
        ),
        Field(
            "uart_sent",
            _TURNS,
            "Characters in the table `uart` that compiled code has taken from the guest."
            " `EngineRuns.run` empties it after each run of the engine.",
        ),
        Field(
            "notes_held",
            _TURNS,
            "Operations in the ring `notes` that Python has not taken. `Observers.take` empties"
            " it.",
        ),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]


@routine
def forget_access(s: StateRecord) -> None:
    """Compare the next access with no line: the core model has to be told of it."""
    s.line = s.line_stored = NO_LINE


@routine
def begin_epoch(s: StateRecord) -> None:
    """From here on addresses may mean other code and data."""
    s.epoch += 1


@routine
def work_out_special(s: StateRecord) -> None:
    """Work ``special`` and ``attend`` out anew."""
    s.special = (s.watch | s.deliver | s.weigh | s.room | s.tally) != 0
    apart = s.deliver | s.notice | s.unattended | s.steps
    s.attend = -1 if apart != 0 else 2 * s.tally + s.weigh
