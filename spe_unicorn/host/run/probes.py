"""Probes: calls of the compiled hook at single operations that are sampled again and again."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.run.blocks import Block, Blocks
from spe_unicorn.spe.sampler import Sampler

_MOST_PROBES: Final = 256
_PROBE_INTERVAL: Final = 1 << 14
"""The distance of samples, in operations, from which on probes cost more than they save."""
_MASK: Final = (1 << 64) - 1


class Probes:
    """The probes of one PE."""

    def __init__(self, cpu: UnicornCPU, unit: Sampler, blocks: Blocks) -> None:
        self._cpu = cpu
        self._unit = unit
        self._blocks = blocks
        self._probes: set[int] = set()
        """Addresses that have a probe."""
        self._stepped: set[int] = set()
        """Addresses that have been stepped to once."""

    def consider(self, start: int, block: Block, member: int) -> None:
        """Put a probe at an operation that would be stepped to for the second time.

        A probe costs a few nanoseconds each time its operation runs. A step costs some tens of
        microseconds each time its operation is sampled. So a probe pays if samples are not too far
        apart.
        """
        if not block.suits_probe(member):
            return
        address = start + 4 * block.plans[member].place & _MASK
        if address in self._probes:
            self._blocks.probe(start, block, member)
        elif address in self._stepped:
            if len(self._probes) < _MOST_PROBES and min(self._unit.following(1)) < _PROBE_INTERVAL:
                self._probes.add(address)
                self._cpu.hooks.probe(address)
                self._blocks.probe(start, block, member)
        else:
            self._stepped.add(address)
