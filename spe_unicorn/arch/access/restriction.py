"""COSP RCTX of FEAT_SPECRES2, which the engine lacks (Arm ARM C5.6).

Nothing here predicts by what a context has left, so there is nothing to restrict.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.arch.access.verdicts import SYSREG_TRAP
from spe_unicorn.arch.exceptions.routing import Routed, default_target
from spe_unicorn.arch.exceptions.syndromes import system_register_trap
from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.pe import EL0, PE
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.rules.effective import sctlr

COSP: Final = Encoding(1, 3, 7, 3, 6)
NEEDS: Final[Features] = frozenset({Feature.FEAT_SPECRES2})
_WORD: Final = 0xD50B_73C0
_RT: Final = 31


def is_there(word: int, features: Features) -> bool:
    """Whether a word is COSP RCTX, of any register, and the core has that."""
    return word & ~_RT == _WORD and features >= NEEDS


def refused(pe: PE, rt: int) -> Routed | None:
    """The trap of COSP RCTX; None where it is executed.

    Fine-grained traps have been looked at before.
    """
    if pe.el == EL0 and not sctlr(pe).EnRCTX:
        return Routed(default_target(pe), system_register_trap(COSP, rt, False, SYSREG_TRAP))
    return None
