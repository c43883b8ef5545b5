"""Who may access which System register: Arm's access pseudocode, accessor by accessor.

An :class:`Accessor` is one name in an MRS or MSR. For each direction and Exception level it has
the steps of the pseudocode in their order: the first whose test holds gives the verdict. So a
verdict is a value, and carries the :class:`Rule` that decided it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from spe_unicorn.arch.effective import (
    effective_hcr_nvx,
    effective_pmscr_el2_ee,
    el2_enabled,
    el_is_in_host,
)
from spe_unicorn.arch.features import Feature, every
from spe_unicorn.arch.fgt_registers import (
    HDFGRTR2_EL2,
    HDFGRTR_EL2,
    HDFGWTR2_EL2,
    HDFGWTR_EL2,
    HFGITR2_EL2,
    HFGITR_EL2,
    HFGRTR2_EL2,
    HFGRTR_EL2,
    HFGWTR2_EL2,
    HFGWTR_EL2,
)
from spe_unicorn.arch.id_registers import ID_REGISTERS
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE
from spe_unicorn.arch.spe_registers import (
    PMBIDR_EL1,
    PMBLIMITR_EL1,
    PMBMAR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMBSR_EL2,
    PMBSR_EL3,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSDSFR_EL1,
    PMSEVFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIDR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
    PMSNEVFR_EL1,
    ExceptionEnable,
)
from spe_unicorn.arch.sysreg import Encoding, SysReg
from spe_unicorn.arch.system_registers import (
    CNTPOFF_EL2,
    HCR_EL2,
    ISR_EL1,
    MDCR_EL2,
    MDCR_EL3,
    PM,
    RNDR,
    RNDRRS,
    SCR_EL3,
    VNCR_EL2,
)

SYSREG_TRAP: Final = 0x18
"""Exception class of a trapped MSR, MRS or system instruction."""
PSB_CSYNC_TRAP: Final = 0x0A
"""Exception class of a trapped PSB CSYNC."""
PSB_CSYNC_ISS: Final = 0x3
"""ISS of a trapped PSB CSYNC."""


class Rule(NamedTuple):
    """What decided: a stable name such as ``EL1/FGT``, and a sentence."""

    name: str
    text: str


@dataclass(frozen=True)
class Allowed:
    """The access is made, to ``register``, which need not be the one that was named."""

    register: type[SysReg]
    rule: Rule = field(compare=False)


@dataclass(frozen=True)
class Undefined:
    """The instruction is UNDEFINED."""

    rule: Rule = field(compare=False)


@dataclass(frozen=True)
class SystemAccessTrap:
    """AArch64_SystemAccessTrap(): an exception to ``target_el``; the caller knows the ISS."""

    target_el: int
    ec: int
    rule: Rule = field(compare=False)


@dataclass(frozen=True)
class NVMem:
    """The access is made to memory, as EL2 would make it, at VNCR_EL2.BADDR plus ``offset``."""

    offset: int
    rule: Rule = field(compare=False)


Verdict: TypeAlias = Allowed | Undefined | SystemAccessTrap | NVMem
Test: TypeAlias = Callable[[PE], bool]


class Step(NamedTuple):
    """One branch of the pseudocode; without a test, its ``else``."""

    test: Test | None
    verdict: Verdict


Steps: TypeAlias = tuple[Step, ...]
Levels: TypeAlias = tuple[Steps, Steps, Steps, Steps]


@dataclass(frozen=True)
class Accessor:
    """One name of a System register: ``read`` and ``write`` hold the steps for EL0 to EL3.

    A direction without steps has no instruction: it is UNDEFINED. ``register`` is the one that
    the name stands for, None for an encoding that is not allocated.
    """

    name: str
    encoding: Encoding
    register: type[SysReg] | None
    read: Levels | None
    write: Levels | None


def access(pe: PE, accessor: Accessor, read: bool) -> Verdict:
    """What an MRS (``read``) or MSR of ``accessor`` does now. Changes nothing."""
    levels = accessor.read if read else accessor.write
    if levels is None:
        return _NO_INSTRUCTION[read]
    return next(verdict for test, verdict in levels[pe.el] if test is None or test(pe))


_NO_INSTRUCTION = {
    True: Undefined(Rule("write-only", "there is no MRS for this register")),
    False: Undefined(Rule("read-only", "there is no MSR for this register")),
}


# The tests of the pseudocode


def debug_state_sdd(pe: PE) -> bool:
    """EL3SDDUndef(): traps to EL3 are UNDEFINED instead, in Debug state with EDSCR.SDD."""
    return pe.halted and pe.sdd


def debug_state_sdd_first(pe: PE) -> bool:
    """EL3SDDUndefPriority(): such traps are looked at before all others."""
    return debug_state_sdd(pe) and pe.impdef.el3_sdd_undef_priority


def nspb_trap(pe: PE) -> bool:
    """CheckMDCR_EL3_NSPBTrap(): EL3 keeps SPE registers from the current Security state.

    A reserved value of MDCR_EL3.{NSPBE,NSPB} stands for no state that there is, so it traps: one
    of the architecture's choices.
    """
    if Feature.FEAT_EL3 not in pe.features:
        return False
    mdcr = pe.registers.read(MDCR_EL3)
    scr = pe.registers.read(SCR_EL3)
    if mdcr.NSPB & 1 == 0 or mdcr.NSPB >> 1 != scr.NS:
        return True
    return Feature.FEAT_RME in pe.features and mdcr.NSPBE != scr.NSE


def _el3_bit(register: type[SysReg], name: str, value: int) -> Test:
    """HaveEL(EL3) and a field of a register of EL3 has ``value``."""
    bits = register.field(name)
    expected = value << bits.lsb

    def test(pe: PE) -> bool:
        if Feature.FEAT_EL3 not in pe.features:
            return False
        return pe.registers.raw(register) & bits.mask == expected

    return test


def _el2_bit(register: type[SysReg], name: str) -> Test:
    """EL2Enabled() and the lowest bit of a field of a register of EL2 traps."""
    mask = 1 << register.field(name).lsb

    def test(pe: PE) -> bool:
        return el2_enabled(pe) and pe.registers.raw(register) & mask != 0

    return test


def fine_grained_traps_enabled(pe: PE) -> bool:
    """Fine-grained traps are there, and EL3 lets EL2 have them."""
    if Feature.FEAT_FGT not in pe.features or not el2_enabled(pe):
        return False
    return Feature.FEAT_EL3 not in pe.features or bool(pe.registers.read(SCR_EL3).FGTEn)


def _nvx(pattern: str) -> Test:
    """EffectiveHCR_EL2_NVx() IN {pattern}, with ``x`` for either value."""
    mask = int(pattern.replace("0", "1").replace("x", "0"), 2)
    value = int(pattern.replace("x", "0"), 2)

    def test(pe: PE) -> bool:
        return effective_hcr_nvx(pe) & mask == value

    return test


def _host_at_el2(pe: PE) -> bool:
    return el_is_in_host(pe, EL2)


def _not_host_at_el2(pe: PE) -> bool:
    return not el_is_in_host(pe, EL2)


class Check(NamedTuple):
    """A condition for a trap, in the pseudocode's words."""

    name: str
    text: str
    test: Test


NSPB = Check("NSPB", "MDCR_EL3.{NSPBE,NSPB} keeps SPE from this Security state", nspb_trap)
ENPMSN = Check("EnPMSN", "MDCR_EL3.EnPMSN is 0", _el3_bit(MDCR_EL3, "EnPMSN", 0))
ENPMS3 = Check("EnPMS3", "MDCR_EL3.EnPMS3 is 0", _el3_bit(MDCR_EL3, "EnPMS3", 0))
ENPMS4 = Check("EnPMS4", "MDCR_EL3.EnPMS4 is 0", _el3_bit(MDCR_EL3, "EnPMS4", 0))
PMSEE = Check("PMSEE", "MDCR_EL3.PMSEE is 0b00", _el3_bit(MDCR_EL3, "PMSEE", 0))
TPMS = Check("TPMS", "MDCR_EL2.TPMS is 1", _el2_bit(MDCR_EL2, "TPMS"))


def _e2pb_trap(pe: PE) -> bool:
    return el2_enabled(pe) and pe.registers.read(MDCR_EL2).E2PB & 1 == 0


E2PB = Check("E2PB", "MDCR_EL2.E2PB is 0bx0", _e2pb_trap)
TID3 = Check("TID3", "HCR_EL2.TID3 is 1", _el2_bit(HCR_EL2, "TID3"))
NESTED = Check("NV", "HCR_EL2.NV is 1: it is a nested hypervisor's", _nvx("xx1"))
TDA = Check("TDA", "MDCR_EL3.TDA is 1", _el3_bit(MDCR_EL3, "TDA", 1))
FGTEN = Check("FGTEn", "SCR_EL3.FGTEn is 0", _el3_bit(SCR_EL3, "FGTEn", 0))
FGTEN2 = Check("FGTEn2", "SCR_EL3.FGTEn2 is 0", _el3_bit(SCR_EL3, "FGTEn2", 0))
ECVEN = Check("ECVEn", "SCR_EL3.ECVEn is 0", _el3_bit(SCR_EL3, "ECVEn", 0))

Directed: TypeAlias = Callable[[bool], Check]
"""A check that differs between reads (True) and writes."""


def fgt(bit: str) -> Directed:
    """The fine-grained trap by ``bit`` of HDFGRTR_EL2 or HDFGWTR_EL2; ``n`` bits trap at 0."""

    def directed(read: bool) -> Check:
        register = HDFGRTR_EL2 if read else HDFGWTR_EL2
        mask = register.field(bit).mask
        trapping = 0 if bit.startswith("n") else mask

        def test(pe: PE) -> bool:
            return fine_grained_traps_enabled(pe) and pe.registers.raw(register) & mask == trapping

        return Check("FGT", f"{register.__name__}.{bit} is {int(trapping != 0)}", test)

    return directed


def fgt2(bit: str) -> Directed:
    """The fine-grained trap by ``bit`` of HDFGRTR2_EL2 or HDFGWTR2_EL2, which traps at 0.

    While EL3 has not enabled them, these bits count as 0.
    """

    def directed(read: bool) -> Check:
        register = HDFGRTR2_EL2 if read else HDFGWTR2_EL2
        mask = register.field(bit).mask

        def test(pe: PE) -> bool:
            if Feature.FEAT_FGT2 not in pe.features or not el2_enabled(pe):
                return False
            if Feature.FEAT_EL3 in pe.features and not pe.registers.read(SCR_EL3).FGTEn2:
                return True
            return pe.registers.raw(register) & mask == 0

        return Check("FGT2", f"{register.__name__}.{bit} or SCR_EL3.FGTEn2 is 0", test)

    return directed


# The branches of the pseudocode


def _undefined(name: str, text: str, test: Test | None = None) -> Step:
    return Step(test, Undefined(Rule(name, text)))


def _needs(*features: Feature) -> Step:
    names = " and ".join(feature.value for feature in features)
    condition = every(*features)
    return _undefined(
        "feature", f"the core does not have {names}", lambda pe: not condition(pe.features)
    )


def _trap(el: int, target_el: int, check: Check) -> Step:
    rule = Rule(f"EL{el}/{check.name}", check.text)
    return Step(check.test, SystemAccessTrap(target_el, SYSREG_TRAP, rule))


def _both(first: Test, second: Test) -> Test:
    return lambda pe: first(pe) and second(pe)


def _sdd_first(el: int, checks: Iterable[Check]) -> Steps:
    """In Debug state on cores with that priority, what would trap to EL3 is UNDEFINED at once."""
    return tuple(
        _undefined(
            f"EL{el}/SDD-first/{check.name}",
            f"EDSCR.SDD is 1 in Debug state, which comes first here, and {check.text}",
            _both(debug_state_sdd_first, check.test),
        )
        for check in checks
    )


def _to_el3(el: int, checks: Iterable[Check]) -> Steps:
    """Traps to EL3, which EDSCR.SDD makes UNDEFINED in Debug state."""
    steps: list[Step] = []
    for check in checks:
        steps.append(
            _undefined(
                f"EL{el}/{check.name}/SDD",
                f"EDSCR.SDD is 1 in Debug state, and {check.text}",
                _both(debug_state_sdd, check.test),
            )
        )
        steps.append(_trap(el, EL3, check))
    return tuple(steps)


def _nvmem(offset: int, pattern: str) -> Step:
    rule = Rule("EL1/NVMem", f"the Effective value of HCR_EL2.{{NV2,NV1,NV}} is 0b{pattern}")
    return Step(_nvx(pattern), NVMem(offset, rule))


def _register(el: int, register: type[SysReg]) -> Step:
    return Step(None, Allowed(register, Rule(f"EL{el}/register", "nothing traps it")))


def _levels(needs: Step | None, el1: Steps, el2: Steps, el3: Steps) -> Levels:
    first = () if needs is None else (needs,)
    at_el0 = _undefined("EL0", "it is never accessible at EL0")
    return (*first, at_el0), (*first, *el1), (*first, *el2), (*first, *el3)


# The shapes that accessors share


def _accessor(register: type[SysReg], levels: Callable[[bool], Levels]) -> Accessor:
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
    register there, behind the traps.
    """
    from_el2 = el3 if el3_at_el2 is None else el3_at_el2

    def levels(read: bool) -> Levels:
        checks = [check if isinstance(check, Check) else check(read) for check in el2]
        return _levels(
            _needs(needs),
            el1=(
                *_sdd_first(EL1, el3),
                *(_trap(EL1, EL2, check) for check in checks),
                *_to_el3(EL1, el3),
                *(() if nvmem is None else (nvmem,)),
                _register(EL1, register),
            ),
            el2=(
                *_sdd_first(EL2, from_el2),
                *_to_el3(EL2, from_el2),
                *at_el2,
                _register(EL2, register),
            ),
            el3=(_register(EL3, register),),
        )

    return _accessor(register, levels)


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
    levels = _levels(
        None if needs is None else _needs(needs),
        el1=(
            *(() if nvmem is None else (_nvmem(nvmem, "1x1"),)),
            _trap(EL1, EL2, NESTED),
            _undefined("EL1", "it is a register of EL2"),
        ),
        el2=(*_sdd_first(EL2, el3), *_to_el3(EL2, el3), _register(EL2, register)),
        el3=(_register(EL3, register),),
    )
    return _accessor(register, lambda read: levels)


def host_alias(
    name: str, register: type[SysReg], *, needs: tuple[Feature, ...], nvmem: int
) -> Accessor:
    """An _EL12 name, by which an operating system at EL2 reaches the registers of EL1."""
    levels = _levels(
        _needs(*needs),
        el1=(
            _nvmem(nvmem, "101"),
            _trap(EL1, EL2, NESTED),
            _undefined("EL1", "it is a name for EL2"),
        ),
        el2=(
            _undefined("EL2/E2H", "HCR_EL2.E2H is 0", _not_host_at_el2),
            *_sdd_first(EL2, (NSPB,)),
            *_to_el3(EL2, (NSPB,)),
            _register(EL2, register),
        ),
        el3=(
            _undefined("EL3/E2H", "HCR_EL2.E2H is 0", _not_host_at_el2),
            _register(EL3, register),
        ),
    )
    el1 = register.encoding
    encoding = Encoding(el1.op0, 5, el1.crn, el1.crm, el1.op2)
    return Accessor(name, encoding, register, levels, levels)


def monitor_register(register: type[SysReg], *, needs: Feature | None = None) -> Accessor:
    """A register of EL3, UNDEFINED anywhere else."""
    elsewhere = (_undefined("below-EL3", "it is a register of EL3"),)
    levels = _levels(
        None if needs is None else _needs(needs),
        el1=elsewhere,
        el2=elsewhere,
        el3=(_register(EL3, register),),
    )
    return _accessor(register, lambda read: levels)


def untrapped(register: type[SysReg], *, needs: Feature | None = None) -> Accessor:
    """A register that EL0 does not have and nothing traps."""
    levels = _levels(
        None if needs is None else _needs(needs),
        el1=(_register(EL1, register),),
        el2=(_register(EL2, register),),
        el3=(_register(EL3, register),),
    )
    return _accessor(register, lambda read: levels)


def everywhere(register: type[SysReg]) -> Accessor:
    """A register that every Exception level has and nothing traps."""
    el0, el1, el2, el3 = ((_register(el, register),) for el in range(4))
    return _accessor(register, lambda read: (el0, el1, el2, el3))


def id_register(register: type[SysReg]) -> Accessor:
    """An ID register: HCR_EL2.TID3 traps it at EL1."""
    levels = _levels(
        None,
        el1=(_trap(EL1, EL2, TID3), _register(EL1, register)),
        el2=(_register(EL2, register),),
        el3=(_register(EL3, register),),
    )
    return _accessor(register, lambda read: levels)


# The accessors


def _pmbsr_el1_nvmem(pe: PE) -> bool:
    """Nested, and SPE Profiling exceptions off, or NV1 set."""
    nvx = effective_hcr_nvx(pe)
    if nvx & 0b101 != 0b101:
        return False
    if nvx == 0b111 or effective_pmscr_el2_ee(pe) == ExceptionEnable.DISABLED:
        return True
    return pe.registers.read(PMSCR_EL1).EE == ExceptionEnable.DISABLED


def _pmbsr_el2_by_el1_name(pe: PE) -> bool:
    enabled = effective_pmscr_el2_ee(pe) != ExceptionEnable.DISABLED
    return enabled and el_is_in_host(pe, EL2)


_PMSCR_EL1_AT_EL2 = Step(_host_at_el2, Allowed(PMSCR_EL2, Rule("EL2/host", "HCR_EL2.E2H is 1")))
_PMBSR_EL1_AT_EL1 = Step(
    _pmbsr_el1_nvmem,
    NVMem(
        0x820,
        Rule(
            "EL1/NVMem",
            "the Effective value of HCR_EL2.{NV2,NV1,NV} is 0b111, or it is 0b101 and "
            "PMSCR_EL2.EE, in effect, or PMSCR_EL1.EE is 0b00",
        ),
    ),
)
_PMBSR_EL1_AT_EL2 = Step(
    _pmbsr_el2_by_el1_name,
    Allowed(
        PMBSR_EL2, Rule("EL2/host", "HCR_EL2.E2H is 1 and PMSCR_EL2.EE, in effect, is not 0b00")
    ),
)

_PMBIDR_LEVELS = _levels(
    _needs(Feature.FEAT_SPE),
    el1=(_trap(EL1, EL2, fgt("PMBIDR_EL1")(True)), _register(EL1, PMBIDR_EL1)),
    el2=(_register(EL2, PMBIDR_EL1),),
    el3=(_register(EL3, PMBIDR_EL1),),
)

SPE_ACCESSORS: Final[tuple[Accessor, ...]] = (
    sampling_control(
        PMSCR_EL1,
        fgt_bit="PMSCR_EL1",
        nvmem=_nvmem(0x828, "111"),
        at_el2=(_PMSCR_EL1_AT_EL2,),
    ),
    control(
        PMSNEVFR_EL1,
        needs=Feature.FEAT_SPE_FnE,
        el2=(fgt("nPMSNEVFR_EL1"), TPMS),
        el3=(NSPB, ENPMSN),
        nvmem=_nvmem(0x850, "1x1"),
    ),
    sampling_control(PMSICR_EL1, fgt_bit="PMSICR_EL1", nvmem=_nvmem(0x838, "1x1")),
    sampling_control(PMSIRR_EL1, fgt_bit="PMSIRR_EL1", nvmem=_nvmem(0x840, "1x1")),
    sampling_control(PMSFCR_EL1, fgt_bit="PMSFCR_EL1", nvmem=None),
    sampling_control(PMSEVFR_EL1, fgt_bit="PMSEVFR_EL1", nvmem=_nvmem(0x830, "1x1")),
    sampling_control(PMSLATFR_EL1, fgt_bit="PMSLATFR_EL1", nvmem=_nvmem(0x848, "1x1")),
    sampling_control(PMSIDR_EL1, fgt_bit="PMSIDR_EL1", nvmem=None),
    buffer_control(PMBLIMITR_EL1, fgt_bit="PMBLIMITR_EL1", nvmem=_nvmem(0x800, "1x1")),
    buffer_control(PMBPTR_EL1, fgt_bit="PMBPTR_EL1", nvmem=_nvmem(0x810, "1x1")),
    buffer_control(
        PMBSR_EL1,
        fgt_bit="PMBSR_EL1",
        nvmem=_PMBSR_EL1_AT_EL1,
        at_el2=(_PMBSR_EL1_AT_EL2,),
    ),
    control(
        PMSDSFR_EL1,
        needs=Feature.FEAT_SPE_FDS,
        el2=(fgt2("nPMSDSFR_EL1"), TPMS),
        el3=(ENPMS3, NSPB),
        el3_at_el2=(NSPB, ENPMS3),
        nvmem=_nvmem(0x858, "1x1"),
    ),
    control(
        PMBMAR_EL1,
        needs=Feature.FEAT_SPE_nVM,
        el2=(fgt2("nPMBMAR_EL1"), E2PB),
        el3=(ENPMS4, NSPB),
        el3_at_el2=(NSPB, ENPMS4),
    ),
    _accessor(PMBIDR_EL1, lambda read: _PMBIDR_LEVELS),
    hypervisor_register(PMSCR_EL2, needs=Feature.FEAT_SPE, el3=(NSPB,)),
    hypervisor_register(PMBSR_EL2, needs=Feature.FEAT_SPE_EXC, el3=(NSPB, PMSEE)),
    host_alias("PMSCR_EL12", PMSCR_EL1, needs=(Feature.FEAT_SPE, Feature.FEAT_VHE), nvmem=0x828),
    host_alias(
        "PMBSR_EL12", PMBSR_EL1, needs=(Feature.FEAT_SPE_EXC, Feature.FEAT_VHE), nvmem=0x820
    ),
    monitor_register(PMBSR_EL3, needs=Feature.FEAT_SPE_EXC),
)
"""The nineteen names of SPE registers."""

STEERING_ACCESSORS: Final[tuple[Accessor, ...]] = (
    hypervisor_register(HCR_EL2, nvmem=0x78),
    hypervisor_register(MDCR_EL2, el3=(TDA,)),
    hypervisor_register(HFGRTR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1B8),
    hypervisor_register(HFGWTR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1C0),
    hypervisor_register(HFGITR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1C8),
    hypervisor_register(HDFGRTR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x1A0),
    hypervisor_register(HDFGWTR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x1B0),
    hypervisor_register(HDFGRTR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1D0),
    hypervisor_register(HDFGWTR_EL2, needs=Feature.FEAT_FGT, el3=(FGTEN,), nvmem=0x1D8),
    hypervisor_register(HFGRTR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x2C0),
    hypervisor_register(HFGWTR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x2C8),
    hypervisor_register(HFGITR2_EL2, needs=Feature.FEAT_FGT2, el3=(FGTEN2,), nvmem=0x310),
    hypervisor_register(VNCR_EL2, needs=Feature.FEAT_NV2, nvmem=0xB0),
    hypervisor_register(CNTPOFF_EL2, needs=Feature.FEAT_ECV_POFF, el3=(ECVEN,), nvmem=0x1A8),
    monitor_register(SCR_EL3),
    monitor_register(MDCR_EL3),
    untrapped(PM, needs=Feature.FEAT_EBEP),
    untrapped(ISR_EL1),
    everywhere(RNDR),
    everywhere(RNDRRS),
    *map(id_register, ID_REGISTERS),
)
"""What steers SPE and an engine lacks, keeps in part, or knows too little of.

A host answers these itself: HCR_EL2 and SCR_EL3 in part, the rest in whole. MDCR_EL2 and MDCR_EL3
may live in the engine, but SPE has to hear of their writes.
"""


class SysRegTable:
    """Finds the accessor that an MRS or MSR names."""

    def __init__(self, accessors: Iterable[Accessor]) -> None:
        self._by_key = {a.encoding.key: a for a in accessors}

    def get(self, key: int) -> Accessor | None:
        """The accessor of :attr:`Encoding.key`; None where the table has nothing to say.

        Encodings among those of SPE that Arm has not allocated have one, which is UNDEFINED.
        """
        found = self._by_key.get(key)
        if found is None and key & _SPE_SPACE_MASK in _SPE_SPACE:
            return _unallocated(Encoding.from_key(key))
        return found

    def named(self, name: str) -> Accessor | None:
        """The accessor with a name, such as ``PMSCR_EL12``."""
        return next((a for a in self if a.name == name), None)

    def __iter__(self) -> Iterator[Accessor]:
        return iter(self._by_key.values())


def _unallocated(encoding: Encoding) -> Accessor:
    undefined = (_undefined("unallocated", "Arm has not allocated this encoding"),)
    levels = (undefined,) * 4
    return Accessor(str(encoding), encoding, None, levels, levels)


_SPE_SPACE_MASK: Final = Encoding(3, 0, 15, 15, 0).key
_SPE_SPACE: Final = (Encoding(3, 0, 9, 9, 0).key, Encoding(3, 0, 9, 10, 0).key)
"""CRn and CRm of all SPE registers, under any op1."""


def psb_csync(pe: PE) -> SystemAccessTrap | None:
    """What PSB CSYNC does besides its work: None, or a trap to EL2."""
    if Feature.FEAT_SPEv1p5 not in pe.features or pe.el > EL1 or not fine_grained_traps_enabled(pe):
        return None
    if el_is_in_host(pe, EL0) and pe.el == EL0:
        return None
    if not pe.registers.read(HFGITR_EL2).PSBCSYNC:
        return None
    return _PSB_CSYNC_TRAP


_PSB_CSYNC_TRAP = SystemAccessTrap(
    EL2, PSB_CSYNC_TRAP, Rule("PSBCSYNC", "HFGITR_EL2.PSBCSYNC is 1")
)
