"""Random translation tables, grown along the addresses that will be asked for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from spe_unicorn.arch.memory.walk_parameters import TTWParams

AF = 1 << 10
TABLE_ATTRIBUTES = 0b1_1111 << 59
LEAF_ATTRIBUTES = 0x0078_0000_0000_0BFC
"""Everything that stands beside the address, but AF, GP and nT."""


class Pool:
    """Memory for tables, handed out in order."""

    def __init__(self, start: int, end: int) -> None:
        self._next, self._end = start, end

    def take(self, size: int, alignment: int) -> int | None:
        """An aligned piece of memory, None when there is no more."""
        at = -(-self._next // alignment) * alignment
        if at + size > self._end:
            return None
        self._next = at + size
        return at


class Tables:
    """Descriptors in memory. ``put`` is told of each: an address and a value."""

    def __init__(self, rng: Random, pool: Pool, put: Callable[[int, int], None]) -> None:
        self._rng, self._pool, self._put = rng, pool, put
        self.cells: dict[int, int] = {}

    def grow(
        self,
        params: TTWParams,
        ia: int,
        leaf_attributes: Callable[[], int],
        output: int,
        solid: bool = False,
    ) -> tuple[list[int], int | None]:
        """Grow the tables for one address, from :attr:`TTWParams.base` down.

        What is there already stays. A ``solid`` path has no holes and ends at the last level.
        Gives the addresses of the descriptors on the way, and what ``ia`` is translated to if the
        path ends in a leaf.
        """
        assert params.start_level is not None
        level, table = params.start_level, params.base
        path = []
        while True:
            lsb = (3 - level) * params.stride + params.granule
            top = params.iasize if level == params.start_level else lsb + params.stride
            address = table + ((ia & (1 << top) - 1) >> lsb) * 8
            path.append(address)
            if address not in self.cells:
                self._write(params, address, level, lsb, leaf_attributes, output, solid)
            descriptor = self.cells[address]
            if not descriptor & 1 or (level == 3 and not descriptor & 2):
                return path, None
            at = descriptor & (1 << 48) - 1
            if level == 3 or not descriptor & 2:
                return path, at >> lsb << lsb | ia & (1 << lsb) - 1
            table, level = at >> params.granule << params.granule, level + 1

    def _write(
        self,
        params: TTWParams,
        address: int,
        level: int,
        lsb: int,
        leaf_attributes: Callable[[], int],
        output: int,
        solid: bool,
    ) -> None:
        rng = self._rng
        noise = rng.getrandbits(64)
        leaf = output >> lsb << lsb & (1 << 48) - 1 | leaf_attributes()
        can_be_block = params.first_block_level <= level < 3 and not solid
        hole = not solid and rng.random() < 0.08
        if hole:
            descriptor = noise & ~1 if level < 3 or rng.random() < 0.5 else noise & ~3 | 1
        elif level == 3:
            descriptor = leaf | 3
        elif can_be_block and rng.random() < 0.2:
            descriptor = leaf | 1
        else:
            size = 1 << params.granule
            table = self._pool.take(size, size)
            bits = 0 if solid or rng.random() < 0.5 else noise & TABLE_ATTRIBUTES
            descriptor = 0 if table is None else table | bits | 3
        self.cells[address] = descriptor
        self._put(address, descriptor)
