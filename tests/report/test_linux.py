"""A recording of Linux's own perf, made in the guest: a shell, md5sum of busybox, and ``hot``.

``linux.data.xz`` is what ``perf record -e arm_spe_0/ts_enable=1,pa_enable=1,jitter=1/ -c 12000 --
sh -c 'hot 20 & md5sum file; wait'`` wrote under Debian's Linux 6.1; hot and busybox are both mapped
at 0x400000. The kernel's symbols are a few of its /proc/kallsyms.
"""

import lzma
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import spe_unicorn
from spe_unicorn.cli import main
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.output.arrays import Has
from spe_unicorn.report.samples import Samples
from spe_unicorn.report.spe_parser import spe_parser_tables
from spe_unicorn.report.views.annotation import annotate
from spe_unicorn.report.views.overview import View, grouped
from tests.support.perf_reader import perf

DATA = Path(__file__).parent / "data"
HOT = Path(__file__).parents[2] / "scripts/linux_guest/workload/hot"
FUNCTIONS = ("sum_first", "fill_second", "bump_third", "mix_registers", "count_down")
ROW = r"^ +[\d.]+% +(\d+) +(\S+) +(\S+) +\[.\] (\S+)"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("linux") / "linux.data"
    file.write_bytes(lzma.decompress((DATA / "linux.data.xz").read_bytes()))
    return file


@pytest.fixture(scope="module")
def found(path):
    return Samples(spe_unicorn.read(path, [str(HOT), str(DATA / "kallsyms")]))


def counts(samples, *keys):
    return {row[3:]: row[1] for row in grouped(samples, View(rows=10**6), keys).rows}


def test_processes_are_told_apart_by_their_maps(found):
    assert len(found) == 634
    assert counts(found, "process") == {("hot 88",): 447, ("md5sum 89",): 135, ("sh 86",): 52}
    by_object = counts(found, "comm", "file")
    assert sum(by_object.values()) == 634
    # one address in two files: no sample of md5sum is in hot
    assert {comm for comm, name in by_object if name == "hot"} == {"hot"}
    assert {comm for comm, name in by_object if name == "busybox"} == {"md5sum", "sh"}
    symbols = counts(found, "comm", "symbol")
    assert {comm for comm, symbol in symbols if symbol in FUNCTIONS} == {"hot"}


def test_report_agrees_with_perf_to_the_sample(path, found, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "hot").write_bytes(HOT.read_bytes())
    report = perf(
        *("report", "--stdio", "-n", "-i", str(path), "--itrace=i1i"),
        *("--sort", "comm,dso,symbol", "--symfs", str(tmp_path)),
        *("--kallsyms", str(DATA / "kallsyms")),
    ).stdout
    theirs = {
        (comm, name, symbol): int(count)
        for count, comm, name, symbol in re.findall(ROW, report, re.MULTILINE)
    }
    ours = counts(found, "comm", "file", "symbol")
    named = {key: count for key, count in ours.items() if key[2] != "[unknown]"}
    assert {key: theirs.get(key) for key in named} == named
    assert ("hot", "[kernel.kallsyms]", "pagemap_pte_hole") in named
    assert sum(theirs.values()) == len(found)


def test_annotate_agrees_with_perf_to_the_sample(path, found, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "hot").write_bytes(HOT.read_bytes())
    text = perf(
        *("annotate", "--stdio", "-n", "-i", str(path), "--itrace=i1i", "-s", "bump_third"),
        *("--symfs", str(tmp_path), "--objdump", "aarch64-linux-gnu-objdump"),
    ).stdout
    theirs = {
        address: int(count)
        for count, address in re.findall(r"^ +(\d+) : +([0-9a-f]+):", text, re.MULTILINE)
    }
    ours = {row[-3]: row[1] or 0 for row in annotate(found, "bump_third", disassemble).rows}
    assert sum(ours.values()) == 166
    assert ours == theirs


def test_of_a_kernel_function_the_instructions_with_samples_are_shown(found):
    table = annotate(found, "pagemap_pte_hole", disassemble)
    assert sum(row[1] for row in table.rows) == 28
    assert {row[-2] for row in table.rows} == {None}
    assert table.note == "kallsyms holds no instructions: those with samples are shown"


def test_exported_symbols_are_those_of_the_process(found):
    tables = spe_parser_tables(found.arrays, found.spaces)
    symbols = [name for table in tables.values() for name in table["symbol"].tolist()]
    assert sum(str(name).partition("+")[0] == "bump_third" for name in symbols) == 166
    frame = found.recording.arrays()
    assert frame["symbol"].count() == len([name for name in symbols if name])


def test_times_lie_between_the_acts_of_the_recording(found):
    file = found.recording.file
    ticks = found.arrays.timestamp[found.arrays.where(Has.TIMESTAMP)]
    times = file.clocks[-1].nanoseconds(ticks)
    first = min(act.time for act in file.acts if act.time)
    assert first < times.min()
    assert times.max() < max(piece.time for piece in file.handovers)
    assert file.clocks[-1].ticks(int(times[0])) == int(ticks[0])
    assert {piece.text for piece in file.handovers} == {"buffer read"}
    assert file.command.startswith("/bin/perf record -q -e arm_spe_0/")


def test_a_page_is_made_of_it(path, tmp_path):
    out = tmp_path / "page.html"
    words = ["report", str(path), "--symbols", str(HOT), "--html", str(out)]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.output) == (0, "")
    text = out.read_text()
    assert "/bin/perf record" in text
    assert '"processes": ["hot 88", "md5sum 89", "sh 86"]' in text
