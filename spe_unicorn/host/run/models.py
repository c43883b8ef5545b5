"""Makes the core model of each PE, with the hooks that feed it."""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.arch.ports import CoreModel
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.cores.profile import Core, ModelName
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.pe.cpu import UnicornCPU

MakeModel = Callable[[UnicornCPU, RamMemory | None], CoreModel]
"""Makes the core model of one PE, before its hooks are installed.

The memory is what has caches; None for all that there is.
"""


def core_models(core: Core, name: ModelName, pes: int = 1) -> MakeModel:
    """A function that makes the model of that name for each PE of one machine."""
    if name == "none":
        return lambda cpu, memory: ConstantModel()
    # Imported late: compiling takes seconds, and `--model none` does not need it.
    from spe_unicorn.cores.cache_model import CacheModel, last_level
    from spe_unicorn.host.native.model import ModelHooks

    last = last_level(core.numbers, pes)

    def make(cpu: UnicornCPU, memory: RamMemory | None) -> CoreModel:
        model = CacheModel(core.numbers, last)
        cpu.model = ModelHooks(cpu.hooks, model, memory)
        return model

    return make
