"""What the guest is made of, from the Debian archive: fetched by apt, unpacked, and kept.

Nothing of the host's package system is touched and nothing has to be root's: apt works on a state
of its own, for arm64, in a folder of ours.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KERNELS = {"cloud": "linux-image-cloud-arm64", "standard": "linux-image-arm64"}
"""The kernels that can be asked for, and the packages that depend on the newest of each."""
TOOLS = ("linux-perf", "busybox-static", "gdb-minimal")
"""The programs that the checks of ``scripts/linux`` run in a guest."""
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRROR = "http://deb.debian.org"


class ArchiveError(Exception):
    """The packages cannot be had here; the message is one sentence that says what to do."""


class GuestError(Exception):
    """The packages are here, or could be, and something is wrong; one sentence says what."""


@dataclass(frozen=True)
class Packages:
    """Unpacked packages. ``root`` is what would be / if they were installed."""

    root: Path

    def file(self, *paths: str) -> Path:
        """The first file that is there, of several places where releases have it."""
        for path in paths:
            if (self.root / path).exists():
                return self.root / path
        raise self._lacks(paths[0])

    def release(self, flavour: str) -> str:
        """The release of the kernel of a flavour, the newest one."""
        names = [f.name.removeprefix("vmlinuz-") for f in self.root.glob("boot/vmlinuz-*")]
        names += [f.parent.name for f in self.root.glob("usr/lib/modules/*/vmlinuz")]
        found = sorted(name for name in names if _RELEASES[flavour].fullmatch(name))
        if not found:
            raise self._lacks(f"{flavour} kernel")
        return found[-1]

    def kernel(self, flavour: str) -> Path:
        """The kernel image of a flavour."""
        release = self.release(flavour)
        return self.file(f"boot/vmlinuz-{release}", f"usr/lib/modules/{release}/vmlinuz")

    def modules(self, flavour: str) -> Path:
        """The folder of that kernel's modules."""
        release = self.release(flavour)
        return self.file(f"usr/lib/modules/{release}/kernel", f"lib/modules/{release}/kernel")

    def module(self, flavour: str, name: str) -> Path:
        """A module of that kernel, by the name of its file without suffix."""
        release = self.release(flavour)
        for folder in ("lib/modules", "usr/lib/modules"):
            for module in sorted((self.root / folder / release).rglob(f"{name}.ko*")):
                return module
        raise self._lacks(f"module {name} of kernel {release}")

    def _lacks(self, what: str) -> GuestError:
        folder = self.root.parent
        return GuestError(f"no {what} below {self.root}; delete {folder} to fetch it all again")


_RELEASES = {
    "cloud": re.compile(r"\d[^-]*(-\d+)?-cloud-arm64"),
    "standard": re.compile(r"\d[^-]*(-\d+)?-arm64"),
}
"""6.1.0-56-cloud-arm64, or 6.12.57+deb13-cloud-arm64."""
_ROLLING = ("sid", "unstable")
"""Releases that have no updates apart from themselves."""


def fetch(
    cache: Path,
    suite: str,
    flavours: Sequence[str] = tuple(KERNELS),
    tools: Sequence[str] = TOOLS,
) -> Packages:
    """The packages of a Debian release, from ``cache`` if they are there.

    A folder holds what was asked for when it was made: who asks for less names another ``cache``.

    Raises ArchiveError if they are not, and apt cannot fetch them; GuestError if ``cache`` cannot
    be written, or what was fetched cannot be unpacked.
    """
    try:
        return _fetch(cache / suite, suite, flavours, tools)
    except OSError as error:
        place = error.filename or cache
        raise GuestError(
            f"cannot write {place}: {error.strerror}; --cache names another folder"
        ) from error


def _fetch(folder: Path, suite: str, flavours: Sequence[str], tools: Sequence[str]) -> Packages:
    packages = Packages(folder / "root")
    stamp = folder / "complete"
    if stamp.exists():
        return packages
    for tool in ("apt-get", "apt-cache", "apt-config", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise ArchiveError(f"no {tool} here: fetching a guest takes Debian or Ubuntu")
    if not _KEYRING.exists():
        raise ArchiveError(f"no {_KEYRING}: install debian-archive-keyring")
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < _ROOM:
        raise GuestError(
            f"{folder} has room for {free >> 20} MiB, the packages need {_ROOM >> 20};"
            " --cache names another folder"
        )
    apt = Apt(folder / "apt", suite)
    apt.download("update", "-q", "--error-on=any")
    names = [*apt.kernels(flavours), *apt.programs(tools)]
    downloads = folder / "packages"
    downloads.mkdir(parents=True, exist_ok=True)
    apt.download("download", "-q", *names, folder=downloads)
    shutil.rmtree(packages.root, ignore_errors=True)
    packages.root.mkdir()
    for package in sorted(downloads.glob("*.deb")):
        unpack(package, packages.root)
    stamp.write_text("\n".join(sorted(p.name for p in downloads.glob("*.deb"))) + "\n")
    return packages


def unpack(package: Path, root: Path) -> None:
    """Unpack a package below ``root``. Raises GuestError with dpkg's own words."""
    command = ["dpkg-deb", "-x", str(package), str(root)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        why = result.stderr.strip().splitlines()[-1:] or [f"exit status {result.returncode}"]
        raise GuestError(f"cannot unpack {package}: {why[0]}; delete it to fetch it again")


class Apt:
    """apt on a state of its own. The host's settings for downloads (a proxy) hold here as well."""

    def __init__(self, folder: Path, suite: str) -> None:
        folder = folder.resolve()
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        (folder / "sources.sources").write_text(_sources(suite))
        self._config = folder / "apt.conf"
        dump = subprocess.run(
            ["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True
        )
        self._config.write_text(dump.stdout + _CONFIG.format(folder=folder))

    def download(self, *command: str, folder: Path | None = None) -> None:
        """Run apt-get, which fetches something. Raises ArchiveError with its own words."""
        try:
            self.run("apt-get", *command, folder=folder)
        except GuestError as error:
            if any(words in str(error) for words in _NO_ROOM):
                raise
            raise ArchiveError(str(error)) from error

    def run(self, *command: str, folder: Path | None = None) -> str:
        """Run one of apt's programs. Raises GuestError with apt's own words."""
        result = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "APT_CONFIG": str(self._config), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
        )
        if result.returncode:
            errors = [line for line in result.stderr.splitlines() if line.startswith("E: ")]
            why = errors[0].removeprefix("E: ") if errors else f"exit status {result.returncode}"
            raise GuestError(f"{' '.join(command[:2])}: {why}")
        return result.stdout

    def kernels(self, flavours: Sequence[str]) -> list[str]:
        """The packages of the newest kernel of each flavour, if any."""
        names = []
        for package in map(KERNELS.__getitem__, flavours):
            depends = self.run("apt-cache", "depends", package)
            found = re.search(r"Depends: (linux-image-\S+)", depends)
            if found is None:
                raise GuestError(f"{package} depends on no kernel; try another --suite")
            names.append(found.group(1))
            # since Debian 14 the kernel and its modules are in packages of their own
            depends = self.run("apt-cache", "depends", found.group(1))
            names += re.findall(r"Depends: (linux-(?:binary|modules)-\S+)", depends)
        return names

    def programs(self, tools: Sequence[str]) -> list[str]:
        """Programs such as perf, and the libraries that installing them would bring."""
        plan = self.run("apt-get", "-s", "install", "--no-install-recommends", *tools)
        names = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
        return [n for n in names if n in tools or re.match(r"lib(?!.*stdlib)|zlib", n)]


_ROOM = 1 << 30
"""Free bytes that fetching and unpacking need; apt waits for ever on a disk that is full."""
_NO_ROOM = ("No space left on device", "enough free space", "Permission denied", "Read-only file")
"""What apt says where it could fetch a file and cannot write it."""
_CONFIG = """
Dir "{folder}";
Dir::State "{folder}";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc "{folder}";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Etc::sourcelist "{folder}/sources.sources";
Dir::Etc::sourceparts "/dev/null";
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Sandbox::User "root";
Acquire::Languages "none";
"""


def _sources(suite: str) -> str:
    archives = [(f"{_MIRROR}/debian", suite)]
    if suite not in _ROLLING:
        archives.append((f"{_MIRROR}/debian", f"{suite}-updates"))
        archives.append((f"{_MIRROR}/debian-security", f"{suite}-security"))
    return "\n".join(
        f"Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {_KEYRING}\n"
        for uri, suites in archives
    )
