"""Sampling by exceptions: every N-th of a kind samples the operation that it belongs to."""

from __future__ import annotations

from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.pe import PE
from spe_unicorn.spe.external import Asked, ExternalSampler
from spe_unicorn.spe.sampler import NOWHERE, SampledCore


class ExceptionSampler(ExternalSampler):
    """Samples the operation of every ``period``-th exception from the levels that are asked for.

    Operations are not counted: whoever takes exceptions calls :meth:`taken`.
    """

    def __init__(self, pe: PE, asked: Asked, core: SampledCore) -> None:
        super().__init__(pe, asked, core)
        self._taken_at = self.enabled_at
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
