"""A build of the engine, or a host, is a file; without its file everything works, slower."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn.host import accelerators
from spe_unicorn.host.engine import builds, context, known
from spe_unicorn.host.engine.builds import unicorn_2_1_4, unicorn_2_1_4_on_linux_x86_64
from spe_unicorn.host.engine.builds.forms import Pattern
from tests.support.running.processes import WALL_SECONDS, limit_cpu

NOBODY_KNOWS = """
import platform, sys, unicorn
unicorn.uc_version = lambda: (9, 9, 0x090909FF)
platform.machine = lambda: "pdp11"
"""
RUN = """
import json
from spe_unicorn import Machine
from spe_unicorn.host.engine import builds
from spe_unicorn.machine.shipped import shipped_firmware
with Machine(shipped_firmware("interval")) as machine:
    before = machine.save()
    outcome = machine.run()
    machine.restore(before)
    again = machine.run()
    print(json.dumps({
        "known": [builds.release() is not None, builds.host() is not None],
        "records": [str(record) for record in machine.records],
        "operations": [outcome.operations, again.operations],
        "on": outcome.inline.on,
        "why": outcome.inline.why_not,
        "buffer": machine.board.cpu.engine.started_by[2],
    }))
"""


def run_in_a_process(text: str) -> dict[str, object]:
    command = [sys.executable, "-c", text]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WALL_SECONDS, preexec_fn=limit_cpu
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.fixture(autouse=True)
def with_inline_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked here is why there is none, and it may have been chosen."""
    monkeypatch.delenv(accelerators.OPTION, raising=False)


def here(monkeypatch: pytest.MonkeyPatch, version: int, system: str, processor: str) -> None:
    monkeypatch.setattr(builds, "uc_version", lambda: (0, 0, version))
    monkeypatch.setattr(builds.sys, "platform", system)
    monkeypatch.setattr(builds.platform, "machine", lambda: processor)


def test_a_build_and_a_host_are_recognised_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, 0x020104FF, "linux", "x86_64")
    assert (builds.engine_name(), builds.host_name()) == ("Unicorn 2.1.4", "linux_x86_64")
    assert builds.release() is unicorn_2_1_4.KNOWN
    assert builds.code_form() is unicorn_2_1_4_on_linux_x86_64.KNOWN
    assert builds.host() is not None
    here(monkeypatch, 0x020104FF, "linux", "aarch64")
    assert builds.release() is unicorn_2_1_4.KNOWN
    assert builds.host() is not None
    assert builds.code_form() is None
    here(monkeypatch, 0x020104FF, "win32", "AMD64")
    assert builds.host_name() == "win32_amd64"
    assert builds.host() is builds.code_form() is None


def test_what_nobody_knows_has_the_numbers_of_the_last_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here(monkeypatch, 0x020105FF, "linux", "x86_64")
    assert builds.release() is builds.code_form() is None
    assert builds.release_numbers() is unicorn_2_1_4.KNOWN
    assert builds.code_numbers() is unicorn_2_1_4_on_linux_x86_64.KNOWN
    monkeypatch.delenv(known.OPTION, raising=False)
    assert known.why_not() == "the code of Unicorn 2.1.5 on linux_x86_64 is not known"


def test_another_build_is_another_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = Path(builds.__file__).parent
    text = (source / "unicorn_2_1_4_on_linux_x86_64.py").read_text("utf-8")
    assert text.count("asked=-16,") == 1
    text = text.replace("asked=-16,", "asked=-32,")
    (tmp_path / "unicorn_3_0_1_on_plan9_sparc64.py").write_text(text, "utf-8")
    monkeypatch.setattr(builds, "__path__", [*builds.__path__, str(tmp_path)])
    monkeypatch.delenv(known.OPTION, raising=False)
    here(monkeypatch, 0x030001FF, "plan9", "sparc64")
    assert known.why_not() is None
    assert builds.code_numbers().asked == -32
    here(monkeypatch, 0x030002FF, "plan9", "sparc64")
    assert known.why_not() == "the code of Unicorn 3.0.2 on plan9_sparc64 is not known"


def test_a_file_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "unicorn_3_0_3.py").write_text("KNOWN = 7\n")
    (tmp_path / "plan9_vax.py").write_text("import nothing_of_that_name\n")
    monkeypatch.setattr(builds, "__path__", [*builds.__path__, str(tmp_path)])
    here(monkeypatch, 0x030003FF, "plan9", "vax")
    with pytest.raises(TypeError, match="unicorn_3_0_3 has a int, not a Release"):
        builds.release()
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        builds.host()


def test_a_pattern_is_bytes_some_of_which_may_be_any() -> None:
    pattern = Pattern("4C ?? 87")
    assert (pattern.bytes, pattern.masks, len(pattern)) == ((0x4C, 0, 0x87), (0xFF, 0, 0xFF), 3)
    assert Pattern("48 3B 37").number == 0x373B48


def test_where_nothing_is_known_everything_works() -> None:
    unknown = run_in_a_process(NOBODY_KNOWS + RUN)
    plain = run_in_a_process(RUN)
    assert unknown["known"] == [False, False]
    assert unknown["records"] == plain["records"]
    assert unknown["records"]
    assert unknown["operations"] == plain["operations"]
    assert (unknown["on"], unknown["buffer"]) == (False, 0)
    assert unknown["why"] == f"the code of Unicorn 9.9.9 on {sys.platform}_pdp11 is not known"


def test_a_state_of_an_unknown_form_is_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    from spe_unicorn.host.engine.engine import TO_FIND_OUT, new_engine

    uc = new_engine(TO_FIND_OUT)
    context._verify.cache_clear()
    monkeypatch.setattr(context, "release", lambda: None)
    assert context.save_context(uc)  # as that of the last release
    context._verify.cache_clear()
    monkeypatch.setattr(context, "_HEADER", context._HEADER + 8)
    with pytest.raises(
        context.ContextError, match=r"the state of Unicorn .* is of an unknown form"
    ):
        context.save_context(uc)
    context._verify.cache_clear()
