"""The AT instructions: which translation each asks for, and PAR_EL1 (Arm ARM C5.4, D24.2)."""

from __future__ import annotations

from typing import NamedTuple

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import (
    AddressDescriptor,
    Fault,
    FaultRecord,
    Regime,
    acc_desc_at,
)
from spe_unicorn.arch.memory.regimes import context_for, translation_regime
from spe_unicorn.arch.memory.translation import full_translate, s1_translate
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.rules.effective import el_is_in_host
from spe_unicorn.arch.spaces import PASpace


class ATOperation(NamedTuple):
    """One AT instruction: the Exception level and access it asks about, and how far it goes.

    ``stage12`` says that it translates by both stages, ``pan`` that it obeys PSTATE.PAN.
    """

    el: int
    write: bool
    stage12: bool = False
    pan: bool = False


AT_OPERATIONS: dict[tuple[int, int, int], ATOperation] = {
    (0, 8, 0): ATOperation(EL1, write=False),  # S1E1R
    (0, 8, 1): ATOperation(EL1, write=True),  # S1E1W
    (0, 8, 2): ATOperation(EL0, write=False),  # S1E0R
    (0, 8, 3): ATOperation(EL0, write=True),  # S1E0W
    (0, 9, 0): ATOperation(EL1, write=False, pan=True),  # S1E1RP
    (0, 9, 1): ATOperation(EL1, write=True, pan=True),  # S1E1WP
    (4, 8, 0): ATOperation(EL2, write=False),  # S1E2R
    (4, 8, 1): ATOperation(EL2, write=True),  # S1E2W
    (4, 8, 4): ATOperation(EL1, write=False, stage12=True),  # S12E1R
    (4, 8, 5): ATOperation(EL1, write=True, stage12=True),  # S12E1W
    (4, 8, 6): ATOperation(EL0, write=False, stage12=True),  # S12E0R
    (4, 8, 7): ATOperation(EL0, write=True, stage12=True),  # S12E0W
    (6, 8, 0): ATOperation(EL3, write=False),  # S1E3R
    (6, 8, 1): ATOperation(EL3, write=True),  # S1E3W
}
"""By op1, CRm and op2 of ``SYS #op1, C7, CRm, #op2, Xt``."""


def address_translate(
    pe: PE, operation: ATOperation, va: int, memory: PhysicalMemory, *, pan: bool
) -> int | FaultRecord:
    """AArch64.AT(). The value of PAR_EL1, or a fault that is taken as a Data Abort instead.

    ``pan`` is PSTATE.PAN. Whether the instruction is UNDEFINED or trapped is asked before.
    """
    if operation.stage12:
        regime = Regime.EL10
    elif operation.el == EL1 and el_is_in_host(pe, EL0):
        regime = Regime.EL20
    else:
        regime = translation_regime(pe, operation.el)
    access = acc_desc_at(operation.el, write=operation.write, pan=pan and operation.pan)
    translate = full_translate if operation.stage12 else s1_translate
    result = translate(context_for(pe, regime), va, access, memory)
    if isinstance(result, FaultRecord) and (
        result.kind is Fault.SyncExternalOnWalk or (result.s1ptw and pe.el == EL1)
    ):
        return result
    return encode_par(result, rme=Feature.FEAT_RME in pe.features)


def encode_par(result: AddressDescriptor | FaultRecord, *, rme: bool = False) -> int:
    """AArch64.EncodePAR(). PAR_EL1 for the outcome of a translation.

    Without FEAT_RME (``rme``) bit 11 is RES1; with it, it is NSE after a success.
    """
    if isinstance(result, FaultRecord):
        return 1 | result.fsc << 1 | int(result.s1ptw) << 8 | int(result.stage2) << 9 | 1 << 11
    nse = result.paspace in (PASpace.Root, PASpace.Realm) if rme else True
    ns = result.paspace in (PASpace.NonSecure, PASpace.Realm)
    return (
        result.memattrs.attr << 56
        | result.paddress >> 12 << 12
        | int(nse) << 11
        | int(ns) << 9
        | result.memattrs.sh << 7
    )
