"""Every group of the traces, with every program: the guest cannot tell, and lines are true."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug.trace import TRACERS, trace
from spe_unicorn.debug.tracing.filters import FilterError, parse_filter
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.shipped import shipped_firmware, shipped_names

QUICK = tuple(kind for kind in TRACERS if kind not in ("insn", "memory"))
MOST = 200_000
"""Operations of a program that are run."""
WINDOW = 300
"""Operations, the last ones, of which everything is traced."""
OPTIONS = {
    "priv_gic_secure": {"secure": True},
    "priv_smp": {"smp": 2},
    "spe_smp": {"smp": 2},
    "ipi_pingpong": {"smp": 2},
    "smc_pingpong": {"el": 3},
    "world_switch": {"el": 2},
    "first_touch": {"el": 2},
    "priv_el2": {"el": 2},
    "priv_el3": {"el": 3},
    "priv_stage2": {"el": 2},
    "priv_timer_el2": {"el": 2},
    "priv_vhe": {"el": 2},
    "spe_el2_owner": {"el": 2},
    "spe_el3_monitor": {"el": 3},
    "pmu_counts": {"core": "neoverse-v2"},
}
LONG = {"priv_smp"}
PROGRAMS = [
    pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in shipped_names()
]


def machine(name: str, **options: object) -> Machine:
    return Machine(shipped_firmware(name), ram=16 << 20, **{**OPTIONS.get(name, {}), **options})


def state(of: Machine) -> object:
    """What software could see of a machine."""
    pes = [
        (
            pe.cpu.pc,
            pe.cpu.executed,
            pe.cpu.pstate,
            [pe.cpu.engine.x(n) for n in range(31)],
            {register.__name__: pe.cpu.registers.raw(register) for register in pe.cpu.registers},
            str(pe.unit.statistics),
        )
        for pe in of.board.pes
    ]
    return pes, hashlib.sha256(of.board.ram.bytes).hexdigest(), of.board.exit_status


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_traced_does_what_it_does_without(name: str) -> None:
    plain = machine(name)
    plain.run(operations=MOST)
    end = plain.operations
    traced = machine(name)
    lines: list[str] = []
    trace(traced.board, QUICK, lines.append)
    traced.run(operations=max(end - WINDOW, 0))
    everything: list[str] = []
    trace(traced.board, ("insn", "memory"), everything.append)
    before = [pe.cpu.executed for pe in traced.board.pes]
    traced.run(operations=end - traced.operations)
    assert state(traced) == state(plain)
    kinds = [line.split() for line in everything]
    insns = [words for words in kinds if "insn" in words]
    for pe, begun in zip(traced.board.pes, before, strict=True):
        mine = [w for w in insns if len(traced.board.pes) == 1 or w[1] == str(pe.number)]
        numbers = [int(w[0] if len(traced.board.pes) == 1 else w[2]) for w in mine]
        assert numbers == list(range(begun + 1, pe.cpu.executed + 1))


SOME = "spe_irq_el1"


def lines_of(name: str, kinds: str | tuple[str, ...], operations: int, **options: object):
    made = machine(name, **options)
    lines: list[str] = []
    made.trace(kinds, lines.append)
    made.run(operations=operations)
    return lines


@pytest.mark.parametrize("later", [0, pytest.param(117_000, marks=pytest.mark.slow)])
def test_both_runners_make_the_same_lines(later: int) -> None:
    """Of the first operations, and of those around the first records."""
    found = []
    for runner in (Runner, ReferenceRunner):
        made = machine(SOME)
        board = Board(made.options, runner=runner)
        board.start(made.plan)
        board.run(later)
        lines: list[str] = []
        trace(board, TRACERS, lines.append)
        board.run(400)
        found.append(lines)
    assert found[0] == found[1]
    kinds = {line.split()[1] for line in found[0]}
    assert kinds >= ({"insn", "memory", "spe"} if later else {"insn", "memory"})


def test_instructions_are_told_by_place_level_word_and_text() -> None:
    lines = lines_of("hello", "insn", 3)
    assert [line.split()[:2] for line in lines] == [["1", "insn"], ["2", "insn"], ["3", "insn"]]
    assert re.fullmatch(
        r"1 insn 0x40080000 <_start \(\w+\.S:\d+\)> EL1 [0-9a-f]{8}  .+\n", lines[0]
    )


def test_lines_of_a_file_of_json_hold_what_those_of_text_say() -> None:
    texts, objects = [], []
    for form, lines in (("text", texts), ("jsonl", objects)):
        made = machine(SOME)
        made.trace("mmu", lines.append, form)
        made.run(operations=115_000)
    read = [json.loads(line) for line in objects]
    assert len(read) == len(texts) > 5
    for text, line in zip(texts, read, strict=True):
        assert text.startswith(
            f"{line['operation']} {line['kind']} {line['pc']} <{line['symbol']} "
        )
        assert f"({line['line']})> EL{line['el']} " in text
    maintained = [line for line in read if line["what"] == "TLB maintenance"]
    assert "tlbi vmalle1" in [line["instruction"] for line in maintained]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'': write cpu=N"),
        ("cpu", "'cpu': write cpu=N"),
        ("cpu=", "'cpu=': write cpu=N"),
        ("cpu=x", "'cpu=x': allowed are the numbers from 0 to 65535"),
        ("el=4", "'el=4': allowed are the numbers from 0 to 3"),
        ("el=\N{ARABIC-INDIC DIGIT TWO}", "allowed are the numbers from 0 to 3"),
        ("range=0x10", "'range=0x10': write the first and the last address"),
        ("range=16-32", "write the first and the last address"),
        ("range=0x20-0x10", "write the first and the last address"),
        ("range=0x0-0x10000000000000000", "write the first and the last address"),
        ("cpu=0,,el=1", "'': write cpu=N"),
        ("place=main", "'place=main': write cpu=N"),
    ],
)
def test_a_filter_that_is_none_is_refused_in_a_sentence(text: str, why: str) -> None:
    with pytest.raises(FilterError, match=re.escape(why)) as refused:
        parse_filter(text)
    assert "\n" not in str(refused.value)


def test_filters_pass_what_fits_all_keys_and_any_of_several() -> None:
    one = parse_filter("cpu=1,el=2,el=3,range=0x1000-0x1fff")
    assert one.passes(1, 2, 0x1000)
    assert one.passes(1, 3, 0x1FFF)
    assert not one.passes(0, 2, 0x1000)
    assert not one.passes(1, 1, 0x1000)
    assert not one.passes(1, 2, 0xFFF)
    assert not one.passes(1, 2, 0x2000)
    assert str(one) == "cpu=1,el=2,el=3,range=0x1000-0x1fff"


def test_a_filter_by_a_symbol_passes_its_instructions_alone() -> None:
    made = machine(SOME)
    lines: list[str] = []
    made.trace("insn", lines.append, filters=["symbol=spe_setup"])
    made.run(operations=120_000)
    assert lines
    assert all(re.search(r" <spe_setup(\+0x\w+)? ", line) for line in lines)
    with pytest.raises(FilterError, match="no symbol is called 'nowhere'"):
        made.trace("insn", lines.append, filters=["symbol=nowhere"])


def buffer_faults(name: str, operations: int, **options: object) -> list[dict[str, Any]]:
    made = machine(name, **options)
    lines: list[str] = []
    made.trace("mmu", lines.append, "jsonl")
    made.run(operations=operations)
    return [line for line in map(json.loads, lines) if line["what"] == "buffer fault"]


def test_a_fault_of_the_profiling_buffer_comes_with_the_walk_of_its_owner() -> None:
    """0x7000201000 is entry 0x1C0 of a level 1 table, and entry 1 of those of levels 2 and 3."""
    first, _, permission, flag = buffer_faults("spe_fault", 900_000)[:4]
    assert first["fault"] == "of the Profiling Buffer, stage 1 translation fault, level 3"
    assert first["address"] == "0x7000201000"
    places = [int(step["address"], 0) for step in first["walk"]]
    words = [int(step["descriptor"], 0) for step in first["walk"]]
    assert [place & 0xFFF for place in places] == [0x1C0 * 8, 8, 8]
    assert [word & ~0xFFF for word in words[:2]] == [place & ~0xFFF for place in places[1:]]
    assert words[2] == 0  # an invalid descriptor
    assert permission["fault"].endswith("stage 1 permission fault, level 3")
    assert int(permission["walk"][-1]["descriptor"], 0) >> 7 & 1  # AP[2]: read-only
    assert flag["fault"].endswith("stage 1 access flag fault, level 3")
    assert not int(flag["walk"][-1]["descriptor"], 0) >> 10 & 1  # AF


@pytest.mark.slow
def test_a_fault_of_stage_2_comes_with_the_walk_of_stage_2() -> None:
    first, second = buffer_faults("spe_el2_owner", 3_000_000, core="max")[:2]
    assert first["fault"].endswith("stage 2 translation fault, level 3")
    assert int(first["walk"][-1]["descriptor"], 0) & 1 == 0
    assert second["fault"].endswith("stage 2 permission fault, level 3")
    assert int(second["walk"][-1]["descriptor"], 0) >> 6 & 3 == 0b01  # S2AP: read-only


def test_enabled_counters_that_stand_still_are_told_with_the_reason() -> None:
    made = machine("pmu_overflow", core="max", seed=3)
    lines: list[str] = []
    made.trace("pmu", lines.append, "jsonl")
    made.run(operations=60_000)
    told = [line for line in map(json.loads, lines) if "why" in line]
    frozen = [line for line in told if (line["why"] or "").startswith("PMCR_EL0.FZO is 1")]
    assert frozen
    for line in frozen:
        overflows = [json.loads(other) for other in lines if '"overflow"' in other]
        assert line["operation"] in {other["operation"] for other in overflows}
        assert line["counters"] == [0, 1]
    stopped = [line for line in told if line["why"] == "PMCR_EL0.E is 0"]
    assert stopped
    assert stopped[0]["what"] == "stand still"
