"""System registers: encodings, the register class, the table and the file that holds values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from spe_unicorn.arch.features import Features, ImpDef
from spe_unicorn.arch.registers.roles import Affects, Owner
from spe_unicorn.bits import Condition, Register
from spe_unicorn.signals import Signal

S = TypeVar("S", bound="SysReg")


@dataclass(frozen=True, order=True)
class Encoding:
    """The five numbers by which MRS and MSR name a register (Arm ARM C5.3)."""

    op0: int
    op1: int
    crn: int
    crm: int
    op2: int

    @property
    def key(self) -> int:
        """The encoding as it stands in bits 20:5 of the instruction: 16 bits, op0 included."""
        return self.op0 << 14 | self.op1 << 11 | self.crn << 7 | self.crm << 3 | self.op2

    @classmethod
    def from_key(cls, key: int) -> Encoding:
        """The inverse of :attr:`key`."""
        return cls(key >> 14 & 3, key >> 11 & 7, key >> 7 & 15, key >> 3 & 15, key & 7)

    def iss(self, rt: int, *, read: bool) -> int:
        """The ISS of a trapped access, exception class 0x18 (Arm ARM D24.2.45)."""
        return (
            self.op0 << 20
            | self.op2 << 17
            | self.op1 << 14
            | self.crn << 10
            | rt << 5
            | self.crm << 1
            | int(read)
        )

    def instruction(self, rt: int, *, read: bool) -> int:
        """The MRS (``read``) or MSR instruction word that accesses the register through Xt."""
        return 0xD500_0000 | int(read) << 21 | self.key << 5 | rt

    def __str__(self) -> str:
        return f"S{self.op0}_{self.op1}_C{self.crn}_C{self.crm}_{self.op2}"


class SysReg(Register):
    """A System register: a :class:`Register` with an encoding and a condition to exist.

    Class keywords: ``op`` the encoding ``(op0, op1, CRn, CRm, op2)``, ``when`` the feature that
    brings the register (always there without it), ``read_only`` for one without an MSR form.

    Its role: ``affects`` is what a write changes beside the register, ``owner`` who keeps its
    value. Of a split register ``kept`` names the fields that we keep because the engine drops
    them, ``withheld`` those that the engine must not have because we do their work. Base classes
    hand ``affects`` and ``owner`` on.
    """

    __slots__ = ()

    encoding: ClassVar[Encoding]
    when: ClassVar[Condition | None] = None
    read_only: ClassVar[bool] = False
    affects: ClassVar[Affects] = Affects.NOTHING
    owner: ClassVar[Owner] = Owner.ENGINE
    kept: ClassVar[int] = 0
    """Mask of the fields of a split register that we keep."""
    withheld: ClassVar[int] = 0
    """Mask of the fields of a split register that the engine must not have."""

    def __init_subclass__(
        cls,
        *,
        op: tuple[int, int, int, int, int] | None = None,
        when: Condition | None = None,
        read_only: bool = False,
        affects: Affects | None = None,
        owner: Owner | None = None,
        kept: tuple[str, ...] = (),
        withheld: tuple[str, ...] = (),
        **kwargs: object,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if op is not None:
            cls.encoding = Encoding(*op)
        cls.when = when
        cls.read_only = read_only
        if affects is not None:
            cls.affects = affects
        if owner is not None:
            cls.owner = owner
        if (cls.owner is Owner.SPLIT) != bool(kept):
            raise TypeError(f"{cls.__name__}: a split register, and no other, names fields in kept")
        cls.kept = sum(cls.field(name).mask for name in kept)
        cls.withheld = sum(cls.field(name).mask for name in withheld)

    @classmethod
    def implemented(cls, features: Features) -> bool:
        """Whether a core with these features has the register."""
        return cls.when is None or cls.when(features)

    @classmethod
    def core_bits(cls, features: Features, impdef: ImpDef) -> int:
        """The bits that a core leaves usable by its choices; the others are RES0.

        Registers with bits that are IMPLEMENTATION DEFINED, or that need more than one feature,
        override this.
        """
        del features, impdef
        return (1 << 64) - 1


class Cell(Protocol):
    """Where the value of one register is kept: ours, or the engine's."""

    def get(self) -> int:
        """The raw 64-bit value."""
        ...

    def set(self, value: int) -> None:
        """Store the raw 64-bit value."""
        ...


class OwnCell:
    """A register value that we keep."""

    STATE = ("value",)
    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def get(self) -> int:
        """The raw 64-bit value."""
        return self.value

    def set(self, value: int) -> None:
        """Store the raw 64-bit value."""
        self.value = value


class ReadOnlyCell:
    """A value that is worked out at each read, such as an identification register; never stored."""

    __slots__ = ("get",)

    def __init__(self, get: Callable[[], int]) -> None:
        self.get = get

    def set(self, value: int) -> None:
        """Nothing changes it."""


_DEFAULT_CHOICES = ImpDef()


class RegisterFile:
    """The values of one PE's System registers.

    Three ways in: :meth:`write` is what an MSR does (RES0, RES1 and read-only bits stay as they
    are), :meth:`update` is what hardware does (an indirect write), :meth:`set_raw` is for reset,
    save and restore, which nobody is told of. A register that the features do not bring may be
    held all the same: it is RES0.
    """

    def __init__(
        self,
        features: Features,
        registers: Iterable[type[SysReg]],
        impdef: ImpDef = _DEFAULT_CHOICES,
    ) -> None:
        self.features = features
        self.impdef = impdef
        self._cells: dict[type[SysReg], Cell] = {}
        self._present: dict[type[SysReg], int] = {}
        self._writable: dict[type[SysReg], int] = {}
        self.written: Signal[[type[SysReg], int, int]] = Signal()
        """Told of every :meth:`write` and :meth:`update` after the store: old value, new value."""
        for register in registers:
            self.add(register)

    def add(self, register: type[SysReg], cell: Cell | None = None) -> None:
        """Hold ``register``, in ``cell`` or in one of ours; replaces the cell it had."""
        self._cells[register] = OwnCell() if cell is None else cell
        present = 0
        if register.implemented(self.features):
            present = register.core_bits(self.features, self.impdef)
        self._present[register] = present
        self._writable[register] = present & register.writable_mask(self.features)

    def __contains__(self, register: type[SysReg]) -> bool:
        return register in self._cells

    def __iter__(self) -> Iterator[type[SysReg]]:
        return iter(self._cells)

    def read(self, register: type[S]) -> S:
        """The decoded value. Raises KeyError for a register that this file does not hold."""
        return register(self._cells[register].get())

    def raw(self, register: type[SysReg]) -> int:
        """The 64 bits as they are stored."""
        return self._cells[register].get()

    def raws(self, registers: Iterable[type[SysReg]]) -> tuple[int, ...]:
        """The 64 bits of each of ``registers``."""
        return tuple([self._cells[register].get() for register in registers])

    def set_raw(self, register: type[SysReg], value: int) -> None:
        """Store 64 bits as they are, telling nobody."""
        self._cells[register].set(value)

    def write(self, register: type[SysReg], value: int) -> None:
        """A direct write: only the writable bits change, and observers are told."""
        cell = self._cells[register]
        old = cell.get()
        mask = self._writable[register]
        self._store(register, cell, old, old & ~mask | value & mask)

    def update(self, value: SysReg) -> None:
        """An indirect write by hardware: every bit is taken, and observers are told."""
        register = type(value)
        cell = self._cells[register]
        self._store(register, cell, cell.get(), value.value)

    def _store(self, register: type[SysReg], cell: Cell, old: int, new: int) -> None:
        cell.set(new)
        self.written(register, old, new)

    def reset(self, unknown: Callable[[], int], *, without: Collection[type[SysReg]] = ()) -> None:
        """Warm reset of every register; ``unknown()`` gives 64 bits for UNKNOWN fields.

        Those of ``without`` stay as they are: somebody else resets them.
        """
        for register in sorted(self._cells.keys() - set(without), key=lambda r: r.encoding):
            value = register.reset_value(self.features, unknown)
            self.set_raw(register, value & self._present[register])

    def present(self, register: type[SysReg]) -> int:
        """The bits of ``register`` that this core leaves usable; the others are RES0."""
        return self._present[register]

    def writable(self, register: type[SysReg]) -> int:
        """The bits of ``register`` that a direct write can change."""
        return self._writable[register]

    def save(self) -> dict[type[SysReg], int]:
        """All raw values, for :meth:`restore`."""
        return {register: cell.get() for register, cell in self._cells.items()}

    def restore(self, values: Mapping[type[SysReg], int]) -> None:
        """Put back what :meth:`save` gave, telling nobody."""
        for register, value in values.items():
            self.set_raw(register, value)
