"""The process that runs jobs, while it gets ready."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running.processes import WALL_SECONDS, limit_cpu

WITHOUT_PREPARED_CODE = """
from pathlib import Path
from spe_unicorn.compiled import prepared
prepared.PLACE = Path("there/is/none")
from spe_unicorn.session.campaigns import worker
worker.prepare()
print("ready")
"""
"""As after an edit of all compiled functions."""


@pytest.mark.slow
def test_it_compiles_no_more_when_the_campaign_has_ended(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with subprocess.Popen(
        [sys.executable, "-c", WITHOUT_PREPARED_CODE],
        env={**os.environ, "SPE_UNICORN_CACHE_DIR": str(cache)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit_cpu,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("a job that nobody reads\n")
        process.stdin.flush()
        assert "compiling its hooks" in process.stderr.readline()
        process.stdin.close()
        process.stdin = None  # communicate would write to it
        made = len(list(cache.glob("compiled/*.o")))
        output, said = process.communicate(timeout=WALL_SECONDS)
    assert (process.returncode, output, said) == (0, "", "")
    assert len(list(cache.glob("compiled/*.o"))) <= made + 2, "it went on to compile others"
