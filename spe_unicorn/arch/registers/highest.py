"""Reset values that Arm fixes for the highest Exception level that is implemented.

The field of a lower level is UNKNOWN: software of a higher level initialises it.
"""

from __future__ import annotations

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.bits import UNKNOWN, Reset


def zero_if_el1_is_highest(features: Features) -> Reset:
    """0 where there is neither EL2 nor EL3, else UNKNOWN."""
    highest = Feature.FEAT_EL2 not in features and Feature.FEAT_EL3 not in features
    return 0 if highest else UNKNOWN


def zero_if_el2_is_highest(features: Features) -> Reset:
    """0 where there is no EL3, else UNKNOWN."""
    return UNKNOWN if Feature.FEAT_EL3 in features else 0
