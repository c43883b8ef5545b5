"""The modules behind ``scripts/linux``, for its tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
LINUX = ROOT / "scripts" / "linux_guest"


@contextmanager
def importable() -> Iterator[None]:
    """Have the modules find one another."""
    sys.path.insert(0, str(LINUX))
    yield
    sys.path.remove(str(LINUX))


def module(name: str) -> ModuleType:
    """One of them; :func:`importable` has to be around."""
    return importlib.import_module(name)
