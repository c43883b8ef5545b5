"""Cache maintenance and zeroing of Allocation Tags: DC GVA, DC CGVAC and the like.

Arm ARM C5.3, the pages of these instructions.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.verdicts import SYSREG_TRAP
from spe_unicorn.arch.exceptions.routing import Routed, default_target
from spe_unicorn.arch.exceptions.syndromes import UNDEFINED, system_register_trap
from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.pe import EL0, EL1, EL2, PE
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.registers.system import HCR_EL2
from spe_unicorn.arch.rules.effective import el2_enabled, el_is_in_host, sctlr

_MTE: Final[Features] = frozenset({Feature.FEAT_MTE})
_MTE2: Final[Features] = frozenset({Feature.FEAT_MTE2})
_OF_A_BLOCK: Final = 4
"""CRm of DC GVA and DC GZVA."""
_ALONE: Final = {
    **{(3, _OF_A_BLOCK, op2): 1 for op2 in (3, 4)},
    **{(3, crm, op2): 1 for crm in (10, 12, 13, 14) for op2 in (3, 5)},
}
"""By op1, CRm and op2 of such an instruction, op2 of the one that does the same without tags."""
_OF_EL1: Final = {
    **{(0, 6, op2): 1 for op2 in (3, 5)},
    **{(0, crm, op2): 2 for crm in (6, 10, 14) for op2 in (4, 6)},
}
"""The same of those that EL0 does not have: by address, and by set and way."""
_BY_SET_AND_WAY: Final = 2
LATER: Final[dict[int, Features]] = {
    **{Encoding(1, op1, 7, crm, op2).key: _MTE for op1, crm, op2 in _ALONE},
    **{Encoding(1, op1, 7, crm, op2).key: _MTE2 for op1, crm, op2 in _OF_EL1},
}
"""By ``Encoding.key``, what a core has to have for the instruction."""
_OP2: Final = 7 << 5


def _plain(encoding: Encoding) -> int:
    """op2 of what does the same without tags."""
    place = (encoding.op1, encoding.crm, encoding.op2)
    return _ALONE[place] if place in _ALONE else _OF_EL1[place]


def without_tags(word: int) -> int:
    """The instruction that does the same to data alone: DC ZVA, CVAC, IVAC, ISW and so on."""
    return word & ~_OP2 | _plain(Encoding.from_key(word >> 5 & 0xFFFF)) << 5


def refused(pe: PE, word: int) -> Routed | None:
    """The trap of such an instruction at the PE's Exception level; None where it is executed.

    Fine-grained traps, which go to EL2 as those of HCR_EL2 do, have been looked at before.
    """
    encoding = Encoding.from_key(word >> 5 & 0xFFFF)
    block = encoding.op1 == 3 and encoding.crm == _OF_A_BLOCK
    trap = system_register_trap(encoding, word & 31, False, SYSREG_TRAP)
    if pe.el == EL0:
        if encoding.op1 != 3:
            return Routed(default_target(pe), UNDEFINED)
        controls = sctlr(pe)
        if not (controls.DZE if block else controls.UCI):
            return Routed(default_target(pe), trap)
    if pe.el <= EL1 and el2_enabled(pe) and not el_is_in_host(pe, pe.el):
        hcr = pe.registers.read(HCR_EL2)
        maintained = hcr.TSW if _plain(encoding) == _BY_SET_AND_WAY else hcr.TPCP
        if hcr.TDZ if block else maintained:
            return Routed(EL2, trap)
    return None
