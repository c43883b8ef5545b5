"""What goes to and fro: between two PEs, two worlds, a host and its guest, as often as told."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.machine.shipped import shipped_firmware
from tests.firmware.programs import arguments


def output(name: str, *words: str, status: int = 0) -> list[str]:
    result = CliRunner().invoke(main, ["run", "-q", *arguments(name), *words])
    assert result.exit_code == status, result.stdout + result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("words", [(), ("3", "wfi"), ("20", "poll"), ("0",)])
def test_no_interrupt_between_two_pes_is_lost(words: tuple[str, ...]) -> None:
    assert output("ipi_pingpong", *words) == [
        "ok 1 - PE 1 took every interrupt",
        "ok 2 - PE 0 had every answer",
        "1..2",
    ]


@pytest.mark.parametrize("words", [(), ("1",), ("0",)])
def test_a_monitor_keeps_two_worlds_apart(words: tuple[str, ...]) -> None:
    lines = output("smc_pingpong", *words)
    assert [line.split(" - ")[0] for line in lines] == [*(f"ok {n}" for n in range(1, 6)), "1..5"]


@pytest.mark.parametrize(
    ("words", "results"),
    [
        *[((), 12), (("1",), 12), (("0",), 12), (("5", "1"), 3), (("5", "2"), 3), (("5", "3"), 9)],
        (("7", "4"), 3),
    ],
)
def test_a_hypervisor_keeps_a_host_and_its_guest_apart(
    words: tuple[str, ...], results: int
) -> None:
    lines = output("world_switch", *words)
    good = [f"ok {n}" for n in range(1, results + 1)]
    assert [line.split(" - ")[0] for line in lines] == [*good, f"1..{results}"]


def test_a_monitor_that_starts_a_hypervisor_lets_it_be_called() -> None:
    """HVC is UNDEFINED while SCR_EL3.HCE is 0."""
    options = ["run", "-q", "--el", "3", str(shipped_firmware("world_switch"))]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "1..12"


@pytest.mark.parametrize("kind", ["uart", "rtc", "zero", "svc", "none"])
def test_what_is_done_many_times_has_its_effect_each_time(kind: str) -> None:
    for times in ("0", "3", "1500"):
        lines = output("unit_costs", times, kind)
        assert [line.split(" - ")[0] for line in lines] == ["ok 1", "1..1"]
    complaint = "not a kind: two (uart, rtc, zero, svc, none)"
    assert output("unit_costs", "3", "two", status=2) == [complaint]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [(("many",), "not a number: many"), (("3", "sleep"), "not a way to wait: sleep (wfi, poll)")],
)
def test_a_wrong_argument_is_refused_with_status_2(words: tuple[str, ...], complaint: str) -> None:
    assert output("ipi_pingpong", *words, status=2) == [complaint]
