"""The web site, built as scripts/build-site does it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.running.processes import WALL_SECONDS, limit_cpu


def build(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    words = ("-m", "mkdocs", "build", "--strict", "--site-dir", str(site))
    return subprocess.run(
        [sys.executable, *words],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=WALL_SECONDS,
        preexec_fn=limit_cpu,
    )
