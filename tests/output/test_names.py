from __future__ import annotations

import pytest

from spe_unicorn.output.names import event_names, operation_name, state_name


@pytest.mark.parametrize(
    ("op_class", "payload", "name"),
    [
        (0, 0x00, "other"),
        (0, 0x01, "other conditional"),
        (0, 0x03, "other conditional fp"),
        (0, 0x06, "other fp simd"),
        (0, 0x08, "other sve 32-bit"),
        (0, 0x2C, "other sve 128-bit predicated"),
        (0, 0x6A, "other sve 2048-bit fp"),
        (0, 0x7C, "other sve over-2048-bit predicated"),
        (0, 0x88, "other sme 128-bit"),
        (0, 0x8E, "other sme 256-bit fp"),
        (0, 0xDC, "other sme 262144-bit"),
        (0, 0xFC, "other sme whole-array"),
        (0, 0xEC, "other sme reserved-size-13"),
        (0, 0x10, "other reserved-0x10"),
        (1, 0x00, "load general"),
        (1, 0x01, "store general"),
        (1, 0x04, "load simd-fp"),
        (1, 0x05, "store simd-fp"),
        (1, 0x11, "store unspecified"),
        (1, 0x14, "load tag"),
        (1, 0x15, "store tag"),
        (1, 0x30, "load nv2"),
        (1, 0x31, "store nv2"),
        (1, 0x20, "load memcpy"),
        (1, 0x21, "store memcpy"),
        (1, 0x25, "store memset"),
        (1, 0x24, "load reserved-0x24"),
        (1, 0x40, "load gcs"),
        (1, 0x45, "store gcs common"),
        (1, 0x06, "load extended atomic"),
        (1, 0x17, "store extended atomic acquire-release"),
        (1, 0x0A, "load extended exclusive"),
        (1, 0x1B, "store extended exclusive acquire-release"),
        (1, 0x12, "load extended acquire-release"),
        (1, 0xBC, "load sve 256-bit predicated gather-scatter"),
        (1, 0x09, "store sve 32-bit"),
        (1, 0xFF, "store reserved-0xff"),
        (2, 0x00, "branch"),
        (2, 0x01, "branch conditional"),
        (2, 0x02, "branch indirect"),
        (2, 0x08, "branch call"),
        (2, 0x0E, "branch call indirect gcs"),
        (2, 0x12, "branch return indirect"),
        (2, 0x19, "branch jump conditional"),
        (2, 0x20, "branch reserved-0x20"),
    ],
)
def test_operation_is_named(op_class: int, payload: int, name: str) -> None:
    assert operation_name(op_class, payload) == name


def test_every_payload_has_a_name() -> None:
    for op_class in range(3):
        for payload in range(256):
            assert (
                operation_name(op_class, payload).split()[0]
                in {
                    0: {"other"},
                    1: {"load", "store"},
                    2: {"branch"},
                }[op_class]
            )


def test_events_are_named_from_the_lowest_bit_up() -> None:
    assert event_names(0x16) == ["retired", "l1d_access", "tlb_access"]
    assert event_names(0xC3) == ["exception", "retired", "not_taken", "mispredicted"]
    assert event_names(1 << 12 | 1 << 17 | 1 << 63) == ["event_12", "sve_partial", "event_63"]
    assert event_names(0) == []


@pytest.mark.parametrize(
    ("ns", "nse", "name"),
    [(0, 0, "secure"), (1, 0, "non-secure"), (1, 1, "realm"), (0, 1, "reserved")],
)
def test_state_is_named(ns: int, nse: int, name: str) -> None:
    assert state_name(ns, nse) == name
