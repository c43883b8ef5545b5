"""What the hook for System accesses does: an action for each encoding of MRS, MSR and SYS."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

KEYS: Final = 1 << 16
"""Encodings of MRS, MSR and SYS: the 16 bits that ``Encoding.key`` has."""
READ, WRITE, SYSTEM = 0, 1, 2
"""Which of the three action tables, and ``State.kind``."""


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
    RECORDS = 11
    """NOTICE for a register that matters only to records. While none are made, as ENGINE."""
    STEPPING = 12
    """An MSR of MDSCR_EL1 at EL2 that leads to a known set of controls: compiled code goes over to
    it. All others as ASK."""
    GIC = 13
    """Compiled code answers for the CPU interface of the GIC where ``State.gic_at`` says so.
    Elsewhere as STOP."""
    SAMPLING = 14
    """An MRS of a register that moves with each sample: compiled code answers where
    ``State.sampling_at`` says so. Elsewhere as STOP."""
    ZERO = 15
    """DC ZVA: compiled code fills RAM with zeros where ``State.zeroes_at`` says so. The engine
    executes all others."""
    EL12 = 16
    """An _EL12 name, which the engine lacks: at EL2 the register of EL1 is accessed, elsewhere
    Python answers. The actions after this are the same for a write to a register of EL1 whose
    own name has the action that is 16 less."""
    EL12_TRANSLATION = 20
    EL12_NOTICE = 21
    EL12_REGIME = 23
    EL12_RETURN = 26
    EL12_RECORDS = 27
    TIMER = 28
    """A register of a timer: compiled code answers where ``State.timers_at`` says so. All others as
    ASK."""
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
