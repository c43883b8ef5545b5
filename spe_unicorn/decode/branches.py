"""Branches, exception generation and System instructions (Arm ARM C4.1.94)."""

from __future__ import annotations

from spe_unicorn.arch.operation import (
    Access,
    CostClass,
    Family,
    Instruction,
    Mark,
    RegisterKind,
)
from spe_unicorn.bits import signed
from spe_unicorn.decode.parts import (
    FLAGS,
    STACK,
    memory,
    unallocated,
    x,
    xs,
    xsp,
)

LINK = x(30)
"""X30 as a register set."""


def branch_or_system(word: int) -> Instruction:
    """Branches, exception generation and System instructions: bits 28:26 are 101."""
    top = word >> 24
    kind = top & 0x7C  # the two whose offset or bit number reaches into bits 31 and 25:24
    if kind == 0x14:
        return _immediate(word)
    if kind == 0x34:
        return _compare_or_test_zero(word)
    return _GROUPS.get(top, unallocated)(word)


def _direct(word: int, offset: int, *, reads: int = 0, link: bool = False) -> Instruction:
    return Instruction(
        word,
        family=Family.BRANCH,
        cost=CostClass.BRANCH,
        link=link,
        target_offset=offset,
        reads=reads,
        writes=LINK if link else 0,
    )


def _conditional(word: int, offset: int, reads: int, condition: int | None = None) -> Instruction:
    return Instruction(
        word,
        family=Family.BRANCH,
        cost=CostClass.BRANCH,
        conditional=True,
        condition=condition,
        target_offset=offset,
        reads=reads,
    )


def _indirect(
    word: int,
    reads: int,
    *,
    link: bool = False,
    procedure_return: bool = False,
) -> Instruction:
    return Instruction(
        word,
        family=Family.BRANCH,
        cost=CostClass.BRANCH,
        indirect=True,
        link=link,
        procedure_return=procedure_return,
        reads=reads,
        writes=LINK if link else 0,
    )


def _immediate(word: int) -> Instruction:
    """B, BL."""
    return _direct(word, signed(word, 26) << 2, link=bool(word >> 31))


def _compare_or_test_zero(word: int) -> Instruction:
    """CBZ, CBNZ, TBZ, TBNZ."""
    offset = signed(word >> 5, 14) if word >> 25 & 1 else signed(word >> 5, 19)
    return _conditional(word, offset << 2, x(word & 31))


def _on_condition(word: int) -> Instruction:
    """B.cond, BC.cond."""
    return _conditional(word, signed(word >> 5, 19) << 2, FLAGS, word & 15)


def _return_with_pc(word: int) -> Instruction:
    """RETAASPPC, RETABSPPC with a label."""
    if word & 0x00C0_001F != 0x1F:
        return unallocated(word)
    return _indirect(word, LINK | STACK, procedure_return=True)


def _compare_registers(word: int) -> Instruction:
    """CB<cc>, CBB<cc>, CBH<cc> (register)."""
    if word >> 21 & 7 in (4, 5) or word >> 14 & 3 == 1 or (word >> 31 and word >> 15 & 1):
        return unallocated(word)
    reads = x(word & 31) | x(word >> 16 & 31)
    return _conditional(word, signed(word >> 5, 9) << 2, reads)


def _compare_immediate(word: int) -> Instruction:
    """CB<cc> (immediate)."""
    if word >> 21 & 7 in (4, 5) or word & 0x4000:
        return unallocated(word)
    return _conditional(word, signed(word >> 5, 9) << 2, x(word & 31))


def _register(word: int) -> Instruction:
    """Unconditional branches to a register: bits 31:25 are 1101011."""
    if word >> 16 & 31 != 31:
        return unallocated(word)
    opc, op3, rn, op4 = word >> 21 & 15, word >> 10 & 63, word >> 5 & 31, word & 31
    key = op3 in (2, 3)  # key A or B: the forms with pointer authentication
    if opc in (0, 1) and ((op3 == 0 and op4 == 0) or (key and op4 == 31)):  # BR(AAZ), BLR(AAZ)
        return _indirect(word, x(rn), link=opc == 1)
    if opc in (8, 9) and key:  # BRAA, BLRAA
        return _indirect(word, x(rn) | xsp(op4), link=opc == 9)
    if opc == 2 and op3 == 0 and op4 == 0:  # RET
        return _indirect(word, x(rn), procedure_return=True)
    if opc == 2 and key and rn == 31:  # RETAA; RETAASPPCR where a register is named
        return _indirect(word, LINK | STACK | x(op4), procedure_return=True)
    if opc == 4 and rn == 31 and ((op3 == 0 and op4 == 0) or (key and op4 == 31)):
        return _exception_return(word, STACK if key else 0)
    return unallocated(word)  # DRPS too, outside Debug state


def _exception_return(word: int, reads: int) -> Instruction:
    """ERET, ERETAA, ERETAB: PSTATE is replaced, and with it the flags and the choice of SP."""
    return Instruction(
        word,
        family=Family.BRANCH,
        mark=Mark.ERET,
        cost=CostClass.BRANCH,
        indirect=True,
        reads=reads,
        writes=FLAGS | STACK,
    )


_EXCEPTIONS = frozenset((0b00001, 0b00010, 0b00011, 0b00100, 0b01000, 0b10101, 0b10110, 0b10111))
"""opc:LL of SVC, HVC, SMC, BRK, HLT and DCPS1 to DCPS3."""


def _exception(word: int) -> Instruction:
    if word >> 2 & 7 or word >> 19 & 0b11100 | word & 3 not in _EXCEPTIONS:
        return unallocated(word)
    return Instruction(word, mark=Mark.EXCEPTION, cost=CostClass.SYSTEM)


def _system(word: int) -> Instruction:
    """Everything with bits 31:24 = 11010101."""
    if word >> 20 & 1:
        return _move_system(word)
    if word >> 22 & 1:
        return _system_pair(word)
    if word >> 23 & 1:
        return unallocated(word)
    if word >> 19 & 1:
        return _system_operation(word)
    if word >> 21 & 1:
        return unallocated(word)
    return _hint_barrier_pstate(word)


def _instruction(word: int, mark: Mark, reads: int = 0, writes: int = 0) -> Instruction:
    return Instruction(word, mark=mark, cost=CostClass.SYSTEM, reads=reads, writes=writes)


_SPSEL = 0xC210
_SP_EL0 = 0xC208
_NZCV = 0xDA10
_RNDR = (0xD920, 0xD921)


def _move_system(word: int) -> Instruction:
    """MRS and MSR (register); MRRS and MSRR, which have bit 22 set."""
    if word >> 23 & 1:
        return unallocated(word)
    pair = word >> 22 & 1
    if pair and word & 1:
        return unallocated(word)
    data = xs(word & 31, 2 if pair else 1)
    key = word >> 5 & 0xFFFF
    if word >> 21 & 1:
        flags = FLAGS if key in _RNDR else 0
        return _instruction(word, Mark.MRS, FLAGS if key == _NZCV else 0, data | flags)
    changed = FLAGS if key == _NZCV else STACK if key in (_SPSEL, _SP_EL0) else 0
    return _instruction(word, Mark.MSR, data, changed)


def _system_pair(word: int) -> Instruction:
    """SYSP."""
    rt = word & 31
    if word >> 19 & 0x1F != 0b01001 or (rt & 1 and rt != 31):
        return unallocated(word)
    return _instruction(word, Mark.SYS, xs(rt, 2))


_ZERO_BLOCK = frozenset((0x1BA1, 0x1BA3, 0x1BA4))
"""op1:CRn:CRm:op2 of DC ZVA, DC GVA, DC GZVA."""

_GCS_STORES = frozenset((0x1BB8, 0x1BBA, 0x1BBB, 0x03BC))
"""op1:CRn:CRm:op2 of GCSPUSHM, GCSSS1, GCSSS2, GCSPUSHX."""

_GCS_LOADS = frozenset((0x1BB9, 0x03BD, 0x03BE))
"""op1:CRn:CRm:op2 of GCSPOPM, GCSPOPCX, GCSPOPX."""

ZERO_BLOCK_SIZE = 64
"""Bytes that DC ZVA writes: DCZID_EL0.BS is 4."""


def _system_operation(word: int) -> Instruction:
    """SYS and SYSL."""
    rt, key, result = word & 31, word >> 5 & 0x3FFF, word >> 21 & 1
    data = x(rt)
    if key in _ZERO_BLOCK and not result:
        # XZR as the address has no place in Access: it goes without.
        where = Access(rt, 0, ZERO_BLOCK_SIZE, 1, align_down=ZERO_BLOCK_SIZE) if rt != 31 else None
        return memory(word, where, load=False, registers=RegisterKind.UNSPECIFIED, mark=Mark.SYS)
    if key in _GCS_STORES or key in _GCS_LOADS:
        return memory(
            word,
            None,
            load=key in _GCS_LOADS,
            reads=0 if result else data,
            writes=data if result else 0,
            registers=RegisterKind.GCS,
            mark=Mark.SYS,
        )
    if result:
        return _instruction(word, Mark.SYS, 0, data)
    return _instruction(word, Mark.SYS, data)


def _hint_barrier_pstate(word: int) -> Instruction:
    op1, crn, crm, op2, rt = (
        word >> 16 & 7,
        word >> 12 & 15,
        word >> 8 & 15,
        word >> 5 & 7,
        word & 31,
    )
    if crn == 4:
        return _pstate(word, op1, op2) if rt == 31 else unallocated(word)
    if op1 != 3:
        return unallocated(word)
    if crn == 1 and crm == 0 and op2 in (0, 1):  # WFET, WFIT
        return _instruction(word, Mark.WFI if op2 else Mark.WFE, x(rt))
    if rt != 31:
        return unallocated(word)
    if crn == 2:
        return _hint(word, crm << 3 | op2)
    if crn == 3:
        return _barrier(word, crm, op2)
    return unallocated(word)


_PSTATE_FIELDS = frozenset(
    (
        (0, 3),  # UAO
        (0, 4),  # PAN
        (0, 5),  # SPSel
        (1, 0),  # ALLINT, PM
        (3, 1),  # SSBS
        (3, 2),  # DIT
        (3, 3),  # SVCR: SMSTART, SMSTOP
        (3, 4),  # TCO
        (3, 6),  # DAIFSet
        (3, 7),  # DAIFClr
    )
)
"""op1 and op2 of MSR (immediate)."""


def _pstate(word: int, op1: int, op2: int) -> Instruction:
    if op1 == 0 and op2 < 3:  # CFINV, XAFLAG, AXFLAG
        return Instruction(word, reads=FLAGS, writes=FLAGS)
    if (op1, op2) not in _PSTATE_FIELDS:
        return unallocated(word)
    return _instruction(word, Mark.MSR_IMMEDIATE, writes=STACK if (op1, op2) == (0, 5) else 0)


_ON_X17 = x(16) | x(17)

_HINT_REGISTERS = {
    7: (LINK, LINK),  # XPACLRI
    **dict.fromkeys((8, 10, 12, 14), (_ON_X17, x(17))),  # PACIA1716 ... AUTIB1716
    **dict.fromkeys((24, 26, 28, 30), (LINK, LINK)),  # PACIAZ ... AUTIBZ
    **dict.fromkeys((25, 27, 29, 31), (LINK | STACK, LINK)),  # PACIASP ... AUTIBSP
    40: (x(16), x(16)),  # CHKFEAT
}
"""What the hints with operands read and write, by number."""


def _hint(word: int, number: int) -> Instruction:
    if number == 2:
        return _instruction(word, Mark.WFE)
    if number == 3:
        return _instruction(word, Mark.WFI)
    if number == 17:
        return _instruction(word, Mark.PSB_CSYNC)
    reads, writes = _HINT_REGISTERS.get(number, (0, 0))
    return Instruction(word, mark=Mark.HINT, reads=reads, writes=writes)


def _barrier(word: int, crm: int, op2: int) -> Instruction:
    if op2 == 6:
        return _instruction(word, Mark.ISB)
    known = op2 in (2, 4, 5) or (op2 == 1 and crm & 3 == 2) or (op2 == 7 and crm == 0)
    if not known:
        return unallocated(word)
    whole = crm & 3 == 3 if op2 == 4 else op2 == 1
    return _instruction(word, Mark.DSB if whole else Mark.BARRIER)


_GROUPS = {
    0x54: _on_condition,
    0x55: _return_with_pc,
    0x74: _compare_registers,
    0xF4: _compare_registers,
    0x75: _compare_immediate,
    0xF5: _compare_immediate,
    0xD4: _exception,
    0xD5: _system,
    0xD6: _register,
    0xD7: _register,
}
"""By bits 31:24, but for the branches whose offset or bit number reaches higher."""
