"""What a shell is told, and that bash makes the right of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

COMMAND = Path(sys.executable).parent / "spe-unicorn"


def offered(*words: str) -> list[str]:
    """What the command offers a bash after these words, the last of which is not done yet."""
    result = subprocess.run(
        [COMMAND],
        env={
            **os.environ,
            "_SPE_UNICORN_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("spe-unicorn", *words)),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert result.stderr == ""
    return result.stdout.splitlines()


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("reco",), ["plain,record"]),
        (("record", "--no-j"), ["plain,--no-jitter"]),
        (("regs", "pmbs"), [f"plain,PMBSR_EL{n}" for n in ("1", "12", "2", "3")]),
        (("regs", "PMSNEV"), ["plain,PMSNEVFR_EL1"]),
        (("regs", "--core", "mini"), ["file,mini", "plain,minimal"]),
        (("cores", "gen"), ["file,gen", "plain,generic"]),
        (
            ("run", "--core", "neoverse-v"),
            [
                *("file,neoverse-v", "plain,neoverse-v1", "plain,neoverse-v2"),
            ],
        ),
        (("run", "--model", "c"), ["plain,cache"]),
        (("run", "--kernel", "vml"), ["file,vml"]),
        (("run", "-o", "rec"), ["file,rec"]),
        (("run", "firm"), ["file,firm"]),
        (("decode", "copy"), ["file,copy"]),
        (("run", "--semihosting-dir", "sha"), ["dir,sha"]),
        (("completion", "z"), ["plain,zsh"]),
    ],
)
def test_what_is_begun_is_completed(words: tuple[str, ...], expected: list[str]) -> None:
    assert offered(*words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(command: Callable[..., Any], shell: str) -> None:
    assert "_SPE_UNICORN_COMPLETE" in command("completion", shell).stdout


def test_another_shell_is_answered_with_those_that_there_are(command: Callable[..., Any]) -> None:
    assert "'bash', 'zsh', 'fish'" in command("completion", "tcsh", status=2).stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_shows_whole_words_with_their_whole_descriptions(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "fish" / "completions"
    folder.mkdir(parents=True)
    (folder / "spe-unicorn.fish").write_text(command("completion", "fish").stdout)
    (tmp_path / "begun.elf").touch()
    asked = (
        *("regs pmsn", "run --mo", "run begu", "run --core=neoverse-v"),
        *("run --kernel=begu", "run --semihosting-dir=fis"),
    )
    done = subprocess.run(
        ["fish", "-c", "; ".join(f"complete -C 'spe-unicorn {words}'" for words in asked)],
        env={
            **os.environ,
            "XDG_CONFIG_HOME": str(tmp_path),
            "PATH": f"{COMMAND.parent}:{os.environ['PATH']}",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    register, option, file, *with_equals = done.stdout.splitlines()
    assert (register, file) == ("PMSNEVFR_EL1", "begun.elf")
    assert [word.split("\t")[0] for word in with_equals] == [
        *("--core=neoverse-v1", "--core=neoverse-v2"),
        *("--kernel=begun.elf", "--semihosting-dir=fish/"),
    ]
    assert option.startswith("--model\tCore model: constant latencies, or caches, TLBs and ")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_the_name_of_a_register(command: Callable[..., Any], tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(command("completion", "bash").stdout)
    ask = (
        f"source {script}; COMP_WORDS=({COMMAND} regs pmsn); COMP_CWORD=2;"
        f" _spe_unicorn_completion {COMMAND} pmsn regs; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "-c", ask],
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
    assert done.stdout.splitlines() == ["PMSNEVFR_EL1"]
