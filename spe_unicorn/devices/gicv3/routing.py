"""The interrupts of a GICv3 and where they go: what the Distributor and Redistributors hold.

State is one bitmap for each property of a :class:`Bank` of interrupts, so that most GIC registers
are a shift and a mask. :class:`InterruptRouting` chooses the highest priority pending interrupt of
each PE: the lowest INTID among equals, so the choice is deterministic. There are no LPIs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Final, NamedTuple, Protocol

from spe_unicorn.devices.gicv3 import cells as c
from spe_unicorn.devices.gicv3.cells import PRIVATE, Cells
from spe_unicorn.plain import Bits32, Within
from spe_unicorn.signals import Signal
from spe_unicorn.stateful import Stateful, expect

__all__ = ["PRIVATE", "SGIS", "Bank", "CPUPort", "Group", "InterruptRouting", "Pending"]

SGIS: Final = 16
_SGI_BITS: Final = (1 << SGIS) - 1


class Group(IntEnum):
    """Interrupt groups. With one Security state GROUP1_NS is simply Group 1."""

    GROUP0 = 0
    GROUP1_S = 1
    GROUP1_NS = 2


class Pending(NamedTuple):
    """An interrupt that asks for attention; ``priority`` is 8 bits, lower is more urgent."""

    priority: int
    intid: int
    group: Group


class CPUPort(Protocol):
    """What the routing needs of a PE's CPU interface."""

    def group_enabled(self, group: Group) -> bool:
        """Whether ICC_IGRPEN* let the group through."""
        ...

    def update(self) -> None:
        """The PE's highest priority pending interrupt may have changed."""
        ...

    def update_private(self) -> None:
        """The same, where no other than its own interrupts have changed."""
        ...


class Properties(Protocol):
    """What is known of each interrupt of a bank: bitmaps, bit n for the n-th interrupt."""

    group: int
    edge: int
    line: int
    """The levels of the inputs."""
    group_modifier: int
    enabled: int
    latch: int
    """The pending state that a line's level does not explain: an edge, or GICx_ISPENDR."""
    active: int

    @property
    def priority(self) -> bytearray | memoryview:
        """Of each interrupt, one after the other."""
        ...

    @property
    def nsacr(self) -> bytearray | memoryview:
        """Two bits of GICx_NSACR each."""
        ...


class Bank:
    """Interrupts ``first`` to ``first + count - 1``: bit n of each bitmap is INTID first + n.

    ``always_edge`` are those whose configuration is fixed (SGIs).
    """

    s: Properties

    def __init__(self, first: int, count: int, always_edge: int = 0) -> None:
        self.first = first
        self.count = count
        self.all = (1 << count) - 1
        self.always_edge = always_edge

    def reset(self, group: int) -> None:
        """Forget everything but the levels of the lines; ``group`` becomes the group bitmap."""
        raise NotImplementedError

    @property
    def pending(self) -> int:
        """Latched, or level-sensitive with its line high."""
        return self.s.latch | self.s.line & ~self.s.edge

    def set_line(self, bit: int, *, level: bool) -> bool:
        """Drive an input; False if it has that level already.

        A rising edge is latched where the interrupt is edge-triggered.
        """
        mask = 1 << bit
        if bool(self.s.line & mask) is level:
            return False
        self.s.line ^= mask
        if level:
            self.s.latch |= mask & self.s.edge
        return True

    def members(self, group: Group, *, one_state: bool) -> int:
        """The interrupts of a group; ``one_state`` is GICD_CTLR.DS.

        Both bits of GICD_IGROUPR and GICD_IGRPMODR set is reserved: taken for Non-secure Group 1.
        """
        if group is Group.GROUP1_NS:
            return self.s.group
        secure = self.all & ~self.s.group
        if one_state:
            return secure if group is Group.GROUP0 else 0
        modified = secure & self.s.group_modifier
        return modified if group is Group.GROUP1_S else secure & ~modified

    def best(self, candidates: int, group: Group) -> Pending | None:
        """The most urgent of ``candidates``, which all belong to ``group``."""
        result: Pending | None = None
        while candidates:
            lowest = candidates & -candidates
            candidates ^= lowest
            bit = lowest.bit_length() - 1
            priority = self.s.priority[bit]
            if result is None or priority < result.priority:
                result = Pending(priority, self.first + bit, group)
        return result


def _cell(number: int) -> property:
    def get(self: PrivateProperties) -> int:
        value: int = self.k[number]
        return value

    def set_(self: PrivateProperties, value: int) -> None:
        self.k[number] = value

    return property(get, set_)


class PrivateProperties:
    """The :class:`Properties` of a PE's own interrupts, which lie in its cells."""

    WIRING = ("k", "nsacr", "priority")

    group, edge, line = _cell(c.GROUP), _cell(c.EDGE), _cell(c.LINE)
    group_modifier, enabled = _cell(c.MODIFIER), _cell(c.ENABLED)
    latch, active = _cell(c.LATCH), _cell(c.ACTIVE)

    def __init__(self, cells: Cells) -> None:
        self.k = cells.k
        self.priority = cells.k[c.PRIORITY : c.PRIORITY + PRIVATE]
        self.nsacr = cells.k[c.NSACR : c.NSACR + PRIVATE]


class PrivateBank(Bank):
    """The SGIs and PPIs of a PE."""

    WIRING = ("_k",)

    def __init__(self, cells: Cells) -> None:
        super().__init__(0, PRIVATE, _SGI_BITS)
        self._k = cells.k
        self.s = PrivateProperties(cells)
        self.reset(0)

    def reset(self, group: int) -> None:
        """Forget everything but the levels of the lines; ``group`` becomes the group bitmap."""
        line = self.s.line
        for word in range(c.GROUP, c.KEPT):
            self._k[word] = 0
        self.s.group, self.s.line, self.s.edge = group, line, self.always_edge

    def set_line(self, bit: int, *, level: bool) -> bool:
        """Drive an input; False if it has that level already."""
        return c.set_line(self._k, bit, level)


Bitmap = Annotated[int, Within(0, (1 << 960) - 1)]
"""A bit for each shared interrupt."""


@dataclass(slots=True)
class BankState:
    """What is saved of shared interrupts: :class:`Properties`."""

    priority: bytearray
    nsacr: bytearray
    group: Bitmap = 0
    edge: Bitmap = 0
    line: Bitmap = 0
    group_modifier: Bitmap = 0
    enabled: Bitmap = 0
    latch: Bitmap = 0
    active: Bitmap = 0


class SharedBank(Bank, Stateful[BankState]):
    """The SPIs."""

    s: BankState

    def __init__(self, count: int) -> None:
        super().__init__(PRIVATE, count)
        self.s = self._state(group=0, line=0)

    def reset(self, group: int) -> None:
        """Forget everything but the levels of the lines; ``group`` becomes the group bitmap."""
        self.s = self._state(group, self.s.line)

    def check(self, state: BankState) -> None:
        """Raise StateError for the state of another number of interrupts."""
        expect(len(state.priority) == len(state.nsacr) == self.count, "the number of SPIs")
        maps = (
            state.group,
            state.edge,
            state.line,
            state.group_modifier,
            state.enabled,
            state.latch,
            state.active,
        )
        expect(not any(each >> self.count for each in maps), "an SPI")
        expect(max(state.nsacr, default=0) <= 3, "GICD_NSACR")

    def _state(self, group: int, line: int) -> BankState:
        return BankState(bytearray(self.count), bytearray(self.count), group=group, line=line)


@dataclass(slots=True)
class RoutingState:
    """What is saved of the routing, beside its banks."""

    one_state: bool
    """GICD_CTLR.DS."""
    asleep: list[bool]
    """GICR_WAKER.ProcessorSleep, by PE."""
    affinity_of_spi: list[Bits32]
    """GICD_IROUTER, by SPI: Aff3 to Aff0 as 32 bits."""
    any_pe: Bitmap = 0
    """GICD_IROUTER.Interrupt_Routing_Mode: a bitmap of SPIs."""
    group_enables: dict[Group, bool] = field(default_factory=lambda: dict.fromkeys(Group, False))
    """GICD_CTLR.EnableGrp*."""


class InterruptRouting(Stateful[RoutingState]):
    """All interrupts of a machine whose PEs have the ``affinities`` (Aff3 to Aff0, 32 bits).

    ``spis`` is a multiple of 32, up to 960. With ``two_security_states`` GICD_CTLR.DS starts at 0
    and Secure software may set it; else it is always 1.
    """

    DERIVED = ("_targets",)
    WIRING = ("ports",)

    def __init__(self, affinities: Sequence[int], spis: int, *, two_security_states: bool) -> None:
        if spis % 32 or not 0 <= spis <= 960:
            raise ValueError(f"a GICv3 has a multiple of 32 SPIs, up to 960; got {spis}")
        self.affinities = tuple(affinities)
        self.two_security_states = two_security_states
        self.cells = tuple(Cells() for _ in self.affinities)
        """What each PE has of its own, as arrays."""
        self.private = tuple(PrivateBank(cells) for cells in self.cells)
        self.shared = SharedBank(spis)
        self.ports: tuple[CPUPort, ...] = ()
        self.driven: Signal[[int, int, bool]] = Signal()
        """Told of each input that changes: the PE (of a PPI), the INTID, its level."""
        self.activated: Signal[[int, int]] = Signal()
        """Told of each interrupt that a PE acknowledges: the PE and the INTID."""
        self.deactivated: Signal[[int, int]] = Signal()
        """Told of each whose active state a PE ends."""
        self._targets: list[int] = []
        """The SPIs that go to each PE by their affinity: a bitmap each."""
        self.reset()

    def reset(self, *, nonsecure: bool = False) -> None:
        """Reset; with ``nonsecure`` as Secure firmware leaves it: PEs awake, all in Group 1."""
        for bank in (*self.private, self.shared):
            bank.reset(group=bank.all if nonsecure else 0)
        self.s = RoutingState(
            one_state=not self.two_security_states,
            asleep=[not nonsecure] * len(self.affinities),
            affinity_of_spi=[0] * self.shared.count,
        )
        self._derive()

    def check(self, state: RoutingState) -> None:
        """Raise StateError for the state of another number of PEs or interrupts."""
        expect(len(state.asleep) == len(self.affinities), "the number of PEs of the GIC")
        expect(len(state.affinity_of_spi) == self.shared.count, "the number of SPIs")
        expect(not state.any_pe >> self.shared.count, "an SPI")
        expect(state.group_enables.keys() == set(Group), "a group of interrupts")

    def attach(self, ports: Sequence[CPUPort]) -> None:
        """Connect the PEs' CPU interfaces, in the order of the affinities."""
        self.ports = tuple(ports)

    def changed(self, pe: int | None = None) -> None:
        """Tell the CPU interface of ``pe``, whose own interrupts have changed, to look again.

        All of them at everything without ``pe``.
        """
        if pe is None:
            for port in self.ports:
                port.update()
        elif self.ports:
            self.ports[pe].update_private()

    def bank(self, pe: int, intid: int) -> Bank | None:
        """The bank that holds an INTID as ``pe`` sees it; None for one that is not there."""
        bank = self.private[pe] if intid < PRIVATE else self.shared
        return bank if bank.first <= intid < bank.first + bank.count else None

    def group_of(self, pe: int, intid: int) -> Group:
        """The group of an interrupt that is there."""
        if intid < PRIVATE:
            cells = self.cells[pe]
            return Group(c.group_of(cells.k, cells.f, intid))
        bank = self.shared
        mask = 1 << intid - bank.first
        if bank.s.group & mask:
            return Group.GROUP1_NS
        modified = bank.s.group_modifier & mask and not self.s.one_state
        return Group.GROUP1_S if modified else Group.GROUP0

    def route(self, intid: int, affinity: int, *, any_pe: bool) -> None:
        """GICD_IROUTER: an SPI goes to the PE with ``affinity``, or to ``any_pe`` (1 of N)."""
        bit = intid - self.shared.first
        self.s.affinity_of_spi[bit] = affinity
        self.s.any_pe = self.s.any_pe & ~(1 << bit) | any_pe << bit
        self._retarget()
        self.changed()

    def set_line(self, pe: int, intid: int, *, level: bool) -> None:
        """Drive the input of a PPI of ``pe``, or of an SPI."""
        bank = self.private[pe] if intid < PRIVATE else self.shared
        if bank.set_line(intid - bank.first, level=level):
            self.driven(pe, intid, level)
            self.changed(pe if intid < PRIVATE else None)

    def look_at_shared(self, pe: int) -> None:
        """Work out anew what a PE's own part of the GIC has to know of the rest.

        Which groups the Distributor lets through, and the highest priority pending interrupt among
        the shared ones: of those that are enabled and not active, in groups that are enabled both
        in the Distributor and in the PE's CPU interface.
        """
        f, shared = self.cells[pe].f, self.shared
        f[c.ONE_STATE] = self.s.one_state
        f[c.DISTRIBUTED] = sum(on << group for group, on in self.s.group_enables.items())
        best: Pending | None = None
        ready = shared.pending & shared.s.enabled & ~shared.s.active
        for group, enabled in self.s.group_enables.items() if ready else ():
            if not enabled or not self.ports[pe].group_enabled(group):
                continue
            mine = self._targets[pe]
            if self.s.any_pe and self._chosen_for_any(group) == pe:
                mine |= self.s.any_pe
            found = shared.best(
                ready & mine & shared.members(group, one_state=self.s.one_state), group
            )
            if found is not None and (best is None or found < best):
                best = found
        if best is None:
            f[c.SHARED] = c.SPURIOUS
        else:
            f[c.SHARED + c.INTID] = best.intid
            f[c.SHARED + c.URGENCY] = best.priority
            f[c.SHARED + c.OF_GROUP] = best.group

    def activate(self, pe: int, intid: int) -> None:
        """Acknowledge: pending becomes active; a line that is still high leaves it both."""
        if intid < PRIVATE:
            c.activate(self.cells[pe].k, intid)
        else:
            mask = 1 << intid - PRIVATE
            self.shared.s.active |= mask
            self.shared.s.latch &= ~mask
        self.activated(pe, intid)
        self.changed(pe if intid < PRIVATE else None)

    def deactivate(self, pe: int, intid: int) -> None:
        """End of the active state; an INTID that is not there is ignored."""
        if self.bank(pe, intid) is not None:
            if intid < PRIVATE:
                c.deactivate(self.cells[pe].k, intid)
            else:
                self.shared.s.active &= ~(1 << intid - PRIVATE)
            self.deactivated(pe, intid)
            self.changed(pe if intid < PRIVATE else None)

    def send_sgi(self, pe: int, intid: int, group: Group, *, nonsecure: bool) -> None:
        """An SGI for ``pe``, asked for as ``group`` by software in that Security state.

        It arrives if the target has configured it in that group, a request for Secure Group 1 also
        if in Group 0. Non-secure software needs the target's GICR_NSACR for both.
        """
        configured = self.group_of(pe, intid)
        if configured is not group and (group, configured) != (Group.GROUP1_S, Group.GROUP0):
            return
        bank = self.private[pe]
        if nonsecure and not self.s.one_state and configured is not Group.GROUP1_NS:
            needed = 1 if configured is Group.GROUP0 else 2
            if bank.s.nsacr[intid] < needed:
                return
        bank.s.latch |= 1 << intid
        self.changed(pe)

    def _chosen_for_any(self, group: Group) -> int | None:
        """The PE that takes 1-of-N interrupts of a group.

        The architecture leaves the choice open. Ours is the first PE, by number, that is awake
        (GICR_WAKER) and has the group enabled.
        """
        for pe, port in enumerate(self.ports):
            if not self.s.asleep[pe] and port.group_enabled(group):
                return pe
        return None

    def _derive(self) -> None:
        self._retarget()
        self.changed()

    def _retarget(self) -> None:
        """Work out which SPIs go to each PE. An affinity that no PE has goes nowhere."""
        self._targets = [0] * len(self.affinities)
        number = {affinity: pe for pe, affinity in enumerate(self.affinities)}
        for bit, affinity in enumerate(self.s.affinity_of_spi):
            pe = number.get(affinity)
            if pe is not None and not self.s.any_pe >> bit & 1:
                self._targets[pe] |= 1 << bit
