"""All compiled code of the package, found by importing all of it."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

import spe_unicorn
from spe_unicorn.compiled import Entry, HandWritten


@cache
def every_entry() -> tuple[Entry | HandWritten, ...]:
    """Each function of the package that is entered as machine code, in the order of names."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(spe_unicorn.__path__, "spe_unicorn."):
        if module.name.endswith("__main__") or module.name.startswith("spe_unicorn.compiled"):
            continue  # the program; what compiles
        for value in vars(import_module(module.name)).values():
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Entry | HandWritten):
                    found[item.name] = item
    return tuple(found[name] for name in sorted(found))
