"""Data processing on general registers (Arm ARM C4.1.92 immediate, C4.1.95 register)."""

from __future__ import annotations

from spe_unicorn.arch.operation import CostClass, Instruction
from spe_unicorn.decode.parts import FLAGS, STACK, unallocated, x, xsp


def data_processing_immediate(word: int) -> Instruction:
    """Data processing with an immediate: bits 28:26 are 100."""
    return _IMMEDIATE[word >> 23 & 7](word)


def data_processing_register(word: int) -> Instruction:
    """Data processing with registers only: bits 27:25 are 101."""
    if word >> 28 & 1:
        return _REGISTER[word >> 21 & 15](word)
    if not word >> 24 & 1:
        return _logical_register(word)
    if word >> 21 & 1:
        return _add_extended(word)
    return _add_shifted(word)


def _alu(word: int, reads: int, writes: int, cost: CostClass = CostClass.ALU) -> Instruction:
    return Instruction(word, cost=cost, reads=reads, writes=writes)


def _rd(word: int) -> int:
    return x(word & 31)


def _rn(word: int) -> int:
    return x(word >> 5 & 31)


def _rm(word: int) -> int:
    return x(word >> 16 & 31)


def _pc_relative(word: int) -> Instruction:
    return _alu(word, 0, _rd(word))


def _add_immediate(word: int) -> Instruction:
    rn = xsp(word >> 5 & 31)
    if word >> 29 & 1:
        return _alu(word, rn, _rd(word) | FLAGS)
    return _alu(word, rn, xsp(word & 31))


def _tags_and_minimum(word: int) -> Instruction:
    if word >> 29 & 1:
        return unallocated(word)
    if word >> 22 & 1:  # SMAX, UMAX, SMIN, UMIN (immediate)
        if word >> 30 & 1 or word >> 20 & 3:
            return unallocated(word)
        return _alu(word, _rn(word), _rd(word))
    if not word >> 31:
        return unallocated(word)
    return _alu(word, xsp(word >> 5 & 31), xsp(word & 31))  # ADDG, SUBG


def _logical_immediate(word: int) -> Instruction:
    n, imms = word >> 22 & 1, word >> 10 & 63
    length = (n << 6 | ~imms & 63).bit_length() - 1
    levels = (1 << max(length, 0)) - 1
    if length < 1 or imms & levels == levels or (n and not word >> 31):
        return unallocated(word)
    if word >> 29 & 3 == 3:  # ANDS
        return _alu(word, _rn(word), _rd(word) | FLAGS)
    return _alu(word, _rn(word), xsp(word & 31))


def _move_wide(word: int) -> Instruction:
    opc = word >> 29 & 3
    if opc == 1 or (not word >> 31 and word >> 22 & 1):
        return unallocated(word)
    return _alu(word, _rd(word) if opc == 3 else 0, _rd(word))


def _bitfield(word: int) -> Instruction:
    sf, opc = word >> 31, word >> 29 & 3
    if opc == 3 or word >> 22 & 1 != sf or (not sf and word & 0x0020_8000):
        return unallocated(word)
    kept = _rd(word) if opc == 1 else 0  # BFM
    return _alu(word, _rn(word) | kept, _rd(word))


def _extract(word: int) -> Instruction:
    if word & 0xFFC0_001F == 0xF380_001F:  # AUTIASPPC, AUTIBSPPC
        return _alu(word, x(30) | STACK, x(30))
    sf = word >> 31
    if word & 0x6020_0000 or word >> 22 & 1 != sf or (not sf and word & 0x8000):
        return unallocated(word)
    return _alu(word, _rn(word) | _rm(word), _rd(word))


_IMMEDIATE = (
    _pc_relative,
    _pc_relative,
    _add_immediate,
    _tags_and_minimum,
    _logical_immediate,
    _move_wide,
    _bitfield,
    _extract,
)
"""By bits 25:23."""


def _logical_register(word: int) -> Instruction:
    if not word >> 31 and word & 0x8000:
        return unallocated(word)
    flags = FLAGS if word >> 29 & 3 == 3 else 0
    return _alu(word, _rn(word) | _rm(word), _rd(word) | flags)


def _add_shifted(word: int) -> Instruction:
    if word >> 22 & 3 == 3 or (not word >> 31 and word & 0x8000):
        return unallocated(word)
    flags = FLAGS if word >> 29 & 1 else 0
    return _alu(word, _rn(word) | _rm(word), _rd(word) | flags)


def _add_extended(word: int) -> Instruction:
    if word >> 22 & 3 or word >> 10 & 7 > 4:
        return unallocated(word)
    reads = xsp(word >> 5 & 31) | _rm(word)
    if word >> 29 & 1:
        return _alu(word, reads, _rd(word) | FLAGS)
    return _alu(word, reads, xsp(word & 31))


def _with_carry(word: int) -> Instruction:
    opcode = word >> 10 & 63
    if opcode == 0:  # ADC, SBC
        flags = FLAGS if word >> 29 & 1 else 0
        return _alu(word, _rn(word) | _rm(word) | FLAGS, _rd(word) | flags)
    if opcode & 0x1F == 1 and word >> 29 == 0b101 and not word & 0x10:  # RMIF
        return _alu(word, _rn(word) | FLAGS, FLAGS)
    if opcode & 0xF == 2 and word & 0xFFFF_801F == 0x3A00_000D:  # SETF8, SETF16
        return _alu(word, _rn(word) | FLAGS, FLAGS)
    if opcode >> 3 == 1 and word >> 31 and not word >> 29 & 1:  # ADDPT, SUBPT
        return _alu(word, xsp(word >> 5 & 31) | _rm(word), xsp(word & 31))
    return unallocated(word)


def _conditional_compare(word: int) -> Instruction:
    if not word >> 29 & 1 or word & 0x410:
        return unallocated(word)
    rm = 0 if word & 0x800 else _rm(word)
    return Instruction(
        word,
        conditional=True,
        condition=word >> 12 & 15,
        reads=_rn(word) | rm | FLAGS,
        writes=FLAGS,
    )


def _conditional_select(word: int) -> Instruction:
    if word >> 29 & 1 or word & 0x800:
        return unallocated(word)
    return Instruction(
        word,
        conditional=True,
        condition=word >> 12 & 15,
        reads=_rn(word) | _rm(word) | FLAGS,
        writes=_rd(word),
    )


def _one_or_two_sources(word: int) -> Instruction:
    return _one_source(word) if word >> 30 & 1 else _two_sources(word)


def _two_sources(word: int) -> Instruction:
    opcode, wide = word >> 10 & 63, word >> 31
    n_sp, m_sp = xsp(word >> 5 & 31), xsp(word >> 16 & 31)
    if word >> 29 & 1:
        if opcode or not wide:
            return unallocated(word)
        return _alu(word, n_sp | m_sp, _rd(word) | FLAGS)  # SUBPS
    if opcode in (2, 3):  # UDIV, SDIV
        return _alu(word, _rn(word) | _rm(word), _rd(word), CostClass.DIVIDE)
    if 8 <= opcode <= 11 or 24 <= opcode <= 27:  # shifts; SMAX, UMAX, SMIN, UMIN
        return _alu(word, _rn(word) | _rm(word), _rd(word))
    if 16 <= opcode <= 23 and wide == (opcode & 3 == 3):  # CRC32, CRC32C
        return _alu(word, _rn(word) | _rm(word), _rd(word), CostClass.MULTIPLY)
    if not wide:
        return unallocated(word)
    if opcode == 0:  # SUBP
        return _alu(word, n_sp | m_sp, _rd(word))
    if opcode == 4:  # IRG
        return _alu(word, n_sp | _rm(word), xsp(word & 31))
    if opcode == 5:  # GMI
        return _alu(word, n_sp | _rm(word), _rd(word))
    if opcode == 12:  # PACGA
        return _alu(word, _rn(word) | m_sp, _rd(word))
    return unallocated(word)


def _one_source(word: int) -> Instruction:
    group, opcode, wide = word >> 16 & 31, word >> 10 & 63, word >> 31
    if word >> 29 & 1:
        return unallocated(word)
    if group == 0:
        if opcode > 8 or (opcode == 3 and not wide):
            return unallocated(word)
        return _alu(word, _rn(word), _rd(word))
    if group == 1 and wide:
        return _pointer_authentication(word, opcode)
    return unallocated(word)


def _pointer_authentication(word: int, opcode: int) -> Instruction:
    rn, rd = word >> 5 & 31, word & 31
    if opcode < 8:  # PACIA ... AUTDB
        return _alu(word, xsp(rn) | x(rd), x(rd))
    if opcode < 18 and rn == 31:  # PACIZA ... AUTDZB, XPACI, XPACD
        return _alu(word, x(rd), x(rd))
    if rd != 30:
        return unallocated(word)
    if opcode in (0b100100, 0b100101):  # AUTIASPPCR, AUTIBSPPCR
        return _alu(word, x(rn) | x(30) | STACK, x(30))
    if rn != 31:
        return unallocated(word)
    if opcode in (0b100000, 0b100001, 0b101000, 0b101001):  # PACNBIASPPC ... PACIBSPPC
        return _alu(word, x(30) | STACK, x(30))
    if opcode in (0b100010, 0b100011, 0b101110, 0b101111):  # PACIA171615 ... AUTIB171615
        return _alu(word, x(15) | x(16) | x(17), x(17))
    return unallocated(word)


def _three_sources(word: int) -> Instruction:
    ra = word >> 10 & 31
    operation = word >> 21 & 7
    subtract = word >> 15 & 1
    if word >> 29 & 3:
        return unallocated(word)
    reads = _rn(word) | _rm(word) | x(ra)
    if operation == 0:  # MADD, MSUB
        return _alu(word, reads, _rd(word), CostClass.MULTIPLY)
    if not word >> 31:
        return unallocated(word)
    if operation in (1, 5, 3):  # SMADDL ..., UMADDL ..., MADDPT ...
        return _alu(word, reads, _rd(word), CostClass.MULTIPLY)
    if operation in (2, 6) and not subtract:  # SMULH, UMULH: Ra is not read
        return _alu(word, _rn(word) | _rm(word), _rd(word), CostClass.MULTIPLY)
    return unallocated(word)


_REGISTER = (
    _with_carry,
    unallocated,
    _conditional_compare,
    unallocated,
    _conditional_select,
    unallocated,
    _one_or_two_sources,
    unallocated,
    *(_three_sources,) * 8,
)
"""By bits 24:21, where bit 28 is set."""
