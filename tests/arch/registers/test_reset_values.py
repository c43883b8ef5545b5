"""The reset value of each declared field, against what the manual says of it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import pytest

from spe_unicorn.arch import registers
from spe_unicorn.arch.features import Feature, Features
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import UNKNOWN, ReadOnly, Reset
from tests.arch.access_matrix import EVERYTHING
from tests.arch.reset_table import DECLARED, fields_of, reset_table, says_of

EL2, EL3 = Feature.FEAT_EL2, Feature.FEAT_EL3
HIGHEST: dict[int, Features] = {
    1: EVERYTHING - {EL2, EL3},
    2: EVERYTHING - {EL3},
    3: EVERYTHING,
}
"""Sets of features, by the highest Exception level."""


def declared_in(package: ModuleType) -> set[str]:
    """The names of all registers that the modules of a package declare."""
    modules = (
        import_module(m.name) for m in iter_modules(package.__path__, package.__name__ + ".")
    )
    classes = (each for module in modules for each in vars(module).values())
    return {
        each.__name__
        for each in classes
        if isinstance(each, type) and issubclass(each, SysReg) and "encoding" in vars(each)
    }


def test_the_table_is_of_every_register_that_is_declared() -> None:
    assert declared_in(registers) <= DECLARED.keys()


def test_every_declared_field_has_a_row_and_every_row_a_field() -> None:
    declared = {
        (register.__name__, field.name)
        for register in DECLARED.values()
        for field in fields_of(register)
    }
    rows = {(name, field) for name, fields in reset_table().items() for field in fields}
    whole = {name for name, field in rows if field == "*"}
    assert {each for each in declared if each[0] not in whole} == rows - {(n, "*") for n in whole}
    assert whole <= DECLARED.keys()


def test_rows_for_whole_registers_are_of_registers_that_nothing_writes() -> None:
    whole = [name for name, fields in reset_table().items() if "*" in fields]
    assert len(whole) >= 20
    for name in whole:
        assert DECLARED[name].read_only
        assert all(isinstance(field, ReadOnly) for field in fields_of(DECLARED[name]))


def expected(says: str) -> dict[int, Reset]:
    """What a field resets to, by the highest Exception level; a level that is not there has any."""
    if says.startswith("EL"):
        return {int(says.removeprefix("EL")): 0}
    if says == "no-EL3":
        return {1: 1, 2: 1}
    if says in ("unknown", "counters"):
        return dict.fromkeys(HIGHEST, UNKNOWN)
    if says in ("chosen", "implementation", "action", "view", "none"):
        return {}
    return dict.fromkeys(HIGHEST, int(says, 0))


@pytest.mark.parametrize("register", DECLARED.values(), ids=DECLARED)
def test_fields_reset_to_what_the_manual_says(register: type[SysReg]) -> None:
    for field in fields_of(register):
        says = says_of(register, field)
        assert says is not None, field.name
        values = {level: field.reset_in(features) for level, features in HIGHEST.items()}
        if says == "no-EL3":
            assert not field.exists(HIGHEST[3]), field.name
        for level, value in expected(says).items():
            assert values[level] == value, field.name
        if says == "chosen":
            assert set(values.values()) != {UNKNOWN}, field.name
