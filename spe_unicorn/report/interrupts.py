"""The interrupts that PEs had: which of them each sample was taken in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spe_unicorn.output.arrays import Array
from spe_unicorn.output.perf_format import INTERRUPT

NONE = -1
"""The number of the interrupt that a sample outside of all was taken in."""
_ROW = np.dtype([("ticks", "<u8"), ("cpu", "<u4"), ("intid", "<u4"), ("ends", "<u8")])


class Interrupts:
    """The interrupts of a file, each from when software acknowledged it until it ended.

    Where one interrupts another, samples are in the later one.
    """

    def __init__(self, data: bytes) -> None:
        rows = np.frombuffer(data, _ROW, len(data) // INTERRUPT.size)
        self._of_cpu: dict[int, tuple[Array, Array]] = {}
        for cpu in np.unique(rows["cpu"]).tolist():
            own = rows[rows["cpu"] == cpu]
            active: dict[int, None] = {}
            now = [NONE]
            for intid, ends in zip(own["intid"].tolist(), own["ends"].tolist(), strict=True):
                active.pop(intid, None)
                if not ends:
                    active[intid] = None
                now.append(next(reversed(active), NONE))
            self._of_cpu[cpu] = own["ticks"], np.array(now, np.int64)

    def __bool__(self) -> bool:
        return bool(self._of_cpu)

    def at(self, cpus: Array, ticks: Array) -> npt.NDArray[np.int64]:
        """The number of the interrupt that each PE was in at a time, NONE for none."""
        result = np.full(len(cpus), NONE, np.int64)
        for cpu, (times, now) in self._of_cpu.items():
            rows = np.flatnonzero(cpus == cpu)
            result[rows] = now[np.searchsorted(times, ticks[rows], "right")]
        return result
