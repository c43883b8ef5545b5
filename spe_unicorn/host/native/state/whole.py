"""What compiled hooks and Python share: the state, the tables, and what the numbers mean."""

from __future__ import annotations

import ctypes
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from unicorn import UC_PROT_EXEC

from spe_unicorn.compiled import routine


class Stop(IntEnum):
    """Why a hook stopped the engine."""

    NONE = 0
    """No hook did: WFI, ``until``, an engine error, or a stop that the user asked for."""
    BUDGET = 1
    """Before a block that has more operations than the budget has left."""
    EXCEPTION = 3
    """The guest took an exception; the engine has not entered a vector."""
    SYSTEM = 4
    """Before an MRS, MSR or SYS that Python answers."""
    UNMAPPED = 5
    """Before an access to memory that the engine does not have."""
    NOTICED = 6
    """After an ERET or a write to a steering register, before what follows it."""
    UNSEEN = 7
    """Before a block that the block table does not hold."""
    INTERRUPT = 8
    """Before a block, with an interrupt to be taken."""
    TRAP = 9
    """Before a block that has an operation which traps here and the engine would execute."""
    MISALIGNED = 10
    """Before a block at an address that is not a multiple of 4."""
    WRONG_PATH = 11
    """Before a block, with a wrong path that Python is to look at."""
    ACCESS = 12
    """Before an operation whose alignment or accesses have to be looked at, or at a breakpoint."""
    UNTRANSLATED = 13
    """Before a block that the engine cannot translate (``host.engine.surviving``)."""


class Action(IntEnum):
    """What the hook for MRS, MSR or SYS does with an encoding."""

    ENGINE = 0
    """The engine executes the access."""
    STOP = 1
    """Python executes the access, between two runs. Only for registers that the engine lacks: it
    ends a block at such an access, and would run on to the end of the block at others."""
    CELL = 2
    """An MRS reads what the table ``cells`` holds. Only for registers that the engine has."""
    COUNT = 3
    """An MRS reads guest time: executed operations in ticks, less the offset in ``cells``."""
    TRANSLATION = 4
    """The engine executes the access. Translations that the host keeps are then invalid."""
    NOTICE = 5
    """The engine executes the access and, if the value is new in bits that the table ``matters``
    has, stops after it."""
    ASK = 6
    """A Python function answers, with an :class:`Answer`."""
    REGIME = 7
    """NOTICE and TRANSLATION in one."""
    CODE = 8
    """Instruction cache maintenance: TRANSLATION, and the engine stops after the block."""
    LINE = 9
    """Instruction cache maintenance of one line, which the engine forgets at once."""
    RETURN = 10
    """The engine executes the access to an SPSR_ELx, and stops after it if that makes or ends a
    return which the engine does not know of (``State.suspect``)."""
    GIC = 13
    """Compiled code answers for the CPU interface of the GIC where ``State.gic_at`` says so.
    Elsewhere as STOP."""
    SAMPLING = 14
    """An MRS of a register that moves with each sample: compiled code answers where
    ``State.sampling_at`` says so. Elsewhere as STOP."""
    RECORDS = 11
    """NOTICE for a register that matters to records alone. While none are made, as ENGINE."""
    EL12 = 16
    """An _EL12 name, which the engine lacks: at EL2 the register of EL1 is accessed, elsewhere
    Python answers. The actions after this are the same for a write to a register of EL1 whose
    own name has the action that is 16 less."""
    EL12_TRANSLATION = 20
    EL12_NOTICE = 21
    EL12_REGIME = 23
    EL12_RETURN = 26
    EL12_RECORDS = 27
    ALIAS = 32
    """A name of EL1 that means a register of EL2 at EL2, by the table ``aliases``. Python answers
    where compiled code does not. The actions after this are the same where the access elsewhere has
    the action that is 32 less."""
    ALIAS_TRANSLATION = 36
    ALIAS_NOTICE = 37
    ALIAS_REGIME = 39
    ALIAS_RETURN = 42
    ALIAS_RECORDS = 43


class Answer(IntEnum):
    """What Python says to :attr:`Action.ASK`, in the middle of a run."""

    ENGINE = 0
    """The engine executes the access."""
    DONE = 1
    """It is done."""
    STOP = 2
    """As with :attr:`Action.STOP`, so only for registers that the engine lacks."""
    NOTICE = 3
    """It is done, and the engine stops after the access, which ends its block."""


class Writer(Enum):
    """Who writes a field. The hooks write while the engine runs, Python while it stands.

    Decision record 0040 says why each of TURNS is not written by one side alone.
    """

    ONCE = "whoever builds the machine, once"
    PYTHON = "Python, between two runs of the engine"
    HOOKS = "the hooks, during a run; Python resets it by the methods of State alone"
    TURNS = "the hooks during a run, Python between two or when a hook asks it"


class Field(NamedTuple):
    """A field of the state, a signed number of 64 bits: its name, who writes it, what it means."""

    name: str
    writer: Writer
    meaning: str


_ONCE, _PYTHON, _HOOKS, _TURNS = Writer


LANES: Final = 8
"""Events of words that compiled code adds up at once."""
ROW: Final = LANES // 2 + 1
"""Words of a row of the table `tallies`: two lanes each, and all ones where the block ends with a
conditional branch whose way matters."""


_TALLIED: Final = (*(f"tallied{n}" for n in range(LANES // 2)), "jumps")


class Clock(ctypes.Structure):
    """What is counted, and what else a saved machine needs to go on. Counts are in operations."""

    FIELDS: Final = (
        Field(
            "granted",
            _TURNS,
            "Operations granted since the machine began: `granted - budget` have been executed, up"
            " to the end of the block that began last.",
        ),
        Field(
            "members_granted",
            _TURNS,
            "Where a cracker makes micro-operations: the members of the population granted since"
            " the machine began, of which `members_granted - members` have been counted.",
        ),
        Field("skipped", _PYTHON, "Cycles that the PE has slept."),
        Field("unretired", _TURNS, "Operations executed that ended in an exception of their own."),
        Field("epoch", _TURNS, "Counts changes of what addresses of code and data mean."),
        Field(
            "writes",
            _TURNS,
            "Counts writes of the registers that the hooks notice. A value that Python keeps of"
            " such a register holds while this number stays.",
        ),
        Field(
            "flushes",
            _TURNS,
            "Counts operations that empty a PE's whole TLB, or all of it of an address space.",
        ),
        Field(
            "maintenance",
            _TURNS,
            "Maintenance of which other PEs have to hear: TLB_MAINTENANCE, CODE_MAINTENANCE,"
            " FLUSH_MAINTENANCE.",
        ),
        Field(
            "line_count", _TURNS, "Single lines of instruction caches in the table `code_lines`."
        ),
        Field("flow", _HOOKS, "Exception level after the last taken branch, with FLOW_VALID."),
        Field("flow_target", _HOOKS, "Where the last taken branch went."),
        Field("flow_next", _TURNS, "Where the next operation is if there is no branch."),
        Field("flow_was", _HOOKS, "Whether profiling was enabled in the block before."),
        Field("taken_to", _TURNS, "Target EL of the last exception taken, 0 for none."),
        Field("taken_after", _TURNS, "Operations executed before the entry of that exception."),
        Field("taken_kind", _TURNS, "The `arch.exceptions.ExceptionType` of that exception."),
        Field("taken_pc", _TURNS, "The PC before that exception."),
        Field("taken_pstate", _TURNS, "PSTATE before that exception."),
        Field(
            "taken_esr", _TURNS, "ESR_ELx after that exception, where `taken_has` has TAKEN_ESR."
        ),
        Field(
            "taken_far", _TURNS, "FAR_ELx after that exception, where `taken_has` has TAKEN_FAR."
        ),
        Field("taken_has", _TURNS, "Which of the last two hold: TAKEN_ESR, TAKEN_FAR."),
        Field(
            "members",
            _TURNS,
            "Where a cracker makes micro-operations: members of the population left before the"
            " chosen one, while `weigh` is set.",
        ),
        Field(
            "budget", _TURNS, "Operations left of those granted; the hooks stop before the next."
        ),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]


class Transit(ctypes.Structure):
    """The block, the samples and the stop of the current run; empty at a safe point.

    ``State.begin`` empties what one run alone needs. What Python has to act on is emptied by the
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
                f"Lanes {2 * n} and {2 * n + 1} of the sum over the blocks that have run since"
                " `State.take_tallied` emptied it.",
            )
            for n in range(LANES // 2)
        ),
        Field(
            "jumps",
            _HOOKS,
            "Conditional branches at the end of a block that were taken, since"
            " `State.take_tallied`; the branch of `falls_to` is not yet among them.",
        ),
        Field(
            "falls_to",
            _TURNS,
            "The address after the conditional branch that ends the block that runs, 0 for none. If"
            " the next block is elsewhere, the branch was taken, and is added to `jumps`."
            " `Tallies.after_block` empties it.",
        ),
        Field("special", _TURNS, "Whether blocks have to be looked at before they run."),
        Field("watch", _TURNS, "The marks of blocks to look out for at the PE's Exception level."),
        Field(
            "samples_itself",
            _TURNS,
            "Whether the hook takes the next `room` samples by itself, `gaps` apart, as long as"
            " `epoch` is `gap_epoch`. 0 where samples are taken by stopping.",
        ),
        Field(
            "pending",
            _TURNS,
            "Number, from 1, of the chosen member of the block that runs; 0: none. The hook empties"
            " it when it notes the sample, Python when it completes the member after a stop.",
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
            " an ERET, else BUDGET_SPENT. `HostOperations.catch_up` empties it, `begin_anew` too.",
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
            " cache maintenance. `HostOperations.catch_up` has it do so, and empties this.",
        ),
        Field("level", _HOOKS, "The Exception level at which the ERET of `notice` was executed."),
        Field(
            "entered",
            _TURNS,
            "Whether compiled code has entered an exception, which sets the event register."
            " `StopHandler` empties it at a WFE, SEV or SEVL.",
        ),
        Field("vectors", _HOOKS, "The page of vectors that was last found to be there."),
        Field("stop", _TURNS, "Why a hook stopped the engine: a `Stop`. `State.begin` empties it."),
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
            " `EngineRuns` empties it after each run of the engine.",
        ),
        Field(
            "notes_held",
            _TURNS,
            "Operations in the ring `notes` that Python has not taken. `Observers` empties it.",
        ),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]


class Steer(ctypes.Structure):
    """What Python has worked out for the hooks; it can be worked out again at any time.

    Hooks replace some of it by what Python has worked out before (``registers.switches``).
    """

    FIELDS: Final = (
        Field(
            "control_set",
            _TURNS,
            "The row of the table `control_sets` that holds; 0 if no write may lead to another.",
        ),
        Field("level_marks", _TURNS, "Marks of what traps, LEVEL_BITS each Exception level."),
        Field(
            "class_pairs",
            _PYTHON,
            "Bit `4 * a + b`: sampling, checks and counters are the same at EL a and EL b.",
        ),
        Field("plain_entries", _TURNS, "Bit `4 * a + b`: exceptions from EL a to EL b are plain."),
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
            _TURNS,
            "Pending interrupts. Four bits for each Exception level from EL0 up: IRQ, IRQ unless"
            " PSTATE.I, FIQ, FIQ unless PSTATE.F; above them one bit for each: SError unless"
            " PSTATE.A.",
        ),
        Field(
            "irq_targets",
            _TURNS,
            "Two bits for each Exception level: where an IRQ goes from there. 0 where it is not"
            " alone in what is pending, or Python enters it.",
        ),
        Field("lines", _TURNS, "The levels of the physical inputs: 1 for IRQ, 2 for FIQ."),
        Field(
            "deliver_irq",
            _TURNS,
            "`deliver` while IRQ alone is asserted; -1 where more counts than IRQ and FIQ.",
        ),
        Field("irq_alone", _TURNS, "`irq_targets` while IRQ alone is asserted."),
        Field("deliver_fiq", _TURNS, "`deliver` while FIQ alone is asserted."),
        Field(
            "waits",
            _PYTHON,
            "Whether Python has to hear at once when a line of this PE rises: the PE sleeps, or its"
            " getting something to do ends another PE's turn.",
        ),
        Field(
            "gic_at",
            _TURNS,
            "A bit for each Exception level: the CPU interface of the GIC is answered there in"
            " compiled code.",
        ),
        Field(
            "sampling_at",
            _PYTHON,
            "A bit for each Exception level: PMBPTR_EL1, PMBSR_EL1 and PMSICR_EL1 are read there in"
            " compiled code.",
        ),
        Field("room", _PYTHON, "Samples that the hook may take by itself in this run."),
        Field("horizon", _PYTHON, "Executed operations at which this run is to stop."),
        Field(
            "limit",
            _PYTHON,
            "Executed operations that no block of this run may pass: one that would is not begun.",
        ),
        Field("gap_epoch", _PYTHON, "The `epoch` for which `samples_itself` holds."),
        Field(
            "tally",
            _PYTHON,
            "Not 0 if the rows of the table `tallies` are added up: twice the number of the events"
            " in them, and 1 more if one of those depends on which way branches go.",
        ),
        Field("weigh", _PYTHON, "Whether members are counted by the weights of blocks."),
        Field("speculates", _PYTHON, "Whether operations on wrong paths are members."),
        Field(
            "collects",
            _PYTHON,
            "Whether a write to a register of which only records tell is noticed: profiling is"
            " enabled at some Exception level, or there is a watcher or a follower of the context.",
        ),
        Field(
            "relevant",
            _PYTHON,
            "The marks that blocks have been looked out for since the last slice ended. Only blocks"
            " with none of them are counted inline.",
        ),
        Field("watch_at", _TURNS, "`watch` for each Exception level, LEVEL_BITS each."),
        Field(
            "entries",
            _TURNS,
            "Bit `4 * a + b`: an exception from EL a to EL b is entered in compiled code.",
        ),
        Field("own_calls", _PYTHON, "Calls that nobody but the guest answers: OWN_HVC, OWN_SMC."),
        Field("alike", _TURNS, "Bit `4 * a + b`: a return from EL a to EL b needs no stop."),
        Field("counters", _TURNS, "Two bits for each EL: CNTPCT and CNTVCT may be read there."),
        Field(
            "suspect",
            _TURNS,
            "A bit for each EL: an ERET there would be illegal, or return with PSTATE.IL.",
        ),
        Field(
            "legal_returns",
            _TURNS,
            "16 bits for each EL from EL1 up: the values of SPSR_ELx.M[3:0] that are legal.",
        ),
        Field(
            "trapping",
            _TURNS,
            "Table of what traps now: a byte for each number of `trap_id`, a bit for each EL.",
        ),
        Field("checking", _PYTHON, "What is checked before operations: bits of `checks`."),
        Field("watched", _PYTHON, "Rows of the table `ranges` that are in use."),
        Field(
            "engine_identity",
            _TURNS,
            "What identification the engine answers at EL1: 1 MIDR_EL1 and MPIDR_EL1, which EL2"
            " chooses; 2 the ID registers, which trap.",
        ),
        Field(
            "begins_anew",
            _PYTHON,
            "Whether the hooks may have a block begin a second time: neither a core model nor the"
            " branch flow, which would count it twice, is told of blocks.",
        ),
        Field("sve", _PYTHON, "Whether the core has SVE: else its traps are not what they seem."),
        Field("flow_enabled", _PYTHON, "Whether profiling is enabled in this run."),
        Field("flow_el", _PYTHON, "The Exception level of this run."),
        Field(
            "unattended",
            _PYTHON,
            "Whether the user of the plugin runs the engine by `emu_start`: no hook stops it then.",
        ),
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]


class Wiring(ctypes.Structure):
    """Addresses of functions and tables, and what is settled when a machine is built."""

    FIELDS: Final = tuple(
        Field(name, _ONCE, meaning)
        for name, meaning in (
            ("model_hook", "The core model's hook for blocks, called before all; 0: none."),
            ("model", "The state that `model_hook` is given (`model.ModelState`)."),
            ("access_hook", "What code that compares lines calls for another line."),
            ("store_hook", "What that code calls for a store that the engine's TLB does not have."),
            ("special_hook", "The hook for blocks that the block hook does not count by itself."),
            ("quick", "Table of blocks known to be harmless, by `slot_of`."),
            ("inline", "What inline counting shares with Python (`inline.INLINE`); 0 without it."),
            ("inline_hook", "What replaces calls of the block hook."),
            ("weights", "Table of how many members each block has."),
            ("block_keys", "Table of blocks: address XOR operations."),
            ("block_epochs", "Table of the epochs for which the rows of `block_keys` hold."),
            ("block_marks", "Table of the marks of blocks."),
            ("trapped", "Table of what is or was trapped: a byte for each number of `trap_id`."),
            ("block_plans", "Table of where the plans of blocks begin in `plans`."),
            ("plans", "The pool of plans and code."),
            ("actions", "Tables of an `Action` for each encoding: MRS, MSR, SYS."),
            ("cells", "Table of values for each encoding."),
            ("aliases", "Table of `Encoding.key` of what names of EL1 mean to a host at EL2."),
            ("matters", "Table of the bits of each register whose change is noticed."),
            ("tallies", "Table of what each block adds to the lanes, by `slot_of`."),
            ("samples", "The ring of samples: rows of SAMPLE."),
            ("gaps", "Members from each sample in the ring to the one after it."),
            ("sampling_register", "The function that reads a register for `Action.SAMPLING`."),
            ("sampling_registers", "What `sampling_register` knows of the unit that samples."),
            ("wrong_paths", "Table of walks: rows of `wrong_paths.WALK`."),
            ("checks", "Table of operations that are checked: rows of `checks.CHECK`."),
            ("ranges", "Table of watched ranges: rows of `checks.RANGE`."),
            ("looked_at", "Tables of the encodings that observers look at: MRS, MSR, SYS."),
            ("notes", "The ring of operations for a trace: rows of `checks.NOTED`."),
            ("code_lines", "Table of physical addresses of lines of code."),
            ("gic", "Table of the PEs of the interrupt controller: rows of `gic.GIC_PE`."),
            ("gic_pes", "Rows of the table `gic`: the PEs of the machine."),
            ("gic_own", "The row of the table `gic` that is this PE's."),
            ("control_sets", "Table of what sets of controls mean: rows of `switches.SET`."),
            ("control_switches", "Table of writes from set to set: rows of `switches.SWITCH`."),
            ("named", "HCR_EL2 and SCTLR_EL3 as the engine names registers."),
            ("saved_states", "SPSR_EL1, SPSR_EL2 and SPSR_EL3, named in the same way."),
            ("alias", "Room for any register of EL1 or EL2, named in the same way."),
            ("system_controls", "SCTLR_EL1, SCTLR_EL2 and SCTLR_EL3, named in the same way."),
            ("values", "Room for what the steps of a recipe give."),
            ("entry_pstate", "Table of what an exception leaves of PSTATE and what it sets."),
            ("code", "Room for the words of one block."),
            ("context", "Room for a saved state of the engine."),
            ("exception", "Where in `context` the engine describes an exception."),
            ("ask", "The function of Python that answers `Action.ASK`."),
            ("data_side", "The words of the core model's caches and TLBs; 0 without such a model."),
            ("predictor", "The words of the core model's branch predictor."),
            ("emu_stop", "`uc_emu_stop`."),
            ("reg_read", "`uc_reg_read`."),
            ("reg_write", "`uc_reg_write`."),
            ("context_save", "`uc_context_save`."),
            ("context_restore", "`uc_context_restore`."),
            ("context_write", "`uc_context_reg_write`."),
            ("vmem_translate", "`uc_vmem_translate`."),
            ("vmem_read", "`uc_vmem_read`."),
            ("control", "`uc_ctl`."),
            ("weighed", "Whether the population can be micro-operations."),
            ("pc_mask", "The bits of the PC that must be 0."),
            ("ticks_of", "Ticks that the system counter goes in `cycles_of` cycles."),
            ("cycles_of", "Cycles in which the system counter goes `ticks_of` ticks."),
        )
    )
    _fields_ = [(field.name, ctypes.c_int64) for field in FIELDS]


PARTS: Final = (Clock, Transit, Steer, Wiring)
"""The four parts of the state, in the order in which they lie in memory."""


class State(ctypes.Structure):
    """What compiled hooks and Python share, in four parts; each field is also one of the whole."""

    _fields_ = [(part.__name__.lower(), part) for part in PARTS]
    _anonymous_ = tuple(part.__name__.lower() for part in PARTS)

    def begin(self, budget: int, samples_itself: bool = False) -> None:
        """Begin a run of the engine, with ``budget`` operations and nothing to look out for.

        With ``samples_itself`` the hook may take :attr:`room` samples by itself. What the run is to
        look out for is set after this, and then :meth:`ready` is called.
        """
        grant(self, budget)
        self.samples_itself = samples_itself
        if not samples_itself:
            self.room = 0
        self.watch = self.entries = self.weigh = self.tally = self.speculates = self.checking = 0
        self.gic_at = self.sampling_at = self.control_set = self.control_key = 0
        forget_access(self)
        self.stop = self.probe = self.looked_at_pc = self.again = self.begins_anew = 0
        self.special = False
        self.attend = 0

    def ready(self) -> None:
        """Finish what :meth:`begin` began, after what steers the run has been set."""
        self.gap_epoch = self.epoch
        self.update_special()

    def update_special(self) -> None:
        """Work :attr:`special` and :attr:`attend` out anew."""
        work_out_special(self)

    def take_tallied(self) -> tuple[list[int], int]:
        """Take what compiled code has added up since the last call: each lane, and ``jumps``."""
        words: list[int] = [getattr(self, name) for name in _TALLIED]
        self.tallied0 = self.tallied1 = self.tallied2 = self.tallied3 = self.jumps = 0
        jumps = words.pop()
        return [word >> shift & 0xFFFF_FFFF for word in words for shift in (0, 32)], jumps

    def nothing_is_due(self) -> None:
        """Empty what the hooks noticed: Python has acted on it, or nobody needs it."""
        self.notice = self.controls_written = self.stale_code = self.pending = 0


LAYOUT: Final = np.dtype([(field.name, np.int64) for part in PARTS for field in part.FIELDS])
"""The state as compiled hooks see it: all fields in a row."""
BUDGET_SPENT: Final = 1
"""``State.notice`` where the engine stops after the block for another reason than an ERET."""
NO_LINE: Final = -1
"""``State.line`` where it is no address."""
UNBOUNDED: Final = 1 << 60
"""A budget that no run exhausts."""
CONTROLS_WRITTEN, RECORD_CONTROLS_WRITTEN = 1, 2
"""Bits of ``State.controls_written``."""
OWN_HVC, OWN_SMC = 1, 2
"""Bits of ``State.own_calls``."""
TAKEN_ESR, TAKEN_FAR = 1, 2
"""Bits of ``State.taken_has``."""


@routine
def forget_access(s: Any) -> None:
    """Compare the next access with no line: the core model has to be told of it."""
    s.line = s.line_stored = NO_LINE


@routine
def grant(s: Any, budget: Any) -> None:
    """From here on ``budget`` operations are left; how many have been executed stays."""
    s.granted += budget - s.budget
    s.budget = budget


@routine
def work_out_special(s: Any) -> None:
    """Work ``special`` and ``attend`` out anew."""
    s.special = (s.watch | s.deliver | s.weigh | s.room | s.tally) != 0
    s.attend = -1 if s.deliver != 0 or s.notice != 0 else 2 * s.tally + s.weigh


@routine
def end_after_block(s: Any) -> None:
    """Have the engine stop after the block that runs."""
    s.notice = BUDGET_SPENT
    grant(s, 0)


@routine
def begin_anew_after_block(s: Any) -> None:
    """Have the next block begin anew (:func:`begin_anew`), or the engine stop before it.

    For a hook in whose midst the PC was written. After that the engine no longer says, at a stop in
    the same run, at which operation of a block it is, until it leaves a hook for blocks.
    """
    if s.notice != 0:
        return  # the engine stops in any case
    again = s.budget << 1 | 1
    end_after_block(s)
    if s.begins_anew != 0:
        s.again = again


@routine
def begin_anew(s: Any) -> None:
    """The next block is here: what it would have been stopped for is over."""
    s.notice = 0
    grant(s, s.again >> 1)
    s.again = 0


LEVEL_BITS: Final = 8
"""Bits that each Exception level has in ``State.watch_at``."""
LEVEL_MARKS: Final = (1 << LEVEL_BITS) - 1
ENTRY_PSTATE: Final = 8
"""Words of the table ``entry_pstate``: for each Exception level what an exception taken there
leaves of PSTATE, and what it sets."""
KEYS: Final = 1 << 16
"""Encodings of MRS, MSR and SYS: the 16 bits that ``Encoding.key`` has."""
TLB_MAINTENANCE, CODE_MAINTENANCE, FLUSH_MAINTENANCE = 1, 2, 4
"""Bits of ``State.maintenance``."""
FETCH: Final = int(UC_PROT_EXEC)
"""How ``uc_vmem_read`` reads what the PE would fetch."""
LINES: Final = 1 << 10
"""Physical addresses that the table ``code_lines`` holds."""
CHECK_SYSTEM: Final = 64
"""The bit of ``State.checking`` for the tables ``looked_at``."""
READ, WRITE, SYSTEM = 0, 1, 2
"""Which of the three action tables, and ``State.kind``."""

BLOCKS: Final = 1 << 18
"""Entries of the block table, direct-mapped by address and length.

The key is the address XOR the number of operations: an operation that the engine knows to trap
ends its block, so what traps decides how long a block is.
"""
ALIGNMENT: Final = 2
"""Shift of an address: instructions have four bytes."""
LENGTH: Final = 9
"""Bits by which a block's length is shifted there: blocks side by side, which loops alternate
between, have slots of their own."""
FOLD: Final = 20
"""Shift of the address's upper half onto its lower one, for the place in that table."""
SPREAD: Final = -7046029254386353131
"""An odd number: its products by two epochs differ, and in all bits."""
CODE_WORDS: Final = 1 << 10
"""Operations of the longest block."""
NOTICE_RETURN: Final = 2
"""``State.notice`` while a block runs that ends with an ERET."""
MARK_RETURN: Final = 1
"""The block ends with an ERET."""
MARK_FP: Final = 2
"""The block has FP or SIMD operations."""
MARK_SYNC: Final = 4
"""The block has a PSB CSYNC: what was sampled before must be in memory after it."""
MARK_ERET: Final = 8
"""The block ends with the ERET that does not authenticate its address."""
MARK_ORDER: Final = 16
"""The block has an operation that a :class:`~spe_unicorn.host.run.watching.Watcher` is told of."""
MARK_TRAP: Final = 32
"""The block has an operation that was trapped at some Exception level at some time."""
MARK_EVENT: Final = 64
"""The block has a WFE, SEV or SEVL."""
MARK_SVE: Final = 128
"""The block has SVE operations."""
MARKS_OF_HOST_OPERATIONS: Final = (
    MARK_SVE | MARK_FP | MARK_SYNC | MARK_ERET | MARK_ORDER | MARK_TRAP | MARK_EVENT
)
"""Marks of what the host may have to execute."""
ALL_COUNTERS: Final = 0xFF
"""``State.counters`` when no Exception level is trapped."""

PLAN: Final = np.dtype([(name, np.int64) for name in ("how", "access", "instruction", "recipe")])
"""The plan of a member of the population, how to describe it when it is the sampled one: the bits
below; the offset of its address (low half) and what it adds to its base (high half), both signed;
the number of its instruction; where its recipe is (``recipes.steps``), 0 without one."""
PLAN_WORDS: Final = PLAN.itemsize // 8
PLAN_EXACT: Final = 0
"""Stop before the block and step to the operation."""
PLAN_RUN: Final = 1
"""Let the block run, and note what the following bits say."""
PLAN_FLAGS: Final = 1 << 1
PLAN_FLAGS_AT_END: Final = 1 << 2
"""The condition flags, at the block's start or at its end."""
PLAN_ACCESS: Final = 1 << 3
"""It accesses memory: by PC if it has no base."""
PLAN_WRITE: Final = 1 << 4
PLAN_BASE_AT_END: Final = 1 << 5
PLAN_INDEX_AT_END: Final = 1 << 6
"""These registers have the value that counts at the block's end, not at its start."""
PLAN_PROBE: Final = 1 << 7
"""A probe stands at the operation, and notes base, index and flags there."""
PLAN_RECIPE: Final = 1 << 43
"""Its recipe says what base, index and flags will be, before the block runs."""
PLAN_BASE: Final = 8
PLAN_INDEX: Final = 24
"""Shifts of the registers' engine numbers plus 1, 0 for none."""
PLAN_EXTEND: Final = 40
PLAN_SHIFT: Final = 44
PLAN_ALIGN: Final = 48
"""Shifts of the extension of the index (``arch.operation.Extend``), of its shift, and of the power
of two to which the address is rounded down."""
PLAN_PLACE: Final = 52
PLAN_PLACES: Final = 0x7FF
"""Shift and mask of the operation's place in its block."""
PLANS: Final = 1 << 20
"""Words in the pool of plans. Those of a block have its code after them, one word an operation, and
then its recipes."""
SAMPLES: Final = 4096
"""Entries of the ring of samples that have been noted and not yet been looked at."""


class Sample(NamedTuple):
    """A sample that the hook has noted, as a row of the ring; numbers of 64 bits with a sign."""

    instruction: int
    """The number of its instruction."""
    pc: int
    cycles: int
    """Cycles before it."""
    following: int
    """The PC after it."""
    va: int
    pa: int
    flags: int
    """The condition flags."""
    level: int
    """Its Exception level, and SAMPLE_PA."""
    members: int
    """Members of the population that have gone by, itself included."""
    flow_target: int
    flow: int
    """``State.flow_target`` and ``State.flow``."""
    did: int
    """What the core model noted of it (``cores.cache_model.what_was_done``), 0 without one."""


SAMPLE: Final = np.dtype([(name, np.int64) for name in Sample._fields])
SAMPLE_BYTES: Final = SAMPLE.itemsize
"""A row of the ring."""
SAMPLE_PA: Final = 1 << 8
"""The address translated."""


@routine
def slot_of(address: int, operations: int) -> int:
    """Where a block stands in the block table."""
    return (address >> ALIGNMENT ^ address >> FOLD ^ operations << LENGTH) & BLOCKS - 1


def signed(value: int) -> int:
    """A 64-bit value as the tables hold it."""
    return value - (value >> 63 << 64)
