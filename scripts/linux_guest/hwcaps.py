"""What Linux says a core has: ``Features`` of /proc/cpuinfo, AT_HWCAP and AT_HWCAP2.

Linux, Documentation/arch/arm64/elf_hwcaps.rst: the field of an ID register and its least value, for
each word. Bits are those of the interface, include/uapi/asm/hwcap.h.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from spe_unicorn import Machine
from spe_unicorn.machine.shipped import shipped_firmware

AT_HWCAP, AT_HWCAP2 = 16, 26


class Word(NamedTuple):
    """A word of ``Features``."""

    vector: int
    """The entry of the auxiliary vector that has its bit."""
    bit: int
    register: str = ""
    """The ID register, without ID_AA64 and _EL1; empty for a word that each core has."""
    field: str = ""
    least: int = 0
    since: tuple[int, int] = (5, 18)
    """The first Linux that knows it, where that is newer."""


def _first(bit: int, register: str = "", field: str = "", least: int = 0) -> Word:
    return Word(AT_HWCAP, bit, register, field, least)


def _second(
    bit: int, register: str, field: str, least: int, since: tuple[int, int] = (5, 18)
) -> Word:
    return Word(AT_HWCAP2, bit, register, field, least, since)


WORDS: Final[Mapping[str, Word]] = {
    "fp": _first(0),
    "asimd": _first(1),
    "evtstrm": _first(2),
    "aes": _first(3, "ISAR0", "AES", 1),
    "pmull": _first(4, "ISAR0", "AES", 2),
    "sha1": _first(5, "ISAR0", "SHA1", 1),
    "sha2": _first(6, "ISAR0", "SHA2", 1),
    "crc32": _first(7, "ISAR0", "CRC32", 1),
    "atomics": _first(8, "ISAR0", "Atomic", 2),
    "fphp": _first(9, "PFR0", "FP", 1),
    "asimdhp": _first(10, "PFR0", "AdvSIMD", 1),
    "cpuid": _first(11),
    "asimdrdm": _first(12, "ISAR0", "RDM", 1),
    "jscvt": _first(13, "ISAR1", "JSCVT", 1),
    "fcma": _first(14, "ISAR1", "FCMA", 1),
    "lrcpc": _first(15, "ISAR1", "LRCPC", 1),
    "dcpop": _first(16, "ISAR1", "DPB", 1),
    "sha3": _first(17, "ISAR0", "SHA3", 1),
    "sm3": _first(18, "ISAR0", "SM3", 1),
    "sm4": _first(19, "ISAR0", "SM4", 1),
    "asimddp": _first(20, "ISAR0", "DP", 1),
    "sha512": _first(21, "ISAR0", "SHA2", 2),
    "sve": _first(22, "PFR0", "SVE", 1),
    "asimdfhm": _first(23, "ISAR0", "FHM", 1),
    "dit": _first(24, "PFR0", "DIT", 1),
    "uscat": _first(25, "MMFR2", "AT", 1),
    "ilrcpc": _first(26, "ISAR1", "LRCPC", 2),
    "flagm": _first(27, "ISAR0", "TS", 1),
    "ssbs": _first(28, "PFR1", "SSBS", 2),
    "sb": _first(29, "ISAR1", "SB", 1),
    "paca": _first(30, "ISAR1", "APA", 1),
    "pacg": _first(31, "ISAR1", "GPA", 1),
    "gcs": Word(AT_HWCAP, 32, "PFR1", "GCS", 1, (6, 13)),
    "dcpodp": _second(0, "ISAR1", "DPB", 2),
    "sve2": _second(1, "ZFR0", "SVEver", 1),
    "sveaes": _second(2, "ZFR0", "AES", 1),
    "svepmull": _second(3, "ZFR0", "AES", 2),
    "svebitperm": _second(4, "ZFR0", "BitPerm", 1),
    "svesha3": _second(5, "ZFR0", "SHA3", 1),
    "svesm4": _second(6, "ZFR0", "SM4", 1),
    "flagm2": _second(7, "ISAR0", "TS", 2),
    "frint": _second(8, "ISAR1", "FRINTTS", 1),
    "svei8mm": _second(9, "ZFR0", "I8MM", 1),
    "svef32mm": _second(10, "ZFR0", "F32MM", 1),
    "svef64mm": _second(11, "ZFR0", "F64MM", 1),
    "svebf16": _second(12, "ZFR0", "BF16", 1),
    "i8mm": _second(13, "ISAR1", "I8MM", 1),
    "bf16": _second(14, "ISAR1", "BF16", 1),
    "dgh": _second(15, "ISAR1", "DGH", 1),
    "rng": _second(16, "ISAR0", "RNDR", 1),
    "bti": _second(17, "PFR1", "BT", 1),
    "mte": _second(18, "PFR1", "MTE", 2),
    "ecv": _second(19, "MMFR0", "ECV", 1),
    "afp": _second(20, "MMFR1", "AFP", 1),
    "rpres": _second(21, "ISAR2", "RPRES", 1),
    "mte3": _second(22, "PFR1", "MTE", 3),
    "wfxt": _second(31, "ISAR2", "WFxT", 2, (5, 19)),
    "ebf16": _second(32, "ISAR1", "BF16", 2, (6, 1)),
    "sveebf16": _second(33, "ZFR0", "BF16", 2, (6, 1)),
    "cssc": _second(34, "ISAR2", "CSSC", 1, (6, 3)),
    "rprfm": _second(35, "ISAR2", "RPRFM", 1, (6, 3)),
    "sve2p1": _second(36, "ZFR0", "SVEver", 2, (6, 3)),
    "mops": _second(43, "ISAR2", "MOPS", 1, (6, 5)),
    "hbc": _second(44, "ISAR2", "BC", 1, (6, 6)),
    "sveb16b16": _second(45, "ZFR0", "B16B16", 1, (6, 7)),
    "lrcpc3": _second(46, "ISAR1", "LRCPC", 3, (6, 7)),
    "lse128": _second(47, "ISAR0", "Atomic", 3, (6, 7)),
    "faminmax": _second(50, "ISAR3", "FAMINMAX", 1, (6, 10)),
}
_NOT_THERE: Final = 15
"""In FP and AdvSIMD, which are signed numbers, none."""


def promised(core: str, release: tuple[int, int]) -> set[str]:
    """The words that a Linux of that release makes of a core's ID registers."""
    with Machine(shipped_firmware("hello"), core=core) as machine:
        registers = machine.pes[0].registers

        def has(word: Word) -> bool:
            if not word.register:
                return True
            value = getattr(registers, f"ID_AA64{word.register}_EL1")
            return bool(word.least <= getattr(value, word.field) < _NOT_THERE)

        return {name for name, word in WORDS.items() if word.since <= release and has(word)}


def told(auxiliary: bytes) -> set[str]:
    """The words of AT_HWCAP and AT_HWCAP2 in a process's auxiliary vector.

    A bit that no word has is called by its number.
    """
    whole = len(auxiliary) // 16 * 16
    entries = dict(struct.iter_unpack("<2Q", auxiliary[:whole]))
    names = {(word.vector, word.bit): name for name, word in WORDS.items()}
    return {
        names.get((vector, bit), f"bit {bit} of entry {vector}")
        for vector in (AT_HWCAP, AT_HWCAP2)
        for bit in range(64)
        if entries.get(vector, 0) >> bit & 1
    }
