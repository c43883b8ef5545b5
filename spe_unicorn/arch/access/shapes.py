"""The shapes that accessors of System registers share: the steps of the pseudocode, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from spe_unicorn.arch.access.accessors import allowed, trap, undefined
from spe_unicorn.arch.access.checks import (
    E2PB,
    NESTED,
    NSPB,
    TID3,
    TPMS,
    Check,
    Directed,
    el3_sdd_undef,
    el3_sdd_undef_priority,
    fgt,
    lacks,
    not_host_at_el2,
    nvx,
)
from spe_unicorn.arch.access.verdicts import (
    Accessor,
    Levels,
    NVMem,
    Rule,
    Step,
    Steps,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg

# The branches of the pseudocode


def needs_features(*features: Feature) -> Step:
    """UNDEFINED on cores that lack one of ``features``."""
    names = " and ".join(feature.value for feature in features)
    return undefined("feature", f"the core does not have {names}", lacks(*features))


def trap_of(el: int, target_el: int, check: Check) -> Step:
    """At ``el``, a trap to ``target_el`` if ``check`` holds."""
    return trap(el, target_el, check.name, check.text, check.test)


def sdd_first(el: int, checks: Iterable[Check]) -> Steps:
    """In Debug state on cores with that priority, what would trap to EL3 is UNDEFINED at once."""
    return tuple(
        undefined(
            f"EL{el}/SDD-first/{check.name}",
            f"EDSCR.SDD is 1 in Debug state, which comes first here, and {check.text}",
            el3_sdd_undef_priority(check.test),
        )
        for check in checks
    )


def to_el3(el: int, checks: Iterable[Check]) -> Steps:
    """Traps to EL3, which EDSCR.SDD makes UNDEFINED in Debug state."""
    steps: list[Step] = []
    for check in checks:
        steps.append(
            undefined(
                f"EL{el}/{check.name}/SDD",
                f"EDSCR.SDD is 1 in Debug state, and {check.text}",
                el3_sdd_undef(check.test),
            )
        )
        steps.append(trap_of(el, EL3, check))
    return tuple(steps)


def nvmem_step(offset: int, pattern: str) -> Step:
    """To memory, with EffectiveHCR_EL2_NVx() as ``pattern`` says."""
    rule = Rule("EL1/NVMem", f"the Effective value of HCR_EL2.{{NV2,NV1,NV}} is 0b{pattern}")
    return Step(nvx(pattern), NVMem(offset, rule))


def by_level(needs: Step | None, el1: Steps, el2: Steps, el3: Steps) -> Levels:
    """The steps of a register that EL0 does not have; ``needs`` is the first one everywhere."""
    first = () if needs is None else (needs,)
    at_el0 = undefined("EL0", "it is never accessible at EL0")
    return (*first, at_el0), (*first, *el1), (*first, *el2), (*first, *el3)


# The shapes that accessors share


def accessor_of(register: type[SysReg], levels: Callable[[bool], Levels]) -> Accessor:
    """The accessor by the register's own name; ``levels`` of reads (True) and of writes."""
    read, write = levels(True), None if register.read_only else levels(False)
    return Accessor(register.__name__, register.encoding, register, read, write)


def control(
    register: type[SysReg],
    *,
    needs: Feature,
    el2: tuple[Directed | Check, ...],
    el3: tuple[Check, ...],
    el3_at_el2: tuple[Check, ...] | None = None,
    nvmem: Step | None = None,
    at_el2: Steps = (),
) -> Accessor:
    """An _EL1 register: traps of EL2, traps of EL3, memory of a nested guest, the register.

    ``el3_at_el2`` are the traps of EL3 in another order at EL2; ``at_el2`` leads to another
    register there, after the traps.
    """
    from_el2 = el3 if el3_at_el2 is None else el3_at_el2

    def levels(read: bool) -> Levels:
        checks = [check if isinstance(check, Check) else check(read) for check in el2]
        return by_level(
            needs_features(needs),
            el1=(
                *sdd_first(EL1, el3),
                *(trap_of(EL1, EL2, check) for check in checks),
                *to_el3(EL1, el3),
                *(() if nvmem is None else (nvmem,)),
                allowed(EL1, register),
            ),
            el2=(
                *sdd_first(EL2, from_el2),
                *to_el3(EL2, from_el2),
                *at_el2,
                allowed(EL2, register),
            ),
            el3=(allowed(EL3, register),),
        )

    return accessor_of(register, levels)


def sampling_control(
    register: type[SysReg], *, fgt_bit: str, nvmem: Step | None, at_el2: Steps = ()
) -> Accessor:
    """A register that MDCR_EL2.TPMS traps."""
    return control(
        register,
        needs=Feature.FEAT_SPE,
        el2=(fgt(fgt_bit), TPMS),
        el3=(NSPB,),
        nvmem=nvmem,
        at_el2=at_el2,
    )


def buffer_control(
    register: type[SysReg], *, fgt_bit: str, nvmem: Step, at_el2: Steps = ()
) -> Accessor:
    """A register that MDCR_EL2.E2PB traps."""
    return control(
        register,
        needs=Feature.FEAT_SPE,
        el2=(fgt(fgt_bit), E2PB),
        el3=(NSPB,),
        nvmem=nvmem,
        at_el2=at_el2,
    )


def hypervisor_register(
    register: type[SysReg],
    *,
    needs: Feature | None = None,
    el3: tuple[Check, ...] = (),
    nvmem: int | None = None,
) -> Accessor:
    """A register of EL2: at EL1 it is UNDEFINED, or a nested hypervisor's."""
    levels = by_level(
        None if needs is None else needs_features(needs),
        el1=(
            *(() if nvmem is None else (nvmem_step(nvmem, "1x1"),)),
            trap_of(EL1, EL2, NESTED),
            undefined("EL1", "it is a register of EL2"),
        ),
        el2=(*sdd_first(EL2, el3), *to_el3(EL2, el3), allowed(EL2, register)),
        el3=(allowed(EL3, register),),
    )
    return accessor_of(register, lambda read: levels)


def host_alias(
    name: str,
    register: type[SysReg],
    *,
    needs: tuple[Feature, ...],
    nvmem: int,
    el3: tuple[Check, ...] = (NSPB,),
) -> Accessor:
    """An _EL12 name, by which an operating system at EL2 reaches the registers of EL1."""
    levels = by_level(
        needs_features(*needs),
        el1=(
            nvmem_step(nvmem, "101"),
            trap_of(EL1, EL2, NESTED),
            undefined("EL1", "it is a name for EL2"),
        ),
        el2=(
            undefined("EL2/E2H", "HCR_EL2.E2H is 0", not_host_at_el2),
            *sdd_first(EL2, el3),
            *to_el3(EL2, el3),
            allowed(EL2, register),
        ),
        el3=(
            undefined("EL3/E2H", "HCR_EL2.E2H is 0", not_host_at_el2),
            allowed(EL3, register),
        ),
    )
    el1 = register.encoding
    encoding = Encoding(el1.op0, 5, el1.crn, el1.crm, el1.op2)
    return Accessor(name, encoding, register, levels, levels)


def monitor_register(register: type[SysReg], *, needs: Feature | None = None) -> Accessor:
    """A register of EL3, UNDEFINED anywhere else."""
    elsewhere = (undefined("below-EL3", "it is a register of EL3"),)
    levels = by_level(
        None if needs is None else needs_features(needs),
        el1=elsewhere,
        el2=elsewhere,
        el3=(allowed(EL3, register),),
    )
    return accessor_of(register, lambda read: levels)


def untrapped(register: type[SysReg], *, needs: Feature | None = None) -> Accessor:
    """A register that EL0 does not have and nothing traps."""
    levels = by_level(
        None if needs is None else needs_features(needs),
        el1=(allowed(EL1, register),),
        el2=(allowed(EL2, register),),
        el3=(allowed(EL3, register),),
    )
    return accessor_of(register, lambda read: levels)


def everywhere(register: type[SysReg], *, needs: Feature | None = None) -> Accessor:
    """A register that every Exception level has and nothing traps."""
    first = () if needs is None else (needs_features(needs),)
    el0, el1, el2, el3 = ((*first, allowed(el, register)) for el in range(4))
    return accessor_of(register, lambda read: (el0, el1, el2, el3))


def id_register(register: type[SysReg]) -> Accessor:
    """An ID register: HCR_EL2.TID3 traps it at EL1."""
    levels = by_level(
        None,
        el1=(trap_of(EL1, EL2, TID3), allowed(EL1, register)),
        el2=(allowed(EL2, register),),
        el3=(allowed(EL3, register),),
    )
    return accessor_of(register, lambda read: levels)
