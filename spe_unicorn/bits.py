"""Registers as declarations: named fields that together claim every bit.

A register is a class whose body lists its fields from the top bit to bit 0::

    class PMSLATFR_EL1(Register):
        RES0 = Res0(63, 16)
        MINLAT = Field(15, 0, doc="Minimum total latency, in cycles.")

The class is also the value: ``PMSLATFR_EL1(5).MINLAT == 5``. Values never change; use
:meth:`Register.replace`. A bit that no field claims is an error when the class is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeVar, overload

Condition = Callable[[Any], bool]
"""Answers whether a field or register exists in a set of features (see ``arch.features``)."""

R = TypeVar("R", bound="Register")


class _Unknown:
    """The reset value of a field that the architecture leaves UNKNOWN."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()

Reset = int | _Unknown
"""A reset value, or UNKNOWN."""


class Field:
    """Bits ``msb`` down to ``lsb`` of a register, both counted from 0 at the right.

    ``values`` names the values (an ``IntEnum``), ``when`` is the condition under which the field
    exists (it is RES0 otherwise), ``reset`` its value after a Warm reset, or a function that gives
    it for a set of features.

    Raises ValueError for a range that is not ``63 >= msb >= lsb >= 0``.
    """

    writable: ClassVar[bool] = True

    def __init__(
        self,
        msb: int,
        lsb: int | None = None,
        values: type[IntEnum] | None = None,
        *,
        when: Condition | None = None,
        reset: Reset | Callable[[Any], Reset] = UNKNOWN,
        doc: str = "",
    ) -> None:
        self.msb = msb
        self.lsb = msb if lsb is None else lsb
        if not 63 >= self.msb >= self.lsb >= 0:
            raise ValueError(f"bits {self.msb}:{self.lsb} do not lie in a 64-bit register")
        self.values = values
        self.when = when
        self.reset = reset
        self.doc = doc
        self.name = ""
        self.width = self.msb - self.lsb + 1
        self.max = (1 << self.width) - 1
        self.mask = self.max << self.lsb

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Field: ...
    @overload
    def __get__(self, instance: Register, owner: type) -> int: ...
    def __get__(self, instance: Register | None, owner: type) -> Field | int:
        if instance is None:
            return self
        return (instance.value >> self.lsb) & self.max

    def exists(self, features: object) -> bool:
        """Whether the field is implemented; where it is not, its bits are RES0."""
        return self.when is None or self.when(features)

    def reset_in(self, features: object) -> Reset:
        """The value after a Warm reset in a set of features."""
        return self.reset(features) if callable(self.reset) else self.reset

    def insert(self, value: int) -> int:
        """``value`` moved to the field's place. Raises ValueError when it does not fit."""
        if not 0 <= value <= self.max:
            raise ValueError(f"{self.name} takes {self.width} bits, got {value:#x}")
        return value << self.lsb

    def text(self, value: int) -> str:
        """``value`` as a reader wants it: the name of an enumerated value, else a number."""
        if self.values is not None:
            try:
                return self.values(value).name
            except ValueError:
                return f"{value:#x} (reserved)"
        return str(value) if value < 10 else f"{value:#x}"

    @property
    def bits(self) -> str:
        """The range as documents print it: ``17`` or ``31:26``."""
        return str(self.msb) if self.msb == self.lsb else f"{self.msb}:{self.lsb}"


class _Reserved(Field):
    writable = False

    def __init__(self, msb: int, lsb: int | None = None, *, when: Condition | None = None) -> None:
        super().__init__(msb, lsb, when=when, reset=0)


class Res0(_Reserved):
    """Reserved bits that read as zero and ignore writes."""


class Res1(_Reserved):
    """Reserved bits that read as one and ignore writes."""


class ReadOnly(Field):
    """A field that hardware sets; direct writes leave it alone."""

    writable = False


class Register:
    """A 64-bit register value, decoded by the fields of its class."""

    __slots__ = ("value",)

    fields: ClassVar[tuple[Field, ...]] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        own = [f for f in vars(cls).values() if isinstance(f, Field)]
        if not own:
            return
        cls.fields = tuple(sorted(own, key=lambda f: -f.msb))
        claimed = 0
        for field in cls.fields:
            claimed |= field.mask
        if gap := ~claimed & (1 << 64) - 1:
            raise TypeError(f"{cls.__name__}: no field claims bits {_ranges(gap)}")

    def __init__(self, value: int = 0) -> None:
        if not 0 <= value < 1 << 64:
            raise ValueError(f"{type(self).__name__} takes 64 bits, got {value:#x}")
        self.value = value

    def replace(self: R, **values: int) -> R:
        """A copy with the named fields changed.

        Raises ValueError for a value that does not fit and AttributeError for an unknown field.
        """
        result = self.value
        for name, value in values.items():
            field = self.field(name)
            result = result & ~field.mask | field.insert(value)
        return type(self)(result)

    @classmethod
    def of(cls: type[R], **values: int) -> R:
        """The register with the named fields set and all other bits zero."""
        return cls(0).replace(**values)

    @classmethod
    def field(cls, name: str) -> Field:
        """The field called ``name``. Raises AttributeError, listing the names there are."""
        for field in cls.fields:
            if field.name == name and not isinstance(field, (Res0, Res1)):
                return field
        names = ", ".join(f.name for f in cls.fields if not isinstance(f, (Res0, Res1)))
        # with an object of its own, Python adds no suggestion
        raise AttributeError(f"{cls.__name__} has no field {name}; it has {names}", obj=cls)

    @classmethod
    @lru_cache(maxsize=4096)
    def active(cls, features: object) -> tuple[Field, ...]:
        """The fields that exist in a set of features, from the top bit down.

        Raises TypeError where two of them claim the same bit: each bit has one meaning in each
        set of features.
        """
        result = tuple(f for f in cls.fields if f.exists(features))
        seen = 0
        for field in result:
            if both := seen & field.mask:
                raise TypeError(f"{cls.__name__}: two fields claim bits {_ranges(both)}")
            seen |= field.mask
        return result

    @classmethod
    def writable_mask(cls, features: object) -> int:
        """The bits that a direct write can change."""
        return _union(f.mask for f in cls.active(features) if f.writable)

    @classmethod
    def res1_mask(cls, features: object) -> int:
        """The bits that always read as one."""
        return _union(f.mask for f in cls.active(features) if isinstance(f, Res1))

    @classmethod
    def reset_value(cls, features: object, unknown: Callable[[], int]) -> int:
        """The value after a Warm reset; ``unknown()`` supplies 64 bits for UNKNOWN fields."""
        noise = unknown()
        result = cls.res1_mask(features)
        for field in cls.active(features):
            reset = field.reset_in(features)
            if isinstance(reset, _Unknown):
                result |= noise & field.mask
            elif not isinstance(field, Res1):
                result |= field.insert(reset)
        return result

    def items(self) -> Iterator[tuple[Field, int]]:
        """Every field but the reserved ones, with its value, from the top bit down."""
        for field in self.fields:
            if not isinstance(field, (Res0, Res1)):
                yield field, (self.value >> field.lsb) & field.max

    def __int__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.value == self.value

    def __hash__(self) -> int:
        return hash((type(self), self.value))

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={f.text(v)}" for f, v in self.items() if v)
        return f"{type(self).__name__}({self.value:#x}{': ' if shown else ''}{shown})"


def signed(value: int, bits: int = 64) -> int:
    """The lowest ``bits`` bits of ``value`` as a two's complement number."""
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


def _union(masks: Iterable[int]) -> int:
    result = 0
    for mask in masks:
        result |= mask
    return result


def _ranges(mask: int) -> str:
    """``mask`` as ``msb:lsb`` ranges, for messages."""
    ranges = []
    bit = 0
    while mask >> bit:
        if mask >> bit & 1:
            low = bit
            while mask >> bit & 1:
                bit += 1
            ranges.append(f"{bit - 1}:{low}" if bit - 1 > low else str(low))
        else:
            bit += 1
    return ", ".join(reversed(ranges))
