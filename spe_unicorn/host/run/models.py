"""Makes the core model of each PE, with the hooks that feed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from spe_unicorn.arch.ports import CoreModel
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.cores.profile import Core, ModelName
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.hooks import NativeHooks

if TYPE_CHECKING:
    from spe_unicorn.host.native.model import ModelHooks


class Modelled(NamedTuple):
    """The core model of one PE, and what feeds it if it has to see every access and branch."""

    model: CoreModel
    feeder: ModelHooks | None


MakeModel = Callable[[NativeHooks, RamMemory | None], Modelled]
"""Makes the core model of one PE, before its hooks are installed.

The memory is what has caches; None for all that there is.
"""


def core_models(core: Core, name: ModelName, pes: int = 1) -> MakeModel:
    """A function that makes the model of that name for each PE of one machine."""
    if name == "none":
        return lambda hooks, memory: Modelled(ConstantModel(), None)
    # Imported late: compiling takes seconds, and `--model none` does not need it.
    from spe_unicorn.cores.cache_model import CacheModel, last_level
    from spe_unicorn.host.native.model import ModelHooks

    last = last_level(core.numbers, pes)

    def make(hooks: NativeHooks, memory: RamMemory | None) -> Modelled:
        model = CacheModel(core.numbers, last)
        return Modelled(model, ModelHooks(hooks, model, memory))

    return make
