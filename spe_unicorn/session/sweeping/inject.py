"""Fault injection: what is put into a machine from outside, between two operations.

It is no behaviour of the board's devices. Whatever of it would be an interrupt or an abort then
goes by the rules of the architecture.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

from spe_unicorn.arch.exceptions.syndromes import instruction_abort
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.devices.gicv3.routing import PRIVATE
from spe_unicorn.machine.board import Board
from spe_unicorn.session.point import Point, parse_point

_PENDING: Final = 0x200
"""ISPENDR, of the distributor and of the second frame of each redistributor."""
_FRAMES: Final = 0x2_0000
"""Bytes of the frames of a redistributor."""
_SGI_FRAME: Final = 0x1_0000
_FLIP: Final = re.compile(r"flip=(?:[xX](?P<x>[0-9]{1,2})|(?P<at>0x[0-9a-fA-F]+))\.(?P<bit>[0-9]+)")
_IRQ: Final = re.compile(r"irq=(?P<intid>[0-9]{1,4})")
_GENERAL: Final = 31
_LONG: Final = 64


class InjectionError(ValueError):
    """What cannot be injected: one line."""


class Injection(Protocol):
    """What is put in."""

    def check(self, board: Board) -> None:
        """Raise InjectionError if the board has no such thing."""
        ...

    def put_into(self, board: Board) -> None:
        """Do it, between two runs: before the next operation of the PE whose turn it is."""
        ...


@dataclass(frozen=True)
class Interrupt:
    """An interrupt is made pending, as by GICR_ISPENDR0 or GICD_ISPENDR, on the PE that ran."""

    intid: int

    def check(self, board: Board) -> None:
        """Raise InjectionError for an INTID that the GIC has not."""
        last = PRIVATE + board.peripherals.gic.routing.shared.count - 1
        if self.intid > last:
            raise InjectionError(f"INTIDs go from 0 to {last}, got {self.intid}")

    def put_into(self, board: Board) -> None:
        """Make it pending."""
        gic, bit = board.peripherals.gic, 1 << self.intid % 32
        if self.intid < PRIVATE:
            at = board.running.number * _FRAMES + _SGI_FRAME + _PENDING
            gic.redistributors.write(at, 4, bit, secure=True)
        else:
            gic.distributor.write(_PENDING + self.intid // 32 * 4, 4, bit, secure=True)

    def is_pending(self, board: Board) -> bool:
        """Whether it still is, on the PE that ran."""
        bank = board.peripherals.gic.routing.bank(board.running.number, self.intid)
        first = 0 if self.intid < PRIVATE else PRIVATE
        return bank is not None and bool(bank.pending >> self.intid - first & 1)


@dataclass(frozen=True)
class RegisterFlip:
    """A bit of a general register of the PE that ran changes."""

    number: int
    bit: int

    def check(self, board: Board) -> None:
        """Every PE has them."""

    def put_into(self, board: Board) -> None:
        """Flip it."""
        engine = board.running.cpu.engine
        engine.set_x(self.number, engine.x(self.number) ^ 1 << self.bit)


@dataclass(frozen=True)
class MemoryFlip:
    """A bit of the byte at a physical address changes."""

    address: int
    bit: int

    def check(self, board: Board) -> None:
        """Raise InjectionError for an address where no memory is."""
        if board.memory.read(self.address, 1, PASpace.Secure) is None:
            raise InjectionError(f"no memory is at {self.address:#x}")

    def put_into(self, board: Board) -> None:
        """Flip it. Code that was translated from it is forgotten."""
        byte = (board.memory.read(self.address, 1, PASpace.Secure) or b"\0")[0]
        board.memory.fill(self.address, bytes([byte ^ 1 << self.bit]))
        for pe in board.pes:
            pe.cpu.engine.forget_all_code()


@dataclass(frozen=True)
class ExternalAbort:
    """The next operation takes a synchronous External abort on its fetch, in place of executing."""

    def check(self, board: Board) -> None:
        """Every PE can take one."""

    def put_into(self, board: Board) -> None:
        """Have the PE take it."""
        pe = board.running
        syndrome = instruction_abort(FaultRecord(Fault.SyncExternal, 0))
        pe.handler.exceptions.external_abort(syndrome, pe.cpu.pc)


@dataclass(frozen=True)
class Planned:
    """An injection at a point, as ``--inject`` has it."""

    what: Injection
    at: Point
    text: str


def parse_injection(text: str) -> Planned:
    """``KIND@POINT``. Raises InjectionError, and PointError for what is no POINT."""
    kind, at, point = text.rpartition("@")
    if not at:
        raise InjectionError(f"{text!r}: write KIND@POINT, such as irq=30@1000")
    return Planned(_what(kind), parse_point(point), text)


def _what(kind: str) -> Injection:
    if kind == "abort":
        return ExternalAbort()
    if match := _IRQ.fullmatch(kind):
        return Interrupt(int(match["intid"]))
    match = _FLIP.fullmatch(kind)
    if match is None:
        raise InjectionError(
            f"{kind!r} is none of irq=INTID, flip=xN.BIT, flip=0xADDRESS.BIT, abort"
        )
    bit = int(match["bit"])
    if match["x"] is not None and int(match["x"]) < _GENERAL and bit < _LONG:
        return RegisterFlip(int(match["x"]), bit)
    if match["at"] is not None and bit < 8:
        return MemoryFlip(int(match["at"], 16), bit)
    raise InjectionError(
        f"{kind!r}: registers are x0.0 to x30.63, bytes of memory have bits 0 to 7"
    )
