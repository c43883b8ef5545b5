"""What a core implements: the FEAT_* set, and its IMPLEMENTATION DEFINED choices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Feature(Enum):
    """An architectural feature, as Arm names it. Calling one asks a set: ``FEAT_SPE(features)``."""

    FEAT_SPE = "FEAT_SPE"
    FEAT_SPEv1p1 = "FEAT_SPEv1p1"
    FEAT_SPEv1p2 = "FEAT_SPEv1p2"
    FEAT_SPEv1p3 = "FEAT_SPEv1p3"
    FEAT_SPEv1p4 = "FEAT_SPEv1p4"
    FEAT_SPEv1p5 = "FEAT_SPEv1p5"
    FEAT_SPE_ALTCLK = "FEAT_SPE_ALTCLK"
    FEAT_SPE_ArchInst = "FEAT_SPE_ArchInst"
    FEAT_SPE_CRR = "FEAT_SPE_CRR"
    FEAT_SPE_DPFZS = "FEAT_SPE_DPFZS"
    FEAT_SPE_EFT = "FEAT_SPE_EFT"
    FEAT_SPE_ERnd = "FEAT_SPE_ERnd"
    FEAT_SPE_EXC = "FEAT_SPE_EXC"
    FEAT_SPE_FDS = "FEAT_SPE_FDS"
    FEAT_SPE_FnE = "FEAT_SPE_FnE"
    FEAT_SPE_FPF = "FEAT_SPE_FPF"
    FEAT_SPE_LDS = "FEAT_SPE_LDS"
    FEAT_SPE_PBT = "FEAT_SPE_PBT"
    FEAT_SPE_SME = "FEAT_SPE_SME"
    FEAT_SPE_nVM = "FEAT_SPE_nVM"
    FEAT_PMUv3 = "FEAT_PMUv3"
    FEAT_PMUv3p1 = "FEAT_PMUv3p1"
    FEAT_PMUv3p4 = "FEAT_PMUv3p4"
    FEAT_PMUv3p5 = "FEAT_PMUv3p5"
    FEAT_PMUv3p7 = "FEAT_PMUv3p7"
    FEAT_PMUv3p8 = "FEAT_PMUv3p8"
    FEAT_PMUv3p9 = "FEAT_PMUv3p9"
    FEAT_PMUv3_ICNTR = "FEAT_PMUv3_ICNTR"
    FEAT_EBEP = "FEAT_EBEP"
    FEAT_SEBEP = "FEAT_SEBEP"
    FEAT_FGT = "FEAT_FGT"
    FEAT_FGT2 = "FEAT_FGT2"
    FEAT_VHE = "FEAT_VHE"
    FEAT_NV = "FEAT_NV"
    FEAT_NV2 = "FEAT_NV2"
    FEAT_RME = "FEAT_RME"
    FEAT_SEL2 = "FEAT_SEL2"
    FEAT_ECV = "FEAT_ECV"
    FEAT_ECV_POFF = "FEAT_ECV_POFF"
    FEAT_SVE = "FEAT_SVE"
    FEAT_SME = "FEAT_SME"
    FEAT_MTE = "FEAT_MTE"
    FEAT_MTE2 = "FEAT_MTE2"
    FEAT_MOPS = "FEAT_MOPS"
    FEAT_GCS = "FEAT_GCS"
    FEAT_CSV3 = "FEAT_CSV3"
    FEAT_EL2 = "EL2"
    FEAT_EL3 = "EL3"

    def __call__(self, features: Features) -> bool:
        """Whether ``features`` hold this one."""
        return self in features


Features = frozenset[Feature]
"""The features that a core implements."""


@dataclass(frozen=True)
class ImpDef:
    """The IMPLEMENTATION DEFINED choices that the architecture leaves to a core.

    Sizes are base-2 logarithms where the register field is one.
    """

    align: int = 6
    """PMBIDR_EL1.Align: records are multiples of ``1 << align`` bytes."""
    max_size: int = 7
    """PMSIDR_EL1.MaxSize: no record is longer than ``1 << max_size`` bytes."""
    count_size: int = 3
    """PMSIDR_EL1.CountSize: 2 for 12-bit, 3 for 16-bit saturating counters."""
    interval: int = 0
    """PMSIDR_EL1.Interval: the recommended minimum interval, as the register encodes it."""
    max_sampled_operations: int = 1
    """How many sampled operations can be in flight before a selection collides."""
    pa_bits: int = 40
    """Physical address size, in bits."""
