"""Who may access the registers of the Performance Monitors (Arm ARM D24.5, the access pseudocode).

From EL0: what PMUSERENR_EL0 allows, then fine-grained traps, MDCR_EL2.TPM and TPMCR, counters that
are EL2's, and last EL3's traps. From EL1 the same but the first; from EL2 EL3's alone.

A counter that is not implemented is UNDEFINED. One that is EL2's traps with FEAT_FGT, and is
UNDEFINED without, which is one of the architecture's choices there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from spe_unicorn.arch.access.accessors import allowed, undefined
from spe_unicorn.arch.access.checks import (
    Check,
    Directed,
    el2_bit,
    el3_bit,
    fgt,
    fgt2,
)
from spe_unicorn.arch.access.shapes import (
    accessor_of,
    needs_features,
    sdd_first,
    to_el3,
    trap_of,
)
from spe_unicorn.arch.access.verdicts import (
    SYSREG_TRAP,
    Accessor,
    Levels,
    Rule,
    Step,
    Steps,
    SystemAccessTrap,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import MDCR_EL2, MDCR_EL3
from spe_unicorn.arch.rules.effective import el2_enabled, el_is_in_host, tge

TPM: Final = Check("TPM", "MDCR_EL2.TPM is 1", el2_bit(MDCR_EL2, "TPM"))
TPMCR: Final = Check("TPMCR", "MDCR_EL2.TPMCR is 1", el2_bit(MDCR_EL2, "TPMCR"))
TPM3: Final = Check("TPM3", "MDCR_EL3.TPM is 1", el3_bit(MDCR_EL3, "TPM", 1))
ENPM2: Final = Check("EnPM2", "MDCR_EL3.EnPM2 is 0", el3_bit(MDCR_EL3, "EnPM2", 0))

_Allows = Callable[[r.PMUSERENR_EL0], bool]
"""Whether PMUSERENR_EL0 lets EL0 at a register; a bit that the core does not have is 0."""
_Index = Callable[[PE], int | None]
"""Which event counter an access is to, None if it is to none."""


def _all(enable: r.PMUSERENR_EL0) -> bool:
    return bool(enable.EN or enable.UEN)


def _all_but_by_counter(enable: r.PMUSERENR_EL0) -> bool:
    return bool(enable.EN and not enable.UEN)


def _cycles(enable: r.PMUSERENR_EL0) -> bool:
    return bool(enable.EN or enable.UEN or enable.CR)


def _events(enable: r.PMUSERENR_EL0) -> bool:
    return bool(enable.EN or enable.UEN or enable.ER)


def _increment(enable: r.PMUSERENR_EL0) -> bool:
    return bool(enable.EN or enable.UEN or enable.SW)


def _by_counter(enable: r.PMUSERENR_EL0) -> bool:
    return bool(enable.UEN)


def _identification(enable: r.PMUSERENR_EL0) -> bool:
    return _all(enable) and not enable.TID


def _always(enable: r.PMUSERENR_EL0) -> bool:
    del enable
    return True


_WORDS: Final[dict[_Allows, str]] = {
    _all: "PMUSERENR_EL0.{EN,UEN} are 0",
    _all_but_by_counter: "PMUSERENR_EL0.EN is 0, or UEN is 1",
    _cycles: "PMUSERENR_EL0.{EN,UEN,CR} are 0",
    _events: "PMUSERENR_EL0.{EN,UEN,ER} are 0",
    _increment: "PMUSERENR_EL0.{EN,UEN,SW} are 0",
    _by_counter: "PMUSERENR_EL0.UEN is 0",
    _identification: "PMUSERENR_EL0.{EN,UEN} are 0, or TID is 1",
}


class _User(NamedTuple):
    """What EL0 may read and write; None where EL0 does not have the register at all."""

    read: _Allows | None = None
    write: _Allows | None = None


class _Fine(NamedTuple):
    """The fine-grained traps of reads and of writes."""

    read: Directed | None = None
    write: Directed | None = None


_NOT_FOR_EL0: Final = _User()
_NOTHING_FINE: Final = _Fine()


def _both(bit: str) -> _Fine:
    return _Fine(fgt(bit), fgt(bit))


def _both2(bit: str) -> _Fine:
    return _Fine(fgt2(bit), fgt2(bit))


def _user_traps(allows: _Allows) -> Steps:
    """From EL0 to EL1, or to EL2 where EL0 belongs to it."""
    writable = r.PMUSERENR_EL0

    def refused(pe: PE) -> bool:
        value = pe.registers.raw(writable) & writable.writable_mask(pe.features)
        return not allows(writable(value))

    def refused_to_el2(pe: PE) -> bool:
        return tge(pe) and refused(pe)

    if allows is _always:
        return ()
    rule = Rule("EL0/PMUSERENR", _WORDS[allows])
    of_el2 = Rule("EL0/PMUSERENR/TGE", f"HCR_EL2.TGE is 1, and {_WORDS[allows]}")
    return (
        Step(refused_to_el2, SystemAccessTrap(EL2, SYSREG_TRAP, of_el2)),
        Step(refused, SystemAccessTrap(EL1, SYSREG_TRAP, rule)),
    )


def _below_a_host(check: Check) -> Check:
    """A trap that EL0 does not get where it belongs to a host at EL2."""

    def test(pe: PE) -> bool:
        return not el_is_in_host(pe, EL0) and check.test(pe)

    return Check(check.name, check.text, test)


def _register(
    register: type[SysReg],
    *,
    needs: tuple[Feature, ...] = (Feature.FEAT_PMUv3,),
    user: _User = _NOT_FOR_EL0,
    fine: _Fine = _NOTHING_FINE,
    traps: tuple[Check, ...] = (TPM,),
    monitor: tuple[Check, ...] = (TPM3,),
    index: tuple[Steps, Check] | None = None,
    directions: str = "rw",
) -> Accessor:
    """A register: what EL0 may, fine-grained traps, those of EL2, and those of EL3.

    ``index`` is about which event counter it is, ``directions`` what instructions there are.
    """

    def levels(reading: bool) -> Levels:
        allows, bit = (user.read, fine.read) if reading else (user.write, fine.write)
        exists = () if index is None else index[0]
        first = (needs_features(*needs), *exists)
        fine_checks = () if bit is None else (bit(reading),)
        to_el2 = (*traps, *(() if index is None else (index[1],)))
        if allows is None:
            el0: Steps = (undefined("EL0", "it is never accessible at EL0"),)
        else:
            el0 = (
                *sdd_first(EL0, monitor),
                *_user_traps(allows),
                *(trap_of(EL0, EL2, _below_a_host(check)) for check in fine_checks),
                *(trap_of(EL0, EL2, check) for check in to_el2),
                *to_el3(EL0, monitor),
                allowed(EL0, register),
            )
        el1 = (
            *sdd_first(EL1, monitor),
            *(trap_of(EL1, EL2, check) for check in (*fine_checks, *to_el2)),
            *to_el3(EL1, monitor),
            allowed(EL1, register),
        )
        el2 = (*sdd_first(EL2, monitor), *to_el3(EL2, monitor), allowed(EL2, register))
        return (
            (*first, *el0),
            (*first, *el1),
            (*first, *el2),
            (*first, allowed(EL3, register)),
        )

    made = accessor_of(register, levels)
    return Accessor(
        made.name,
        made.encoding,
        made.register,
        made.read if "r" in directions else None,
        made.write if "w" in directions else None,
    )


def _of_counter(index: _Index, implemented: int) -> tuple[Steps, Check]:
    """UNDEFINED for a counter that there is not, and a trap for one of EL2's."""

    def missing(pe: PE) -> bool:
        number = index(pe)
        return number is not None and number >= implemented

    def hidden(pe: PE) -> bool:
        number = index(pe)
        if number is None or not el2_enabled(pe):
            return False
        return number >= pe.registers.read(MDCR_EL2).HPMN

    def hidden_without_traps(pe: PE) -> bool:
        return pe.el < EL2 and Feature.FEAT_FGT not in pe.features and hidden(pe)

    text = "it is a counter of EL2's, by MDCR_EL2.HPMN"
    steps = (
        undefined("counter", f"the core has {implemented} event counters", missing),
        undefined("HPMN", f"{text}, and the core does not have FEAT_FGT", hidden_without_traps),
    )
    return steps, Check("HPMN", text, hidden)


def _selected(pe: PE) -> int | None:
    return pe.registers.read(r.PMSELR_EL0).SEL


def _selected_but_cycles(pe: PE) -> int | None:
    number = pe.registers.read(r.PMSELR_EL0).SEL
    return None if number == r.CYCLE_COUNTER else number


def _fixed(number: int) -> _Index:
    return lambda pe: number


@cache
def pmu_accessors(implemented: int) -> tuple[Accessor, ...]:
    """The accessors of a core with so many event counters, at most 31; made once for all PEs."""
    p9, icntr = Feature.FEAT_PMUv3p9, Feature.FEAT_PMUv3_ICNTR
    later = (ENPM2, TPM3)

    usual = _User(_all, _all)
    counters: list[Accessor] = []
    for number in range(r.MOST_COUNTERS):
        index = _of_counter(_fixed(number), implemented)
        counters += (
            _register(
                r.PMEVCNTRS[number],
                user=_User(_events, _all),
                fine=_both("PMEVCNTRn_EL0"),
                index=index,
            ),
            _register(r.PMEVTYPERS[number], user=usual, fine=_both("PMEVTYPERn_EL0"), index=index),
        )
    return (
        _register(
            r.PMCR_EL0,
            user=_User(_all_but_by_counter, _all_but_by_counter),
            fine=_Fine(write=fgt("PMCR_EL0")),
            traps=(TPM, TPMCR),
        ),
        *(
            _register(register, user=usual, fine=_both(bit))
            for register, bit in (
                (r.PMCNTENSET_EL0, "PMCNTEN"),
                (r.PMCNTENCLR_EL0, "PMCNTEN"),
                (r.PMOVSSET_EL0, "PMOVS"),
                (r.PMOVSCLR_EL0, "PMOVS"),
                (r.PMCCFILTR_EL0, "PMCCFILTR_EL0"),
            )
        ),
        _register(
            r.PMSWINC_EL0,
            user=_User(write=_increment),
            fine=_Fine(write=fgt("PMSWINC_EL0")),
            directions="w",
        ),
        _register(r.PMSELR_EL0, user=_User(_events, _events), fine=_both("PMSELR_EL0")),
        *(
            _register(register, user=_User(_identification), fine=_Fine(fgt("PMCEIDn_EL0")))
            for register in (r.PMCEID0_EL0, r.PMCEID1_EL0)
        ),
        _register(r.PMCCNTR_EL0, user=_User(_cycles, _all), fine=_both("PMCCNTR_EL0")),
        _register(
            r.PMXEVTYPER_EL0,
            user=usual,
            fine=_both("PMEVTYPERn_EL0"),
            index=_of_counter(_selected_but_cycles, implemented),
        ),
        _register(
            r.PMXEVCNTR_EL0,
            user=_User(_events, _all),
            fine=_both("PMEVCNTRn_EL0"),
            index=_of_counter(_selected, implemented),
        ),
        _register(
            r.PMZR_EL0,
            needs=(p9,),
            user=_User(write=_all),
            fine=_Fine(write=fgt2("nPMZR_EL0")),
            directions="w",
        ),
        _register(r.PMUSERENR_EL0, user=_User(_always), fine=_both("PMUSERENR_EL0")),
        *(
            _register(register, fine=_both("PMINTEN"))
            for register in (r.PMINTENSET_EL1, r.PMINTENCLR_EL1)
        ),
        _register(r.PMMIR_EL1, needs=(Feature.FEAT_PMUv3p4,), fine=_Fine(fgt("PMMIR_EL1"))),
        *(
            _register(register, needs=(needs,), fine=_both2(bit), monitor=later)
            for register, needs, bit in (
                (r.PMUACR_EL1, p9, "nPMUACR_EL1"),
                (r.PMECR_EL1, Feature.FEAT_EBEP, "nPMECR_EL1"),
                (r.PMIAR_EL1, Feature.FEAT_SEBEP, "nPMIAR_EL1"),
            )
        ),
        *(
            _register(
                register,
                needs=(icntr,),
                user=_User(_by_counter, _by_counter),
                fine=_both2(bit),
                monitor=later,
            )
            for register, bit in (
                (r.PMICNTR_EL0, "nPMICNTR_EL0"),
                (r.PMICFILTR_EL0, "nPMICFILTR_EL0"),
            )
        ),
        *counters,
    )
