"""Makes MachineOptions of what a Machine is given: a file, and options by name."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.options import File, MachineOptions, OptionError


def machine_options(
    firmware: File | Image | MachineOptions | None, options: Mapping[str, Any]
) -> MachineOptions:
    """The options of a machine that is given these arguments. Raises OptionError."""
    if isinstance(firmware, MachineOptions):
        if options:
            given = ", ".join(f"`{name}`" for name in options)
            raise OptionError(f"{given}: say it in the MachineOptions")
        return firmware
    try:
        return MachineOptions(firmware, **options)
    except TypeError:
        known = MachineOptions.__dataclass_fields__
        unknown = [name for name in options if name not in known]
        if not unknown:
            raise
        near = get_close_matches(unknown[0], known, n=1)
        meant = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known)}"
        raise OptionError(f"no option is called `{unknown[0]}`: {meant}") from None
