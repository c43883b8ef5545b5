"""Whether a core has a feature, as its profile says."""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.features import Features, ImpDef
from spe_unicorn.arch.rules.feature_rules import minor_version
from spe_unicorn.instructions.known.features import BIT, ISA, Here, IsaFeature

_ENGINES: Final = sum(BIT[feature.name] for feature in ISA if feature.here is Here.ENGINE)


def has(
    feature: IsaFeature, features: Features, impdef: ImpDef, architecture: str | None
) -> bool | None:
    """Whether the core has a feature; None where its profile leaves that open.

    What a profile chooses is as chosen. Else an ID register of the core's manual decides, and where
    there is none the version of the architecture. A core without a version is none of silicon: it
    has what is executed here.
    """
    switch = feature.switch
    if switch in features:
        return True
    if switch is not None and feature.here is not Here.NOBODY:
        return False
    manual = dict(impdef.identity)
    value = manual.get(feature.register.__name__)
    if value is not None:
        return feature.shown_by(value)
    if architecture is None:
        return feature.here is not Here.NOBODY
    version = minor_version(architecture)
    if feature.mandatory and minor_version(feature.mandatory) <= version:
        return True
    return False if minor_version(feature.since) > version + 1 else None


def absent(features: Features, impdef: ImpDef, architecture: str | None) -> int:
    """The features that the core surely lacks and the engine executes, a bit each."""
    return lacking(features, impdef, architecture) & _ENGINES


def lacking(features: Features, impdef: ImpDef, architecture: str | None) -> int:
    """The features that the core surely lacks, a bit each."""
    return sum(
        BIT[feature.name]
        for feature in ISA
        if has(feature, features, impdef, architecture) is False
    )
