import io
import json
from pathlib import Path

import pytest

from spe_unicorn.output.jsonl import JSONLinesWriter, record_object
from spe_unicorn.spe.record import Record, encode
from tests.support.samples import load, of_every_sort, other, pc, with_everything


def test_load_as_an_object():
    assert record_object(load(timestamp=None), offset=64) == {
        "offset": 64,
        "cpu": 0,
        "pc": "0x40000100",
        "el": 1,
        "state": "non-secure",
        "op": "load general",
        "op_class": 1,
        "op_payload": 0,
        "events": ["retired", "l1d_access", "l1d_miss", "tlb_access"],
        "events_raw": 0x1E,
        "counters": {"total": 13, "issue": 2, "translation": 1},
        "va": "0x40008008",
        "va_tag": 0x20,
        "pa": "0x40008008",
        "pa_space": "non-secure",
        "pa_checked": False,
        "pa_tag": 0,
        "data_source": 8,
        "data_source_name": "L2",
    }


def test_record_with_everything_as_an_object():
    assert record_object(with_everything(), offset=0, cpu=3) == {
        "offset": 0,
        "cpu": 3,
        "pc": "0xffff800010001000",
        "el": 1,
        "state": "realm",
        "op": "load sve 256-bit predicated gather-scatter",
        "op_class": 1,
        "op_payload": 0xBC,
        "events": ["retired", "l1d_access", "tlb_access", "sve_partial", "streaming"],
        "events_raw": 0x1020016,
        "counters": {"total": 42, "issue": 5, "translation": 3, "alternate_issue": 2, "17": 511},
        "target": "0xffff800010002000",
        "target_el": 2,
        "target_state": "non-secure",
        "previous_target": "0x400ff0",
        "previous_target_el": 3,
        "previous_target_state": "secure",
        "va": "0xffff80001fff0ff8",
        "va_tag": 0xFF,
        "pa": "0x80001008",
        "pa_space": "non-secure",
        "pa_checked": True,
        "pa_tag": 5,
        "addresses": {"5": "0x55", "16": "0x123456789a"},
        "data_source": 0x1234,
        "context_el1": 0x1234,
        "context_el2": 0xABCD,
        "timestamp": 2000,
    }


def test_absent_packets_are_left_out():
    assert record_object(Record(events=0), offset=0) == {
        "offset": 0,
        "cpu": 0,
        "events": [],
        "events_raw": 0,
    }


class Kept(io.BytesIO):
    """A file whose contents outlive its closing."""

    contents = b""

    def close(self):
        if not self.closed:
            self.contents = self.getvalue()
        super().close()


def test_writer_makes_a_line_a_record_with_offsets_by_cpu():
    file = Kept()
    writer = JSONLinesWriter(file)
    writer.write(encode(load(), 6), 0)
    writer.write(encode(other(), 6), 1)
    writer.write(encode(other(pc=pc(0x1000, 0)), 6), 0)
    writer.close()
    writer.close()
    objects = [json.loads(line) for line in file.contents.splitlines()]
    assert [(o["cpu"], o["offset"], o["pc"]) for o in objects] == [
        (0, 0, "0x40000100"),
        (1, 0, "0x4000010c"),
        (0, 64, "0x1000"),
    ]


def test_writer_refuses_what_is_no_record():
    with pytest.raises(ValueError, match="not a record: unknown packet header ff at 0x0"):
        JSONLinesWriter(Kept()).write(b"\xff")


@pytest.mark.parametrize("calls", [False, True])
def test_many_records_have_the_lines_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: bool
) -> None:
    """Of every sort, with packets of IMPLEMENTATION DEFINED indexes, and what is said again."""
    data = [encode(record, 6) for record in [*of_every_sort()] * 2]
    led = [(0x1000 + number,) * (number % 3) for number in range(len(data))]
    files = []
    for many in (1, 1 << 30):
        monkeypatch.setattr("spe_unicorn.output.jsonl._MANY", many)
        path = tmp_path / f"{many}.jsonl"
        with path.open("wb") as file:
            writer = JSONLinesWriter(file, calls=calls)
            writer.write(b"".join(data[:5]), 3, led[:5])
            writer.write(b"".join(data[5:]), 3, led[5:])
        files.append(path.read_text().splitlines())
    assert files[0] == files[1]
    assert len(files[0]) == len(data)
