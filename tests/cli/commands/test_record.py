from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.spe.record import PlacedRecord, decode_stream
from tests.support import a64
from tests.support.perf_reader import DEFAULT_PERIOD, clean, perf
from tests.support.running.processes import WALL_SECONDS, limit_cpu
from tests.support.small_programs import LOOP, program


def objects(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_nth_operation_is_sampled(run_json: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "out.spe"
    said = run_json(
        *("record", "-c", "7", "--max-insns", "700", "-o", str(file), program(tmp_path, LOOP)),
        status=124,
    )
    assert (said["operations"], said["population"]) == (700, 700)
    assert (said["selected"], said["written"]) == (100, 100)
    assert len(list(decode_stream(file.read_bytes()))) == 100


def test_the_guest_does_the_same_with_and_without_sampling(
    command: Callable[..., Any],
    run_json: Callable[..., Any],
    tmp_path: Path,
    firmware: Callable[..., Any],
) -> None:
    name = firmware("bench_sort")
    plain = run_json("run", name)
    options = ("-c", "1000", "--no-jitter", "-o", str(tmp_path / "out.spe"))
    sampled = run_json("record", *options, name)
    for key in ("exit_status", "operations", "pc"):
        assert sampled[key] == plain[key]
    assert plain["population"] == 0
    assert sampled["written"] == sampled["operations"] // 1000


def test_a_loop_that_the_period_divides_is_seen_at_all_its_places(
    run_json: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "out.jsonl"
    loop = a64.code([*[a64.NOP] * 9, a64.b(-36)])
    options = ("-c", "100", "--max-insns", "100000", "-o", str(file), program(tmp_path, loop))
    said = run_json("record", "--no-jitter", *options, status=124)
    assert said["written"] == 1000
    assert len({record["pc"] for record in objects(file)}) == 1
    said = run_json("record", *options, status=124)
    assert 980 < said["written"] < 1020
    places = Counter(record["pc"] for record in objects(file))
    assert len(places) == 10
    assert 60 < min(places.values()) <= max(places.values()) < 140


def test_the_seed_says_where_samples_are_taken(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    files = {}
    for name, seed in (("one", "1"), ("again", "1"), ("other", "2")):
        files[name] = tmp_path / f"{name}.spe"
        options = ("-c", "1000", "--seed", seed, "-o", str(files[name]))
        command("record", *options, firmware("bench_hash"))
    data = {name: file.read_bytes() for name, file in files.items()}
    assert data["one"] == data["again"] != data["other"]


def test_loads_have_a_data_source_with_the_cache_model_only(
    run_json: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    # None is what loads from the console have
    for model, sources in (("none", {None}), ("cache", {"L1D", "DRAM", None})):
        file = tmp_path / f"{model}.jsonl"
        options = ("-c", "3", "--filter", "load", "--model", model, "-o", str(file))
        run_json("record", *options, firmware("hello"))
        assert {record.get("data_source_name") for record in objects(file)} == sources


@pytest.mark.parametrize(
    ("el", "register", "key"),
    [("1", (3, 0, 13, 0, 1), "context_el1"), ("2", (3, 4, 13, 0, 1), "context_el2")],
)
def test_contexts_are_what_the_guest_wrote_and_nothing_before_it_did(
    run_json: Callable[..., Any],
    tmp_path: Path,
    el: str,
    register: tuple[int, int, int, int, int],
    key: str,
) -> None:
    file = tmp_path / "out.jsonl"
    code = a64.code([a64.NOP, a64.movz(0, 77), a64.msr(register, 0), a64.ISB, a64.b(0)])
    options = ("-c", "1", "--el", el, "--max-insns", "8", "-o", str(file))
    run_json("record", *options, program(tmp_path, code), status=124)
    contexts = [{k: v for k, v in one.items() if "context" in k} for one in objects(file)]
    assert contexts == [{}] * 3 + [{key: 77}] * 5


def test_the_guest_sees_no_spe(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    result = command("record", "-c", "1000", "-o", str(tmp_path / "out.spe"), firmware("spe_copy"))
    assert "# SKIP" in result.stdout


@pytest.mark.parametrize(
    ("kinds", "seen"),
    [
        ("load", {"load"}),
        ("store", {"store"}),
        ("branch", {"branch"}),
        ("load,branch", {"load", "branch"}),
    ],
)
def test_a_filter_keeps_these_operations_only(
    run_json: Callable[..., Any],
    tmp_path: Path,
    firmware: Callable[..., Any],
    kinds: str,
    seen: set[str],
) -> None:
    file = tmp_path / "out.jsonl"
    said = run_json(
        "record", "-c", "5003", "--filter", kinds, "-o", str(file), firmware("bench_sort")
    )
    assert {record["op"].split()[0] for record in objects(file)} == seen
    assert said["filtered"] > 0
    assert said["written"] == said["selected"] - said["filtered"]


def test_a_least_latency_drops_what_is_faster(
    run_json: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = tmp_path / "out.jsonl"
    name = firmware("bench_sort")
    every = run_json("record", "-c", "5003", "-o", str(file), name)
    latencies = [record["counters"]["total"] for record in objects(file)]
    assert len(set(latencies)) > 1
    limit = max(latencies)
    kept = run_json("record", "-c", "5003", "--min-latency", str(limit), "-o", str(file), name)
    assert kept["written"] == sum(latency >= limit for latency in latencies)
    assert kept["filtered"] == every["written"] - kept["written"]


@pytest.mark.parametrize("name", ["hello", "hello_pie", "hello_lma"])
def test_records_of_two_runs_are_the_same(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any], name: str
) -> None:
    first, second = tmp_path / "1.spe", tmp_path / "2.spe"
    for file in (first, second):
        command("record", "-c", "3", "-o", str(file), firmware(name))
    assert first.read_bytes() == second.read_bytes()
    placed = list(decode_stream(first.read_bytes()))
    assert placed
    assert all(isinstance(one, PlacedRecord) for one in placed)


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_perf_prints_as_many_records_as_the_summary_says(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = tmp_path / "out.data"
    result = command("record", "-c", "1000", "-o", str(file), firmware("bench_list"))
    written = int(re.search(r"(\d+) written", result.stderr)[1])
    perf = subprocess.run(
        ["perf", "report", "-D", "-i", str(file)],
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert written > 100
    assert len(re.findall(r"\bPC 0x", perf.stdout)) == written
    assert "bad packet" not in perf.stdout.lower()


@pytest.mark.sweep(first=True)
@pytest.mark.skipif(
    shutil.which("aarch64-linux-gnu-objdump") is None, reason="perf annotate needs it"
)
@pytest.mark.parametrize(
    ("name", "where", "line"),
    [
        ("bench_alu8", "alu8", "alu8.c"),
        ("bench_fp", "fp8", "fp.c"),
        ("bench_sort", "quicksort", "sort.c"),
        ("bench_list", "merge", "list.c"),
        ("hello", "print", "console.c"),
    ],
)
def test_perf_answers_without_flags(
    command: Callable[..., Any],
    tmp_path: Path,
    firmware: Callable[..., Any],
    name: str,
    where: str,
    line: str,
) -> None:
    """report, annotate, script -F +srcline and mem report: each shows where the time goes."""
    file = tmp_path / "out.data"
    period = "7" if name == "hello" else "1000"
    options = ("record", "-q", "-c", period, "--model", "cache", "-o", str(file))
    command(*options, firmware(name))

    def said(*arguments: str) -> str:
        return clean(perf(*arguments, "-i", file), DEFAULT_PERIOD)

    report = said("report", "--stdio")
    assert re.findall("of event '(.*)'", report)[0] == "operations"
    top = re.search(r"^ +[\d.]+% +([\d.]+)% .* (\S+) *$", report, re.MULTILINE)
    assert top[2] == where
    annotated = said("annotate", "--stdio", "-s", top[2])
    shares = re.findall(r"^ +(\d+\.\d+) +: +[0-9a-f]+: +\S", annotated, re.MULTILINE)
    assert 99 < sum(map(float, shares)) < 101
    lines = re.findall(r"operations: .*\n +(\S+):\d", said("script", "-F", "+srcline"))
    assert lines.count(line) > 0.2 * len(lines)
    _, operations, *_ = said("mem", "report", "--stdio", "--sort=mem").split("# Samples: ")
    levels = re.findall(r"^ +[\d.]+% +\d+  (\S.*\S) *$", operations, re.MULTILINE)
    assert "N/A" in levels
    assert "L1 hit" in levels or name in ("bench_alu8", "bench_fp")  # they access no memory


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
@pytest.mark.parametrize("name", ["bench_list", "hello_pie"])
def test_perf_shows_samples_with_the_symbols_of_the_firmware(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any], name: str
) -> None:
    file = tmp_path / "out.data"
    command("record", "-c", "3" if name == "hello_pie" else "1000", "-o", str(file), firmware(name))
    perf = subprocess.run(
        ["perf", "script", "-F", "ip,sym", "-i", str(file)],
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    lines = perf.stdout.splitlines()
    assert lines
    assert not [line for line in lines if "[unknown]" in line]


def test_events_of_each_pe_are_sampled_and_perf_names_them(
    run_json: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = tmp_path / "out.data"
    options = ("-e", "exc_taken:k", "-c", "1", "--smp", "2", "-o", str(file))
    said = run_json("record", *options, firmware("ipi_pingpong"))
    assert said["written"] == said["population"] > 0
    assert "exc_taken:k" in clean(perf("evlist", "-i", str(file))).split()


def test_calls_are_told_alike_by_perf_and_by_report(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = tmp_path / "calls.data"
    command("record", "-g", "-c", "1000", "-o", str(file), firmware("bench_sort"))
    # functions with what they call: those that make up a tenth at least, in percent
    said = command("report", "--children", "--percent-limit", "10", str(file)).stdout
    rows = [line.split() for line in said.splitlines() if "%" in line]
    ours = {name: float(share[:-1]) for share, _, name in rows}
    perfs = {}
    dump = clean(
        perf("report", "--children", "--no-inline", "--stdio", "-g", "none", "-i", str(file)),
        DEFAULT_PERIOD,
    )
    of_operations = dump.split("# Samples:")[1]  # the events that perf makes come after it
    for words in map(str.split, of_operations.splitlines()):
        if words and words[0].endswith("%") and float(words[0][:-1]) >= 10:
            perfs[words[-1]] = float(words[0][:-1])
    assert {"main", "bench_work", "quicksort"} <= perfs.keys()
    for name in ("main", "bench_work", "quicksort"):
        assert ours[name] == perfs[name], name


def test_json_lines_have_the_calls_and_give_them_back(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    told = {}
    for name in ("calls.jsonl", "calls.data"):
        options = ("-g", "-c", "5000", "--max-insns", "400000", "-o", str(tmp_path / name))
        command("record", *options, firmware("bench_sort"), status=124)
        lines = command("decode", "--format", "json", str(tmp_path / name)).stdout.splitlines()
        told[name] = [json.loads(line)["calls"] for line in lines]
    assert told["calls.jsonl"] == told["calls.data"]
    assert told["calls.jsonl"] == [one["calls"] for one in objects(tmp_path / "calls.jsonl")]
    assert max(map(len, told["calls.data"])) >= 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-g", "-o", "out.spe"), "a raw stream has no place for --call-graph"),
        (("--call-graph", "lbr", "-o", "out.data"), "Invalid value for '--call-graph'"),
    ],
)
def test_calls_that_cannot_be_written_are_refused(
    command: Callable[..., Any],
    tmp_path: Path,
    firmware: Callable[..., Any],
    options: tuple[str, ...],
    said: str,
) -> None:
    words = [str(tmp_path / word) if word.startswith("out") else word for word in options]
    assert said in command("record", "-c", "9", *words, firmware("hello"), status=2).stderr


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("brnches", "-e: 'brnches' is no event; near it are branches"),
        ("sample_feed", "-e: sample_feed cannot be sampled: there is no SPE beside sampling"),
        ("cache-misses", "-e: cache-misses cannot be sampled: --model cache alone generates it"),
    ],
)
def test_an_event_that_cannot_be_sampled_is_refused(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any], event: str, said: str
) -> None:
    options = ("-e", event, "-c", "9", "-o", str(tmp_path / "out.spe"))
    result = command("record", *options, firmware("hello"), status=2)
    assert said in " ".join(result.stderr.split())


def test_a_recording_without_events_says_how_many_there_were(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    options = ("-e", "exc_fiq", "-c", "9", "-o", str(tmp_path / "out.spe"))
    result = command("record", *options, firmware("hello"))
    assert "no samples: the guest made 0 of exc_fiq, fewer than -c 9" in result.stderr
