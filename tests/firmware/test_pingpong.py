"""What goes to and fro between two PEs, and between two worlds, as often as the guest is told."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
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
    ("words", "complaint"),
    [(("many",), "not a number: many"), (("3", "sleep"), "not a way to wait: sleep (wfi, poll)")],
)
def test_a_wrong_argument_is_refused_with_status_2(words: tuple[str, ...], complaint: str) -> None:
    assert output("ipi_pingpong", *words, status=2) == [complaint]
