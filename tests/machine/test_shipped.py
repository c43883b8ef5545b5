from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spe_unicorn.machine import shipped
from spe_unicorn.machine.shipped import shipped_firmware, shipped_names

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch) -> tuple[Path, Path]:
    """An empty package folder and an empty checkout folder, in the order of the search."""
    result = tmp_path / "package", tmp_path / "checkout"
    monkeypatch.setattr(shipped, "FOLDERS", result)
    result[1].mkdir()
    return result


def test_every_prebuilt_program_of_the_checkout_is_found():
    prebuilt = {file.stem for file in (ROOT / "firmware" / "prebuilt").glob("*.elf")}
    assert "hello" in prebuilt
    assert set(shipped_names()) == prebuilt
    for name in prebuilt:
        assert shipped_firmware(name).read_bytes()[:4] == b"\x7fELF"


def test_the_package_folder_comes_first(folders):
    package, checkout = folders
    (checkout / "hello.elf").touch()
    assert shipped_firmware("hello") == checkout / "hello.elf"
    package.mkdir()
    (package / "hello.elf").touch()
    assert shipped_firmware("hello") == package / "hello.elf"


def test_an_unknown_name_lists_what_there_is(folders):
    for name in ("spe_copy", "hello"):
        (folders[1] / f"{name}.elf").touch()
    with pytest.raises(FileNotFoundError, match="'helo'; there is: hello, spe_copy"):
        shipped_firmware("helo")


@pytest.mark.parametrize("name", ["../checkout/hello", "/etc/passwd", "", "hello.elf"])
def test_a_name_is_no_path(folders, name):
    (folders[1] / "hello.elf").touch()
    with pytest.raises(FileNotFoundError):
        shipped_firmware(name)


@pytest.mark.slow
def test_the_wheel_holds_the_firmware_and_finds_it(tmp_path):
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("spe_unicorn-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    script = "from spe_unicorn.machine.shipped import *; print(shipped_firmware('hello'))"
    found = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "installed",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    assert found == str(tmp_path / "installed" / "spe_unicorn" / "firmware" / "hello.elf")
