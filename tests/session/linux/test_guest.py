"""A Linux guest's files and modules, and what its console says of its end."""

from __future__ import annotations

import lzma
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn import zstd
from spe_unicorn.machine.shipped import linux_program
from spe_unicorn.session.linux import archive, steps
from spe_unicorn.session.linux.archive import Apt, ArchiveError, GuestError, fetch
from spe_unicorn.session.linux.guest import Contents, command_line
from spe_unicorn.session.linux.initramfs import Initramfs
from spe_unicorn.session.linux.modules import Modules, needs
from spe_unicorn.session.linux.planned import Planned, Wanted, planned
from spe_unicorn.session.linux.watch import Watch
from tests.session.linux.cpio import entries
from tests.session.linux.kernel_reports import REPORTS


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
    (tmp_path / "new.ko.zst").write_bytes(zstd.compress(module_of("fscache"), 3))
    (tmp_path / "packed.ko.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    (tmp_path / "other_kind.ko.lz4").write_bytes(b"\x04\x22\x4d\x18")
    return tmp_path


def test_a_module_stands_after_all_that_it_needs(folder: Path) -> None:
    found = Modules([folder]).closure(["9p", "virtio_rng"])
    assert [name for name, _ in found] == ["9pnet", "fscache", "netfs", "9p", "virtio_rng"]
    assert all(data.startswith(b"\x7fELF") for _, data in found)


def test_a_file_brings_what_lies_beside_it(folder: Path) -> None:
    found = Modules([]).closure([str(folder / "netfs.ko")])
    assert [name for name, _ in found] == ["fscache", "netfs"]
    found = Modules([]).closure([str(folder / "new.ko.zst")])
    assert found == [("fscache", module_of()), ("new", module_of("fscache"))]


def test_a_module_without_needs() -> None:
    assert needs(module_of()) == []
    assert needs(b"\x7fELF of a kernel without .modinfo") == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lone", "no module gone, which lone needs, in"),
        ("other", "no module other in /"),
        ("packed", "packed.ko.zst"),
        ("other_kind", "packed by another program than xz, gzip or zstd"),
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
    disk = Contents(steps.run(["true"]), b"box", added=((tmp_path / "deep", "/opt/deep"),))
    found = entries(disk.to_bytes())
    assert found["opt/deep/file"][:2] == (0o100755, b"12")
    assert found["opt/deep/link"][:2] == (0o120777, b"file")
    assert found["opt/deep/empty"][0] == 0o40755


def test_a_folder_can_be_the_root_and_our_first_program_stays(tmp_path: Path) -> None:
    (tmp_path / "init").write_bytes(b"theirs")
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/tool").write_bytes(b"12")
    found = entries(Contents(b"", added=((tmp_path, "/"),)).to_bytes())
    assert found["sbin/tool"][1] == b"12"
    assert found["init"][1] == linux_program("init").read_bytes()


def wanted(tmp_path: Path, **more: Any) -> Planned:
    kernel, box = tmp_path / "kernel", tmp_path / "box"
    kernel.write_bytes(b"9p2000.L" + bytes(64))
    box.write_bytes(b"box")
    return planned(Wanted(("echo", "a b"), kernel, busybox=str(box), **more))


def steps_of(plan: Planned) -> list[str]:
    texts = entries(plan.initrd)["init.steps"][1].decode().split("\0")
    assert texts.pop() == ""
    return texts


INSTALL = ["do", "4", "/bin/busybox", "--install", "-s", "/bin"]
RUN = ["run", "2", "echo", "a b"]
SHARED = ["trans=virtio,version=9p2000.L,msize=512000,cache=mmap,noxattr"]
AS_ROOT = ["trans=virtio,version=9p2000.L,msize=512000,cache=loose"]


def test_the_first_program_is_told_what_to_do_and_in_which_order(
    folder: Path, tmp_path: Path
) -> None:
    plan = wanted(tmp_path, modules=folder, module=["netfs"], out=tmp_path, shared=("mine",))
    loads = ["module", "/modules/000-9pnet.ko", "module", "/modules/001-fscache.ko"]
    loads += ["module", "/modules/002-netfs.ko", "module", "/modules/003-9p.ko"]
    mounts = ["share", "share1", "/out", *SHARED]
    assert steps_of(plan) == [*INSTALL, *loads, *mounts, *RUN]
    assert plan.stored.share == ("mine", str(tmp_path))
    assert entries(plan.initrd)["modules/003-9p.ko"][1] == module_of("9pnet", "netfs")


@pytest.mark.parametrize(
    ("point", "before", "after"),
    [
        ("boot", "{install} ready", "{module} {root} {out}"),
        ("modules", "{install} {module} ready", "{root} {out}"),
        ("insmod 'a b'", "{install} {module} {root} do 2 insmod a_b ready", "{out}"),
    ],
)
def test_a_point_parts_the_steps(
    folder: Path, tmp_path: Path, point: str, before: str, after: str
) -> None:
    words = {
        "install": " ".join(INSTALL),
        "module": "module /modules/000-fscache.ko",
        "root": f"root share0 {AS_ROOT[0]}",
        "out": f"share share1 /out {SHARED[0]}",
    }
    plan = wanted(
        tmp_path,
        module=[str(folder / "fscache.ko")],
        root="theirs",
        out=tmp_path,
        point=point,
    )
    told = [text.replace(" ", "_") for text in steps_of(plan)]
    assert told == before.format(**words).split()
    assert plan.after.decode().split("\0")[:-1] == after.format(**words).split()
    assert plan.stored.share == ("theirs", str(tmp_path))
    assert plan.stored.mounted == 1


DISK_WORDS = b"virtio_blk EXT4-fs"


def test_a_kernel_without_9p_has_a_root_and_out_by_disks(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/file").write_bytes(b"12")
    kernel = tmp_path / "kernel"
    kernel.write_bytes(DISK_WORDS + bytes(64))
    plan = planned(Wanted(("true",), kernel, root=str(tmp_path / "root"), out=tmp_path / "out"))
    told = ["diskroot", "spe-root", "disk", "spe-out", "/out", "run", "1", "true"]
    assert steps_of(plan) == told
    assert "file" not in entries(plan.initrd)
    drives = plan.stored.drives(tmp_path)
    assert drives == (f"{tmp_path}/spe-root.disk", f"{tmp_path}/spe-out.disk,write")
    later = planned(Wanted((), kernel, busybox="none", out=tmp_path / "out", point="modules"))
    assert steps_of(later) == ["ready"]
    assert later.after.decode().split("\0")[:-1] == ["disk", "spe-out", "/out"]


def test_modules_of_a_disk_are_loaded_where_the_kernel_has_them(tmp_path: Path) -> None:
    for name, needed in (
        ("virtio_mmio", ()),
        ("virtio_blk", ()),
        ("ext4", ("jbd2",)),
        ("jbd2", ()),
    ):
        (tmp_path / f"{name}.ko").write_bytes(module_of(*needed))
    (tmp_path / "crc32c_generic.ko").write_bytes(module_of())
    kernel = tmp_path / "kernel"
    kernel.write_bytes(bytes(64))
    plan = planned(Wanted(("true",), kernel, busybox="none", modules=tmp_path, out=tmp_path))
    loaded = [text.partition("-")[2] for text in steps_of(plan) if text.startswith("/modules")]
    names = ["virtio_mmio", "virtio_blk", "crc32c_generic", "jbd2", "ext4"]
    assert loaded == [f"{name}.ko" for name in names]


def test_a_kernel_with_neither_has_a_copy_of_the_root_and_no_out(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/file").write_bytes(b"12")
    kernel = tmp_path / "kernel"
    kernel.write_bytes(bytes(64))
    plan = planned(Wanted(("true",), kernel, root=str(tmp_path / "root")))
    assert entries(plan.initrd)["file"][1] == b"12"
    assert (plan.stored.share, plan.stored.drives(tmp_path)) == ((), ())
    with pytest.raises(
        GuestError, match="no virtiofs and no 9p, by which folders are shared, and no virtio_blk"
    ):
        planned(Wanted(("true",), kernel, busybox="none", out=tmp_path))


def test_what_is_only_read_is_in_the_ram_disk_without_9p(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/one").write_bytes(b"12")
    kernel = tmp_path / "kernel"
    kernel.write_bytes(bytes(64))
    mounts = ((f"{tmp_path}/tests,readonly", "/tests"),)
    plan = planned(Wanted((), kernel, busybox="none", mounts=mounts, point="modules"))
    assert entries(plan.initrd)["tests/one"][1] == b"12"


NEW = b"Linux version 6.6.0 virtiofs" + bytes(64)


def test_a_kernel_with_virtiofs_has_by_it_what_it_writes(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    kernel = tmp_path / "kernel"
    kernel.write_bytes(NEW + b"9p2000.L")
    more: dict[str, Any] = {
        "root": str(tmp_path / "root"),
        "mounts": (("tests,readonly", "/tests"),),
    }
    plan = planned(Wanted(("true",), kernel, out=tmp_path, told=tmp_path, **more))
    tells = ["fs", "share1", "/names", "copy", "/proc/kallsyms", "/names/kallsyms"]
    mounts = ["fs", "share2", "/tests", "fs", "share3", "/out"]
    assert steps_of(plan) == [*tells, "root", "share0", *AS_ROOT, *mounts, "run", "1", "true"]
    folders = (f"{tmp_path},virtiofs", "tests,readonly,virtiofs", f"{tmp_path},virtiofs")
    assert plan.stored.share == (str(tmp_path / "root"), *folders)


def test_a_kernel_with_virtiofs_and_without_9p_has_its_root_by_a_disk(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    kernel = tmp_path / "kernel"
    kernel.write_bytes(NEW + DISK_WORDS)
    plan = planned(Wanted(("true",), kernel, root=str(tmp_path / "root"), out=tmp_path / "out"))
    told = ["diskroot", "spe-root", "fs", "share0", "/out", "run", "1", "true"]
    assert steps_of(plan) == told
    assert plan.stored.share == (f"{tmp_path}/out,virtiofs",)
    assert plan.stored.drives(tmp_path) == (f"{tmp_path}/spe-root.disk",)
    kernel.write_bytes(NEW)
    copied = planned(Wanted(("true",), kernel, root=str(tmp_path / "root"), out=tmp_path / "out"))
    assert (copied.stored.drives(tmp_path), copied.stored.share) == ((), plan.stored.share)


@pytest.mark.parametrize(
    ("version", "verb"),
    [("6.5.13", "share"), ("6.6.1", "fs"), ("7.0.0", "fs"), ("5.10.0", "share")],
)
def test_a_module_of_virtiofs_says_for_which_kernel_it_is(
    folder: Path, tmp_path: Path, version: str, verb: str
) -> None:
    module = module_of("fuse") + f"vermagic={version}-arm64 SMP mod_unload\0".encode()
    (folder / "virtiofs.ko.xz").write_bytes(lzma.compress(module))
    (folder / "fuse.ko").write_bytes(module_of())
    plan = wanted(tmp_path, modules=folder, out=tmp_path)
    told = steps_of(plan)
    assert (told[told.index("/out") - 2], ("virtiofs" in dict(plan.modules))) == (
        verb,
        verb == "fs",
    )


def test_an_older_kernel_has_virtiofs_where_it_has_no_9p(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel"
    kernel.write_bytes(b"Linux version 6.1.0 virtiofs" + DISK_WORDS + bytes(64))
    plan = planned(Wanted(("true",), kernel, out=tmp_path / "out"))
    assert (plan.stored.share, plan.stored.out) == ((f"{tmp_path}/out,virtiofs",), None)


def test_names_are_told_before_the_command_or_by_steps_of_their_own(tmp_path: Path) -> None:
    share = "share share0 /names " + SHARED[0].replace(" ", "_")
    tells = [*share.split(), "copy", "/proc/kallsyms", "/names/kallsyms"]
    at_once = wanted(tmp_path, told=tmp_path / "names")
    assert steps_of(at_once) == [*INSTALL, *tells, *RUN]
    later = wanted(tmp_path, told=tmp_path / "names", point="modules")
    assert steps_of(later) == [*INSTALL, "ready"]
    assert later.stored.telling.decode().split("\0")[:-1] == tells
    assert later.after == b""
    kernel = tmp_path / "kernel"
    kernel.write_bytes(bytes(64))
    plan = planned(Wanted(("true",), kernel, busybox="none", told=tmp_path))
    assert (plan.stored.telling, plan.stored.share) == (b"", ())


def test_what_is_typed_is_digits_and_has_a_limit() -> None:
    assert steps.typed(steps.run(["a"])) == b"72756e0031006100\n"
    with pytest.raises(GuestError, match="at most 8000 bytes"):
        steps.typed(steps.run(["x" * 8000]))
    with pytest.raises(GuestError, match="holds a NUL"):
        steps.run(["a\0b"])
    with pytest.raises(GuestError, match="at most 500 words"):
        steps.do(["x"] * 501)


def test_the_ram_disk_has_room_for_65000_bytes_of_steps() -> None:
    """As many as the array of ``firmware/linux/init.c`` has, but for some."""
    assert Contents(bytes(65_000)).to_bytes()
    with pytest.raises(GuestError, match="at most 65000 bytes"):
        Contents(bytes(65_001)).to_bytes()


def test_the_command_line_has_our_settings_or_those_that_were_given() -> None:
    ours = "console=ttyAMA0 panic=-1 kpti=off arm64.nopauth cryptomgr.notests"
    assert (command_line(None), command_line("quiet")) == (ours, "console=ttyAMA0 panic=-1 quiet")


def watched(*pieces: bytes) -> Watch:
    watch = Watch()
    for piece in pieces:
        watch.read(piece)
    return watch


def test_the_status_is_read_wherever_the_console_cuts_its_line() -> None:
    assert watched(b"hello\r\n=== exit st", b"atus 7\r", b"\n").status == 7
    assert watched(b"=== exit status 7").status is None
    assert watched(b"it said === exit status 7\r\n").status is None


@pytest.mark.parametrize("report", REPORTS)
def test_what_the_kernel_reports_is_noticed(report: bytes) -> None:
    watch = watched(b"[    1.234567] " + report + b"\r\n", b"[   12.5][   T71] " + report + b"\r\n")
    assert watch.complaints == [report.decode()] * 2
    assert watch.panic is None


def test_a_file_that_was_copied_is_noticed() -> None:
    assert not watched(b"echo === copied\r\n=== copied").copied
    assert watched(b"=== cop", b"ied /proc/kallsyms\r\n").copied


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


def test_the_trailer_of_an_archive_has_no_inode_and_no_mode() -> None:
    """13 numbers of 8 digits: the fifth is the number of links, the twelfth the name's size."""
    numbers = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, len("TRAILER!!!\0"), 0]
    trailer = b"070701" + b"".join(b"%08X" % n for n in numbers) + b"TRAILER!!!\0" + bytes(3)
    assert Initramfs().to_bytes().endswith(trailer)


def executable(folder: Path, name: str, text: str) -> None:
    """A program in a folder, made of shell."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def test_without_the_tools_of_debian_the_first_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path, "apt-get", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArchiveError, match="no apt-cache here"):
        fetch(tmp_path / "cache", "bookworm")
    assert not (tmp_path / "cache").exists()


def test_where_all_tools_are_there_the_keyring_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("apt-get", "apt-cache", "apt-config", "dpkg-deb"):
        executable(tmp_path, name, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(archive, "_KEYRING", tmp_path / "keyring")
    with pytest.raises(ArchiveError, match="keyring: install debian-archive-keyring"):
        fetch(tmp_path / "cache", "bookworm")


def test_apt_fetches_as_the_host_s_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a proxy."""
    executable(tmp_path, "apt-config", 'echo "Acquire::Retries \\"7\\";"; echo no >&2')
    monkeypatch.setenv("PATH", str(tmp_path))
    Apt(tmp_path / "apt", "bookworm")
    assert (tmp_path / "apt/apt.conf").read_text().startswith('Acquire::Retries "7";\n')
    executable(tmp_path, "apt-config", "exit 3")
    with pytest.raises(subprocess.CalledProcessError):
        Apt(tmp_path / "apt", "bookworm")


def test_programs_come_with_their_libraries_and_with_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("libc6", "perf", "libdw1", "zlib1g", "libstdlib", "python3", "adduser"):
        with (tmp_path / "plan").open("a") as plan:
            plan.write(f"Inst {name} (1.0 Debian:12 [arm64])\n")
    executable(tmp_path, "apt-config", "exit 0")
    executable(tmp_path, "apt-get", f"while read l; do echo $l; done < {tmp_path}/plan")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = Apt(tmp_path / "apt", "bookworm").programs(["perf", "adduser"])
    assert found == ["libc6", "perf", "libdw1", "zlib1g", "adduser"]
