"""The command that runs the same machine, read by the command line itself."""

from __future__ import annotations

import shlex

import pytest

from spe_unicorn.cli.commands.record import record
from spe_unicorn.cli.commands.run import run
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.session.reproduce import command_line, command_words


def parsed(words):
    """The machine that a command line asks for."""
    program, name, *rest = words
    assert program == "spe-unicorn"
    command = {"run": run, "record": record}[name]
    params = command.make_context(name, rest).params
    if name == "record":
        jitter = not params.pop("no_jitter")
        names = ("period", "kinds", "min_latency")
        period, kinds, latency = (params.pop(name) for name in names)
        params["sampling"] = Sampling(period, kinds or (), latency, jitter)
    machine = {key: value for key, value in params.items() if hasattr(MachineOptions, key)}
    known = {**machine, "sampling": params.get("sampling"), "firmware": params["firmware"]}
    return Settings.of(no_reboot=params["no_reboot"], **known).machine


@pytest.mark.parametrize(
    "options",
    [
        MachineOptions("a.elf"),
        MachineOptions("a b.elf", arguments=("-v", "x y"), seed=7, smp=2, turn=64, ram=256 << 20),
        MachineOptions(kernel="Image", append="a b", initrd="i", el=2, core="max", model="cache"),
        MachineOptions(bios="rom", secure=True, reboot=False, check_alignment=True),
        MachineOptions("a", pflash=("f", "g,readonly"), fw_cfg=("x=y",), load=("d@0x41000000",)),
        MachineOptions("a", sampling=Sampling(100)),
        MachineOptions("a", sampling=Sampling(100, ("load", "store"), 5, False)),
    ],
)
def test_a_command_makes_the_machine_that_it_is_of(options: MachineOptions) -> None:
    output = () if options.sampling is None else ("-o", "x.spe")
    assert parsed(command_words(options, output)) == options
    assert parsed(shlex.split(command_line(options))) == options


def test_sampling_by_an_event_names_it_and_no_jitter() -> None:
    sampled = Sampling(100, event="inst_retired", jitter=False)
    words = command_words(MachineOptions("a", sampling=sampled), ("-o", "x.spe"))
    assert words[2:] == ["-e", "inst_retired", "-c", "100", "-o", "x.spe", "a"]
    plain = command_words(MachineOptions("a", sampling=Sampling(100, jitter=False)), ())
    assert plain[2:] == ["-c", "100", "--no-jitter", "a"]
