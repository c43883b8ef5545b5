"""What the parts of one PE's runner share."""

from __future__ import annotations

from dataclasses import dataclass

from spe_unicorn.arch.ports import Cracker
from spe_unicorn.host.counting.counting import Counting
from spe_unicorn.host.engine.engine import Engine
from spe_unicorn.host.native.model import ModelHooks
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.host.pe.amended.mending import Mending
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.description import OperationDescriber
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.run.blocks import Blocks
from spe_unicorn.host.run.engine_runs import EngineRuns
from spe_unicorn.host.run.population import Population
from spe_unicorn.host.run.watching import Watching
from spe_unicorn.spe.sampler import Sampler


@dataclass(frozen=True, slots=True)
class Parts:
    """One PE, its unit, and what knows the PE's blocks, members and runs of the engine."""

    cpu: UnicornCPU
    engine: Engine
    state: State
    model: ModelHooks | None
    """What feeds the core model, if that has to see everything."""
    unit: Sampler
    cracker: Cracker | None
    """What makes micro-operations of instructions, where those are the population."""
    handler: StopHandler
    watching: Watching
    blocks: Blocks
    describer: OperationDescriber
    population: Population
    runs: EngineRuns
    counting: Counting
    """What counts for the Performance Monitors."""
    mending: Mending
    """What carries out rightly what the engine executes wrongly."""


def parts_of(cpu: UnicornCPU, unit: Sampler, handler: StopHandler, counting: Counting) -> Parts:
    """Make the parts of a PE's runner."""
    watching = Watching()
    blocks = Blocks(
        cpu.hooks,
        unit.cracker,
        counting.totals.tallies,
        loads=cpu.whole,
        modelled=cpu.model is not None,
    )
    describer = OperationDescriber(cpu, unit.cracker)
    population = Population(cpu, unit, blocks, describer)
    return Parts(
        cpu,
        cpu.engine,
        cpu.hooks.state,
        cpu.model,
        unit,
        unit.cracker,
        handler,
        watching,
        blocks,
        describer,
        population,
        EngineRuns(cpu, unit, handler, population, watching, counting),
        counting,
        Mending(cpu),
    )
