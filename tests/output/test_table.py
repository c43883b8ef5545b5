from itertools import islice

from spe_unicorn.output.table import table
from tests.support.samples import branch, load, other, store

NAMES = {0x40000100: "main", 0x40000104: "main+0x4", 0x40008008: "buffer"}


def test_a_record_is_a_row_with_names_where_there_are_some():
    records = [(load(), 0), (store(), 0), (branch(), 1), (other(timestamp=None), 1)]
    assert list(table(records, NAMES.get)) == [
        "time  cpu  where       operation           cycles  events"
        "                                  address",
        "1000  0    main        load general        13      retired l1d_access l1d_miss tlb_access"
        "  data buffer (L2)",
        "1010  0    main+0x4    store general       3       retired l1d_access tlb_access"
        "           data 0x40008010",
        "1020  1    0x40000108  branch conditional  2       retired mispredicted"
        "                    to main",
        "-     1    0x4000010c  other               -       retired",
    ]


def test_an_unknown_data_source_is_a_number():
    assert list(table([(load(data_source=0x77, va=None), 0)]))[1].endswith("(source 0x77)")


def test_no_records_are_a_heading():
    assert list(table([])) == ["time  cpu  where  operation  cycles  events  address"]


def test_a_table_of_any_length_is_written_as_its_records_come():
    endless = ((other(timestamp=number), 0) for number in iter(int, 1))
    assert len(list(islice(table(endless), 2000))) == 2000
