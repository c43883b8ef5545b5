"""Cache lines and their users."""

from __future__ import annotations

from spe_unicorn.output.reader import RecordFile
from spe_unicorn.report.recording import Recording
from spe_unicorn.report.samples import UNKNOWN, Samples
from spe_unicorn.report.texts import Coded
from spe_unicorn.report.views.cache_lines import LineUsers
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


def test_a_pe_is_shown_with_at_most_eight_of_its_offsets() -> None:
    eight = on_two_pes([access(8 * place) for place in range(8)], [])
    assert eight.labels("cacheline")[0].endswith("PE 0 reads 0,8,16,24,32,40,48,56")
    nine = on_two_pes([access(offset) for offset in range(9)], [])
    assert nine.labels("cacheline")[0].endswith("PE 0 reads 0,1,2,3,4,5,6,7...")


def test_a_physical_address_has_56_bits() -> None:
    # Arm ARM D18.2.5: PA is bits [55:0] of the payload, PAT bits [59:56], NS bit [63]
    tagged = PhysicalAddress.of(PA=0xFF_0000_0000_9040, NS=1, PAT=0xF)
    found = on_two_pes([load(va=DataAddress.of(VA=BUFFER), pa=tagged)], [])
    assert found.labels("cacheline").tolist() == ["0xff000000009040 buffer: PE 0 reads 0"]


def test_the_hottest_lines_are_those_with_the_most_samples_of_all_pieces() -> None:
    first = [access(0), access(64), access(8), access(128), access(72)]
    users = LineUsers()
    for piece in (on_two_pes(first, []), on_two_pes([], [access(64), other()])):
        users.add(piece.arrays, Coded(*piece.coded("data")))
    line = BUFFER // 64
    assert users.hottest(2).tolist() == [line, line + 1]
    assert users.hottest(1).tolist() == [line + 1]
    assert users.labels(users.hottest(1)) == [
        f"{BUFFER + 64:#x} buffer: PE 0 reads 0,8; PE 1 reads 0"
    ]
