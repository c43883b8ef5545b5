"""Samples that keep step with a loop, and those that only look so."""

from __future__ import annotations

import pytest

from spe_unicorn.debug.advice.resonance import Resonance, resonance
from tests.support import a64 as a

CODE = 0x1000
LOOP = [a.NOP, a.add_imm(0, 0, 1), a.add_imm(1, 1, 1), a.cbnz(2, -12), a.bl(64)]


def found(
    samples: dict[int, int], code: list[int] = LOOP, *, cracked: bool = False
) -> Resonance | None:
    """What is said of samples by the number of the operation."""

    def read(pc: int) -> int | None:
        place = (pc - CODE) // 4
        return code[place] if 0 <= place < len(code) else None

    counts = {(CODE + 4 * n, code[n]): count for n, count in samples.items()}
    return resonance(counts, read, cracked=cracked)


def test_an_operation_whose_neighbour_is_never_sampled_is_named() -> None:
    assert found({1: 48}) == Resonance(CODE + 4, 48, 0, 48)
    assert found({1: 100, 2: 3, 0: 9}) == Resonance(CODE + 4, 100, 3, 112)


def test_evenly_sampled_operations_are_fine() -> None:
    assert found({0: 50, 1: 40, 2: 60, 3: 50}) is None


def test_few_samples_say_nothing() -> None:
    assert found({1: 47}) is None
    assert found({1: 255}, cracked=True) is None
    assert found({1: 256}, cracked=True) is not None


def test_a_branch_is_followed_by_both_ways_together() -> None:
    assert found({3: 100, 0: 4}) is None  # taken at times
    assert found({3: 100, 4: 99}) is None  # hardly ever taken
    assert found({3: 100}) == Resonance(CODE + 12, 100, 0, 100)


@pytest.mark.parametrize(
    "word", [a.RET, a.br(3), a.svc(1), a.ERET, a.WFI, a.b(0), a.cbz(0, 0)], ids=hex
)
def test_what_is_not_followed_by_known_operations_is_left_alone(word: int) -> None:
    assert found({0: 1000}, [word, a.NOP]) is None


def test_code_that_has_changed_or_is_gone_is_left_alone() -> None:
    assert resonance({(CODE, a.NOP): 1000}, lambda pc: a.ISB) is None
    assert resonance({(CODE, a.NOP): 1000}, lambda pc: None) is None
    assert found({0: 1000}, [a.NOP]) is None  # what follows cannot be read
