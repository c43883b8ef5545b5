from __future__ import annotations

import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from tests.cli.conftest import COMMAND
from tests.support import a64
from tests.support.elf_builder import RAM, Elf, Load, Sym
from tests.support.perf_reader import perf
from tests.support.running.processes import WALL_SECONDS, limit_cpu
from tests.support.small_programs import (
    COMMAND_LINE,
    CRASH,
    CRASH_SYMBOLS,
    ECHO,
    EXIT_7,
    LOOP,
    NEWLINES,
    SLEEP,
    program,
    words,
)


def wait_for(condition) -> None:
    end = time.monotonic() + WALL_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


# The console


def test_standard_output_holds_the_guests_console_and_nothing_else(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    result = command("run", firmware("hello"))
    assert result.stdout == "Hello from bare metal AArch64\n"
    assert result.stderr.startswith("spe-unicorn: exit status 0\n")


def test_standard_input_reaches_the_guest(command: Callable[..., Any], tmp_path: Path) -> None:
    result = command("run", program(tmp_path, ECHO), stdin=b"a\0\xfe\n")
    assert result.stdout_bytes == b"a\0\xfe\n\xff"


def test_standard_input_is_not_read_ahead_of_the_guest(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    ours, theirs = pty.openpty()
    process = start("run", program(tmp_path, ECHO), stdin=theirs, stdout=subprocess.PIPE)
    os.write(ours, b"one\n")
    assert process.stdout.read(4) == b"one\n"
    os.write(ours, b"two\n")
    assert process.stdout.read(4) == b"two\n"
    os.close(ours)
    os.close(theirs)


def test_arguments_reach_the_guest_behind_the_name_of_the_firmware(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    result = command("run", program(tmp_path, COMMAND_LINE), "one", "--", "--two")
    assert result.stdout == "program.elf one --two"


def test_a_closed_standard_input_is_at_its_end(tmp_path: Path) -> None:
    result = subprocess.run(
        [*COMMAND, "run", "-q", program(tmp_path, ECHO)],
        preexec_fn=lambda: os.close(0),
        stdin=None,
        capture_output=True,
        timeout=WALL_SECONDS,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, b"\xff", b"")


def test_records_on_standard_output_send_the_console_to_standard_error(
    firmware: Callable[..., Any],
) -> None:
    result = subprocess.run(
        [*COMMAND, "run", "-q", "-o", "-", "--format", "raw", firmware("spe_copy")],
        capture_output=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert result.returncode == 0
    assert result.stderr.endswith(b"\n1..25\n")
    assert len(result.stdout) % 64 == 0
    assert result.stdout


def test_quiet_says_nothing_of_its_own(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    assert command("run", "--quiet", firmware("hello")).stderr == ""


# Endings


def test_the_exit_status_is_the_guests(run_json: Callable[..., Any], tmp_path: Path) -> None:
    said = run_json("run", program(tmp_path, EXIT_7), status=7)
    assert (said["exit_status"], said["ending"], said["cause"]) == (7, "exit", None)


@pytest.mark.parametrize("limit", [1, 12345])
def test_a_limit_of_operations_is_exact(
    run_json: Callable[..., Any], tmp_path: Path, limit: int
) -> None:
    said = run_json("run", "--max-insns", str(limit), program(tmp_path, LOOP), status=124)
    assert (said["operations"], said["ending"]) == (limit, "limit")


def test_a_guest_that_ends_before_the_limit_keeps_its_status(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    command("run", "--max-insns", "1000", program(tmp_path, EXIT_7), status=7)


def test_a_time_limit_ends_the_run(run_json: Callable[..., Any], tmp_path: Path) -> None:
    said = run_json("run", "--timeout", "0.05", program(tmp_path, LOOP), status=124)
    assert said["ending"] == "timeout"
    assert said["cause"] == "the time limit of 0.05 s was reached"
    assert said["host"]["seconds"] >= 0.05


def test_a_time_limit_also_holds_for_a_guest_that_waits_for_input(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    read, write = os.pipe()
    process = start("run", "--timeout", "0.1", program(tmp_path, ECHO), stdin=read)
    _, stderr = process.communicate(timeout=WALL_SECONDS)
    os.close(read)
    os.close(write)
    assert process.returncode == 124, stderr


def test_sleep_that_nothing_can_end_is_told(command: Callable[..., Any], tmp_path: Path) -> None:
    result = command("run", program(tmp_path, SLEEP), status=125)
    assert "waits for an interrupt, and nothing can ever raise one" in result.stderr


def test_a_fatal_stop_shows_where_it_was_and_how_it_came_there(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    result = command("run", program(tmp_path, CRASH, CRASH_SYMBOLS), status=126)
    assert "PC   0x40000024 <leaf+0x4> at EL1: b9000420  str w0, [x1, #4]" in result.stderr
    assert "X1   00000000dead0000" in result.stderr
    assert "FAR_EL1 0xdead0004" in result.stderr
    assert "#1  0x4000001c <main+0x8>" in result.stderr
    assert "hint: set VBAR_EL1" in result.stderr


ASLEEP = (
    "spe-unicorn: at 0x40000004 <halt> EL1, asleep in a WFI: d503207f  wfi\n"
    "  last exception: none was taken\n"
)
LOOPING = "spe-unicorn: at 0x40000000 EL1: 14000000  b #0x40000000\n"


def test_a_run_that_was_cut_short_says_where_it_was(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    limit = command("run", "--max-insns", "9", program(tmp_path, LOOP), status=124).stderr
    assert limit.startswith(f"{LOOPING}  last exception: none was taken\nspe-unicorn: the limit")
    timeout = command("run", "--timeout", "0.05", program(tmp_path, LOOP), status=124).stderr
    assert timeout.startswith(LOOPING)
    asleep = command("run", program(tmp_path, SLEEP, [Sym("halt", RAM + 4, 4)]), status=125)
    assert asleep.stderr.startswith(ASLEEP)


def test_an_end_that_nobody_asked_for_says_where_it_was_though_all_is_to_be_quiet(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    options = ("run", "-q", "--max-insns", "9")
    assert command(*options, program(tmp_path, LOOP), status=124).stderr == ""
    asleep = command("run", "-q", program(tmp_path, SLEEP, [Sym("halt", RAM + 4, 4)]), status=125)
    cause = "the guest waits for an interrupt, and nothing can ever raise one"
    assert asleep.stderr == f"spe-unicorn: {cause}\n{ASLEEP}"
    timeout = command("run", "-q", "--timeout", "0.05", program(tmp_path, LOOP), status=124).stderr
    assert timeout.startswith(f"spe-unicorn: the time limit of 0.05 s was reached\n{LOOPING}")


@pytest.mark.parametrize(
    ("code", "typed", "there"),
    [
        (LOOP, b"", "at 0x40000000 EL1: 14000000  b #0x40000000"),
        (ECHO, b"x", "at 0x40000004 EL1: d45e0000  hlt #0xf000"),
    ],
    ids=["a loop", "a call that waits for input"],
)
def test_sigusr1_says_where_it_is_and_the_run_goes_on(
    tmp_path: Path, start: Callable[..., Any], code: bytes, typed: bytes, there: str
) -> None:
    output = tmp_path / "out.jsonl"
    read, write = os.pipe()
    process = start(
        *("record", "-q", "-c", "5", "-o", output, program(tmp_path, code)),
        stdin=read,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    os.write(write, typed)
    if typed:
        assert process.stdout.read(1) == typed
    else:
        wait_for(lambda: output.exists() and output.stat().st_size)
    for _ in range(2):
        process.send_signal(signal.SIGUSR1)
        assert process.stderr.readline() == f"spe-unicorn: {there}\n".encode()
        assert process.stderr.readline() == b"  last exception: none was taken\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(WALL_SECONDS) == 130
    os.close(read)
    os.close(write)


def test_sigusr2_presses_the_power_key(tmp_path: Path, start: Callable[..., Any]) -> None:
    polls = [*a64.mov64(1, 0x0903_0020), a64.ldr(2, 1, size=2), a64.cbz(2, -4)]
    process = start(
        "record", "-c", "50", "-o", tmp_path / "o.jsonl", program(tmp_path, words(*polls) + EXIT_7)
    )
    wait_for(lambda: (tmp_path / "o.jsonl").exists() and (tmp_path / "o.jsonl").stat().st_size)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(WALL_SECONDS) == 7


# Ctrl-C and other ends from outside


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_with_its_outputs_complete(
    tmp_path: Path,
    start: Callable[..., Any],
    command: Callable[..., Any],
    firmware: Callable[..., Any],
    number: Signals,
) -> None:
    output, json_file = tmp_path / "out.jsonl", tmp_path / "run.json"
    process = start(
        *("record", "-c", "10", "-o", output, "--json", json_file, program(tmp_path, LOOP))
    )
    wait_for(lambda: output.exists() and output.stat().st_size)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=WALL_SECONDS)
    assert process.returncode == 128 + number
    assert b"Traceback" not in stderr
    written = json_file.read_text()
    assert '"ending": "interrupted"' in written
    lines = output.read_text().splitlines(keepends=True)
    assert f'"written": {len(lines)},' in written
    assert lines[-1].endswith("}\n")
    assert f"{len(lines)} written".encode() in stderr


def test_ctrl_c_ends_a_guest_that_waits_for_input(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    read, write = os.pipe()
    process = start("run", program(tmp_path, ECHO), stdin=read, stdout=subprocess.PIPE, bufsize=0)
    os.write(write, b"x")
    assert process.stdout.read(1) == b"x"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=WALL_SECONDS)
    os.close(read)
    os.close(write)
    assert process.returncode == 130
    assert stdout == b""  # the guest did not take it for the end of its input
    assert b"stopped by Ctrl-C" in stderr


@pytest.mark.parametrize("arguments", ["decode FILE", "regs", "--help", "run --help"])
def test_a_command_whose_output_nobody_reads_ends_as_a_closed_pipe_does(
    command: Callable[..., Any],
    tmp_path: Path,
    start: Callable[..., Any],
    firmware: Callable[..., Any],
    arguments: str,
) -> None:
    file = tmp_path / "out.spe"
    command("run", "-q", "-o", str(file), firmware("spe_copy"))
    words = [str(file) if word == "FILE" else word for word in arguments.split()]
    read, write = os.pipe()
    os.close(read)
    process = start(*words, stdout=write)
    os.close(write)
    assert process.communicate(timeout=WALL_SECONDS)[1] == b""
    assert process.returncode == 141


def test_a_guest_whose_output_nobody_reads_is_stopped(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    process = start("run", program(tmp_path, NEWLINES), stdout=subprocess.PIPE)
    assert process.stdout.read(2) == b"\n\n"
    process.stdout.close()
    stderr = process.stderr.read()
    assert process.wait(WALL_SECONDS) == 141
    assert b"nobody reads standard output any more" in stderr
    assert b"Traceback" not in stderr


def test_ctrl_c_ends_a_guest_whose_output_is_not_taken(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    process = start("run", program(tmp_path, NEWLINES), stdout=subprocess.PIPE)
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    assert b"stopped by Ctrl-C" in process.stderr.read()
    assert process.wait(WALL_SECONDS) == 130


def data_size(recording: Path) -> int:
    """What the header of a perf.data file says of the size of its data."""
    return int.from_bytes(recording.read_bytes()[48:56], "little")


def test_a_killed_recording_is_read_up_to_its_last_whole_chunk(
    tmp_path: Path, start: Callable[..., Any], command: Callable[..., Any]
) -> None:
    output = tmp_path / "killed.data"
    process = start("record", "-c", "10", "-o", output, program(tmp_path, LOOP))
    wait_for(lambda: output.exists() and data_size(output) > 1 << 20)
    process.send_signal(signal.SIGKILL)
    process.wait(WALL_SECONDS)
    decoded = command("decode", "--format", "json", str(output), status=1)
    assert (
        decoded.stderr == f"{output}: the recording was not completed: what came last is missing\n"
    )
    records = decoded.stdout.count("\n")
    assert records >= (1 << 20) // 64
    script = perf("script", "--itrace=i1i", "-F", "ip", "-i", str(output))
    assert script.returncode == 0, script.stderr
    assert script.stdout.count("\n") == 2 * records  # our sample of each, and the one of perf


def test_a_recording_that_a_full_disk_cut_early_is_not_taken_for_an_empty_one(
    tmp_path: Path,
    start: Callable[..., Any],
    command: Callable[..., Any],
    firmware: Callable[..., Any],
) -> None:
    output = tmp_path / "early.data"
    command("record", "-q", "-c", "10", "-o", str(tmp_path / "made.data"), firmware("mix"))
    process = start(
        *("record", "-q", "-c", "10", "-o", output, firmware("mix")),
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)),
    )
    assert process.wait(WALL_SECONDS) == 2
    assert output.stat().st_size == 2048
    said = "the recording was not completed: what came last is missing"
    for form in ("table", "text", "json"):
        result = command("decode", "--format", form, str(output), status=1)
        assert result.stderr == f"{output}: {said}\n"
    assert f"holds no SPE records: {said}" in command("report", str(output), status=2).stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_ends_the_run_with_one_line(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    arguments = ("-o", "/dev/full", "--format", "raw", firmware("spe_copy"))
    result = command("run", *arguments, status=2)
    assert "spe-unicorn: /dev/full: No space left on device; exit status 2\n" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "options",
    [
        ("-o", "/dev/full", "--format", "raw"),
        ("--json", "/dev/full"),
        ("--console", "file:/dev/full"),
        ("--trace", "spe:/dev/full"),
    ],
    ids=lambda options: options[0],
)
def test_quiet_does_not_hide_that_an_output_failed(
    command: Callable[..., Any], firmware: Callable[..., Any], options: tuple[str, ...]
) -> None:
    result = command("run", "-q", *options, firmware("spe_copy"), status=2)
    assert result.stderr == "spe-unicorn: /dev/full: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_an_output_that_fails_after_the_summary_is_told_of(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    result = command("run", "--json", "/dev/full", firmware("hello"), status=2)
    assert result.stderr.endswith("\nspe-unicorn: /dev/full: No space left on device\n")


def test_nohup_lets_a_run_outlive_its_terminal(tmp_path: Path, start: Callable[..., Any]) -> None:
    output = tmp_path / "out.jsonl"
    arguments = ("-c", "10", "-o", output, "--max-insns", "600000", program(tmp_path, LOOP))
    process = start(
        "record", *arguments, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    wait_for(lambda: output.exists() and output.stat().st_size)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=WALL_SECONDS)
    assert process.returncode == 124


@pytest.mark.parametrize("after", [0.04, 0.08, 0.12, 0.2, 0.3, 0.45])
def test_ctrl_c_while_the_command_is_still_importing_is_no_traceback(
    start: Callable[..., Any], firmware: Callable[..., Any], after: float
) -> None:
    process = start("run", firmware("hello"), stdout=subprocess.DEVNULL)
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=WALL_SECONDS)
    assert b"spe_unicorn/cli" not in stderr  # Python's own start is not ours
    assert process.returncode in (0, 1, 130, -signal.SIGINT)


# Determinism


def records(command, folder: Path, *arguments: str) -> bytes:
    file = folder / "out.spe"
    command("run", "-o", str(file), *arguments)
    return file.read_bytes()


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("name", ["spe_copy", "spe_el0", "spe_full", "spe_fault", "interval"])
def test_the_same_run_twice_gives_the_same_bytes(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any], name: str
) -> None:
    first = records(command, tmp_path, firmware(name))
    assert first
    assert records(command, tmp_path, firmware(name)) == first


def test_another_seed_moves_random_sample_points(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    first = records(command, tmp_path, "--seed", "1", firmware("interval"))
    assert records(command, tmp_path, "--seed", "2", firmware("interval")) != first


# The terminal


def test_the_progress_line_is_for_terminals_and_leaves_no_trace_on_standard_output(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    ours, theirs = pty.openpty()
    code = program(tmp_path, LOOP)
    process = start("run", code, stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    while b"/s, 0 samples" not in shown:
        shown += os.read(ours, 1 << 16)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=WALL_SECONDS)
    shown += os.read(ours, 1 << 16)
    os.close(ours)
    assert stdout == b""
    assert b" operations, " in shown.partition(b"spe-unicorn: ")[0]


def test_no_progress_line_goes_into_a_file(tmp_path: Path, start: Callable[..., Any]) -> None:
    process = start("run", "--timeout", "1", program(tmp_path, LOOP))
    _, stderr = process.communicate(timeout=WALL_SECONDS)
    assert b"\r" not in stderr


# What a command needs


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["regs"], ["cores"]])
def test_what_runs_no_guest_loads_no_engine(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from spe_unicorn.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "print([m for m in ('unicorn', 'numba', 'capstone', 'elftools') if m in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.endswith("\n[]\n"), result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the threads are counted as Linux shows them")
def test_a_run_starts_no_threads_for_arithmetic_that_nobody_does(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    command("run", "-q", firmware("hello"))
    code = (
        "import os, sys\n"
        "from spe_unicorn.__main__ import program\n"
        "def count(_):\n"
        "    print(len(os.listdir('/proc/self/task')), 'numpy' in sys.modules, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "os._exit = count\n"
        f"sys.argv[1:] = ['run', '-q', {str(firmware('hello'))!r}]\n"
        "program()\n"
    )
    environment = {key: value for key, value in os.environ.items() if "_NUM_THREADS" not in key}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert result.stdout.endswith("\n1 True\n"), result.stderr


def test_a_plain_run_loads_nothing_that_only_other_runs_need(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    command("run", "-q", firmware("hello"))  # whatever has to be compiled is in the cache then
    code = (
        "import os, sys\n"
        "from spe_unicorn.cli import program\n"
        "def loaded(_):\n"
        "    sys.stdout.write(' '.join(sys.modules))\n"
        "    sys.stdout.flush()\n"
        "    os.kill(os.getpid(), 9)\n"
        "os._exit = loaded\n"  # the last thing that the program does
        f"sys.argv[1:] = ['run', '-q', {str(firmware('hello'))!r}]\n"
        "program()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    greeting, _, names = result.stdout.rpartition("\n")
    assert greeting == "Hello from bare metal AArch64", result.stderr
    loaded = set(names.split())
    assert "spe_unicorn.machine.board" in loaded
    ours = {
        *("cli.commands.campaign", "cli.commands.regs", "cli.recordings", "debug.gdb"),
        *("debug.misuse", "debug.trace", "debug.travel", "machine.snapshot", "output.reader"),
        *("plugin", "report", "session.campaigns", "session.snapshot_file"),
    }
    others = {
        *("capstone", "http", "importlib.metadata", "numba", "pandas", "plotly", "pyarrow"),
        *("pytest", "socket", "ssl", "xml", "zstandard"),
    }
    assert loaded & (others | {f"spe_unicorn.{name}" for name in ours}) == set()


def test_an_error_of_ours_is_one_line_and_a_traceback_on_request(
    command: Callable[..., Any], firmware: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_):
        raise LookupError("nobody thought\nof this")

    monkeypatch.setattr("spe_unicorn.cli.run.session.run_session", fail)
    result = command("run", firmware("hello"), status=70)
    assert result.stderr.count("\n") == 1
    assert "internal error: LookupError: nobody thought of this (please report" in result.stderr
    with pytest.raises(AssertionError):
        command("--debug", "run", firmware("hello"), status=70)


# Cores


def test_a_core_without_spe_runs_firmware_that_asks_whether_it_is_there(
    command: Callable[..., Any],
    run_json: Callable[..., Any],
    tmp_path: Path,
    firmware: Callable[..., Any],
) -> None:
    core = tmp_path / "plain.toml"
    core.write_text('name = "plain"\nmidr = 0\nfeatures = ["EL2", "EL3", "FEAT_CSV3"]\n')
    assert "# SKIP" in command("run", "--core", str(core), firmware("spe_copy")).stdout
    said = run_json("run", "--core", str(core), firmware("spe_copy"))
    assert (said["population"], said["written"]) == (0, 0)


@pytest.mark.parametrize("core", ["generic", "minimal", "max", "neoverse-n1", "neoverse-v2"])
def test_firmware_checks_its_own_records_on_every_core(
    command: Callable[..., Any], firmware: Callable[..., Any], core: str
) -> None:
    result = command("run", "--core", core, firmware("spe_copy"))
    assert "not ok" not in result.stdout


def test_ctrl_c_before_the_guest_runs_ends_the_command_without_a_word(
    command: Callable[..., Any], firmware: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("spe_unicorn.cli.run.session.run_session", interrupted)
    result = command("run", firmware("hello"), status=130)
    assert result.output == ""


def test_samples_that_keep_step_with_a_loop_are_told_of(
    command: Callable[..., Any], run_json: Callable[..., Any], tmp_path: Path
) -> None:
    buffer = RAM + (1 << 20)
    code = [
        *[word for op, value in (
            ((3, 0, 9, 10, 1), buffer),  # PMBPTR_EL1
            ((3, 0, 9, 10, 0), buffer + (1 << 20) | 1),  # PMBLIMITR_EL1.E
            ((3, 0, 9, 10, 3), 0),  # PMBSR_EL1
            ((3, 0, 9, 9, 2), 0),  # PMSICR_EL1
            ((3, 0, 9, 9, 3), 4 << 8),  # PMSIRR_EL1: an interval of 1025 = 25 * 41
            ((3, 0, 9, 9, 0), 2),  # PMSCR_EL1.E1SPE
        ) for word in (*a64.mov64(0, value), a64.msr(op, 0))],
        a64.ISB,
        *[a64.NOP] * 40,
        a64.b(-160),
    ]  # fmt: skip
    options = ("--max-insns", "100000", program(tmp_path, a64.code(code)))
    said = " ".join(command("run", *options, status=124).stderr.split())
    assert "97 of 97 samples are of one operation, 0x" in said
    assert "an interval of 1025 operations keeps step with a loop; set PMSIRR_EL1.RND" in said
    (found,) = run_json("run", *options, status=124)["few_places"]
    assert (found["cpu"], found["samples"], found["following"], found["counted"]) == (0, 97, 0, 97)
    code[code.index(0xD2808000)] = a64.movz(0, 4 << 8 | 1)  # and RND
    said = command("run", "--max-insns", "100000", program(tmp_path, a64.code(code)), status=124)
    assert "keeps step" not in said.stderr


# Names


JUMPS = words(
    0xD2A80000,  # mov x0, #0x40000000
    0x91401400,  # add x0, x0, #0x5000
    0xD61F0000,  # br x0, where nothing but zeros are
)


@pytest.mark.parametrize("option", ["--symbols", "--elf"])
def test_other_files_name_addresses_where_the_program_has_none(
    command: Callable[..., Any], tmp_path: Path, option: str
) -> None:
    other = tmp_path / "other.elf"
    symbols = [Sym("payload", RAM + 0x4000, 0x2000), Sym("\x1b[2J", RAM + 0x8000, 4)]
    other.write_bytes(Elf([Load(RAM + 0x4000, bytes(0x5000), flags=7)], symbols=symbols).build())
    code = program(tmp_path, JUMPS)
    bare = command("run", code, status=126).stderr
    assert "PC   0x40005000 at EL1" in bare
    there = command("run", option, str(other), code, status=126).stderr
    assert "PC   0x40005000 <payload+0x1000> at EL1" in there
    moved = command("run", option, f"{other}@0x40001000", code, status=126).stderr
    assert "PC   0x40005000 <\\x1b[2J> at EL1" in moved


def test_a_file_of_symbols_that_cannot_be_used_is_refused(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    result = command("run", "--symbols", __file__, program(tmp_path, EXIT_7), status=2)
    assert "is not an ELF file" in result.stderr


def test_places_have_source_lines_where_the_program_has_them(
    command: Callable[..., Any], run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    options = ("run", "--max-insns", "40000", "--console", "none")
    assert re.search(
        r" <\w+\+0x\w+ \(\w+\.[cS]:\d+\)> EL1: ",
        command(*options, firmware("spe_full"), status=124).stderr,
    )
    (cpu,) = run_json(*options, firmware("spe_full"), status=124)["cpus"]
    assert re.fullmatch(r"\w+\.[cS]:\d+", cpu["line"])
    assert all("line" in call for call in cpu["backtrace"])
