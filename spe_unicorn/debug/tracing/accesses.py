"""Watches MRS, MSR and SYS by their encodings, whether the engine or the host carries them out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.operation import Instruction
from spe_unicorn.arch.pe import EL2
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.rules.debug import MemoryAccess
from spe_unicorn.arch.rules.effective import el_is_in_host
from spe_unicorn.host.engine.disassembly import system_register_keys
from spe_unicorn.host.native.state.actions import READ
from spe_unicorn.host.pe.checks.accesses import access_of
from spe_unicorn.host.pe.controls import EL12_NAMES, REDIRECTED
from spe_unicorn.machine.pe import ProcessingElement

_MASK: Final = (1 << 64) - 1
_ZERO_REGISTER: Final = 31
_GENERIC: Final = re.compile(r"S([23])_(\d)_C(\d{1,2})_C(\d{1,2})_(\d)", re.ASCII)
_ENDS: Final = (4, 8, 16, 16, 8)
"""The first number that each part of an encoding cannot be."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access that was executed: ``kind`` is READ, WRITE or SYSTEM, ``key`` its encoding's.

    ``value`` is Xt before the access, or after it for a read. ``old`` is what the ``held`` of
    :class:`AccessWatch` found before the access. ``raised``: the access ended in an exception.
    """

    pc: int
    el: int
    word: int
    kind: int
    key: int
    value: int
    old: int | None
    raised: bool


class Registers:
    """The System registers of a PE by the encodings that reach them."""

    def __init__(self, pe: ProcessingElement) -> None:
        self._cpu = pe.cpu
        known = (*pe.cpu.registers, *pe.device_registers)
        self._names = {register.__name__: register.encoding for register in known}
        # of the two that an encoding of the GIC's names, the physical interface's comes first
        self._known = {register.encoding: register for register in reversed(known)}

    def keys(self, register: type[SysReg]) -> frozenset[int]:
        """All encodings that can reach a register, aliases among them."""
        encoding = register.encoding
        aliases = [alias for alias, el1 in EL12_NAMES.items() if el1 == encoding]
        aliases += [el1 for el1, el2 in REDIRECTED.items() if el2 == encoding]
        return frozenset(one.key for one in (encoding, *aliases))

    def named(self, name: str) -> tuple[str, frozenset[int]] | None:
        """The name of a register and all encodings that can reach it; None for an unknown register.

        ``name`` may be in small letters, and of the form ``S3_0_C9_C9_0``.
        """
        name = name.upper()
        if name in self._names:
            register = self._known[self._names[name]]
            return register.__name__, self.keys(register)
        generic = _GENERIC.fullmatch(name)
        if generic is not None:
            numbers = [int(part) for part in generic.groups()]
            if any(n >= end for n, end in zip(numbers, _ENDS, strict=True)):
                return None
            encoding = Encoding(*numbers)
        else:
            key = system_register_keys().get(name)
            if key is None:
                return None
            encoding = Encoding.from_key(key)
        if encoding in self._known:
            register = self._known[encoding]
            return register.__name__, self.keys(register)
        aliases = {alias.key for alias, el1 in EL12_NAMES.items() if el1 == encoding}
        return name, frozenset({encoding.key}) | aliases

    def reached(self, key: int) -> type[SysReg] | None:
        """The register that an encoding reaches at the PE's Exception level; None if unknown."""
        encoding = Encoding.from_key(key)
        if encoding in EL12_NAMES:
            encoding = EL12_NAMES[encoding]
        elif encoding in REDIRECTED and self._cpu.el == EL2 and el_is_in_host(self._cpu, EL2):
            encoding = REDIRECTED[encoding]
        return self._known.get(encoding)

    def held(self, key: int) -> int | None:
        """The value of the register that an encoding reaches; None for a device's register."""
        register = self.reached(key)
        if register is None or register not in self._cpu.registers:
            return None
        return self._cpu.registers.raw(register)


class AccessWatch:
    """Calls ``told`` after each access of one PE that is among ``system``; an ``Observer``.

    ``held`` is called before an access: it gives the ``old`` of the access.
    """

    watched: Collection[tuple[int, int, bool, bool]] = ()

    def __init__(
        self,
        pe: ProcessingElement,
        system: Collection[tuple[int, int]],
        told: Callable[[Access], None],
        held: Callable[[int, int], int | None] = lambda kind, key: None,
    ) -> None:
        self.system = frozenset(system)
        self._cpu = pe.cpu
        self._told = told
        self._held = held
        self._made: tuple[int, int, int, int, int, int, int | None] | None = None

    def before(self, pc: int, instruction: Instruction, accesses: Iterable[MemoryAccess]) -> None:
        """Note an access that is about to be made."""
        self._made = None
        found = access_of(instruction.word)
        if found is not None and found in self.system:
            kind, key = found
            value = self._x(instruction.word)
            old = self._held(kind, key)
            self._made = pc, self._cpu.el, instruction.word, kind, key, value, old

    def after(self) -> None:
        """Tell of the access that was made."""
        if self._made is None:
            return
        (pc, el, word, kind, key, value, old), self._made = self._made, None
        raised = self._cpu.pc != pc + 4 & _MASK
        if kind == READ and not raised:
            value = self._x(word)
        self._told(Access(pc, el, word, kind, key, value, old, raised))

    def _x(self, word: int) -> int:
        rt = word & 31
        return 0 if rt == _ZERO_REGISTER else self._cpu.engine.x(rt)
