"""Says of an instruction that a core lacks which feature would allow it, and which core has that.

Options are named in backquotes, as in ``machine.options``.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.instructions.known.features import Here, IsaFeature, named
from spe_unicorn.instructions.known.finding import known
from spe_unicorn.instructions.known.judging import has

_OTHERS: Final = ("neoverse-n1", "neoverse-v1", "neoverse-n2", "neoverse-v2", "cortex-x4", "max")
"""Cores that may have what another one lacks, the best known first."""


def core_has(core: Core, feature: IsaFeature) -> bool | None:
    """Whether a core has a feature; None where its profile leaves that open."""
    return has(feature, core.features, core.impdef, core.architecture)


def unavailable(word: int, core: Core) -> str | None:
    """Why a word is UNDEFINED on a core, or could not be executed here; None for other words."""
    row = known(word)
    if row is None:
        return None
    needed = named(row.needs)
    lacking = [feature for feature in needed if core_has(core, feature) is False]
    nowhere = [feature for feature in needed if feature.here is Here.NOBODY]
    if not lacking and not nowhere:
        return None
    feature = (lacking or nowhere)[-1]
    what = f"{feature.name} {row.name}: {core.name}"
    if lacking:
        what += f" has no {feature.name}"
    elif core_has(core, feature):
        what += f" has {feature.name}"
    else:
        what += f" may have {feature.name}"
    if nowhere:
        return f"{what}, which this machine does not execute on any core"
    other = _core_with(row.needs)
    return what if other is None else f"{what}; `core` {other} has"


@cache
def _core_with(needs: int) -> str | None:
    """A core with these features, if it is known to have them."""
    for name in _OTHERS:
        core = load_core(name)
        if all(core_has(core, feature) for feature in named(needs)):
            return name
    return None
