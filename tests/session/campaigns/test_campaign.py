"""Campaigns from the command line: the same rows however they are run, and nothing is lost."""

import hashlib
import html
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import spe_unicorn
from spe_unicorn.cli import main
from spe_unicorn.cli.commands.campaign import Progress
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.campaigns.store import Store
from tests.support.running.processes import WALL_SECONDS, limit_cpu
from tests.support.small_programs import EXIT_7, LOOP, SLEEP, program, words

HELLO, HASH = shipped_firmware("hello"), shipped_firmware("bench_hash")
TOUCH = words(
    0xD2A82000,  #    mov x0, #0x41000000
    0xD2900001,  #    mov x1, #0x8000
    0xF900001F,  # 1: str xzr, [x0]
    0x91400400,  #    add x0, x0, #0x1000
    0xF1000421,  #    subs x1, x1, #1
    0x54FFFFA1,  #    b.ne 1b
    0x14000000,  #    b .
)
"""Makes 128 MiB of memory resident, and stays."""


@pytest.fixture
def folder(tmp_path):
    for name, code in (("exit", EXIT_7), ("loop", LOOP), ("sleep", SLEEP), ("touch", TOUCH)):
        Path(program(tmp_path, code)).rename(tmp_path / f"{name}.elf")
    for path in (HELLO, HASH):
        shutil.copy(path, tmp_path)
    return tmp_path


def write(folder, text):
    (folder / "plan.toml").write_text(text)
    return str(folder / "plan.toml")


def matrix(runs):
    """So many runs of two programs; each some milliseconds."""
    return (
        "[limits]\nmax_insns = 20_000\n[[runs]]\n"
        'firmware = ["bench_hash.elf", "hello.elf"]\ninterval = [50, 500]\n'
        f'seed = "0-{runs // 4 - 1}"\n'
    )


def command(*words):
    return CliRunner().invoke(main, ["campaign", *map(str, words)])


def table(out):
    return pq.read_table(out / "runs.parquet")


def exact(out):
    """The rows, without what is their host's."""
    found = table(out)
    return found.drop_columns([n for n in found.column_names if n.startswith("host")]).to_pylist()


def records(out):
    """All records, in an order of their own."""
    found = ds.dataset(out / "records", partitioning="hive").to_table()
    return found.sort_by([("key", "ascending"), ("cpu", "ascending"), ("offset", "ascending")])


def test_a_row_is_what_a_run_came_to(folder):
    plan = write(folder, "[[runs]]\nfirmware = 'hello.elf'\ninterval = 50\nseed = [1, 2]\n")
    out = folder / "out"
    result = command(plan, "-o", out, "-j", 1)
    assert result.exit_code == 0, result.output
    rows = table(out).to_pylist()
    assert [(row["seed"], row["ending"], row["exit_status"]) for row in rows] == [
        (1, "exit", 0),
        (2, "exit", 0),
    ]
    for row in rows:
        with spe_unicorn.Machine(
            folder / "hello.elf", seed=row["seed"], sampling=spe_unicorn.Sampling(50)
        ) as machine:
            outcome = machine.run()
            pcs = [record.pc.VA for record in machine.records]
        assert row["operations"] == outcome.operations
        assert row["records"] == outcome.statistics.written == len(pcs)
        found = records(out).filter(ds.field("key") == row["key"])
        assert found["pc"].to_pylist() == pcs
        assert set(found["symbol"].to_pylist()) - {None}
        console = (out / "runs" / row["key"] / "console.txt").read_text()
        assert console == machine.console.text.replace("\r\n", "\n")
        assert row["host_resident"] > 1 << 24


def test_events_are_counted_and_sampled_by(folder):
    """``touch`` makes its loop of a store, two others and a branch 4999 times, and half of it."""
    plan = write(
        folder,
        "[limits]\nmax_insns = 20_000\n"
        "[[runs]]\nfirmware = 'touch.elf'\ninterval = 1000\nevent = 'ST_RETIRED'\n"
        'count = [["st_retired", "instructions:u", "r11"], ["branches:k"], []]\n'
        "[[runs]]\nfirmware = 'exit.elf'\ncount = ['st_retired', 'r11']\n",
    )
    out = folder / "out"
    result = command(plan, "-o", out, "-j", 1, "--fail-on", "error")  # exit.elf ends with 7
    assert result.exit_code == 0, result.output
    found = table(out).to_pylist()
    names = ("count.st_retired", "count.instructions:u", "count.r11", "count.branches:k")
    assert [tuple(row[name] for name in names) for row in found] == [
        (5000, 0, 20_000, None),
        (None, None, None, 4999),
        (None, None, None, None),
        (0, None, 3, None),
    ]
    assert [row["event"] for row in found] == ["ST_RETIRED"] * 3 + [None]
    assert [row["records"] for row in found] == [5, 5, 5, 0]
    (store,) = set(records(out)["pc"].to_pylist())
    assert store & 0xFFF == 8


def test_what_a_run_writes_is_its_own_and_goes_with_it(folder):
    shutil.copy(shipped_firmware("virtio_blk"), folder)
    letters = b"".join(bytes((ord("a") + n % 16,)) * 512 for n in range(128))
    (folder / "disk").write_bytes(letters)
    (folder / "shared").mkdir()
    (folder / "shared" / "in").write_text("from the host")
    plan = write(
        folder,
        '[[runs]]\nfirmware = "virtio_blk.elf"\ndrive = ["disk,write"]\nentropy = true\n'
        'flash = true\nsemihosting_dir = "shared"\nshare = ["shared,readonly", "."]\n'
        "seed = [1, 2]\n",
    )
    result = command(plan, "-o", folder / "out", "-j", 1)
    assert result.exit_code == 0, result.output
    rows = pq.read_table(folder / "out/runs.parquet").to_pylist()
    assert [(row["exit_status"], row["drive"]) for row in rows] == [(0, "disk,write")] * 2
    shared = {(row["semihosting_dir"], row["share"]) for row in rows}
    assert shared == {("shared", f"shared,readonly {folder.name}")}
    assert (folder / "disk").read_bytes() == letters
    kept = {path.name for path in (folder / "out/runs").glob("*/*")}
    assert kept == {"row.json", "console.txt", "errors.txt"}
    assert not list((folder / "out").glob(".run-*"))


def test_what_is_typed_at_a_virtio_console_and_printed_there_is_the_run_s(folder):
    shutil.copy(shipped_firmware("virtio_console"), folder)
    runs = '[[runs]]\nfirmware = "virtio_console.elf"\nvirtio_console = true\ninput = "Ada\\n"\n'
    result = command(write(folder, runs), "-o", folder / "out", "-j", 1)
    assert result.exit_code == 0, result.output
    (row,) = pq.read_table(folder / "out/runs.parquet").to_pylist()
    assert (row["exit_status"], row["virtio_console"]) == (0, True)
    console = (folder / "out/runs" / row["key"] / "console.txt").read_text()
    assert "your name? ok 11 - a prompt is\n" in console
    assert console.endswith("hello, Ada\n1..18\n")


@pytest.mark.sweep
def test_rows_are_the_same_on_one_process_and_on_four(folder):
    plan = write(folder, matrix(8))
    for out, processes in (("one", 1), ("four", 4)):
        result = command(plan, "-o", folder / out, "-j", processes)
        assert result.exit_code == 0, result.output
    assert len(exact(folder / "one")) == 8
    assert exact(folder / "one") == exact(folder / "four")
    assert records(folder / "one").equals(records(folder / "four"))


FAILURES = """
[limits]
memory = "170M"
[[runs]]
firmware = ["exit.elf", "sleep.elf", "plan.toml"]
[[runs]]
firmware = "touch.elf"
ram = "512M"
"""


def test_failures_are_kept_with_their_reports(folder):
    out = folder / "out"
    result = command(write(folder, FAILURES), "-o", out)
    assert result.exit_code == 1
    rows = table(out).to_pylist()
    assert [(row["ending"], row["exit_status"]) for row in rows] == [
        ("exit", 7),
        ("asleep", None),
        ("refused", None),
        ("memory", None),
    ]
    for row in rows[1:]:
        report = (out / "runs" / row["key"] / "report.txt").read_text()
        assert report.startswith(row["cause"])
        assert row["ending"] in result.output
    assert rows[2]["cause"].startswith("plan.toml: is not an ELF file")
    assert "bytes of memory were resident" in rows[3]["cause"]
    page = (out / "summary.html").read_text()
    assert "plan.toml: is not an ELF file" in page
    assert "<script" not in page
    # they are kept, unless they are to be tried again
    seconds = [row["host_seconds"] for row in rows]
    assert "nothing was run" in command(folder / "plan.toml", "-o", out).output
    assert [row["host_seconds"] for row in table(out).to_pylist()] == seconds
    assert "3 runs in" in command(folder / "plan.toml", "-o", out, "--retry").output


def test_a_run_that_takes_too_long_is_a_failure_with_its_report(folder):
    limits = "[limits]\ntimeout = 2\nmax_insns = 100_000_000_000\n"
    out = folder / "out"
    result = command(write(folder, f"{limits}[[runs]]\nfirmware = 'loop.elf'\n"), "-o", out)
    assert result.exit_code == 1
    (row,) = table(out).to_pylist()
    assert (row["ending"], row["exit_status"]) == ("timeout", None)
    assert (out / "runs" / row["key"] / "report.txt").read_text().startswith(row["cause"])


def shell(line, folder):
    """What a line comes to that was copied from the summary of a campaign in ``folder``."""
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


def commands_in(output):
    """The commands of a summary, by the keys of their runs."""
    return dict(re.findall(r"^# ([0-9a-f]{32})\n(.*)$", output, re.MULTILINE))


NAMED = """
[limits]
max_insns = 1000
[[runs]]
firmware = ["hello.elf", "exit.elf", "sleep.elf", "loop.elf"]
core = ["generic", "max"]
seed = 5
interval = 1
input = "50% \\\\ 'x'\\n"
"""


def test_failures_are_named_with_the_commands_that_repeat_them(folder, monkeypatch):
    monkeypatch.chdir(folder)
    write(folder, NAMED)
    result = command("plan.toml", "-o", "out", "-j", 2)
    assert result.exit_code == 1
    rows = {row["key"]: row for row in table(folder / "out").to_pylist()}
    bad = [key for key, row in rows.items() if row["firmware"] in ("exit.elf", "sleep.elf")]
    assert "\n4 failures\n" in result.output
    commands = commands_in(result.output)
    assert list(commands) == bad
    listed = result.output.partition("4 failures")[2].partition("To see failures again")[0]
    for key in bad:
        (line,) = [line for line in listed.splitlines() if key in line]
        row = rows[key]
        place = f" 0x{row['pc']:x} "
        ended = "exit 7" if row["ending"] == "exit" else "asleep"
        for said in (ended, row["firmware"], row["core"], " 5 ", place):
            assert said in line
        again = shell(commands[key], folder)
        assert again.returncode == (7 if row["ending"] == "exit" else 125), again.stderr
        assert f"{row['operations']} operations" in again.stderr
        digest = hashlib.sha256((folder / "records.spe").read_bytes()).hexdigest()
        assert digest == row["records_sha256"]
    page = html.unescape((folder / "out/summary.html").read_text())
    assert all(f"<td>{commands[key]}</td>" in page for key in bad)


def test_junit_has_a_case_for_each_run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    write(folder, f"[campaign]\nname = 'a <b>'\n{NAMED}")
    output = command("plan.toml", "-o", "out", "-j", 2).output
    suite = ElementTree.parse(folder / "out/junit.xml").getroot()
    assert (suite.tag, dict(suite.attrib)) == (
        "testsuite",
        {"name": "a <b>", "tests": "8", "failures": "2", "errors": "2"},
    )
    cases = {case.get("name"): case for case in suite}
    assert len(cases) == 8
    assert {case.get("classname") for case in suite} == {"a <b>"}
    assert [child.tag for child in cases["hello.elf seed=5 core=max"]] == []
    assert [child.tag for child in cases["loop.elf seed=5 core=generic"]] == []  # max_insns is fine
    commands = commands_in(output)
    for name, tag, message in (
        ("exit.elf seed=5 core=max", "failure", "ended by exit 7 at 0x"),
        ("sleep.elf seed=5 core=generic", "error", "ended by asleep at 0x"),
    ):
        bad, _ = cases[name]
        assert (bad.tag, bad.get("message").startswith(message)) == (tag, True)
        key, line = re.fullmatch(r"key: (.*)\nto see it again: (.*)\n", bad.text).groups()
        assert commands[key] == line


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("programs", "options", "status"),
    [
        ('["exit.elf"]', [], 1),
        ('["exit.elf"]', ["--fail-on", "failure"], 1),
        ('["exit.elf", "loop.elf"]', ["--fail-on", "error"], 0),
        ('["sleep.elf"]', ["--fail-on", "error"], 1),
        ('["sleep.elf", "exit.elf"]', ["--fail-on", "never"], 0),
        ('["hello.elf", "loop.elf"]', [], 0),
    ],
)
def test_what_makes_a_campaign_fail(folder, programs, options, status):
    plan = write(folder, f"[limits]\nmax_insns = 1000\n[[runs]]\nfirmware = {programs}\n")
    assert command(plan, "-o", folder / "out", *options).exit_code == status
    # what is finished counts as what is new does
    again = command(plan, "-o", folder / "out", "-q", *options)
    assert (again.exit_code, again.output) == (status, "")


def test_a_failing_run_that_changes_files_is_repeated_with_copies(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "disk").write_bytes(bytes(512))
    (folder / "shared").mkdir()
    (folder / "shared" / "a file").write_text("from the host")
    (folder / "shared" / "tool").write_text("#!/bin/sh")
    (folder / "shared" / "tool").chmod(0o755)
    write(
        folder,
        "[[runs]]\nfirmware = 'exit.elf'\ndrive = ['disk,write']\n"
        "share = ['shared,readonly']\nsemihosting_dir = 'shared'\n",
    )
    ((key, line),) = commands_in(command("plan.toml", "-o", "out").output).items()
    for _ in range(2):
        again = shell(line, folder)
        assert again.returncode == 7, again.stderr
        copies = folder / "again" / key
        (copies / "drive.0/disk").write_bytes(b"changed")  # and the next one begins anew
    assert again.returncode == 7
    below = {path.relative_to(copies) for path in copies.rglob("*") if path.is_file()}
    assert {str(path) for path in below} == {
        *("drive.0/disk", "share.0/a file", "share.0/tool"),
        *("semihosting_dir/a file", "semihosting_dir/tool"),
    }
    assert (copies / "share.0/tool").stat().st_mode & 0o777 == 0o755
    assert (copies / "share.0/a file").stat().st_mtime == 0
    assert (folder / "disk").read_bytes() == bytes(512)
    kept = next((folder / "out/files").glob("*/disk"))
    assert kept.read_bytes() == bytes(512)


@pytest.mark.sweep
def test_a_longer_plan_runs_what_is_new(folder):
    plan = write(folder, matrix(4))
    command(plan, "-o", folder / "out", "-j", 2)
    before = exact(folder / "out")
    result = command(write(folder, matrix(8)), "-o", folder / "out", "-j", 2)
    assert "4 runs in" in result.output
    assert all(row in exact(folder / "out") for row in before)
    command(plan, "-o", folder / "fresh", "-j", 2)
    assert exact(folder / "fresh") == exact(folder / "out")


def running(words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "spe_unicorn", "campaign", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
        preexec_fn=limit_cpu,
    )


def finished(out):
    return len(list((out / "runs").glob("*/row.json"))) if out.exists() else 0


def wait_for(condition):
    deadline = time.monotonic() + WALL_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_loses_nothing_and_the_same_command_goes_on(folder):
    plan, out = write(folder, matrix(20)), folder / "out"
    process = running((plan, "-o", out, "-j", 2))
    wait_for(lambda: finished(out) >= 3)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=WALL_SECONDS)
    assert process.returncode == 130, output
    assert "the same command goes on" in errors, output
    done = finished(out)
    assert 3 <= done < 20
    assert len(table(out)) == done
    result = command(plan, "-o", out)
    assert f"{20 - done} runs in" in result.output
    command(plan, "-o", folder / "whole")
    assert exact(out) == exact(folder / "whole")


def children(process):
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(number) for number in path.read_text().split()]


def test_killed_processes_lose_nothing(folder):
    plan, out = write(folder, matrix(12)), folder / "out"
    process = running((plan, "-o", out, "-j", 1))
    wait_for(lambda: finished(out) >= 2)
    for server in children(process.pid):
        os.kill(server, signal.SIGKILL)  # what runs the runs
    wait_for(lambda: finished(out) >= 5)
    process.kill()  # and the command itself
    process.communicate()
    crashed = [row for row in map(json.loads, rows_of(out)) if row["ending"] == "crashed"]
    assert len(crashed) <= 1
    result = command(plan, "-o", out, "--retry")
    assert result.exit_code == 0, result.output
    command(plan, "-o", folder / "whole")
    assert exact(out) == exact(folder / "whole")
    assert not list(out.glob(".run-*"))


def rows_of(out):
    return [path.read_text() for path in (out / "runs").glob("*/row.json")]


def test_one_campaign_writes_into_a_folder(folder):
    plan, out = write(folder, matrix(40)), folder / "out"
    process = running((plan, "-o", out, "-j", 1))
    wait_for(lambda: finished(out) >= 1)
    result = command(plan, "-o", out)
    process.send_signal(signal.SIGHUP)  # its terminal is closed
    _, errors = process.communicate(timeout=WALL_SECONDS)
    assert (process.returncode, "the same command goes on" in errors) == (129, True)
    assert result.exit_code == 2
    assert "another campaign writes here" in result.output


@pytest.mark.parametrize(
    ("before", "new", "finished", "said"),
    [
        (0, 0, 0, "9 of 9 runs are still to be done"),
        (2, 0, 3, "6 of 9 runs are still to be done"),  # one ended while it was stopped
        (9, 0, 9, "nothing was run: all runs were finished"),
        (0, 1, 1, "1 run in "),
        (0, 2, 2, "2 runs in "),
    ],
)
def test_the_last_line_says_what_came_of_it(
    before: int, new: int, finished: int, said: str
) -> None:
    progress = Progress(before, 9, quiet=True)
    for _ in range(new):
        progress.add({"ending": "exit", "exit_status": 0})
    assert progress.rate(finished).startswith(said)


def test_a_dry_run_writes_nothing(folder):
    result = command(write(folder, matrix(8)), "-o", folder / "out", "--dry-run")
    assert (result.exit_code, result.output) == (0, "plan: 8 runs\n")
    assert not (folder / "out").exists()


def test_a_dry_run_needs_no_folder_and_a_run_names_it(folder):
    plan = write(folder, matrix(8))
    assert command(plan, "--dry-run").output == "plan: 8 runs\n"
    refused = command(plan)
    assert refused.exit_code == 2
    assert "name a folder for what comes of it: -o DIR" in refused.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing.toml", "-o", "x"), "nothing.toml: No such file"),
        (("plan.toml", "-o", "plan.toml"), "Not a directory"),
        (("plan.toml", "-o", "x", "-j", "2", "--scheduler", "tcp://a:1"), "-j is for this machine"),
        (("plan.toml", "-o", "x", "--scheduler", "nonsense"), "missing port"),
    ],
)
def test_what_cannot_be_is_one_line(folder, monkeypatch, words, said):
    write(folder, matrix(4))
    monkeypatch.chdir(folder)
    result = command(*words)
    assert result.exit_code == 2
    assert said in result.output
    assert result.output.count("\n") == 1


def after(monkeypatch, name, then):
    """Call ``then`` each time that a function, named with its module, has returned."""
    module, _, function = name.rpartition(".")
    whole = f"spe_unicorn.session.campaigns.{module}"
    real = getattr(import_module(whole), function)

    def wrapped(*arguments):
        result = real(*arguments)
        then()
        return result

    monkeypatch.setattr(f"{whole}.{function}", wrapped)


def test_a_program_that_changes_before_it_is_kept_is_one_line(folder, monkeypatch):
    shutil.copy(folder / "exit.elf", folder / "twin.elf")
    after(monkeypatch, "jobs.jobs_of", lambda: (folder / "exit.elf").write_bytes(b"new"))
    plan = write(folder, '[[runs]]\nfirmware = ["exit.elf", "twin.elf"]\n')
    result = command(plan, "-o", folder / "out")
    assert result.exit_code == 2
    said = f"{folder / 'exit.elf'} has changed since the plan was read"
    assert said in result.output
    assert result.output.count("\n") == 1


@pytest.fixture
def rewritten(folder, monkeypatch):
    """Have another program take the place of hello.elf as soon as a campaign has kept its files."""
    keep_files = Store.keep_files

    def then_rewrite(store, jobs):
        keep_files(store, jobs)
        shutil.copy(folder / "exit.elf", folder / "hello.elf")

    def run(out, *words):
        plan = write(folder, '[[runs]]\nfirmware = "hello.elf"\ninterval = 50\n')
        shutil.copy(HELLO, folder)
        assert command(plan, "-o", folder / "before", "-j", 1).exit_code == 0
        monkeypatch.setattr(Store, "keep_files", then_rewrite)
        result = command(plan, "-o", out, *words)
        assert result.exit_code == 0, result.output
        assert (folder / "hello.elf").read_bytes() == (folder / "exit.elf").read_bytes()
        assert exact(out) == exact(folder / "before")
        assert records(out).equals(records(folder / "before"))
        assert set(records(out)["symbol"].to_pylist()) - {None}

    return run


def test_a_program_may_change_after_it_is_kept(folder, rewritten):
    rewritten(folder / "out", "-j", 1)


@pytest.mark.sweep
def test_a_program_may_change_after_it_is_kept_on_dask(folder, rewritten, cluster):
    rewritten(folder / "out", "--scheduler", cluster[0])


@pytest.mark.sweep
def test_a_kept_file_that_was_cut_short_is_written_anew(folder):
    plan, out = write(folder, '[[runs]]\nfirmware = "hello.elf"\n'), folder / "out"
    assert command(plan, "-o", out, "-j", 1).exit_code == 0
    (kept,) = (out / "files").glob("*/hello.elf")
    kept.write_bytes(HELLO.read_bytes()[:1000])
    before = exact(out)
    shutil.rmtree(out / "runs")
    assert command(plan, "-o", out, "-j", 1).exit_code == 0
    assert kept.read_bytes() == HELLO.read_bytes()
    assert exact(out) == before
    assert [path.name for path in kept.parent.iterdir()] == ["hello.elf"]


def test_an_error_that_no_other_worker_would_avoid_ends_a_campaign_on_dask(
    folder, cluster, monkeypatch
):
    keep_files = Store.keep_files

    def then_damage(store, jobs):
        keep_files(store, jobs)
        (kept,) = store.files.glob("*/hello.elf")
        kept.write_bytes(b"damaged")

    monkeypatch.setattr(Store, "keep_files", then_damage)
    plan = write(folder, '[[runs]]\nfirmware = "hello.elf"\n')
    result = command(plan, "-o", folder / "out", "--scheduler", cluster[0])
    assert result.exit_code == 2
    said = "a run failed on its worker: FileError: hello.elf has changed since the plan was read"
    assert said in result.output


def test_a_folder_that_cannot_be_taken_any_more_is_one_line(folder, monkeypatch):
    (folder / "shared").mkdir()
    after(monkeypatch, "plan.read_plan", lambda: os.mkfifo(folder / "shared" / "pipe"))
    plan = write(folder, '[[runs]]\nfirmware = "exit.elf"\nsemihosting_dir = "shared"\n')
    result = command(plan, "-o", folder / "out")
    assert result.exit_code == 2
    assert f"{folder / 'shared' / 'pipe'} is no regular file" in result.output
    assert result.output.count("\n") == 1


def test_without_pyarrow_there_is_a_sentence(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = command(write(folder, matrix(4)), "-o", folder / "out")
    assert result.exit_code == 2
    assert "pip install 'spe-unicorn[parquet]'" in result.output


@pytest.fixture
def cluster(tmp_path):
    """A scheduler and two workers, each started from the command line."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    started = []

    def start(*words):
        with (tmp_path / f"dask-{len(started)}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words, "--no-dashboard"],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(process)
        return process

    start("scheduler", "--host", "127.0.0.1", "--port", str(port))
    workers = [
        start(
            "worker", address, "--nthreads", "1", "--no-nanny", "--local-directory", str(tmp_path)
        )
        for _ in range(2)
    ]
    yield address, workers
    for process in reversed(started):
        process.kill()
        process.wait()


def on_dask_with_a_worker_killed(folder, cluster, runs):
    address, workers = cluster
    plan, out = write(folder, matrix(runs)), folder / "dask"
    process = running((plan, "-o", out, "--scheduler", address))
    wait_for(lambda: finished(out) >= runs // 6)
    workers[0].kill()
    output, errors = process.communicate(timeout=2 * WALL_SECONDS)
    assert process.returncode == 0, errors
    return out, output


@pytest.mark.sweep
def test_dask_gives_the_same_rows_though_a_worker_is_killed(folder, cluster):
    out, output = on_dask_with_a_worker_killed(folder, cluster, 12)
    command(folder / "plan.toml", "-o", folder / "here")
    assert exact(out) == exact(folder / "here")
    assert records(out).equals(records(folder / "here"))
    moved = sum((folder / name).stat().st_size for name in ("bench_hash.elf", "hello.elf"))
    assert int(output.split(" bytes went to workers")[0].split()[-1]) <= 4 * moved  # twice at most


@pytest.mark.sweep
def test_torture_runs_its_trials_on_a_cluster(cluster):
    arguments = ("torture", "--core", "max", "--runs", "4", "--scheduler", cluster[0])
    done = CliRunner().invoke(main, [*arguments, str(shipped_firmware("hello"))])
    assert done.exit_code == 0, done.output
    assert "4 trials, 0 findings" in done.output


@pytest.mark.slow
def test_two_hundred_runs_give_the_same_rows_everywhere(folder, cluster):
    out, _ = on_dask_with_a_worker_killed(folder, cluster, 200)
    for name, processes in (("one", 1), ("four", 4)):
        assert command(folder / "plan.toml", "-o", folder / name, "-j", processes).exit_code == 0
    assert len(exact(out)) == 200
    assert exact(folder / "one") == exact(folder / "four") == exact(out)
    assert records(folder / "one").equals(records(out))
    assert np.array_equal(
        records(folder / "one")["pc"].to_numpy(), records(folder / "four")["pc"].to_numpy()
    )
