"""Memory copies and sets by their registers: Arm ARM C6.2, CPYP and its like, by hand."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.instructions.copying import (
    CARRY,
    MOST,
    Copy,
    copy_of,
    is_misaligned,
    part_of,
    wrong,
)
from spe_unicorn.instructions.decoder import name_of
from tests.host.pe.access.copy_words import EPILOGUE, MAIN, PROLOGUE, STAGES, cpy, cpyf, setg, sets

MASK = (1 << 64) - 1


def copy(word: int) -> Copy:
    found = copy_of(word)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (0x1902_0461, "CPYFP"),  # cpyfp [x1]!, [x2]!, x3!
        (0x1D42_F461, "CPYM"),  # cpymtn [x1]!, [x2]!, x3!
        (0x1D82_0461, "CPYE"),
        (0x19C3_0441, "SETP"),  # setp [x1]!, x2!, x3
        (0x19C3_9441, "SETE"),  # setet [x1]!, x2!, x3
        (0x1DC3_4441, "SETGM"),
        (0x19C3_C441, None),  # no stage of SET
        (0x5902_0461, None),  # sz is not 00
    ],
)
def test_words(word: int, name: str | None) -> None:
    assert name_of(word) == name
    assert (copy_of(word) is None) == (name is None or word >> 30 != 0)


@pytest.mark.parametrize(
    ("word", "undefined"),
    [
        *((cpy(PROLOGUE, *numbers), True) for numbers in ((1, 1, 3), (1, 2, 2), (3, 2, 3))),
        *((cpy(PROLOGUE, *numbers), True) for numbers in ((31, 1, 3), (1, 31, 3), (1, 2, 31))),
        *((sets(MAIN, *numbers), True) for numbers in ((1, 1, 3), (1, 2, 2), (3, 2, 3))),
        *((setg(MAIN, *numbers), True) for numbers in ((31, 1, 3), (1, 31, 3))),
        (sets(MAIN, 1, 2, 31), False),  # the byte of XZR
        (cpy(PROLOGUE, 1, 2, 3), False),
    ],
)
def test_registers_that_there_are_not(word: int, undefined: bool) -> None:
    assert copy(word).is_undefined == undefined


@pytest.mark.parametrize(
    ("options", "reads", "writes"),
    [(0b0000, False, False), (0b1101, False, True), (2, True, False)],
)
def test_unprivileged_accesses(options: int, reads: bool, writes: bool) -> None:
    found = copy(cpy(MAIN, 1, 2, 3, options))
    assert (found.reads_unprivileged, found.writes_unprivileged) == (reads, writes)
    found = copy(sets(MAIN, 1, 2, 3, options & 3))
    assert (found.reads_unprivileged, found.writes_unprivileged) == (False, writes)


@pytest.mark.parametrize(
    ("word", "size", "left"),
    [
        (cpy(PROLOGUE, 1, 2, 3), MASK, 0x007F_FFFF_FFFF_FFFF),
        (cpy(PROLOGUE, 1, 2, 3), 0x0080_0000_0000_0000, 0x007F_FFFF_FFFF_FFFF),
        (cpyf(PROLOGUE, 1, 2, 3), 1 << 63, (1 << 63) - 1),
        (sets(PROLOGUE, 1, 2, 3), MASK, (1 << 63) - 1),
        (setg(PROLOGUE, 1, 2, 3), MASK, (1 << 63) - 16),
        (cpyf(PROLOGUE, 1, 2, 3), (1 << 63) - 1, (1 << 63) - 1),
    ],
)
def test_a_prologue_limits_sizes(word: int, size: int, left: int) -> None:
    """ArchMaxMOPSCPYSize, ArchMaxMOPSBlockSize and ArchMaxMOPSSETGSize."""
    assert part_of(copy(word), 0x1000, 0x9000, size).left == left


@pytest.mark.parametrize(
    ("to", "source", "size", "forward"),
    [
        (0x1000, 0x2000, 0x800, True),
        (0x1000, 0x1001, 0x800, True),
        (0x1001, 0x1000, 0x800, False),
        (0x17FF, 0x1000, 0x800, False),
        (0x1800, 0x1000, 0x800, True),  # they touch
        (0x1000, 0x1000, 0x800, True),
        (0xA5 << 56 | 0x1001, 0x1000, 0x800, False),  # 56 bits are compared
    ],
)
def test_the_direction(to: int, source: int, size: int, forward: bool) -> None:
    """IsMemCpyForward(); what is IMPLEMENTATION DEFINED in it goes forward. CPYF always does."""
    assert part_of(copy(cpy(PROLOGUE, 1, 2, 3)), to, source, size).forward == forward
    assert part_of(copy(cpyf(PROLOGUE, 1, 2, 3)), to, source, size).forward


def test_what_registers_hold_in_option_a() -> None:
    """CPYP forwards: the ends, and how much is left as a negative number; backwards as it was."""
    part = part_of(copy(cpy(PROLOGUE, 1, 2, 3)), 0x1005, 0x9000, 100)
    assert (part.due, part.spans(part.due)) == (11, (0x1005, 0x9000))
    assert part.moved(4).registers() == (0x1009, 0x9004, 96)  # stopped within it
    assert part.moved(11).registers() == (0x1069, 0x9064, -89 & MASK)
    part = part_of(copy(cpy(MAIN, 1, 2, 3)), 0x1069, 0x9064, -89 & MASK)
    assert (part.due, part.spans(5)) == (80, (0x1010, 0x900B))
    assert part.moved(80).registers() == (0x1069, 0x9064, -9 & MASK)
    part = part_of(copy(cpy(EPILOGUE, 1, 2, 3)), 0x1069, 0x9064, -9 & MASK)
    assert part.moved(part.due).registers() == (0x1069, 0x9064, 0)
    part = part_of(copy(cpy(PROLOGUE, 1, 2, 3)), 0x9005, 0x9000, 100)
    assert (part.due, part.spans(part.due)) == (9, (0x9060, 0x905B))
    assert part.moved(9).registers() == (0x9005, 0x9000, 91)
    part = part_of(copy(cpy(MAIN, 1, 2, 3)), 0x9005, 0x9000, 91)
    assert (part.due, part.spans(7)) == (80, (0x9059, 0x9054))
    assert part.moved(80).registers() == (0x9005, 0x9000, 11)


REGISTERS = 1 << 10 | 2 << 5 | 3
OPTION_A, WRONG_OPTION, FROM_EPILOGUE = 1 << 16, 1 << 17, 1 << 18


@pytest.mark.parametrize(
    ("word", "size", "nzcv", "iss"),
    [
        (cpy(MAIN, 1, 2, 3, 0b1010), -64, CARRY, OPTION_A | WRONG_OPTION | 0b1010 << 19),
        (cpy(EPILOGUE, 1, 2, 3), 16, CARRY, OPTION_A | WRONG_OPTION | FROM_EPILOGUE),
        (cpy(EPILOGUE, 1, 2, 3), 17, 0, OPTION_A | FROM_EPILOGUE),
        (cpy(EPILOGUE, 1, 2, 3), -16, 0, None),
        (cpy(MAIN, 1, 2, 3), 64, 0, None),  # backwards
        (cpyf(MAIN, 1, 2, 3), 64, 0, OPTION_A),
        (sets(MAIN, 1, 3, 2, 1), 64, 0, OPTION_A | 1 << 24 | 1 << 19),
        (setg(EPILOGUE, 1, 3, 2), -32, 0, OPTION_A | 3 << 23 | FROM_EPILOGUE),
        (cpy(MAIN, 1, 2, 3), 0, CARRY, None),  # there is nothing to do
        (cpy(PROLOGUE, 1, 2, 3), 64, CARRY, None),
        (cpy(MAIN, 1, 2, 3), -64, 0xD << 28, None),  # N, Z and V do not matter
    ],
)
def test_what_is_wrong(word: int, size: int, nzcv: int, iss: int | None) -> None:
    """MismatchedMemCpyException() and MismatchedMemSetException()."""
    part = part_of(copy(word), 0x1000, 0x9000, size & MASK)
    assert wrong(part, nzcv) == (None if iss is None else iss | REGISTERS)


@pytest.mark.parametrize(
    ("stage", "to", "size", "misaligned"),
    [
        (PROLOGUE, 0x1000, 32, False),
        (PROLOGUE, 0x1008, 32, True),
        (PROLOGUE, 0x1000, 40, True),
        (PROLOGUE, 0x1008, 0, False),
        (MAIN, 0x1020, -32, False),
        (MAIN, 0x1028, -32, True),
        (MAIN, 0x1000, -40, True),
        (EPILOGUE, 0x1008, 0, False),
    ],
)
def test_granules(stage: int, to: int, size: int, misaligned: bool) -> None:
    assert is_misaligned(part_of(copy(setg(stage, 1, 3, 2)), to, 0, size & MASK)) == misaligned


@pytest.mark.parametrize("seed", range(60))
def test_copies_that_pause_anywhere_are_as_memmove(seed: int) -> None:
    """Registers and nothing else carry what is left from one execution to the next."""
    random = Random(seed)
    size = random.choice((0, 1, 15, 16, 17, 31, 33, random.randrange(400)))
    values = (random.randrange(500), random.randrange(500), size)
    to, source, _ = values
    memory = bytearray(random.randbytes(1000))
    expected = bytearray(memory)
    expected[to : to + size] = memory[source : source + size]
    for stage in STAGES:
        while True:
            part = part_of(copy(cpy(stage, 1, 2, 3)), *values)
            assert wrong(part, 0) is None
            assert part.due <= (16 if stage != MAIN else MOST)
            count = random.randint(min(1, part.due), part.due)
            begin, end = part.spans(count)
            assert begin - end == to - source
            memory[begin : begin + count] = bytes(memory[end : end + count])
            part = part.moved(count)
            values = part.registers()
            if part.due == 0:
                break
    assert memory == expected
    assert values[2] == 0
