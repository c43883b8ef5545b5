"""What Linux makes of each profile's ID registers is what it says on that core.

Linux, Documentation/arch/arm64/elf_hwcaps.rst: the field of an ID register, and its least value,
for each word of ``Features`` in /proc/cpuinfo.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Final

import pytest

from spe_unicorn.arch.registers import id as ids
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import load_core
from tests.support import a64 as a
from tests.support.small_boards import board_at

WORDS: Final[dict[str, tuple[type[SysReg], str, int]]] = {
    "aes": (ids.ID_AA64ISAR0_EL1, "AES", 1),
    "pmull": (ids.ID_AA64ISAR0_EL1, "AES", 2),
    "sha1": (ids.ID_AA64ISAR0_EL1, "SHA1", 1),
    "sha2": (ids.ID_AA64ISAR0_EL1, "SHA2", 1),
    "sha512": (ids.ID_AA64ISAR0_EL1, "SHA2", 2),
    "crc32": (ids.ID_AA64ISAR0_EL1, "CRC32", 1),
    "atomics": (ids.ID_AA64ISAR0_EL1, "Atomic", 2),
    "asimdrdm": (ids.ID_AA64ISAR0_EL1, "RDM", 1),
    "sha3": (ids.ID_AA64ISAR0_EL1, "SHA3", 1),
    "sm3": (ids.ID_AA64ISAR0_EL1, "SM3", 1),
    "sm4": (ids.ID_AA64ISAR0_EL1, "SM4", 1),
    "asimddp": (ids.ID_AA64ISAR0_EL1, "DP", 1),
    "asimdfhm": (ids.ID_AA64ISAR0_EL1, "FHM", 1),
    "flagm": (ids.ID_AA64ISAR0_EL1, "TS", 1),
    "flagm2": (ids.ID_AA64ISAR0_EL1, "TS", 2),
    "rng": (ids.ID_AA64ISAR0_EL1, "RNDR", 1),
    "dcpop": (ids.ID_AA64ISAR1_EL1, "DPB", 1),
    "dcpodp": (ids.ID_AA64ISAR1_EL1, "DPB", 2),
    "paca": (ids.ID_AA64ISAR1_EL1, "APA", 1),
    "pacg": (ids.ID_AA64ISAR1_EL1, "GPA", 1),
    "jscvt": (ids.ID_AA64ISAR1_EL1, "JSCVT", 1),
    "fcma": (ids.ID_AA64ISAR1_EL1, "FCMA", 1),
    "lrcpc": (ids.ID_AA64ISAR1_EL1, "LRCPC", 1),
    "ilrcpc": (ids.ID_AA64ISAR1_EL1, "LRCPC", 2),
    "frint": (ids.ID_AA64ISAR1_EL1, "FRINTTS", 1),
    "sb": (ids.ID_AA64ISAR1_EL1, "SB", 1),
    "bf16": (ids.ID_AA64ISAR1_EL1, "BF16", 1),
    "dgh": (ids.ID_AA64ISAR1_EL1, "DGH", 1),
    "i8mm": (ids.ID_AA64ISAR1_EL1, "I8MM", 1),
    "wfxt": (ids.ID_AA64ISAR2_EL1, "WFxT", 2),
    "sve": (ids.ID_AA64PFR0_EL1, "SVE", 1),
    "dit": (ids.ID_AA64PFR0_EL1, "DIT", 1),
    "bti": (ids.ID_AA64PFR1_EL1, "BT", 1),
    "ssbs": (ids.ID_AA64PFR1_EL1, "SSBS", 2),
    "sve2": (ids.ID_AA64ZFR0_EL1, "SVEver", 1),
    "sveaes": (ids.ID_AA64ZFR0_EL1, "AES", 1),
    "svepmull": (ids.ID_AA64ZFR0_EL1, "AES", 2),
    "svebitperm": (ids.ID_AA64ZFR0_EL1, "BitPerm", 1),
    "svebf16": (ids.ID_AA64ZFR0_EL1, "BF16", 1),
    "svesha3": (ids.ID_AA64ZFR0_EL1, "SHA3", 1),
    "svesm4": (ids.ID_AA64ZFR0_EL1, "SM4", 1),
    "svei8mm": (ids.ID_AA64ZFR0_EL1, "I8MM", 1),
    "ecv": (ids.ID_AA64MMFR0_EL1, "ECV", 1),
    "afp": (ids.ID_AA64MMFR1_EL1, "AFP", 1),
    "uscat": (ids.ID_AA64MMFR2_EL1, "AT", 1),
}
SIGNED: Final = {"fphp": "FP", "asimdhp": "AdvSIMD"}
"""Of ID_AA64PFR0_EL1: 1, where 0 is without half precision and 15 is nothing."""
FIRST: Final = "aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp ssbs"
OF_V1: Final = (
    f"{FIRST} jscvt fcma sha3 sm3 sm4 sha512 sve asimdfhm dit uscat ilrcpc flagm paca pacg dcpodp"
    " svei8mm svebf16 i8mm bf16 dgh rng"
)
OF_V9: Final = "sb sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint bti"
SILICON: Final = {
    "neoverse-n1": FIRST,  # AWS Graviton2 (archspec-json issue 41)
    "neoverse-v1": OF_V1,  # AWS Graviton3
    "neoverse-n2": f"{OF_V1} {OF_V9}",
    "neoverse-v2": f"{OF_V1} {OF_V9}",  # NVIDIA Grace (archspec issue 159), rng AWS Graviton4
    # Snapdragon 8 Gen 3 (arm-socs-table issue 98), whose makers keep SVE from Linux
    "cortex-x4": f"{OF_V1} {OF_V9} ecv afp wfxt".replace(" rng", ""),
}
LACKS: Final = {"cortex-x4": {"afp"}}
"""What limits.md says is missing."""


@pytest.mark.parametrize("name", SILICON)
def test_linux_finds_what_it_finds_on_the_core(name: str) -> None:
    registers = tuple(dict.fromkeys(register for register, _, _ in WORDS.values()))
    code = [a.mrs(n, astuple(register.encoding)) for n, register in enumerate(registers)]
    board = board_at([*code, a.b(0)], el=1, core=load_core(name))
    board.run(len(code))
    values = {register: board.cpu.engine.x(n) for n, register in enumerate(registers)}
    found = {
        word
        for word, (register, field, least) in WORDS.items()
        if getattr(register(values[register]), field) >= least
    }
    pfr0 = ids.ID_AA64PFR0_EL1(values[ids.ID_AA64PFR0_EL1])
    found |= {word for word, field in SIGNED.items() if getattr(pfr0, field) == 1}
    assert found == set(SILICON[name].split()) - LACKS.get(name, set())
