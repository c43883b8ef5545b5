"""--smp, --bios, --secure, --no-reboot and --check-alignment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64
from tests.support.small_boards import CPU_ON, RAM, SYSTEM_RESET, psci
from tests.support.small_programs import EXIT_WITH_LEVEL, program, words

CURRENT_EL = (3, 0, 4, 2, 2)
LEVEL_AS_STATUS = a64.code(
    [
        *a64.mov64(1, RAM),
        *a64.mov64(2, 0x20026),
        a64.str_(2, 1),
        a64.mrs(2, CURRENT_EL),
        a64.lsr_imm(2, 2, 2),
        a64.str_(2, 1, 8),
        a64.movz(0, 0x18),  # SYS_EXIT
        0xD45E_0000,
    ]
)
SMP = ("--smp", "4", str(shipped_firmware("spe_smp")))


def test_each_pe_has_its_share_of_the_numbers(run_json: Callable[..., Any]) -> None:
    result = run_json("run", *SMP)
    assert len(result["cpus"]) == 4
    for key in ("operations", "population", "selected", "written", "bytes"):
        assert result[key] == sum(cpu[key] for cpu in result["cpus"])
        assert all(cpu[key] > 0 for cpu in result["cpus"])


def test_the_share_of_one_pe_is_the_whole(run_json: Callable[..., Any], tmp_path: Path) -> None:
    said = run_json("run", program(tmp_path, EXIT_WITH_LEVEL), status=1)
    (share,) = said["cpus"]
    assert share["operations"] == said["operations"]


def test_summary_has_a_line_for_each_pe(command: Callable[..., Any]) -> None:
    lines = command("run", *SMP).stderr.splitlines()
    assert [line.split(":")[0] for line in lines if line.endswith(" operations")] == [
        *("  cpu 0", "  cpu 1", "  cpu 2", "  cpu 3")
    ]


def test_records_name_their_pe(
    command: Callable[..., Any], run_json: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "records.jsonl"
    result = run_json("run", "-o", str(file), *SMP)
    written = Counter(json.loads(line)["cpu"] for line in file.read_text().splitlines())
    assert written == {n: cpu["written"] for n, cpu in enumerate(result["cpus"])}


def test_perf_data_keeps_the_pes_apart(
    command: Callable[..., Any], run_json: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "perf.data"
    result = run_json("run", "-o", str(file), *SMP)
    lines = command("decode", str(file)).stdout.splitlines()
    heads = Counter(line.split(" of cpu ")[1][0] for line in lines if line.startswith("record "))
    assert heads == {str(n): cpu["written"] for n, cpu in enumerate(result["cpus"])}


def test_trace_lines_begin_with_the_pe(command: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "trace"
    command("run", "--trace", f"spe:{file}", *SMP)
    starts = {tuple(line.split()[:2]) for line in file.read_text().splitlines()}
    assert starts == {("cpu", str(number)) for number in range(4)}


def test_the_report_names_the_pe_that_failed(command: Callable[..., Any], tmp_path: Path) -> None:
    entry = RAM + 0x100
    start = a64.code([*psci(CPU_ON, 1, entry), a64.b(0)]).ljust(0x100, b"\0")
    crash = a64.code([*a64.mov64(1, 0x2000_0000), a64.ldr(2, 1)])
    result = command("run", "--smp", "2", program(tmp_path, start + crash), status=126)
    report = result.stderr.splitlines()
    assert report[1] == "  on cpu 1"
    assert report[2].startswith("  PC   0x40000104 at EL1:")


def test_flash_starts_at_el3(command: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "flash.bin"
    file.write_bytes(LEVEL_AS_STATUS)
    command("run", "--bios", str(file), status=3)
    command("run", "--bios", str(file), "--el", "2", status=2)


def test_firmware_of_a_secure_machine_starts_at_el3(
    command: Callable[..., Any], tmp_path: Path
) -> None:
    command("run", "--secure", program(tmp_path, EXIT_WITH_LEVEL), status=3)


def test_secure_ram_is_there_if_asked_for(command: Callable[..., Any], tmp_path: Path) -> None:
    code = (
        words(
            0xD2A1C000,  # mov x0, #0xe000000
            0xF9000000,  # str x0, [x0]
        )
        + LEVEL_AS_STATUS
    )
    firmware = program(tmp_path, code)
    command("run", "--secure", firmware, status=3)
    result = command("run", "--el", "3", firmware, status=126)
    assert "Secure RAM is there with --secure only" in result.stderr


def test_reset_ends_the_run_if_asked_for(
    command: Callable[..., Any], run_json: Callable[..., Any], tmp_path: Path
) -> None:
    firmware = program(tmp_path, a64.code(psci(SYSTEM_RESET)))
    assert run_json("run", "--no-reboot", firmware)["operations"] == len(psci(SYSTEM_RESET))
    command("run", "--max-insns", "1000", firmware, status=124)


@pytest.mark.parametrize("number", ["0", "9", "two"])
def test_number_of_pes_that_cannot_be_is_refused(command: Callable[..., Any], number: str) -> None:
    assert "'--smp'" in command("run", "--smp", number, "firmware", status=2).stderr


@pytest.mark.parametrize("name", ["run", "record -c 1000 -o o.data", "stat", "doctor"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--check", "rubbish"), "--check is one of text, null,"),
        (("--check", "stack="), "or stack=SYMBOL[:SYMBOL], got 'stack='"),
        (("--check", "stack=a:b:c"), "got 'stack=a:b:c'"),
        (("--ram-fill", "0x100"), "--ram-fill is zero, random or 0xNN, got '0x100'"),
        (("--pflash", "a", "--pflash", "b", "--pflash", "c"), "--pflash: there are two flashes"),
        (("--drive", "a") * 33, "--drive: there are 32 places for virtio devices"),
    ],
)
def test_a_machine_that_cannot_be_is_a_sentence(
    name: str, words: tuple[str, ...], said: str, command: Callable[..., Any]
) -> None:
    result = command(*name.split(), *words, str(shipped_firmware("hello")), status=2)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_alignment_is_checked_if_asked_for(command: Callable[..., Any], tmp_path: Path) -> None:
    code = words(
        0x10000000,  # adr x0, .
        0xB8401001,  # ldur w1, [x0, #1]
    )
    firmware = program(tmp_path, code + LEVEL_AS_STATUS)
    command("run", firmware, status=1)
    result = command("run", "--check-alignment", firmware, status=126)
    assert "DataAbort (read, alignment fault)" in result.stderr


def test_our_driver_works_where_ram_refuses_misaligned_accesses(
    command: Callable[..., Any],
) -> None:
    """With the MMU off and on."""
    command("run", "--check-alignment", str(shipped_firmware("spe_copy")))
