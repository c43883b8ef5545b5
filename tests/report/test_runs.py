"""The summary of a campaign, as a page."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from spe_unicorn.machine.options import KINDS_OF_OPTIONS
from spe_unicorn.report.campaigns.runs import run_tables, tables_page
from tests.support.browser import hard_to_use


def row(**values):
    """A row of a run of which nothing but ``values`` is known."""
    return defaultdict(lambda: None, key="00ff", ending="exit", exit_status=0, **values)


def failed(row):
    return row["ending"] != "exit"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    rows = [
        row(firmware="a.elf", core="generic"),
        row(pflash="code.fd", drive="disk.img", core="<b>max</b>"),
        row(firmware="b.elf", core="max") | {"ending": "failed", "cause": '\x1b[31m & "x"'},
    ]
    path = tmp_path / "summary.html"
    lines = ["3 runs in 1.0 s"]
    path.write_text(tables_page("a < b", lines, run_tables(rows, 4, failed)), encoding="utf-8")
    return path


def test_texts_are_data_and_a_failure_leads_to_its_report(page: Path) -> None:
    text = page.read_text()
    assert "<title>a &lt; b</title>" in text
    assert "&lt;b&gt;max&lt;/b&gt;" in text
    assert "\x1b" not in text
    assert '<a href="runs/00ff/report.txt">runs/00ff/report.txt</a>' in text
    assert "<td>code.fd</td>" in text
    assert "<td>disk.img</td>" in text


def test_a_checker_of_accessibility_finds_nothing_serious(page: Path) -> None:
    assert hard_to_use(page) == "none"


@pytest.mark.parametrize(
    "option", sorted(KINDS_OF_OPTIONS.keys() - {"firmware", "kernel", "bios", "seed", "sampling"})
)
def test_runs_that_differ_by_an_option_are_two_groups(option: str) -> None:
    rows = [row(firmware="a.elf", **{option: value}) for value in ("one", "other")]
    _, groups = run_tables(rows, 2, failed)
    assert len(groups.rows) == 2


def test_the_ending_of_the_most_runs_comes_first_and_what_is_left_is_told() -> None:
    rows = [row(firmware="a.elf") | {"ending": "limit"}]
    rows += [row(firmware="a.elf") | {"exit_status": 3}] * 2
    rows += [row(firmware="a.elf")] * 2
    endings, *_ = run_tables(rows, 7, failed)
    assert endings.rows == [(0.4, 2, "exit 0"), (0.4, 2, "exit 3"), (0.2, 1, "limit")]
    assert endings.note == "2 of 7 runs are still to be done"
    endings, *_ = run_tables(rows, 5, failed)
    assert endings.note is None


def test_of_no_runs_there_are_no_tables() -> None:
    assert run_tables([], 5, failed) == []
    assert run_tables([row(firmware="a.elf")], 5, failed)[0].title == "1 run"


@pytest.mark.parametrize(("count", "note"), [(100, None), (103, "3 more are in runs.parquet")])
def test_a_hundred_groups_of_runs_are_shown_and_the_others_told_of(count: int, note: str) -> None:
    rows = [row(firmware=f"{n}.elf") for n in range(count)]
    _, groups = run_tables(rows, count, failed)
    assert (len(groups.rows), groups.note) == (100, note)
