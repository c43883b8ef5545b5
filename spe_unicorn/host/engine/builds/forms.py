"""What can be known of a build of the engine, and of a host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """Bytes of machine code. ``text`` has them in hexadecimal, ``??`` for one that may be any."""

    text: str

    @property
    def bytes(self) -> tuple[int, ...]:
        """The bytes, 0 for one that may be any."""
        return tuple(0 if byte == "??" else int(byte, 16) for byte in self.text.split())

    @property
    def masks(self) -> tuple[int, ...]:
        """For each byte the bits that have to be as they are here."""
        return tuple(0 if byte == "??" else 0xFF for byte in self.text.split())

    @property
    def number(self) -> int:
        """The bytes as a number, the lowest first. None of them may be any."""
        return int.from_bytes(bytes.fromhex(self.text), "little")

    def __len__(self) -> int:
        return len(self.text.split())


@dataclass(frozen=True)
class SavedState:
    """What ``uc_context_save`` saves. Places are in bytes."""

    header: int
    """Bytes before the PE's state: ``struct uc_context`` up to ``data``."""
    pointers: int
    """Bytes at its end that are pointers, and mean nothing in another process."""
    x0: int
    """Where X0 is, from the begin of the PE's state, as the places that follow."""
    pc: int
    pstate: int
    """Where the low byte of PSTATE is."""
    aarch64: int
    """Where 32 bits say whether the PE executes A64."""
    roundings: tuple[int, int]
    """How the engine numbers rounding up and rounding down."""


@dataclass(frozen=True)
class Untranslatable:
    """Words with which an assertion in the engine's translator fails: two groups of them.

    In each group the bits of ``mask`` are ``value``. An operation is named by its opcode, with
    bits above it as ``untranslatable.translation_fails`` puts them together.
    """

    three_same: tuple[int, int]
    """Value and mask of Advanced SIMD three same (FP16)."""
    not_three_same: frozenset[int]
    """The operations that fail: ``U a opcode`` are bits 29, 23 and 13 to 11."""
    two_misc: tuple[int, int]
    """Value and mask of two-register miscellaneous (FP16), vector and, with bit 28, scalar."""
    two_misc_operations: frozenset[int]
    """Those that do not fail: ``U a opcode`` are bits 29, 23 and 16 to 12."""
    vector_only: frozenset[int]
    scalar_only: frozenset[int]
    """Those that fail only in the other form."""


@dataclass(frozen=True)
class Release:
    """A release of the engine, on any host."""

    version: tuple[int, int, int]
    saved: SavedState
    untranslatable: Untranslatable
    nested_runs: int
    """How many runs of one engine can be within each other. A run that was abandoned stays one."""
    code_line: int
    """Bytes of the line that IC IVAU invalidates: CTR_EL0.IminLine of the engine."""


@dataclass(frozen=True)
class TlbEntry:
    """An entry of the engine's TLB, in words of 64 bits."""

    words: int
    write: int
    """The word with the page if it can be written, -1 for none."""
    code: int
    """The word with the page if it can be fetched from, -1 for none."""
    addend: int
    """The word with where the host has the page, less its address."""
    not_dirty: int
    """Beside a page that can be written: stores take the slow way."""


@dataclass(frozen=True)
class Lookup:
    """How the engine looks up the code to which an indirect branch leads. It is no public function.

    Places are from RBP, which points to the PE's state.
    """

    name: str
    """The function that blocks call."""
    code: Pattern
    """What it does while the table of recent blocks has the one that is wanted."""
    flags_name: str
    """The function by which it knows what a block has to be translated for."""
    flags_code: Pattern
    """Its begin, for a PE that executes A64."""
    branch_type_at: int
    branch_type_code: Pattern
    """What it does, so many bytes behind its begin, where PSTATE.BTYPE matters."""
    flags: int
    """Where what it begins with is: 32 bits."""
    alike: tuple[int, int]
    """Value and mask of these for such a PE that is not single-stepped."""
    branch_types: tuple[int, int]
    """Where 32 bits are of which any one of a mask says that PSTATE.BTYPE matters."""
    branch_type: int
    """Where PSTATE.BTYPE is: 32 bits."""
    branch_type_lsb: int
    """Its place in the flags."""
    recent: int
    """The table of recent blocks: 64 bits each."""
    recent_bits: int
    """The binary logarithm of the number of rows, by lower and by higher bits of an address."""
    traced: int
    """Where 64 bits are that a block has, too."""
    group: int
    """Where 32 bits are of which a block has the lowest byte as its highest one."""
    compared: int
    """The bits of that word of a block that are compared."""
    block_pc: int
    """From here on: places in the engine's description of a block."""
    block_base: int
    block_flags: int
    block_group: int
    block_traced: int
    block_code: int


@dataclass(frozen=True)
class CodeForm:
    """The code that a release of the engine makes of a guest's, on a host.

    ``inline.engine_code`` and ``inline.accesses`` show what the patterns are parts of.
    """

    asked: int
    """The place of the number by which a hook asks the engine to leave, from RBP."""
    pc: int
    """The place of the PC, from RBP."""
    described: int
    """Bytes from a block's code down to its address in the description. Then comes its length."""
    alignment: int
    """The code of a block begins at a multiple of this number of bytes."""
    longest: int
    """Bytes of a block's code at most."""
    check: Pattern
    """The function that checks whether a hook asked the engine to leave."""
    check_cpu: int
    """Where that has the distance from the engine to the address of its CPU."""
    check_asked: int
    """Where it has the distance from the CPU to the number ``asked``."""
    lookup: Lookup
    slow_stores: str
    """The name of the engine's ``tlb_reset_dirty``. It is no public function."""
    tlb: TlbEntry
    load_compare: Pattern
    """Compares the page of a load with the engine's TLB."""
    store_compare: Pattern
    """The same for a store."""
    add_place: Pattern
    """Adds to the address of an access where the host has its page."""
    slow_way: Pattern
    """The first instruction of the slow way of an access."""
    load_what: int
    """The opcode that loads what a slow load is: its size and more."""
    load_end: Pattern
    """The opcode that loads where a block goes on after a slow load."""
    store_what: int
    store_end: Pattern
    """The same for a store."""
    size_lsb: int
    """The lowest of two bits, in what is loaded there, that are the binary logarithm of a size."""


@dataclass(frozen=True)
class Host:
    """A system on a processor, as far as the survival of an ``abort()`` depends on it."""

    jump_buffer: int
    """Bytes of a ``jmp_buf``, and more."""
    code_of_info: int
    """Where ``siginfo_t`` has ``si_code``."""
    own_signal: int
    """``si_code`` of a signal that a thread of this process sent to itself, as ``abort()`` does."""
    mask_words: int
    """Words of the mask in ``struct sigaction``."""
