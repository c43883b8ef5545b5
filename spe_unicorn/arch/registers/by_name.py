"""Registers by name, for people at a prompt and scripts: ``registers.PMSCR_EL1.E1SPE = 1``.

``registers["PMSCR_EL1"]`` is the same, for names that a script works out.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Protocol

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import ReadOnly, Res0, Res1


class RegisterStore(Protocol):
    """What holds registers: an ``arch.registers.sysreg.RegisterFile``, or what stands for one."""

    def __iter__(self) -> Iterator[type[SysReg]]:
        """The registers that there are."""
        ...

    def raw(self, register: type[SysReg]) -> int:
        """The 64 bits as they are stored."""
        ...

    def write(self, register: type[SysReg], value: int) -> None:
        """A direct write: only the writable bits change."""
        ...


class Fields:
    """A register whose fields are read and written by name; made by :class:`Registers`."""

    __slots__ = ("_file", "_register")

    _file: RegisterStore
    _register: type[SysReg]

    def __init__(self, file: RegisterStore, register: type[SysReg]) -> None:
        object.__setattr__(self, "_file", file)
        object.__setattr__(self, "_register", register)

    @property
    def value(self) -> int:
        """All 64 bits."""
        return self._file.raw(self._register)

    @property
    def fields(self) -> dict[str, int]:
        """All fields but the reserved ones by name, from the top bit down."""
        return {field.name: value for field, value in self._register(self.value).items()}

    def __int__(self) -> int:
        return self.value

    def __getattr__(self, name: str) -> int:
        field = self._register.field(name)
        return self.value >> field.lsb & field.max

    def __setattr__(self, name: str, value: int) -> None:
        if name in ("value", "fields"):
            raise AttributeError(f"write the register itself, or a field of it: not its {name}")
        number = _whole(f"{self._register.__name__}.{name}", value)
        _refuse_read_only(self._register)
        if isinstance(self._register.field(name), ReadOnly):
            raise AttributeError(f"{self._register.__name__}.{name} is read-only: hardware sets it")
        self._file.write(self._register, self._register(self.value).replace(**{name: number}).value)

    def __dir__(self) -> Iterator[str]:
        named = (f.name for f in self._register.fields if not isinstance(f, (Res0, Res1)))
        return iter(["value", "fields", *named])

    def __repr__(self) -> str:
        return repr(self._register(self.value))


class Registers(Mapping[str, Fields]):
    """Registers by name: ``registers.PMSCR_EL1.E1SPE = 1``, ``registers.PMBPTR_EL1 = pointer``.

    It is a mapping as well: ``registers["PMSCR_EL1"].fields``, ``"PMSCR_EL1" in registers``, and a
    loop goes through the names. Writes are direct writes without access checks: only writable bits
    change. Raises AttributeError for a name that is not there (KeyError in brackets) and for a
    register or field that is read-only, TypeError and ValueError for a value that does not fit.
    """

    __slots__ = ("_file",)

    _file: RegisterStore

    def __init__(self, file: RegisterStore) -> None:
        object.__setattr__(self, "_file", file)

    def _found(self, name: object) -> type[SysReg] | None:
        return next((r for r in self._file if r.__name__ == name), None)

    def _no_register(self, name: object) -> str:
        near = get_close_matches(str(name).upper(), self, n=1)
        meant = f": did you mean {near[0]}?" if near else ""
        return f"this core has no register {name}{meant}"

    def _named(self, name: str) -> type[SysReg]:
        register = self._found(name)
        if register is None:
            # with an object of its own, Python adds no second suggestion
            raise AttributeError(self._no_register(name), obj=self)
        return register

    __eq__, __hash__ = object.__eq__, object.__hash__  # two are not compared register by register

    def __iter__(self) -> Iterator[str]:
        return iter(register.__name__ for register in self._file)

    def __len__(self) -> int:
        return sum(1 for _ in self._file)

    def __contains__(self, name: object) -> bool:
        return self._found(name) is not None

    def __getitem__(self, name: str) -> Fields:
        register = self._found(name)
        if register is None:
            raise KeyError(self._no_register(name))
        return Fields(self._file, register)

    def __setitem__(self, name: str, value: int | SysReg) -> None:
        if name not in self:
            raise KeyError(self._no_register(name))
        setattr(self, name, value)

    def __getattr__(self, name: str) -> Fields:
        return Fields(self._file, self._named(name))

    def __setattr__(self, name: str, value: int | SysReg) -> None:
        register = self._named(name)
        _refuse_read_only(register)
        number = _whole(name, int(value) if isinstance(value, (SysReg, Fields)) else value)
        if not 0 <= number < 1 << 64:
            raise ValueError(f"{name} takes 64 bits, got {number:#x}")
        self._file.write(register, number)

    def __dir__(self) -> Iterator[str]:
        return iter(self)

    def __repr__(self) -> str:
        return f"<{len(self)} registers; dir() names them>"


def _refuse_read_only(register: type[SysReg]) -> None:
    if register.read_only:
        raise AttributeError(f"{register.__name__} is read-only: it has no MSR")


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} takes a whole number, got {value!r}") from None
