"""Cache lines and their users."""

from __future__ import annotations

from spe_unicorn.output.reader import RecordFile
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.samples import UNKNOWN, Samples
from spe_unicorn.spe.packets import DataAddress, PhysicalAddress
from spe_unicorn.spe.record import Record
from tests.report.recordings import PROGRAM, stream_of
from tests.support.samples import load, other

BUFFER = 0x40008000
STORE = 1


def access(offset: int, *, store: bool = False, physical: int | None = None) -> Record:
    pa = None if physical is None else PhysicalAddress.of(PA=physical, NS=1)
    return load(va=DataAddress.of(VA=BUFFER + offset), pa=pa, op_payload=int(store))


def on_two_pes(first: list[Record], second: list[Record]) -> Samples:
    streams = [stream_of(first, 0), stream_of(second, 1)]
    recording = Recording(RecordFile("a.spe", "raw", streams))
    recording.places.add_file(PROGRAM)
    return Samples(recording)


def test_a_line_has_its_readers_and_writers_with_their_offsets() -> None:
    first = [access(0), access(8, store=True), access(8), access(64)]
    found = on_two_pes(first, [access(16, store=True)]).labels("cacheline").tolist()
    shared = f"{BUFFER:#x} buffer: PE 0 reads 0,8 writes 8; PE 1 writes 16"
    assert found == [shared, shared, shared, f"{BUFFER + 64:#x} buffer: PE 0 reads 0", shared]


def test_two_virtual_lines_of_one_physical_line_are_one() -> None:
    found = on_two_pes([access(0, physical=0x9040)], [access(4096 + 8, physical=0x9048)])
    assert found.labels("cacheline")[0] == "0x9040 buffer: PE 0 reads 0; PE 1 reads 8"
    assert len(set(found.labels("cacheline"))) == 1


def test_what_accesses_no_data_has_no_line() -> None:
    assert on_two_pes([other()], []).labels("cacheline").tolist() == [UNKNOWN]
