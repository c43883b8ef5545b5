from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.cores.profile import CoreError, load_core
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.options import MachineOptions, OptionError, Sampling
from spe_unicorn.spe.filter import Flag
from spe_unicorn.symbols.table import SymbolTable


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"smp": 0}, "`smp` is a number of PEs from 1 to 8, got 0"),
        ({"smp": 9}, "`smp` is a number of PEs from 1 to 8, got 9"),
        ({"turn": 0}, "`turn` is 1 to 16384 operations, got 0"),
        ({"turn": 16385}, "`turn` is 1 to 16384 operations, got 16385"),
        ({"ram": 4095}, "`ram`: allowed are multiples of 4K up to 255G, got 0xfff"),
        ({"ram": 0}, "`ram`: allowed are multiples of 4K up to 255G, got 0x0"),
        ({"ram": 256 << 30}, "`ram`: allowed are multiples of 4K up to 255G, got 0x4000000000"),
        ({"ram": "1G"}, "`ram` is a number of bytes, such as 128 << 20, got '1G'"),
        ({"el": 0}, "`el` is 1, 2 or 3, got 0"),
        ({"model": "caches"}, "`model` is one of none, cache, got 'caches'"),
    ],
)
def test_what_no_machine_can_have_is_refused_by_its_name(given, said):
    with pytest.raises(OptionError) as error:
        MachineOptions(**given)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"period": 0}, "`period` is a number of operations from 1 on, got 0"),
        ({"period": 1, "min_latency": -1}, "`min_latency` is a number of cycles, got -1"),
        (
            {"period": 1, "kinds": ("loads",)},
            "`kinds`: 'loads' is none; allowed are load, store, branch",
        ),
    ],
)
def test_sampling_that_cannot_be_is_refused(given, said):
    with pytest.raises(OptionError) as error:
        Sampling(**given)
    assert str(error.value) == said


def test_sampling_keeps_the_kinds_that_are_named():
    keeps = Sampling(7, kinds=("load",)).filter.keeps
    assert keeps(Flag.LD, 0, 1, None)
    assert not keeps(Flag.ST, 0, 1, None)


def test_a_core_is_named_or_handed_in():
    core = load_core("max")
    assert MachineOptions(core="max").profile == core
    assert MachineOptions(core=core).profile is core


def test_a_core_that_is_not_there_is_refused_when_it_is_asked_for():
    with pytest.raises(CoreError, match="core 'fast': allowed are"):
        _ = MachineOptions(core="fast").profile


def test_flash_is_there_for_what_is_put_into_it():
    assert not MachineOptions("fw.elf").has_flash
    assert MachineOptions(bios="flash.bin").has_flash
    assert MachineOptions("fw.elf", flash=True).has_flash


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, b""),
        ({"firmware": "dir/fw.elf"}, b"fw.elf"),
        ({"firmware": Path("dir/fw.elf"), "arguments": ("-v", "x")}, b"fw.elf -v x"),
        ({"kernel": "Image", "append": "quiet", "arguments": ("x",)}, b"Image quiet x"),
        ({"firmware": "fw.elf", "bios": "flash.bin"}, b"flash.bin"),
        ({"firmware": Image(Path("made"), 0, (), SymbolTable())}, b"made"),
    ],
)
def test_the_command_line_begins_with_what_is_started_first(given, line):
    assert MachineOptions(**given).command_line == line
