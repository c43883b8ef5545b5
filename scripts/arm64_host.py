"""spe-unicorn on an emulated arm64 host: see ``scripts/arm64-host``."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from spe_unicorn.session.linux.archive import Apt, ArchiveError, GuestError, unpack

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache/arm64"
SUITE = "bookworm"
NO_PACKAGES = 77
PROGRAMS = ("hello", "mix", "spe_irq_el1")
"""Programs of firmware/prebuilt whose records are compared: by an outer count, with each model."""
SAMPLING = ("--max-insns", "200000", "-c", "64", "-q")
_PACKAGES = ("python3", "libstdc++6")
"""What the wheels need beside Python: NumPy and LLVM are of C++."""
_EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
_WHEELS = [f"manylinux_2_{minor}_aarch64" for minor in (28, 27, 24, 17)] + ["manylinux2014_aarch64"]
_NO_NUMBA = 'raise ImportError("numba was asked: something had to be compiled")\n'


class Host:
    """An arm64 host: Debian's Python, and what the package needs, each in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / "root"
        emulator = next(filter(None, map(shutil.which, _EMULATORS)), None)
        if emulator is None:
            raise ArchiveError("no qemu-aarch64 here (Debian: apt-get install qemu-user)")
        self._emulator = emulator
        self._fetch_python()
        self._python = sorted((self._root / "usr/bin").glob("python3.[0-9]*[0-9]"))[-1]
        self._fetch_dependencies()
        self._package = self._wheel()

    def _fetch_python(self) -> None:
        stamp = self._folder / "complete"
        if stamp.exists():
            return
        downloads = self._folder / "packages"
        downloads.mkdir(parents=True, exist_ok=True)
        apt = Apt(self._folder / "apt", SUITE)
        apt.download("update", "-q", "--error-on=any")
        plan = apt.run("apt-get", "-s", "install", "--no-install-recommends", *_PACKAGES)
        names = re.findall(r"^Inst (\S+)", plan, re.MULTILINE)
        apt.download("download", "-q", *names, folder=downloads)
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir()
        for package in sorted(downloads.glob("*.deb")):
            unpack(package, self._root)
        stamp.touch()

    def _fetch_dependencies(self) -> None:
        """Wheels for that host of what pyproject.toml asks for."""
        asked = (ROOT / "pyproject.toml").read_bytes() + self._python.name.encode()
        digest = hashlib.sha256(asked).hexdigest()
        self._site = self._folder / "site"
        stamp = self._folder / "site.stamp"
        if stamp.exists() and stamp.read_text() == digest:
            return
        shutil.rmtree(self._site, ignore_errors=True)
        self._pip(self._site, str(self._build(self._folder / "wheel")))
        shutil.rmtree(self._site / "spe_unicorn")  # each time anew, by itself
        stamp.write_text(digest)

    def _wheel(self) -> Path:
        """The package as it is installed, of the checkout as it is now."""
        package = self._folder / "package"
        shutil.rmtree(package, ignore_errors=True)
        self._pip(package, "--no-deps", str(self._build(self._folder / "wheel")))
        return package

    @staticmethod
    def _build(folder: Path) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT))
        return next(folder.glob("*.whl"))

    def _pip(self, target: Path, *words: str) -> None:
        version = self._python.name.removeprefix("python")
        platforms = [word for wheel in _WHEELS for word in ("--platform", wheel)]
        _run(
            *(sys.executable, "-m", "pip", "install", "-q", "--target", str(target)),
            *("--only-binary=:all:", "--python-version", version, *platforms, *words),
        )

    def command(self, *words: str) -> list[str]:
        """The command line of spe-unicorn there."""
        return [self._emulator, str(self._python), "-m", "spe_unicorn", *words]

    def environment(self, cache: Path, *before: Path) -> dict[str, str]:
        """What it takes; machine code is kept in ``cache``, modules of ``before`` come first."""
        return {
            **os.environ,
            "QEMU_LD_PREFIX": str(self._root),
            "PYTHONPATH": os.pathsep.join(map(str, (*before, self._package, self._site))),
            "PYTHONSAFEPATH": "1",  # no module of the folder where it is started comes first
            "PYTHONPYCACHEPREFIX": str(self._folder / "bytecode"),
            "SPE_UNICORN_CACHE_DIR": str(cache),
        }


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = lines[0] if lines else f"exit status {done.returncode}"
        raise ArchiveError(f"{' '.join(words[1:4])}: {why}")


def check(host: Host) -> int:
    """Compare what it does with what this host does. Print TAP; return the exit status."""
    failed = 0
    comparisons = [(name, model) for name in PROGRAMS for model in ("none", "cache")]
    print(f"1..{len(comparisons)}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        blocked = place / "blocked"
        blocked.mkdir()
        (blocked / "numba.py").write_text(_NO_NUMBA)
        there = host.environment(place / "there", blocked)
        here = {**os.environ, "SPE_UNICORN_CACHE_DIR": str(place / "here")}
        for number, (name, model) in enumerate(comparisons, 1):
            files = place / "there.spe", place / "here.spe"
            program = str(ROOT / f"firmware/prebuilt/{name}.elf")
            ends = []
            for file, words, environment in zip(
                files, (host.command(), ["spe-unicorn"]), (there, here), strict=True
            ):
                file.unlink(missing_ok=True)
                record = ("record", "--model", model, *SAMPLING, "-o", str(file), program)
                ends.append(subprocess.run([*words, *record], env=environment, capture_output=True))
            why = _difference(ends, *(f.read_bytes() if f.exists() else b"" for f in files))
            failed += bool(why)
            size = files[0].stat().st_size if files[0].exists() else 0
            said = f"{name}, model {model}: {size} bytes of records"
            print(f"{'not ok' if why else 'ok'} {number} - {said}", flush=True)
            if why:
                print(f"# {why}")
    return int(failed > 0)


def _difference(ends: list[subprocess.CompletedProcess[bytes]], there: bytes, here: bytes) -> str:
    """What is otherwise there than here, or wrong; nothing if all is as it should be."""
    said = ends[0].stderr.decode(errors="replace").strip()
    statuses = [end.returncode for end in ends]
    if "compiling" in said or "numba" in said:
        return f"something was compiled: {said}"
    if statuses[0] != statuses[1]:
        return f"exit status {statuses[0]}, here {statuses[1]}: {said}"
    if ends[0].stdout != ends[1].stdout:
        return f"printed {ends[0].stdout!r}, here {ends[1].stdout!r}"
    if not here:
        return "no records: nothing was compared"
    if there != here:
        at = next((n for n, (a, b) in enumerate(zip(there, here, strict=False)) if a != b), -1)
        return f"{len(there)} bytes of records, here {len(here)}; they differ at {at}"
    return ""


def main() -> int:
    words = sys.argv[1:]
    try:
        host = Host(CACHE)
    except (ArchiveError, GuestError) as error:
        print(f"scripts/arm64-host: {error}", file=sys.stderr)
        return NO_PACKAGES if isinstance(error, ArchiveError) else 1
    if words == ["--check"]:
        return check(host)
    return subprocess.run(
        host.command(*words), env=host.environment(CACHE / "compiled"), check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
