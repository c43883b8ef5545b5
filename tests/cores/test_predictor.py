"""The branch predictor against sequences worked out by hand."""

from __future__ import annotations

import pytest

from spe_unicorn.cores.model_numbers import PredictorSizes
from spe_unicorn.cores.predictor import Branch, Predictor

AT = 0xFFFF_8000_0000_1000
TARGET = 0xFFFF_8000_0000_2000
BEHIND = AT + 4


def predictor(
    counters: int = 16, history: int = 0, targets: int = 4, returns: int = 2
) -> Predictor:
    return Predictor(PredictorSizes(counters, history, targets, returns))


def conditional(p: Predictor, directions: str, at: int = AT, target: int = TARGET) -> str:
    """Resolve a conditional branch for each T (taken) and N; a letter each for the prediction."""
    predicted = ""
    for direction in directions:
        address = p.resolve(at, Branch.CONDITIONAL, target, target if direction == "T" else at + 4)
        predicted += {target: "T", at + 4: "N"}[address]
    return predicted


def test_two_bit_counters_start_weakly_not_taken_and_saturate() -> None:
    # 1 -T-> 2 -T-> 3 -T-> 3 -N-> 2 -N-> 1 -N-> 0 -N-> 0 -T-> 1 -T-> 2
    assert conditional(predictor(), "TTTNNNNTTT") == "NTTTTNNNNT"


def test_branches_whose_addresses_share_a_counter_share_its_state() -> None:
    p = predictor(counters=16)
    conditional(p, "TT")
    assert conditional(p, "N", at=AT + 16 * 4) == "T"
    assert conditional(p, "N", at=AT + 4) == "N"


def test_history_learns_an_alternation_that_a_bimodal_predictor_cannot() -> None:
    alternating = "TN" * 20
    assert conditional(predictor(history=0), alternating) == "NT" * 20
    with_history = conditional(predictor(history=1), alternating)
    # history 0: counter 1, 2, ... predicts T from its second time on; history 1: N always
    assert with_history == "NN" + "TN" * 19


def test_a_branch_to_the_operation_behind_it_counts_as_not_taken() -> None:
    p = predictor()
    for _ in range(4):
        assert p.resolve(AT, Branch.CONDITIONAL, BEHIND, BEHIND) == BEHIND
    assert conditional(p, "T") == "N"
    assert p.mispredicted == 1


@pytest.mark.parametrize("kind", [Branch.DIRECT, Branch.CALL])
def test_direct_branches_are_never_mispredicted(kind: Branch) -> None:
    p = predictor()
    assert p.resolve(AT, kind, TARGET, TARGET) == TARGET
    assert (p.resolved, p.mispredicted) == (1, 0)


def test_an_indirect_branch_is_expected_behind_it_and_then_where_it_went_last() -> None:
    p = predictor()
    went = [TARGET, TARGET, TARGET + 8, TARGET]
    predicted = [p.resolve(AT, Branch.INDIRECT, 0, actual) for actual in went]
    assert predicted == [BEHIND, TARGET, TARGET, TARGET + 8]
    assert (p.resolved, p.mispredicted) == (4, 3)


def test_a_branch_drives_another_out_of_its_entry_of_the_target_buffer() -> None:
    p = predictor(targets=4)
    other = AT + 4 * 4
    p.resolve(AT, Branch.INDIRECT, 0, TARGET)
    assert p.resolve(other, Branch.INDIRECT, 0, TARGET) == other + 4
    assert p.resolve(AT, Branch.INDIRECT, 0, TARGET) == BEHIND


def test_returns_come_back_to_their_calls_in_reverse() -> None:
    p = predictor(returns=4)
    p.resolve(0x1000, Branch.CALL, 0x2000, 0x2000)
    p.resolve(0x2000, Branch.INDIRECT_CALL, 0, 0x3000)
    assert p.resolve(0x3000, Branch.RETURN, 0, 0x2004) == 0x2004
    assert p.resolve(0x2008, Branch.RETURN, 0, 0x1004) == 0x1004
    assert p.mispredicted == 1  # the indirect call, the first time


def test_a_return_without_a_call_is_expected_behind_it() -> None:
    assert predictor().resolve(AT, Branch.RETURN, 0, TARGET) == BEHIND


def test_calls_deeper_than_the_return_stack_lose_the_oldest_returns() -> None:
    p = predictor(returns=2)
    for call in (0x1000, 0x2000, 0x3000):
        p.resolve(call, Branch.CALL, call + 0x1000, call + 0x1000)
    predicted = [p.resolve(0x4000, Branch.RETURN, 0, back) for back in (0x3004, 0x2004, 0x1004)]
    assert predicted == [0x3004, 0x2004, 0x4004]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((12, 0, 4, 2), "counters = 12: allowed are powers of two"),
        ((16, 0, 3, 2), "targets = 3: allowed are powers of two"),
        ((16, 5, 4, 2), "history = 5: allowed are 0 to 4, since it selects a counter"),
        ((16, 0, 4, 0), "returns = 0: allowed are 1 and more"),
    ],
)
def test_impossible_sizes_are_refused(sizes: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PredictorSizes(*sizes)
