"""Chooses the sampling unit of a PE of the board."""

from __future__ import annotations

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.cores.profile import Core
from spe_unicorn.machine.event_samplers import event_sampler
from spe_unicorn.machine.options import Sampling
from spe_unicorn.machine.pe import MakeSampler, ProcessingElement
from spe_unicorn.machine.processors import Processor
from spe_unicorn.spe.absent import NoSampler
from spe_unicorn.spe.external import Asked, ExternalSampler
from spe_unicorn.spe.interval import BiasedInterval, PeriodicInterval
from spe_unicorn.spe.lateness.whole import lateness_of
from spe_unicorn.spe.sampler import SampledCore, Sampler
from spe_unicorn.spe.unit import Lines, StatisticalProfilingUnit


def sampler_of(
    core: Core,
    sampling: Sampling | None,
    memory: PhysicalMemory,
    processor: Processor,
) -> MakeSampler:
    """The maker of a PE's unit: one that samples from outside, SPE, or none on a core without SPE.

    ``processor`` is the one that the PE is made of.
    """
    model, random = processor.model, processor.random

    def sampler(pe: ProcessingElement) -> Sampler:
        cpu = pe.cpu
        if sampling is not None and sampling.named is not None:
            return event_sampler(pe, core, sampling, sampling.named, model)
        if sampling is not None:
            asked = Asked(sampling.period, sampling.filter)
            sampled = SampledCore(model, core.cracking, core.wrong_path, features=core.features)
            varied = random.stream("sampling") if sampling.jitter else None
            period = PeriodicInterval(asked.period, varied)
            biased = BiasedInterval(period) if core.impdef.erratum_1694299 else period
            return ExternalSampler(cpu, asked, sampled, biased)
        if Feature.FEAT_SPE not in core.features:
            return NoSampler(cpu, model)
        sampled = SampledCore(model, core.cracking, core.wrong_path, pe.events)
        late = lateness_of(cpu, lambda: cpu.executed, random.stream, memory, pe.pmbirq)
        lines = Lines(pe.pmbirq, pe.interrupts.profiling, pe.interrupts.pend_serror, late)
        generator = cpu.impdef.random_generator
        drawn = random.stream(f"interval {generator}" if generator else "interval")
        return StatisticalProfilingUnit(cpu, memory, sampled, drawn, cpu.counted, lines)

    return sampler
