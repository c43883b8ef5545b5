"""What the cache model says of an operation, with numbers that are worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.operation import Access, CostClass, Family, Instruction, Operation, Timing
from spe_unicorn.cores.cache_model import CacheModel, last_level
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.cores.predictor import Branch
from tests.cores.small_caches import ATOMIC, ATOMIC_STORE, LOAD, NUMBERS, STORE

ALU = Instruction(4)
BRANCH = Instruction(5, Family.BRANCH, cost=CostClass.BRANCH)

ACCESS, REFILL, TLB, WALK, LLC, LLC_MISS = (1 << n for n in (2, 3, 4, 5, 8, 9))
L2, L2_MISS = 1 << 19, 1 << 20
MISPREDICTED = 1 << 7


def model_with(*addresses: int) -> CacheModel:
    """A model after 8-byte accesses to some addresses."""
    model = CacheModel(NUMBERS)
    for address in addresses:
        model.data.access(address, 8)
    return model


def timing(
    model: CacheModel, instruction: Instruction, *addresses: int, misaligned: bool = False
) -> Timing:
    """An operation that makes 8-byte accesses to some addresses."""
    model.begin()
    for address in addresses:
        model.data.access(address, 8)
    va = addresses[0] if addresses else None
    return model.timing(Operation(instruction, 0, 1, va=va, misaligned=misaligned))


def test_a_hit_takes_what_it_takes_without_caches() -> None:
    model = model_with(0x1000)
    for instruction in (LOAD, STORE, ATOMIC, ATOMIC_STORE):
        constant = ConstantModel().timing(Operation(instruction, 0, 1, va=0x1000))
        mine = timing(model, instruction, 0x1000)
        assert replace(mine, events=0, data_source=None) == constant
        assert mine.events == ACCESS | TLB


def test_loads_tell_how_far_their_data_was() -> None:
    # lines 1 to 3, 5 and 9 of one page; L1D keeps 2, L2 keeps 4, the last level all
    model = model_with(0x1000, 0x1040, 0x1080, 0x10C0, 0x1100)
    # a load takes 1 + 4 cycles, and what the level takes longer than 4
    hit = Timing(5, 1, 1, ACCESS | TLB, 0x0)
    assert timing(model, LOAD, 0x1100) == hit
    events = ACCESS | TLB | REFILL | L2
    assert timing(model, LOAD, 0x1080) == Timing(13, 1, 1, events, 0x8)
    events |= L2_MISS | LLC
    assert timing(model, LOAD, 0x1000) == Timing(61, 1, 1, events, 0xB)
    events |= LLC_MISS
    assert timing(model, LOAD, 0x1140) == Timing(151, 1, 1, events, 0xE)


def test_every_access_waits_for_its_translation() -> None:
    model = model_with(0x1000, 0x2000, 0x1000, 0x2000)  # L1D and both TLBs hold them
    events = ACCESS | TLB
    assert timing(model, LOAD, 0x1000) == Timing(9, 1, 5, events, 0x0)
    assert timing(model, STORE, 0x2000) == Timing(6, 1, 5, events)
    model.data.forget_translations()
    assert timing(model, STORE, 0x2000) == Timing(31, 1, 30, events | WALK)
    assert timing(model, LOAD, 0x2000) == Timing(5, 1, 1, events, 0x0)


def test_stores_do_not_wait_for_their_line_and_have_no_source() -> None:
    far = ACCESS | TLB | REFILL | LLC | LLC_MISS
    model = model_with(0x1000)
    assert timing(model, STORE, 0x1040) == Timing(2, 1, 1, far)
    assert timing(model, ATOMIC_STORE, 0x1080) == Timing(7, 1, 1, far)


def test_atomics_that_return_a_value_wait_as_loads_do() -> None:
    model = model_with(0x1000)
    events = ACCESS | TLB | REFILL | L2 | L2_MISS | LLC | LLC_MISS
    # read, then write
    assert timing(model, ATOMIC, 0x1040, 0x1040) == Timing(153, 1, 1, events, 0xE)


def test_of_several_lines_the_farthest_counts() -> None:
    model = model_with(0x1000)
    events = ACCESS | TLB | REFILL | L2 | L2_MISS | LLC | LLC_MISS
    assert timing(model, LOAD, 0x1000, 0x1040) == Timing(151, 1, 1, events, 0xE)


def test_a_micro_operation_tells_of_its_own_access_only() -> None:
    model = model_with(0x1040)
    model.begin()
    for address in (0x1038, 0x1040):  # a pair, whose second register is in the cache
        model.data.access(address, 8)
    halves = [
        Instruction(
            6, Family.LOAD, cost=CostClass.LOAD, access=Access(0, n, 8, 8), part=n, divided=True
        )
        for n in range(2)
    ]
    sources = [
        model.timing(Operation(half, 0, 1, va=pa, pa=pa)).data_source
        for half, pa in zip(halves, (0x1038, 0x1040), strict=True)
    ]
    assert sources == [0xE, 0x0]


def test_an_access_that_is_not_aligned_takes_a_cycle_more() -> None:
    model = model_with(0x1000)
    assert timing(model, LOAD, 0x1001, misaligned=True).total == 6


def test_what_others_did_before_is_not_told() -> None:
    model = model_with(0x1000)
    model.data.access(0x9000, 8)
    assert timing(model, ALU) == Timing(2, 1)


def test_an_access_that_nobody_saw_takes_a_hit_without_events() -> None:
    model = CacheModel(NUMBERS)
    model.begin()
    assert model.timing(Operation(LOAD, 0, 1, va=0x1000)) == Timing(5, 1, 1)


def test_a_branch_tells_whether_it_was_mispredicted() -> None:
    model = CacheModel(NUMBERS)
    found = []
    for _ in range(2):
        model.begin()
        model.predictor.resolve(0x1000, Branch.INDIRECT, 0, 0x2000)
        found.append(model.timing(Operation(BRANCH, 0x1000, 1, target=0x2000)))
    assert found == [Timing(2, 1, events=MISPREDICTED), Timing(2, 1)]


def test_a_branch_on_a_wrong_path_is_not_the_one_that_led_there() -> None:
    model = CacheModel(NUMBERS)
    model.predictor.resolve(0x1000, Branch.INDIRECT, 0, 0x2000)
    assert model.timing(Operation(BRANCH, 0x1004, 1, misspeculated=True)) == Timing(2, 1)


def test_two_pes_share_the_last_level_only_if_they_are_given_one() -> None:
    shared = last_level(NUMBERS)
    one, other, alone = (
        CacheModel(NUMBERS, shared),
        CacheModel(NUMBERS, shared),
        CacheModel(NUMBERS),
    )
    timing(one, LOAD, 0x1000)
    assert [timing(model, LOAD, 0x1000).data_source for model in (other, alone)] == [0xB, 0xE]


@pytest.mark.parametrize("cost", CostClass)
def test_operations_without_an_access_take_what_they_take_without_caches(cost: CostClass) -> None:
    operation = Operation(Instruction(0, cost=cost), 0, 1)
    model = CacheModel(NUMBERS)
    model.begin()
    assert model.timing(operation) == ConstantModel().timing(operation)
