"""KVM's selftests for arm64, built from Debian's source of the guest's kernel.

The source and the headers that they are built against come from the release of the guest. What is
fetched is deleted after it was built; the programs are kept beside the packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from spe_unicorn.session.linux.archive import Apt, ArchiveError, GuestError, Packages, unpack

_CROSS = "aarch64-linux-gnu-"
_TOOLS = {f"{_CROSS}gcc": "gcc-aarch64-linux-gnu", "make": "make", "tar": "tar", "xz": "xz-utils"}
"""What builds them, and the packages of Debian that have it."""
_HEADERS = ("libc6-dev", "linux-libc-dev")
_FOLDERS = ("aarch64", "arm64")
"""Where the programs are that are for arm64 alone; the name has changed with Linux 6.14."""
_SHARED = (
    *("kvm_binary_stats_test", "kvm_create_max_vcpus", "kvm_page_table_test"),
    *("rseq_test", "set_memory_region_test", "steal_time"),
)
"""Of the programs for all architectures those that measure no time and take few seconds."""
_PARTS = (
    *("scripts/*.include", "scripts/Makefile.arch", "arch/arm64/tools"),
    *(f"tools/{name}" for name in ("arch", "build", "include", "lib", "scripts")),
    *(f"tools/testing/selftests/{name}" for name in ("kvm", "rseq", "*.mk", "*.h")),
)
"""The parts of the source that they need."""


def selftests(packages: Packages) -> dict[str, Path]:
    """The programs by name, built the first time. One that does not build is left out.

    Raises ArchiveError where they cannot be had here, as the source or a compiler is missing, and
    GuestError if nothing can be built.
    """
    folder = packages.root.parent / "kvm-selftests"
    if not (folder / "complete").exists():
        for tool, package in _TOOLS.items():
            if shutil.which(tool) is None:
                raise ArchiveError(f"no {tool} here to build KVM's selftests: install {package}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        work = folder / "work"
        _fetch(packages, work)
        _build(work, folder / "programs")
        shutil.rmtree(work)
        (folder / "complete").touch()
    return {file.name: file for file in sorted((folder / "programs").iterdir())}


def _fetch(packages: Packages, work: Path) -> None:
    """Unpack the source into ``work``/source and the headers into ``work``/root."""
    version = ".".join(packages.release("cloud").split(".")[:2])
    downloads = work / "packages"
    downloads.mkdir(parents=True)
    apt = Apt(packages.root.parent / "apt", packages.root.parent.name)
    apt.download("update", "-q", "--error-on=any")
    apt.download("download", "-q", f"linux-source-{version}", *_HEADERS, folder=downloads)
    for package in sorted(downloads.glob("*.deb")):
        unpack(package, work / "root")
    archives = sorted((work / "root/usr/src").glob("linux-source-*.tar.xz"))
    if not archives:
        raise GuestError(f"no source of Linux is in linux-source-{version}")
    (work / "source").mkdir()
    parts = [f"*/{part}" for part in _PARTS]
    _run("tar", "-xJf", str(archives[0]), "--strip-components=1", "--wildcards", *parts,
         folder=work / "source")  # fmt: skip


def _build(work: Path, programs: Path) -> None:
    """Build what builds, and keep it in ``programs``. Raises GuestError if that is nothing."""
    root, out = (work / "root").resolve(), (work / "out").resolve()
    out.mkdir()
    words = ["make", "-s", "-k", f"-j{os.cpu_count() or 1}", "ARCH=arm64", f"OUTPUT={out}"]
    words += [f"CROSS_COMPILE={_CROSS}", f"KHDR_INCLUDES=-isystem {root}/usr/include"]
    words += [f"EXTRA_CFLAGS=--sysroot={root}", f"LDFLAGS=-static -s -pthread --sysroot={root}"]
    said = _run(*words, folder=work / "source/tools/testing/selftests/kvm", check=False)
    found = [file for name in _FOLDERS for file in (out / name).glob("*")]
    found += [out / name for name in _SHARED]
    programs.mkdir()
    for file in found:
        if file.is_file() and not file.suffix and os.access(file, os.X_OK):
            shutil.copy(file, programs)
    if not any(programs.iterdir()):
        raise GuestError(f"KVM's selftests do not build: {said.splitlines()[-1:] or 'no output'}")


def _run(*words: str, folder: Path, check: bool = True) -> str:
    """Run a program in ``folder``; what it said of errors. Raises GuestError if it must succeed."""
    result = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if check and result.returncode:
        why = result.stderr.strip().splitlines()[-1:] or [f"exit status {result.returncode}"]
        raise GuestError(f"{words[0]}: {why[0]}")
    return result.stderr.strip()
