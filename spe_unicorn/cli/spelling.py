"""How the command line spells what messages call by the name of an option of the machine."""

from __future__ import annotations

import re
from dataclasses import fields

from spe_unicorn.machine.options import MachineOptions

_SPELLED = {
    **{f"`{f.name}`": f"--{f.name.replace('_', '-')}" for f in fields(MachineOptions)},
    "`firmware`": "FIRMWARE",
    "`arguments`": "ARGUMENTS",
    "`reboot`": "--no-reboot",
    "`period`": "-c",
    "`kinds`": "--filter",
    "`min_latency`": "--min-latency",
    "`event`": "-e",
}
_NAME = re.compile("|".join(_SPELLED))


def spelled(text: str) -> str:
    """``text`` with ```smp``` as ``--smp``."""
    return _NAME.sub(lambda match: _SPELLED[match[0]], text)
