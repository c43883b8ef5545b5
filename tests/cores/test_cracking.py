"""What micro-operations instructions are, by rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.operation import (
    Access,
    CostClass,
    Family,
    Instruction,
    RegisterKind,
    Structure,
)
from spe_unicorn.cores.cracking import KINDS, Cracking
from spe_unicorn.cores.profile import core_names, load_core, parse_core

NEOVERSE = load_core("cortex-x4").cracking
"""Of the rules that no model of a core stands behind."""


def memory(family: Family, size: int, element: int, count: int = 1, **more: object) -> Instruction:
    """A load or store of ``count`` registers at X1 + 8; ``writeback`` goes to its access."""
    writeback = more.pop("writeback", None)
    index_writeback = more.pop("index_writeback", None)
    access = Access(
        1,
        8,
        size,
        element,
        writeback=writeback,
        index_writeback=index_writeback,  # type: ignore[arg-type]
    )
    return Instruction(0xF940_0020, family, access=access, register_count=count, **more)  # type: ignore[arg-type]


def told(parts: Sequence[Instruction]) -> list[tuple[str, int, int] | str]:
    """Each micro-operation: its family, offset and size, or its cost class."""
    return [
        part.cost.name
        if part.access is None
        else (part.family.name, part.access.offset, part.access.size)
        for part in parts
    ]


LOAD, STORE, ATOMIC = Family.LOAD, Family.STORE, Family.ATOMIC
VECTOR = {"registers": RegisterKind.SIMD_FP}


@pytest.mark.parametrize(
    ("instruction", "parts"),
    [
        (memory(LOAD, 8, 8), [("LOAD", 8, 8)]),
        (memory(LOAD, 8, 8, writeback=8), [("LOAD", 8, 8), "ALU"]),
        (memory(STORE, 4, 4), [("STORE", 8, 4), "ALU"]),
        (memory(STORE, 4, 4, writeback=-4), [("STORE", 8, 4), "ALU", "ALU"]),
        (memory(LOAD, 16, 8, 2), [("LOAD", 8, 8), ("LOAD", 16, 8)]),
        (memory(LOAD, 32, 16, 2, **VECTOR), [("LOAD", 8, 16), ("LOAD", 24, 16)]),
        (
            memory(STORE, 16, 8, 2, writeback=16),
            [("STORE", 8, 8), ("STORE", 16, 8), "ALU", "ALU", "ALU"],
        ),
        (
            memory(LOAD, 48, 1, 3, structure=Structure.MULTIPLE, **VECTOR),
            [("LOAD", 8, 16), ("LOAD", 24, 16), ("LOAD", 40, 16)],
        ),
        (
            memory(LOAD, 32, 4, 2, structure=Structure.INTERLEAVED, index_writeback=0, **VECTOR),
            [("LOAD", 8, 16), ("LOAD", 24, 16), "SIMD", "SIMD", "ALU"],
        ),
        (
            memory(STORE, 16, 2, 2, structure=Structure.INTERLEAVED, **VECTOR),
            ["SIMD", "SIMD", ("STORE", 8, 8), ("STORE", 16, 8), "ALU", "ALU"],
        ),
        (
            memory(LOAD, 8, 2, 4, structure=Structure.LANE, **VECTOR),
            [("LOAD", 8, 8), "SIMD", "SIMD", "SIMD", "SIMD"],
        ),
        (memory(LOAD, 64, 64, 8), [("LOAD", 8, 64)]),  # an access that cannot be divided
        (memory(LOAD, 16, 16, 2, exclusive=True), [("LOAD", 8, 16), "ALU"]),
        (memory(STORE, 16, 16, 2, exclusive=True), [("STORE", 8, 16), "ALU", "ALU", "ALU"]),
        (memory(LOAD, 8, 8, exclusive=True), [("LOAD", 8, 8)]),
        (memory(STORE, 8, 8, exclusive=True), [("STORE", 8, 8), "ALU", "ALU"]),
        (memory(ATOMIC, 8, 8, atomic=True), [("ATOMIC", 8, 8), "ALU"]),
        (memory(STORE, 64, 1, registers=RegisterKind.UNSPECIFIED), [("STORE", 8, 64), "ALU"]),
        (Instruction(0, cost=CostClass.MULTIPLY), ["MULTIPLY"]),  # multiply-accumulate as well
        (Instruction(0, cost=CostClass.DIVIDE), ["DIVIDE"]),
        (Instruction(0, Family.BRANCH, cost=CostClass.BRANCH, link=True), ["BRANCH"]),
        (
            Instruction(0, LOAD, cost=CostClass.LOAD, gather_scatter=True),
            ["LOAD", "SIMD"],
        ),
    ],
)
def test_micro_operations_of_neoverse(
    instruction: Instruction, parts: list[tuple[str, int, int] | str]
) -> None:
    assert NEOVERSE is not None
    found = NEOVERSE.parts(instruction)
    assert told(found) == parts
    assert [part.part for part in found] == list(range(len(found)))
    assert all(part.word == instruction.word for part in found)


def test_part_that_accesses_memory_stays_what_the_instruction_is() -> None:
    assert NEOVERSE is not None
    instruction = memory(ATOMIC, 8, 8, atomic=True, acquire_release=True)
    access, data = NEOVERSE.parts(instruction)
    assert (access.atomic, access.acquire_release) == (True, True)
    assert (data.atomic, data.acquire_release, data.family) == (False, False, Family.OTHER)


def test_without_a_rule_an_instruction_is_one_micro_operation() -> None:
    instruction = memory(LOAD, 16, 8, 2, writeback=16)
    assert Cracking({}).parts(instruction) == (instruction,)
    assert told(Cracking({"write_back": ["alu"]}).parts(instruction)) == [("LOAD", 8, 16), "ALU"]


@pytest.mark.parametrize("name", core_names())
def test_cores_that_sample_micro_operations_say_what_these_are(name: str) -> None:
    core = load_core(name)
    instructions = Feature.FEAT_SPE_ArchInst in core.features
    assert (core.cracking is None) == instructions
    if core.cracking is not None:
        assert {kind for kind in core.cracking.rules if "/" not in kind} == set(KINDS)


def test_a_profile_of_ones_own_has_rules_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "x"\nmidr = 1\nfeatures = ["FEAT_SPE"]\n[cracking]\nload = ["alu", "access"]\n'
    )
    cracking = load_core(str(path)).cracking
    assert cracking is not None
    assert told(cracking.parts(memory(LOAD, 8, 8))) == ["ALU", ("LOAD", 8, 8)]


def test_a_core_that_samples_instructions_cracks_none() -> None:
    core = b'name = "x"\nmidr = 1\nfeatures = ["FEAT_SPE"]'
    assert parse_core(core, "x").cracking is None
