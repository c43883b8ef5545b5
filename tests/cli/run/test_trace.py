from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.cli.parameters import TRACES
from spe_unicorn.debug.trace import TRACERS
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support.elf_builder import RAM, Sym
from tests.support.small_programs import ACCESSES, program

SYMBOLS = (Sym("_start", RAM, 0x28), Sym("vector", RAM + 0xA00, 4))


def trace(command, tmp_path, *options: str, code: bytes = ACCESSES) -> list[str]:
    """Lines that tracing the first 14 operations gives."""
    file = program(tmp_path, code, SYMBOLS)
    result = command("run", "-q", "--max-insns", "14", *options, file, status=124)
    return result.stderr.splitlines()


def test_every_kind_that_the_command_line_offers_can_be_traced() -> None:
    assert tuple(TRACERS) == TRACES


def test_accesses_are_traced_with_verdict_rule_and_changed_fields(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    lines = trace(command, tmp_path, "--trace", "sysreg")
    assert lines[0].startswith(
        "1 sysreg 0x40000000 <_start> EL1 MSR PMSCR_EL1, 0x0 allowed [EL1/register]: "
    )
    assert lines[1:4] == [
        "3 sysreg 0x40000008 <_start+0x8> EL1 MSR PMSCR_EL1, 0x22 allowed [EL1/register]:"
        " TS 0 -> 1, E1SPE 0 -> 1",
        "4 sysreg 0x4000000c <_start+0xc> EL1 MRS PMSCR_EL1 allowed [EL1/register]:"
        " 0x22 (TS 1, E1SPE 1)",
        "6 sysreg 0x40000014 <_start+0x14> EL1 MSR PMSCR_EL1, 0x26 allowed [EL1/register]:"
        " no change, bits 0x4 ignored",
    ]
    undefined = "sysreg 0x40000024 <_start+0x24> EL1 MRS PMSCR_EL2 is UNDEFINED [EL1]"
    assert lines[4:] == [f"11 {undefined}", f"13 {undefined}"]


def test_exceptions_are_traced_with_syndrome_source_target_and_vector(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    there = "EL1 to EL1 vector 0x40000a00 <vector>"
    assert trace(command, tmp_path, "--trace", "exception") == [
        f"9 exception SVC #0x5 ESR 0x56000005 from 0x40000024 <_start+0x24> {there}",
        f"11 exception Uncategorized ESR 0x2000000 from 0x40000024 <_start+0x24> {there}",
        f"13 exception Uncategorized ESR 0x2000000 from 0x40000024 <_start+0x24> {there}",
    ]


def test_kinds_can_be_combined_and_stand_in_the_order_of_events(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    lines = trace(command, tmp_path, "--trace", "sysreg,exception")
    order = [line.split()[:2] for line in lines[-5:]]
    assert order == [
        ["9", "exception"],
        ["11", "sysreg"],
        ["11", "exception"],
        ["13", "sysreg"],
        ["13", "exception"],
    ]


def test_a_trace_can_go_to_a_file_that_kinds_share(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    both = trace(command, tmp_path, "--trace", "sysreg,exception")
    file = tmp_path / "trace.txt"
    options = ("--trace", f"exception:{file}", "--trace", f"sysreg:{file}")
    assert trace(command, tmp_path, *options) == []
    assert file.read_text().splitlines() == both


def test_the_spe_trace_has_each_record_management_event_and_interrupt(
    run_json: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = tmp_path / "trace.txt"
    said = run_json("run", "--trace", f"spe:{file}", firmware("spe_full"))
    lines = file.read_text().splitlines()
    records = [line for line in lines if re.match(r"\d+ spe record ", line)]
    assert len(records) == said["written"]
    assert re.fullmatch(
        r"\d+ spe record 1 of 0x4\w+ <work\+?\w*>: EL1 non-secure, .*, time \d+", records[0]
    )
    events = [line for line in lines if "spe management event full at 0x" in line]
    assert len(events) == said["management_events"] > 0
    levels = [line.split()[-1] for line in lines if " PMBIRQ " in line]
    assert levels == ["1" if n % 2 == 0 else "0" for n in range(len(levels))]


def test_the_spe_trace_tells_what_was_dropped_in_between(
    run_json: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = tmp_path / "trace.txt"
    said = run_json(
        *("record", "-c", "5003", "--filter", "store", "-o", str(tmp_path / "out.spe")),
        *("--trace", f"spe:{file}", firmware("bench_sort")),
    )
    dropped = [int(n) for n in re.findall(r"after (\d+) filtered", file.read_text())]
    assert 0 < sum(dropped) <= said["filtered"]


@pytest.mark.sweep
def test_traces_of_two_runs_are_the_same(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    options = ("-q", "--trace", "sysreg,exception,spe")
    first = command("run", *options, firmware("spe_el0")).stderr
    assert first
    assert command("run", *options, firmware("spe_el0")).stderr == first


@pytest.mark.sweep
def test_tracing_changes_nothing_for_the_guest(
    run_json: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    plain = run_json("run", firmware("spe_el0"))
    traced = run_json("run", "--trace", "sysreg,exception,spe", firmware("spe_el0"))
    for result in (plain, traced):
        result.pop("host")
    assert traced == plain


def test_two_traces_of_one_kind_are_the_same(
    command: Callable[..., Any], firmware: Callable[..., Any], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    traces = ("--trace", f"spe:{first}", "--trace", f"spe:{second}")
    command("run", "-q", "--console", "none", *traces, firmware("spe_irq_el1"))
    lines = first.read_text().splitlines()
    assert [line.split()[2:] for line in lines if " PMBIRQ " in line][:2] == [
        ["PMBIRQ", "1"],
        ["PMBIRQ", "0"],
    ]
    assert second.read_text().splitlines() == lines


def test_interrupts_are_traced_from_their_level_to_their_end(command: Callable[..., Any]) -> None:
    file = str(shipped_firmware("spe_irq_el1"))
    result = command("run", "-q", "--trace", "irq", "--console", "none", file)
    lines = [re.sub(r"^\d+ irq | at .*", "", line) for line in result.stderr.splitlines()]
    acknowledged = lines.index("INTID 21 acknowledged")
    assert lines[acknowledged - 1] == "INTID 21 level 1"
    # the handler empties the buffer before it ends the interrupt
    assert lines[acknowledged + 1 : acknowledged + 3] == [
        "INTID 21 level 0",
        "INTID 21 deactivated",
    ]
    assert re.search(r"acknowledged at 0x4\w+ <\S+ \(\S+:\d+\)> EL1", result.stderr)


def told(command, *options: str, status: int = 0, name: str = "spe_irq_el1") -> list[str]:
    """What standard error gets of a run of a program."""
    file = str(shipped_firmware(name))
    result = command("run", "-q", "--console", "none", *options, file, status=status)
    return result.stderr.splitlines()


def test_a_trace_goes_from_one_point_to_another(command: Callable[..., Any]) -> None:
    options = ("--trace", "insn", "--trace-start", "mmu_on", "--trace-stop", "mmu_on+0x8")
    lines = told(command, *options)
    assert [line.split()[1:3] for line in lines] == [
        ["insn", "0x40084920"],
        ["insn", "0x40084924"],
    ]
    numbered = told(command, "--trace", "insn", "--trace-start", "10", "--trace-stop", "12")
    assert [line.split()[0] for line in numbered] == ["11", "12"]


def test_a_point_at_which_a_trace_begins_and_that_is_not_reached_is_a_sentence(
    command: Callable[..., Any],
) -> None:
    options = ("--trace", "insn", "--trace-start", "0xfffff000", "--max-insns", "1000")
    assert told(command, *options, status=2) == [
        "spe-unicorn: 0xfffff000 was not reached: nothing was traced"
    ]


def test_a_trace_that_does_not_stop_goes_to_the_end(command: Callable[..., Any]) -> None:
    options = ("--trace", "insn", "--trace-stop", "0xfffff000", "--max-insns", "5")
    assert len(told(command, *options, status=124)) == 5


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--trace-start", "main"), "--trace-start needs --trace"),
        (("--trace-stop", "main"), "--trace-stop needs --trace"),
        (("--trace-filter", "cpu=0"), "--trace-filter needs --trace"),
        (("--trace", "insn", "--trace-filter", "symbol=zz"), "no symbol is called 'zz'"),
        (("--trace", "insn", "--trace-filter", "cpu=-1"), "allowed are the numbers from 0"),
        (("--trace", "insn", "--trace-start", "zz"), "has no symbol 'zz'"),
        (("--trace", "insn", "--trace-start", "9", "--trace-stop", "8"), "is before the one"),
        (("--trace", "everything"), "allowed are sysreg, exception, irq, mmu, spe, pmu, insn"),
        (
            ("--trace", "insn", "--trace-start", "9", "--snapshot-at", "8", "--snapshot", "s"),
            "one run goes up to one of them",
        ),
    ],
)
def test_wrong_options_of_traces_are_sentences(
    command: Callable[..., Any], options: tuple[str, ...], why: str
) -> None:
    (line,) = told(command, *options, status=2)[-1:]
    assert why in line


def test_a_trace_to_a_full_disk_ends_the_run_with_a_sentence(command: Callable[..., Any]) -> None:
    lines = told(command, "--trace", "insn:/dev/full", "--max-insns", "9000", status=2)
    assert lines == ["spe-unicorn: /dev/full: No space left on device"]


def test_a_filter_by_level_and_file_of_json(command: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    told(command, "--trace", f"exception,sysreg:{file}", "--trace-filter", "el=0")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines
    assert {line["el"] for line in lines} == {0}
    assert {line["kind"] for line in lines} == {"exception"}


def test_memory_is_told_with_address_size_and_value(command: Callable[..., Any]) -> None:
    """_start of the shipped programs loads what it writes to SCTLR_EL1 from a literal."""
    lines = told(command, "--trace", "memory", "--max-insns", "8", status=124)
    (line,) = lines
    found = re.fullmatch(
        r"8 memory 0x40080070 <_start\+0x70 \(el\.S:43\)> EL1 read 8 bytes at 0x4\w+: (0x\w+)", line
    )
    assert found is not None
    assert found[1] == "0x34d5d800"


def test_a_time_line_is_written_as_a_page_or_for_perfetto(
    command: Callable[..., Any], tmp_path: Path, firmware: Callable[..., Any]
) -> None:
    file = tmp_path / "line.json"
    command("run", "--timeline", str(file), firmware("spe_copy"))
    assert json.loads(file.read_text())["traceEvents"]
    result = command("run", "--timeline", str(tmp_path / "x.txt"), firmware("hello"), status=2)
    assert "a time line is a page or JSON: .html, .json" in result.stderr
