"""Large tables that Python and compiled code share."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np


def large_table(*shape: int, dtype: Any = np.int64) -> Any:
    """An array of zeros in pages of its own, for tables of which most stays unused.

    Only pages that are written take memory, and all of them go back to the host with the array. In
    the C library's heap neither is so: a table there is cleared when it is made, and the gaps that
    machines leave grow the heap.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # a forked process has a table of its own
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), dtype).reshape(shape)
