"""Claim every attribute: what a machine's objects hold is state, derived from it, or wiring."""

from __future__ import annotations

import pytest

from spe_unicorn import Machine, Sampling
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.parts import parts_of, state_names
from spe_unicorn.stateful import Stateful
from tests.support.claims import (
    all_objects,
    attributes,
    changed,
    held,
    is_plain,
    unclaimed,
)

MACHINES = {
    "driver with interrupts": ("spe_irq_el1", {}),
    "several PEs": ("spe_smp", {"smp": 4}),
    "two Security states": ("priv_gic_secure", {"secure": True}),
    "virtual interrupts": ("priv_gic", {"el": 2}),
    "cache model": ("spe_model", {"model": "cache", "core": "neoverse-v2"}),
    "timers": ("priv_timer", {}),
    "input": ("uart_echo", {}),
    "all of virtio": (
        "virtio_blk",
        {
            "entropy": True,
            "virtio_console": True,
            "drive": ("read.img", "written.img,write"),
            "share": ("folder",),
        },
    ),
    "counters": ("pmu_counts", {"core": "max"}),
    "a folder for semihosting": ("spe_irq_el1", {"semihosting_dir": "folder"}),
    "samples by an event": (
        "ipi_pingpong",
        {"smp": 2, "model": "cache", "sampling": Sampling(200, event="l1d_cache_refill:k")},
    ),
}
"""What is run, on which machine."""


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("read.img", "written.img"):
        (tmp_path / name).write_bytes(bytes(4096))
    (tmp_path / "folder").mkdir()


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("name", MACHINES)
def test_every_attribute_is_state_derived_or_wiring(name):
    """States are plain data. ``parts_of``, which follows attributes alone, finds all of them."""
    firmware, options = MACHINES[name]
    machine = Machine(shipped_firmware(firmware), **options)
    machine.console.type("ab\4")
    machine.virtio_console.type("ab")
    machine.run(operations=500)
    things = all_objects(machine)
    before = held(things)
    machine.run(operations=300_000)
    found = all_objects(machine)
    assert unclaimed(found) == {}
    assert changed(things, before) == set()
    stateful = [thing for _, thing in found if isinstance(thing, Stateful)]
    assert [type(thing).__qualname__ for thing in stateful if not is_plain(thing.s)] == []
    parts = {id(part) for part in parts_of(machine.board).values()}
    states = (
        (path, thing)
        for path, thing in found
        if isinstance(thing, Stateful) or state_names(type(thing))
    )
    assert [path for path, thing in states if id(thing) not in parts] == []


def test_a_state_that_is_restored_is_what_was_saved():
    machine = Machine(shipped_firmware("spe_irq_el1"))
    machine.run(operations=100_000)
    parts = [thing for _, thing in all_objects(machine) if isinstance(thing, Stateful)]
    saved = [part.save() for part in parts]
    machine.run(operations=100_000)
    assert [part.s for part in parts] != saved
    for part, state in zip(parts, saved, strict=True):
        part.restore(state)
    assert [part.s for part in parts] == saved


def test_what_nobody_claims_is_found():
    class Counts:
        def __init__(self) -> None:
            self.count = 0

        def add(self) -> None:
            self.count += 1

    counts = Counts()
    assert attributes(counts) == {"count": 0}
    before = held([("", counts)])
    counts.add()
    name = "test_what_nobody_claims_is_found.<locals>.Counts.count"
    assert changed([("", counts)], before) == {name}
    assert unclaimed([("", counts)]) == {name: ""}
