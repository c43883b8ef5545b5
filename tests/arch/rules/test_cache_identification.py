"""CLIDR_EL1, CCSIDR_EL1 and CTR_EL0, by hand, from Arm ARM D24.2 and a manual of Arm's."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.rules.cache_identification import (
    Cache,
    Caches,
    ccsidr_el1,
    clidr_el1,
    ctr_el0,
    untold,
)

L1, L2, L3 = Cache(256, 4, 64), Cache(2048, 8, 64), Cache(32768, 16, 64)
"""64 KiB, 1 MiB, 32 MiB."""
N1 = Caches(L1, L1, (L2, L3), manual=0x8200_0023)
OWN = Caches(Cache(128, 4, 64), L1, (L2, L3))
PLAIN: Features = frozenset()
CCIDX: Features = frozenset({Feature.FEAT_CCIDX})


def test_a_manual_says_which_levels_there_are_and_where_they_meet() -> None:
    assert clidr_el1(N1).value == 0x8200_0023


def test_without_a_manual_there_are_all_levels() -> None:
    # LoUU and LoUIS 1, LoC 3; separate, unified, unified
    assert clidr_el1(OWN).value == 1 << 27 | 3 << 24 | 1 << 21 | 0b100_100_011


@pytest.mark.parametrize(
    ("csselr", "expected"),
    [
        # those of the Neoverse N1 TRM
        (0b0000, 0x701F_E01A),
        (0b0001, 0x201F_E01A),
        (0b0010, 0x70FF_E03A),
        # no instruction cache there, and what is behind the L2 is not the core's
        (0b0011, 0),
        (0b0100, 0),
        # no allocation tags
        (0b1_0000, 0),
    ],
)
def test_sizes_are_those_of_the_selected_cache(csselr: int, expected: int) -> None:
    assert ccsidr_el1(N1, PLAIN, csselr) == expected


def test_with_ccidx_there_is_room_for_more_sets() -> None:
    assert ccsidr_el1(OWN, CCIDX, 0b0000) == 255 << 32 | 3 << 3 | 2
    assert ccsidr_el1(OWN, CCIDX, 0b0001) == 127 << 32 | 3 << 3 | 2
    assert ccsidr_el1(OWN, CCIDX, 0b0100) == 32767 << 32 | 15 << 3 | 2
    assert ccsidr_el1(OWN, CCIDX, 0b0110) == 0


def test_the_smallest_line_of_data_is_the_models() -> None:
    engine = 0x8444_C004
    assert ctr_el0(N1, engine) == engine
    wide = Caches(L1, Cache(64, 4, 256), (L2,))
    assert ctr_el0(wide, engine) == 0x8666_C004  # 64 words, of granules as well
    narrow = Caches(L1, Cache(64, 4, 32), (L2,))
    assert ctr_el0(narrow, engine) == 0x8443_C004


def test_what_does_not_fit_is_told() -> None:
    large = Caches(L1, L1, (L2, Cache(1 << 16, 16, 64)))
    (sentence,) = untold(large, PLAIN)
    assert sentence.startswith("65536 sets of 16 lines: without FEAT_CCIDX")
    assert not list(untold(large, CCIDX))
    assert not list(untold(Caches(L1, L1, large.unified, manual=0x23), PLAIN))
    (sentence,) = untold(Caches(L1, Cache(64, 4, 8), (L2,)), CCIDX)
    assert sentence == "line = 8: allowed are 16 to 2048, which CCSIDR_EL1 can say"
