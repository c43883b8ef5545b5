"""Every instruction of these tables against QEMU: vectors, predicates, NZCV and FPSR."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions.decoder import ROWS, name_of
from tests.instructions.harness import QEMU, carried, here, on_qemu, random_cases

pytestmark = pytest.mark.skipif(QEMU is None, reason="qemu-system-aarch64 is not installed")

PATTERNS = [one.pattern for one in ROWS]


@pytest.mark.parametrize(("size", "each"), [(16, 60), (32, 30), (80, 15), (256, 8)])
def test_the_functions_do_what_qemu_does(size: int, each: int, tmp_path: Path) -> None:
    cases = random_cases(Random(size), PATTERNS, each, size)
    theirs = on_qemu(cases, size, tmp_path)
    assert not any(result.undefined for result in theirs)
    ours = carried(cases, size)
    wrong = Counter(
        name_of(word)
        for (word, _), mine, other in zip(cases, ours, theirs, strict=True)
        if mine != other
    )
    assert wrong == {}


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(("size", "each"), [(16, 3), (32, 1)])
def test_a_guest_here_and_on_qemu_sees_the_same(
    size: int, each: int, runner: type[Runner], tmp_path: Path
) -> None:
    cases = random_cases(Random(size + 1), PATTERNS, each, size)
    assert here(cases, size, runner=runner) == on_qemu(cases, size, tmp_path)
