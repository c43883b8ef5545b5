"""perf reads what the firmware produces: every packet, as we read it ourselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.machine.shipped import shipped_firmware, shipped_names
from spe_unicorn.output.formats import open_output
from spe_unicorn.output.image import RecordingInfo
from spe_unicorn.session.records import image_info
from tests.firmware.conftest import WholeRun
from tests.firmware.programs import RUNS, SAMPLING
from tests.support.perf_reader import (
    agree,
    clean,
    packets_of_ours,
    packets_of_perf,
    perf,
)

STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in (*SAMPLING, "spe_irq_el1", "spe_misuse", "spe_silicon")},
    "packets in another order": ("spe_silicon", {"core": "max,packet_order=5"}),
    "several PEs": ("spe_smp", {"smp": 4}),
    "several PEs with caches": ("spe_smp", {"smp": 4, "core": "neoverse-n1", "model": "cache"}),
    "coherent caches": ("spe_coherence", {"smp": 5, "model": "cache"}),
    "mix, no choices": ("mix", {"core": "minimal"}),
    "mix, everything": ("mix", {"core": "max"}),
    **RUNS,
}


WITHOUT_RECORDS = {"spe_access"}
"""Programs that write the registers of SPE and never sample."""


def test_every_program_about_spe_is_here() -> None:
    about = {name for name in shipped_names() if name.startswith("spe_")}
    assert about - {name for name, _ in STREAMS.values()} == WITHOUT_RECORDS


@pytest.mark.parametrize("name", sorted(WITHOUT_RECORDS))
def test_the_others_make_no_records(name: str, whole_run: WholeRun) -> None:
    assert whole_run(name).records == []


@pytest.mark.sweep
@pytest.mark.parametrize("stream", STREAMS)
def test_perf_reads_every_record_of_a_program(
    stream: str, whole_run: WholeRun, tmp_path: Path
) -> None:
    name, options = STREAMS[stream]
    records = [sampled.record for sampled in whole_run(name, **options).records]
    assert records
    image = load_elf(shipped_firmware(name), RAM_BASE, 128 << 20)
    path = tmp_path / "run.data"
    output = open_output(path, info=RecordingInfo(image_info(image)))
    for record in records:
        output.write(record)
    output.close()
    dump = clean(perf("report", "-D", "-i", path))
    theirs = [packet for trace in packets_of_perf(dump) for packet in trace]
    assert sum(text.split()[0] in ("TS", "END") for _, _, text in theirs) == len(records)
    data = b"".join(records)
    ours = packets_of_ours(data + bytes(-len(data) % 8))
    assert len(theirs) == len(ours)
    for (_, their_bytes, their_text), (_, our_bytes, our_text) in zip(theirs, ours, strict=True):
        assert their_bytes == our_bytes
        assert agree(their_text, our_text), (their_text, our_text)
