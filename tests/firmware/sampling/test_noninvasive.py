"""Profiling changes nothing but the Profiling Buffer and the registers of the extension."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spe_unicorn.arch.registers.spe import PMSCR_EL1
from spe_unicorn.cores.profile import Core, load_core
from tests.support.machine_runs import Machine, Result
from tests.support.random_programs import RAM, Settings, random_program

UNAWARE = ["hello", "hello_pie", "exceptions", "timer_count", "bench_interp", "bench_sort"]
WATCHING = ("records", "stream", "statistics", "events")


def without_spe() -> Core:
    """A core as sampling from outside shows it to the guest."""
    core = load_core("generic")
    features = frozenset(f for f in core.features if not f.name.startswith("FEAT_SPE"))
    return replace(core, features=features)


@pytest.mark.sweep
@pytest.mark.parametrize("period", [1000, 65536])
@pytest.mark.parametrize("name", UNAWARE)
def test_sampling_from_outside_changes_nothing(name: str, period: int) -> None:
    plain = Machine(name, core=without_spe()).run()
    machine = Machine(name, period=period)
    sampled = machine.run()
    assert len(sampled.records) == plain.operations // period
    assert plain.differences(sampled, WATCHING) == {}


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("seed", range(8))
def test_sampling_random_programs_from_outside_changes_nothing(seed: int) -> None:
    image = random_program(seed, Settings(mmu=seed % 2 == 0, el0=seed % 4 == 0))
    plain = Machine(image, core=without_spe(), ram=RAM).run(20_000)
    sampled = Machine(image, period=37, ram=RAM).run(20_000)
    assert len(sampled.records) == 20_000 // 37
    assert plain.differences(sampled, WATCHING) == {}


def self_profiling(sampling: bool) -> Result:
    """A benchmark that profiles itself, or that is kept from sampling any Exception level."""
    machine = Machine("bench_hash")
    for symbol, value in (("bench_spe", 1024), ("bench_iterations", 1)):
        machine.board.memory.write(machine.symbol(symbol), value.to_bytes(8, "little"))
    if not sampling:
        registers = machine.board.cpu.registers

        def switch_off(register: type, _old: int, new: int) -> None:
            if register is PMSCR_EL1 and new & 3:
                registers.set_raw(register, new & ~3)

        registers.written.connect(switch_off)
    return machine.run(2_000_000)


def test_sampling_by_the_guest_changes_its_buffer_alone() -> None:
    on, off = self_profiling(True), self_profiling(False)
    assert len(on.records) > 500
    assert not off.records
    assert (on.ending, on.operations, on.console) == (off.ending, off.operations, off.console)
    assert on.vectors == off.vectors
    differing = {p for p in {**on.memory, **off.memory} if on.memory.get(p) != off.memory.get(p)}
    written = {r.record for r in on.records}
    assert differing
    for page in differing:
        assert page not in off.memory, "only pages of the buffer are touched by sampling alone"
        assert any(record in on.memory[page] for record in written)
