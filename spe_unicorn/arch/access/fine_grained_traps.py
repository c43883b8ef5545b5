"""Fine-grained traps of what the PE itself has: System registers, System instructions, calls.

The traps of SPE's own registers and of debug's stand with their access rules (``access``), as do
those of PSB CSYNC. Everything else that HFGRTR_EL2, HFGWTR_EL2, HDFGRTR_EL2, HDFGWTR_EL2 and
HFGITR_EL2 can trap, and that this PE executes, is in the tables below: by the name of the bit, the
encodings that it traps. Arm ARM D24.2, the pages of these registers and of those that they trap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spe_unicorn.arch.access import restriction, tags, tlb
from spe_unicorn.arch.access.checks import fine_grained_traps_enabled
from spe_unicorn.arch.access.verdicts import SYSREG_TRAP
from spe_unicorn.arch.exceptions.syndromes import EC, Syndrome, system_register_trap
from spe_unicorn.arch.pe import EL0, EL1, PE
from spe_unicorn.arch.registers.fgt import (
    HDFGRTR_EL2,
    HDFGWTR_EL2,
    HFGITR_EL2,
    HFGRTR_EL2,
    HFGWTR_EL2,
)
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import HCRX_EL2, SCTLR_EL1
from spe_unicorn.arch.rules.effective import el_is_in_host, hcrx_enabled

_SYSTEM: Final = 0xD500_0000
"""MSR, MRS, SYS and SYSL, and with op0 = 0b00 others."""
_SYSTEM_MASK: Final = 0xFFC0_0000
_PLAIN_ERET, _ERETAA, _ERETAB = 0xD69F_03E0, 0xD69F_0BFF, 0xD69F_0FFF
_ERETS: Final = {_PLAIN_ERET: 0b00, _ERETAA: 0b10, _ERETAB: 0b11}
"""ERET, ERETAA and ERETAB, with the ISS of their trap."""
_ERET: Final = 1 << 17
READ_BIT: Final = 1 << 16
"""What :func:`trap_id` gives of a read more than of a write."""
TRAP_IDS: Final = _ERET + 1
"""How many numbers :func:`trap_id` gives."""


def trap_id(word: int) -> int:
    """What an instruction is to fine-grained traps: equal words of a kind have equal numbers.

    Bit 16 and below are L, op0, op1, CRn, CRm and op2 of a System instruction; 0 is none that any
    of them traps. Compiled code calls this, too.
    """
    if word & _SYSTEM_MASK == _SYSTEM:
        return word >> 5 & 0x1_FFFF
    return _ERET if word in (_PLAIN_ERET, _ERETAA, _ERETAB) else 0


def syndrome_of(word: int) -> Syndrome:
    """The syndrome with which EL2 takes an instruction that a fine-grained trap has trapped."""
    if word in _ERETS:
        return Syndrome(EC.ERetTrap, _ERETS[word])
    number = trap_id(word)
    read = bool(number & READ_BIT)
    return system_register_trap(Encoding.from_key(number & 0xFFFF), word & 31, read, SYSREG_TRAP)


def trapped_at(pe: PE, el: int) -> frozenset[int]:
    """What of EL0 or EL1 fine-grained traps take to EL2 as registers are now, by :func:`trap_id`.

    What is UNDEFINED there, or what EL1 traps first, is not among it.
    """
    if el > EL1 or not fine_grained_traps_enabled(pe) or (el == EL0 and el_is_in_host(pe, EL0)):
        return frozenset()
    return frozenset(_trapped(pe, el))


def _trapped(pe: PE, el: int) -> Iterator[int]:
    with_nxs = not (hcrx_enabled(pe) and pe.registers.read(HCRX_EL2).FGTnXS)
    for register, direction, table in _TABLES:
        raw = pe.registers.raw(register)
        if not raw:
            continue
        for name, encodings in table.items():
            if raw & register.field(name).mask:
                for encoding in encodings:
                    number = direction | encoding.key
                    if not with_nxs and tlb.is_nxs(encoding):
                        continue
                    if _is_there(pe, number) if el == EL1 else _reaches(pe, number):
                        yield number
    if el == EL1 and pe.registers.read(HFGITR_EL2).ERET:
        yield _ERET


def _is_there(pe: PE, number: int) -> bool:
    """Whether the core has an instruction: what it has not is UNDEFINED, and never trapped."""
    return _LATER.get(number, frozenset()) <= pe.features


def _reaches(pe: PE, number: int) -> bool:
    """Whether EL0 has an instruction, and EL1 does not trap it."""
    if number not in _AT_EL0 or not _is_there(pe, number):
        return False
    gate = _AT_EL0[number]
    return gate is None or bool(pe.registers.raw(SCTLR_EL1) & SCTLR_EL1.field(gate).mask)


def traps_supervisor_call(pe: PE, el: int) -> bool:
    """AArch64.CheckForSVCTrap(). Whether an SVC of EL0 or EL1 goes to EL2, in place of its target.

    The return address is then that of the SVC itself.
    """
    if el > EL1 or not fine_grained_traps_enabled(pe):
        return False
    hfgitr = pe.registers.read(HFGITR_EL2)
    if el == EL0:
        return bool(hfgitr.SVC_EL0) and not el_is_in_host(pe, EL0)
    return bool(hfgitr.SVC_EL1)


def _el1(crn: int, crm: int, *op2: int) -> tuple[Encoding, ...]:
    return tuple(Encoding(3, 0, crn, crm, n) for n in op2)


_COUNTERS: Final = range(31)
"""Event counters that there can be."""


def _event(crm: int) -> tuple[Encoding, ...]:
    return tuple(Encoding(3, 3, 14, crm + n // 8, n % 8) for n in _COUNTERS)


_Table = dict[str, tuple[Encoding, ...]]

_WRITABLE: Final[_Table] = {
    "AFSR0_EL1": _el1(5, 1, 0),
    "AFSR1_EL1": _el1(5, 1, 1),
    "AMAIR_EL1": _el1(10, 3, 0),
    "APDAKey": _el1(2, 2, 0, 1),
    "APDBKey": _el1(2, 2, 2, 3),
    "APGAKey": _el1(2, 3, 0, 1),
    "APIAKey": _el1(2, 1, 0, 1),
    "APIBKey": _el1(2, 1, 2, 3),
    "CONTEXTIDR_EL1": _el1(13, 0, 1),
    "CPACR_EL1": _el1(1, 0, 2),
    "CSSELR_EL1": (Encoding(3, 2, 0, 0, 0),),
    "ESR_EL1": _el1(5, 2, 0),
    "FAR_EL1": _el1(6, 0, 0),
    "LORC_EL1": _el1(10, 4, 3),
    "LOREA_EL1": _el1(10, 4, 1),
    "LORN_EL1": _el1(10, 4, 2),
    "LORSA_EL1": _el1(10, 4, 0),
    "MAIR_EL1": _el1(10, 2, 0),
    "PAR_EL1": _el1(7, 4, 0),
    "SCTLR_EL1": _el1(1, 0, 0),
    "TCR_EL1": _el1(2, 0, 2),
    "TPIDR_EL1": _el1(13, 0, 4),
    "TPIDRRO_EL0": (Encoding(3, 3, 13, 0, 3),),
    "TPIDR_EL0": (Encoding(3, 3, 13, 0, 2),),
    "TTBR0_EL1": _el1(2, 0, 0),
    "TTBR1_EL1": _el1(2, 0, 1),
    "VBAR_EL1": _el1(12, 0, 0),
    "ICC_IGRPENn_EL1": _el1(12, 12, 6, 7),
}
_READABLE: Final[_Table] = {
    **_WRITABLE,
    "AIDR_EL1": (Encoding(3, 1, 0, 0, 7),),
    "CCSIDR_EL1": (Encoding(3, 1, 0, 0, 0),),
    "CLIDR_EL1": (Encoding(3, 1, 0, 0, 1),),
    "CTR_EL0": (Encoding(3, 3, 0, 0, 1),),
    "DCZID_EL0": (Encoding(3, 3, 0, 0, 7),),
    "ISR_EL1": _el1(12, 1, 0),
    "LORID_EL1": _el1(10, 4, 7),
    "MIDR_EL1": _el1(0, 0, 0),
    "MPIDR_EL1": _el1(0, 0, 5),
    "REVIDR_EL1": _el1(0, 0, 6),
}
_DEBUG_BOTH: Final[_Table] = {
    "PMEVCNTRn_EL0": (*_event(8), Encoding(3, 3, 9, 13, 2)),
    "PMEVTYPERn_EL0": (*_event(12), Encoding(3, 3, 9, 13, 1)),
    "PMCCFILTR_EL0": (Encoding(3, 3, 14, 15, 7),),
    "PMCCNTR_EL0": (Encoding(3, 3, 9, 13, 0),),
    "PMCNTEN": (Encoding(3, 3, 9, 12, 1), Encoding(3, 3, 9, 12, 2)),
    "PMINTEN": _el1(9, 14, 1, 2),
    "PMOVS": (Encoding(3, 3, 9, 12, 3), Encoding(3, 3, 9, 14, 3)),
    "PMSELR_EL0": (Encoding(3, 3, 9, 12, 5),),
    "PMUSERENR_EL0": (Encoding(3, 3, 9, 14, 0),),
}
_DEBUG_READ: Final[_Table] = {
    **_DEBUG_BOTH,
    "PMCEIDn_EL0": (Encoding(3, 3, 9, 12, 6), Encoding(3, 3, 9, 12, 7)),
    "PMMIR_EL1": _el1(9, 14, 6),
}
_DEBUG_WRITTEN: Final[_Table] = {
    **_DEBUG_BOTH,
    "PMCR_EL0": (Encoding(3, 3, 9, 12, 0),),
    "PMSWINC_EL0": (Encoding(3, 3, 9, 12, 4),),
}


_LATER: Final = {**tlb.LATER, **tags.LATER, restriction.COSP.key: restriction.NEEDS}
"""What the engine lacks, with what a core has to have for it."""


def _sys(op1: int, crm: int, op2: int, crn: int = 7) -> tuple[Encoding, ...]:
    return (Encoding(1, op1, crn, crm, op2),)


_INSTRUCTIONS: Final[_Table] = {
    "ICIALLUIS": _sys(0, 1, 0),
    "ICIALLU": _sys(0, 5, 0),
    "ICIVAU": _sys(3, 5, 1),
    # with those of tags (FEAT_MTE, FEAT_MTE2)
    "DCIVAC": _sys(0, 6, 1) + _sys(0, 6, 3) + _sys(0, 6, 5),
    "DCISW": _sys(0, 6, 2) + _sys(0, 6, 4) + _sys(0, 6, 6),
    "DCCSW": _sys(0, 10, 2) + _sys(0, 10, 4) + _sys(0, 10, 6),
    "DCCISW": _sys(0, 14, 2) + _sys(0, 14, 4) + _sys(0, 14, 6),
    "DCCVAU": _sys(3, 11, 1),
    "DCCVAP": _sys(3, 12, 1) + _sys(3, 12, 3) + _sys(3, 12, 5),
    "DCCVADP": _sys(3, 13, 1) + _sys(3, 13, 3) + _sys(3, 13, 5),
    "DCCIVAC": _sys(3, 14, 1) + _sys(3, 14, 3) + _sys(3, 14, 5),
    "DCCVAC": _sys(3, 10, 1) + _sys(3, 10, 3) + _sys(3, 10, 5),
    "DCZVA": _sys(3, 4, 1) + _sys(3, 4, 3) + _sys(3, 4, 4),
    "ATS1E1R": _sys(0, 8, 0),
    "ATS1E1W": _sys(0, 8, 1),
    "ATS1E0R": _sys(0, 8, 2),
    "ATS1E0W": _sys(0, 8, 3),
    "ATS1E1RP": _sys(0, 9, 0),
    "ATS1E1WP": _sys(0, 9, 1),
    "CFPRCTX": _sys(3, 3, 4),
    "DVPRCTX": _sys(3, 3, 5),
    "CPPRCTX": _sys(3, 3, 7),
    "COSPRCTX": (restriction.COSP,),
    **{
        f"TLBI{name}{suffix}": _sys(0, crm, op2, crn=8) + _sys(0, crm, op2, crn=9)
        for suffix, crm in (("", 7), ("IS", 3), ("OS", 1))
        for name, op2 in (
            ("VMALLE1", 0),
            ("VAE1", 1),
            ("ASIDE1", 2),
            ("VAAE1", 3),
            ("VALE1", 5),
            ("VAALE1", 7),
        )
    },
    **{
        f"TLBI{name}{suffix}": _sys(0, crm, op2, crn=8) + _sys(0, crm, op2, crn=9)
        for suffix, crm in (("", 6), ("IS", 2), ("OS", 5))
        for name, op2 in (("RVAE1", 1), ("RVAAE1", 3), ("RVALE1", 5), ("RVAALE1", 7))
    },
}
_TABLES: Final[tuple[tuple[type[SysReg], int, _Table], ...]] = (
    (HFGRTR_EL2, READ_BIT, _READABLE),
    (HFGWTR_EL2, 0, _WRITABLE),
    (HDFGRTR_EL2, READ_BIT, _DEBUG_READ),
    (HDFGWTR_EL2, 0, _DEBUG_WRITTEN),
    (HFGITR_EL2, 0, _INSTRUCTIONS),
)


def _ids(table: _Table, *names: str, direction: int = 0) -> list[int]:
    return [direction | encoding.key for name in names for encoding in table[name]]


_AT_EL0: Final[dict[int, str | None]] = {
    **dict.fromkeys(_ids(_READABLE, "CTR_EL0", direction=READ_BIT), "UCT"),
    **dict.fromkeys(
        _ids(_READABLE, "DCZID_EL0", "TPIDR_EL0", "TPIDRRO_EL0", direction=READ_BIT), None
    ),
    **dict.fromkeys(_ids(_WRITABLE, "TPIDR_EL0"), None),
    **dict.fromkeys(
        _ids(_INSTRUCTIONS, "ICIVAU", "DCCVAC", "DCCVAU", "DCCVAP", "DCCVADP", "DCCIVAC"), "UCI"
    ),
    **dict.fromkeys(_ids(_INSTRUCTIONS, "DCZVA"), "DZE"),
    **dict.fromkeys(_ids(_INSTRUCTIONS, "CFPRCTX", "DVPRCTX", "CPPRCTX", "COSPRCTX"), "EnRCTX"),
}
"""What EL0 may use, with the bit of SCTLR_EL1 without which EL1 traps it. The PMU's are not here:
what of them EL0 may use is the PMU's to say."""
