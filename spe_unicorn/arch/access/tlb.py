"""TLB maintenance that the engine lacks: for the Outer Shareable domain, by range, and with nXS.

Arm ARM C5.5, the pages of TLBI.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from spe_unicorn.arch.access.verdicts import SYSREG_TRAP
from spe_unicorn.arch.exceptions.routing import Routed, default_target
from spe_unicorn.arch.exceptions.syndromes import UNDEFINED, system_register_trap
from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import HCR_EL2
from spe_unicorn.arch.rules.effective import el2_enabled

_SYS_MASK, _SYS = 0xFFF8_0000, 0xD508_0000
_OS: Final = frozenset({Feature.FEAT_TLBIOS})
_RANGE: Final = frozenset({Feature.FEAT_TLBIRANGE})
_XS: Final = frozenset({Feature.FEAT_XS})
_OF_EL1, _OF_EL2, _OF_EL3 = 0, 4, 6
"""op1 of what EL1, EL2 and EL3 may execute, and all levels above."""
_ALL_OR_ADDRESS: Final = {_OF_EL1: (0, 1, 2, 3, 5, 7), _OF_EL2: (0, 1, 4, 5, 6), _OF_EL3: (0, 1, 5)}
_BY_RANGE: Final = {_OF_EL1: (1, 3, 5, 7), _OF_EL2: (1, 5), _OF_EL3: (1, 5)}
"""op2 of each, by op1."""


def _tlbi(op1: int, crm: int, op2: int) -> int:
    return Encoding(1, op1, 8, crm, op2).key


_WITH_XS: Final[dict[int, Features]] = {
    **{_tlbi(op1, 1, n): _OS for op1, numbers in _ALL_OR_ADDRESS.items() for n in numbers},
    **{
        _tlbi(op1, crm, n): needs
        for crm, needs in ((2, _RANGE), (5, _OS | _RANGE), (6, _RANGE))
        for op1, numbers in _BY_RANGE.items()
        for n in numbers
    },
    # of stage 2: IPAS2E1OS, IPAS2LE1OS; RIPAS2E1IS and so on
    **{_tlbi(_OF_EL2, 4, n): _OS for n in (0, 4)},
    **{_tlbi(_OF_EL2, 4, n): _OS | _RANGE for n in (3, 7)},
    **{_tlbi(_OF_EL2, crm, n): _RANGE for crm in (0, 4) for n in (2, 6)},
}
_IN_ENGINE: Final = (
    *(_tlbi(op1, crm, n) for crm in (3, 7) for op1, ns in _ALL_OR_ADDRESS.items() for n in ns),
    *(_tlbi(_OF_EL2, crm, n) for crm in (0, 4) for n in (1, 5)),
)
_CRN_OF_NXS: Final = 9
_NXS: Final = 1 << 7
"""The bit of ``Encoding.key`` that makes CRn 9 of 8: without the XS attribute."""
LATER: Final[dict[int, Features]] = {
    **_WITH_XS,
    **{key | _NXS: needs | _XS for key, needs in _WITH_XS.items()},
    **{key | _NXS: _XS for key in _IN_ENGINE},
}
"""By ``Encoding.key``, what a core has to have for the instruction."""


PLACES: Final = 1 << 11
"""How many numbers :func:`place_of` gives."""
EXECUTED, NOTED, TOLD = 1, 2, 4
"""What compiled code knows of a TLBI that the core has and the engine lacks: that it is one; that
it notes that all of a TLB, or of an address space, goes; that other PEs are told of that."""


def place_of(key: int) -> int:
    """The place of a TLBI among all, by its ``Encoding.key``. Compiled code calls this, too.

    The bits are op1, whether it is without the XS attribute, CRm and op2.
    """
    return key >> 3 & 0x700 | key & 0xFF


def lacked_by_engine(word: int, features: Features) -> Encoding | None:
    """The encoding of a TLBI that the core has and the engine lacks; None for other words."""
    if word & _SYS_MASK != _SYS:
        return None
    key = word >> 5 & 0xFFFF
    needs = LATER.get(key)
    return Encoding.from_key(key) if needs is not None and needs <= features else None


def is_nxs(encoding: Encoding) -> bool:
    """Whether a system instruction is a TLBI with nXS."""
    return encoding.op0 == 1 and encoding.crn == _CRN_OF_NXS


def not_noted(tlbi: Encoding) -> bool:
    """Whether the hook for SYS does not note that all of a TLB, or of an address space, goes."""
    return tlbi.crn == _CRN_OF_NXS and tlbi.crm in (1, 3, 7) and tlbi.op2 & 1 == 0


def is_shared(tlbi: Encoding) -> bool:
    """Whether a TLBI of EL1, EL2 or EL3 is for the TLBs of other PEs, too."""
    return tlbi.crm not in (6, 7)


def refused(pe: PE, tlbi: Encoding, rt: int) -> Routed | None:
    """The exception of such an instruction of ``rt``; None where it is executed.

    Fine-grained traps, which go to EL2 as HCR_EL2.TTLB does, have been looked at before.
    """
    if pe.el == EL0 or (tlbi.op1 == _OF_EL2 and pe.el == EL1):
        return Routed(default_target(pe), UNDEFINED)
    if tlbi.op1 == _OF_EL3 and pe.el != EL3:
        return Routed(default_target(pe), UNDEFINED)
    if pe.el == EL1 and el2_enabled(pe) and pe.registers.read(HCR_EL2).TTLB:
        return Routed(EL2, system_register_trap(tlbi, rt, False, SYSREG_TRAP))
    needs_el2 = tlbi.op1 == _OF_EL2 and tlbi.crm not in (0, 4) and tlbi.op2 in (0, 1, 5)
    if pe.el == EL3 and needs_el2 and not el2_enabled(pe):
        return Routed(EL3, UNDEFINED)
    return None


def known_places(features: Features) -> dict[int, int]:
    """What compiled code knows of each TLBI that a core has and the engine lacks, by its place."""
    result = {}
    for key, needs in LATER.items():
        if needs <= features:
            tlbi = Encoding.from_key(key)
            noted = NOTED | (TOLD if is_shared(tlbi) else 0) if not_noted(tlbi) else 0
            result[place_of(key)] = EXECUTED | noted
    return result


def executed_at(levels: Iterable[PE]) -> int:
    """Where none of them is refused: bit ``2 * op1 + el``."""
    found = 0
    for pe in levels:
        for op1 in _ALL_OR_ADDRESS:
            if refused(pe, Encoding.from_key(_tlbi(op1, 2, 1)), 0) is None:  # RVAE1IS and so on
                found |= 1 << 2 * op1 + pe.el
    return found
