"""``scripts/house`` measures the checkout, and finds nothing that nobody claims."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from spe_unicorn.host.native.state.wiring import Wiring

ROOT = Path(__file__).resolve().parents[2]


def test_the_numbers_are_those_of_the_checkout():
    printed = subprocess.run(
        [sys.executable, ROOT / "scripts/house_numbers.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    fullest = re.search(r"the fullest: (\S+) (\d+)", printed)
    assert fullest is not None
    assert len(list((ROOT / fullest[1]).glob("*.py"))) == int(fullest[2])
    assert (
        f"wiring        {len(Wiring.FIELDS)} fields; writers: {len(Wiring.FIELDS)} once" in printed
    )
    assert re.search(r"with one text, [1-9]\d* with two; each has its test\n", printed)
    assert ", 0 claimed by nobody\n" in printed
