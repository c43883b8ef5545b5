"""What is said of many values, asked once for each that there is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array


def texts(values: Array, say: Callable[[int], str]) -> npt.NDArray[np.object_]:
    """What ``say`` says of each value, asked once for each value that there is."""
    unique, places = np.unique(values, return_inverse=True)
    said = np.array([say(value) for value in unique.tolist()], dtype=object)
    return said[places] if len(said) else np.zeros(0, dtype=object)
