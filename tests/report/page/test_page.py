"""The HTML page, in a browser: it shows the numbers of the records and asks nobody for anything."""

import base64
import re
from importlib.resources import files

import numpy as np
import pytest

import spe_unicorn
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.output.arrays import Has
from spe_unicorn.report import page
from spe_unicorn.report.page import html_page, page_data
from spe_unicorn.report.samples import Samples
from spe_unicorn.report.views.overview import View, grouped
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.symbols.elf import ElfFile, Piece
from spe_unicorn.symbols.table import Symbol, SymbolTable
from tests.report.recordings import samples
from tests.support.browser import browse, hard_to_use
from tests.support.samples import branch, load, of_every_sort, other, pc, store


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    from click.testing import CliRunner

    from spe_unicorn.cli import main
    from spe_unicorn.machine.shipped import shipped_firmware

    file = tmp_path_factory.mktemp("page") / "a.data"
    options = ["-c", "100", "--model", "cache", "--max-insns", "1200000", "-o", str(file)]
    firmware = str(shipped_firmware("bench_hash"))
    for arguments in (
        ["record", "-q", *options, firmware],
        ["report", str(file), "--html", str(file.with_suffix(".html"))],
    ):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code in (0, 124), result.stderr
    return Samples(spe_unicorn.read(file))


@pytest.fixture(scope="module")
def made(recording):
    from pathlib import Path

    return Path(recording.recording.file.path).with_suffix(".html")


def opened(tmp_path, found, fragment=""):
    path = tmp_path / "page.html"
    path.write_text(html_page(found, disassemble), encoding="utf-8")
    return browse(path, fragment)


def count(text):
    return int(text.replace(",", ""))


def test_the_page_shows_what_the_report_shows(recording, made):
    shown = browse(made)
    assert shown.console == []
    assert shown.text("shown") == f"{len(recording):,} of {len(recording):,} samples"
    ours = {row[-1]: row[1] for row in grouped(recording, View(rows=10**6), ("symbol",)).rows}
    assert {row[-1]: count(row[1]) for row in shown.rows("functions")} == ours
    there = recording.arrays.where(Has.DATA_SOURCE)
    sources = recording.groups(("source",), recording.weights("samples"), there)
    assert {row[2]: count(row[1]) for row in shown.rows("sources")} == {
        group.labels[0]: len(group.rows) for group in sources
    }
    retired = int((recording.arrays.events >> 1 & 1).sum())
    assert count({row[2]: row[1] for row in shown.rows("events")}["retired"]) == retired


def test_what_is_picked_is_picked_in_every_view(recording, made):
    arrays = recording.arrays
    loads = arrays.where(Has.OPERATION) & (arrays.op_class == OperationClass.LOAD_STORE)
    loads &= arrays.op_payload & 1 == 0
    inside = recording.labels("symbol") == "bench_work"
    low, high = 20000, 40000
    timed = (arrays.timestamp >= low) & (arrays.timestamp <= high)
    shown = browse(made, f"#symbol=bench_work&kind=load&time={low}-{high}")
    picked = int((loads & inside & timed).sum())
    assert picked
    assert shown.text("shown") == f"{picked:,} of {len(recording):,} samples"
    assert sum(count(row[1]) for row in shown.rows("sources")) == int(
        (loads & inside & timed & arrays.where(Has.DATA_SOURCE)).sum()
    )
    assert sum(count(row[1]) for row in shown.rows("code") if row[1]) == picked
    functions = {row[-1]: count(row[1]) for row in shown.rows("functions")}
    assert functions["bench_work"] == picked
    # its own view shows what else could be picked
    assert sum(functions.values()) == int((loads & timed).sum())
    assert shown.rows("branches") == []


def test_a_row_of_addresses_can_be_picked(recording, made):
    data = recording.labels("data")
    shown = browse(made, "#axis=data&data=slots")
    assert shown.text("shown").startswith(f"{int((data == 'slots').sum()):,} of ")


def test_the_page_asks_nobody_for_anything(made):
    text = made.read_text()
    script = text.index("<script>", text.index('id="data"'))
    ours = text[:script] + text[text.rindex("<script>") :]
    assert "default-src 'none'" in ours
    assert not re.search(r"""(src|href|action|srcset)\s*=|@import|url\(|fetch\(|XMLHttp""", ours)


HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\x1b[2J<b>"


def test_names_are_data(tmp_path):
    program = ElfFile(
        files("tests") / HOSTILE.replace("/", "_"),
        (Piece(0x40000000, 0x40000000, 0, 0, 0x10000),),
        SymbolTable([Symbol(0x40000100, HOSTILE, 0x40, True), Symbol(0x40008008, HOSTILE, 8)]),
        False,
        1,
    )
    shown = opened(tmp_path, samples(load(), branch(), other(), program=program), "#axis=data")
    assert shown.console == []
    assert "<title>SPE report of a.spe</title>" in shown.dom
    assert "<img" not in shown.dom
    name = HOSTILE.replace("\x1b", "\\x1b")
    assert [row[-1] for row in shown.rows("functions")] == [name]
    assert shown.rows("branches")[0][3] == name


@pytest.mark.slow
@pytest.mark.parametrize("records", [(), (other(timestamp=None),), tuple(of_every_sort())])
def test_records_of_every_sort_and_none_make_a_page(tmp_path, records):
    shown = opened(tmp_path, samples(*records, program=None))
    assert shown.console == []
    assert shown.text("shown") == f"{len(records)} of {len(records)} samples"


@pytest.mark.slow
def test_very_many_samples_are_counted_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "MOST_SAMPLES", 10)
    found = samples(*[load(0x40000100), store(0x40000144), load(0x40000144)] * 20)
    shown = opened(tmp_path, found)
    assert shown.console == []
    assert shown.text("shown") == "60 of 60 samples"
    assert {row[-1]: count(row[1]) for row in shown.rows("functions")} == {"main": 20, "work": 40}
    shown = opened(tmp_path, found, "#kind=load&symbol=work")
    assert shown.text("shown") == "20 of 60 samples"


def column(data, name):
    kind, text = data["columns"][name]
    return np.frombuffer(base64.b64decode(text), kind).tolist()


def test_a_branch_that_is_not_taken_goes_nowhere():
    # event 6 is Not taken; a core may give the next operation as the target
    taken, passed = branch(0x40000100, target=pc(0x40000140)), 1 << 6 | 2
    not_taken = branch(0x40000104, target=pc(0x40000108), events=passed)
    data = page_data(samples(taken, not_taken), disassemble)
    first, second = column(data, "target")
    assert data["targets"][first] == "work"
    assert second == 255


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("records", "captions"),
    [
        (1, ("1 function", "1 branch with its target")),
        (2, ("2 functions", "2 branches with their targets")),
    ],
)
def test_one_row_is_told_in_the_singular(tmp_path, records, captions):
    # `main` begins at 0x40000100 and `work` at 0x40000140
    found = [branch(place, target=pc(0x40000140)) for place in (0x40000100, 0x40000140)]
    shown = opened(tmp_path, samples(*found[:records]))
    assert (shown.text("functions"), shown.text("branches")) == captions


@pytest.mark.parametrize(
    ("most", "kind", "nothing"),
    [
        (254, "u1", 0xFF),
        (255, "<u2", 0xFFFF),
        (0xFFFE, "<u2", 0xFFFF),
        (0xFFFF, "<u4", 0xFFFF_FFFF),
    ],
)
def test_indexes_take_the_fewest_bytes_that_leave_a_number_for_nothing(most, kind, nothing):
    narrow = page._narrow(np.array([0, most, 0xFFFF_FFFF], "<u4"))
    assert narrow.dtype == np.dtype(kind)
    assert narrow.tolist() == [0, most, nothing]


NOTHING = 0xFFFF_FFFF


def test_64_rows_are_of_the_objects_with_the_most_samples_and_the_last_of_all_others():
    objects = [f"object {n:03}" for n in range(70)]
    numbers = np.repeat(np.arange(70), np.arange(1, 71)).astype("<u4")
    names, rows = page._data_rows(objects, {"object": numbers})
    most = [f"object {n:03}" for n in range(69, 6, -1)]
    assert len(most) == 63
    assert names == [*most, "other data"]
    assert np.bincount(rows).tolist() == [*range(70, 7, -1), sum(range(1, 8))]


def test_a_cell_counts_for_all_of_its_samples_where_objects_have_rows():
    columns = {"object": np.array([0, 1], "<u4"), "count": np.array([1, 2], "<u4")}
    assert page._data_rows(["a", "b"], columns)[0] == ["b", "a"]


def test_objects_without_samples_and_what_has_no_object_have_no_row():
    numbers = np.array([0, 1, 1, NOTHING, NOTHING, NOTHING], "<u4")
    names, rows = page._data_rows(["a", "b", "none"], {"object": numbers})
    assert names == ["b", "a"]
    assert rows.tolist() == [1, 0, 0, NOTHING, NOTHING, NOTHING]


def test_indexes_of_nothing_alone_take_a_byte():
    assert page._narrow(np.full(2, 0xFFFF_FFFF, "<u4")).tolist() == [255, 255]


def test_latencies_keep_sixteen_bits_and_a_number_for_none():
    long = load(counters=((0, 0xFFFF), (1, 1), (2, 0)))
    data = page_data(samples(long, other()), disassemble)
    assert column(data, "latency") == [0xFFFF, 0x1_0000]


@pytest.mark.parametrize(("most", "rows"), [(40, 40), (39, 2)])
def test_more_samples_than_a_page_holds_are_cells_with_counts(monkeypatch, most, rows):
    monkeypatch.setattr(page, "MOST_SAMPLES", most)
    data = page_data(samples(*[load(0x40000100, counters=((0, 7),)), other(0x40000144)] * 20), None)
    assert (data["total"], data["count"], len(column(data, "time"))) == (40, rows, rows)
    if rows == 2:
        assert sorted(zip(column(data, "count"), column(data, "cycles"), strict=True)) == [
            (20, 0.0),
            (20, 140.0),
        ]


@pytest.mark.sweep
def test_a_checker_of_accessibility_finds_nothing_serious(made):
    assert hard_to_use(made) == "none"
