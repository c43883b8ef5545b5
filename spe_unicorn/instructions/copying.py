"""Memory copies and sets (FEAT_MOPS): CPY*, CPYF*, SET* and SETG*, carried out at a stop.

What is IMPLEMENTATION DEFINED is so here: each is of option A. A prologue moves 1 to 16 bytes, so
that a multiple of 16 is reached where it has come to; an epilogue moves the last 1 to 16; a main
instruction moves all between them. Copies that overlap go the way that keeps them right, others
forward. Execution may pause at any byte: the registers then say what is left, and the instruction
is executed again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from spe_unicorn.instructions.rows import Needs, Row, Unit, Uses, row

COPY, COPY_FORWARD, SET, SET_TAGS = range(1, 5)
"""Forms."""
PROLOGUE, MAIN, EPILOGUE = range(3)
"""Stages: the kind of a row."""
MOST: Final = 1 << 16
"""Bytes that one execution moves at most."""
_GRANULE: Final = 16
_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_ADDRESS: Final = (1 << 56) - 1
_MOST_SIZE: Final = {
    COPY: 0x007F_FFFF_FFFF_FFFF,
    COPY_FORWARD: _SIGN - 1,
    SET: _SIGN - 1,
    SET_TAGS: _SIGN - _GRANULE,
}
"""Sizes to which a prologue limits a greater one: ArchMaxMOPSCPYSize and its like."""
_ZERO_REGISTER: Final = 31
CARRY: Final = 1 << 29
"""PSTATE.C: the flag by which option B is told from option A."""


def _rows(name: str, form: int, needs: Needs = Needs.MOPS) -> tuple[Row, ...]:
    uses = Uses.MEMORY | Uses.GENERAL
    bits = {
        COPY: "0001 1101 {:02b}0s ssss oooo 01nn nnnd dddd",
        COPY_FORWARD: "0001 1001 {:02b}0s ssss oooo 01nn nnnd dddd",
        SET: "0001 1001 110s ssss {:02b}oo 01nn nnnd dddd",
        SET_TAGS: "0001 1101 110s ssss {:02b}oo 01nn nnnd dddd",
    }[form]
    return tuple(
        row(f"{name}{letter}", bits.format(stage), needs, Unit.COPYING, form, stage, uses)
        for stage, letter in ((PROLOGUE, "P"), (MAIN, "M"), (EPILOGUE, "E"))
    )


ROWS: Final = (
    *_rows("CPYF", COPY_FORWARD),
    *_rows("CPY", COPY),
    *_rows("SET", SET),
    *_rows("SETG", SET_TAGS, Needs.MOPS | Needs.MTE),
)


class Copy(NamedTuple):
    """One of these instructions, by its word."""

    form: int
    stage: int
    destination: int
    """The numbers of its registers: addresses, and how many bytes."""
    source: int
    size: int
    options: int

    @property
    def sets(self) -> bool:
        """Whether it sets memory, and copies none."""
        return self.form in (SET, SET_TAGS)

    @property
    def is_undefined(self) -> bool:
        """Whether its registers are none that it can have.

        That is CONSTRAINED UNPREDICTABLE, and UNDEFINED here. A byte to set may be that of XZR.
        """
        numbers = (self.destination, self.source, self.size)
        if _ZERO_REGISTER in (numbers[0], numbers[2]) or len(set(numbers)) < len(numbers):
            return True
        return not self.sets and self.source == _ZERO_REGISTER

    @property
    def reads_unprivileged(self) -> bool:
        """Whether loads are made as EL0 would make them."""
        return not self.sets and bool(self.options & 2)

    @property
    def writes_unprivileged(self) -> bool:
        """Whether stores are made as EL0 would make them."""
        return bool(self.options & 1)


def copy_of(word: int) -> Copy | None:
    """The copy or set that a word is."""
    if word & 0xFB20_0C00 != 0x1900_0400:
        return None
    form = COPY if word >> 26 & 1 else COPY_FORWARD
    stage, options = word >> 22 & 3, word >> 12 & 15
    if stage > EPILOGUE:
        form = SET_TAGS if form == COPY else SET
        stage, options = options >> 2, options & 3
        if stage > EPILOGUE:
            return None
    return Copy(form, stage, word & 31, word >> 16 & 31, word >> 5 & 31, options)


class Part(NamedTuple):
    """What a stage has to do, by the registers that it finds."""

    copy: Copy
    destination: int
    source: int
    """The lowest addresses of what is left."""
    left: int
    """Bytes that are left in all."""
    due: int
    """Those of them that this stage moves."""
    forward: bool

    def spans(self, count: int) -> tuple[int, int]:
        """The lowest destination and source of the next ``count`` bytes."""
        further = 0 if self.forward else self.left - count
        return self.destination + further & _MASK, self.source + further & _MASK

    def moved(self, count: int) -> Part:
        """What there is to do when ``count`` bytes more have been moved."""
        further = count if self.forward else 0
        return self._replace(
            destination=self.destination + further & _MASK,
            source=self.source + further & _MASK,
            left=self.left - count,
            due=self.due - count,
        )

    def registers(self) -> tuple[int, int, int]:
        """What the registers of destination, source and size hold now.

        Option A has the end of a forward copy, and how many bytes are left as a negative number.
        While a prologue has something to do, its registers are such as it takes.
        """
        begun = self.copy.stage != PROLOGUE or self.due == 0
        if not begun or not self.forward:
            return self.destination, self.source, self.left
        end = (self.destination + self.left & _MASK, self.source + self.left & _MASK)
        return (*end, -self.left & _MASK)


def part_of(copy: Copy, destination: int, source: int, size: int) -> Part:
    """What an instruction has to do, of its registers."""
    if copy.stage == PROLOGUE:
        left = min(size, _MOST_SIZE[copy.form])
        forward = copy.form != COPY or _goes_forward(destination, source, left)
        reached = destination % _GRANULE if forward else -(destination + left) % _GRANULE
        due = min(left, _GRANULE - reached)
        return Part(copy, destination, source, left, due, forward)
    forward = bool(size & _SIGN)
    left = -size & _MASK if forward else size
    if forward:
        destination, source = destination - left & _MASK, source - left & _MASK
    last = (left - 1) % _GRANULE + 1 if left else 0
    due = left if copy.stage == EPILOGUE else left - last
    return Part(copy, destination, source, left, due, forward)


def _goes_forward(destination: int, source: int, size: int) -> bool:
    """IsMemCpyForward(): not so where the destination begins within the source."""
    to, begin = destination & _ADDRESS, source & _ADDRESS
    end = source + size & _ADDRESS
    return not begin < to < end


def wrong(part: Part, nzcv: int) -> int | None:
    """The ISS of the exception of a main instruction or an epilogue; None where nothing is wrong.

    ``nzcv`` is PSTATE, or its flags. Where nothing is left nothing is checked.
    """
    copy = part.copy
    if copy.stage == PROLOGUE or part.left == 0:
        return None
    other_option = bool(nzcv & CARRY)
    backwards = not part.forward and copy.form != COPY
    too_much = copy.stage == EPILOGUE and part.left > _GRANULE
    if not (other_option or backwards or too_much):
        return None
    return (
        copy.sets << 24
        | (copy.form == SET_TAGS) << 23
        | copy.options << 19
        | (copy.stage == EPILOGUE) << 18
        | other_option << 17
        | 1 << 16
        | copy.destination << 10
        | copy.source << 5
        | copy.size
    )


def is_misaligned(part: Part) -> bool:
    """Whether what SETG* would set is no whole granules."""
    if part.copy.form != SET_TAGS:
        return False
    return part.left % _GRANULE != 0 or (part.left != 0 and part.destination % _GRANULE != 0)


def is_undefined(one: Row, word: int) -> bool:
    """Whether a word of one of these rows has registers that it cannot have."""
    copy = copy_of(word)
    return one.unit == Unit.COPYING and (copy is None or copy.is_undefined)
