"""The columns of Arm's spe-parser. Expectations are what that tool makes of the same packets."""

import numpy as np

from spe_unicorn.output.arrays import read_arrays
from spe_unicorn.output.reader import Stream
from spe_unicorn.report.spe_parser import spe_parser_tables
from spe_unicorn.report.texts import Coded
from spe_unicorn.spe.packets import DataAddress, PhysicalAddress
from spe_unicorn.symbols.elf import ElfFile, Piece
from spe_unicorn.symbols.places import Places
from spe_unicorn.symbols.table import Symbol, SymbolTable
from tests.support.samples import branch, load, of_every_sort, other, pc, stream


def tables(*records, cpu=0, places=None):
    arrays, _ = read_arrays([Stream(cpu, 0, 0, memoryview(stream(records)))])
    return spe_parser_tables(arrays, places)


def rows(table):
    columns = {name: values.tolist() for name, values in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_a_load_of_a_kernel_at_el2_is_as_the_tool_has_it():
    # "PC 0xffbbf3da99a6a0 el2", "VA 0xff083e7fccbca8", "EV RETIRED L1D-ACCESS TLB-ACCESS",
    # "LAT 24 ISSUE", "LAT 38 TOT", "LAT 1 XLAT", "DATA-SOURCE 0", "LD GP-REG", "CONTEXT 0x1234 el2"
    record = load(
        pc=pc(0xFFBBF3DA99A6A0, el=2),
        va=DataAddress(0xFF083E7FCCBCA8),
        pa=None,
        counters=((0, 38), (1, 24), (2, 1)),
        events=0x16,
        data_source=0,
        context_el2=0x1234,
        timestamp=20685196991554,
    )
    (row,) = rows(tables(record)["ldst"])
    assert row == {
        "cpu": 0,
        "op": "LD",
        "pc": "0xffffbbf3da99a6a0",
        "el": 2,
        "atomic": False,
        "excl": False,
        "ar": False,
        "subclass": "GP-REG",
        "sve_evl": 0,
        "sve_pred": False,
        "sve_sg": False,
        "event": "RETIRED:L1D-ACCESS:TLB-ACCESS",
        "issue_lat": 24,
        "total_lat": 38,
        "vaddr": "0xffff083e7fccbca8",
        "xlat_lat": 1,
        "paddr": "",
        "data_source": "L1D",
        "context": "0x1234",
        "ts": 20685196991554,
    }


def test_a_branch_of_a_kernel_at_el2_is_as_the_tool_has_it():
    record = branch(
        pc=pc(0xFFC0C28685447C, el=2),
        target=pc(0xFFC0C286854480, el=2),
        previous_target=pc(0xFFC0C286854480, el=2),
        counters=((0, 33), (1, 32)),
        events=0x42,
        context_el1=0xAB,
        timestamp=13196304034575,
    )
    (row,) = rows(tables(record, cpu=54)["br"])
    assert row == {
        "cpu": 54,
        "op": "B",
        "pc": "0xffffc0c28685447c",
        "el": 2,
        "condition": True,
        "indirect": False,
        "event": "RETIRED:NOT-TAKEN",
        "issue_lat": 32,
        "total_lat": 33,
        "br_tgt": "0xffffc0c286854480",
        "br_tgt_lvl": 2,
        "pbt": "0xffffc0c286854480",
        "pbt_lvl": 2,
        "context": "0xab",
        "ts": 13196304034575,
    }


def test_another_operation_has_no_memory_events_and_the_rest_in_alphabetical_order():
    record = other(op_payload=1, events=0x57, timestamp=None)  # with L1D-ACCESS, TLB-ACCESS
    (row,) = rows(tables(record)["other"])
    assert row == {
        "cpu": 0,
        "op": "OTHER",
        "pc": "0x4000010c",
        "el": 1,
        "subclass": "OTHER",
        "sve_evl": 0,
        "sve_pred": False,
        "sve_fp": False,
        "condition": True,
        "event": "EXCEPTION-GEN:NOT-TAKEN:RETIRED",
        "issue_lat": 0,
        "total_lat": 0,
        "context": "",
        "ts": 0,
    }


def flags(payload):
    (row,) = rows(tables(load(op_payload=payload))["ldst"])
    names = [name for name in ("atomic", "excl", "ar", "sve_pred", "sve_sg") if row[name]]
    return row["op"], row["subclass"], row["sve_evl"], names


def test_loads_and_stores_have_the_tool_s_subclasses():
    assert flags(0x00) == ("LD", "GP-REG", 0, [])
    assert flags(0x01) == ("ST", "GP-REG", 0, [])
    assert flags(0x05) == ("ST", "SIMD-FP", 0, [])
    assert flags(0x10) == ("LD", "UNSPEC-REG", 0, [])
    assert flags(0x15) == ("ST", "MTE-TAG", 0, [])
    assert flags(0x20) == ("LD", "MEMCPY", 0, [])
    assert flags(0x25) == ("ST", "MEMSET", 0, [])
    assert flags(0x31) == ("ST", "NV-SYSREG", 0, [])
    assert flags(0x06) == ("LD", "", 0, ["atomic"])
    assert flags(0x0B) == ("ST", "", 0, ["excl"])
    assert flags(0x12) == ("LD", "", 0, ["ar"])
    assert flags(0x1E) == ("LD", "", 0, ["atomic", "excl", "ar"])
    assert flags(0x08) == ("LD", "SVE", 32, [])
    assert flags(0x2D) == ("ST", "SVE", 128, ["sve_pred"])
    assert flags(0xBC) == ("LD", "SVE", 256, ["sve_pred", "sve_sg"])


def test_sve_and_sme_operations_are_told_apart():
    found = rows(tables(*(other(op_payload=payload) for payload in (0x0E, 0x18, 0x88)))["other"])
    columns = ("subclass", "sve_evl", "sve_pred", "sve_fp", "condition")
    assert [tuple(row[name] for name in columns) for row in found] == [
        ("SVE", 32, True, True, False),
        ("SVE", 64, False, False, False),
        ("SME", 0, False, False, False),
    ]


def test_branches_are_conditional_or_indirect():
    payloads = (0, 1, 2, 0x12, 0x0A, 0x08)
    found = rows(tables(*(branch(op_payload=payload) for payload in payloads))["br"])
    assert [(row["condition"], row["indirect"]) for row in found] == [
        *((False, False), (True, False), (False, True)),
        *((False, True), (False, True), (False, False)),
    ]


def test_data_sources_have_the_tool_s_names_and_others_their_number():
    numbers = (0, 8, 9, 10, 11, 12, 13, 14, 99)
    found = rows(tables(*(load(data_source=number) for number in numbers))["ldst"])
    assert [row["data_source"] for row in found] == [
        *("L1D", "L2D", "PEER-CPU", "LOCAL-CLUSTER", "LL-CACHE", "PEER-CLUSTER", "REMOTE", "DRAM"),
        "99",
    ]


def test_addresses_of_the_lower_half_are_those_of_the_program_at_every_level():
    found = rows(tables(*(load(0x40000100, el) for el in (0, 1, 2, 3)))["ldst"])
    assert [(row["pc"], row["el"]) for row in found] == [("0x40000100", el) for el in range(4)]
    assert {row["vaddr"] for row in found} == {"0x2000000040008008"}  # with its tag


def test_events_that_have_no_name_have_their_number():
    events = 1 << 63 | 1 << 31 | 1 << 13 | 2
    found = tables(load(events=events, events_size=8), other(events=1 << 31, events_size=4))
    assert found["ldst"]["event"].tolist() == ["RETIRED:EVENT-13:EVENT-31:EVENT-63"]
    assert found["other"]["event"].tolist() == ["EVENT-31"]


def test_a_physical_address_is_without_its_space():
    (row,) = rows(tables(load(pa=PhysicalAddress.of(NS=1, CH=1, PAT=3, PA=0x80001008)))["ldst"])
    assert row["paddr"] == "0x80001008"


def test_symbols_are_a_last_column_where_there_are_some():
    elf = ElfFile(
        "p",
        (Piece(0x40000000, 0x40000000, 0, 0x1000, 0x1000),),
        SymbolTable([Symbol(0x40000100, "main", 8)]),
        False,
        1,
    )
    places = Places()
    places.add_file(elf)
    found = tables(load(), other(), branch(pc=None), places=places)
    assert [list(table)[-1] for table in found.values()] == ["symbol"] * 3
    symbols = [table["symbol"].tolist() for table in found.values()]
    assert symbols == [["main"], [""], [""]]
    assert "symbol" not in tables(load())["ldst"]


def test_every_record_with_an_operation_is_in_one_table():
    records = list(of_every_sort())
    found = tables(*records)
    for name, kind in (("other", 0), ("ldst", 1), ("br", 2)):
        assert len(found[name]["cpu"]) == sum(record.op_class == kind for record in records)
        assert {
            values.dtype.kind for values in found[name].values() if not isinstance(values, Coded)
        } <= {"i", "b"}


def test_no_records_are_three_empty_tables():
    found = tables()
    assert [len(table["cpu"]) for table in found.values()] == [0, 0, 0]
    assert found["ldst"]["sve_evl"].dtype == np.int64
