"""Loads and stores of general registers in the detail that carrying them out takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from spe_unicorn.arch.operation import Access, Family, RegisterKind
from spe_unicorn.decode.loads_stores import load_store


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a load or store moves; its address and writeback are in :class:`Access`.

    ``rt`` and ``rt2`` are 31 for XZR; ``rt2`` is None where one register is moved, else it goes to
    or comes from the address ``size`` bytes higher. ``size`` is in bytes for each register. A load
    is extended with its sign where ``signed``, with zeros otherwise, to 64 bits where ``width64``
    and else to 32 bits, which clears the upper half of the register.
    """

    rt: int
    rt2: int | None
    size: int
    signed: bool
    width64: bool
    load: bool


@lru_cache(maxsize=1 << 10)
def transfer(word: int) -> Transfer | None:
    """The transfer that ``word`` makes, None where it is not a plain load or store.

    Plain are LDR, STR, LDUR, LDTR, LDP, LDNP, LDAR, LDAPR and their like on general registers;
    not exclusives, atomics, tag stores, 64-byte, memory copy and set operations.
    """
    if word & 0x0A00_0000 != 0x0800_0000:
        return None
    instruction = load_store(word)
    access = instruction.access
    if (
        access is None
        or instruction.registers is not RegisterKind.GENERAL
        or instruction.exclusive
        or instruction.atomic
        or access.size > 16
    ):
        return None
    load = instruction.family is Family.LOAD
    place = _second_register(word)
    if place is not None:
        return _pair(word, place, access, load=load)
    extension = _sign_extension(word)
    width = extension or 8 * access.size
    return Transfer(word & 31, None, access.size, extension is not None, width == 64, load)


def _second_register(word: int) -> int | None:
    """The lowest bit of the field Rt2, None where there is none."""
    if word & 0x3A00_0000 == 0x2800_0000:  # LDP, STP
        return 10
    if word & 0x3FA0_0C00 == 0x1900_0800:  # LDIAPP, STILP
        return 16
    return None


def _pair(word: int, place: int, access: Access, *, load: bool) -> Transfer | None:
    extends = word & 0xFA00_0000 == 0x6800_0000  # LDPSW; the store is STGP, which writes tags
    if extends and not load:
        return None
    size = access.size // 2
    rt2 = word >> place & 31
    return Transfer(word & 31, rt2, size, extends, extends or size == 8, load)


def _sign_extension(word: int) -> int | None:
    """To how many bits a load extends the sign, None where it does not."""
    if word & 0x3B00_0000 == 0x1800_0000:  # LDR (literal)
        return 64 if word >> 30 == 2 else None
    form = word >> 10 & 3
    if word >> 28 & 3 == 3:  # not where bits 23:22 mean something else: LDAPR, LDRAA
        has_opc = word >> 24 & 1 or not word >> 21 & 1 or form == 2
    else:  # LDAPUR, but not LDAPR with writeback and LDAR
        has_opc = word & 0x3F00_0C00 == 0x1900_0000
    if not has_opc or not word >> 23 & 1:
        return None
    return 32 if word >> 22 & 1 else 64
