"""What the cache model finds out about a program, as perf and our own reader show it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.output.formats import open_output
from tests.firmware.conftest import WholeRun

NAME = "spe_model"


def objects(whole_run: WholeRun, tmp_path: Path) -> list[dict[str, Any]]:
    """The records of the program as JSON objects."""
    path = tmp_path / "run.jsonl"
    output = open_output(path)
    for sampled in whole_run(NAME, model="cache").records:
        output.write(sampled.record)
    output.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


def symbol(name: str) -> str:
    """The address of a symbol of the program, as JSON has it."""
    image = load_elf(shipped_firmware(NAME), RAM_BASE, 128 << 20)
    return f"{next(s.address for s in image.symbols if s.name == name):#x}"


def test_each_level_supplies_the_loads_that_are_meant_for_it(
    whole_run: WholeRun, tmp_path: Path
) -> None:
    pc = symbol("at_load")
    records = [r for r in objects(whole_run, tmp_path) if r["pc"] == pc]
    # four walks of 16384 turns and one of 65536; every 257th operation is sampled, and one of the
    # five of a turn is the load
    sources = Counter(r["data_source_name"] for r in records)
    assert set(sources) == {"L1D", "L2", "system cache", "DRAM"}
    for name, walks in (("L1D", 2), ("L2", 1), ("system cache", 1), ("DRAM", 4)):
        assert abs(sources[name] - walks * 16384 / 257) < 2, sources
    cycles = {
        (r["data_source_name"], r["counters"]["total"] - r["counters"]["translation"])
        for r in records
        if int(r["va"], 16) % 8 == 0
    }
    assert cycles == {("L1D", 4), ("L2", 11), ("system cache", 70), ("DRAM", 200)}


def test_without_the_model_the_program_has_nothing_to_look_at(whole_run: WholeRun) -> None:
    result = whole_run(NAME)
    assert result.console.startswith(b"1..0 # SKIP")
    assert result.records == []
