"""What registers mean for the hooks is remembered by their values, and never goes stale."""

from __future__ import annotations

from random import Random

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.host.pe.controls import meaning_of
from spe_unicorn.host.pe.cpu import UnicornCPU
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of


def meaning_in_use(machine: Machine) -> tuple[tuple[bool, ...], tuple[bool, ...], int, int]:
    controls = machine.board.handler.controls
    state = machine.board.cpu.state
    return (
        controls._fp_traps,
        controls._psb_traps,
        int(state.counters),
        int(state.engine_identity),
    )


def writable(cpu: UnicornCPU) -> list[type[SysReg]]:
    return [register for register in cpu.registers if not register.read_only]


def test_whatever_register_changes_the_hooks_are_told_what_it_means_now() -> None:
    machine = Machine(image_of({0x4000_0000: a.code([a.b(0)])}, 0x4000_0000), core="max")
    cpu, handler = machine.board.cpu, machine.board.handler
    assert Feature.FEAT_VHE in cpu.features
    cpu.start(EL2, 0x4000_0000)
    random = Random(1)
    seen = set()
    for _ in range(600):
        register = random.choice(writable(cpu))
        cpu.registers.set_raw(register, random.getrandbits(64))
        handler.controls.changed()
        fresh = meaning_of(cpu)
        expected = (fresh.fp_traps, fresh.psb_traps, fresh.counters, fresh.engine_identity)
        assert meaning_in_use(machine) == expected, register.__name__
        seen.add(expected)
    assert len(seen) > 10
