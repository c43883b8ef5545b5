"""A core without SPE: nothing is ever sampled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.operation import Calls, Operation
from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.ports import CoreModel
from spe_unicorn.spe.batch import Looked, Written
from spe_unicorn.spe.interval import PeriodicInterval
from spe_unicorn.spe.sample import Recorder
from spe_unicorn.spe.sampler import SampledCore, Sampler


class NoSampler(Sampler):
    """A sampler for hosts that need one. Its population is empty, so nothing is selected."""

    def __init__(self, pe: PE, model: CoreModel) -> None:
        super().__init__(pe, PeriodicInterval(1), SampledCore(model))

    def refresh(self) -> None:
        """Profiling stays disabled."""

    def reload(self) -> None:
        """No register changes anything."""

    def forget_translations(self) -> None:
        """There is no buffer whose addresses would be translated."""

    def profiles(self, el: int) -> bool:
        """No Exception level is profiled."""
        return False

    def quiet_records(self) -> int:
        """There are no records."""
        return 0

    def _recorder_at(self, el: int) -> Recorder:
        raise RuntimeError(f"a core without SPE is to make a record at EL{el}")

    def _collides(self) -> bool:
        return False

    def _occupy(self, cycles: int) -> None:
        """Nothing is in flight."""

    def _at_once(self, samples: NDArray[np.int64], looked: Looked) -> dict[int, Recorder] | None:
        return None

    def _keep_all(
        self,
        samples: NDArray[np.int64],
        looked: Looked,
        written: Written,
        calls: Sequence[Calls],
    ) -> None:
        """No record passes any filter."""

    def _keep(self, record: bytes, operation: Operation) -> None:
        """No record passes any filter."""
