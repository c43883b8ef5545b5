"""Where exceptions go, from the routing controls of EL2 and EL3."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.exceptions import syndromes
from spe_unicorn.arch.exceptions.entry import ExceptionType
from spe_unicorn.arch.exceptions.routing import (
    InterruptRoute,
    Routed,
    abort_target,
    breakpoint_target,
    call_hypervisor,
    call_secure_monitor,
    default_target,
    fp_access_trap,
    route_interrupt,
    wait_trap,
)
from spe_unicorn.arch.exceptions.syndromes import FP_ACCESS_TRAP, UNDEFINED, WFx
from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    CPACR_EL1,
    CPTR_EL2,
    CPTR_EL3,
    HCR_EL2,
    MDCR_EL2,
    SCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
)
from tests.support.fakes import ALL_LEVELS, FakePE

NO_EL3: Features = ALL_LEVELS - {Feature.FEAT_EL3}
ONLY_EL1: Features = frozenset()


def pe(
    el: int,
    *,
    scr: int = 0,
    hcr: int = 0,
    ns: int = 1,
    features: Features = ALL_LEVELS,
    extra: dict[type[SysReg], int] | None = None,
) -> FakePE:
    registers: dict[type[SysReg], int] = {SCR_EL3: scr | ns, HCR_EL2: hcr, **(extra or {})}
    return FakePE(registers, el=el, features=features)


TGE = HCR_EL2.of(TGE=1).value
HOST = HCR_EL2.of(E2H=1, TGE=1).value


@pytest.mark.parametrize(
    ("el", "hcr", "target"),
    [(0, 0, 1), (1, 0, 1), (2, 0, 2), (3, 0, 3), (0, TGE, 2), (0, HOST, 2), (3, TGE, 3)],
)
def test_default_target(el: int, hcr: int, target: int) -> None:
    assert default_target(pe(el, hcr=hcr)) == target


def test_tge_counts_for_nothing_in_secure_state_without_secure_el2() -> None:
    assert default_target(pe(0, hcr=TGE, ns=0)) == 1
    assert default_target(pe(0, hcr=TGE, ns=0, scr=SCR_EL3.EEL2.mask)) == 2


@pytest.mark.parametrize(("el", "target"), [(0, 2), (1, 2), (2, 2), (3, 3)])
def test_brk_goes_to_the_debugger_at_el2(el: int, target: int) -> None:
    tde: dict[type[SysReg], int] = {MDCR_EL2: MDCR_EL2.of(TDE=1).value}
    assert breakpoint_target(pe(el, extra=tde)) == target


def test_brk_otherwise_goes_the_default_way() -> None:
    assert breakpoint_target(pe(0)) == 1
    assert breakpoint_target(pe(0, hcr=TGE)) == 2


STAGE_1 = FaultRecord(Fault.Translation, 3)
STAGE_2 = FaultRecord(Fault.Translation, 3, stage2=True, ipa=0)
EXTERNAL = FaultRecord(Fault.SyncExternal, 0)
ON_WALK = FaultRecord(Fault.SyncExternalOnWalk, 2)
TEA = HCR_EL2.of(TEA=1).value
EA = SCR_EL3.of(EA=1).value


@pytest.mark.parametrize(
    ("el", "fault", "scr", "hcr", "target"),
    [
        (1, STAGE_1, EA, TEA, 1),
        (0, STAGE_1, 0, TGE, 2),
        (2, STAGE_1, EA, 0, 2),
        (0, STAGE_2, 0, 0, 2),
        (1, STAGE_2, EA, 0, 2),
        (1, EXTERNAL, 0, 0, 1),
        (1, EXTERNAL, 0, TEA, 2),
        (1, EXTERNAL, EA, TEA, 3),
        (2, EXTERNAL, 0, 0, 2),
        (2, ON_WALK, EA, 0, 3),
        (3, EXTERNAL, 0, 0, 3),
    ],
)
def test_abort_target(el: int, fault: FaultRecord, scr: int, hcr: int, target: int) -> None:
    assert abort_target(pe(el, scr=scr, hcr=hcr), fault) == target


@pytest.mark.parametrize("fault", [EXTERNAL, ON_WALK])
@pytest.mark.parametrize(("eel2", "target"), [(0, 1), (1, 2)])
def test_tea_counts_only_where_el2_is_enabled(fault: FaultRecord, eel2: int, target: int) -> None:
    secure = pe(1, scr=SCR_EL3.of(EEL2=eel2).value, hcr=TEA, ns=0)
    assert abort_target(secure, fault) == target


def test_tea_is_for_external_aborts_only() -> None:
    assert abort_target(pe(1, hcr=TEA), STAGE_1) == 1
    assert abort_target(pe(0, hcr=TEA), ON_WALK) == 2


HCE = SCR_EL3.of(HCE=1).value


@pytest.mark.parametrize(("el", "target"), [(1, 2), (2, 2), (3, 3)])
def test_hvc_is_taken_to_el2_or_to_el3_itself(el: int, target: int) -> None:
    assert call_hypervisor(pe(el, scr=HCE), 7) == Routed(target, syndromes.hvc(7))


@pytest.mark.parametrize(
    ("machine", "target"),
    [
        (pe(0, scr=HCE), 1),
        (pe(0, scr=HCE, hcr=TGE), 2),
        (pe(1), 1),
        (pe(2), 2),
        (pe(1, scr=HCE, ns=0), 1),
        (pe(1, features=ONLY_EL1), 1),
        (pe(1, hcr=HCR_EL2.of(HCD=1).value, features=NO_EL3), 1),
    ],
)
def test_hvc_is_undefined_where_disabled(machine: FakePE, target: int) -> None:
    assert call_hypervisor(machine, 7) == Routed(target, UNDEFINED)


def test_hvc_works_in_secure_state_with_secure_el2_and_without_el3() -> None:
    secure = pe(1, scr=HCE | SCR_EL3.EEL2.mask, ns=0)
    assert call_hypervisor(secure, 0) == Routed(2, syndromes.hvc(0))
    assert call_hypervisor(pe(1, features=NO_EL3), 0) == Routed(2, syndromes.hvc(0))


TSC = HCR_EL2.of(TSC=1).value
SMD = SCR_EL3.of(SMD=1).value


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (pe(1), Routed(3, syndromes.smc(9))),
        (pe(2, hcr=TSC), Routed(3, syndromes.smc(9))),
        (pe(3), Routed(3, syndromes.smc(9))),
        (pe(1, hcr=TSC), Routed(2, syndromes.smc(9))),
        # The trap to EL2 comes before the disable of EL3.
        (pe(1, hcr=TSC, scr=SMD), Routed(2, syndromes.smc(9))),
        (pe(1, hcr=TSC, ns=0), Routed(3, syndromes.smc(9))),
        (pe(1, scr=SMD), Routed(1, UNDEFINED)),
        (pe(2, scr=SMD), Routed(2, UNDEFINED)),
        (pe(0), Routed(1, UNDEFINED)),
        (pe(0, hcr=TGE), Routed(2, UNDEFINED)),
        (pe(1, features=NO_EL3), Routed(1, UNDEFINED)),
        (pe(1, hcr=TSC, features=NO_EL3), Routed(1, UNDEFINED)),
        (
            pe(1, hcr=TSC | HCR_EL2.of(NV=1).value, features=NO_EL3),
            Routed(2, syndromes.smc(9)),
        ),
    ],
)
def test_smc(machine: FakePE, expected: Routed) -> None:
    assert call_secure_monitor(machine, 9) == expected


@pytest.mark.parametrize(
    ("el", "fpen", "target"),
    [(0, 0, 1), (1, 0, 1), (0, 2, 1), (1, 2, 1), (0, 1, 1), (1, 1, None), (0, 3, None)],
)
def test_cpacr_traps_fp_to_el1(el: int, fpen: int, target: int | None) -> None:
    extra: dict[type[SysReg], int] = {CPACR_EL1: CPACR_EL1.of(FPEN=fpen).value}
    expected = None if target is None else Routed(target, FP_ACCESS_TRAP)
    assert fp_access_trap(pe(el, extra=extra)) == expected


def test_cpacr_trap_that_tge_takes_to_el2_becomes_uncategorized() -> None:
    assert fp_access_trap(pe(0, hcr=TGE)) == Routed(2, UNDEFINED)


FP_ON: dict[type[SysReg], int] = {CPACR_EL1: CPACR_EL1.of(FPEN=3).value}


@pytest.mark.parametrize(("el", "trapped"), [(0, True), (1, True), (2, True), (3, False)])
def test_cptr_el2_tfp_traps_everything_below_el3(el: int, trapped: bool) -> None:
    machine = pe(el, extra={**FP_ON, CPTR_EL2: 1 << 10})
    assert fp_access_trap(machine) == (Routed(2, FP_ACCESS_TRAP) if trapped else None)


@pytest.mark.parametrize(
    ("el", "hcr", "fpen", "trapped"),
    [
        (2, HCR_EL2.of(E2H=1).value, 0, True),
        (2, HCR_EL2.of(E2H=1).value, 1, False),
        (1, HCR_EL2.of(E2H=1).value, 2, True),
        (0, HCR_EL2.of(E2H=1).value, 1, False),
        (0, HOST, 1, True),
        (0, HOST, 3, False),
        # TFP's bit means nothing in this layout.
        (2, HCR_EL2.of(E2H=1).value, 3, False),
    ],
)
def test_cptr_el2_has_fpen_with_e2h(el: int, hcr: int, fpen: int, trapped: bool) -> None:
    machine = pe(el, hcr=hcr, extra={**FP_ON, CPTR_EL2: fpen << 20 | 1 << 10})
    assert fp_access_trap(machine) == (Routed(2, FP_ACCESS_TRAP) if trapped else None)


@pytest.mark.parametrize("el", range(4))
def test_cptr_el3_traps_every_level(el: int) -> None:
    machine = pe(el, extra={**FP_ON, CPTR_EL3: CPTR_EL3.of(TFP=1).value})
    assert fp_access_trap(machine) == Routed(3, FP_ACCESS_TRAP)


def test_host_el0_does_not_look_at_cpacr() -> None:
    assert fp_access_trap(pe(0, hcr=HOST, extra={CPTR_EL2: 3 << 20})) is None


@pytest.mark.parametrize("wait", list(WFx))
def test_wait_traps(wait: WFx) -> None:
    wfe = wait in (WFx.WFE, WFx.WFET)
    may: dict[type[SysReg], int] = {
        SCTLR_EL1: SCTLR_EL1.of(**{"nTWE" if wfe else "nTWI": 1}).value,
    }
    host_may: dict[type[SysReg], int] = {
        SCTLR_EL2: SCTLR_EL2.of(**{"nTWE" if wfe else "nTWI": 1}).value,
    }
    hypervisor = HCR_EL2.of(**{"TWE" if wfe else "TWI": 1}).value
    monitor = SCR_EL3.of(**{"TWE" if wfe else "TWI": 1}).value
    syndrome = syndromes.wfx_trap(wait)
    assert wait_trap(pe(0), wait) == Routed(1, syndrome)
    assert wait_trap(pe(0, hcr=TGE), wait) == Routed(2, syndrome)
    assert wait_trap(pe(0, extra=may), wait) is None
    assert wait_trap(pe(1), wait) is None
    assert wait_trap(pe(0, hcr=HOST, extra=may), wait) == Routed(2, syndrome)
    assert wait_trap(pe(0, hcr=HOST | hypervisor, extra=host_may), wait) is None
    assert wait_trap(pe(0, hcr=hypervisor, extra=may), wait) == Routed(2, syndrome)
    assert wait_trap(pe(1, hcr=hypervisor, scr=monitor), wait) == Routed(2, syndrome)
    assert wait_trap(pe(1, hcr=hypervisor, ns=0), wait) is None
    assert wait_trap(pe(2, hcr=hypervisor), wait) is None
    assert wait_trap(pe(2, scr=monitor), wait) == Routed(3, syndrome)
    assert wait_trap(pe(3, scr=monitor), wait) is None


def test_other_wait_is_not_trapped() -> None:
    assert wait_trap(pe(1, hcr=HCR_EL2.of(TWE=1).value), WFx.WFI) is None


KINDS = {
    ExceptionType.IRQ: ("IRQ", "IMO"),
    ExceptionType.FIQ: ("FIQ", "FMO"),
    ExceptionType.SERROR: ("EA", "AMO"),
}

# SCR bit, TGE, E2H, xMO; then at EL0..EL3 what becomes of it: a target and "!" taken whatever
# PSTATE says, "?" masked by PSTATE, "-" never taken there.
INTERRUPT_TABLE = [
    (0, 0, 0, 0, "1? 1? - -"),
    (0, 0, 0, 1, "2! 2! 2? -"),
    (0, 0, 1, 0, "1? 1? - -"),
    (0, 0, 1, 1, "2! 2! 2? -"),
    (0, 1, 0, 0, "2! . 2? -"),
    (0, 1, 0, 1, "2! . 2? -"),
    (0, 1, 1, 0, "2? . 2? -"),
    (0, 1, 1, 1, "2? . 2? -"),
    (1, 0, 0, 0, "3! 3! 3! 3?"),
    (1, 0, 0, 1, "3! 3! 3! 3?"),
    (1, 1, 0, 0, "3! . 3! 3?"),
    (1, 1, 1, 1, "3! . 3! 3?"),
]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("scr", "tge", "e2h", "xmo", "row"), INTERRUPT_TABLE)
def test_interrupt_routing_and_masking(
    kind: ExceptionType, scr: int, tge: int, e2h: int, xmo: int, row: str
) -> None:
    scr_field, hcr_field = KINDS[kind]
    scr_value = SCR_EL3.of(**{scr_field: scr}).value
    hcr_value = HCR_EL2.of(**{"TGE": tge, "E2H": e2h, hcr_field: xmo}).value
    for el, expected in enumerate(row.split()):
        if expected == ".":  # EL1 does not exist with TGE
            continue
        machine = pe(el, scr=scr_value, hcr=hcr_value)
        unmasked = route_interrupt(machine, kind, mask=False)
        masked = route_interrupt(machine, kind, mask=True)
        if expected == "-":
            assert unmasked.masked
            assert masked.masked
        else:
            target, how = int(expected[0]), expected[1]
            assert unmasked == InterruptRoute(target, False)
            assert masked == InterruptRoute(target, how == "?")


def test_interrupt_kinds_are_routed_apart() -> None:
    machine = pe(1, scr=SCR_EL3.of(FIQ=1).value, hcr=HCR_EL2.of(IMO=1).value)
    targets = [route_interrupt(machine, kind, mask=False).target_el for kind in KINDS]
    assert targets == [2, 3, 1]


def test_secure_interrupts_ignore_a_disabled_el2() -> None:
    machine = pe(1, hcr=HCR_EL2.of(IMO=1).value, ns=0)
    assert route_interrupt(machine, ExceptionType.IRQ, mask=False) == InterruptRoute(1, False)


def test_core_without_el2_and_el3_takes_interrupts_to_el1() -> None:
    machine = pe(0, features=ONLY_EL1)
    assert route_interrupt(machine, ExceptionType.FIQ, mask=True) == InterruptRoute(1, True)
