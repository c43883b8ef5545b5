"""Calls of many samples at once are those of one sample after the other."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from spe_unicorn.output import calls, reader
from spe_unicorn.output.calls import USER_CONTEXT, CallTable
from spe_unicorn.output.perf_format import RECORD_HEADER
from spe_unicorn.output.reader import _add_calls, _add_calls_of_many

SAMPLE, COMM = 9, 3


def sample(cpu: int, numbers: tuple[int, ...], *, more: int = 2) -> bytes:
    """A sample with such numbers for its calls, and ``more`` numbers after them."""
    chain = struct.pack(f"<{1 + len(numbers)}Q", len(numbers), *numbers)
    body = bytes(40) + struct.pack("<II", cpu, 0) + chain + bytes(8 * more)
    return RECORD_HEADER.pack(SAMPLE, 2, RECORD_HEADER.size + len(body)) + body


def random_samples(rng: random.Random, count: int) -> list[bytes]:
    """Chains of up to 127 calls, some of them often; now and then a context of the kernel's."""
    chains = [
        tuple(rng.randrange(1 << 64) for _ in range(rng.choice([0, 1, 2, 3, 127])))
        for _ in range(20)
    ]
    found = []
    for _ in range(count):
        context = USER_CONTEXT if rng.random() < 0.9 else -128 & (1 << 64) - 1
        chain = context, 0x4000_0000, *rng.choice(chains)
        found.append(sample(rng.randrange(3), chain, more=rng.randrange(4)))
    return found


def looks(table: CallTable) -> list[object]:
    """All that a table tells."""
    following = table.in_order()
    numbers = [[following(cpu) for _ in range(300)] for cpu in range(4)]
    return [table.chains, numbers]


@pytest.mark.parametrize("spread", [calls._SPREAD, np.uint64(0)])
@pytest.mark.parametrize("seed", range(6))
def test_they_are_those_of_one_after_the_other(
    seed: int, spread: np.uint64, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where chains are told apart by a sum that many of them share, and in small pieces."""
    rng = random.Random(seed)
    monkeypatch.setattr(calls, "_SPREAD", spread)
    monkeypatch.setattr(reader, "_PIECE", rng.choice([2048, 1 << 14, 1 << 20]))
    samples = random_samples(rng, 200)
    order = (1 << 50, 1 << 51), (1 << 51, 1 << 50)  # the same sum with factors of 1
    samples += [sample(0, (USER_CONTEXT, 0, *pair)) for pair in order]
    data = memoryview(bytes(3) + b"".join(samples))
    at_once, one_by_one = CallTable(), CallTable()
    position = 3
    while position < len(data):
        following = _add_calls_of_many(data, position, len(data), at_once)
        assert following > position
        position = following
    for each in samples:
        _add_calls(each, one_by_one)
    assert position == len(data)
    assert looks(at_once) == looks(one_by_one)


def test_what_is_no_whole_sample_ends_them() -> None:
    whole = sample(1, (USER_CONTEXT, 0x4000_0000, 0x4000_0008))
    for following in (
        RECORD_HEADER.pack(COMM, 0, 24) + bytes(16),
        whole[:-8],  # cut
        RECORD_HEADER.pack(SAMPLE, 2, len(whole) + 4) + whole[8:] + bytes(4),  # an odd size
        RECORD_HEADER.pack(SAMPLE, 2, 72) + whole[8:72],  # without room for a PC
        RECORD_HEADER.pack(SAMPLE, 2, 0),
        b"\x09\0\0\0",
    ):
        table = CallTable()
        data = memoryview(2 * whole + following)
        assert _add_calls_of_many(data, 0, len(data), table) == 2 * len(whole)
        assert looks(table)[0] == [(0x4000_0008,)]
        assert table.of(np.array([1] * 3), np.array([True] * 3)).tolist() == [0, 0, -1]
