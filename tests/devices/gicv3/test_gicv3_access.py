"""Expectations by hand, from the access pseudocode of the GIC's System registers."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.access.verdicts import (
    Allowed,
    SysRegTable,
    SystemAccessTrap,
    Undefined,
    access,
)
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.arch.registers.system import HCR_EL2, SCR_EL3
from spe_unicorn.devices.gicv3.access import gic_accessors
from spe_unicorn.devices.gicv3.registers import ICC_REGISTERS
from spe_unicorn.devices.gicv3.virtual_registers import ICH_HCR_EL2, ICH_REGISTERS
from tests.support.fakes import FakePE

FEATURES = frozenset({Feature.FEAT_EL2, Feature.FEAT_EL3, Feature.FEAT_VHE})
FMO, IMO = 1 << 3, 1 << 4
NS, IRQ, FIQ = 1, 2, 4
TC, TALL0, TALL1, TDIR = 1 << 10, 1 << 11, 1 << 12, 1 << 14

GROUP0 = ["BPR0", "AP0R0", "IGRPEN0"]
GROUP1 = ["BPR1", "AP1R0", "IGRPEN1"]
COMMON = ["PMR", "CTLR"]
READ_ONLY = {"IAR0": "group0", "HPPIR0": "group0", "IAR1": "group1", "HPPIR1": "group1"}
SGIS = ["SGI0R", "SGI1R", "ASGI1R"]


def verdict(
    name: str,
    el: int,
    *,
    read: bool = True,
    hcr: int = 0,
    scr: int = NS,
    ich_hcr: int = 0,
    features=FEATURES,
) -> str:
    pe = FakePE({SCR_EL3: scr, HCR_EL2: hcr}, el=el, features=features)
    accessor = SysRegTable(gic_accessors(lambda: ICH_HCR_EL2(ich_hcr))).named(name)
    assert accessor is not None
    result = access(pe, accessor, read=read)
    if isinstance(result, Allowed):
        return result.register.__name__
    if isinstance(result, SystemAccessTrap):
        assert result.ec == 0x18
        return f"trap EL{result.target_el}"
    assert isinstance(result, Undefined)
    return "undefined"


def test_every_register_has_an_accessor_with_its_own_encoding() -> None:
    accessors = {a.name: a for a in gic_accessors(lambda: ICH_HCR_EL2(0))}
    for register in (*ICC_REGISTERS, *ICH_REGISTERS):
        assert accessors[register.__name__].encoding == register.encoding
    assert len({a.encoding for a in accessors.values()}) == len(accessors)


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("ICC_PMR_EL1", "S3_0_C4_C6_0"),
        ("ICC_IAR1_EL1", "S3_0_C12_C12_0"),
        ("ICC_EOIR1_EL1", "S3_0_C12_C12_1"),
        ("ICC_DIR_EL1", "S3_0_C12_C11_1"),
        ("ICC_SGI1R_EL1", "S3_0_C12_C11_5"),
        ("ICC_SRE_EL2", "S3_4_C12_C9_5"),
        ("ICC_IGRPEN1_EL3", "S3_6_C12_C12_7"),
        ("ICH_HCR_EL2", "S3_4_C12_C11_0"),
        ("ICH_VMCR_EL2", "S3_4_C12_C11_7"),
        ("ICH_LR3_EL2", "S3_4_C12_C12_3"),
    ],
)
def test_encodings_of_the_manual(name: str, encoding: str) -> None:
    table = SysRegTable(gic_accessors(lambda: ICH_HCR_EL2(0)))
    assert str(table.named(name).encoding) == encoding


@pytest.mark.parametrize("name", [*GROUP0, *GROUP1, *COMMON, "SRE"])
def test_el0_never_reaches_the_interface(name: str) -> None:
    assert verdict(f"ICC_{name}_EL1", EL0) == "undefined"
    assert verdict(f"ICC_{name}_EL1", EL0, read=False) == "undefined"


@pytest.mark.parametrize(
    ("names", "kept_by"), [(GROUP0, {"FIQ"}), (GROUP1, {"IRQ"}), (COMMON, {"FIQ&IRQ"})]
)
@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("scr", [0, IRQ, FIQ, IRQ | FIQ])
@pytest.mark.parametrize("el", [EL1, EL2, EL3])
def test_el3_keeps_the_registers_of_the_interrupts_that_it_takes(
    names: list[str], kept_by: set[str], read: bool, scr: int, el: int
) -> None:
    routed = {"IRQ"} if scr & IRQ else set()
    routed |= {"FIQ"} if scr & FIQ else set()
    routed |= {"FIQ&IRQ"} if scr == IRQ | FIQ else set()
    for name in names:
        register = f"ICC_{name}_EL1"
        trapped = el < EL3 and kept_by <= routed
        expected = "trap EL3" if trapped else register
        assert verdict(register, el, read=read, scr=NS | scr) == expected
        assert verdict(register, el, read=read, scr=scr) == expected


@pytest.mark.parametrize(
    ("names", "virtual_by"), [(GROUP0, FMO), (GROUP1, IMO), (COMMON, FMO), (COMMON, IMO)]
)
def test_guest_of_a_hypervisor_gets_the_virtual_registers(
    names: list[str], virtual_by: int
) -> None:
    for name in names:
        register = f"ICC_{name}_EL1"
        everything_to_el3 = NS | IRQ | FIQ  # comes after EL2's say
        assert verdict(register, EL1, hcr=virtual_by, scr=everything_to_el3) == f"ICV_{name}_EL1"
        assert verdict(register, EL2, hcr=virtual_by) == register
        assert verdict(register, EL1, hcr=virtual_by, scr=0) == register  # Secure, no EL2


@pytest.mark.parametrize(("names", "other"), [(GROUP0, IMO), (GROUP1, FMO)])
def test_guest_keeps_the_physical_registers_of_the_other_group(
    names: list[str], other: int
) -> None:
    for name in names:
        assert verdict(f"ICC_{name}_EL1", EL1, hcr=other) == f"ICC_{name}_EL1"


@pytest.mark.parametrize(
    ("name", "read", "control"),
    [
        *((name, True, TALL0) for name in GROUP0),
        *((name, False, TALL1) for name in GROUP1),
        *((name, True, TC) for name in COMMON),
        ("RPR", True, TC),
        ("DIR", False, TC),
        ("DIR", False, TDIR),
        ("IAR0", True, TALL0),
        ("EOIR1", False, TALL1),
        *((name, False, TC) for name in SGIS),
    ],
)
def test_hypervisor_traps_its_guest_by_ich_hcr(name: str, read: bool, control: int) -> None:
    register = f"ICC_{name}_EL1"
    everything = TC | TALL0 | TALL1 | TDIR
    assert verdict(register, EL1, read=read, ich_hcr=control) == "trap EL2"
    assert verdict(register, EL1, read=read, ich_hcr=control, hcr=FMO | IMO) == "trap EL2"
    assert verdict(register, EL2, read=read, ich_hcr=everything) == register
    assert verdict(register, EL1, read=read, ich_hcr=control, scr=0) == register
    if name != "DIR":
        assert verdict(register, EL1, read=read, ich_hcr=everything & ~control) == register


@pytest.mark.parametrize("name", SGIS)
def test_sgis_of_a_guest_go_to_its_hypervisor(name: str) -> None:
    register = f"ICC_{name}_EL1"
    assert verdict(register, EL1, read=False) == register
    for hcr in (FMO, IMO):
        assert verdict(register, EL1, read=False, hcr=hcr) == "trap EL2"
    assert verdict(register, EL1, read=False, scr=NS | IRQ | FIQ) == "trap EL3"
    assert verdict(register, EL2, read=False, scr=NS | IRQ) == register


@pytest.mark.parametrize("name", [*READ_ONLY, "RPR"])
def test_read_only_registers_cannot_be_written(name: str) -> None:
    assert verdict(f"ICC_{name}_EL1", EL3, read=False) == "undefined"
    assert verdict(f"ICC_{name}_EL1", EL3) == f"ICC_{name}_EL1"
    assert verdict(f"ICC_{name}_EL1", EL1, hcr=FMO | IMO) == f"ICV_{name}_EL1"


@pytest.mark.parametrize("name", ["EOIR0", "EOIR1", "DIR", *SGIS])
def test_write_only_registers_cannot_be_read(name: str) -> None:
    assert verdict(f"ICC_{name}_EL1", EL3) == "undefined"
    assert verdict(f"ICC_{name}_EL1", EL3, read=False) == f"ICC_{name}_EL1"


@pytest.mark.parametrize("name", ["ICC_SRE_EL3", "ICC_CTLR_EL3", "ICC_IGRPEN1_EL3"])
def test_registers_of_el3_are_undefined_below(name: str) -> None:
    assert verdict(name, EL3) == name
    for el in (EL0, EL1, EL2):
        assert verdict(name, el) == "undefined"


@pytest.mark.parametrize("name", ["ICC_SRE_EL2", "ICH_HCR_EL2", "ICH_LR0_EL2", "ICH_VTR_EL2"])
def test_registers_of_el2_are_undefined_below_and_trapped_for_a_nested_hypervisor(
    name: str,
) -> None:
    assert verdict(name, EL2) == name
    assert verdict(name, EL3) == name
    assert verdict(name, EL1) == "undefined"
    assert verdict(name, EL0) == "undefined"
    nested = FEATURES | {Feature.FEAT_NV}
    assert verdict(name, EL1, hcr=1 << 42, features=nested) == "trap EL2"


def test_system_register_enable_of_el2_needs_an_enabled_el2_at_el3() -> None:
    assert verdict("ICC_SRE_EL2", EL3, scr=0) == "undefined"
    assert verdict("ICC_SRE_EL2", EL3, scr=NS) == "ICC_SRE_EL2"


def test_system_register_enable_of_el1_is_open_from_el1_up() -> None:
    for el in (EL1, EL2, EL3):
        assert verdict("ICC_SRE_EL1", el, hcr=FMO | IMO, scr=NS | IRQ | FIQ) == "ICC_SRE_EL1"
