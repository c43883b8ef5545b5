"""The constant core model: latencies by class, nothing else."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.operation import CostClass, Instruction, Operation
from spe_unicorn.cores.model import EXECUTION, ConstantModel


def operation(cost: CostClass, va: int | None = None) -> Operation:
    return Operation(Instruction(0, cost=cost), pc=0x1000, el=0, va=va)


def test_an_alu_operation_issues_after_one_cycle_and_completes_after_two() -> None:
    timing = ConstantModel().timing(operation(CostClass.ALU))
    assert (timing.total, timing.issue, timing.translation) == (2, 1, 0)


def test_an_access_spends_a_cycle_on_translation() -> None:
    timing = ConstantModel().timing(operation(CostClass.LOAD, va=0x2000))
    assert (timing.total, timing.issue, timing.translation) == (5, 1, 1)


@pytest.mark.parametrize("cost", CostClass)
def test_no_class_has_events_of_caches_or_a_data_source(cost: CostClass) -> None:
    timing = ConstantModel().timing(operation(cost, va=0x2000))
    assert timing.events == 0
    assert timing.data_source is None


def test_a_division_takes_longer_than_a_multiplication_than_an_addition() -> None:
    model = ConstantModel()
    totals = [
        model.timing(operation(cost)).total
        for cost in (CostClass.ALU, CostClass.MULTIPLY, CostClass.DIVIDE)
    ]
    assert totals == sorted(set(totals))


def test_a_class_without_a_latency_is_refused_by_name() -> None:
    execution = {cost: cycles for cost, cycles in EXECUTION.items() if cost != CostClass.CRYPTO}
    with pytest.raises(ValueError, match="CRYPTO needs a latency"):
        ConstantModel(execution)
