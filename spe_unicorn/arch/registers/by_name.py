"""Registers by name, for people at a prompt and scripts: ``registers.PMSCR_EL1.E1SPE = 1``."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Protocol

from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.bits import Res0, Res1


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

    def __int__(self) -> int:
        return self.value

    def __getattr__(self, name: str) -> int:
        field = self._register.field(name)
        return self.value >> field.lsb & field.max

    def __setattr__(self, name: str, value: int) -> None:
        number = _whole(f"{self._register.__name__}.{name}", value)
        self._file.write(self._register, self._register(self.value).replace(**{name: number}).value)

    def __dir__(self) -> Iterator[str]:
        named = (f.name for f in self._register.fields if not isinstance(f, (Res0, Res1)))
        return iter(["value", *named])

    def __repr__(self) -> str:
        return repr(self._register(self.value))


class Registers:
    """Registers by name: ``registers.PMSCR_EL1.E1SPE = 1``, ``registers.PMBPTR_EL1 = pointer``.

    Writes are direct writes without access checks: only writable bits change. Raises AttributeError
    for a name that is not there, TypeError and ValueError for a value that is no register's.
    """

    __slots__ = ("_file",)

    _file: RegisterStore

    def __init__(self, file: RegisterStore) -> None:
        object.__setattr__(self, "_file", file)

    def _named(self, name: str) -> type[SysReg]:
        for register in self._file:
            if register.__name__ == name:
                return register
        near = get_close_matches(name, dir(self), n=1)
        meant = f": did you mean {near[0]}?" if near else ""
        # with an object of its own, Python adds no second suggestion
        raise AttributeError(f"this core has no register {name}{meant}", obj=self)

    def __getattr__(self, name: str) -> Fields:
        return Fields(self._file, self._named(name))

    def __setattr__(self, name: str, value: int | SysReg) -> None:
        register = self._named(name)
        number = _whole(name, int(value) if isinstance(value, (SysReg, Fields)) else value)
        if not 0 <= number < 1 << 64:
            raise ValueError(f"{name} takes 64 bits, got {number:#x}")
        self._file.write(register, number)

    def __dir__(self) -> Iterator[str]:
        return iter(register.__name__ for register in self._file)

    def __repr__(self) -> str:
        return f"<{len(list(self._file))} registers; dir() names them>"


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} takes a whole number, got {value!r}") from None
