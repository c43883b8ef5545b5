from __future__ import annotations

import gc
import operator
import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spe_unicorn
from spe_unicorn import Machine, MachineOptions, Record, Sampling
from spe_unicorn.host.engine.engine import EngineGoneError
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.options import OptionError
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session import console as consoles
from spe_unicorn.session.memory import GuestMemoryError
from spe_unicorn.session.outcome import Outcome, Share
from spe_unicorn.session.point import AtOperation, PointError
from spe_unicorn.session.runs import MachineEndedError
from spe_unicorn.spe.sampler import Statistics
from tests.support import a64
from tests.support.elf_builder import RAM, Sym
from tests.support.small_programs import CRASH, CRASH_SYMBOLS, ECHO, EXIT_7, LOOP, SLEEP, program

COPY = shipped_firmware("spe_copy")
HELLO = shipped_firmware("hello")
SMP = shipped_firmware("spe_smp")

THREE_CALLS = a64.code(
    [
        a64.bl(0x14),  # _start: three calls of leaf
        a64.bl(0x10),
        a64.bl(0x0C),
        *(0xD503_207F, a64.b(-4)),  # 0: wfi; b 0b
        *(a64.add_imm(1, 1, 1), a64.ret()),  # leaf
    ]
)
LEAF = RAM + 0x14
CALLS = (Sym("_start", RAM, 0x14), Sym("leaf", LEAF, 8))


@pytest.fixture
def calls(tmp_path: Path) -> Machine:
    return Machine(program(tmp_path, THREE_CALLS, CALLS))


# Running


def test_a_run_goes_up_to_the_end_of_the_guest(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, EXIT_7))
    outcome = machine.run()
    assert (outcome.ending, outcome.cause, outcome.exit_status) == ("exit", None, 7)
    assert outcome.operations == 3


def test_an_outcome_stays_as_it_was() -> None:
    machine = Machine(COPY)
    first = machine.run(operations=150_000)
    before = first.statistics
    machine.run()
    assert first.statistics == before
    assert machine.pes[0].statistics != before


def test_a_guest_that_has_ended_runs_no_more(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, EXIT_7))
    machine.run()
    with pytest.raises(MachineEndedError, match="the guest has ended with status 7: make a new"):
        machine.run()


def test_a_limit_is_exact_and_the_run_goes_on_from_there(calls: Machine) -> None:
    outcome = calls.run(operations=2)
    assert (outcome.ending, outcome.operations, outcome.pc) == ("limit", 2, LEAF + 4)
    assert outcome.cause == "the limit of 2 operations was reached"
    assert outcome.symbol == "leaf+0x4"
    assert calls.run(operations=3).operations == 5


def test_a_step_is_one_operation(calls: Machine) -> None:
    assert [calls.step().pc for _ in range(4)] == [LEAF, LEAF + 4, RAM + 4, LEAF]


def test_a_run_ends_at_the_arrival_at_a_symbol(calls: Machine) -> None:
    outcome = calls.run(until="leaf")
    assert (outcome.ending, outcome.cause, outcome.pc) == ("until", "leaf was reached", LEAF)
    assert outcome.operations == 1


def test_who_stands_there_has_to_come_back(calls: Machine) -> None:
    assert [calls.run(until="leaf").operations for _ in range(3)] == [1, 4, 7]
    assert calls.run(until="leaf").ending == "asleep"


def test_the_entry_has_been_arrived_at_before_the_first_operation(calls: Machine) -> None:
    outcome = calls.run(until="_start")
    assert (outcome.ending, outcome.operations) == ("until", 0)


def test_operations_are_counted_since_reset(calls: Machine) -> None:
    calls.run(operations=2)
    outcome = calls.run(until="5")
    assert (outcome.ending, outcome.operations) == ("until", 5)
    assert outcome.cause == "5 was reached"
    assert calls.run(until="5").operations == 5


def test_an_operation_that_has_gone_by_is_refused(calls: Machine) -> None:
    calls.run(operations=3)
    with pytest.raises(PointError, match="operation 2 has gone by: 3 have been executed"):
        calls.run(until="2")


def test_the_limit_ends_a_run_before_its_point(calls: Machine) -> None:
    assert calls.run(operations=1, until="5").ending == "limit"
    assert calls.run(operations=1, until="0x4000000c").ending == "limit"


def test_a_run_ends_behind_the_output_of_a_text() -> None:
    machine = Machine(COPY)
    outcome = machine.run(until="console:MMU off")
    assert outcome.cause == "console:MMU off was reached"
    assert machine.console.text.endswith("MMU off")


def test_output_is_looked_for_across_pieces_and_from_now_on(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, ECHO))
    machine.console.type("abab")
    assert machine.run(until="console:ba").ending == "until"
    assert machine.console.output == b"aba"
    assert machine.run(until="console:ba").ending == "exit"


def test_a_run_in_pieces_is_the_run() -> None:
    whole, pieces = Machine(COPY), Machine(COPY)
    whole.run()
    for until in ("main", "console:MMU off", "copy", "200000"):
        assert pieces.run(until=until).ending == "until"
    pieces.step(3)
    outcome = pieces.run()
    assert outcome.operations == whole.operations
    assert pieces.pes[0].records.raw == whole.pes[0].records.raw
    assert pieces.console.output == whole.console.output


def test_of_several_points_the_first_to_come_ends_the_run() -> None:
    machine = Machine(HELLO)
    first = machine.run(until=("main", "console:bare", "1000000"))
    assert (first.ending, str(first.reached)) == ("until", "main")
    second = machine.run(until=["main", "console:bare", "1000000"])
    assert (second.cause, str(second.reached)) == ("console:bare was reached", "console:bare")
    third = machine.run(until=(str(machine.operations + 3), "console:metal"))
    assert third.reached == AtOperation(second.operations + 3)
    last = machine.run(until=("console:nix", "1000000"))
    assert (last.ending, last.reached) == ("exit", None)


def test_one_run_goes_up_to_one_address() -> None:
    machine = Machine(HELLO)
    main = hex(machine.symbol("main"))
    assert machine.run(until=("main", main)).ending == "until"
    with pytest.raises(PointError, match="_start and main are two addresses"):
        machine.run(until=("_start", "main"))


@pytest.mark.parametrize("until", ["main", "console:ok"])
def test_several_pes_run_up_to_a_point_and_on(until: str) -> None:
    whole, pieces = Machine(SMP, smp=4), Machine(SMP, smp=4)
    whole.run()
    assert pieces.run(until=until).ending == "until"
    assert pieces.run().exit_status == 0
    assert [pe.records.raw for pe in pieces.pes] == [pe.records.raw for pe in whole.pes]
    assert [pe.operations for pe in pieces.pes] == [pe.operations for pe in whole.pes]


def test_time_that_is_up_ends_a_run(tmp_path: Path) -> None:
    outcome = Machine(program(tmp_path, LOOP)).run(timeout=0.05)
    assert (outcome.ending, outcome.cause) == ("timeout", "the time limit of 0.05 s was reached")


def test_a_run_may_be_timed_by_another_clock(tmp_path: Path) -> None:
    """One that stands still while the host does other work lets the run go on."""
    stands = Machine(program(tmp_path, LOOP)).run(100_000, timeout=0.01, clock=lambda: 7.0)
    assert (stands.ending, stands.executed) == ("limit", 100_000)
    hours = iter(range(0, 1_000_000, 3600))
    passed = Machine(program(tmp_path, LOOP)).run(timeout=3600, clock=lambda: next(hours))
    assert passed.ending == "timeout"


def test_who_stops_a_run_says_why(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, LOOP))
    machine.stop("enough")
    outcome = machine.run()
    assert (outcome.ending, outcome.cause) == ("interrupted", "enough")
    assert machine.run(operations=5).ending == "limit"


def test_a_guest_that_waits_for_ever_is_asleep(tmp_path: Path) -> None:
    outcome = Machine(program(tmp_path, SLEEP)).run()
    assert outcome.ending == "asleep"


def test_a_guest_that_cannot_go_on_has_failed(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, CRASH, CRASH_SYMBOLS))
    outcome = machine.run()
    assert (outcome.ending, outcome.exit_status) == ("failed", None)
    assert outcome.cause is not None
    assert outcome.cause.startswith("DataAbort (write, external abort)")
    with pytest.raises(MachineEndedError, match="the guest cannot go on"):
        machine.run()


# What it is made of


def test_options_are_named_or_handed_in(tmp_path: Path) -> None:
    file = program(tmp_path, EXIT_7)
    options = MachineOptions(file, smp=2)
    assert Machine(file, smp=2).options == options
    assert len(Machine(options).pes) == 2
    with pytest.raises(OptionError, match="`smp`: say it in the MachineOptions"):
        Machine(options, smp=4)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({}, LoadError, "nothing to run: name `firmware` or `kernel`"),
        ({"firmware": COPY, "smp": 9}, OptionError, "`smp` is a number of PEs from 1 to 8, got 9"),
        ({"firmware": COPY, "cpus": 2}, OptionError, "no option is called `cpus`: there are firmw"),
        ({"firmware": "none.elf"}, LoadError, "none.elf: No such file or directory"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    given: dict[Any, Any] | dict[str, int | Path] | dict[str, str],
    error: type[LoadError] | type[OptionError],
    said: str,
) -> None:
    with pytest.raises(error) as raised:
        Machine(**given)
    assert str(raised.value).startswith(said)


def test_public_names_are_beside_each_other() -> None:
    named = {"Machine", "MachineOptions", "Outcome", "Record", "Sampling", "__version__", "attach"}
    assert named <= set(dir(spe_unicorn))
    assert all(getattr(spe_unicorn, name) for name in dir(spe_unicorn))
    with pytest.raises(AttributeError, match="has no attribute 'Machin'"):
        _ = spe_unicorn.Machin


# Looking and writing


def test_registers_are_read_and_written_by_name_and_field() -> None:
    machine = Machine(COPY)
    registers = machine.pes[0].registers
    registers.PMSCR_EL1.E1SPE = 1
    assert (registers.PMSCR_EL1.E1SPE, int(registers.PMSCR_EL1) & 2) == (1, 2)
    registers.CNTP_CVAL_EL0 = 1234
    assert int(registers.CNTP_CVAL_EL0) == 1234
    with pytest.raises(AttributeError, match="no register PMSCR_EL4"):
        _ = registers.PMSCR_EL4


def test_registers_are_a_mapping_by_name() -> None:
    registers = Machine(COPY).pes[0].registers
    registers["PMSCR_EL1"] = 0x42
    assert registers["PMSCR_EL1"].fields["PCT"] == registers["PMSCR_EL1"].PCT == 1
    assert set(registers["PMSCR_EL1"].fields) < set(dir(registers["PMSCR_EL1"]))
    assert "PMSCR_EL1" in registers
    assert "PMSCR_EL4" not in registers
    assert sorted(registers) == sorted(dir(registers)) == sorted(dict(registers))
    assert len(registers) == len(list(registers)) > 200
    with pytest.raises(KeyError, match="no register PMSCR_EL4: did you mean PMSCR_EL"):
        _ = registers["PMSCR_EL4"]
    with pytest.raises(KeyError, match="no register PMSCR_EL4"):
        registers["PMSCR_EL4"] = 1


def test_a_pe_says_who_it_is() -> None:
    machine = Machine(COPY, smp=2, core="neoverse-n1")
    for number, pe in enumerate(machine.pes):
        assert int(pe.registers["MIDR_EL1"]) == 0x414F_D0C1
        assert pe.registers.MIDR_EL1.fields == {
            "Implementer": 0x41,
            "Variant": 4,
            "Architecture": 15,
            "PartNum": 0xD0C,
            "Revision": 1,
        }
        assert int(pe.registers.MPIDR_EL1) == 1 << 31 | number
        assert pe.registers.MPIDR_EL1.Aff0 == pe.number


@pytest.mark.parametrize(
    "name",
    [
        *("MIDR_EL1", "MPIDR_EL1", "ID_AA64DFR0_EL1", "ID_PFR0_EL1", "MVFR0_EL1"),
        *("PMSIDR_EL1", "CTR_EL0", "CNTVCT_EL0"),
    ],
)
def test_what_is_read_only_cannot_be_written(name: str) -> None:
    registers = Machine(COPY).pes[0].registers
    before = registers[name].value
    for change in (
        lambda: setattr(registers, name, before ^ 1),
        lambda: operator.setitem(registers, name, before ^ 1),
        lambda: setattr(registers[name], next(iter(registers[name].fields)), 1),
    ):
        with pytest.raises(AttributeError, match=f"{name} is read-only: it has no MSR"):
            change()
    assert registers[name].value == before


def test_a_field_that_hardware_sets_cannot_be_written() -> None:
    registers = Machine(COPY).pes[0].registers
    with pytest.raises(AttributeError, match=r"PMCR_EL0\.N is read-only: hardware sets it"):
        registers.PMCR_EL0.N = 1
    with pytest.raises(AttributeError, match="write the register itself"):
        registers.PMCR_EL0.value = 1


def test_general_registers_are_read_and_written_by_number(calls: Machine) -> None:
    pe = calls.pes[0]
    pe.x[1] = 41
    calls.run(until="leaf+0x4")
    assert pe.x[1] == 42
    pe.v[31] = 1 << 127
    assert pe.v[31] == 1 << 127
    with pytest.raises(IndexError, match="no register x31: they end with x30"):
        _ = pe.x[31]
    with pytest.raises(ValueError, match="x0 takes 64 bits, got -0x1"):
        pe.x[0] = -1


def test_the_pc_that_is_written_is_where_it_goes_on(calls: Machine) -> None:
    pe = calls.pes[0]
    pe.pc = RAM + 8
    assert calls.step().pc == LEAF
    assert pe.x[30] == RAM + 0xC


def test_an_interrupt_mask_that_is_written_counts() -> None:
    machine = Machine(COPY)
    pe = machine.pes[0]
    assert pe.pstate.I == 1
    pe.pstate = pe.pstate.replace(I=0)
    assert (pe.pstate.I, pe.el) == (0, 1)


def test_code_that_is_written_is_what_runs_next(calls: Machine) -> None:
    calls.run(until="leaf")
    calls.pes[0].x[1] = 0
    calls.memory.write_int(LEAF, a64.add_imm(1, 1, 7), 4)
    calls.run(until="leaf+0x4")
    assert calls.pes[0].x[1] == 7
    calls.pes[0].memory.write_int(LEAF, a64.add_imm(1, 1, 9), 4)
    calls.run(until="leaf+0x4")
    assert calls.pes[0].x[1] == 16


def test_memory_is_read_by_both_kinds_of_address(calls: Machine) -> None:
    pe = calls.pes[0]
    assert calls.memory.read(RAM, 4) == pe.memory.read(RAM, 4) == THREE_CALLS[:4]
    assert pe.memory.physical(RAM + 8) == RAM + 8


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda m: m.memory.read(0x900_0000, 4),
         r"no memory at physical address 0x9000000, 4 bytes \(there is pl011"),
        (lambda m: m.memory.write(0x2000_0000, b"x"), "no memory at physical address 0x20000000"),
        (lambda m: m.pes[0].memory.read(0x2000_0000, 8),
         "8 bytes at virtual address 0x20000000 cannot be read by cpu 0 at EL1"),
        (lambda m: m.pes[0].memory.write(0x2000_0000, b"x"), "cannot be written by cpu 0 at EL1"),
    ],
)  # fmt: skip
def test_memory_that_is_not_there_is_refused_with_its_address(
    calls: Machine, what: Callable[..., Any], said: str
) -> None:
    with pytest.raises(GuestMemoryError, match=said):
        what(calls)


def test_a_guest_reads_what_was_typed_and_its_output_is_kept(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, ECHO))
    machine.console.type("hi")
    machine.console.type(b"!")
    machine.run()
    assert machine.console.output == b"hi!\xff"


def test_of_output_without_end_the_last_bytes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consoles, "KEPT", 4)
    console = consoles.Console()
    printed = bytes(range(1, 100))
    for n in range(len(printed)):
        console.ends.write(printed[n : n + 1])
        assert console.output == printed[max(0, n - 3) : n + 1]
        assert len(console._output) <= 8
    console.ends.write(printed)
    assert (console.output, len(console._output)) == (printed[-4:], 4)
    assert console.position == 2 * len(printed)


def test_a_guest_that_sleeps_is_woken_by_typing() -> None:
    machine = Machine(shipped_firmware("uart_echo"))
    assert machine.run().ending == "asleep"
    machine.console.type("abc")
    assert machine.run(until="console:BC").ending == "until"
    assert machine.run().ending == "asleep"
    machine.console.type("\4")
    assert machine.run().exit_status == 0
    assert machine.console.text == "ABCbye\n"


# Records and observers


def test_records_are_objects() -> None:
    machine = Machine(COPY)
    outcome = machine.run()
    records = machine.records
    mine = machine.pes[0].records
    assert len(records) == len(mine) == records.count == outcome.statistics.written > 100
    assert records[0] == mine[0] == next(iter(mine))
    assert list(records[-2:]) == list(mine)[-2:]
    assert 0 < records.where(op="load", pc="copy").count == mine.where(op="load", pc="copy").count
    assert {machine.function(record.pc) for record in mine.where(pc="copy")} == {"copy"}
    with pytest.raises(PointError, match="did you mean 'copy'"):
        mine.where(pc="copi")
    assert all(isinstance(record, Record) and record.pc is not None for record in records)


def test_sampling_from_outside_needs_no_driver(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, LOOP), sampling=Sampling(100, jitter=False))
    machine.run(operations=500)
    before, mine = machine.records, machine.pes[0].records
    assert len(before) == len(mine) == 5
    machine.run(operations=500)
    assert (len(before), len(machine.records), len(mine)) == (5, 10, 10)
    mine.clear()
    assert len(mine) == len(machine.records) == 0


def test_records_are_written_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "copy.spe"
    with Machine(COPY) as machine:
        machine.write_records(file)
        machine.run()
    assert file.read_bytes() == machine.pes[0].records.raw


def test_observers_are_told_and_can_be_taken_off() -> None:
    machine = Machine(COPY)
    seen: list[str] = []
    for kind in ("record", "sysreg", "pmbirq", "exception", "management", "console"):
        machine.observe(kind, lambda *what, kind=kind: seen.append(kind))
    stop = machine.observe("sysreg", lambda pe, access: seen.append(f"{pe.number} {access.name}"))
    machine.run(until="150000")
    stop()
    assert "0 PMBIDR_EL1" in seen
    before = len([one for one in seen if one.startswith("0 ")])
    machine.run()
    assert {"record", "sysreg", "console"} <= set(seen)
    assert len([one for one in seen if one.startswith("0 ")]) == before


def test_what_is_not_observed_is_refused() -> None:
    with pytest.raises(ValueError, match="'records' is not observed; there are record, manag"):
        Machine(COPY).observe("records", print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an observer is a function, got 5"):
        Machine(COPY).observe("record", 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="without the option `misuse` no mistake is looked for"):
        Machine(COPY).observe("misuse", print)


@pytest.mark.parametrize("number", ["x0", 1.0, slice(0, 2), None])
def test_a_register_s_number_is_a_whole_number(number: Any) -> None:
    x = Machine(COPY).pes[0].x
    said = re.escape(f"x is indexed by a register's number, got {number!r}")
    with pytest.raises(TypeError, match=said):
        _ = x[number]
    with pytest.raises(TypeError, match=said):
        x[number] = 0


def test_a_register_in_small_letters_is_suggested() -> None:
    registers = Machine(COPY).pes[0].registers
    with pytest.raises(AttributeError, match=r"no register pmscr_el1: did you mean PMSCR_EL1\?"):
        _ = registers.pmscr_el1


def test_what_can_be_typed_is_text_or_bytes() -> None:
    machine = Machine(COPY)
    for nothing in (5, None, [1]):
        with pytest.raises(
            TypeError, match=f"text or bytes are typed, got {re.escape(repr(nothing))}"
        ):
            machine.console.type(nothing)  # type: ignore[arg-type]
    machine.console.type("text")
    machine.console.type(bytearray(b"bytes"))
    assert machine.console.save().typed == b"textbytes"


@pytest.mark.parametrize("other", [5, None, "booted.snap"])
def test_what_is_no_snapshot_is_no_snapshot(other: int | str | None, tmp_path: Path) -> None:
    said = re.escape(f"a snapshot is what save() or read_snapshot() gave, got {other!r}")
    with pytest.raises(TypeError, match=said):
        Machine(COPY).restore(other)
    with pytest.raises(TypeError, match=said):
        spe_unicorn.write_snapshot(other, tmp_path / "x.snap")
    assert not list(tmp_path.iterdir())


def test_observing_changes_no_byte() -> None:
    plain, observed = Machine(COPY), Machine(COPY)
    plain.run()
    records: list[bytes] = []
    observed.observe("record", lambda pe, record, raw: records.append(raw))
    observed.observe("sysreg", lambda pe, access: None)
    observed.run()
    assert b"".join(records) == observed.pes[0].records.raw == plain.pes[0].records.raw


def test_a_machine_says_why_it_has_no_samples(tmp_path: Path) -> None:
    enables = [a64.movz(0, 2), a64.msr((3, 0, 9, 9, 0), 0), a64.ISB, a64.b(0)]
    machine = Machine(program(tmp_path, a64.code(enables)))
    assert machine.why_no_samples == (None,)
    machine.run(100)
    (why,) = machine.why_no_samples
    assert why is not None
    assert why.startswith("PMBLIMITR_EL1.E is 0 since the reset: set it with the limit")
    copy = Machine(COPY)
    copy.run()
    assert copy.why_no_samples == (None,)


# What is not of its kind


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"smp": "2"}, "`smp` is a whole number, got '2'"),
        ({"smp": True}, "`smp` is a whole number, got True"),
        ({"seed": 1.5}, "`seed` is a whole number, got 1.5"),
        ({"seed": "x"}, "`seed` is a whole number, got 'x'"),
        ({"seed": -1}, "`seed` is a number from 0 on, got -1"),
        ({"ram": "128M"}, "`ram` is a number of bytes, such as 128 << 20, got '128M'"),
        ({"drive": "disk.img"}, "`drive` is a list of texts, got 'disk.img'"),
        ({"arguments": ("a", 1)}, r"`arguments` is a list of texts, got \('a', 1\)"),
        ({"secure": "no"}, "`secure` is True or False, got 'no'"),
        ({"append": 3}, "`append` is a text, got 3"),
        ({"bios": 3}, "`bios` is a file name, got 3"),
        ({"clock": 1e9}, "`clock` is a whole number, got 1000000000.0"),
        ({"sampling": 1000}, "`sampling` is a Sampling, got 1000"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else None,
)
def test_an_option_of_another_kind_is_refused_by_its_name(given: dict[Any, Any], said: str) -> None:
    with pytest.raises(OptionError, match=f"^{said}$"):
        MachineOptions(COPY, **given)


def test_what_is_started_is_a_file_or_an_image() -> None:
    with pytest.raises(OptionError, match="`firmware` is a file name, got 5"):
        Machine(5)


def test_sampling_takes_values_of_its_kinds() -> None:
    for given, said in (
        ({"period": "9"}, "`period` is a whole number"),
        ({"period": 9, "kinds": "load"}, "`kinds` is a list of texts"),
        ({"period": 9, "jitter": 1}, "`jitter` is True or False"),
    ):
        with pytest.raises(OptionError, match=said):
            Sampling(**given)


def test_lists_and_numbers_of_other_libraries_are_taken() -> None:
    options = MachineOptions(COPY, arguments=["a", "b"], seed=np.int64(7))
    assert options == MachineOptions(COPY, arguments=("a", "b"), seed=7)
    assert type(options.seed) is int


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"operations": 1.5}, "`operations` is a whole number from 0 on, got 1.5"),
        ({"operations": -1}, "`operations` is a whole number from 0 on, got -1"),
        ({"timeout": -1}, "`timeout` is a number of seconds from 0 on, got -1"),
        ({"timeout": float("nan")}, "`timeout` is a number of seconds from 0 on, got nan"),
        ({"timeout": "1"}, "`timeout` is a number of seconds from 0 on, got '1'"),
        ({"until": 0x4000_0000}, "1073741824 is no POINT: write a text such as 'main'"),
        ({"until": b"main"}, "b'main' is no POINT: write a text such as 'main'"),
    ],
    ids=str,
)
def test_what_no_run_can_go_up_to_is_refused_before_it_begins(
    calls: Machine, given: dict[Any, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        calls.run(**given)
    assert calls.operations == 0


def test_a_register_takes_what_fits(calls: Machine) -> None:
    pe = calls.pes[0]
    for name in ("pc", "sp"):
        with pytest.raises(ValueError, match=f"{name} takes 64 bits, got 0x1"):
            setattr(pe, name, 1 << 64)
        with pytest.raises(ValueError, match=f"{name} takes 64 bits, got -0x4"):
            setattr(pe, name, -4)
        with pytest.raises(TypeError, match=f"{name} takes a whole number, got 'a'"):
            setattr(pe, name, "a")
    with pytest.raises(TypeError, match=r"x3 takes a whole number, got 1\.5"):
        pe.x[3] = 1.5


def test_memory_takes_what_fits(calls: Machine) -> None:
    for memory in (calls.memory, calls.pes[0].memory):
        with pytest.raises(ValueError, match="4 bytes do not hold 0x100000000"):
            memory.write_int(RAM, 1 << 32, 4)
        with pytest.raises(ValueError, match="a number of bytes from 0 on, got -4"):
            memory.read(RAM, -4)
        assert memory.read(RAM, 0) == b""


# Closing


@pytest.fixture
def _no_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def engines_of(machine):
    return [weakref.ref(pe.cpu.engine.uc) for pe in machine.board.pes]


def open_engines(engines):
    return sum(engine() is not None for engine in engines)


@pytest.mark.usefixtures("_no_garbage_collector")
@pytest.mark.parametrize(
    "options",
    [{}, {"smp": 3}, {"secure": True}, {"virtio_console": True}, {"misuse": True}],
    ids=str,
)
def test_the_engines_of_a_closed_machine_are_closed_with_its_last_reference(
    options: dict[Any, Any] | dict[str, bool] | dict[str, int],
) -> None:
    with Machine(SMP, **options) as machine:
        machine.run(operations=20_000)
        engines = engines_of(machine)
    assert open_engines(engines) == len(machine.pes)
    del machine
    assert open_engines(engines) == 0


@pytest.mark.usefixtures("_no_garbage_collector")
def test_a_pe_of_a_closed_machine_keeps_its_own_engine() -> None:
    with Machine(SMP, smp=3) as machine:
        engines = engines_of(machine)
    second = machine.pes[1]
    before = second.x[0], second.pc, second.registers.PMSIDR_EL1.value
    del machine
    assert open_engines(engines) == 1
    assert (second.x[0], second.pc, second.registers.PMSIDR_EL1.value) == before


@pytest.mark.usefixtures("_no_garbage_collector")
def test_an_engine_that_is_closed_says_so() -> None:
    with Machine(SMP) as machine:
        board, memory = machine.board, machine.pes[0].memory
    del machine
    with pytest.raises(Exception, match="the engine is closed") as raised:
        board.cpu.engine.x(0)
    assert "EngineGoneError" in str(raised.value)
    with pytest.raises(Exception, match="the engine is closed"):
        memory.read(RAM, 4)
    with pytest.raises(Exception, match="the engine is closed"):
        board.run(1)
    with pytest.raises(EngineGoneError, match="closed already"):
        board.cpu.engine.lend()


def test_a_closed_machine_tells_what_it_told_before() -> None:
    with Machine(COPY, misuse=True, seed=1) as machine:
        outcome = machine.run(operations=200_000)
        pe = machine.pes[0]

        def told():
            return (
                *(list(pe.x), pe.pc, pe.sp, pe.pstate, pe.el, pe.registers.PMSCR_EL1.value),
                *(pe.operations, pe.cycles, pe.statistics, pe.memory.read(pe.pc, 4)),
                *(list(machine.records), machine.console.output, machine.operations),
                *(machine.few_places, machine.misuses, machine.why_no_samples, repr(machine)),
                *(machine.symbolize(pe.pc), machine.symbol("main"), machine.memory.read(RAM, 64)),
                *(outcome.places, outcome.statistics, outcome.symbol),
            )

        before = told()
    machine.close()  # a second time changes nothing
    assert told() == before
    with pytest.raises(MachineEndedError, match="this machine is closed: make a new Machine"):
        machine.run()


def test_a_closed_machine_can_be_saved_for_an_equal_one() -> None:
    with Machine(COPY, seed=1) as machine:
        machine.run(operations=100_000)
    with Machine(COPY, seed=1) as other:
        other.restore(machine.save())
        assert other.run(operations=50_000).operations == 150_000


def test_cycles_of_a_pe_are_its_operations_and_those_that_it_slept(tmp_path: Path) -> None:
    machine = Machine(program(tmp_path, THREE_CALLS, CALLS))
    machine.run(operations=7)
    assert (machine.pes[0].operations, machine.pes[0].cycles) == (7, 7)


def test_pmu_events_of_an_outcome_are_those_of_all_pes() -> None:
    shares = (Share(1, Statistics(), {3: 2, 1: 5}), Share(2, Statistics(), {3: 4}))
    outcome = Outcome("exit", None, 0, 0, (), 0.0, shares, 3)
    assert list(outcome.pmu_events.items()) == [(1, 5), (3, 6)]
