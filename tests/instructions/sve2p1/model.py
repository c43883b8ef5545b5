"""What the instructions of FEAT_SVE2p1 beside memory do, from the pages of Arm's manual.

A line of :data:`TEXT` is the encoding diagram of a page and the function that its pseudocode is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from random import Random
from typing import Final, NamedTuple

from tests.instructions.harness import Result, State
from tests.instructions.sve2p1.floats import Unit, default_nan, infinity

Fields = Mapping[str, int]


class Registers:
    """The registers, as an instruction changes them; ``size`` is a vector's, in bytes."""

    def __init__(self, state: State, size: int) -> None:
        self.size = size
        self.bits = 8 * size
        self.z = [value & (1 << self.bits) - 1 for value in state.z]
        self.p = [value & (1 << size) - 1 for value in state.p]
        self.x = [*state.x, *[0] * (32 - len(state.x))]
        self.nzcv = state.nzcv
        self.fp = Unit(state.fpcr, state.fpsr)

    def vector(self, n: int, size: int) -> list[int]:
        """The elements of a vector."""
        return elements(self.z[n], size, self.bits)

    def active(self, p: int, e: int, size: int) -> bool:
        """ActivePredicateElement()."""
        return bool(self.p[p] >> e * size // 8 & 1)

    def result(self) -> Result:
        """As the harness tells them."""
        return Result(tuple(self.z), tuple(self.p), self.nzcv, self.fp.fpsr, undefined=False)


Operation = Callable[[Registers, Fields], None]


def elements(value: int, size: int, bits: int) -> list[int]:
    """The elements of so many bits in a value, the lowest first."""
    return [value >> at & (1 << size) - 1 for at in range(0, bits, size)]


def joined(values: Sequence[int], size: int) -> int:
    """The value that has these elements."""
    return sum((value & (1 << size) - 1) << n * size for n, value in enumerate(values))


def signed(value: int, size: int) -> int:
    """SInt()."""
    return value - (1 << size) if value >> size - 1 else value


def esize(f: Fields) -> int:
    """8 << UInt(size)."""
    return 8 << f["size"]


# Predicates


def expanded(counter: int, size: int) -> int:
    """CounterToPredicate() of four vectors of ``size`` bytes."""
    low = counter & 15
    if not low:
        return 0
    unit = low & -low
    largest = 1 << (4 * size - 1).bit_length()  # CeilPow2()
    count = (counter & 2 * largest - 1) >> unit.bit_length()
    invert = counter >> 15
    return sum(((e < count) ^ invert) << e * unit for e in range(4 * size // unit))


def encoded(size: int, of: int, count: int, invert: bool) -> int:
    """EncodePredCount()."""
    if not count:
        return 0
    if invert:
        count = of - count
    elif count == of:
        invert, count = True, 0
    return invert << 15 | (count << 1 | 1) << (size // 8).bit_length() - 1


def pred_test(bits: Sequence[int]) -> int:
    """PredTest() where all elements govern, as bits 31:28."""
    return bits[0] << 31 | (not any(bits)) << 30 | (not bits[-1]) << 29


def whiled(r: Registers, f: Fields, of: int, compare: Callable[[int, int], bool], *,
           is_signed: bool) -> list[int]:  # fmt: skip
    """The elements of WHILE, of 64-bit operands."""
    up = f["lt"]
    a, b = (r.x[f[n]] if f[n] != 31 else 0 for n in ("Rn", "Rm"))
    to_number = partial(signed, size=64) if is_signed else int
    bits = [0] * of
    for e in range(of) if up else reversed(range(of)):
        if not compare(to_number(a), to_number(b)):
            break
        bits[e] = 1
        a = a + (1 if up else -1) & (1 << 64) - 1
    return bits


COMPARE: Final = {
    (0, 0): operator.ge,
    (0, 1): operator.gt,
    (1, 0): operator.lt,
    (1, 1): operator.le,
}


def while_pair(r: Registers, f: Fields) -> None:
    size = esize(f)
    of = r.bits // size
    bits = whiled(r, f, 2 * of, COMPARE[f["lt"], f["eq"]], is_signed=not f["U"])
    for half in range(2):
        r.p[2 * f["Pd"] + half] = joined(bits[half * of :][:of], size // 8)
    r.nzcv = pred_test(bits)


def while_counter(r: Registers, f: Fields) -> None:
    size = esize(f)
    of = r.bits // size * (2 << f["vl"])
    bits = whiled(r, f, of, COMPARE[f["lt"], f["eq"]], is_signed=not f["U"])
    r.p[8 + f["PNd"]] = encoded(size, of, sum(bits), not f["lt"])
    r.nzcv = pred_test(bits)


def portion(r: Registers, f: Fields, part: int) -> int:
    size = esize(f)
    mask = elements(expanded(r.p[8 + f["PNn"]] & 0xFFFF, r.size), size // 8, 4 * r.size)
    of = r.bits // size
    return joined([bit & 1 for bit in mask[part * of :][:of]], size // 8)


def pext(r: Registers, f: Fields) -> None:
    r.p[f["Pd"]] = portion(r, f, f["imm2"])


def pext_pair(r: Registers, f: Fields) -> None:
    first, second = (portion(r, f, 2 * f["i1"] + half) for half in range(2))
    r.p[f["Pd"]] = first
    r.p[(f["Pd"] + 1) % 16] = second


def ptrue(r: Registers, f: Fields) -> None:
    of = r.bits // esize(f)
    r.p[8 + f["PNd"]] = encoded(esize(f), of, of, invert=False)


def cntp(r: Registers, f: Fields) -> None:
    size = esize(f)
    mask = elements(expanded(r.p[f["PNn"]] & 0xFFFF, r.size), size // 8, 4 * r.size)
    if f["Rd"] != 31:
        r.x[f["Rd"]] = sum(bit & 1 for bit in mask[: r.bits // size * (2 << f["vl"])])


def psel(r: Registers, f: Fields) -> None:
    tsz = f["tszh"] << 3 | f["tszl"]
    low = (tsz & -tsz).bit_length()
    size, imm = 8 << low - 1, (f["i1"] << 4 | tsz) >> low
    element = ((r.x[12 + f["Rv"]] & 0xFFFF_FFFF) + imm) % (r.bits // size)
    r.p[f["Pd"]] = r.p[f["Pn"]] if r.active(f["Pm"], element, size) else 0


# Reductions


def places(r: Registers, f: Fields, identity: int) -> Iterator[list[int]]:
    """For each place of a quadword, the elements that are there; ``identity`` for inactive ones."""
    size = esize(f)
    each = 128 // size
    values = [
        value if r.active(f["Pg"], e, size) else identity
        for e, value in enumerate(r.vector(f["Zn"], size))
    ]
    for e in range(each):
        yield values[e::each]


def reduction(combine: Callable[[int, int], int], identity: Callable[[int], int],
              is_signed: bool = False) -> Operation:  # fmt: skip
    def operation(r: Registers, f: Fields) -> None:
        size = esize(f)
        results = []
        for values in places(r, f, identity(size) & (1 << size) - 1):
            numbers = [signed(v, size) for v in values] if is_signed else values
            results.append(reduce(combine, numbers))
        r.z[f["Vd"]] = joined(results, size)

    return operation


def float_reduction(
    name: str, identity: Callable[[int], int], *, least: bool = False, number: bool = False
) -> Operation:
    def operation(r: Registers, f: Fields) -> None:
        size = esize(f)

        def combine(a: int, b: int) -> int:
            if name == "add":
                return r.fp.add(a, b, size)
            return r.fp.extreme(a, b, size, least=least, number=number)

        none = identity(size)
        results = [r.fp.reduce(values, none, combine) for values in places(r, f, none)]
        r.z[f["Vd"]] = joined(results, size)

    return operation


# Quadwords


def by_segments(
    size_of: Callable[[Fields], int],
    change: Callable[[list[int], list[int], list[int], Fields], list[int]],
) -> Operation:
    """Of the elements of each quadword of Zn (or Zdn), Zm and Zd."""

    def operation(r: Registers, f: Fields) -> None:
        size = size_of(f)
        d = f.get("Zd", f.get("Zdn", 0))
        n, m = f.get("Zn", d), f.get("Zm", 0)
        results = []
        for quadwords in zip(*(r.vector(x, 128) for x in (n, m, d)), strict=True):
            results += change(*(elements(q, size, 128) for q in quadwords), f)
        r.z[d] = joined(results, size)

    return operation


def zipq(part: int) -> Operation:
    def change(n: list[int], m: list[int], d: list[int], f: Fields) -> list[int]:
        half = len(n) // 2
        begin = part * half
        pairs = zip(n[begin : begin + half], m[begin : begin + half], strict=True)
        return [value for pair in pairs for value in pair]

    return by_segments(esize, change)


def uzpq(part: int) -> Operation:
    return by_segments(esize, lambda n, m, d, f: [*n[part::2], *m[part::2]])


tblq = by_segments(esize, lambda n, m, d, f: [n[i] if i < len(n) else 0 for i in m])
tbxq = by_segments(
    esize, lambda n, m, d, f: [n[i] if i < len(n) else old for i, old in zip(m, d, strict=True)]
)


def dupq_size(f: Fields) -> int:
    return 8 * (f["tsz"] & -f["tsz"])


dupq = by_segments(
    dupq_size,
    lambda n, m, d, f: (
        [n[(f["i1"] << 4 | f["tsz"]) >> (f["tsz"] & -f["tsz"]).bit_length()]] * len(n)
    ),
)
extq = by_segments(lambda f: 8, lambda n, m, d, f: [*n, *m][f["imm4"] :][:16])


def revd(r: Registers, f: Fields) -> None:
    results = r.vector(f["Zd"], 128)
    for e, value in enumerate(r.vector(f["Zn"], 128)):
        if r.active(f["Pg"], e, 128):
            results[e] = value >> 64 | (value & (1 << 64) - 1) << 64
    r.z[f["Zd"]] = joined(results, 128)


def pmov(size: int, to_vector: bool) -> Operation:
    def operation(r: Registers, f: Fields) -> None:
        of = r.bits // size
        imm = f.get("i3h", 0) << 2 | f.get("i3l", 0) | f.get("i2", 0) | f.get("i1", 0)
        if not to_vector:
            bits = elements(r.z[f["Zn"]], 1, r.bits)[imm * of :][:of]
            r.p[f["Pd"]] = joined(bits, size // 8)
            return
        bits = elements(r.z[f["Zd"]], 1, r.bits) if imm else [0] * r.bits
        for e in range(of):
            bits[imm * of + e] = int(r.active(f["Pn"], e, size))
        r.z[f["Zd"]] = joined(bits, 1)

    return operation


# Arithmetic


def lanewise(
    size_of: Callable[[Fields], int], change: Callable[[Registers, int, int, int, int], int]
) -> Operation:
    """Of the elements of Zn, Zm and Zd."""

    def operation(r: Registers, f: Fields) -> None:
        size = size_of(f)
        operands = (r.vector(f[x], size) for x in ("Zn", "Zm", "Zd"))
        results = [change(r, *values, size) for values in zip(*operands, strict=True)]
        r.z[f["Zd"]] = joined(results, size)

    return operation


sclamp = lanewise(esize, lambda r, n, m, d, s: min(max(signed(n, s), signed(d, s)), signed(m, s)))
uclamp = lanewise(esize, lambda r, n, m, d, s: min(max(n, d), m))
fclamp = lanewise(
    esize,
    lambda r, n, m, d, s: r.fp.extreme(
        r.fp.extreme(n, d, s, least=False, number=True), m, s, least=True, number=True
    ),
)


def halves_of(r: Registers, f: Fields, e: int) -> tuple[list[int], list[int]]:
    """Two elements of Zn, and two of Zm or of its indexed word in the quadword."""
    at = e - e % 4 + f["i2"] if "i2" in f else e
    return r.vector(f["Zn"], 16)[2 * e :][:2], r.vector(f["Zm"], 16)[2 * at :][:2]


def dot(is_signed: bool) -> Operation:
    def operation(r: Registers, f: Fields) -> None:
        results = r.vector(f["Zda"], 32)
        for e in range(len(results)):
            for a, b in zip(*halves_of(r, f, e), strict=True):
                results[e] += signed(a, 16) * signed(b, 16) if is_signed else a * b
        r.z[f["Zda"]] = joined(results, 32)

    return operation


def fdot(r: Registers, f: Fields) -> None:
    results = r.vector(f["Zda"], 32)
    for e, addend in enumerate(results):
        (a0, a1), (b0, b1) = halves_of(r, f, e)
        results[e] = r.fp.add(addend, r.fp.dot((a0, a1), (b0, b1)), 32)
    r.z[f["Zda"]] = joined(results, 32)


def bfmlsl(top: int) -> Operation:
    def operation(r: Registers, f: Fields) -> None:
        results = r.vector(f["Zda"], 32)
        n, m = r.vector(f["Zn"], 16), r.vector(f["Zm"], 16)
        for e, addend in enumerate(results):
            at = 2 * e + top
            if "i3h" in f:
                at = 2 * (e - e % 4) + (f["i3h"] << 1 | f["i3l"])
            a, b = (n[2 * e + top] ^ 0x8000) << 16, m[at] << 16
            results[e] = r.fp.multiply_add(addend, a, b, 32)
        r.z[f["Zda"]] = joined(results, 32)

    return operation


def narrow(from_signed: bool, least: int, most: int) -> Operation:
    def operation(r: Registers, f: Fields) -> None:
        shift = 16 - f["imm4"] if "imm4" in f else 0
        results = []
        for pair in zip(*(r.vector(2 * f["Zn"] + i, 32) for i in range(2)), strict=True):
            for value in pair:
                number = signed(value, 32) if from_signed else value
                if shift:
                    number = number + (1 << shift - 1) >> shift
                results.append(min(max(number, least), most))
        r.z[f["Zd"]] = joined(results, 16)

    return operation


SIGNED_16, UNSIGNED_16 = (-0x8000, 0x7FFF), (0, 0xFFFF)


class Page(NamedTuple):
    """A page of the manual."""

    name: str
    diagram: str
    """Bits 31 to 0; a field is its name, a colon and its width."""
    operation: Operation
    least: Mapping[str, int] = {}
    """The least values of fields, where others than 0 are UNDEFINED."""

    @property
    def fields(self) -> list[tuple[str, int]]:
        """Names and widths of the parts, bits as they are."""
        parts = (part.partition(":") for part in self.diagram.split())
        return [(name, int(width) if width else len(name)) for name, _, width in parts]

    def word(self, fields: Fields) -> int:
        """The word with these fields, and 0 for others."""
        word, bits = 0, 0
        for name, width in self.fields:
            value = fields.get(name, 0) if not name.isdigit() else int(name, 2)
            word, bits = word << width | value, bits + width
        if bits != 32:
            raise ValueError(f"{self.name}: {bits} bits")
        return word

    def random_fields(self, random: Random) -> dict[str, int]:
        """Random values. General registers are X0 to X15, and XZR."""
        found = {}
        for name, width in self.fields:
            if name.isdigit():
                continue
            value = random.randrange(self.least.get(name, 0), 1 << width)
            if name in ("Rn", "Rm", "Rd"):
                value = random.choice((*range(16), 31))
            found[name] = value
        return found


def _quadword(name: str, code: str, operation: Operation) -> Page:
    return Page(name, f"00000100 size:2 0 {code} 001 Pg:3 Zn:5 Vd:5", operation)


def _float_quadword(name: str, code: str, operation: Operation) -> Page:
    diagram = f"01100100 size:2 010 {code} 101 Pg:3 Zn:5 Vd:5"
    return Page(name, diagram, operation, {"size": 1})


def _pmov(size: int, places: str) -> tuple[Page, Page]:
    head, tail = places.split("|")
    return (
        Page(f"PMOV to predicate, {size}", f"00000101 {head} 1 01 {tail} 0 001110 Zn:5 0 Pd:4",
             pmov(size, to_vector=False)),
        Page(f"PMOV to vector, {size}", f"00000101 {head} 1 01 {tail} 1 001110 0 Pn:4 Zd:5",
             pmov(size, to_vector=True)),
    )  # fmt: skip


def _dots(name: str, head: str, index: str, tail: str, code: str, operation: Operation
          ) -> tuple[Page, Page]:  # fmt: skip
    return (
        Page(f"{name} (vectors)", f"{head} Zm:5 {code} Zn:5 Zda:5", operation),
        Page(f"{name} (indexed)", f"{index} i2:2 Zm:3 {tail} Zn:5 Zda:5", operation),
    )


PAGES: Final[tuple[Page, ...]] = (
    Page("WHILE, pair", "00100101 size:2 1 Rm:5 0101 U:1 lt:1 Rn:5 1 Pd:3 eq:1", while_pair),
    Page("WHILE, counter", "00100101 size:2 1 Rm:5 01 vl:1 0 U:1 lt:1 Rn:5 1 eq:1 PNd:3",
         while_counter),
    Page("PEXT", "00100101 size:2 1 00000 01 1100 imm2:2 PNn:3 1 Pd:4", pext),
    Page("PEXT, pair", "00100101 size:2 1 00000 01 11010 i1:1 PNn:3 1 Pd:4", pext_pair),
    Page("PTRUE, counter", "00100101 size:2 1 00000 01 111 000000 1 0 PNd:3", ptrue),
    Page("CNTP, counter", "00100101 size:2 100 000 10 000 vl:1 1 PNn:4 Rd:5", cntp),
    Page("PSEL", "00100101 i1:1 tszh:1 1 tszl:3 Rv:2 01 Pn:4 0 Pm:4 0 Pd:4", psel, {"tszl": 1}),
    _quadword("ADDQV", "00 1 01", reduction(operator.add, lambda s: 0)),
    _quadword("SMAXQV", "01 1 00", reduction(max, lambda s: 1 << s - 1, is_signed=True)),
    _quadword("UMAXQV", "01 1 01", reduction(max, lambda s: 0)),
    _quadword("SMINQV", "01 1 10", reduction(min, lambda s: (1 << s - 1) - 1, is_signed=True)),
    _quadword("UMINQV", "01 1 11", reduction(min, lambda s: -1)),
    _quadword("ORQV", "11 1 00", reduction(operator.or_, lambda s: 0)),
    _quadword("EORQV", "11 1 01", reduction(operator.xor, lambda s: 0)),
    _quadword("ANDQV", "11 1 10", reduction(operator.and_, lambda s: -1)),
    _float_quadword("FADDQV", "000", float_reduction("add", lambda s: 0)),
    _float_quadword("FMAXNMQV", "100", float_reduction("max", default_nan, number=True)),
    _float_quadword("FMINNMQV", "101",
                    float_reduction("min", default_nan, least=True, number=True)),
    _float_quadword("FMAXQV", "110", float_reduction("max", partial(infinity, 1))),
    _float_quadword("FMINQV", "111", float_reduction("min", partial(infinity, 0), least=True)),
    Page("ZIPQ1", "01000100 size:2 0 Zm:5 111000 Zn:5 Zd:5", zipq(0)),
    Page("ZIPQ2", "01000100 size:2 0 Zm:5 111001 Zn:5 Zd:5", zipq(1)),
    Page("UZPQ1", "01000100 size:2 0 Zm:5 111010 Zn:5 Zd:5", uzpq(0)),
    Page("UZPQ2", "01000100 size:2 0 Zm:5 111011 Zn:5 Zd:5", uzpq(1)),
    Page("TBLQ", "01000100 size:2 0 Zm:5 111110 Zn:5 Zd:5", tblq),
    Page("TBXQ", "00000101 size:2 1 Zm:5 001101 Zn:5 Zd:5", tbxq),
    Page("DUPQ", "00000101 00 1 i1:1 tsz:4 001001 Zn:5 Zd:5", dupq, {"tsz": 1}),
    Page("EXTQ", "00000101 01 1 0 imm4:4 001001 Zm:5 Zdn:5", extq),
    Page("REVD", "00000101 00 1 0 111 0 10 0 Pg:3 Zn:5 Zd:5", revd),
    *_pmov(8, "00|01"),
    *_pmov(16, "00|1 i1:1"),
    *_pmov(32, "01|i2:2"),
    *_pmov(64, "1 i3h:1|i3l:2"),
    Page("SCLAMP", "01000100 size:2 0 Zm:5 110000 Zn:5 Zd:5", sclamp),
    Page("UCLAMP", "01000100 size:2 0 Zm:5 110001 Zn:5 Zd:5", uclamp),
    Page("FCLAMP", "01100100 size:2 1 Zm:5 001001 Zn:5 Zd:5", fclamp, {"size": 1}),
    *_dots("SDOT", "01000100000", "01000100100", "110010", "110010", dot(is_signed=True)),
    *_dots("UDOT", "01000100000", "01000100100", "110011", "110011", dot(is_signed=False)),
    *_dots("FDOT", "01100100001", "01100100001", "010000", "100000", fdot),
    *(
        page
        for end, top in (("B", 0), ("T", 1))
        for page in (
            Page(f"BFMLSL{end} (vectors)", f"01100100111 Zm:5 10100{top} Zn:5 Zda:5", bfmlsl(top)),
            Page(f"BFMLSL{end} (indexed)",
                 f"01100100111 i3h:2 Zm:3 0110 i3l:1 {top} Zn:5 Zda:5", bfmlsl(top)),
        )
    ),
    *(
        page
        for name, cvt, shr, operation in (
            ("SQ{}N", "010000", "001010", narrow(True, *SIGNED_16)),
            ("UQ{}N", "010010", "001110", narrow(False, *UNSIGNED_16)),
            ("SQ{}UN", "010100", "000010", narrow(True, *UNSIGNED_16)),
        )
        for page in (
            Page(name.format("CVT"), f"010001010011 0001 {cvt} Zn:4 0 Zd:5", operation),
            Page(name.format("RSHR"), f"010001011011 imm4:4 {shr} Zn:4 0 Zd:5", operation),
        )
    ),
)  # fmt: skip
