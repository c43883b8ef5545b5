from __future__ import annotations

import importlib
import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running.processes import WALL_SECONDS

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = ROOT / "scripts" / "benchmark"
pytestmark = pytest.mark.sweep(together=True)
COLUMNS = {
    *("off", "1024", "4096", "65536", "record", "cache", "cache 4096", "Python"),
    *("uops off", "uops 1024", "uops 4096", "uops 65536", "uops cache 4096", "n1 cache record"),
}
RETURN_FALSE = bytes.fromhex("00008052 c0035fd6")  # mov w0, #0; ret


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARK), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        # no limit of CPU time: under one Linux counts it in ticks, so that short runs take 0 s
        timeout=WALL_SECONDS,
    )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    file = tmp_path_factory.mktemp("bench") / "figures.json"
    small = ("--seconds", "0.001", "--rounds", "1")
    result = bench("--programs", "alu8,crc", *small, "--json", str(file))
    assert result.returncode == 0, result.stderr
    return result.stdout, json.loads(file.read_text())


def test_the_table_has_a_row_for_each_program_and_says_what_to_aim_for(tiny):
    text, _ = tiny
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}
    assert {"program", "alu8", "crc", "mean", "aim"} <= set(rows)
    inline = "inline counting: on" in text
    aims = "aim 1.00 0.75 0.90 0.95 0.85" if inline else "aim 0.80 0.60 0.70 0.75 0.65"
    assert aims in " ".join(text.split())


def test_the_figures_with_caches_have_a_table_of_their_own(tiny):
    text, _ = tiny
    with_caches = text[text.index("The same with --model cache") :]
    header = next(line for line in with_caches.splitlines() if "program" in line)
    assert header.split() == ["program", "bare", "M/s", "±%", "cache", "cache", "4096"]


def test_the_figures_with_micro_operations_have_a_table_of_their_own(tiny):
    text, _ = tiny
    cracked = text[text.index("The same with micro-operations as the population") :]
    assert {"uops", "off", "1024", "4096", "65536", "cache", "alu8", "crc"} <= set(cracked.split())


def test_every_column_has_a_speed(tiny):
    _, figures = tiny
    for program in figures["programs"].values():
        assert set(program["ratios"]) == COLUMNS
        assert all(ratio > 0 for ratio in program["ratios"].values())
        assert set(program["us_a_sample"]) == {"1024", "4096", "65536", "record"}


@pytest.mark.skipif(shutil.which("qemu-system-aarch64") is None, reason="no QEMU")
def test_qemu_is_the_second_measure(tiny):
    text, figures = tiny
    beside = " ".join(text[text.index("Speed as a part of QEMU's") :].split())
    assert "aim 0.95 0.90 0.30" in beside
    programs = figures["of_qemu"]["programs"]
    for name in ("alu8", "crc"):
        assert set(programs[name]) == {"bare", "off", "record", "n1 cache record"}
        assert all(ratio > 0 for ratio in programs[name].values())
    assert figures["of_qemu"]["geometric_means"] == pytest.approx(programs["crc"])


def test_counts_are_those_of_the_program(tiny):
    # alu8 is 262144 rounds of one block of 8 operations, and a little around them
    _, figures = tiny
    alu8 = figures["programs"]["alu8"]
    assert 0 < alu8["operations"] - 8 * 262144 < 1000
    assert 0 < alu8["blocks"] - 262144 < 100


def test_tight_loops_are_not_judged(tiny):
    _, figures = tiny
    programs = figures["programs"]
    assert (programs["alu8"]["kind"], programs["crc"]["kind"]) == ("loop", "work")
    assert figures["geometric_means"] == pytest.approx(programs["crc"]["ratios"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--programs", "quake"), "no program is called 'quake'; there is: alu8, "),
        (("--figures", "fps"), "no figure is called 'fps'; there is: startup-cold, "),
        (("--rounds", "0"), "0 is not between 1 and 1000"),
        (("--seconds", "-1"), "-1 is not between 0 and 3600"),
    ],
)
def test_a_wrong_command_line_is_refused_in_a_sentence(arguments, complaint):
    result = bench(*arguments)
    assert result.returncode == 2
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


IN_A_REPOSITORY = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs git's history")


@IN_A_REPOSITORY
def test_a_commit_that_is_not_there_is_refused_in_a_sentence():
    result = bench("--programs", "alu8", "--against", "no-such-commit")
    assert result.returncode == 2
    assert result.stderr.strip() == "bench: git knows no commit called 'no-such-commit' here"


@IN_A_REPOSITORY
@pytest.mark.slow
def test_another_commit_is_measured_beside_this_one(tmp_path):
    file = tmp_path / "figures.json"
    small = ("--seconds", "0.001", "--rounds", "1", "--json", str(file))
    result = bench("--programs", "crc", "--figures", "startup", "--against", "HEAD", *small)
    assert result.returncode == 0, result.stderr
    assert "Speed as a part of that of HEAD" in result.stdout
    figures = json.loads(file.read_text())
    against = figures["against"]
    assert len(against["commit"]) == 40
    assert all(speedup > 0 for speedup in against["speedups"]["crc"].values())
    assert figures["figures"]["startup"]["older"] > 0


def test_a_whole_command_can_be_measured_alone(tmp_path):
    file = tmp_path / "figures.json"
    result = bench("--figures", "startup", "--rounds", "1", "--json", str(file))
    assert result.returncode == 0, result.stderr
    figures = json.loads(file.read_text())
    assert figures["programs"] == {}
    assert figures["figures"]["startup"]["value"] > 0
    assert "bare M/s" not in result.stdout


@pytest.mark.parametrize("column", ["bare", "off", "sampled"])
def test_a_wrong_result_is_noticed_on_every_machine(column, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARK))
    machines = importlib.import_module("machines")
    program = machines.Program("alu8")
    configure = program.configure

    def break_it(memory, iterations, interval):
        configure(memory, iterations, interval)
        memory.write(program.at("bench_work"), RETURN_FALSE)

    program.configure = break_it
    machine = {"bare": machines.bare, "off": machines.board(), "sampled": machines.board(1024)}
    with pytest.raises(machines.ProgramError, match=r"^alu8: "):
        machine[column](program, 1)


def test_what_counters_cost_is_told_with_its_own_noise(tmp_path):
    file = tmp_path / "pmu.json"
    small = ("--programs", "alu8,crc", "--seconds", "0.01", "--rounds", "2")
    result = bench("--pmu", *small, "--json", str(file))
    assert result.returncode == 0, result.stderr
    figures = json.loads(file.read_text())
    ways = {"again", "four", "INST_RETIRED", "CPU_CYCLES", "BR_RETIRED", "SAMPLE_POP"}
    assert {name: set(found["by_way"]) for name, found in figures["pmu"].items()} == {
        "alu8": ways,
        "crc": ways,
    }
    # alu8 is a tight loop, and only real work is judged
    assert figures["pmu_mean"] == pytest.approx(figures["pmu"]["crc"]["by_way"]["four"])
    assert all(found["noise"] >= abs(found["by_way"]["again"]) for found in figures["pmu"].values())
    assert "Geometric mean of all four over real work" in result.stdout


def test_a_figure_that_cannot_be_taken_is_told_and_the_others_are_kept(
    tmp_path, monkeypatch, capsys
) -> None:
    """A library is missing for one, another gives no result; what was taken is in the file."""
    file = tmp_path / "figures.json"
    monkeypatch.syspath_prepend(str(BENCHMARK))
    words = ["bench", "--figures", "trace,startup,campaign", "--rounds", "1", "--json", str(file)]
    monkeypatch.setattr(sys, "argv", words)
    campaigns, past = importlib.import_module("campaigns"), importlib.import_module("past")

    def fail(*_: object) -> None:
        raise importlib.import_module("sides").ProgramError("trace: it said nothing")

    monkeypatch.setattr(campaigns, "find_spec", lambda name: None)
    monkeypatch.setattr(past, "find_past", fail)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCHMARK / "__main__.py"), run_name="bench")
    assert ended.value.code == 1
    assert list(json.loads(file.read_text())["figures"]) == ["startup"]
    said = capsys.readouterr()
    assert "trace is left out: trace: it said nothing" in said.err
    assert "campaign is left out: no pyarrow and no distributed here" in said.err
    assert "startup" in said.out or "hello" in said.out


def test_qemu_is_given_the_iterations_in_the_file(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARK))
    iterations = importlib.import_module("iterations")
    elf = (ROOT / "firmware" / "prebuilt" / "bench_crc.elf").read_bytes()
    changed = iterations.with_iterations(elf, 0x1234)
    places = [n for n in range(len(elf)) if elf[n] != changed[n]]
    at = places[0]
    assert elf[at : at + 8] == (2).to_bytes(8, "little")  # as the source has it
    assert changed[at : at + 8] == (0x1234).to_bytes(8, "little")
    assert elf[at + 8 :] == changed[at + 8 :]


def test_a_mode_far_above_its_cheapest_neighbour_is_told_with_its_reason(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARK))
    modes = importlib.import_module("modes")
    costs = dict.fromkeys(modes.CELLS, 2.0)
    assert modes.cliffs(costs) == []
    costs[modes.Cell("max", "none", "guest", "misuse")] = 8.2
    costs[modes.Cell("max", "none", "off", "misuse")] = 1.9
    costs[modes.Cell("generic", "cache", "off", "-")] = 7.9
    (cliff,) = modes.cliffs(costs)
    assert (str(cliff.cell), cliff.times) == ("max, none, guest, misuse", pytest.approx(8.2 / 1.9))
    assert "each load is looked at while records wait for a DSB" in str(cliff)
    # what has the model, beside the same without it
    plain = {cell: 9.0 if cell.model == "cache" else 2.0 for cell in modes.CELLS}
    found = modes.cliffs(plain)
    assert len(found) == len(modes.CELLS) / 2
    assert all("moves caches" in str(cliff) for cliff in found)
    costs = dict.fromkeys(modes.CELLS, 2.0) | {modes.Cell("max", "none", "off", "2 PEs"): 9.0}
    assert "no reason is known" in str(modes.cliffs(costs)[0])
