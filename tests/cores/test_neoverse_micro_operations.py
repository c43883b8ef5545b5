"""Neoverse V1, N2 and V2: as many micro-operations as LLVM's scheduling models of them have."""

from __future__ import annotations

import pytest

from spe_unicorn.cores.profile import load_core
from spe_unicorn.decode import decode

CORES = ("neoverse-v1", "neoverse-n2", "neoverse-v2")


@pytest.mark.parametrize(
    ("word", "what", "counts"),
    [
        (0xA940_0440, "LDP X0, X1, [X2]", (2, 2, 1)),
        (0x28C1_0440, "LDP W0, W1, [X2], #8", (2, 2, 2)),
        (0xA900_0440, "STP X0, X1, [X2]", (2, 2, 2)),
        (0x2981_0440, "STP W0, W1, [X2, #8]!", (3, 3, 3)),
        (0xF940_0020, "LDR X0, [X1]", (1, 1, 1)),
        (0xF862_6820, "LDR X0, [X1, X2]", (1, 2, 1)),
        (0xB8A2_6820, "LDRSW X0, [X1, X2]", (1, 2, 1)),
        (0xF822_6820, "STR X0, [X1, X2]", (2, 3, 2)),
        (0x5800_0200, "LDR X0, .+0x40", (1, 1, 2)),
        (0x3CE2_6820, "LDR Q0, [X1, X2]", (2, 2, 1)),
        (0x3CE2_7820, "LDR Q0, [X1, X2, LSL #4]", (2, 2, 2)),
        (0xFC62_6820, "LDR D0, [X1, X2]", (1, 1, 1)),
        (0x6D40_0440, "LDP D0, D1, [X2]", (1, 1, 1)),
        (0xAD40_0440, "LDP Q0, Q1, [X2]", (2, 2, 2)),
        (0xACC1_0440, "LDP Q0, Q1, [X2], #32", (3, 4, 4)),
        (0x3D80_0020, "STR Q0, [X1]", (2, 2, 2)),
        (0x3C81_0420, "STR Q0, [X1], #16", (3, 3, 3)),
        (0x3CA2_6820, "STR Q0, [X1, X2]", (3, 2, 2)),
        (0xAD00_0440, "STP Q0, Q1, [X2]", (2, 3, 3)),
        (0xAC81_0440, "STP Q0, Q1, [X2], #32", (4, 4, 4)),
        (0xAD81_0440, "STP Q0, Q1, [X2, #32]!", (4, 5, 5)),
        (0x0C40_2C00, "LD1 {V0.1D-V3.1D}, [X0]", (2, 4, 4)),
        (0x4C40_8000, "LD2 {V0.16B, V1.16B}, [X0]", (4, 4, 4)),
        (0x0C40_4000, "LD3 {V0.8B-V2.8B}, [X0]", (5, 5, 5)),
        (0x4CDF_0800, "LD4 {V0.4S-V3.4S}, [X0], #64", (9, 9, 11)),
        (0x0D60_B000, "LD4 {V0.S-V3.S}[1], [X0]", (7, 7, 7)),
        (0x4D40_E800, "LD3R {V0.4S-V2.4S}, [X0]", (5, 6, 6)),
        (0x0C00_A000, "ST1 {V0.8B, V1.8B}, [X0]", (2, 2, 2)),
        (0x4C00_8000, "ST2 {V0.16B, V1.16B}, [X0]", (4, 4, 6)),
        (0x4C00_0000, "ST4 {V0.16B-V3.16B}, [X0]", (12, 12, 16)),
        (0x4C00_0C00, "ST4 {V0.2D-V3.2D}, [X0]", (8, 8, 12)),
        (0x0D20_B000, "ST4 {V0.S-V3.S}[1], [X0]", (6, 6, 4)),
        (0x4D20_A400, "ST4 {V0.D-V3.D}[1], [X0]", (4, 6, 6)),
        (0x4E0C_1C00, "INS V0.S[1], W0", (2, 2, 2)),
        (0x9E66_0000, "FMOV X0, D0", (1, 1, 2)),
        (0x1E22_0020, "SCVTF S0, W1", (1, 1, 1)),
        (0x4E21_D800, "SCVTF V0.4S, V0.4S", (2, 2, 2)),
        (0x4E61_D800, "SCVTF V0.2D, V0.2D", (1, 1, 1)),
        (0x4E31_B800, "ADDV B0, V0.16B", (2, 1, 2)),
        (0x0E31_B800, "ADDV B0, V0.8B", (2, 2, 2)),
        (0x4EB1_B800, "ADDV S0, V0.4S", (1, 1, 1)),
        (0x6E30_A800, "UMAXV B0, V0.16B", (2, 2, 2)),
        (0x6E30_C800, "FMAXNMV S0, V0.4S", (2, 1, 2)),
        (0x4E01_4000, "TBL V0.16B, {V0.16B-V2.16B}, V1.16B", (2, 2, 2)),
        (0x0E01_7000, "TBX V0.8B, {V0.16B-V3.16B}, V1.8B", (5, 8, 5)),
        (0x4EA0_9C00, "MUL V0.4S, V0.4S, V0.4S", (1, 1, 1)),
        (0xF820_0420, "LDRAA X0, [X1]", (2, 2, 2)),
        # one, not two: a sample of it has to be a branch
        (0x9400_0040, "BL .+0x100", (1, 1, 1)),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_how_many_micro_operations_an_instruction_is(
    word: int, what: str, counts: tuple[int, ...]
) -> None:
    found = []
    for name in CORES:
        cracking = load_core(name).cracking
        assert cracking is not None
        found.append(len(cracking.parts(decode(word))))
    assert tuple(found) == counts, what


def test_the_accesses_of_an_instruction_cover_its_bytes_once() -> None:
    for name in CORES:
        cracking = load_core(name).cracking
        assert cracking is not None
        for word in (0x0C40_4000, 0x0C40_0000, 0x0C00_6000, 0x4C00_0000, 0xAD40_0440):
            whole = decode(word).access
            assert whole is not None
            parts = cracking.parts(decode(word))
            pieces = sorted((p.access.offset, p.access.size) for p in parts if p.access is not None)
            assert sum(size for _, size in pieces) == whole.size
            ends = [offset + size for offset, size in pieces]
            assert [offset for offset, _ in pieces] == [whole.offset, *ends[:-1]]
