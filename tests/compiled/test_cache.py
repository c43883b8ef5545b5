"""Where machine code is kept, from whom it is taken, and what may go wrong with the folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.compiled import cache

NAME, KEY, CODE = "room.function", "0123456789abcdef", b"\x7fELF machine code"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPE_UNICORN_CACHE_DIR", str(tmp_path / "mine"))
    return tmp_path / "mine" / "compiled"


def test_what_is_written_is_read_from_a_folder_that_only_the_user_can_enter(folder: Path) -> None:
    assert cache.read(NAME, KEY) is None
    cache.write(NAME, KEY, CODE)
    assert cache.read(NAME, KEY) == CODE
    assert cache.read(NAME, "fedcba9876543210") is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [file.name for file in folder.iterdir()] == [f"{NAME}-{KEY}.o"]


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: b"", lambda d: d[:40] + b"x" * 9])
def test_a_damaged_file_is_as_good_as_none_and_is_replaced(
    folder: Path, damage: Callable[..., Any]
) -> None:
    cache.write(NAME, KEY, CODE)
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert cache.read(NAME, KEY) is None
    cache.write(NAME, KEY, CODE)
    assert cache.read(NAME, KEY) == CODE


def test_a_file_under_another_key_is_not_taken(folder: Path) -> None:
    cache.write(NAME, KEY, CODE)
    (file,) = folder.iterdir()
    file.rename(folder / f"{NAME}-ffff.o")
    assert cache.read(NAME, "ffff") is None


def test_a_folder_that_others_can_enter_is_neither_read_nor_written(folder: Path) -> None:
    cache.write(NAME, KEY, CODE)
    folder.chmod(0o755)
    assert cache.read(NAME, KEY) is None
    cache.write(NAME, "ffff", CODE)
    assert len(list(folder.iterdir())) == 1


def test_a_link_to_a_folder_or_a_file_is_not_followed(folder: Path, tmp_path: Path) -> None:
    cache.write(NAME, KEY, CODE)
    (file,) = folder.iterdir()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert cache.read(NAME, KEY) is None
    file.unlink()
    (tmp_path / "elsewhere").rename(file)
    assert cache.read(NAME, KEY) == CODE
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    assert cache.read(NAME, KEY) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_somebody_else_is_not_taken(folder: Path) -> None:
    cache.write(NAME, KEY, CODE)
    (file,) = folder.iterdir()
    os.chown(file, 65534, -1)
    assert cache.read(NAME, KEY) is None
    os.chown(file, 0, -1)
    assert cache.read(NAME, KEY) == CODE
    os.chown(folder, 65534, -1)
    assert cache.read(NAME, KEY) is None


def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(folder: Path) -> None:
    cache.write(NAME, KEY, CODE)
    (file,) = folder.iterdir()
    file.unlink()
    os.mkfifo(file)
    assert cache.read(NAME, KEY) is None


def test_a_full_disk_leaves_no_half_file_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write(NAME, KEY, CODE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.write(NAME, "ffff", CODE)
    assert [file.name for file in folder.iterdir()] == [f"{NAME}-{KEY}.o"]


def test_old_versions_of_a_function_are_given_up(folder: Path) -> None:
    for version in range(12):
        cache.write(NAME, f"{version:04x}", CODE)
        newest = folder / f"{NAME}-{version:04x}.o"
        os.utime(newest, (version, version))
    cache.write("room.other", KEY, CODE)
    assert cache.read(NAME, "0003") is None
    assert cache.read(NAME, "000b") == CODE
    assert cache.read("room.other", KEY) == CODE


RUN = (
    "from spe_unicorn.compiled import entry\n"
    "@entry('int64', 'int64')\n"
    "def doubled(number): return number * 2\n"
    "print(doubled(21), doubled(4))\n"
)


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("SPE_UNICORN_CACHE_DIR", "HOME")}
    kept.pop("XDG_CACHE_HOME", None)
    result = subprocess.run(
        [sys.executable, "-c", RUN],
        capture_output=True,
        text=True,
        env=kept | {"PYTHONPATH": str(Path(__file__).parents[2])} | environment,
    )
    assert result.stdout == "42 8\n", result.stderr
    return result


def test_the_first_run_says_once_what_it_does_and_the_second_is_silent(tmp_path: Path) -> None:
    place = tmp_path / "cache"
    first = run(SPE_UNICORN_CACHE_DIR=str(place)).stderr
    assert first == (
        f"spe-unicorn: compiling its hooks for this machine (kept in {place / 'compiled'})\n"
    )
    assert run(SPE_UNICORN_CACHE_DIR=str(place)).stderr == ""


def test_without_a_home_nothing_is_kept_and_everything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    home = tmp_path / "file" / "home"
    result = run(HOME=str(home))
    assert result.stderr == (
        "spe-unicorn: compiling its hooks for this machine"
        f" (not kept, so each run compiles anew: {home}/.cache/spe-unicorn/compiled:"
        " Not a directory; set SPE_UNICORN_CACHE_DIR)\n"
    )


def test_a_user_without_a_home_keeps_nothing_and_everything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container that runs under a number that its password file does not have."""

    def user_cache_dir(*_: Any, **__: Any) -> str:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("SPE_UNICORN_CACHE_DIR", raising=False)
    monkeypatch.setattr(cache.platformdirs, "user_cache_dir", user_cache_dir)
    monkeypatch.setattr(cache, "_said", False)
    assert cache.read(NAME, KEY) is None
    cache.write(NAME, KEY, CODE)
    cache.say_if_lost()
    assert capsys.readouterr().err == (
        "spe-unicorn: each run takes a second to begin: ~/.cache/spe-unicorn/compiled:"
        " this user has no home; set SPE_UNICORN_CACHE_DIR\n"
    )


def test_a_folder_with_a_wrong_mode_is_named_with_its_remedy(tmp_path: Path) -> None:
    place = tmp_path / "cache" / "compiled"
    place.mkdir(parents=True, mode=0o755)
    place.chmod(0o755)
    result = run(SPE_UNICORN_CACHE_DIR=str(tmp_path / "cache"))
    assert f"{place}: it has mode 0755, not 0700; set SPE_UNICORN_CACHE_DIR" in result.stderr
