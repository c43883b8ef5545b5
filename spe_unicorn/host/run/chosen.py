"""The chosen operation, for the runner: what a run up to it is granted, and where it is."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.native.requests import Grant
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import NEVER_HAPPENS
from spe_unicorn.host.run.blocks import Block, Blocks
from spe_unicorn.host.run.parts import Parts
from spe_unicorn.spe.sampler import Sampler

_MOST_PROBES: Final = 256
_PROBE_INTERVAL: Final = 1 << 14
"""The distance of samples, in operations, from which on probes cost more than they save."""
_MASK: Final = (1 << 64) - 1


class Probes:
    """The probes of one PE: calls of the compiled hook at operations that are sampled often."""

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


class ChosenOperation:
    """The operation that one PE's unit samples next."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._probes = Probes(parts.cpu, parts.unit, parts.blocks)

    def grant(self, operations: int) -> Grant:
        """What a run of at most ``operations`` is granted, so that it misses no sample."""
        unit = self._parts.unit
        if not unit.enabled:
            return Grant(operations)
        if self._awaits:
            return Grant(operations)
        hit = unit.until_hit()
        if self._parts.cracker is not None:
            return Grant(operations, self._allow_samples(), hit - 1)
        if hit <= operations:
            return Grant(hit - 1, self._allow_samples())
        return Grant(operations)

    def at(self) -> int:
        """How many operations are executed before it.

        NEVER_HAPPENS unless it is in the block before which the engine stands.
        """
        place = self._place()
        return NEVER_HAPPENS if place is None else self._parts.cpu.executed + place

    def planned(self) -> bool:
        """Whether it is in the block before which the engine stands, whose plan needs no step."""
        found = self._found()
        callers = self._parts.cpu.callers
        if callers is not None and not callers.by_blocks:
            return False
        return found is not None and not found[0].plans[found[1]].exact

    def _place(self) -> int | None:
        """Where it is in the block before which the engine stands."""
        found = self._found()
        if found is None:
            return None
        block, member = found
        self._probes.consider(self._parts.state.block & _MASK, block, member)
        return block.plans[member].place

    def _found(self) -> tuple[Block, int] | None:
        """The block before which the engine stands and which member of it is chosen."""
        parts = self._parts
        if not parts.unit.enabled or self._awaits:
            return None
        hit = parts.unit.until_hit()
        block = parts.blocks.begun()
        if block is None or hit > len(block.plans):
            return None
        return block, hit - 1

    @property
    def _awaits(self) -> bool:
        """Whether the engine stops at the chosen operation by the event that it makes."""
        return self._parts.runs.goal is not None

    def _allow_samples(self) -> bool:
        """Let the compiled hook take samples by itself, where it may.

        It must not where the next sample needs a stop: where its record may cause a management
        event, or its block may hold an operation that is watched for.
        """
        parts = self._parts
        ring = parts.cpu.hooks.samples
        room = min(ring.worth, parts.unit.quiet_records())
        callers = parts.cpu.callers
        stepped = callers is not None and not callers.by_blocks
        # a tag check is described with its operation
        stepped = stepped or parts.cpu.checks_tags is not None
        if not room or stepped or not parts.watching.samples_wait:
            return False
        ring.allow(parts.unit.following(room))
        return True
