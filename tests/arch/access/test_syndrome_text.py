from __future__ import annotations

import pytest

from spe_unicorn.arch.access.syndrome_text import syndrome_text
from spe_unicorn.arch.exceptions.syndromes import Syndrome


@pytest.mark.parametrize(
    ("esr", "text"),
    [
        (0x5600_1234, "SVC #0x1234"),
        (0xF200_0ABC, "BRK #0xabc"),
        (0x5A00_0001, "HVC #0x1"),
        (0x5E00_0002, "SMC #0x2"),
        (0x0200_0000, "Uncategorized"),
        (0x8600_0007, "InstructionAbort (translation fault, level 3)"),
        (0x9200_0004, "DataAbort (read, translation fault, level 0)"),
        (0x9600_004F, "DataAbort (write, permission fault, level 3)"),
        (0x9600_0050, "DataAbort (write, external abort)"),
        (0x9600_0021, "DataAbort (read, alignment fault)"),
        (0x9600_002B, "DataAbort (read, translation fault, level -1)"),
        (0x9600_003F, "DataAbort (read, fault status 0x3f)"),
        # MRS X5, PMSCR_EL1: op0 3, op1 0, CRn 9, CRm 9, op2 0
        (
            0x6200_0000 | 3 << 20 | 9 << 10 | 5 << 5 | 9 << 1 | 1,
            "SystemRegisterTrap (MRS X5, PMSCR_EL1)",
        ),
        (
            0x6200_0000 | 3 << 20 | 9 << 10 | 31 << 5 | 9 << 1,
            "SystemRegisterTrap (MSR PMSCR_EL1, XZR)",
        ),
        # an encoding of which we know no name
        (
            0x6200_0000 | 3 << 20 | 7 << 17 | 15 << 10 | 1,
            "SystemRegisterTrap (MRS X0, S3_0_C15_C0_7)",
        ),
        (0xFE00_0000, "exception class 0x3f"),
    ],
)
def test_a_syndrome_is_told_in_words(esr, text):
    assert syndrome_text(Syndrome.of_esr(esr)) == text
