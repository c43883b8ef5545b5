"""Packets in words: the names that text and JSON give to what a payload says."""

from __future__ import annotations

from spe_unicorn.spe.packets import Event, OperationClass
from spe_unicorn.symbols.table import printable as printable

"""Counters by index."""

CONTEXTS = {0: "CONTEXTIDR_EL1", 1: "CONTEXTIDR_EL2"}
"""Context packets by index."""

DATA_SOURCES = {
    0x0: "L1D",
    0x8: "L2",
    0x9: "peer core",
    0xA: "local cluster",
    0xB: "system cache",
    0xC: "peer cluster",
    0xD: "remote",
    0xE: "DRAM",
}
"""Data sources in the numbering of the Neoverse cores; other cores may have their own."""

_STATES = ("secure", "non-secure", "reserved", "realm")
_EVENTS = {event.value: str(event.name).lower() for event in Event}


def state_name(ns: int, nse: int) -> str:
    """The Security state or physical address space of the bits NS and NSE."""
    return _STATES[nse << 1 | ns]


def state_bits(name: str) -> dict[str, int]:
    """The bits NS and NSE of a :func:`state_name`. Raises ValueError for a name that is none."""
    if name not in _STATES:
        raise ValueError(f"{name!r} is no Security state; there are {', '.join(_STATES)}")
    bits = _STATES.index(name)
    return {"NS": bits & 1, "NSE": bits >> 1}


def event_names(events: int) -> list[str]:
    """The events whose bits are set, from bit 0 up; bits without a name by their number."""
    bits = (bit for bit in range(events.bit_length()) if events >> bit & 1)
    return [_EVENTS.get(1 << bit, f"event_{bit}") for bit in bits]


def operation_name(op_class: int, payload: int) -> str:
    """An Operation Type in words, such as ``load simd-fp`` or ``branch conditional``."""
    match op_class:
        case OperationClass.OTHER:
            words = _other(payload)
        case OperationClass.LOAD_STORE:
            words = _load_store(payload)
        case _:
            words = _branch(payload)
    return " ".join(words)


def _other(payload: int) -> list[str]:
    if payload & 0xF8 == 0:
        return ["other", *_flags(payload, (0, "conditional"), (1, "fp"), (2, "simd"))]
    if payload & 0x89 == 0x08:
        flags = _flags(payload, (1, "fp"), (2, "predicated"))
        return ["other", "sve", _vector_length(payload), *flags]
    if payload & 0x89 == 0x88:
        return ["other", "sme", _tile_size(payload), *_flags(payload, (1, "fp"))]
    return ["other", f"reserved-{payload:#04x}"]


_PLAIN_ACCESSES = {
    0x00: "general",
    0x04: "simd-fp",
    0x10: "unspecified",
    0x14: "tag",
    0x20: "memcpy",
    0x30: "nv2",
    0x40: "gcs",
    0x44: "gcs common",
}
"""Loads and stores of which only bit 0 varies."""


def _load_store(payload: int) -> list[str]:
    if payload == 0x25:
        return ["store", "memset"]
    direction = "store" if payload & 1 else "load"
    if payload & 0xFE in _PLAIN_ACCESSES:
        return [direction, _PLAIN_ACCESSES[payload & 0xFE]]
    if payload & 0xE2 == 0x02:
        flags = _flags(payload, (2, "atomic"), (3, "exclusive"), (4, "acquire-release"))
        return [direction, "extended", *flags]
    if payload & 0x0A == 0x08:
        flags = _flags(payload, (2, "predicated"), (7, "gather-scatter"))
        return [direction, "sve", _vector_length(payload), *flags]
    return [direction, f"reserved-{payload:#04x}"]


def _branch(payload: int) -> list[str]:
    if payload & 0xE0:
        return ["branch", f"reserved-{payload:#04x}"]
    kind = ((), ("call",), ("return",), ("jump",))[payload >> 3 & 3]
    return ["branch", *kind, *_flags(payload, (0, "conditional"), (1, "indirect"), (2, "gcs"))]


def _flags(payload: int, *flags: tuple[int, str]) -> list[str]:
    return [word for bit, word in flags if payload >> bit & 1]


def _vector_length(payload: int) -> str:
    """EVL, bits 6:4."""
    evl = payload >> 4 & 7
    return "over-2048-bit" if evl == 7 else f"{32 << evl}-bit"


def _tile_size(payload: int) -> str:
    """ETS, bits 6:4 and bit 2."""
    ets = payload >> 3 & 0xE | payload >> 2 & 1
    if ets == 15:
        return "whole-array"
    return f"{128 << ets}-bit" if ets < 12 else f"reserved-size-{ets}"
