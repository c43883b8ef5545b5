"""A physical memory and hand-made translation tables for the tests of the walker."""

from __future__ import annotations

from spe_unicorn.arch.memory.descriptors import Regime
from spe_unicorn.arch.memory.regimes import TranslationContext, translation_context
from spe_unicorn.arch.memory.vmsa import VMSA
from spe_unicorn.arch.memory.walk_parameters import Stage1Registers, Stage2Registers
from spe_unicorn.arch.spaces import PASpace

VALID = 1
TABLE = 3
PAGE = 3
BLOCK = 1
AF = 1 << 10
AP_EL0 = 1 << 6
READ_ONLY = 1 << 7
DBM = 1 << 51
CONTIGUOUS = 1 << 52
PXN = 1 << 53
UXN = 1 << 54
S2R = 1 << 6
S2W = 1 << 7
S2_NORMAL = 0b1111 << 2

MAIR = 0xFF_44_00
"""Attribute 0 Device-nGnRnE, 1 Normal Non-cacheable, 2 Normal Write-Back."""
NORMAL = 2 << 2

TG1_4K = 2 << 30
PS_40 = 2


def el10(
    *,
    sctlr: int = 0x1005,
    t0sz: int = 25,
    t1sz: int = 25,
    tcr: int = 0,
    ips: int = PS_40,
    ttbr0: int = 0x1000,
    ttbr1: int = 0x1000,
    stage2: Stage2Registers | None = None,
    vmsa: VMSA | None = None,
    paspace: PASpace = PASpace.NonSecure,
) -> TranslationContext:
    """EL1&0 with 4 KB granules, 39-bit ranges (so tables start at level 1) and caches on."""
    return translation_context(
        Regime.EL10,
        Stage1Registers(
            sctlr=sctlr,
            tcr=tcr | t0sz | t1sz << 16 | TG1_4K | ips << 32,
            ttbr0=ttbr0,
            ttbr1=ttbr1,
            mair=MAIR,
        ),
        stage2,
        paspace=paspace,
        vmsa=vmsa,
    )
