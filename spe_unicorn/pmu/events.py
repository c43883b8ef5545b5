"""The events that counters can count: Arm's numbers and names (Arm ARM D14.3)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from spe_unicorn.arch.features import SYNCHRONOUS_EVENTS


class PMUEvent(IntEnum):
    """Events by Arm's names. Those of sampling are ``spe.feed.SampleEvent``."""

    SW_INCR = 0x00
    L1D_CACHE_REFILL = 0x03
    L1D_CACHE = 0x04
    L1D_TLB_REFILL = 0x05
    LD_RETIRED = 0x06
    ST_RETIRED = 0x07
    INST_RETIRED = 0x08
    EXC_TAKEN = 0x09
    EXC_RETURN = 0x0A
    CID_WRITE_RETIRED = 0x0B
    PC_WRITE_RETIRED = 0x0C
    BR_IMMED_RETIRED = 0x0D
    BR_RETURN_RETIRED = 0x0E
    UNALIGNED_LDST_RETIRED = 0x0F
    BR_MIS_PRED = 0x10
    CPU_CYCLES = 0x11
    BR_PRED = 0x12
    MEM_ACCESS = 0x13
    L2D_CACHE = 0x16
    L2D_CACHE_REFILL = 0x17
    INST_SPEC = 0x1B
    TTBR_WRITE_RETIRED = 0x1C
    CHAIN = 0x1E
    BR_RETIRED = 0x21
    BR_MIS_PRED_RETIRED = 0x22
    STALL_FRONTEND = 0x23
    STALL_BACKEND = 0x24
    L1D_TLB = 0x25
    L2D_TLB_REFILL = 0x2D
    L2D_TLB = 0x2F
    REMOTE_ACCESS = 0x31
    LL_CACHE = 0x32
    LL_CACHE_MISS = 0x33
    DTLB_WALK = 0x34
    LL_CACHE_RD = 0x36
    LL_CACHE_MISS_RD = 0x37
    L1D_CACHE_LMISS_RD = 0x39
    OP_RETIRED = 0x3A
    OP_SPEC = 0x3B
    STALL = 0x3C
    STALL_SLOT_BACKEND = 0x3D
    STALL_SLOT_FRONTEND = 0x3E
    STALL_SLOT = 0x3F
    LD_SPEC = 0x70
    ST_SPEC = 0x71
    PC_WRITE_SPEC = 0x76
    EXC_UNDEF = 0x81
    EXC_SVC = 0x82
    EXC_PABORT = 0x83
    EXC_DABORT = 0x84
    EXC_IRQ = 0x86
    EXC_FIQ = 0x87
    EXC_SMC = 0x88
    EXC_HVC = 0x8A
    EXC_TRAP_PABORT = 0x8B
    EXC_TRAP_DABORT = 0x8C
    EXC_TRAP_OTHER = 0x8D
    EXC_TRAP_IRQ = 0x8E
    EXC_TRAP_FIQ = 0x8F
    CNT_CYCLES = 0x4004
    PMU_OVFS = 0x400D
    LDST_ALIGN_LAT = 0x4020
    SIMD_INST_SPEC = 0x8004
    FP_SPEC = 0x8010
    BR_IND_RETIRED = 0x811D


SYNCHRONOUS: Final = frozenset(PMUEvent[name] for name in SYNCHRONOUS_EVENTS)
"""Events that a counter in synchronous mode counts."""
