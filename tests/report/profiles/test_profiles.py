"""Profiles for other programs: worked out by hand, and opened by these where they are there."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.reader import RecordFile
from spe_unicorn.report.profiles.branches import Branch, bolt, llvm_sample, taken_branches
from spe_unicorn.report.profiles.files import PROFILES, write_profile
from spe_unicorn.report.profiles.json_files import firefox, perfetto, speedscope
from spe_unicorn.report.profiles.pprof import pprof
from spe_unicorn.report.profiles.stacks import Profile
from spe_unicorn.report.profiles.text import folded, perf_script
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.samples import Samples
from spe_unicorn.spe.packets import Event
from spe_unicorn.symbols.choice import symbol_choice
from spe_unicorn.symbols.elf import read_elf
from tests.report.recordings import samples, stream_of
from tests.support.samples import branch, load, other, pc

PROFDATA = shutil.which("llvm-profdata")
GO = shutil.which("go")


def some() -> Samples:
    found: Samples = samples(load(0x40000100), load(0x40000104), other(0x40000140, el=0))
    return found


def of_bench_work() -> Samples:
    """A sample at every instruction of a function of a shipped program."""
    path = str(shipped_firmware("bench_hash"))
    work = next(s for s in read_elf(Path(path)).symbols if s.name == "bench_work")
    records = [load(work.address + at) for at in range(0, work.size, 4)]
    file = RecordFile("a.spe", "raw", [stream_of(records)])
    return Samples(Recording(file, [symbol_choice(path)]))


def test_a_stack_is_process_level_and_function() -> None:
    assert list(folded(Profile(some(), "samples"))) == [
        "firmware;EL0;work 1\n",
        "firmware;EL1;main 2\n",
    ]


def test_calls_stand_above_the_function_that_was_sampled() -> None:
    # called in main at 0x40000108 from where no symbol is, 0x40000ffc
    led = some()
    for calls in ((), (0x4000010C, 0x40001000), (0x4000010C,)):
        led.recording.file.calls.add(0, calls)
    found = Profile(led, "samples")
    assert list(folded(found)) == [
        "firmware;EL0;main;work 1\n",
        "firmware;EL1;0x40000ffc;main;main 1\n",
        "firmware;EL1;main 1\n",
    ]
    blocks = "".join(perf_script(found)).split("\n\n")
    assert blocks[1].splitlines()[1:] == [
        "\t        40000104 main (program.elf)",
        "\t        40000108 main (program.elf)",
        "\t        40000ffc 0x40000ffc (program.elf)",
    ]


def test_stacks_count_what_is_asked_for() -> None:
    # each load has 13 cycles of total latency, the other operation none
    assert list(folded(Profile(some(), "latency"))) == ["firmware;EL1;main 26\n"]


def test_inlined_functions_stand_below_those_that_hold_them() -> None:
    found = Profile(of_bench_work(), "samples")
    assert sum(found.counts) == len(found.samples)
    names = {tuple(frame.function for frame in stack.frames) for stack in found.stacks}
    assert ("bench_work", "find", "slot_of") in names
    assert ("bench_work",) in names


def test_perf_script_has_a_block_for_each_sample() -> None:
    blocks = "".join(perf_script(Profile(some(), "samples"))).split("\n\n")
    assert len(blocks) == 4
    assert blocks[0].splitlines() == [
        "firmware 0 [000] 0.000001: 1 samples:",
        "\t        40000100 main (program.elf)",
    ]


def test_speedscope_has_frames_by_number_and_a_profile_for_each_pe() -> None:
    told = json.loads("".join(speedscope(Profile(some(), "samples"))))
    assert told["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    (profile,) = told["profiles"]
    frames = [frame["name"] for frame in told["shared"]["frames"]]
    assert [[frames[n] for n in stack] for stack in profile["samples"]] == [
        ["firmware", "EL1", "main"],
        ["firmware", "EL1", "main"],
        ["firmware", "EL0", "work"],
    ]
    assert profile["type"] == "sampled"
    assert (profile["startValue"], profile["endValue"], profile["weights"]) == (0, 3, [1, 1, 1])


def test_the_tables_of_the_firefox_profiler_refer_to_each_other() -> None:
    told = json.loads("".join(firefox(Profile(of_bench_work(), "samples"))))
    (thread,) = told["threads"]
    assert told["meta"]["processType"] == 0  # the parent process, in Firefox's list
    assert told["meta"]["extensions"] == {"length": 0, "id": [], "name": [], "baseURL": []}
    for name in ("samples", "stackTable", "frameTable", "funcTable", "markers"):
        columns = thread[name]
        lengths = {len(v) for k, v in columns.items() if isinstance(v, list)}
        assert lengths == {columns["length"]}, name
    innermost = []
    for node in thread["samples"]["stack"]:
        names: list[str] = []
        at: Any = node
        while at is not None:
            function = thread["frameTable"]["func"][thread["stackTable"]["frame"][at]]
            names.append(thread["stringArray"][thread["funcTable"]["name"][function]])
            at = thread["stackTable"]["prefix"][at]
        assert names[-3:] == ["bench_work", "EL1", "firmware"]
        innermost.append(names[0])
    assert "slot_of" in innermost


def test_perfetto_has_a_slice_as_long_as_the_latency() -> None:
    told = json.loads("".join(perfetto(Profile(some(), "samples"))))
    slices = [event for event in told["traceEvents"] if event["ph"] == "X"]
    # microseconds: 1000 ticks and 13 cycles
    assert (slices[0]["name"], slices[0]["ts"], slices[0]["dur"]) == ("main", 1.0, 0.013)
    assert len(slices) == 3


def test_branches_that_were_taken_are_counted_with_their_mispredictions() -> None:
    missed = branch(events=Event.RETIRED | Event.MISPREDICTED)
    skipped = branch(events=Event.RETIRED | Event.NOT_TAKEN)
    taken = branch(events=Event.RETIRED)
    away = branch(events=Event.RETIRED, target=pc(0x40000140))
    found = samples(missed, taken, taken, skipped, away, load())
    assert taken_branches(found) == [
        Branch(0x40000108, 0x40000100, 3, 1),
        Branch(0x40000108, 0x40000140, 1, 0),
    ]
    assert list(bolt(found)) == ["1 main 8 1 main 0 1 3\n", "1 main 8 1 work 0 0 1\n"]


def test_lines_of_an_llvm_profile_count_from_the_declaration() -> None:
    text = "".join(llvm_sample(Profile(of_bench_work(), "samples")))
    first, *rest = text.splitlines()
    name, total, heads = first.split(":")
    assert (name, int(heads)) == ("bench_work", 0)
    # a line counts as its most sampled instruction
    assert 0 < int(total) < len(of_bench_work())
    counts = [line.rpartition(":")[2] for line in rest if not line.split(": ")[1][0].isdigit()]
    lines = [line.split(": ")[1].split()[0] for line in rest if line.split(": ")[1][0].isdigit()]
    assert int(total) == sum(map(int, lines))
    assert counts
    assert any(line.split(": ")[1].startswith("find:") for line in rest if ": " in line)


@pytest.mark.skipif(PROFDATA is None, reason="needs llvm-profdata")
def test_llvm_reads_its_profile(tmp_path: Path) -> None:
    write_profile(tmp_path / "a.txt", "llvm-sample", of_bench_work(), "samples")
    assert PROFDATA is not None
    made = str(tmp_path / "a.prof")
    subprocess.run([PROFDATA, "merge", "--sample", str(tmp_path / "a.txt"), "-o", made], check=True)
    shown = subprocess.run(
        [PROFDATA, "show", "--sample", made], check=True, capture_output=True, text=True
    ).stdout
    total = (tmp_path / "a.txt").read_text().split(":")[1]
    assert f"Function: bench_work: {total}, 0," in shown


@pytest.mark.skipif(GO is None, reason="needs go tool pprof")
def test_pprof_reads_its_profile(tmp_path: Path) -> None:
    write_profile(tmp_path / "a.pb.gz", "pprof", of_bench_work(), "samples")
    assert GO is not None
    shown = subprocess.run(
        [GO, "tool", "pprof", "-top", str(tmp_path / "a.pb.gz")],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    ).stdout
    assert f"of {len(of_bench_work())} total" in shown
    assert "find (inline)" in shown


def test_pprof_is_the_same_each_time() -> None:
    made = [pprof(Profile(some(), "samples")) for _ in range(2)]
    assert made[0] == made[1]
    assert b"program" not in gzip.decompress(made[0])
    assert b"main" in gzip.decompress(made[0])


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_of_samples_without_symbols_is_written(name: str, tmp_path: Path) -> None:
    write_profile(tmp_path / "a", name, samples(load(), branch(), program=None), "samples")
    assert (tmp_path / "a").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
