"""How a core breaks instructions into the micro-operations that it samples.

A rule says for a kind of instruction, or for words with certain bits, what its micro-operations
are, in their order. The rules are data: a profile names a set of them (a file in
``micro_operations``) or holds its own. What no rule is about is one micro-operation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from spe_unicorn.arch.operation import (
    CostClass,
    Family,
    Instruction,
    RegisterKind,
    Structure,
)

_STRUCTURES = {
    Structure.INTERLEAVED: "interleaved",
    Structure.LANE: "lane",
    Structure.REPLICATE: "replicate",
}
KINDS = (
    "load",
    "store",
    "load_pair",
    "store_pair",
    "load_multiple",
    "store_multiple",
    "load_interleaved",
    "store_interleaved",
    "load_lane",
    "store_lane",
    "load_replicate",
    "gather",
    "scatter",
    "load_exclusive",
    "store_exclusive",
    "load_exclusive_pair",
    "store_exclusive_pair",
    "atomic",
    "zero_block",
    "write_back",
)
"""The kinds of instructions that there can be rules for.

``write_back`` is not one: its micro-operations follow those of a load or store that changes its
base register.
"""

_COSTS = {
    "data": CostClass.ALU,
    "alu": CostClass.ALU,
    "simd": CostClass.SIMD,
}
"""Micro-operations that access no memory: moving the data of a store, arithmetic, vectors."""
_SHORTEST_VECTOR = 16
"""Bytes of the shortest vector that SVE allows; longer ones are divided as it is."""
_HALF = 8
"""Bytes of the smallest part of a vector register that an access of its own can move."""
_PER_REGISTER = " per register"
_OPERATION = "operation"
WORDS = (
    *(word + tail for word in ("access", *_COSTS) for tail in ("", _PER_REGISTER)),
    _OPERATION,
)
"""What a rule can list; ``operation`` is an instruction that accesses no memory itself.

Several accesses share the bytes evenly, the lowest address first.

An access that cannot be divided, as its bytes have to be reached at once, is made only once.
"""


def kind_of(instruction: Instruction) -> str | None:
    """The kind of an instruction, one of :data:`KINDS`, as far as rules are about it."""
    family = instruction.family
    if family in (Family.ATOMIC, Family.ATOMIC_STORE):
        return "atomic"
    if family not in (Family.LOAD, Family.STORE):
        return None
    verb = "store" if family is Family.STORE else "load"
    count = instruction.register_count
    if instruction.registers is RegisterKind.UNSPECIFIED:
        return "zero_block"
    if instruction.gather_scatter:
        return "scatter" if family is Family.STORE else "gather"
    if instruction.exclusive:
        return f"{verb}_exclusive" if count == 1 else f"{verb}_exclusive_pair"
    if instruction.structure in _STRUCTURES:
        return f"{verb}_{_STRUCTURES[instruction.structure]}"
    if count == 1:
        return verb
    multiple = count > 2 or instruction.structure is Structure.MULTIPLE
    return f"{verb}_multiple" if multiple else f"{verb}_pair"


def _bits_of(key: str) -> tuple[int, int] | None:
    """The words of a rule ``0xVALUE/0xMASK``; None for what is not written so."""
    found = re.fullmatch(r"(0x[0-9a-f]{8})/(0x[0-9a-f]{8})", key)
    if found is None:
        return None
    value, mask = (int(text, 16) for text in found.groups())
    return None if value & ~mask else (value, mask)


class Cracking:
    """The rules of one core: an ``arch.ports.Cracker``.

    ``rules`` lists micro-operations (:data:`WORDS`) for kinds of instructions (:data:`KINDS`), or
    for instruction words: ``0x94000000/0xfc000000`` is about those that have this value in the bits
    of this mask. The first rule about a word goes before those about kinds.
    Raises ValueError, in words for whoever wrote the rules, for a kind or a word that does not
    exist, and for a rule without a micro-operation.
    """

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        for kind, words in rules.items():
            if kind not in KINDS and _bits_of(kind) is None:
                allowed = ", ".join(KINDS)
                raise ValueError(f"{kind}: no such kind; allowed are {allowed}, or 0xVALUE/0xMASK")
            if not words and kind != "write_back":
                raise ValueError(f"{kind}: a list of at least one micro-operation is needed")
            for word in words:
                if word not in WORDS:
                    raise ValueError(f"{kind}: {word!r} is none of {', '.join(WORDS)}")
        self.rules = {kind: tuple(words) for kind, words in rules.items()}
        self._by_bits = [(bits, tuple(rules[key])) for key in rules if (bits := _bits_of(key))]
        self._cached = lru_cache(maxsize=1 << 16)(self._parts)

    def parts(self, instruction: Instruction, /) -> tuple[Instruction, ...]:
        """The micro-operations of an instruction in their order, at least one."""
        return self._cached(instruction)

    def _parts(self, instruction: Instruction) -> tuple[Instruction, ...]:
        words = self._words(instruction)
        if not words:
            return (instruction,)
        access = instruction.access
        if access is not None and not access.writeback is access.index_writeback is None:
            words += self.rules.get("write_back", ())
        each = [w for word in words for w in _repeated(word, instruction.register_count)]
        shares = _shares(instruction, each.count("access"))
        if len(shares) == 1 and "access" in each:
            once = each.index("access")
            each = [word for n, word in enumerate(each) if word != "access" or n == once]
        accesses = iter(shares)
        return tuple(
            replace(next(accesses), part=part, divided=len(shares) > 1)
            if word == "access"
            else _aside(instruction, word, part)
            for part, word in enumerate(each)
        )

    def _words(self, instruction: Instruction) -> tuple[str, ...]:
        """What the rules list for an instruction, nothing where it is one micro-operation."""
        kind = kind_of(instruction)
        for (value, mask), words in self._by_bits:
            if instruction.word & mask == value and (kind is None) is (_OPERATION in words):
                return words
        return () if kind is None else self.rules.get(kind, ("access",))


def _repeated(word: str, registers: int) -> list[str]:
    one = word.removesuffix(_PER_REGISTER)
    return [one] * (1 if one == word else registers)


def _shares(instruction: Instruction, count: int) -> list[Instruction]:
    """An instruction with its access divided evenly; whole where it cannot be."""
    access, elements = instruction.access, instruction.elements
    if count < 2:
        return [instruction]
    if elements is not None and _SHORTEST_VECTOR // instruction.lane % count == 0:
        shares = (replace(elements, part=n, parts=count) for n in range(count))
        return [replace(instruction, elements=share) for share in shares]
    vectors = instruction.registers is RegisterKind.SIMD_FP
    smallest = min(access.element, _HALF) if vectors and access is not None else 0
    if access is None or access.size // count < (smallest or access.element):
        return [instruction]
    size = access.size // count
    element = min(access.element, size)
    parts = (
        replace(access, offset=access.offset + n * size, size=size, element=element)
        for n in range(count)
    )
    return [replace(instruction, access=part) for part in parts]


def _aside(instruction: Instruction, word: str, part: int) -> Instruction:
    """A micro-operation that accesses no memory."""
    if word == _OPERATION:
        return replace(instruction, part=part)
    return Instruction(
        instruction.word,
        cost=_COSTS[word],
        simd=word == "simd",
        reads=instruction.reads,
        writes=instruction.writes,
        part=part,
    )
