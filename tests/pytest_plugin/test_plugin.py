"""The plugin as users see it: pytest in a folder of its own, down to the text of its failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.pytest_plugin import elf as elf_tests
from spe_unicorn.pytest_plugin import evidence, golden, machine
from tests.support.elf_builder import RAM, Elf, Load
from tests.support.small_programs import printing

pytest_plugins = ["pytester"]
IMPORTED = (elf_tests, evidence, golden, machine)
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
            assert machine.records.where(op="load", pc="copy").count > 20
            assert machine.records.where(op="load", pc="main").count == 0
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


WRONG = {
    "m('hello.elf', sede=3)": "*OptionError: no option is called `sede`: did you mean `seed`?",
    "m('hello.elf', core='neo')": "*CoreError: core 'neo': allowed are *",
    "m('hello.elf', core=7)": "*OptionError: `core` is a name, *, got 7",
    "m('hello.elf', interval=0)": "ValueError: interval is a number of operations *",
    "m()": "*LoadError: nothing to run: *",
    "m('hello.elf').run_to('mian')": "*PointError: hello.elf has no symbol 'mian': *'main'?",
    "m('hello.elf').run_to_console('(')": "ValueError: '(' is no pattern: *",
    "m('hello.elf').registers.PMSCRX_EL1": "AttributeError: *: did you mean PMSCR_EL1?",
    "m('hello.elf').registers.PMSCR_EL1.E9SPE": "AttributeError: *no field E9SPE; *, E1SPE, E0SPE",
    "m('hello.elf').pes[0].x[44]": "IndexError: no register x44: they end with x30",
    "m('hello.elf').memory.read(0, 4)": "*GuestMemoryError: no memory at physical address 0x0*",
    "m('hello.elf').records.where(pc='mian')": "*PointError: hello.elf has no symbol 'mian': *",
    "m('hello.elf').records.where(lc='main')": "TypeError: records are not picked by 'lc': *",
    "m('hello.elf').misuses": "ValueError: nobody looked for mistakes: *",
}


def test_what_a_test_does_wrong_is_said_at_its_line_without_frames_of_ours(
    folder: pytest.Pytester,
) -> None:
    lines = [f"def test_{n}(spe_machine): m = spe_machine; {code}" for n, code in enumerate(WRONG)]
    folder.makepyfile("\n".join(lines))
    result = run(folder, "--tb=short")
    result.assert_outcomes(failed=len(WRONG))
    for said in WRONG.values():
        result.stdout.fnmatch_lines([f"E   {said}"])
    result.stdout.no_fnmatch_line("*spe_unicorn*.py:*")


def test_a_failure_before_the_test_or_without_a_traceback_shows_the_machine_too(
    folder: pytest.Pytester,
) -> None:
    folder.makepyfile("""
        import pytest

        @pytest.fixture
        def booted(spe_machine):
            machine = spe_machine("uart_echo.elf")
            machine.type("50% 'a'\\n")
            machine.run_to_console("ready", deadline=20_000)

        def test_booted(booted):
            pass

        def test_text(spe_machine):
            machine = spe_machine("uart_echo.elf", arguments=("-v",))
            machine.run(100)
            machine.type("later")
            pytest.fail("a reason", pytrace=False)
    """)
    result = run(folder)
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "E *RunError: the console was to show 'ready', but *",
            """printf '50\\045 '"'"'a'"'"'\\012' | spe-unicorn run --max-insns * *uart_echo.elf""",
            "a reason",
            "*spe-unicorn: to see it again*",
            "spe-unicorn run --max-insns 100 *uart_echo.elf -- -v",
            "at operation 100 the test typed b'later'",
            "*spe-unicorn: where it is*",
        ]
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


@pytest.mark.parametrize("name", ["copy.spe", "../golden/copy.spe"])
def test_a_golden_file_is_for_one_test(folder: pytest.Pytester, name: str) -> None:
    folder.makepyfile(f"""
        def test_one(spe_run, spe_golden):
            spe_golden(spe_run("spe_copy.elf", seed=1).records, "copy.spe")

        def test_other(spe_run, spe_golden):
            spe_golden(spe_run("spe_copy.elf", seed=2).records, "{name}")
    """)
    written = run(folder, "--spe-update-golden")
    written.assert_outcomes(passed=1, failed=1)
    written.stdout.fnmatch_lines(
        ["*copy.spe is the golden file of *::test_one as well: give each test a name of its own"]
    )
    assert (folder.path / "golden" / "copy.spe").read_bytes()
    compared = run(folder)
    compared.assert_outcomes(passed=1, failed=1)


def test_a_test_may_ask_for_its_golden_file_twice(folder: pytest.Pytester) -> None:
    folder.makepyfile("""
        def test_one(spe_run, spe_golden):
            machine = spe_run("spe_copy.elf", seed=1)
            spe_golden(machine.records, "copy.spe")
            spe_golden(machine.records, "copy.spe")
    """)
    run(folder, "--spe-update-golden").assert_outcomes(passed=1)
    run(folder).assert_outcomes(passed=1)


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


def elf(folder: pytest.Pytester, name: str, text: str, status: int | None = 0) -> None:
    """An ELF file that prints a text and exits, or goes on for ever."""
    load = Load(RAM, printing(text, status), flags=7)
    (folder.path / f"{name}.elf").write_bytes(Elf([load]).build())


def test_failed_lines_come_with_their_diagnostics_and_the_command(folder: pytest.Pytester) -> None:
    elf(folder, "a", "1..2\nok 1 - one\nnot ok 2 - two\n# wanted 3\n# got 4\n", 1)
    result = run(folder, "--spe-elf", "a.elf")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*a.elf: 2 - two*",
            "not ok: two",
            "# wanted 3",
            "# got 4",
            "",
            "to see it again: spe-unicorn run --max-insns 1000000000 *a.elf",
        ]
    )


def test_skip_todo_and_bail_out_mean_what_they_say(folder: pytest.Pytester) -> None:
    elf(folder, "a", "1..3\nok 1 # SKIP no EL2\nnot ok 2 # TODO later\nok 3 - c # TODO done?\n")
    elf(folder, "b", "1..3\nok 1 - fine\nBail out! the buffer is gone\n", 1)
    elf(folder, "c", "1..0 # SKIP no SPE here\n")
    result = run(folder, "--spe-elf", "[abc].elf", "-rs")
    result.assert_outcomes(passed=1, skipped=2, xfailed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "it passes, though it is still to do: done?",
            "Bail out! the buffer is gone; the guest ended with status 1",
            "SKIPPED *no EL2",
            "SKIPPED *no SPE here",
        ]
    )


def test_an_elf_that_hangs_in_half_a_line_is_told_so(folder: pytest.Pytester) -> None:
    folder.makepyprojecttoml("""
        [[tool.spe-unicorn.elf]]
        files = ["half.elf"]
        max_insns = 1000
        arguments = ["-v"]
        input = "go\\n"
    """)
    elf(folder, "half", "1..2\nok 1 - one\nnot o", None)
    result = run(folder)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "2 tests are planned, 1 were made; the limit of 1000 operations was reached;"
            " the last line is not whole: 'not o'",
            r"to see it again: printf 'go\012' | spe-unicorn run --max-insns 1000 *half.elf -- -v",
            "spe-unicorn: at 0x4000000c *",
            "console:",
            "not o",
        ]
    )


def test_a_suite_that_idles_at_its_end_passes_at_its_last_line(folder: pytest.Pytester) -> None:
    elf(folder, "idles", "Running\nPROJECT EXECUTION SUCCESSFUL\n", None)
    elf(folder, "fails", "Running\nPROJECT EXECUTION FAILED\n", None)
    elf(folder, "leaves", "Running\n", 0)
    folder.makepyprojecttoml("""
        [[tool.spe-unicorn.elf]]
        files = ["idles.elf", "fails.elf", "leaves.elf"]
        until = "console:EXECUTION SUCCESSFUL"
        max_insns = 100_000
    """)
    result = run(folder, "-v")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*idles.elf::exit status PASSED*",
            "the limit of 100000 operations was reached, and console:EXECUTION SUCCESSFUL was not"
            " reached",
            "to see it again: spe-unicorn run --until 'console:EXECUTION SUCCESSFUL' --max-insns"
            " 100000 *fails.elf",
            "the guest ended with status 0, and console:EXECUTION SUCCESSFUL was not reached",
        ]
    )


def test_lines_of_tap_count_up_to_the_point_as_well(folder: pytest.Pytester) -> None:
    elf(folder, "a", "1..2\nok 1 - one\nok 2 - two\n# done\n", None)
    result = run(folder, "--spe-elf", "a.elf", "--spe-until", "console:# done", "-v")
    result.assert_outcomes(passed=2)
    elf(folder, "b", "1..1\nok 1 - one\n", 0)
    result = run(folder, "--spe-elf", "b.elf", "--spe-until", "console:# done", "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["the guest ended with status 0, and console:# done was not*"])


def test_elf_files_run_with_each_seed(folder: pytest.Pytester) -> None:
    elf(folder, "a", "1..2\nok 1 - one\nnot ok 2 - two\n")
    elf(folder, "b", "hello\n", 3)
    result = run(folder, "--spe-elf", "[ab].elf", "--spe-seeds", "6-8", "-v")
    result.assert_outcomes(passed=3, failed=6)
    for seed in (6, 7, 8):
        result.stdout.fnmatch_lines_random(
            [
                f"a.elf::1 - one?seed={seed}? PASSED*",
                f"a.elf::2 - two?seed={seed}? FAILED*",
                f"b.elf::exit status?seed={seed}? FAILED*",
                f"to see it again: spe-unicorn run --seed {seed} *b.elf",
            ]
        )
    one = run(folder, "--spe-elf", "a.elf", "--spe-seeds", "7", "-v")
    one.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--spe-seeds", "0-3"), "--spe-seeds needs --spe-elf"),
        (
            ("--spe-elf", "hello.elf", "--spe-seeds", "3-x"),
            "--spe-seeds: '3-x' is no range of seeds such as 0-31",
        ),
        (
            ("--spe-elf", "hello.elf", "--spe-seeds", "3-2"),
            "--spe-seeds: '3-2' is no range of seeds such as 0-31",
        ),
        (
            ("--spe-elf", "hello.elf", "--spe-seeds", "0-99999999"),
            "--spe-seeds: 100000000 seeds are more than 10000",
        ),
        (("--spe-until", "main"), "--spe-until needs --spe-elf"),
        (("--spe-elf", "hello.elf", "--spe-until", "12ab"), "--spe-until: '12ab' is no POINT*"),
    ],
)
def test_an_option_that_cannot_be_meant_is_a_usage_error(
    folder: pytest.Pytester, arguments: tuple[str, ...], said: str
) -> None:
    result = run(folder, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}"])


def test_no_output_of_a_guest_reaches_the_terminal_as_a_command(folder: pytest.Pytester) -> None:
    elf(folder, "a", "1..2\nok 1 - \x1b[2J clear\nnot ok 2 - \x07 bell\n# \x1b]0;title\x07\n")
    elf(folder, "b", "\x1b[31mred\n", 1)
    folder.makepyfile("""
        def test_b(spe_run):
            assert spe_run("b.elf").exit_status == 0
    """)
    result = run(folder, "--spe-elf", "[ab].elf", "-v")
    result.assert_outcomes(passed=1, failed=3)
    assert "\x1b" not in result.stdout.str()
    assert "\x07" not in result.stdout.str()
    result.stdout.fnmatch_lines([r"*1 - \x1b?2J clear PASSED*", r"\x1b?31mred"])


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
        [
            "*uart_echo.elf::exit status PASSED*",
            "the limit of 2000 operations was reached",
            "to see it again: *",
        ]
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("filez = []", "*table 1 *: nothing is called 'filez': did you mean 'files'?"),
        ("files = ['hello.elf']\nuntil = '1x'", "*table 1 *: until: '1x' is no POINT*"),
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
