"""The processes that run the jobs of a campaign end when the campaign does."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

from spe_unicorn.session.campaigns import processes
from spe_unicorn.session.campaigns.plan import Limits
from spe_unicorn.session.campaigns.processes import Watched
from tests.support.running.processes import WALL_SECONDS


def test_a_process_that_takes_no_notice_is_killed_with_what_it_has_started() -> None:
    busy = "import subprocess, sys, time\n"
    busy += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    busy += "print(child.pid, flush=True)\ntime.sleep(60)\n"  # it never reads
    process = subprocess.Popen(
        [sys.executable, "-c", busy],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    number = int(process.stdout.readline())
    watched = Watched()
    watched._child = processes._Child(process, process.stdin, process.stdout)
    watched.close()
    assert process.returncode == -9
    for _ in range(
        20 * WALL_SECONDS
    ):  # its parent is gone, so whoever adopts orphans has to bury it
        try:
            with open(f"/proc/{number}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    break
        except FileNotFoundError:
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"process {number} goes on")


def test_time_that_a_process_waits_does_not_count() -> None:
    busy = "import sys, time\nwhile time.process_time() < 0.3: pass\n"
    asleep = "import time\ntime.sleep(0.6)\n"
    seconds = []
    for work in (busy, asleep):
        words = [sys.executable, "-c", f"{work}print(flush=True)\ninput()"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            seconds.append(processes._seconds(process.pid))
            process.communicate(b"\n")
    assert seconds[0] >= 0.28
    assert seconds[1] < 0.28
    assert processes._seconds(process.pid) == 0


def test_a_process_that_waits_for_ever_is_given_up_in_the_end() -> None:
    limits = Limits(max_insns=1, timeout=0.5, memory=1 << 40)
    job: Any = SimpleNamespace(limits=limits)
    words = [sys.executable, "-c", "input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
        assert Watched._too_much(job, process.pid, 104) is None
        given_up = Watched._too_much(job, process.pid, 106)
        process.communicate(b"\n")
    assert given_up == ("timeout", "it had not ended after 106 s, most of which it waited")
