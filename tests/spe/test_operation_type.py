"""Instructions to Operation Type packets and filter flags, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.operation import Family, Instruction, RegisterKind
from spe_unicorn.spe.filter import Flag
from spe_unicorn.spe.operation_type import effective_vector_length, operation_type
from spe_unicorn.spe.packets import OperationClass

V1P0: Features = frozenset({Feature.FEAT_SPE})
V1P1 = V1P0 | {Feature.FEAT_SPEv1p1, Feature.FEAT_SVE}
V1P2 = V1P1 | {Feature.FEAT_SPEv1p2, Feature.FEAT_SPE_FnE}
V1P4 = V1P2 | {Feature.FEAT_SPEv1p3, Feature.FEAT_SPEv1p4, Feature.FEAT_MTE2}
CRR = V1P4 | {Feature.FEAT_SPE_CRR}
FPF = CRR | {Feature.FEAT_SPE_FPF, Feature.FEAT_SPE_EFT}

B, LD, ST, FP, SIMD = Flag.B, Flag.LD, Flag.ST, Flag.FP, Flag.SIMD
LOAD, STORE, ATOMIC = Family.LOAD, Family.STORE, Family.ATOMIC
ATOMIC_STORE, BRANCH = Family.ATOMIC_STORE, Family.BRANCH
FP_REGISTERS = {"registers": RegisterKind.SIMD_FP}
SVE_REGISTERS = {"registers": RegisterKind.SVE, "sve": True}


def check(
    features: Features, op_class: OperationClass, payload: int, flags: Flag, **fields: Any
) -> None:
    found = operation_type(Instruction(0, **fields), features)
    assert (found.op_class, found.payload, found.flags) == (op_class, payload, flags)
    assert found.packet == 0x48 | op_class | payload << 8


@pytest.mark.parametrize(
    ("fields", "payload", "flags"),
    [
        pytest.param({"family": LOAD}, 0x00, LD, id="LDR"),
        pytest.param({"family": STORE}, 0x01, ST, id="STR"),
        pytest.param({"family": LOAD, **FP_REGISTERS, "scalar": True}, 0x04, LD | FP, id="LDR D"),
        pytest.param({"family": STORE, **FP_REGISTERS, "scalar": True}, 0x05, ST | FP, id="STP S"),
        pytest.param({"family": LOAD, **FP_REGISTERS}, 0x04, LD | SIMD, id="LDR Q"),
        pytest.param({"family": STORE, **FP_REGISTERS}, 0x05, ST | SIMD, id="ST4"),
        pytest.param({"family": LOAD, "acquire_release": True}, 0x12, LD, id="LDAR"),
        pytest.param({"family": STORE, "acquire_release": True}, 0x13, ST, id="STLR"),
        pytest.param({"family": LOAD, "exclusive": True}, 0x0A, LD, id="LDXR"),
        pytest.param(
            {"family": LOAD, "exclusive": True, "acquire_release": True}, 0x1A, LD, id="LDAXR"
        ),
        pytest.param({"family": STORE, "exclusive": True}, 0x0B, ST, id="STXR"),
        pytest.param(
            {"family": STORE, "exclusive": True, "acquire_release": True}, 0x1B, ST, id="STLXR"
        ),
        pytest.param({"family": ATOMIC, "atomic": True}, 0x06, LD | ST, id="CAS"),
        pytest.param(
            {"family": ATOMIC, "atomic": True, "acquire_release": True}, 0x16, LD | ST, id="SWPAL"
        ),
        pytest.param({"family": ATOMIC_STORE, "atomic": True}, 0x07, ST, id="STADD"),
        pytest.param(
            {"family": ATOMIC_STORE, "atomic": True, "acquire_release": True}, 0x17, ST, id="STADDL"
        ),
        pytest.param(
            {"family": LOAD, **FP_REGISTERS, "scalar": True, "acquire_release": True},
            0x12,
            LD,
            id="LDAPUR D",
        ),
    ],
)
@pytest.mark.parametrize("features", [V1P0, FPF])
def test_loads_and_stores(
    features: Features, fields: dict[str, Any], payload: int, flags: Flag
) -> None:
    check(features, OperationClass.LOAD_STORE, payload, flags, **fields)


@pytest.mark.parametrize(
    ("fields", "plain", "crr"),
    [
        pytest.param({}, 0x00, 0x18, id="B"),
        pytest.param({"conditional": True}, 0x01, 0x19, id="B.cond"),
        pytest.param({"link": True}, 0x00, 0x08, id="BL"),
        pytest.param({"indirect": True}, 0x02, 0x1A, id="BR, ERET"),
        pytest.param({"indirect": True, "link": True}, 0x02, 0x0A, id="BLR"),
        pytest.param({"indirect": True, "procedure_return": True}, 0x02, 0x12, id="RET"),
    ],
)
def test_branches_tell_calls_and_returns_with_crr(
    fields: dict[str, Any], plain: int, crr: int
) -> None:
    check(V1P4, OperationClass.BRANCH, plain, B, family=BRANCH, **fields)
    check(CRR, OperationClass.BRANCH, crr, B, family=BRANCH, **fields)


@pytest.mark.parametrize(
    ("fields", "plain", "fpf", "flags"),
    [
        pytest.param({}, 0x00, 0x00, Flag.NONE, id="ADD"),
        pytest.param({"conditional": True}, 0x01, 0x01, Flag.NONE, id="CSEL"),
        pytest.param({"conditional": True, "fp": True}, 0x01, 0x03, FP, id="FCSEL"),
        pytest.param({"fp": True}, 0x00, 0x02, FP, id="FADD D"),
        pytest.param({"simd": True}, 0x00, 0x04, SIMD, id="ADD V"),
        pytest.param({"simd": True, "fp": True}, 0x00, 0x06, SIMD | FP, id="FADD V"),
    ],
)
def test_other_operations_tell_fp_and_simd_with_fpf(
    fields: dict[str, Any], plain: int, fpf: int, flags: Flag
) -> None:
    check(CRR, OperationClass.OTHER, plain, flags, **fields)
    check(FPF, OperationClass.OTHER, fpf, flags, **fields)


@pytest.mark.parametrize(
    ("kind", "v1p0", "v1p1", "v1p4"),
    [
        pytest.param(RegisterKind.UNSPECIFIED, 0x01, 0x11, 0x11, id="DC ZVA"),
        pytest.param(RegisterKind.TAG, 0x01, 0x11, 0x15, id="STG"),
        pytest.param(RegisterKind.COPY, 0x01, 0x11, 0x21, id="CPYM, the store"),
        pytest.param(RegisterKind.SET, 0x01, 0x11, 0x25, id="SETM"),
        pytest.param(RegisterKind.GCS, 0x01, 0x11, 0x45, id="GCSSTR"),
    ],
)
def test_stores_of_no_register_have_their_own_kind_from_some_version_on(
    kind: RegisterKind, v1p0: int, v1p1: int, v1p4: int
) -> None:
    for features, payload in ((V1P0, v1p0), (V1P1, v1p1), (V1P4, v1p4)):
        check(features, OperationClass.LOAD_STORE, payload, ST, family=STORE, registers=kind)


def test_a_gather_load_of_256_bits() -> None:
    gather = Instruction(
        0,
        family=LOAD,
        registers=RegisterKind.SVE,
        sve=True,
        predicated=True,
        gather_scatter=True,
    )
    found = operation_type(gather, V1P2, vector_bits=256)
    assert found.payload == 0xBC
    assert found.flags == LD | SIMD


def test_sve_loads_say_predicated_from_v1p2_on_and_stores_always() -> None:
    loads, stores = {"family": LOAD, **SVE_REGISTERS}, {"family": STORE, **SVE_REGISTERS}
    access = OperationClass.LOAD_STORE
    check(V1P1, access, 0x28, LD | SIMD, **loads, predicated=True)
    check(V1P2, access, 0x2C, LD | SIMD, **loads, predicated=True)
    check(V1P1, access, 0x2D, ST | SIMD, **stores, predicated=True)
    check(V1P1, access, 0x29, ST | SIMD, **stores)


def test_sve_before_v1p1_is_told_as_simd_and_as_other() -> None:
    check(V1P0, OperationClass.LOAD_STORE, 0x05, ST | SIMD, family=STORE, **SVE_REGISTERS)
    check(V1P0, OperationClass.OTHER, 0x00, SIMD, sve=True, simd=True, predicated=True)


def test_sve_data_processing_tells_length_predication_and_fp() -> None:
    check(V1P1, OperationClass.OTHER, 0x28, SIMD, sve=True, simd=True)
    check(
        V1P1, OperationClass.OTHER, 0x2E, SIMD | FP, sve=True, simd=True, predicated=True, fp=True
    )


@pytest.mark.parametrize(
    ("bits", "evl"), [(32, 0), (64, 1), (128, 2), (129, 3), (256, 3), (384, 4), (512, 4), (2048, 6)]
)
def test_vector_lengths_are_rounded_up(bits: int, evl: int) -> None:
    assert effective_vector_length(bits) == evl


@pytest.mark.parametrize("bits", [0, 31, 2049])
def test_what_is_no_vector_length_is_refused(bits: int) -> None:
    with pytest.raises(ValueError, match=f"got {bits}"):
        effective_vector_length(bits)


def test_only_loads_and_stores_have_profiled_accesses() -> None:
    memory = {
        family: operation_type(Instruction(0, family=family), V1P0).memory for family in Family
    }
    assert [family for family in Family if memory[family]] == [LOAD, STORE, ATOMIC, ATOMIC_STORE]
