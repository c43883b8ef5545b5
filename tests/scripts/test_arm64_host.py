"""What scripts/arm64-host compares; the emulated host itself is a step of .ci/run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
HERE = subprocess.CompletedProcess([], 0, b"said", b"")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.delitem(sys.modules, "arm64_host", raising=False)
    import arm64_host

    return arm64_host


@pytest.mark.parametrize(
    ("there", "records", "why"),
    [
        ((0, b"said", b""), b"abcd", ""),
        ((0, b"said", b""), b"abed", "they differ at 2"),
        ((0, b"said", b""), b"ab", "2 bytes of records, here 4"),
        ((1, b"said", b""), b"abcd", "exit status 1, here 0"),
        ((0, b"", b""), b"abcd", "printed b''"),
        ((0, b"said", b"spe-unicorn: compiling its hooks"), b"abcd", "something was compiled"),
    ],
)
def test_each_difference_is_told(compared, there, records, why) -> None:
    ends = [subprocess.CompletedProcess([], *there), HERE]
    said = compared._difference(ends, records, b"abcd")
    assert why in said if why else said == ""


def test_no_records_at_all_are_no_comparison(compared) -> None:
    assert "nothing was compared" in compared._difference([HERE, HERE], b"", b"")


@pytest.mark.parametrize(("records", "status"), [(b"same", 0), (b"other", 1)])
def test_the_exit_status_says_whether_all_was_the_same(
    compared, monkeypatch, capsys, records, status
) -> None:
    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        file = Path(words[words.index("-o") + 1])
        file.write_bytes(records if words[0] == "there" else b"same")
        return HERE

    monkeypatch.setattr(compared.subprocess, "run", run)
    host = SimpleNamespace(command=lambda: ["there"], environment=lambda *_: {})
    assert compared.check(host) == status
    assert capsys.readouterr().out.count("not ok") == status * 2 * len(compared.PROGRAMS)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 always takes that folder first")
def test_the_installed_package_runs_there_wherever_it_is_started(compared, tmp_path) -> None:
    """``python -m`` would take the checkout, if it is started in it."""
    folders = {name: tmp_path / name for name in ("_folder", "_root", "_package", "_site")}
    environment = compared.Host.environment(SimpleNamespace(**folders), tmp_path)
    (tmp_path / "_package" / "spe_unicorn").mkdir(parents=True)
    (tmp_path / "_package" / "spe_unicorn" / "__init__.py").touch()
    (tmp_path / "_package" / "spe_unicorn" / "__main__.py").write_text("print('installed')")
    done = subprocess.run(
        [sys.executable, "-m", "spe_unicorn"],
        cwd=SCRIPTS.parent,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("installed\n", "")
