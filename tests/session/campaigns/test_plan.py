"""Plans: the matrix that they come to, and messages that name line and key."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.session.campaigns import files
from spe_unicorn.session.campaigns.jobs import Job, jobs_of
from spe_unicorn.session.campaigns.plan import PlanError, read_plan
from spe_unicorn.session.campaigns.store import COLUMNS
from spe_unicorn.session.campaigns.toml_lines import TomlLines
from spe_unicorn.session.toml_values import MACHINE

RUNS = '[[runs]]\nfirmware = "a.elf"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.elf", "b.elf"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def plan(folder, text):
    path = folder / "plan.toml"
    path.write_text(text)
    return read_plan(path)


def test_a_matrix_has_every_combination_the_last_key_fastest(folder: Path) -> None:
    found = plan(folder, '[[runs]]\nfirmware = "*.elf"\nseed = "3-4"\ninterval = [10, 20]\n')
    assert [
        (Path(run.options["firmware"]).name, run.options["seed"], run.sampling.period)
        for run in found.runs
    ] == [(name, seed, n) for name in ("a.elf", "b.elf") for seed in (3, 4) for n in (10, 20)]
    assert (found.name, found.limits.timeout) == ("plan", 300.0)


def test_keys_that_are_lists_are_a_matrix_when_they_hold_lists(folder: Path) -> None:
    found = plan(folder, RUNS + 'arguments = ["-v", "x"]\n').runs
    assert [run.options["arguments"] for run in found] == [("-v", "x")]
    found = plan(folder, RUNS + 'arguments = [["-v"], []]\n').runs
    assert [run.options["arguments"] for run in found] == [("-v",), ()]


def test_all_options_reach_the_machine(folder: Path) -> None:
    (run,) = plan(
        folder,
        '[campaign]\nname = "x"\n[limits]\nmax_insns = 7\ntimeout = 0.5\nmemory = "1G"\n'
        + RUNS
        + 'ram = "256M"\nsmp = 2\nel = 2\nsecure = false\nreboot = false\ncheck-alignment = true\n'
        'core = "max"\nmodel = "cache"\ninterval = 9\nkinds = ["load"]\nmin_latency = 3\n'
        'jitter = false\ninput = "hi\\r"\nevent = "br_retired:k"\n'
        'count = ["L1D_CACHE_REFILL", "r11", "sample_pop"]\n',
    ).runs
    machine = run.machine
    assert (machine.ram, machine.smp, machine.el, machine.reboot) == (256 << 20, 2, 2, False)
    assert (machine.check_alignment, machine.core, machine.model) == (True, "max", "cache")
    assert machine.sampling == Sampling(9, ("load",), 3, False, "br_retired:k")
    assert run.input == "hi\r"
    assert run.count == ("L1D_CACHE_REFILL", "r11", "sample_pop")


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        (RUNS + "seeds = 1\n", 3, "seeds", "did you mean seed?"),
        (RUNS + "\n" + RUNS + "smp = [1,\n 99]\n", 6, "smp", "from 1 to 8, got 99"),
        (RUNS + 'append = """\nsmp = 99\n"""\nsmp = 99\n', 6, "smp", "got 99"),
        (RUNS + "seed = true\n", 3, "seed", "is a whole number from 0 on, got True"),
        (RUNS + 'seed = "9-3"\n', 3, "seed", 'such as "0-99"'),
        (RUNS + "seed = []\n", 3, "seed", "nothing to run"),
        (RUNS + 'ram = "1X"\n', 3, "ram", "is no size"),
        (RUNS + "ram = 4097\n", 3, "ram", "multiples of 4K"),
        (RUNS + 'core = "none"\n', 3, "core", "allowed are cortex-x4"),
        (RUNS + "interval = 0\n", 3, "interval", "from 1 on"),
        (RUNS + 'interval = 5\nkinds = ["loads"]\n', 4, "kinds", "'loads' is none"),
        (RUNS + 'kinds = ["load"]\n', 3, "kinds", "goes with interval only"),
        (RUNS + 'event = "br_retired"\n', 3, "event", "goes with interval only"),
        (RUNS + 'interval = 5\nevent = "br_ret"\n', 4, "event", "BR_RETIRED"),
        (RUNS + 'interval = 5\nevent = "sample_pop"\n', 4, "event", "there is no SPE beside"),
        (RUNS + 'interval = 5\nevent = "chain"\n', 4, "event", "chain cannot be sampled"),
        (RUNS + 'count = "cycles"\n', 3, "count", "is a list of texts"),
        (RUNS + 'count = ["cycles,branches"]\n', 3, "count", "2 events"),
        (RUNS + 'count = ["cycles:x"]\n', 3, "count", "after the colon stand u, k and h"),
        (
            RUNS + 'model = ["cache", "none"]\ncount = ["l1d_cache"]\n',
            *(4, "count", "l1d_cache cannot be counted: --model cache alone generates it"),
        ),
        (RUNS + 'semihosting_dir = "no"\n', 3, "semihosting_dir", "there is no folder 'no'"),
        (RUNS + 'drive = ["no.img,write"]\n', 3, "drive", "there is no file 'no.img'"),
        (RUNS + 'drive = "a.elf"\n', 3, "drive", "is a list of texts"),
        (RUNS + 'fw_cfg = ["a.elf"]\n', 3, "fw_cfg", "there is no file ''"),
        (RUNS + 'load = ["a.elf"]\n', 3, "load", "there is no file ''"),
        (RUNS + 'pflash = [["a.elf"], ["a.elf", "a.elf", "a.elf"]]\n', 3, "pflash", "two flashes"),
        (RUNS + "clock = 3\n", 3, "clock", "kHz"),
        (RUNS + 'entropy = "yes"\n', 3, "entropy", "is true or false"),
        (RUNS + 'seed = "0-2000000"\n', 3, "seed", "2000001 seeds are more than 1000000"),
        (RUNS + f'seed = "0-{10**11}"\n', 3, "seed", "100000000001 seeds are more than 1000000"),
        (RUNS + f'seed = "0-{2**63}"\n', 3, "seed", "is a number up to 9223372036854775807"),
        (RUNS + f'seed = "0-{"9" * 5000}"\n', 3, "seed", "is a number up to 92233720"),
        (RUNS + 'seed = "²-9"\n', 3, "seed", 'such as "0-99"'),
        (RUNS + f"seed = {2**63}\n", 3, "seed", "is a whole number up to 9223372036854775807"),
        (RUNS + f"interval = 5\nmin_latency = {2**63}\n", 4, "min_latency", "up to 92233720"),
        (RUNS + f"[limits]\nmax_insns = {2**63}\n", 4, "max_insns", "up to 9223372036854775807"),
        (RUNS + f"[limits]\nmemory = {2**63}\n", 4, "memory", "up to 9223372036854775807"),
        (RUNS + '[limits]\nmemory = "9999999999999G"\n', 4, "memory", "up to 9223372036854775"),
        (
            RUNS + 'seed = "0-999"\nsmp = [1, 2]\ninterval = [' + "9," * 501 + "]\n",
            *(1, "runs", "1002000 combinations are more than 1000000"),
        ),
        (
            RUNS + 'seed = "0-999998"\n' + RUNS + "smp = [1, 2]\n",
            *(4, "runs", "2 combinations and 999999 before them are more than 1000000"),
        ),
        ('[[runs]]\nfirmware = "c*.elf"\n', 2, "firmware", "there is no file 'c*.elf'"),
        ("[[runs]]\nseed = 1\n", 1, "firmware", "is missing"),
        (RUNS + "[limits]\ntimeout = -1\n", 4, "timeout", "a number of seconds, got -1"),
        (RUNS + "[limits]\nmemory = 1.5\n", 4, "memory", "a number of bytes"),
        (RUNS + "[limit]\n", 3, "limit", "did you mean limits?"),
        ("[campaign]\nname = 3\n" + RUNS, 2, "name", "is a text, got 3"),
        ("x = 1\n" + RUNS, 1, "x", "there is no such key"),
        ("", 1, "runs", "there is no [[runs]]"),
        ('[runs]\nfirmware = "a.elf"\n', 1, "runs", "two brackets"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_key(
    folder: Path, text: str, line: int, key: str, said: str
) -> None:
    with pytest.raises(PlanError) as error:
        plan(folder, text)
    assert str(error.value).startswith(f"{folder / 'plan.toml'}:{line}: {key}: ")
    assert said in str(error.value)


def test_what_is_no_toml_is_named_with_its_line(folder: Path) -> None:
    with pytest.raises(PlanError, match=r"plan\.toml: .* line 2"):
        plan(folder, "[[runs]]\nfirmware = \n")


def test_a_number_too_long_for_python_to_read_is_a_sentence(folder: Path) -> None:
    with pytest.raises(PlanError, match=r"plan\.toml: a number in it has too many digits"):
        plan(folder, RUNS + f"seed = {'9' * 5000}\n")


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text):
    assert TomlLines(text).key("runs", "x") >= 1


def keys(folder, text, version="1"):
    return [job.key for job in jobs_of(plan(folder, text), version).runs]


def test_a_key_is_what_a_run_is_made_of(folder: Path, tmp_path: Path) -> None:
    first = keys(folder, RUNS)
    assert keys(folder, RUNS + "seed = 0\nsmp = 1\n") == first  # defaults
    assert keys(folder, RUNS + "\n[limits]\ntimeout = 3\nmemory = 1000\n") == first
    different = [
        keys(folder, RUNS + "seed = 1\n"),
        keys(folder, RUNS + "interval = 100\n"),
        keys(folder, RUNS + 'input = "x"\n'),
        keys(folder, RUNS + 'count = ["cycles"]\n'),
        keys(folder, RUNS + 'count = ["cycles:u"]\n'),
        keys(folder, RUNS + 'interval = 100\nevent = "branches"\n'),
        keys(folder, RUNS + "[limits]\nmax_insns = 5\n"),
        keys(folder, RUNS, version="2"),
        keys(folder, '[[runs]]\nfirmware = "b.elf"\n'),
    ]
    (folder / "a.elf").write_bytes(b"other")
    different.append(keys(folder, RUNS))
    assert len({key for found in [first, *different] for key in found}) == 11


def test_a_run_that_is_named_twice_is_one(folder: Path) -> None:
    assert len(keys(folder, RUNS + "seed = [1, 1]\n" + RUNS + "seed = 1\n")) == 1


def test_the_file_of_a_core_goes_by_its_contents(folder: Path) -> None:
    builtin = Path(__file__).parents[3] / "spe_unicorn/cores/minimal.toml"
    (folder / "mine.toml").write_text(builtin.read_text())
    first = keys(folder, RUNS + 'core = "mine.toml"\n')
    (folder / "yours.toml").write_text(builtin.read_text())
    (folder / "mine.toml").write_text(builtin.read_text() + "\n# changed\n")
    assert keys(folder, RUNS + 'core = "mine.toml"\n') != first


def test_every_option_of_the_machine_is_a_key() -> None:
    options = {field.name for field in fields(MachineOptions)} - {"sampling"}
    assert set(MACHINE) == options
    assert options <= set(COLUMNS)


@pytest.mark.parametrize(
    ("option", "text", "written"),
    [
        ("pflash", "a.elf", True),
        ("pflash", "a.elf,readonly", False),
        ("drive", "a.elf", False),
        ("drive", "a.elf,readonly", False),
        ("drive", "a.elf,write", True),
        ("fw_cfg", "opt/x=a.elf", False),
        ("load", "a.elf@0x41000000", False),
    ],
)
def test_a_file_within_a_text_goes_by_its_contents_and_is_copied_where_a_run_may_write_it(
    folder: Path, option: str, text: str, written: bool
) -> None:
    (job,) = jobs_of(plan(folder, RUNS + f'{option} = ["{text}"]\n'), "1").runs
    copied = []

    def own_copy(path, name, is_program):
        copied.append((path, name))
        return Path("/own", name)

    machine = job.machine(lambda file: Path("/files", file.name), own_copy)
    where = f"/own/{option}.0/a.elf" if written else "/files/a.elf"
    assert getattr(machine, option) == (text.replace("a.elf", where),)
    assert copied == ([(Path("/files/a.elf"), f"{option}.0/a.elf")] if written else [])
    (folder / "a.elf").write_bytes(b"other")
    assert keys(folder, RUNS + f'{option} = ["{text}"]\n') != [job.key]


def test_a_core_keeps_what_is_to_be_otherwise(folder: Path) -> None:
    builtin = Path(__file__).parents[3] / "spe_unicorn/cores/minimal.toml"
    (folder / "mine.toml").write_text(builtin.read_text())
    text = 'core = ["mine.toml,midr=0x410fd0c1", "minimal,midr=0x410fd0c1"]\n'
    file, name = jobs_of(plan(folder, RUNS + text), "1").runs
    assert file.machine(lambda _: Path("/f/mine.toml")).core == "/f/mine.toml,midr=0x410fd0c1"
    assert name.machine(lambda _: Path("x")).core == "minimal,midr=0x410fd0c1"


def test_a_folder_travels_file_by_file(folder: Path) -> None:
    (folder / "shared" / "deep").mkdir(parents=True)
    (folder / "shared" / "one").write_text("1")
    (folder / "shared" / "deep" / "two").write_text("2")
    text = RUNS + 'semihosting_dir = "shared"\n'
    (job,) = jobs_of(plan(folder, text), "1").runs
    copied = []

    def own_copy(path, name, is_program):
        copied.append((path and path.name, name, is_program))
        return Path("/own", name)

    machine = job.machine(lambda file: Path("/files", file.name), own_copy)
    assert machine.semihosting_dir == Path("/own/semihosting_dir")
    assert copied == [
        (None, "semihosting_dir", False),
        (None, "semihosting_dir/deep", False),
        ("two", "semihosting_dir/deep/two", False),
        ("one", "semihosting_dir/one", False),
    ]
    (folder / "shared" / "one").write_text("changed")
    assert keys(folder, text) != [job.key]


def test_each_shared_folder_is_the_runs_own_with_its_programs_and_empty_folders(
    folder: Path,
) -> None:
    (folder / "tools" / "empty").mkdir(parents=True)
    (folder / "tools" / "go").write_text("#!/bin/sh\n")
    (folder / "tools" / "go").chmod(0o700)
    (folder / "data").mkdir()
    (folder / "data" / "go").write_text("text")
    text = RUNS + 'share = ["tools,readonly", "data"]\n'
    (job,) = jobs_of(plan(folder, text), "1").runs
    copied = []

    def own_copy(path, name, is_program):
        copied.append((name, is_program))
        return Path("/own", name)

    job = Job.from_json(json.loads(json.dumps(job.to_json())))
    machine = job.machine(lambda file: Path("/files", file.name), own_copy)
    assert machine.share == ("/own/share.0,readonly", "/own/share.1")
    assert copied == [
        ("share.0", False),
        ("share.0/empty", False),
        ("share.0/go", True),
        ("share.1", False),
        ("share.1/go", False),
    ]
    (folder / "tools" / "go").chmod(0o600)
    changed = keys(folder, text)
    (folder / "tools" / "empty").rmdir()
    assert len({job.key, *changed, *keys(folder, text)}) == 3
    assert len(keys(folder, RUNS + 'share = [["tools"], ["data"], []]\n')) == 3


def test_a_folder_with_what_cannot_travel_is_refused(folder: Path) -> None:
    (folder / "shared").mkdir()
    (folder / "shared" / "link").symlink_to("/etc/passwd")
    for key, value in (("semihosting_dir", '"shared"'), ("share", '["shared,readonly"]')):
        with pytest.raises(PlanError, match=rf"3: {key}: .*link is no regular file"):
            plan(folder, RUNS + f"{key} = {value}\n")
    with pytest.raises(PlanError, match=r"3: share: there is no folder 'none'"):
        plan(folder, RUNS + 'share = ["none"]\n')


def test_a_job_travels_as_plain_data(folder: Path) -> None:
    (job,) = jobs_of(
        plan(
            folder,
            RUNS + 'interval = 5\nkinds = ["load"]\narguments = ["a"]\ndrive = ["b.elf,write"]\n',
        ),
        "1",
    ).runs
    copy = Job.from_json(json.loads(json.dumps(job.to_json())))
    path = folder / "a.elf"
    assert copy.machine(lambda _: path) == job.machine(lambda _: path)
    assert (copy.key, copy.files, copy.limits) == (job.key, job.files, job.limits)


def test_a_folder_has_at_most_as_many_files_and_folders_as_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_IN_FOLDER", 2)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/one").write_bytes(b"")
    assert files.what_is_below(tmp_path).files == ["deep/one"]
    (tmp_path / "two").write_bytes(b"")
    with pytest.raises(files.FileError, match="has more than 2 files and folders"):
        files.what_is_below(tmp_path)
