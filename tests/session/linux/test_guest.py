"""A Linux guest's files and modules, and what its console says of its end."""

from __future__ import annotations

import lzma
import os
import subprocess
from pathlib import Path

import pytest

from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.guest import Contents
from spe_unicorn.session.linux.modules import Modules, needs
from spe_unicorn.session.linux.watch import Watch
from tests.session.linux.cpio import entries


def module_of(*needed: str) -> bytes:
    """As modpost writes it: strings, each with an end, in the section .modinfo."""
    return b"\x7fELF...\0license=GPL\0depends=" + ",".join(needed).encode() + b"\0name=x\0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fs").mkdir()
    (tmp_path / "fs/9p.ko").write_bytes(module_of("9pnet", "netfs"))
    (tmp_path / "9pnet.ko.xz").write_bytes(lzma.compress(module_of()))
    (tmp_path / "netfs.ko").write_bytes(module_of("fscache"))
    (tmp_path / "fscache.ko").write_bytes(module_of())
    (tmp_path / "virtio-rng.ko").write_bytes(module_of("fscache"))
    (tmp_path / "lone.ko").write_bytes(module_of("gone"))
    (tmp_path / "packed.ko.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    return tmp_path


def test_a_module_stands_after_all_that_it_needs(folder: Path) -> None:
    found = Modules([folder]).closure(["9p", "virtio_rng"])
    assert [name for name, _ in found] == ["9pnet", "fscache", "netfs", "9p", "virtio_rng"]
    assert all(data.startswith(b"\x7fELF") for _, data in found)


def test_a_file_brings_what_lies_beside_it(folder: Path) -> None:
    found = Modules([]).closure([str(folder / "netfs.ko")])
    assert [name for name, _ in found] == ["fscache", "netfs"]


def test_a_module_without_needs() -> None:
    assert needs(module_of()) == []
    assert needs(b"\x7fELF of a kernel without .modinfo") == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lone", "no module gone, which lone needs, in"),
        ("other", "no module other in"),
        ("packed", "packed by another program than xz or gzip"),
    ],
)
def test_a_module_that_cannot_be_loaded_is_refused(folder: Path, name: str, said: str) -> None:
    with pytest.raises(GuestError, match=said):
        Modules([folder]).closure([name])


def test_two_modules_that_need_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "a.ko").write_bytes(module_of("b"))
    (tmp_path / "b.ko").write_bytes(module_of("a"))
    assert [name for name, _ in Modules([tmp_path]).closure(["a"])] == ["b", "a"]


def test_a_folder_is_added_with_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep/empty").mkdir(parents=True)
    (tmp_path / "deep/file").write_bytes(b"12")
    os.symlink("file", tmp_path / "deep/link")
    disk = Contents(b"box", ("true",), added=((tmp_path / "deep", "/opt/deep"),)).to_bytes()
    found = entries(disk)
    assert found["opt/deep/file"][:2] == (0o100755, b"12")
    assert found["opt/deep/link"][:2] == (0o120777, b"file")
    assert found["opt/deep/empty"][0] == 0o40755


def test_the_first_program_is_a_shell_script_that_runs_the_command_as_it_was_given() -> None:
    disk = Contents(b"box", ("echo", "a b", "$x"), (("9p", b"1"),), (), (("share0", "/out"),))
    found = entries(disk.to_bytes())
    script = found["init"][1].decode()
    assert "\necho 'a b' '$x'\nstatus=$?\n" in script
    assert script.index("share0 /out") < script.index("echo 'a b'") < script.index("umount /out")
    assert found["out"][0] == 0o40755
    assert found["modules/000-9p.ko"][1] == b"1"
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)


def watched(*pieces: bytes) -> Watch:
    watch = Watch()
    for piece in pieces:
        watch.read(piece)
    return watch


def test_the_status_is_read_wherever_the_console_cuts_its_line() -> None:
    assert watched(b"hello\r\n=== exit st", b"atus 7\r", b"\n").status == 7
    assert watched(b"=== exit status 7").status is None
    assert watched(b"it said === exit status 7\r\n").status is None


# Lines as Linux prints them: kernel/panic.c, mm/kasan/report.c, kernel/rcu/tree_stall.h,
# kernel/locking/lockdep.c, arch/arm64/kernel/traps.c
REPORTS = (
    b"WARNING: CPU: 0 PID: 71 at drivers/perf/arm_spe_pmu.c:624 arm_spe_pmu_irq_handler+0x1c/0x2a0",
    b"WARNING: possible circular locking dependency detected",
    b"BUG: KASAN: slab-out-of-bounds in arm_spe_pmu_start+0x8/0x10 [arm_spe_pmu]",
    b"BUG: sleeping function called from invalid context at kernel/locking/mutex.c:580",
    b"Internal error: Oops: 0000000096000004 [#1] SMP",
    b"rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    b"rcu: INFO: rcu_sched self-detected stall on CPU",
    b"INFO: task perf:71 blocked for more than 120 seconds.",
)


@pytest.mark.parametrize("report", REPORTS)
def test_what_the_kernel_reports_is_noticed(report: bytes) -> None:
    watch = watched(b"[    1.234567] " + report + b"\r\n", b"[   12.5][   T71] " + report + b"\r\n")
    assert watch.complaints == [report.decode()] * 2
    assert watch.panic is None


def test_what_a_program_prints_is_no_report_of_the_kernel() -> None:
    assert watched(b"WARNING: CPU\r\n[    0.1] arm_spe_pmu: no BUG: at all\r\n").complaints == []


def test_a_panic_is_noticed() -> None:
    watch = watched(b"[    1.0] Kernel panic - not syncing: Attempted to kill init!\r\n")
    assert watch.panic == "Attempted to kill init!"
    assert len(watch.complaints) == 1


def test_little_is_kept_whatever_is_printed() -> None:
    watch = watched(*[b"[    1.0] BUG: one\n"] * 1000, *[b"x" * 100_000] * 10)
    assert len(watch.complaints) == 20
    assert len(watch._line) <= 4096
