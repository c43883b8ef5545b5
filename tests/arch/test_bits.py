from __future__ import annotations

from enum import IntEnum

import pytest

from spe_unicorn.arch.features import Feature, lacks
from spe_unicorn.bits import UNKNOWN, Field, ReadOnly, Register, Res0, Res1


class Colour(IntEnum):
    RED = 1
    BLUE = 2


class Example(Register):
    TOP = Field(63, 32, doc="The upper half.")
    RES0_31_8 = Res0(31, 8)
    COLOUR = Field(7, 6, Colour, reset=1)
    NEW = Field(5, when=Feature.FEAT_SPE, reset=0)
    RES1_4 = Res1(4)
    FIXED = ReadOnly(3, 2, reset=2)
    OLD = Field(1, when=lacks(Feature.FEAT_SPE))
    ON = Field(0)


WITH = frozenset({Feature.FEAT_SPE})
WITHOUT: frozenset[Feature] = frozenset()


def test_fields_read_their_bits() -> None:
    value = Example(0x1234_5678_0000_0091)
    assert (value.TOP, value.COLOUR, value.FIXED, value.ON) == (0x1234_5678, 2, 0, 1)


def test_replace_gives_a_copy() -> None:
    value = Example(0x91)
    changed = value.replace(COLOUR=1, TOP=0xFFFF_FFFF)
    assert value.value == 0x91
    assert changed.value == 0xFFFF_FFFF_0000_0051
    assert Example.of(ON=1, FIXED=3).value == 0xD


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ({"COLOUR": 4}, ValueError, "COLOUR takes 2 bits, got 0x4"),
        ({"ON": -1}, ValueError, "ON takes 1 bits"),
        ({"OFF": 1}, AttributeError, "Example has no field OFF; it has TOP, COLOUR, NEW"),
        ({"RES1_4": 1}, AttributeError, "no field RES1_4"),
    ],
)
def test_replace_says_what_does_not_fit(
    values: dict[str, int], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Example().replace(**values)


def test_a_register_value_has_64_bits() -> None:
    with pytest.raises(ValueError, match="Example takes 64 bits"):
        Example(1 << 64)


def test_a_gap_is_an_error_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="Gappy: no field claims bits 62:8, 3"):
        type("Gappy", (Register,), {"A": Field(63), "B": Field(7, 4), "C": Field(2, 0)})


def test_two_fields_for_one_bit_are_an_error_where_both_exist() -> None:
    class Both(Register):
        REST = Field(63, 1)
        A = Field(1, 0, when=Feature.FEAT_SPE)
        B = Field(0, when=lacks(Feature.FEAT_SPE))

    assert [f.name for f in Both.active(WITHOUT)] == ["REST", "B"]
    with pytest.raises(TypeError, match="Both: two fields claim bits 1"):
        Both.active(WITH)


def test_a_range_outside_the_register_is_an_error() -> None:
    for bits in ((64, 0), (0, 1)):
        with pytest.raises(ValueError, match="do not lie in a 64-bit register"):
            Field(*bits)


def test_features_decide_what_can_be_written() -> None:
    assert Example.writable_mask(WITH) == 0xFFFF_FFFF_0000_00E1
    assert Example.writable_mask(WITHOUT) == 0xFFFF_FFFF_0000_00C3
    assert Example.res1_mask(WITH) == 0x10


def test_reset_gives_defined_fields_their_value_and_noise_to_unknown_ones() -> None:
    ones = (1 << 64) - 1
    # TOP and ON are UNKNOWN, COLOUR 1, NEW 0, FIXED 2, RES1 one.
    assert Example.reset_value(WITH, lambda: ones) == 0xFFFF_FFFF_0000_0059
    assert Example.reset_value(WITH, lambda: 0) == 0x58
    assert Example.reset_value(WITHOUT, lambda: ones) == 0xFFFF_FFFF_0000_005B


def test_a_reset_value_can_depend_on_features() -> None:
    field = Field(0, reset=lambda features: 0 if Feature.FEAT_SPE in features else UNKNOWN)
    assert field.reset_in(WITH) == 0
    assert field.reset_in(WITHOUT) is UNKNOWN


def test_values_of_one_class_compare_and_hash_by_value() -> None:
    assert Example(5) == Example(5)
    assert Example(5) != Example(6)
    assert hash(Example(5)) == hash(Example(5))
    assert Example(5) != 5
    assert int(Example(5)) == 5


def test_repr_names_the_fields_that_are_not_zero() -> None:
    assert repr(Example(0)) == "Example(0x0)"
    assert repr(Example(0x1_0000_0081)) == "Example(0x100000081: TOP=1, COLOUR=BLUE, ON=1)"
    assert repr(Example(0xC0)) == "Example(0xc0: COLOUR=0x3 (reserved))"


def test_subclasses_share_the_fields_of_their_base() -> None:
    class Other(Example):
        pass

    assert Other.fields == Example.fields
    assert Other(1) != Example(1)
