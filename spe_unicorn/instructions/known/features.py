"""The features of the architecture that bring instructions, and how a core says that it has them.

Names, versions and fields are those of the Arm ARM, A2.2, A2.3 and D24.2.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers import id as ids
from spe_unicorn.arch.registers.sysreg import SysReg


class Here(Enum):
    """Who executes the instructions of a feature on this machine."""

    ENGINE = "the engine"
    OURS = "spe_unicorn"
    NOBODY = "nobody"


class IsaFeature(NamedTuple):
    """A feature that brings instructions."""

    name: str
    """Without ``FEAT_``."""
    since: str
    """The version of the architecture whose name the feature has; also the one before may."""
    mandatory: str
    """The version from which on each core with EL1 and Advanced SIMD has it; empty for none."""
    register: type[SysReg]
    field: str
    """The ID field that shows it. PAuth is shown by this or another one, for another cipher."""
    least: int
    """The least value of the field that does."""
    here: Here

    @property
    def switch(self) -> Feature | None:
        """The feature of a profile by which it is chosen; None where no profile chooses."""
        return Feature.__members__.get(f"FEAT_{self.name}")

    def shown_by(self, value: int) -> bool:
        """Whether a value of the ID register shows it."""
        fields = ("APA", "API") if self.name == "PAuth" else (self.field,)
        shown = self.register(value)
        return any(self.least <= getattr(shown, field) < _NOT_THERE for field in fields)


_NOT_THERE: Final = 15
"""In fields that are signed numbers, none."""
_PFR0, _PFR1, _ZFR0 = ids.ID_AA64PFR0_EL1, ids.ID_AA64PFR1_EL1, ids.ID_AA64ZFR0_EL1
_ISAR0, _ISAR1, _ISAR2 = ids.ID_AA64ISAR0_EL1, ids.ID_AA64ISAR1_EL1, ids.ID_AA64ISAR2_EL1
_ISAR3, _MMFR1, _MMFR2 = ids.ID_AA64ISAR3_EL1, ids.ID_AA64MMFR1_EL1, ids.ID_AA64MMFR2_EL1
_ENGINE, _OURS, _NOBODY = Here

ISA: Final[tuple[IsaFeature, ...]] = tuple(
    IsaFeature(*row)
    for row in (
        ("AES", "8.0", "", _ISAR0, "AES", 1, _ENGINE),
        ("PMULL", "8.0", "", _ISAR0, "AES", 2, _ENGINE),
        ("SHA1", "8.0", "", _ISAR0, "SHA1", 1, _ENGINE),
        ("SHA256", "8.0", "", _ISAR0, "SHA2", 1, _ENGINE),
        ("CRC32", "8.0", "8.1", _ISAR0, "CRC32", 1, _ENGINE),
        ("LSE", "8.1", "8.1", _ISAR0, "Atomic", 2, _ENGINE),
        ("RDM", "8.1", "8.1", _ISAR0, "RDM", 1, _ENGINE),
        ("LOR", "8.1", "8.1", _MMFR1, "LO", 1, _ENGINE),
        ("PAN", "8.1", "8.1", _MMFR1, "PAN", 1, _ENGINE),
        ("PAN2", "8.2", "8.2", _MMFR1, "PAN", 2, _ENGINE),
        ("UAO", "8.2", "8.2", _MMFR2, "UAO", 1, _ENGINE),
        ("DPB", "8.2", "8.2", _ISAR1, "DPB", 1, _ENGINE),
        ("FP16", "8.2", "", _PFR0, "FP", 1, _ENGINE),
        ("DotProd", "8.2", "8.4", _ISAR0, "DP", 1, _ENGINE),
        ("FHM", "8.2", "", _ISAR0, "FHM", 1, _ENGINE),
        ("SHA512", "8.2", "", _ISAR0, "SHA2", 2, _ENGINE),
        ("SHA3", "8.2", "", _ISAR0, "SHA3", 1, _ENGINE),
        ("SM3", "8.2", "", _ISAR0, "SM3", 1, _ENGINE),
        ("SM4", "8.2", "", _ISAR0, "SM4", 1, _ENGINE),
        ("SVE", "8.2", "", _PFR0, "SVE", 1, _ENGINE),
        ("PAuth", "8.3", "8.3", _ISAR1, "APA", 1, _ENGINE),
        ("JSCVT", "8.3", "8.3", _ISAR1, "JSCVT", 1, _ENGINE),
        ("FCMA", "8.3", "8.3", _ISAR1, "FCMA", 1, _ENGINE),
        ("LRCPC", "8.3", "8.3", _ISAR1, "LRCPC", 1, _ENGINE),
        ("LRCPC2", "8.4", "8.4", _ISAR1, "LRCPC", 2, _ENGINE),
        ("FlagM", "8.4", "8.4", _ISAR0, "TS", 1, _ENGINE),
        ("DIT", "8.4", "8.4", _PFR0, "DIT", 1, _OURS),
        ("TLBIOS", "8.4", "8.4", _ISAR0, "TLB", 1, _OURS),
        ("TLBIRANGE", "8.4", "8.4", _ISAR0, "TLB", 2, _OURS),
        ("FlagM2", "8.5", "8.5", _ISAR0, "TS", 2, _ENGINE),
        ("FRINTTS", "8.5", "8.5", _ISAR1, "FRINTTS", 1, _ENGINE),
        ("SB", "8.5", "8.5", _ISAR1, "SB", 1, _ENGINE),
        ("SPECRES", "8.5", "8.5", _ISAR1, "SPECRES", 1, _ENGINE),
        ("SSBS2", "8.5", "", _PFR1, "SSBS", 2, _OURS),
        ("DPB2", "8.5", "8.5", _ISAR1, "DPB", 2, _ENGINE),
        ("RNG", "8.5", "", _ISAR0, "RNDR", 1, _ENGINE),
        ("MTE", "8.5", "", _PFR1, "MTE", 1, _OURS),
        ("MTE2", "8.5", "", _PFR1, "MTE", 2, _OURS),
        ("SVE2", "9.0", "", _ZFR0, "SVEver", 1, _OURS),
        ("SVE_AES", "9.0", "", _ZFR0, "AES", 1, _OURS),
        ("SVE_BitPerm", "9.0", "", _ZFR0, "BitPerm", 1, _OURS),
        ("SVE_SHA3", "9.0", "", _ZFR0, "SHA3", 1, _OURS),
        ("SVE_SM4", "9.0", "", _ZFR0, "SM4", 1, _OURS),
        ("I8MM", "8.6", "8.6", _ISAR1, "I8MM", 1, _OURS),
        ("BF16", "8.6", "8.6", _ISAR1, "BF16", 1, _OURS),
        ("F32MM", "8.6", "", _ZFR0, "F32MM", 1, _OURS),
        ("F64MM", "8.6", "", _ZFR0, "F64MM", 1, _OURS),
        ("WFxT", "8.7", "8.7", _ISAR2, "WFxT", 2, _OURS),
        ("XS", "8.7", "8.7", _ISAR1, "XS", 1, _OURS),
        ("LS64", "8.7", "", _ISAR1, "LS64", 1, _OURS),
        ("SME", "9.2", "", _PFR1, "SME", 1, _NOBODY),
        ("HBC", "8.8", "8.8", _ISAR2, "BC", 1, _OURS),
        ("MOPS", "8.8", "8.8", _ISAR2, "MOPS", 1, _OURS),
        ("NMI", "8.8", "8.8", _PFR1, "NMI", 1, _NOBODY),
        ("CSSC", "8.9", "8.9", _ISAR2, "CSSC", 1, _OURS),
        ("LRCPC3", "8.9", "", _ISAR1, "LRCPC", 3, _OURS),
        ("SPECRES2", "8.9", "8.9", _ISAR1, "SPECRES", 2, _OURS),
        ("LSE128", "9.4", "", _ISAR0, "Atomic", 3, _OURS),
        ("THE", "8.9", "", _PFR1, "THE", 1, _NOBODY),
        ("GCS", "9.4", "", _PFR1, "GCS", 1, _NOBODY),
        ("SYSINSTR128", "9.4", "", _ISAR2, "SYSINSTR_128", 1, _NOBODY),
        ("FAMINMAX", "9.5", "9.5", _ISAR3, "FAMINMAX", 1, _NOBODY),
        ("CMPBR", "9.6", "9.6", _ISAR2, "CSSC", 2, _OURS),
        ("LUT", "9.5", "9.5", _ISAR2, "LUT", 1, _OURS),
        ("SVE2p1", "9.4", "", _ZFR0, "SVEver", 2, _OURS),
        # no instructions of their own, so no row of words needs their bits
        ("LSE2", "8.4", "8.4", _MMFR2, "AT", 1, _OURS),
        ("MTE3", "8.5", "", _PFR1, "MTE", 3, _OURS),
    )
)
"""All of them; a set of them is a number with a bit for each, in this order."""
BIT: Final = {feature.name: 1 << n for n, feature in enumerate(ISA)}
"""The bit of each, by name."""


def named(bits: int) -> tuple[IsaFeature, ...]:
    """The features of a set."""
    return tuple(feature for n, feature in enumerate(ISA) if bits >> n & 1)
