"""Unicorn 2.1.4, on any host: QEMU 5.0's AArch64, the model MAX."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.builds.forms import Release, SavedState, Untranslatable

KNOWN: Final = Release(
    version=(2, 1, 4),
    saved=SavedState(
        header=40,
        pointers=16 * 8,  # its hardware breakpoints
        x0=16 * 4,  # after the registers of AArch32
        pc=16 * 4 + 32 * 8,
        pstate=16 * 4 + 33 * 8,
        aarch64=16 * 4 + 33 * 8 + 4,
        roundings=(2, 1),
    ),
    untranslatable=Untranslatable(
        three_same=(0x0E40_0400, 0x9F60_C400),
        not_three_same=frozenset({0x05, 0x0B, 0x0C, 0x0D, 0x11, 0x19, 0x1B, 0x1F}),
        two_misc=(0x0E78_0800, 0x8F7E_0C00),
        two_misc_operations=frozenset(
            {
                *range(0x18, 0x1E),  # FRINTN, FRINTM, FCVTNS, FCVTMS, FCVTAS, SCVTF
                0x2C,  # FCMGT with zero
                0x2D,  # FCMEQ with zero
                0x2E,  # FCMLT with zero
                0x38,  # FRINTP
                0x39,  # FRINTZ
                0x3A,  # FCVTPS
                0x3B,  # FCVTZS
                0x3D,  # FRECPE
                *range(0x58, 0x5E),  # FRINTA, FRINTX, FCVTNU, FCVTMU, FCVTAU, UCVTF
                0x6C,  # FCMGE with zero
                0x6D,  # FCMLE with zero
                0x6F,  # FNEG
                0x79,  # FRINTI
                0x7A,  # FCVTPU
                0x7B,  # FCVTZU
                0x7D,  # FRSQRTE
            }
        ),
        vector_only=frozenset({0x2F, 0x7F}),  # FABS, FSQRT
        scalar_only=frozenset({0x3F}),  # FRECPX
    ),
    nested_runs=64,
    code_line=64,
)
