from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from spe_unicorn.session.linux import archive
from spe_unicorn.session.linux.initramfs import Initramfs
from spe_unicorn.spe.packets import DataAddress, InstructionAddress, PhysicalAddress
from spe_unicorn.spe.record import Record
from tests.scripts.linux_modules import LINUX, ROOT, importable, module
from tests.session.linux.cpio import entries
from tests.support.running.processes import WALL_SECONDS, limit_cpu


@pytest.fixture(scope="module", autouse=True)
def _importable():
    with importable():
        yield


def linux(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(LINUX), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )


# The initial RAM disk


def test_files_links_and_devices_are_in_the_archive_with_their_folders_in_front():
    disk = Initramfs()
    disk.add("/opt/deep/program", b"12345")
    disk.link("usr/lib", "../lib")
    found = entries(disk.to_bytes())
    assert found["opt/deep/program"] == (0o100755, b"12345", (0, 0))
    assert found["usr/lib"] == (0o120777, b"../lib", (0, 0))
    assert found["dev/console"] == (0o20600, b"", (5, 1))
    names = list(found)
    assert names.index("opt") < names.index("opt/deep") < names.index("opt/deep/program")
    assert found["opt/deep"][0] == 0o40755


def test_a_file_that_is_added_again_is_replaced():
    disk = Initramfs()
    disk.add("init", b"old")
    disk.add("init", b"new")
    assert entries(disk.to_bytes())["init"][1] == b"new"


@pytest.mark.skipif(shutil.which("cpio") is None, reason="no cpio here")
def test_cpio_reads_the_archive():
    disk = Initramfs()
    disk.add("opt/program", b"x" * 7)
    listing = subprocess.run(["cpio", "-t"], input=disk.to_bytes(), capture_output=True, check=True)
    assert "opt/program" in listing.stdout.decode().splitlines()


def test_a_library_that_is_missing_is_named(tmp_path):
    program = shutil.which("true")
    if program is None:
        pytest.skip("no program that needs libraries")
    with pytest.raises(FileNotFoundError, match=r"needs libc\.so\.6, which is not below"):
        list(module("libraries").shared_objects(Path(program), tmp_path))


def test_a_static_program_needs_no_library(tmp_path):
    assert list(module("libraries").shared_objects(LINUX / "workload/hot", tmp_path)) == []


# What a recording shows


def test_chi_square_of_a_known_case():
    # expectation 20 each: (100 + 0 + 100) / 20; with two degrees of freedom the chance is exp(-5)
    statistic, chance = module("evidence").chi_square([(10, 20.0), (20, 20.0), (30, 20.0)])
    assert statistic == 10
    assert chance == pytest.approx(0.0067, abs=0.002)


def test_counts_as_expected_are_no_deviation():
    statistic, chance = module("evidence").chi_square([(20, 20.0), (30, 30.0), (5, 5.0)])
    assert statistic == 0
    assert chance > 0.99


CODE = {"load": range(0x1000, 0x1100), "other": range(0x2000, 0x2100)}


def record(pc: int, va: int | None = None, pa: int | None = None) -> Record:
    return Record(
        events=2,
        pc=InstructionAddress(pc),
        va=None if va is None else DataAddress(va),
        pa=None if pa is None else PhysicalAddress.of(NS=1, PA=pa),
    )


def test_samples_are_counted_by_function_beside_what_was_to_be_expected():
    records = [record(0x1000), record(0x10FF), record(0x1100), record(0x2000), record(0x2004)]
    found = module("evidence").shares(records, CODE, {"load": 300, "other": 100})
    assert found == {"load": (2, 3.0), "other": (2, 1.0)}


def test_an_access_outside_the_array_of_its_function_is_a_stray():
    inside, outside = record(0x1000, 0x8000), record(0x1000, 0x8008)
    elsewhere = record(0x2000, 0x9000)
    homes = {"load": range(0x8000, 0x8008)}
    assert module("evidence").strays([inside, outside, elsewhere], CODE, homes) == [outside]


def test_a_physical_address_is_compared_with_the_frame_of_its_page():
    good, bad, unknown = (
        record(0x1000, 0x8123, 0x45123),
        record(0x1000, 0x8123, 0x46123),
        record(0x1000, 0x9000, 0),
    )
    missing = record(0x1000, 0x8004)
    known, wrong = module("evidence").misplaced([good, bad, unknown, missing], {0x8000: 0x45})
    assert (known, wrong) == (3, [bad, missing])


def test_the_most_frequent_distance_is_given_with_its_part():
    assert module("evidence").most_frequent_distance([0, 64, 128, 200, 264]) == (64, 0.75)


def test_flags_of_pieces_of_the_buffer_are_counted():
    def piece(flags: int) -> bytes:
        return struct.pack("<IHHQQQ", 11, 0, 32, 0, 4096, flags)

    data = piece(0) + piece(1) + piece(0) + piece(9)
    header = struct.pack("<8sQQQQQQ16xQ24x", b"PERFILE2", 104, 144, 104, 0, 104, len(data), 0)
    assert module("evidence").aux_flags(header + data) == {"-": 2, "T": 1, "TC": 1}


def test_a_workload_that_was_cut_short_is_noticed():
    with pytest.raises(ValueError, match="did not print"):
        module("evidence").read_workload("pid 7\nclock 1 16\n")


def test_the_console_is_read_by_sections():
    text = "boot\n=== one\na\nb\n=== file x\nH4sIAAAAAAACA8tIBQCHZiXRAgAAAA==\n=== end of file\n"
    run = module("guest").Run(f"{text}=== exit status 3\nbye\n", "", 0, 1.0)
    assert run.section("one") == "a\nb\n"
    assert run.scenario_status == 3
    assert run.section("two") == ""
    assert run.file("x") == b"he"
    assert run.file("y") == b""


# The command


def test_without_a_scenario_the_scenarios_are_named():
    result = linux()
    assert result.returncode == 2
    assert "boot" in result.stderr
    assert "record" in result.stderr


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nothing"], "no scenario and no file is called 'nothing'"),
        (["--check", "nothing"], "no check is called 'nothing'"),
        (["boot", "--module", "no.ko"], "no file is called 'no.ko'"),
        (["boot", "--check", "el1"], "name scenarios, or say --check or --rate"),
    ],
)
def test_a_wrong_command_line_is_answered_with_what_there_is(arguments, complaint):
    result = linux(*arguments)
    assert result.returncode == 2
    assert complaint in " ".join(result.stderr.split())


@pytest.mark.sweep
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt here")
def test_without_an_archive_one_sentence_says_so(tmp_path):
    nobody = "http://127.0.0.1:9"
    result = linux("boot", "--cache", str(tmp_path), http_proxy=nobody, https_proxy=nobody)
    assert result.returncode == 77
    assert result.stderr.startswith("scripts/linux: ")
    assert "Traceback" not in result.stderr


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    result = linux("boot", "--cache", str(tmp_path / "cache"))
    assert result.returncode == 1
    assert result.stderr == (
        f"scripts/linux: cannot write {tmp_path}/cache/bookworm: "
        "Not a directory; --cache names another folder\n"
    )


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt here")
def test_a_folder_without_room_is_named_before_anything_is_fetched(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=5 << 20)
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(archive.GuestError, match=r"has room for 5 MiB, .* need 1024"):
        archive.fetch(tmp_path, "bookworm")
    assert not (tmp_path / "bookworm/apt").exists()


class Fetched:
    """What ``fetch`` leaves of a release, with ``files`` in the packages."""

    def __init__(self, cache: Path, *files: str) -> None:
        self.folder = cache / "bookworm"
        for name in files:
            file = self.folder / "root" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
        (self.folder / "complete").write_text("\n")


def test_packages_that_lack_something_are_an_error_and_not_absent(tmp_path):
    fetched = Fetched(tmp_path, "usr/bin/busybox", "boot/vmlinuz-6.1.0-1-cloud-arm64")
    result = linux("boot", "--cache", str(tmp_path))
    assert result.returncode == 1
    assert result.stderr == (
        f"scripts/linux: no usr/bin/perf below {fetched.folder}/root; "
        f"delete {fetched.folder} to fetch it all again\n"
    )


def test_a_kernel_without_the_module_is_an_error(tmp_path):
    Fetched(tmp_path, "usr/bin/busybox", "boot/vmlinuz-6.1.0-1-cloud-arm64")
    with pytest.raises(archive.GuestError, match=r"no module arm_spe_pmu of kernel 6\.1\.0-1"):
        archive.fetch(tmp_path, "bookworm").module("cloud", "arm_spe_pmu")


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg here")
def test_a_package_that_cannot_be_unpacked_is_an_error_and_named(tmp_path):
    broken = tmp_path / "perf.deb"
    broken.write_bytes(b"no archive")
    with pytest.raises(archive.GuestError, match=r"cannot unpack .*perf\.deb: .*; delete it"):
        archive.unpack(broken, tmp_path / "root")


def compiler() -> str:
    """The cross compiler and linker, as ``firmware/prebuilt/COMPILER`` names them; "" for none."""
    tools = [shutil.which(f"aarch64-linux-gnu-{tool}") for tool in ("gcc", "ld")]
    if None in tools:
        return ""
    said = [
        subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
        for tool in tools
        if tool
    ]
    return "".join(f"{text.splitlines()[0]}\n" for text in said)


@pytest.mark.skipif(
    compiler() != (ROOT / "firmware/prebuilt/COMPILER").read_text(),
    reason="the programs here were built by another cross compiler: see firmware/prebuilt/COMPILER",
)
def test_the_workload_is_what_its_sources_build(tmp_path):
    subprocess.run([LINUX / "workload/build", tmp_path], check=True)
    for name in ("hot", "kvm"):
        assert (tmp_path / name).read_bytes() == (LINUX / "workload" / name).read_bytes()


C2C = """\
# Index             Address  Node  PA cnt    Snoop    Total    Local   Remote  records
# .....  ..................  ....  ......  .......  .......  .......  .......  .......
#
      0            0x403000     0       1   50.00%       16       16        0       16
      1            0x405000     0      11   46.88%       15       15        0       15

#   Num      Rmt      Lcl   L1 Hit  L1 Miss      N/A              Offset  Node  PA cnt  Code
  ----------------------------------------------------------------------
      0        0       16        0        0        0            0x403000
  ----------------------------------------------------------------------
           0.00%   56.25%    0.00%    0.00%    0.00%                 0x10     0       1  0x4002e8
  ----------------------------------------------------------------------
      1        0       15        0        0        0            0x405000
  ----------------------------------------------------------------------
           0.00%   53.33%    0.00%    0.00%    0.00%                 0x0     0       1  0x400270
           0.00%   46.67%    0.00%    0.00%    0.00%                 0x8     0       1  0x4002d8
"""
"""Of what perf c2c prints, the columns up to the code address."""


def test_lines_and_offsets_that_perf_c2c_names():
    evidence = module("evidence")
    assert evidence.shared_lines(C2C) == {0x403000: 16, 0x405000: 15}
    assert evidence.offsets_of(C2C, 0x405000) == {0x0, 0x8}
    assert evidence.offsets_of(C2C, 0x403000) == {0x10}
    assert evidence.offsets_of(C2C, 0x404000) == set()
    coloured = C2C.replace(" 50.00%", "\x1b[31m 50.00%\x1b[m").replace(
        " 53.33%", "\x1b[31m 53.33%\x1b[m"
    )
    assert evidence.shared_lines(coloured) == {0x403000: 16, 0x405000: 15}
    assert evidence.offsets_of(coloured, 0x405000) == {0x0, 0x8}


# KVM's selftests

CONSOLE = """\
=== log
[    0.08] kvm [1]: VHE mode initialized successfully
=== selftest hypercalls
status 0
=== selftest arch_timer -m 0
status 4
1..0 # SKIP - At least two physical CPUs needed
=== selftest debug-exceptions -i 20
status 137
=== selftest vgic_irq
status 254
==== Test Assertion Failure ====
  lib/kvm_util.c:1: rc == 0
=== selftest psci_test
=== exit status 0
"""


def test_each_selftest_is_told_by_name():
    results = module("evidence").selftest_results(CONSOLE)
    assert [(result.good, result.told) for result in results] == [
        (True, "hypercalls"),
        (True, "arch_timer -m 0 # SKIP At least two physical CPUs needed"),
        (False, "debug-exceptions -i 20: still runs when its time is over"),
        (False, "vgic_irq: exit status 254"),
        (False, "psci_test: exit status None"),
    ]
    assert results[3].said == ("==== Test Assertion Failure ====", "  lib/kvm_util.c:1: rc == 0")


PERF_TEST = (
    " 21: Watchpoint :\r\n 21.1: Read Only Watchpoint   : Running (1 active)\r"
    " 21.1: Read Only Watchpoint      : Ok\r\n 21.2: Write Only Watchpoint : FAILED!\n"
    "134: Check Arm SPE doesn't hang when there are forks : Skip (no event)\n"
    "--- start ---\n  3: in the middle\n"
)


def test_verdicts_of_perf_s_own_tests_are_read():
    perf_tests = module("perf_tests")
    found = perf_tests.verdicts(PERF_TEST)
    assert found == [
        ("21.1 Read Only Watchpoint", "Ok"),
        ("21.2 Write Only Watchpoint", "FAILED!"),
        ("134 Check Arm SPE doesn't hang when there are forks", "Skip (no event)"),
    ]
    good = [perf_tests.PerfTest(*test, 0.0, ()).good for test in found]
    assert good == [True, False, True]


def test_perf_s_tests_may_have_what_bash_has_and_sh_has_not(tmp_path):
    shell, test = tmp_path / "bash", tmp_path / "test.sh"
    shell.write_text(module("perf_tests").SHELL.replace("/bin/busybox sh", "sh"))
    test.write_text(
        "counted() {\n\tlocal -i cnt=3\n\techo $cnt $1\n}\n"
        "taskset() { echo $*; }\ncounted $1\ntaskset --cpu-list 1 true\n"
        'grep() { echo "grep $*" >&2; }\n'
        'echo 7 |\n\tgrep -E " +$1 .*:(.*:)? +" > /dev/null 2>&3\nexit 4\n'
    )
    words = ["sh", "-c", 'exec 3>&1; exec sh "$@"', "sh", shell, test, "word"]
    done = subprocess.run(words, capture_output=True, text=True)
    said = "3 word\n-c 1 true\ngrep -q -E  +word .*:(.*:)? +\n"
    assert (done.stdout, done.returncode) == (said, 4)


def test_a_release_whose_perf_brings_no_tests_is_refused(tmp_path):
    (tmp_path / "root").mkdir()
    packages = archive.Packages(tmp_path / "root")
    with pytest.raises(archive.GuestError, match="no tests of perf's in"):
        list(module("perf_tests").run_tests(packages, ["Watchpoint"], ()))


def test_selftests_without_a_compiler_name_its_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    packages = archive.Packages(tmp_path / "bookworm/root")
    error = archive.ArchiveError
    with pytest.raises(error, match="install gcc-aarch64-linux-gnu"):
        module("selftests").selftests(packages)


def test_selftests_that_are_built_are_found(tmp_path):
    folder = tmp_path / "bookworm/kvm-selftests"
    (folder / "programs").mkdir(parents=True)
    for name in ("complete", "programs/psci_test", "programs/hypercalls"):
        (folder / name).touch()
    packages = archive.Packages(tmp_path / "bookworm/root")
    assert list(module("selftests").selftests(packages)) == ["hypercalls", "psci_test"]


def test_what_takes_long_is_no_usual_check():
    checks = module("checks")
    assert set(checks.ALL) - set(checks.USUAL) == {"kvm_selftests", "sessions", "perf_tests"}
    assert set(checks.BOUNDS) <= set(checks.ALL)
    assert "kvm_selftests" in linux("--check", "nothing").stderr


def test_a_check_that_takes_longer_than_its_bound_fails(monkeypatch, capsys):
    checks = module("checks")
    monkeypatch.setattr(checks, "ALL", {"mine": lambda checks, tap: None})
    packages = SimpleNamespace(release=lambda flavour: "6.1")
    for bound, status in ((600, 0), (0, 1)):
        monkeypatch.setattr(checks, "BOUNDS", {"mine": bound})
        assert checks.check(packages, "bookworm", ["mine"], ()) == status
    assert "not ok 1 - mine: it took 0 s of CPU, at most 0 are allowed" in capsys.readouterr().out
