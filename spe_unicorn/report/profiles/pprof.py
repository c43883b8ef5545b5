"""Stacks as pprof's profile.proto, compressed by gzip."""

from __future__ import annotations

import gzip

from spe_unicorn.report.profiles.stacks import Profile

_VARINT = 0
_BYTES = 2

_Lines = tuple[tuple[int, int], ...]
"""The functions of a location and their lines, the innermost first."""


def _varint(value: int) -> bytes:
    result = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _number(field: int, value: int) -> bytes:
    """A field with a number; 0 is what is read where there is none."""
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(data)) + data


def _packed(field: int, values: list[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))


def pprof(profile: Profile) -> bytes:
    """A profile with two values a sample: how many there are, and their cycles of total latency.

    A location has the inlined functions of its address, as pprof has them: the innermost first.
    Processes and Exception levels are locations without an address. The field numbers are those of
    github.com/google/pprof/proto/profile.proto.
    """
    strings: dict[str, int] = {"": 0}
    functions: dict[tuple[str, str, int], int] = {}
    locations: dict[tuple[int, _Lines], int] = {}
    body = bytearray()

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings))

    def function(name: str, path: str, first: int) -> int:
        return functions.setdefault((name, path, first), len(functions) + 1)

    def location(address: int, lines: _Lines) -> int:
        return locations.setdefault((address, lines), len(locations) + 1)

    for name, unit in (("samples", "count"), ("latency", "cycles")):
        body += _message(1, _number(1, string(name)) + _number(2, string(unit)))
    for stack, count, cycles in zip(
        profile.stacks, profile.samples_of, profile.latencies, strict=True
    ):
        places = []
        for call in reversed(stack.calls):
            lines = tuple(
                (
                    function(f.function, f.line.path if f.line else "", f.first),
                    f.line.number if f.line else 0,
                )
                for f in reversed(call.frames)
            )
            places.append(location(call.address, lines))
        outer = stack.el, stack.process
        places += [location(0, ((function(name, "", 0), 0),)) for name in outer]
        body += _message(2, _packed(1, places) + _packed(2, [count, cycles]))
    for (address, lines), number in locations.items():
        data = _number(1, number) + _number(3, address)
        for which, line in lines:
            data += _message(4, _number(1, which) + _number(2, line))
        body += _message(4, data)
    for (name, path, first), number in functions.items():
        data = _number(1, number) + _number(2, string(name)) + _number(3, string(name))
        body += _message(5, data + _number(4, string(path)) + _number(5, first))
    for text in strings:
        body += _message(6, text.encode())
    default = string("latency" if profile.by == "latency" else "samples")
    return gzip.compress(bytes(body) + _number(14, default), mtime=0)
