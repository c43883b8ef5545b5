"""Sampling by exceptions: every N-th of a kind samples the operation that it belongs to."""

from __future__ import annotations

from typing import Any

from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.pe import PE
from spe_unicorn.arch.ports import CoreModel
from spe_unicorn.spe.external import ExternalSampler
from spe_unicorn.spe.sampler import NOWHERE


class ExceptionSampler(ExternalSampler):
    """Samples the operation of every ``period``-th exception from ``levels``, None for all levels.

    Operations are not counted: whoever takes exceptions calls :meth:`taken`. Arguments are those of
    :class:`ExternalSampler`.
    """

    def __init__(self, pe: PE, period: int, model: CoreModel, **options: Any) -> None:
        levels = options.pop("levels", None)
        super().__init__(pe, period, model, **options)
        self._taken_at = tuple(levels is None or el in levels for el in range(4))
        self.enabled_at = NOWHERE
        self.enabled = False

    def profiles(self, el: int) -> bool:
        """Whether exceptions from an Exception level count."""
        return self._taken_at[el]

    @property
    def wants(self) -> bool:
        """Whether the operation of the next exception that counts is sampled."""
        return self.until_hit() == 1

    def taken(self, el: int, operation: Operation | None) -> None:
        """An exception is taken from ``el``; its ``operation`` is needed while :attr:`wants`."""
        if self._taken_at[el] and self.advance(1) and operation is not None:
            self.complete(operation)
