"""What compiled hooks and Python share: the state, the tables, and what the numbers mean."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Final

import numpy as np
from unicorn import UC_PROT_EXEC

from spe_unicorn.compiled import routine


class Stop(IntEnum):
    """Why a hook stopped the engine."""

    NONE = 0
    """No hook did: WFI, ``until``, an engine error, or a stop that the user asked for."""
    BUDGET = 1
    """In front of a block that has more operations than the budget has left."""
    EXCEPTION = 3
    """The guest took an exception; the engine has not entered a vector."""
    SYSTEM = 4
    """In front of an MRS, MSR or SYS that Python answers."""
    UNMAPPED = 5
    """In front of an access to memory that the engine does not have."""
    NOTICED = 6
    """After an ERET or a write to a steering register, in front of what follows it."""
    UNSEEN = 7
    """In front of a block that the block table does not hold."""
    INTERRUPT = 8
    """In front of a block, with an interrupt to be taken."""
    TRAP = 9
    """In front of a block that has an operation which traps here and the engine would execute."""
    MISALIGNED = 10
    """In front of a block at an address that is not a multiple of 4."""
    WRONG_PATH = 11
    """In front of a block, with a wrong path that Python is to look at."""
    ACCESS = 12
    """In front of an operation whose alignment has to be looked at."""
    UNTRANSLATED = 13
    """In front of a block that the engine cannot translate (``host.engine.surviving``)."""


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
    """An MRS reads guest time: executed operations over 16, less the offset in ``cells``."""
    TRANSLATION = 4
    """The engine executes the access; translations that we keep are no longer true."""
    NOTICE = 5
    """The engine executes the access and, if the value is new in bits that the table ``matters``
    has, stops behind it."""
    ASK = 6
    """A Python function answers, with an :class:`Answer`."""
    REGIME = 7
    """NOTICE and TRANSLATION in one."""
    CODE = 8
    """Instruction cache maintenance: TRANSLATION, and the engine stops behind the block."""
    LINE = 9
    """The same of one cache line, which the engine forgets at once."""
    RETURN = 10
    """The engine executes the access to an SPSR_ELx, and stops behind it if that makes or ends a
    return which the engine does not know of (``State.suspect``)."""
    ALIAS = 12
    """At EL2 the register of EL2 at the same place is accessed, elsewhere the engine's own; Python
    answers a write to SPSR_EL1 that makes or ends a return which the engine does not know of."""
    RECORDS = 11
    """NOTICE for a register that only records tell of: while there are none, nothing stops."""


class Answer(IntEnum):
    """What Python says to :attr:`Action.ASK`, in the middle of a run."""

    ENGINE = 0
    """The engine executes the access."""
    DONE = 1
    """It is done."""
    STOP = 2
    """As with :attr:`Action.STOP`, so only for registers that the engine lacks."""
    NOTICE = 3
    """It is done, and the engine stops behind the access, which ends its block."""


_FIELDS: Final = (
    # addresses of hooks, engine functions and tables
    ("special_hook", ctypes.c_int64),
    ("emu_stop", ctypes.c_int64),
    ("reg_read", ctypes.c_int64),
    ("reg_write", ctypes.c_int64),
    ("context_save", ctypes.c_int64),
    ("context_restore", ctypes.c_int64),
    ("context_write", ctypes.c_int64),
    ("ask", ctypes.c_int64),
    ("context", ctypes.c_int64),
    ("actions", ctypes.c_int64),
    ("cells", ctypes.c_int64),
    ("matters", ctypes.c_int64),
    ("block_keys", ctypes.c_int64),
    ("block_epochs", ctypes.c_int64),
    ("block_marks", ctypes.c_int64),
    ("block_plans", ctypes.c_int64),
    ("weights", ctypes.c_int64),
    ("wrong_paths", ctypes.c_int64),
    ("weighed", ctypes.c_int64),
    ("plans", ctypes.c_int64),
    ("vmem_translate", ctypes.c_int64),
    ("vmem_read", ctypes.c_int64),
    ("code", ctypes.c_int64),
    ("samples", ctypes.c_int64),
    ("gaps", ctypes.c_int64),
    ("quick", ctypes.c_int64),
    ("control", ctypes.c_int64),
    ("named", ctypes.c_int64),
    ("saved_states", ctypes.c_int64),
    ("entry_pstate", ctypes.c_int64),
    ("alias", ctypes.c_int64),
    ("exception", ctypes.c_int64),
    # counting
    ("granted", ctypes.c_int64),
    ("budget", ctypes.c_int64),
    ("block", ctypes.c_int64),
    ("block_operations", ctypes.c_int64),
    ("skipped", ctypes.c_int64),
    ("weigh", ctypes.c_int64),
    ("members_granted", ctypes.c_int64),
    ("members", ctypes.c_int64),
    ("speculates", ctypes.c_int64),
    ("wrong", ctypes.c_int64),
    ("wrong_path", ctypes.c_int64),
    # watching
    ("special", ctypes.c_int64),
    ("watch", ctypes.c_int64),
    ("relevant", ctypes.c_int64),
    ("watch_at", ctypes.c_int64),
    ("alike", ctypes.c_int64),
    ("entries", ctypes.c_int64),
    ("vectors", ctypes.c_int64),
    ("level", ctypes.c_int64),
    ("entered", ctypes.c_int64),
    ("deliver", ctypes.c_int64),
    ("counters", ctypes.c_int64),
    ("suspect", ctypes.c_int64),
    ("legal_returns", ctypes.c_int64),
    ("pc_mask", ctypes.c_int64),
    ("checking", ctypes.c_int64),
    ("checks", ctypes.c_int64),
    ("engine_identity", ctypes.c_int64),
    ("gap_floor", ctypes.c_int64),
    ("gap_epoch", ctypes.c_int64),
    ("epoch", ctypes.c_int64),
    ("writes", ctypes.c_int64),
    ("flushes", ctypes.c_int64),
    # the sampled operation of the block that runs, when its plan allowed to let it run
    ("pending", ctypes.c_int64),
    ("probe", ctypes.c_int64),
    ("slot", ctypes.c_int64),
    ("plan", ctypes.c_int64),
    ("access", ctypes.c_int64),
    ("instruction", ctypes.c_int64),
    ("noted", ctypes.c_int64),
    ("room", ctypes.c_int64),
    ("horizon", ctypes.c_int64),
    ("exact", ctypes.c_int64),
    ("physical", ctypes.c_int64),
    ("base", ctypes.c_int64),
    ("index", ctypes.c_int64),
    ("flags", ctypes.c_int64),
    ("notice", ctypes.c_int64),
    ("unattended", ctypes.c_int64),
    ("steered", ctypes.c_int64),
    ("collects", ctypes.c_int64),
    ("stale_code", ctypes.c_int64),
    ("maintenance", ctypes.c_int64),
    # the last branch, where records tell of it
    ("flow", ctypes.c_int64),
    ("flow_target", ctypes.c_int64),
    ("flow_next", ctypes.c_int64),
    ("flow_was", ctypes.c_int64),
    ("flow_enabled", ctypes.c_int64),
    ("flow_el", ctypes.c_int64),
    # the last stop
    ("stop", ctypes.c_int64),
    ("interrupt", ctypes.c_int64),
    ("pc", ctypes.c_int64),
    ("access_type", ctypes.c_int64),
    ("access_address", ctypes.c_int64),
    ("access_size", ctypes.c_int64),
    ("access_value", ctypes.c_int64),
    ("key", ctypes.c_int64),
    ("kind", ctypes.c_int64),
    ("rt", ctypes.c_int64),
    ("scratch", ctypes.c_int64),
    # the last exception that was taken
    ("taken_to", ctypes.c_int64),
    ("taken_after", ctypes.c_int64),
    ("taken_kind", ctypes.c_int64),
    ("taken_pc", ctypes.c_int64),
    ("taken_pstate", ctypes.c_int64),
    ("taken_esr", ctypes.c_int64),
    ("taken_far", ctypes.c_int64),
    ("taken_has", ctypes.c_int64),
    # instruction cache lines of whose maintenance other PEs have to hear
    ("lines", ctypes.c_int64),
    ("line_count", ctypes.c_int64),
)


UNBOUNDED: Final = 1 << 60
"""A budget that no run exhausts."""
STEERED, RECORDS_STEERED = 1, 2
"""Bits of ``State.steered``."""
TAKEN_ESR, TAKEN_FAR = 1, 2
"""Bits of ``State.taken_has``."""


class State(ctypes.Structure):
    """What compiled hooks and Python share. Counts are in operations.

    ``granted - budget`` operations have been executed, up to the end of the block that began
    last.

    While ``weigh`` is set, the population is counted apart from operations: each block has as many
    members as the table ``weights`` says, and ``members_granted - members`` of them have gone by.
    Then ``members`` are left before the chosen one and ``budget`` ends at ``horizon``; else
    ``budget`` ends at whichever comes first.

    ``weighed`` is set where the population can be micro-operations: then a block is only in the
    table ``quick`` while its weight is known, too.

    While ``speculates`` is set, operations on wrong paths are members, too. ``wrong`` is set where
    Python is to look at the one that begins at ``wrong_path``.

    ``gap_floor`` is 0 when no member is chosen, else a number of members after the chosen
    one among which the next chosen one cannot be, as long as ``gap_epoch`` is the epoch. The hook
    takes samples by itself while there is ``room`` for them, up to ``horizon``, a number of
    executed operations that is not passed where ``exact``.

    ``special`` is set while blocks have to be looked at before they run. ``watch`` holds the marks
    of blocks to look out for, ``relevant`` those that it can come to hold; blocks without them are
    in the table ``quick``. ``deliver`` has four bits for each Exception level from EL0 up: IRQ, IRQ
    unless PSTATE.I, FIQ, FIQ unless PSTATE.F; and above them one bit for each: SError unless
    PSTATE.A. All are 0 while no interrupt is pending. ``notice``
    is set when the engine is to stop behind the block (:data:`NOTICE_RETURN`: since that ends with
    an ERET), ``steered`` when that is for a write to a
    register that steers SPE or the hooks, or (its other bit) is only told of in records, which is
    looked out for while ``collects`` is set, ``stale_code`` when it is for instruction cache
    maintenance. ``counters`` has two bits for each Exception level:
    CNTPCT and CNTVCT may be read there.

    ``maintenance`` collects what maintenance other PEs have to hear of: 1 of TLBs, 2 of instruction
    caches as a whole, 4 of TLBs of which it empties all or those of an address space.
    ``line_count`` is how many single lines of instruction caches the table ``lines`` names.

    ``suspect`` has a bit for each Exception level: an ERET there would be illegal, or return with
    PSTATE.IL. ``legal_returns`` has 16 bits for each from EL1 up: the values of SPSR_ELx.M[3:0]
    that are not. ``pc_mask`` are the bits of the PC that must be 0.

    ``flow_target`` is where the last taken branch went and ``flow`` the Exception level there, with
    ``flow.FLOW_VALID``. ``flow_next`` is where the next operation is if there is no branch.
    ``flow_enabled`` and ``flow_el`` are whether profiling is enabled, and the Exception level, in
    this run of the engine, ``flow_was`` whether it was in the block before.

    ``checking`` says which alignment checks apply where the PE is, and ``checks`` is the table of
    what they need to know of each operation (``alignment``).

    ``engine_identity`` says what of identification is the engine's at EL1: 1 for MIDR_EL1 and
    MPIDR_EL1, which then are EL2's to choose, 2 for the ID registers, which then trap.

    ``unattended`` is set while the engine is run by somebody else, for whom it never stops.

    An exception from Exception level ``a`` to ``b`` is entered in compiled code where bit ``4 * a
    + b`` of ``entries`` is set, and a return from ``a`` to ``b`` needs no stop where that of
    ``alike`` is. ``watch_at`` holds ``watch`` for each level. ``vectors`` is the page of vectors
    that was last found to be there, ``exception`` where in ``context`` the engine describes an
    exception. ``level`` is where the ERET was that is noticed. ``entered`` is set when an exception
    was entered in compiled code.

    The fields ``taken_...`` describe the last exception that was taken, for people: its target
    Exception level (0: none was), the operations executed before its entry, its
    ``arch.exceptions.ExceptionType``, the PC and PSTATE before it, ESR_ELx and FAR_ELx as it left
    them where :data:`TAKEN_ESR` and :data:`TAKEN_FAR` are set in ``taken_has``.

    ``epoch`` counts changes of what code and data addresses mean, ``writes`` those of all
    registers that are looked after, ``flushes`` the operations that empty a PE's whole TLB, or that
    of an address space.
    """

    _fields_ = list(_FIELDS)

    def look_special(self) -> None:
        """Look anew whether blocks have to be looked at."""
        self.special = bool(self.watch or self.deliver or self.weigh or self.room)


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
"""Physical addresses that the table ``lines`` holds."""
READ, WRITE, SYSTEM = 0, 1, 2
"""Which of the three action tables, and ``State.kind``."""

LAYOUT: Final = np.dtype([(field[0], np.int64) for field in State._fields_])
"""The state as compiled hooks see it."""

BLOCKS: Final = 1 << 18
"""Entries of the block table, direct-mapped by address and length.

The key is the address XOR the number of operations: an operation that the engine knows to trap
ends its block, so what traps decides how long a block is.
"""
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
"""The block has a PSB CSYNC: what was sampled before must be in memory behind it."""
MARK_ERET: Final = 8
"""The block ends with the ERET that does not authenticate its address."""
MARK_ORDER: Final = 16
"""The block has an operation that a :class:`~spe_unicorn.host.run.watching.Watcher` is told of."""
MARK_TRAP: Final = 32
"""The block has an operation that a fine-grained trap may take to EL2."""
MARK_EVENT: Final = 64
"""The block has a WFE, SEV or SEVL."""
MARKS_OF_OURS: Final = MARK_FP | MARK_SYNC | MARK_ERET | MARK_ORDER | MARK_TRAP | MARK_EVENT
"""What a block has that may not be for the engine."""
ALL_COUNTERS: Final = 0xFF
"""``State.counters`` when no Exception level is trapped."""

# A plan is three words a member of the population: how to describe it when it is the sampled one.
# The second word is the offset of its address (low half) and what it adds to its base (high half),
# both signed; the third is the number of its instruction.
PLAN_WORDS: Final = 3
PLAN_EXACT: Final = 0
"""Stop in front of the block and step to the operation."""
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
"""Words in the pool of plans. Those of a block have its code behind them, one word an operation."""
SAMPLES: Final = 64
"""Entries of the ring of samples that have been noted and not yet been looked at."""
SAMPLE_WORDS: Final = 11
"""A sample: the number of its instruction, its PC, cycles before it, the PC behind it, its virtual
and physical address, the condition flags, the Exception level with the bits below, the members that
have gone by, itself included, and ``State.flow_target`` and ``State.flow``."""
SAMPLE_PA: Final = 1 << 8
"""The address translated."""


@routine
def slot_of(address: int, operations: int) -> int:
    """Where a block stands in the block table."""
    return (address >> 2 ^ address >> FOLD ^ operations << LENGTH) & BLOCKS - 1


def signed(value: int) -> int:
    """A 64-bit value as the tables hold it."""
    return value - (value >> 63 << 64)
