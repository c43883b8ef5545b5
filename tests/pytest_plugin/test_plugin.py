"""The plugin as users see it: pytest in a folder of its own, down to the text of its failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.pytest_plugin import elf, golden, machine

pytest_plugins = ["pytester"]
IMPORTED = (elf, golden, machine)
"""Imported before pytest runs within pytest: numpy can be imported only once in a process."""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    """A user's folder with some of the shipped firmware in it."""
    for name in ("spe_copy", "uart_echo", "hello", "spe_misuse"):
        Path(pytester.path / f"{name}.elf").symlink_to(shipped_firmware(name))
    return pytester


def run(folder: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return folder.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *arguments)


def test_a_run_to_the_end_is_looked_at_by_what_it_did(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        def test_copy(spe_run):
            machine = spe_run("spe_copy.elf", seed=3, misuse=True)
            assert machine.exit_status == 0
            assert "the copy is right" in machine.console
            assert machine.registers.PMBSR_EL1.S == 0
            assert machine.records.where(op="load").count > 0
            assert machine.records.where(op="load", pc="nowhere").count == 0
            assert machine.pmu_events["SAMPLE_POP"] > machine.pmu_events["SAMPLE_FEED"] > 0
            assert machine.management_events == []
            assert machine.misuses == []
    """)
    run(folder).assert_outcomes(passed=1)


def test_runs_go_to_points_and_to_what_the_console_shows(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        def test_echo(spe_machine):
            machine = spe_machine("uart_echo.elf")
            machine.run_to("main")
            assert machine.pes[0].pc == machine.machine.symbol("main")
            machine.type("hello")
            assert machine.run_to_console("H(EL+)O")[1] == "ELL"
            machine.type(b"\\x04")
            assert machine.run_to_exit() == 0
    """)
    run(folder).assert_outcomes(passed=1)


def test_a_failure_shows_command_place_registers_trace_and_console(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile("""
        def test_buffer(spe_run):
            machine = spe_run("spe_copy.elf", core="max")
            assert machine.registers.PMBSR_EL1.S == 1
    """)
    result = run(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * assert 0 == 1",
            "E * where 0 = PMBSR_EL1(*).S",
            "*- spe-unicorn: to see it again -*",
            "spe-unicorn run --core max *spe_copy.elf",
            "*- spe-unicorn: where it is -*",
            "spe-unicorn: at 0x* EL1*",
            "*- spe-unicorn: registers -*",
            "cpu 0 EL1 PC *",
            "*- spe-unicorn: the last 50 lines of the trace -*",
            "*- spe-unicorn: console -*",
            "ok 25 - the copy is right",
        ]
    )


def test_a_deadline_that_goes_by_says_where_the_guest_is(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        def test_late(spe_run):
            spe_run("spe_copy.elf", deadline=3000)

        def test_never(spe_machine):
            spe_machine("hello.elf").run_to_console("good night")
    """)
    result = run(folder)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "E *RunError: the guest was to end itself, but the deadline of 3000 operations went by",
            "E * at 0x* EL1: *",
            "E *RunError: the console was to show 'good night', but the guest ended with status 0",
        ]
    )


def test_wrong_options_are_one_line(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        def test_many(spe_machine):
            spe_machine("hello.elf", smp=9)

        def test_missing(spe_machine):
            spe_machine("missing.elf")
    """)
    result = run(folder)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["E *OptionError: `smp` is a number of PEs from 1 to 8, got 9", "E *missing.elf*"]
    )


def test_a_matrix_repeats_a_test_with_each_combination(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        import pytest

        @pytest.mark.spe_matrix(core=["generic", "max"], seed=[0, 1], interval=[500])
        def test_it(spe_run, spe_options):
            machine = spe_run("spe_copy.elf")
            assert machine.machine.options.seed == spe_options["seed"]
            assert machine.records.count > 10
    """)
    result = run(folder, "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*test_it?core=max-seed=1-interval=500? PASSED*"])


def test_golden_records_are_written_compared_and_told_apart(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        def test_records(spe_run, spe_golden):
            spe_golden(spe_run("spe_copy.elf").records, "copy.spe")
    """)
    missing = run(folder)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["there is no *copy.spe: write it with --spe-update-golden"])
    written = run(folder, "--spe-update-golden")
    written.assert_outcomes(passed=1)
    written.stdout.fnmatch_lines(["spe-unicorn: wrote *copy.spe"])
    run(folder).assert_outcomes(passed=1)
    golden = folder.path / "golden" / "copy.spe"
    changed = bytearray(golden.read_bytes())
    changed[1] ^= 4
    golden.write_bytes(changed)
    result = run(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * 1 differ", "E * record 0:"])


def test_an_elf_that_speaks_tap_is_a_test_a_line(folder: pytest.Pytester) -> None:
    result = run(folder, "--spe-elf", "spe_copy.elf", "-v")
    result.assert_outcomes(passed=25)
    result.stdout.fnmatch_lines(["*25 - the copy is right PASSED*"])


def test_an_elf_without_tap_is_one_test_by_its_status(folder: pytest.Pytester) -> None:
    result = run(folder, "--spe-elf", "hello.elf", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*hello.elf::exit status PASSED*"])


@pytest.mark.parametrize("arguments", [(), ("test_other.py",)], ids=["alone", "beside"])
def test_files_in_a_build_folder_are_found_and_nothing_else_there(
    folder: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    (folder.path / "build" / "deep").mkdir(parents=True)
    (folder.path / "hello.elf").rename(folder.path / "build" / "deep" / "hello.elf")
    (folder.path / "build" / "test_copy_of_mine.py").write_text("def test_it(): assert False")
    folder.makepyfile(test_other="def test_it(): pass")
    result = run(folder, *arguments, "--spe-elf", "build/**/*.elf", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*hello.elf::exit status PASSED*"])


def test_a_file_that_is_no_elf_fails_with_the_reason(folder: pytest.Pytester) -> None:
    (folder.path / "broken.elf").write_text("no ELF at all")
    result = run(folder, "--spe-elf", "broken.elf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*broken.elf*ELF*"])


def test_a_pattern_without_files_is_a_usage_error(folder: pytest.Pytester) -> None:
    result = run(folder, "--spe-elf", "build/*.elf")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: build/?.elf: there is no such file below *"])


def test_pyproject_names_files_options_input_and_limits(folder: pytest.Pytester) -> None:
    folder.makepyprojecttoml("""
        [[tool.spe-unicorn.elf]]
        files = ["uart_*.elf"]
        core = "max"
        ram = "64M"
        input = "abc\\u0004"

        [[tool.spe-unicorn.elf]]
        files = ["spe_copy.elf"]
        max_insns = 2000
    """)
    result = run(folder, "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["*uart_echo.elf::exit status PASSED*", "the run ended by limit", "to see it again: *"]
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("filez = []", "*table 1 *: nothing is called 'filez': did you mean 'files'?"),
        ("core = 'max'", "*table 1 *: files is missing, a list of patterns"),
        ("files = ['hello.elf']\nsmp = 12", "*table 1 *: `smp` is a number of PEs from 1 to 8*"),
        ("files = 'hello.elf'", "*table 1 *: files: is a list of texts, got 'hello.elf'"),
    ],
)
def test_a_wrong_table_is_a_usage_error(folder: pytest.Pytester, line: str, said: str) -> None:
    (folder.path / "pyproject.toml").write_text(f"[[tool.spe-unicorn.elf]]\n{line}\n")
    result = run(folder)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}"])


def test_each_elf_runs_once_under_xdist_and_junit_has_every_line(folder: pytest.Pytester) -> None:
    result = folder.runpytest_subprocess(
        *("-p", "no:cacheprovider", "-n", "2", "--spe-elf", "spe_copy.elf"),
        *("--junitxml=report.xml", f"--basetemp={folder.path / 'base'}"),
    )
    result.assert_outcomes(passed=25)
    runs = list((folder.path / "base" / "spe-unicorn").glob("*.json"))
    assert len(runs) == 1
    assert (folder.path / "report.xml").read_text().count("<testcase ") == 25


def test_nothing_heavy_is_imported_by_a_run_without_machines(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        import sys

        def test_light():
            heavy = {"unicorn", "numba", "numpy", "capstone", "spe_unicorn.session"}
            assert not heavy & set(sys.modules)
    """)
    result = folder.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
