"""The memory-mapped registers of a GICv3: one Distributor, and two frames a Redistributor.

Offsets count from the start of the Distributor, or of the first Redistributor. Accesses of 1, 2, 4
and 8 bytes work on whichever registers they cover. ``secure`` is the address space of the access;
it matters while GICD_CTLR.DS is 0. What is not there reads as zero and ignores writes, and so does
what the other Security state keeps.
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.devices.gicv3.routing import PRIVATE, Bank, Group, InterruptRouting

DISTRIBUTOR_SIZE: Final = 0x1_0000
REDISTRIBUTOR_SIZE: Final = 0x2_0000
"""RD_base and SGI_base, 64 KiB each."""

_FRAME: Final = 0x1_0000
_WORD: Final = 0xFFFF_FFFF

# Arm's Distributor and Redistributor, as QEMU's board shows them.
_IIDR: Final = 0x43B
_ID: Final = 0xFFD0
_ID_WORDS: Final = (0x44, 0, 0, 0, 0x92, 0xB4, 0x3B, 0, 0x0D, 0xF0, 0x05, 0xB1)
_ID_WORDS_GICR: Final = (0x44, 0, 0, 0, 0x93, 0xB4, 0x3B, 0, 0x0D, 0xF0, 0x05, 0xB1)

_GICD_CTLR, _GICD_TYPER, _GICD_IIDR, _GICD_IROUTER = 0x0, 0x4, 0x8, 0x6000
_GICR_IIDR, _GICR_TYPER, _GICR_TYPER_HIGH, _GICR_WAKER = 0x4, 0x8, 0xC, 0x14

_TYPER_A3V = 1 << 24
_TYPER_ID_BITS = 0xF << 19  # 16 bits of INTID
_TYPER_SECURITY = 1 << 10

_CTLR_ARE = 1 << 4
_CTLR_ARE_NS = 1 << 5
_CTLR_DS = 1 << 6

_IROUTER_IRM = 1 << 31
_IROUTER_AFFINITY = 0xFF00FF_FFFF

_PROCESSOR_SLEEP, _CHILDREN_ASLEEP = 1 << 1, 1 << 2

_NEVER = 4  # no value of GICD_NSACR grants this


class WordRegisters:
    """Turns accesses of any size into accesses to aligned 32-bit words.

    A sub-class answers :meth:`read_word` and :meth:`write_word`; ``lanes`` masks the bits that a
    write covers.
    """

    def read(self, offset: int, size: int, *, secure: bool = False) -> int:
        """The ``size`` bytes at ``offset``, little-endian."""
        start = offset & ~3
        value = 0
        for word in range(start, offset + size, 4):
            value |= self.read_word(word, secure=secure) << 8 * (word - start)
        return value >> 8 * (offset - start) & (1 << 8 * size) - 1

    def write(self, offset: int, size: int, value: int, *, secure: bool = False) -> None:
        """Store ``size`` bytes at ``offset``, little-endian."""
        start = offset & ~3
        shift = 8 * (offset - start)
        lanes = (1 << 8 * size) - 1 << shift
        value <<= shift
        for word in range(start, offset + size, 4):
            place = 8 * (word - start)
            covered = lanes >> place & _WORD
            self.write_word(word, value >> place & covered, covered, secure=secure)

    def read_word(self, offset: int, *, secure: bool) -> int:
        """The word at ``offset``, a multiple of 4."""
        raise NotImplementedError

    def write_word(self, offset: int, value: int, lanes: int, *, secure: bool) -> None:
        """Write those bits of the word at ``offset`` that ``lanes`` has."""
        raise NotImplementedError


class BankRegisters:
    """The registers from offset 0x80 to 0xEFF, which GICD and SGI_base share, over one bank.

    ``nsacr_opens`` says whether the bank's NSACR opens registers, as GICD_NSACR does; GICR_NSACR is
    about sending SGIs alone.
    """

    def __init__(self, routing: InterruptRouting, bank: Bank, *, nsacr_opens: bool) -> None:
        self._routing = routing
        self._bank = bank
        self._nsacr_opens = nsacr_opens

    def read_word(self, offset: int, *, secure: bool) -> int:
        """The word at ``offset``."""
        bank = self._bank
        if 0x400 <= offset < 0x800:
            return self._read_priorities(offset - 0x400, secure=secure)
        if 0xC00 <= offset < 0xD00:
            return self._read_pairs((offset - 0xC00) * 4, secure=secure)
        if 0xE00 <= offset < 0xF00:
            return self._read_nsacr((offset - 0xE00) * 4, secure=secure)
        family, word = offset & ~0x7F, offset & 0x7C
        needed = _NEVER
        if family == 0x080:
            bits = bank.s.group if self._full(secure=secure) else 0
        elif family in (0x100, 0x180):
            bits = bank.s.enabled
        elif family in (0x200, 0x280):
            bits, needed = bank.pending, 1 if family == 0x200 else 2
        elif family in (0x300, 0x380):
            bits, needed = bank.s.active, 2
        elif family == 0xD00:
            bits = bank.s.group_modifier if self._keeps_groups(secure=secure) else 0
        else:
            return 0
        return self._word(bits & self._visible(needed, secure=secure), word * 8)

    def write_word(self, offset: int, value: int, lanes: int, *, secure: bool) -> None:
        """Write the word at ``offset``."""
        if 0x400 <= offset < 0x800:
            self._write_priorities(offset - 0x400, value, lanes, secure=secure)
        elif 0xC00 <= offset < 0xD00:
            self._write_pairs((offset - 0xC00) * 4, value, lanes, secure=secure)
        elif 0xE00 <= offset < 0xF00:
            self._write_nsacr((offset - 0xE00) * 4, value, lanes, secure=secure)
        else:
            self._write_bitmap(offset & ~0x7F, (offset & 0x7C) * 8, value, lanes, secure=secure)

    def _write_bitmap(
        self, family: int, intid: int, value: int, lanes: int, *, secure: bool
    ) -> None:
        bank = self._bank
        bits = self._place(value, intid)
        covered = self._place(lanes, intid)
        mine = bits & self._visible(_NEVER, secure=secure)
        if family == 0x080 and self._full(secure=secure):
            bank.s.group = bank.s.group & ~covered | bits
        elif family == 0x100:
            bank.s.enabled |= mine
        elif family == 0x180:
            bank.s.enabled &= ~mine
        elif family == 0x200:
            bank.s.latch |= bits & self._visible(1, secure=secure)
        elif family == 0x280:
            bank.s.latch &= ~(bits & self._visible(2, secure=secure))
        elif family == 0x300:
            bank.s.active |= mine
        elif family == 0x380:
            bank.s.active &= ~mine
        elif family == 0xD00 and self._keeps_groups(secure=secure):
            bank.s.group_modifier = bank.s.group_modifier & ~covered | bits

    def _read_priorities(self, intid: int, *, secure: bool) -> int:
        value = 0
        for lane in range(4):
            bit = self._bit(intid + lane)
            if bit is None:
                continue
            priority = self._bank.s.priority[bit]
            if not self._full(secure=secure):
                # Non-secure software sees the lower half of the range, and its own interrupts.
                priority = priority << 1 & 0xFF if self._bank.s.group >> bit & 1 else 0
            value |= priority << 8 * lane
        return value

    def _write_priorities(self, intid: int, value: int, lanes: int, *, secure: bool) -> None:
        for lane in range(4):
            bit = self._bit(intid + lane)
            if bit is None or not lanes >> 8 * lane & 0xFF:
                continue
            priority = value >> 8 * lane & 0xFF
            if self._full(secure=secure):
                self._bank.s.priority[bit] = priority
            elif self._bank.s.group >> bit & 1:
                self._bank.s.priority[bit] = 0x80 | priority >> 1

    def _read_pairs(self, intid: int, *, secure: bool) -> int:
        """GICx_ICFGR: two bits an interrupt, the upper one set for edge-triggered."""
        bits = self._word(self._bank.s.edge & self._visible(_NEVER, secure=secure), intid) & 0xFFFF
        return sum(2 << 2 * n for n in range(16) if bits >> n & 1)

    def _write_pairs(self, intid: int, value: int, lanes: int, *, secure: bool) -> None:
        bank = self._bank
        edges = sum(1 << n for n in range(16) if value >> 2 * n + 1 & 1)
        covered = sum(1 << n for n in range(16) if lanes >> 2 * n + 1 & 1)
        changing = (
            self._place(covered, intid) & self._visible(_NEVER, secure=secure) & ~bank.always_edge
        )
        bank.s.edge = bank.s.edge & ~changing | self._place(edges, intid) & changing

    def _read_nsacr(self, intid: int, *, secure: bool) -> int:
        if not self._keeps_groups(secure=secure):
            return 0
        bits = (self._bit(intid + n) for n in range(16))
        return sum(
            self._bank.s.nsacr[bit] << 2 * n for n, bit in enumerate(bits) if bit is not None
        )

    def _write_nsacr(self, intid: int, value: int, lanes: int, *, secure: bool) -> None:
        if not self._keeps_groups(secure=secure):
            return
        for n in range(16):
            bit = self._bit(intid + n)
            if bit is not None and lanes >> 2 * n & 3:
                self._bank.s.nsacr[bit] = value >> 2 * n & 3

    def _full(self, *, secure: bool) -> bool:
        """Whether the access sees everything."""
        return secure or self._routing.s.one_state

    def _keeps_groups(self, *, secure: bool) -> bool:
        """Whether the access reaches what only two Security states have."""
        return secure and not self._routing.s.one_state

    def _visible(self, needed: int, *, secure: bool) -> int:
        """The interrupts that an access may touch, those with GICD_NSACR from ``needed`` up too."""
        bank = self._bank
        if self._full(secure=secure):
            return bank.all
        granted = 0
        if self._nsacr_opens and needed != _NEVER:
            granted = sum(1 << bit for bit, nsacr in enumerate(bank.s.nsacr) if nsacr >= needed)
        return bank.s.group | granted

    def _bit(self, intid: int) -> int | None:
        """Where an INTID stands in the bank, None if not in it."""
        bit = intid - self._bank.first
        return bit if 0 <= bit < self._bank.count else None

    def _word(self, bits: int, intid: int) -> int:
        """32 bits of a bitmap, from ``intid`` up."""
        bit = self._bit(intid)
        return 0 if bit is None else bits >> bit & _WORD

    def _place(self, value: int, intid: int) -> int:
        """The inverse: a word of a register as a bitmap."""
        bit = self._bit(intid)
        return 0 if bit is None else value << bit & self._bank.all


class Distributor(WordRegisters):
    """GICD. Affinity routing is always on, so the legacy registers read as zero."""

    def __init__(self, routing: InterruptRouting) -> None:
        self._routing = routing
        self._bank = BankRegisters(routing, routing.shared, nsacr_opens=True)

    def read_word(self, offset: int, *, secure: bool) -> int:
        """The word at ``offset``."""
        routing = self._routing
        if offset == _GICD_CTLR:
            return self._ctlr(secure=secure)
        if offset == _GICD_TYPER:
            security = 0 if routing.s.one_state else _TYPER_SECURITY
            return _TYPER_A3V | _TYPER_ID_BITS | security | routing.shared.count // 32
        if offset == _GICD_IIDR:
            return _IIDR
        if 0x80 <= offset < 0xF00:
            return self._bank.read_word(offset, secure=secure)
        if offset >= _ID:
            return _ID_WORDS[(offset - _ID) // 4]
        if (spi := self._routed(offset, secure=secure)) is not None:
            return self._irouter(spi) >> 8 * (offset & 4) & _WORD
        return 0

    def write_word(self, offset: int, value: int, lanes: int, *, secure: bool) -> None:
        """Write the word at ``offset``."""
        routing = self._routing
        if offset == _GICD_CTLR:
            self._set_ctlr(value, secure=secure)
            routing.changed()
        elif 0x80 <= offset < 0xF00:
            self._bank.write_word(offset, value, lanes, secure=secure)
            routing.changed()
        elif (spi := self._routed(offset, secure=secure)) is not None:
            shift = 8 * (offset & 4)
            new = self._irouter(spi) & ~(lanes << shift) | value << shift
            routing.route(spi, _affinity(new), any_pe=bool(new & _IROUTER_IRM))

    def _ctlr(self, *, secure: bool) -> int:
        routing = self._routing
        group0, group1_s, group1_ns = (routing.s.group_enables[group] for group in Group)
        if routing.s.one_state:
            return _CTLR_DS | _CTLR_ARE | group1_ns << 1 | group0
        if secure:
            return _CTLR_ARE_NS | _CTLR_ARE | group1_s << 2 | group1_ns << 1 | group0
        return _CTLR_ARE | group1_ns << 1

    def _set_ctlr(self, value: int, *, secure: bool) -> None:
        routing = self._routing
        enables = routing.s.group_enables
        enables[Group.GROUP1_NS] = bool(value & 2)
        if not (secure or routing.s.one_state):
            return
        enables[Group.GROUP0] = bool(value & 1)
        if routing.s.one_state:
            return
        enables[Group.GROUP1_S] = bool(value & 4)
        if value & _CTLR_DS:  # once set only a reset clears it
            routing.s.one_state = True
            enables[Group.GROUP1_S] = False

    def _routed(self, offset: int, *, secure: bool) -> int | None:
        """The SPI whose GICD_IROUTER the access reaches, None for no such or a hidden one."""
        routing = self._routing
        intid = (offset - _GICD_IROUTER) // 8
        bit = intid - PRIVATE
        if offset < _GICD_IROUTER or not 0 <= bit < routing.shared.count:
            return None
        if secure or routing.s.one_state or routing.shared.s.group >> bit & 1:
            return intid
        return intid if routing.shared.s.nsacr[bit] == 3 else None

    def _irouter(self, intid: int) -> int:
        bit = intid - PRIVATE
        affinity = self._routing.s.affinity_of_spi[bit]
        mode = _IROUTER_IRM if self._routing.s.any_pe >> bit & 1 else 0
        return (affinity >> 24) << 32 | mode | affinity & 0xFF_FFFF


def _affinity(irouter: int) -> int:
    """Aff3 to Aff0 of a GICD_IROUTER as 32 bits."""
    fields = irouter & _IROUTER_AFFINITY
    return fields >> 32 << 24 | fields & 0xFF_FFFF


class Redistributors(WordRegisters):
    """GICR of every PE, one after the other.

    GICR_WAKER is kept, and a PE asleep is not chosen for 1-of-N interrupts. Using the CPU interface
    of a sleeping PE is UNPREDICTABLE; our choice is that interrupts reach it all the same.
    """

    def __init__(self, routing: InterruptRouting) -> None:
        self._routing = routing
        self._banks = [BankRegisters(routing, bank, nsacr_opens=False) for bank in routing.private]
        self.size = len(self._banks) * REDISTRIBUTOR_SIZE

    def read_word(self, offset: int, *, secure: bool) -> int:
        """The word at ``offset``."""
        pe, offset = divmod(offset, REDISTRIBUTOR_SIZE)
        if pe >= len(self._banks):
            return 0
        if offset >= _FRAME + 0x80:
            offset -= _FRAME
            in_bank = offset < 0xF00 and _is_first_word(offset)
            return self._banks[pe].read_word(offset, secure=secure) if in_bank else 0
        if offset == _GICR_IIDR:
            return _IIDR
        if offset == _GICR_TYPER:
            last = pe == len(self._banks) - 1
            return pe << 8 | last << 4
        if offset == _GICR_TYPER_HIGH:
            return self._routing.affinities[pe]
        if offset == _GICR_WAKER and (secure or self._routing.s.one_state):
            return _PROCESSOR_SLEEP | _CHILDREN_ASLEEP if self._routing.s.asleep[pe] else 0
        if _ID <= offset < _FRAME:
            return _ID_WORDS_GICR[(offset - _ID) // 4]
        return 0

    def write_word(self, offset: int, value: int, lanes: int, *, secure: bool) -> None:
        """Write the word at ``offset``."""
        pe, offset = divmod(offset, REDISTRIBUTOR_SIZE)
        if pe >= len(self._banks):
            return
        if _FRAME + 0x80 <= offset < _FRAME + 0xF00:
            if _is_first_word(offset - _FRAME):
                self._banks[pe].write_word(offset - _FRAME, value, lanes, secure=secure)
                self._routing.changed(pe)
        elif offset == _GICR_WAKER and (secure or self._routing.s.one_state):
            if lanes & _PROCESSOR_SLEEP:
                self._routing.s.asleep[pe] = bool(value & _PROCESSOR_SLEEP)
            self._routing.changed()


def _is_first_word(offset: int) -> bool:
    """Whether a register of SGI_base is about the 32 private interrupts, not about later ones."""
    if 0x400 <= offset < 0x800:
        return offset < 0x420
    if offset >= 0xC00 and offset & ~0xFF != 0xD00:
        return offset & 0xFF < 8
    return offset & 0x7F == 0
