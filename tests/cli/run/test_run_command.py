from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click
import pytest

from spe_unicorn.cli import main
from spe_unicorn.cli.run.run_command import _GROUPS, _QEMU

COMMANDS = ("run", "record")


def options(name: str) -> set[str]:
    return {opt for parameter in main.commands[name].params for opt in parameter.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_stands_in_the_help_once_under_a_heading(
    command: Callable[..., Any], name: str
) -> None:
    text = command(name, "--help").stdout
    heading = None
    found: dict[str, str | None] = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(\w[\w' ]+):", line):
            heading = match[1]
        elif heading and (match := re.match(r"  (?:-\w, )?(--[\w-]+)", line)):
            assert match[1] not in found
            found[match[1]] = heading
    declared = {
        max(parameter.opts, key=len)
        for parameter in main.commands[name].params
        if isinstance(parameter, click.Option)
    }
    assert found.keys() == declared | {"--help"}
    assert found["--core"] == "The machine"
    assert found["--output"] == "What is written"
    assert found["--help"] == "Other options"


def test_the_groups_name_options_that_there_are() -> None:
    there = set().union(*(options(name) for name in COMMANDS))
    assert {name for names in _GROUPS.values() for name in names} <= there


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_ends_with_examples(command: Callable[..., Any], name: str) -> None:
    text = command(name, "--help").stdout
    assert re.search(rf"Examples:\n +spe-unicorn {name} [^\n]+\n", text)


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (("-M", "virt"), "--secure"),
        (("-cpu", "max"), "--core"),
        (("-m", "512"), "--ram"),
        (("-smp", "2"), "--smp"),
        (("-S",), "--gdb 1234"),
        (("-s",), "--gdb 1234"),
        (("-d", "int"), "--trace exception"),
        (("-kernel", "x"), "--kernel"),
        (("-nographic",), "--console"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_of_qemu_is_answered_with_ours(
    command: Callable[..., Any],
    firmware: Callable[..., Any],
    name: str,
    argv: tuple[str, ...],
    names: str,
) -> None:
    result = command(name, *argv, firmware("hello"), status=2)
    said = " ".join(result.stderr.split())
    assert f"QEMU's {argv[0]}: " in said
    assert names in said


def test_what_is_said_of_qemu_names_options_that_there_are() -> None:
    there = options("run")
    for text in _QEMU.values():
        named = re.findall(r"--[\w-]+", text)
        assert named
        assert set(named) <= there


def test_other_mistakes_are_answered_as_ever(
    command: Callable[..., Any], firmware: Callable[..., Any]
) -> None:
    for argv in (("--nonsense",), ("-x",), ("run", "--", "-M")):
        assert "QEMU" not in command("run", *argv, status=2).stderr
    hello = firmware("hello")
    assert command("run", hello, "--", "-M", "-smp").exit_code == 0
