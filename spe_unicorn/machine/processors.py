"""Makes the processors of a board, before there is an interrupt controller to connect them to."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.arch.counter import Rate
from spe_unicorn.arch.features import Features
from spe_unicorn.arch.ports import CoreModel
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.cores.profile import Core
from spe_unicorn.devices.gicv3 import GICPort
from spe_unicorn.host.engine.engine import Engine, new_engine
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.pe.controls import answer_el12_names
from spe_unicorn.host.pe.cpu import Owned, UnicornCPU
from spe_unicorn.host.pe.interrupts import Interrupts
from spe_unicorn.host.run.models import MakeModel, core_models
from spe_unicorn.machine.options import MachineOptions


@dataclass(frozen=True, slots=True)
class Processor:
    """One CPU on an engine of its own, its core model and its interrupt inputs."""

    number: int
    cpu: UnicornCPU
    model: CoreModel
    interrupts: Interrupts
    random: RandomSource
    """The source of the PE's random numbers."""

    def gic_port(self) -> GICPort:
        """The inputs and the identity that the GIC sees."""
        inputs = self.interrupts
        return GICPort(self.cpu, self.number, inputs.irq, inputs.fiq, inputs.virq, inputs.vfiq)


def processors(
    options: MachineOptions, core: Core, memory: RamMemory, *, weighed: bool
) -> list[Processor]:
    """Make the processors of a machine.

    ``weighed`` says whether members of the population are counted, and not only operations. Raises
    MemoryError and ``cores.profile.CoreError``.
    """
    make_model = core_models(core, options.model, options.smp)
    return [
        _processor(number, options, core, memory, make_model, weighed=weighed)
        for number in range(options.smp)
    ]


def _processor(
    number: int,
    options: MachineOptions,
    core: Core,
    memory: RamMemory,
    make_model: MakeModel,
    *,
    weighed: bool,
) -> Processor:
    random = RandomSource(options.seed, number)
    engine = Engine(new_engine(options.smp))
    for region in memory.regions:
        region.map_into(engine.uc)
    hooks = NativeHooks(engine)
    model, feeder = make_model(hooks, memory)  # the CPU's hook for blocks tells it of each
    use = Owned(memory, core.midr, number, weighed, Rate.of(options.frequency))
    cpu = UnicornCPU(hooks, use, _features(options, core), core.impdef, random, feeder)
    answer_el12_names(cpu.hooks)
    return Processor(number, cpu, model, Interrupts(cpu, by_state=options.secure), random)


def _features(options: MachineOptions, core: Core) -> Features:
    """The core's features; without SPE where the machine samples from outside the guest."""
    if options.sampling is None:
        return core.features
    return frozenset(f for f in core.features if not f.name.startswith("FEAT_SPE"))
