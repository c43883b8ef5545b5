"""One operation of the sample population: what its word says, and what it did.

:class:`Instruction` is static, a pure function of the instruction word. :class:`Operation` is one
execution of it. Both are host-neutral: the host fills them in, ``spe`` and ``cores`` read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

Calls = tuple[int, ...]
"""The calls that led to an operation: their return addresses, the last call first."""


class Family(IntEnum):
    """How the Statistical Profiling Extension sorts operations (Arm ARM D18.2.7)."""

    OTHER = 0
    LOAD = 1
    STORE = 2
    ATOMIC = 3
    """Reads, writes and returns the old value: LD<op>, SWP, CAS. Counts as load and store."""
    ATOMIC_STORE = 4
    """Reads and writes, returns nothing: LD<op> with Rt=31. Counts as store."""
    BRANCH = 5


class RegisterKind(IntEnum):
    """What a load or store transfers to or from."""

    GENERAL = 0
    SIMD_FP = 1
    UNSPECIFIED = 2
    """No register, such as DC ZVA."""
    TAG = 3
    SVE = 4
    COPY = 5
    """No register: a memory copy (CPY*), which reads and writes."""
    SET = 6
    """No register: a memory set (SET*, SETG*)."""
    GCS = 7
    """A Guarded Control Stack entry."""
    NESTED = 8
    """A System register that nested virtualization (FEAT_NV2) keeps in memory."""


MEMORY_MOVES: Final = frozenset({RegisterKind.COPY, RegisterKind.SET})
"""Those of memory copies and sets."""


class Structure(IntEnum):
    """How a load or store of SIMD&FP or SVE registers lays their elements out in memory."""

    NONE = 0
    """One after the other, one register or a pair."""
    MULTIPLE = 1
    """One after the other, up to four registers: LD1, ST1."""
    INTERLEAVED = 2
    """The first element of each register, then the second: LD2 to LD4, ST2 to ST4."""
    LANE = 3
    """One element of each register."""
    REPLICATE = 4
    """One element for each register, copied to all its lanes: LD1R to LD4R."""


class Mark(IntEnum):
    """Operations that a host has to know of before it runs them."""

    NONE = 0
    MRS = 1
    MSR = 2
    MSR_IMMEDIATE = 3
    SYS = 4
    """SYS and SYSL: AT, DC, IC, TLBI and the like."""
    PSB_CSYNC = 5
    HINT = 6
    """Every other hint, NOP and YIELD included."""
    BARRIER = 7
    """DMB, SB, CLREX, and a DSB that waits for loads or for stores alone."""
    ISB = 8
    WFI = 9
    WFE = 10
    ERET = 11
    EXCEPTION = 12
    """SVC, HVC, SMC, BRK, HLT, UDF and DCPS: always ends in an exception."""
    UNALLOCATED = 13
    """No instruction that we know of; the engine decides."""
    DSB = 14
    """A DSB that waits for loads and stores."""


class Extend(IntEnum):
    """How an index register enters an address, numbered as the ``option`` field.

    ``REMAINS`` is none of its values: a memory copy's size that is negative, and 0 in place of one
    that is not.
    """

    UXTW = 2
    LSL = 3
    REMAINS = 4
    SXTW = 6
    SXTX = 7


class Active(IntEnum):
    """How many elements of a predicated operation its governing predicate lets take part."""

    ALL = 0
    SOME = 1
    NONE = 2


class CostClass(IntEnum):
    """Groups of operations that share a pipeline latency in a core model."""

    ALU = 0
    MULTIPLY = 1
    DIVIDE = 2
    FP = 3
    FP_DIVIDE = 4
    SIMD = 5
    CRYPTO = 6
    LOAD = 7
    STORE = 8
    ATOMIC = 9
    BRANCH = 10
    SYSTEM = 11


@dataclass(frozen=True, slots=True)
class Access:
    """Where a memory operation goes: ``base + offset + (extend(index) << shift)``.

    Registers are numbered 0 to 30, 31 is SP as a base and never an index. ``base`` is None for a
    PC-relative literal. ``size`` is the number of bytes in all, ``element`` the size in bytes of
    one of its elements, to which it should be aligned. ``writeback`` is the constant by which the
    operation changes the base (the address itself comes from ``offset``: equal to it for pre-index,
    0 for post-index), ``index_writeback`` the register that is added instead (structure loads and
    stores). ``align_down`` is the power of two to which the PE rounds the sum down (DC ZVA, LDG), 0
    for none. ``scalable`` says that ``offset`` and ``size`` hold for a vector length of 128 bits
    and grow with it. ``authenticated`` says that the base holds a pointer authentication code,
    which the PE takes away before it adds (LDRAA, LDRAB). ``unprivileged`` says that the access is
    made as EL0 would make it (LDTR, STTR).
    """

    base: int | None
    offset: int
    size: int
    element: int
    index: int | None = None
    extend: Extend = Extend.LSL
    shift: int = 0
    writeback: int | None = None
    index_writeback: int | None = None
    align_down: int = 0
    scalable: bool = False
    authenticated: bool = False
    unprivileged: bool = False


@dataclass(frozen=True, slots=True)
class VectorAccess:
    """Where a gather or scatter goes, element by element.

    Element ``n`` goes to ``base + offset + (extend(element n of Z<vector>) << shift)``; elements
    are as wide as the lanes of the operation. ``base`` is numbered as in :class:`Access`, None for
    none. ``size`` is the number of bytes of an element in memory. Where an instruction's accesses
    are micro-operations, this one makes ``part`` of ``parts`` of them, the lowest elements first.
    """

    base: int | None
    vector: int
    size: int
    offset: int = 0
    extend: Extend = Extend.LSL
    shift: int = 0
    part: int = 0
    parts: int = 1


FELL, TAKEN = 1, 2
"""The ways of a conditional branch, as bits: it was not taken, and it was taken."""
SP = 31
"""Number of SP in ``reads`` and ``writes``; XZR is in neither."""
NZCV = 32
"""Number of the condition flags in ``reads`` and ``writes``."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """What an A64 instruction word says, as far as anyone here needs it.

    ``reads`` and ``writes`` are bit sets over X0..X30, :data:`SP` and :data:`NZCV`.
    ``condition`` is the 4-bit condition of a conditional select, compare or B.cond.
    ``target_offset`` is set for direct branches, in bytes from the instruction.
    ``register_count`` says how many registers a load or store moves, ``structure`` how they lie.
    ``part`` tells the micro-operations of one word apart (see ``cores.cracking``), and from an MRS
    or MSR the access to memory that nested virtualization made of it; ``divided`` says that others
    of them access memory, too. ``scalar`` says that a SIMD_FP load or store moves
    scalars of up to 64 bits (filter flag FP, else SIMD). ``governor`` is the number of the
    predicate register that says which elements of ``lane`` bytes are active in an SVE operation;
    with ``counter`` it counts those of all registers that are moved (predicate-as-counter).
    ``elements`` says where those of a gather or scatter go, which has no single ``access``.
    ``fp`` and ``simd`` are the Other-class properties of data processing.
    """

    word: int
    family: Family = Family.OTHER
    mark: Mark = Mark.NONE
    cost: CostClass = CostClass.ALU
    access: Access | None = None
    registers: RegisterKind = RegisterKind.GENERAL
    register_count: int = 1
    structure: Structure = Structure.NONE
    scalar: bool = False
    acquire_release: bool = False
    exclusive: bool = False
    atomic: bool = False
    fp: bool = False
    simd: bool = False
    conditional: bool = False
    condition: int | None = None
    indirect: bool = False
    link: bool = False
    procedure_return: bool = False
    target_offset: int | None = None
    sve: bool = False
    predicated: bool = False
    governor: int | None = None
    counter: bool = False
    lane: int = 0
    gather_scatter: bool = False
    elements: VectorAccess | None = None
    reads: int = 0
    writes: int = 0
    divided: bool = False
    part: int = 0

    @property
    def governed(self) -> int:
        """How many vectors have elements that the governor of an SVE operation tells apart."""
        return self.register_count if self.counter else 1


@dataclass(slots=True)
class Operation:
    """One executed operation, from its selection to its completion.

    Where the population is micro-operations, it is one of those: ``instruction`` describes it.
    Addresses are as the PE used them, 64 bits. ``va`` and ``pa`` are those of the first data
    access, None where there was none or it did not translate. ``target`` is where a taken branch
    went, with the Exception level there. ``previous_target`` is where the last taken branch before
    it went, None where none was taken since profiling was enabled. ``time`` is the physical count
    when it began.
    """

    instruction: Instruction
    pc: int
    el: int
    time: int = 0
    exception: bool = False
    """It completed with a synchronous exception."""
    condition_failed: bool = False
    """A branch not taken, a select of the second operand, a compare that wrote its immediate."""
    target: int | None = None
    target_el: int = 0
    previous_target: int | None = None
    previous_target_el: int = 0
    va: int | None = None
    pa: int | None = None
    checked: bool = False
    """Its data access is checked by an Allocation Tag (FEAT_MTE2)."""
    misaligned: bool = False
    vector_bits: int = 128
    """The vector length that an SVE operation found."""
    active: Active = Active.ALL
    misspeculated: bool = False
    """It comes after a mispredicted branch and came to nothing: no address, no exception."""
    calls: Calls = ()
    """The calls that led to it, where those are kept."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What a core model says of one operation: latencies in cycles, events, data source.

    ``events`` holds the bits of the Events packet that depend on the model (caches, TLB, branch
    prediction); ``data_source`` is None where the operation has none.
    """

    total: int
    issue: int
    translation: int = 0
    events: int = 0
    data_source: int | None = None
