"""Which rows a PE has, by the features of its core."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.instructions.rows import Needs

_BRINGS: Final = {
    Feature.FEAT_SVE: Needs.SVE,
    Feature.FEAT_I8MM: Needs.I8MM,
    Feature.FEAT_BF16: Needs.BF16,
    Feature.FEAT_SVE2: Needs.SVE2,
    Feature.FEAT_SVE_BitPerm: Needs.BITPERM,
    Feature.FEAT_SVE_SHA3: Needs.SVE_SHA3,
    Feature.FEAT_SVE_AES: Needs.SVE_AES,
    Feature.FEAT_SVE_SM4: Needs.SVE_SM4,
    Feature.FEAT_F32MM: Needs.F32MM,
    Feature.FEAT_F64MM: Needs.F64MM,
    Feature.FEAT_SVE2p1: Needs.SVE2P1,
    Feature.FEAT_CSSC: Needs.CSSC,
    Feature.FEAT_LSE128: Needs.LSE128,
    Feature.FEAT_HBC: Needs.HBC,
    Feature.FEAT_MTE: Needs.MTE,
    Feature.FEAT_MTE2: Needs.MTE2,
    Feature.FEAT_MOPS: Needs.MOPS,
    Feature.FEAT_LRCPC3: Needs.LRCPC3,
    Feature.FEAT_LS64: Needs.LS64,
    Feature.FEAT_LUT: Needs.LUT,
    Feature.FEAT_CMPBR: Needs.CMPBR,
}


def needs_met(features: Features) -> Needs:
    """What of the rows' needs a core meets."""
    met = Needs(0)
    for feature, need in _BRINGS.items():
        if feature in features:
            met |= need
    return met
