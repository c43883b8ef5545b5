"""What the benchmark makes of times: figures, means, comparisons, and refusals."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "scripts" / "benchmark"
QUIET = [1.0, 1.02, 1.04, 1.06, 1.08, 1.10, 9.0]
"""Quartiles 1.03 and 1.09: one round was disturbed."""
LOUD = [1.0, 1.0, 1.0, 1.0, 1.2, 1.2, 1.2]
"""Quartiles 1.0 and 1.2."""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    monkeypatch.syspath_prepend(str(BENCHMARK))
    names = ("arithmetic", "measure", "commands", "report", "sides", "worker", "counters", "growth")
    return SimpleNamespace(**{name: importlib.import_module(name) for name in names})


def test_a_figure_is_the_lower_quartile_of_its_times(bench: SimpleNamespace) -> None:
    assert bench.arithmetic.lower_quartile([5.0, 1.0, 2.0, 3.0, 4.0]) == 2.0
    assert bench.arithmetic.lower_quartile(QUIET) == pytest.approx(1.03)
    assert bench.arithmetic.lower_quartile([3.0]) == 3.0


def test_spread_is_what_the_upper_quartile_has_more_than_the_lower(bench: SimpleNamespace) -> None:
    assert bench.arithmetic.spread(QUIET) == pytest.approx(1.09 / 1.03 - 1)
    assert bench.arithmetic.spread(LOUD) == pytest.approx(0.2)
    assert bench.arithmetic.spread([1.0, 2.0, 3.0]) is None


@pytest.mark.parametrize(
    ("spread", "refused"), [(None, False), (0.0, False), (0.15, False), (0.1501, True)]
)
def test_more_than_15_percent_between_quartiles_is_refused(
    bench: SimpleNamespace, spread: float | None, refused: bool
) -> None:
    assert bench.arithmetic.is_refused(spread) is refused


def test_a_mean_of_ratios_is_geometric_and_wants_them_all(bench: SimpleNamespace) -> None:
    assert bench.arithmetic.mean_ratio([0.5, 2.0]) == pytest.approx(1.0)
    assert bench.arithmetic.mean_ratio([0.5, None]) is None
    assert bench.arithmetic.mean_ratio([]) is None


def test_what_more_counts_cost_is_shared_among_them(bench: SimpleNamespace) -> None:
    assert bench.arithmetic.per_count(1.0, 3.0, 1000) == pytest.approx(0.002)
    assert bench.arithmetic.per_count(3.0, 3.0, 1000) is None
    assert bench.arithmetic.per_count(3.0, 2.0, 1000) is None


# Programs


def runs(bench: SimpleNamespace, bare: list[float], **columns: list[float]) -> dict[str, Any]:
    """Runs of ten iterations with 500 samples each, by their seconds an iteration."""
    return {
        name: [bench.measure.Run(10, 10 * pace, 500) for pace in paces]
        for name, paces in {"bare": bare, **columns}.items()
    }


def summary(bench: SimpleNamespace, program: str, *args: Any, **columns: Any) -> Any:
    counts = bench.measure.Counts(operations=8_000_000, blocks=1_000_000)
    return bench.measure.summary(program, counts, runs(bench, *args, **columns))


def test_the_report_says_whether_blocks_count_themselves(bench, monkeypatch):
    run = bench.measure.Run(10, 1.0, 500, refused=3)
    counts = bench.measure.Counts(operations=8_000_000, blocks=1_000_000)
    found = bench.measure.summary("crc", counts, {"bare": [bench.measure.Run(10, 1.0), run]})
    clean = summary(bench, "sort", QUIET)
    monkeypatch.setattr(bench.report, "why_not", lambda: None)
    said = bench.report.inline_counting([found, clean])
    assert said == "inline counting: on; blocks refused: crc 3"
    assert bench.report.inline_counting([clean]) == "inline counting: on; blocks refused: none"
    monkeypatch.setattr(bench.report, "why_not", lambda: "SPE_UNICORN_INLINE=0")
    assert bench.report.inline_counting([]) == "inline counting: off (SPE_UNICORN_INLINE=0)"


def test_a_program_is_told_by_quartiles_of_its_rounds(bench: SimpleNamespace) -> None:
    off = [2 * pace for pace in QUIET]
    sampled = {"1024": [pace + 0.05 for pace in off]}
    result = summary(bench, "crc", QUIET, off=off, **sampled)
    assert not result.refused
    assert result.bare_seconds == pytest.approx(1.03)
    assert result.ratios["off"] == pytest.approx(0.5)
    assert result.ratios["1024"] == pytest.approx(1.03 / 2.11)
    assert result.ns_a_block == pytest.approx(1030)
    assert result.us_a_sample["1024"] == pytest.approx(1000)  # 50 ms for 50 samples
    assert result.ratios["record"] is None  # which a side may not have


def test_a_program_whose_bare_times_lie_apart_gives_no_figure(bench: SimpleNamespace) -> None:
    result = summary(bench, "crc", LOUD, off=QUIET)
    assert result.refused
    assert set(result.ratios.values()) == {None}
    assert result.ns_a_block is None
    assert set(result.us_a_sample.values()) == {None}
    (line,) = bench.report.refusals([result], [])
    assert line.startswith("refused: crc: bare's quartiles lie 20 % apart, 15% at most;")


def test_times_of_our_machines_may_lie_apart(bench: SimpleNamespace) -> None:
    assert not summary(bench, "crc", QUIET, off=LOUD).refused


def test_one_refused_program_leaves_no_mean(bench: SimpleNamespace) -> None:
    good, bad = (summary(bench, name, bare, off=QUIET) for name, bare in GOOD_AND_BAD)
    loop = summary(bench, "alu8", LOUD, off=QUIET)
    assert bench.measure.geometric_means([good, loop])["off"] == pytest.approx(1.0)
    assert bench.measure.geometric_means([good, bad])["off"] is None
    assert bench.measure.geometric_means([loop]) == {}


GOOD_AND_BAD = (("crc", QUIET), ("sort", LOUD))


def test_two_commits_are_compared_by_their_own_times(bench: SimpleNamespace) -> None:
    here = [summary(bench, n, QUIET, off=QUIET) for n in ("crc", "sort", "alu8")]
    slower = [
        summary(bench, n, QUIET, off=[pace * by for pace in QUIET])
        for n, by in (("crc", 2), ("sort", 8), ("alu8", 100))
    ]
    assert bench.measure.speedups(here[0], slower[0])["off"] == pytest.approx(2)
    assert bench.measure.speedups(here[0], slower[0])["1024"] is None
    means = bench.measure.mean_speedups(here, slower)
    assert means["off"] == pytest.approx(4)  # of real work alone
    assert means["1024"] is None


class FakeSide:
    """Answers with times that were made up. Each round of ``bare`` takes the next of a list."""

    def __init__(self, bench: SimpleNamespace, bare: list[float], commit: str | None = None):
        self._bench = bench
        self._bare = iter(bare)
        self.commit = commit
        self.asked: list[str] = []

    def count(self, program: str) -> Any:
        return self._bench.measure.Counts(operations=100, blocks=10)

    def run(self, program: str, machine: dict[str, Any], iterations: int) -> Any:
        if self.commit and machine.get("core"):
            raise self._bench.sides.ProgramError("this commit has no such core")
        kind = machine["kind"]
        self.asked.append(kind)
        # sizes are found by two runs of one iteration each, which are no rounds
        pace = next(self._bare) if kind == "bare" else 1.0
        return self._bench.measure.Run(iterations, pace * iterations, 100)


FITTING = [1.0, 1.0]
"""What the size of a run is found by."""


def measured(bench: SimpleNamespace, *sides: FakeSide) -> list[Any]:
    return bench.measure.measure("crc", list(sides), 100, 7, lambda text: None)


@pytest.mark.sweep
def test_a_loud_host_is_given_a_second_chance(bench: SimpleNamespace) -> None:
    (result,) = measured(bench, FakeSide(bench, [*FITTING, *LOUD, *QUIET]))
    assert not result.refused
    assert result.spread == pytest.approx(1.09 / 1.03 - 1)
    (result,) = measured(bench, FakeSide(bench, [*FITTING, *LOUD, *LOUD]))
    assert result.refused


def test_sides_take_turns_and_an_older_one_may_lack_a_machine(bench: SimpleNamespace) -> None:
    here = FakeSide(bench, [*FITTING, *QUIET])
    older = FakeSide(bench, [9.0, *(2 * pace for pace in QUIET)], commit="0123456")
    one, other = measured(bench, here, older)
    assert other.bare_seconds == pytest.approx(2 * one.bare_seconds)
    assert one.ratios["uops off"] is not None
    assert other.ratios["uops off"] is None
    assert other.ratios["off"] is not None
    assert older.asked.count("per_instruction") == 1  # slow: in the first round alone


def test_what_this_checkout_cannot_do_is_an_error(bench: SimpleNamespace) -> None:
    side = FakeSide(bench, [*FITTING, *QUIET])
    side.run = lambda *args: (_ for _ in ()).throw(bench.sides.ProgramError("crc: wrong result"))
    with pytest.raises(bench.sides.ProgramError, match="wrong result"):
        measured(bench, side)


# Whole commands


def figure(bench: SimpleNamespace, name: str) -> Any:
    work = SimpleNamespace(more_samples=lambda: 30_000)
    return next(f for f in bench.commands.figures(work) if f.name == name)


def test_every_figure_has_a_name_to_ask_for_it(bench: SimpleNamespace) -> None:
    names = [f.name for f in bench.commands.figures(SimpleNamespace())]
    assert tuple(names) == bench.commands.NAMES


@pytest.mark.parametrize(
    ("name", "times", "value"),
    [
        ("startup", [[1.5]], 1.5),
        ("decode-text", [[1.0], [3.0]], 15_000),
        ("record", [[1.0], [1.5]], 60_000),
        ("ipi-wfi", [[1.0], [1.96]], 1000),  # 960 more round trips
        ("world-switch", [[1.0], [2.92]], 1000),  # two switches each
        ("exit-vhe", [[1.0], [1.96]], 1000),
        ("coverage", [[1.0], [1.5], [3.0], [3.7]], 1.1),  # each less what the start takes with it
        ("misuse", [[1.0], [2.0], [6.0]], 5.0),  # both less what any program takes
        ("decode-text", [[3.0], [1.0]], None),
    ],
)
def test_figures_are_made_of_the_times_of_commands(
    bench: SimpleNamespace, name: str, times: list[list[float]], value: float | None
) -> None:
    finding = bench.commands.finding(figure(bench, name), [times], [])
    assert finding.value == (None if value is None else pytest.approx(value))
    assert not finding.refused
    assert (finding.qemu, finding.older) == (None, None)


def test_a_figure_stands_beside_an_older_one_and_qemus(bench: SimpleNamespace) -> None:
    found = bench.commands.finding(figure(bench, "startup"), [[QUIET], [[2.0]]], [[0.1]])
    assert (found.value, found.older, found.qemu) == (pytest.approx(1.03), 2.0, 0.1)
    missing = bench.commands.finding(figure(bench, "startup"), [[QUIET], [[]]], [])
    assert missing.older is None


def test_a_command_whose_times_lie_apart_gives_no_figure(bench: SimpleNamespace) -> None:
    found = bench.commands.finding(figure(bench, "ipi-wfi"), [[QUIET, LOUD]], [])
    assert found.refused
    assert found.value is None
    (line,) = bench.report.refusals([], [found])
    assert line.startswith("refused: ipi-wfi: its quartiles lie 20 % apart")


# The process that runs programs, and JSON


def test_the_address_space_has_a_hole_while_an_engine_lives(bench: SimpleNamespace) -> None:
    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0])

    before = pages()
    with bench.worker.random_hole():
        assert pages() - before >= (2 << 20) // 4096
    assert pages() - before < (2 << 20) // 4096


def test_json_keeps_its_keys_and_has_the_comparison(bench: SimpleNamespace) -> None:
    here = [summary(bench, "crc", QUIET, off=QUIET), summary(bench, "sort", LOUD, off=QUIET)]
    older = [summary(bench, n, QUIET, off=QUIET) for n in ("crc", "sort")]
    found = [bench.commands.finding(figure(bench, "startup"), [[QUIET], [QUIET]], [])]
    figures = json.loads(
        json.dumps(bench.report.as_json(here, older, found, 0.3, 7, "0123456789abcdef"))
    )
    assert {"host", "seconds", "rounds", "programs", "geometric_means", "aims"} <= set(figures)
    assert {"ratios", "ns_a_block", "us_a_sample", "bare_seconds", "operations", "blocks"} <= set(
        figures["programs"]["crc"]
    )
    assert figures["programs"]["sort"]["refused"]
    assert figures["geometric_means"]["off"] is None
    assert len(figures["refused"]) == 1
    against = figures["against"]
    assert against["commit"] == "0123456789abcdef"
    assert against["speedups"]["crc"]["off"] == pytest.approx(1)
    assert against["mean_speedups"]["off"] is None
    assert figures["figures"]["startup"]["unit"] == "s"


def test_what_counters_cost_is_the_median_of_machines(bench: SimpleNamespace) -> None:
    def machine(without: float, again: float, four: float) -> dict[str, list[list[float]]]:
        ways = {way: [[0.0, 1.0]] for way in bench.counters.WAYS}
        # the shortest of the second pieces counts; the first ones have the change in them
        return ways | {
            "without": [[9.0, without + 1], [9.0, without]],
            "again": [[9.0, again]],
            "four": [[four + 0.5, four], [four + 2.25, four + 2]],
        }

    machines = [machine(1, 1.02, 1.1), machine(2, 1.9, 2.1), machine(1, 1, 1.04)]
    found = bench.counters.cost("crc", machines)
    assert found.by_way["four"] == pytest.approx(5)  # of 10, 5 and 4
    assert found.by_way["again"] == pytest.approx(0)  # of 2, -5 and 0
    assert found.noise == pytest.approx(5)
    assert found.change == pytest.approx(0.375)  # of 0.5 and 0.25, three times
    loop = bench.counters.cost("alu8", machines)
    assert bench.counters.mean_cost([found, loop]) == pytest.approx(5)
    assert bench.counters.mean_cost([loop]) is None


def test_growth_is_told_by_what_a_size_takes_more_than_the_one_before(
    bench: SimpleNamespace,
) -> None:
    """A start of 1 s and 100 MiB; then 0.1 s a unit, 0.2 s from the second size on, 2 KiB each."""
    sizes = ((10, 2.0, 20), (20, 3.0, 40), (40, 7.0, 80))
    costs = tuple(bench.growth.Cost(n, seconds, 100 << 10 | kib) for n, seconds, kib in sizes)
    growth = bench.growth.Growth("ram", costs)
    assert growth.times == pytest.approx((0.1, 0.2))
    assert growth.memory == pytest.approx((2.0, 2.0))
    assert growth.slope == pytest.approx(2.0)


def test_no_slope_is_told_where_more_took_no_longer(bench: SimpleNamespace) -> None:
    costs = tuple(bench.growth.Cost(n, s, 0) for n, s in ((1, 2.0), (2, 1.9), (3, 3.0)))
    assert bench.growth.Growth("ram", costs).slope is None


def test_each_guest_that_grows_does_all_that_it_is_asked_for(bench: SimpleNamespace) -> None:
    """Each of 256 pages a MiB takes 4 operations; each of two turns of the blocks 2 more, and one
    a branch back. Numbers are made in 4 operations, and PSCI is called with one number.
    """
    guest = importlib.import_module("growth_guest")
    for name, size, operations in (
        ("ram", 2, 8 + 2 * 256 * 4 + 5),
        ("blocks", 3, 4 + 2 * (3 * 2 + 2) + 1 + 5),
    ):
        assert guest.run(name, size, 1).executed == operations
