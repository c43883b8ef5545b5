"""FEAT_LSE2: exclusives and atomics that are not aligned, and lie within 16 bytes.

The engine takes an Alignment fault for each that is not aligned, as without FEAT_LSE2. Where the
core has it, the host then has the engine make the accesses: a plain load, and a plain store of what
the operation makes of it. Translation, faults and devices are the engine's own for these. Accesses
that are aligned cost nothing.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from unicorn import arm64_const as regs

from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import Fault
from spe_unicorn.arch.pe import EL0
from spe_unicorn.arch.rules.effective import sctlr
from spe_unicorn.bits import signed
from spe_unicorn.host.engine.engine import TO_FIND_OUT, Engine, new_engine
from spe_unicorn.host.pe.checks.alignment import Alignment, is_within_quantity
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.ports import EngineException

_DATA_ABORTS: Final = frozenset({EC.DataAbort, EC.DataAbort + 1})
_FSC: Final = 0x3F
_MASK: Final = (1 << 64) - 1
_LDR: Final = 0x3940_0000
_STR: Final = 0x3900_0000
"""LDRB and STRB of Wt, [Xn]; the size goes to bits 31:30."""
_LDXP: Final = 0xC87F_0402
"""LDXP X2, X1, [X0]: X0 to X2 do not hold what the monitor does, in its order."""
_NOWHERE: Final = _MASK
"""The address of the engine's exclusive monitor where it is open."""
_PAIR: Final = (0x1122_3344_5566_7788, 0x99AA_BBCC_DDEE_FF01)
_ARITHMETIC: Final[tuple[Callable[[int, int, int], int], ...]] = (
    lambda old, operand, size: old + operand,
    lambda old, operand, size: old & ~operand,
    lambda old, operand, size: old ^ operand,
    lambda old, operand, size: old | operand,
    lambda old, operand, size: max(old, operand, key=lambda n: _signed(n, size)),
    lambda old, operand, size: min(old, operand, key=lambda n: _signed(n, size)),
    lambda old, operand, size: max(old, operand),
    lambda old, operand, size: min(old, operand),
)
"""LDADD, LDCLR, LDEOR, LDSET, LDSMAX, LDSMIN, LDUMAX and LDUMIN, by ``opc``."""


def _signed(value: int, size: int) -> int:
    return value - (value >> 8 * size - 1 << 8 * size)


class Access(NamedTuple):
    """An exclusive or an atomic, by its instruction word."""

    word: int
    size: int
    """How many bytes it accesses."""
    pair: bool = False
    """Whether these are two registers of 32 bits."""
    exclusive: bool = False
    compares: bool = False
    """Whether it is CAS or CASP."""

    @property
    def loads(self) -> bool:
        """Whether an exclusive is a load."""
        return bool(self.word >> 22 & 1)


def access_of(word: int) -> Access | None:
    """The exclusive or atomic that a word is; None for one of more than 8 bytes, and for others.

    Arm ARM C4.1.96: load/store exclusive register and pair, compare and swap, atomic memory
    operations. LDAPR, which stands among those, is none.
    """
    size = 1 << (word >> 30)
    if word & 0x3B20_0C00 == 0x3820_0000 and word & 0x0400_8000 == 0:
        return Access(word, size)
    if word & 0x3F20_FC00 == 0x3820_8000:
        return Access(word, size)  # SWP
    if word & 0x3F00_0000 != 0x0800_0000:
        return None
    if word & 0x00A0_0000 == 0:
        return Access(word, size, exclusive=True)
    if word & 0x00A0_0000 == 0x00A0_0000:
        return Access(word, size, compares=True)
    if word & 0x00A0_0000 == 0x0020_0000 and word >> 30 & 1 == 0:
        exclusive = bool(word >> 31)
        return Access(word, 8, pair=True, exclusive=exclusive, compares=not exclusive)
    return None


@lru_cache(maxsize=1)
def _monitor() -> int:
    """Where the engine's saved state holds the exclusive monitor: its address, and two values.

    Raises RuntimeError if it is nowhere.
    """
    uc = new_engine(TO_FIND_OUT)
    engine = Engine(uc)
    uc.mem_map(0x1_0000, 0x1000)
    uc.mem_write(0x1_0000, struct.pack("<I", _LDXP))
    uc.mem_write(0x1_0FE0, struct.pack("<2Q", *_PAIR))
    engine.put(int(regs.UC_ARM64_REG_X0), 0x1_0FE0)
    uc.emu_start(0x1_0000, 0x1_0004)
    found = bytes(uc.context_save()).find(struct.pack("<3Q", 0x1_0FE0, *_PAIR))
    if found < 0:
        raise RuntimeError("this build of the Unicorn engine does not show its exclusive monitor")
    return found


class Unaligned:
    """Carries out such operations on one PE."""

    def __init__(self, cpu: UnicornCPU, alignment: Alignment) -> None:
        self._cpu = cpu
        self._alignment = alignment

    def find(self, exception: EngineException) -> Access | None:
        """The operation at the PC, if the engine's Alignment fault for it is not to be taken."""
        cpu, syndrome = self._cpu, exception.record.syndrome
        address = exception.record.vaddress
        if Feature.FEAT_LSE2 not in cpu.features or syndrome is None or address is None:
            return None
        if syndrome.ec not in _DATA_ABORTS or syndrome.iss & _FSC != Fault.Alignment.value:
            return None
        words = cpu.virtual.code(cpu.pc, 1)
        access = access_of(words[0]) if words else None
        if access is None or sctlr(cpu).A or not is_within_quantity(address, access.size):
            return None
        write = not (access.exclusive and access.loads)
        refused = self._alignment.refused_by_device(address, write=write)
        return access if refused is None else None

    def carry_out(self, access: Access, address: int, execute: Callable[[int], bool]) -> bool:
        """Carry it out, and go on to the next operation. True if it raised an exception.

        ``execute`` has the engine execute the word that it is given in place of the operation at
        the PC, and says whether that raised an exception.
        """
        engine, word = self._cpu.engine, access.word
        base, s = word >> 5 & 31, word >> 16 & 31
        rest = (access.size.bit_length() - 1) << 30 | base << 5
        scratch = 1 if base == 0 else 0
        kept = engine.x(scratch)
        values = tuple(engine.x(n) for n in (s, s + 1 & 31, word & 31, word + 1 & 31))
        second = engine.x(word >> 10 & 31)
        raised = execute(rest | _LDR | scratch)
        old = engine.x(scratch)
        engine.set_x(scratch, kept)
        if raised:
            return True
        if access.exclusive:
            if access.loads:
                self._load_exclusive(access, address, old)
                return False
            stored = self._joined(access, values[2], second)
            if old != self._watched():
                engine.set_x(s, 1)
                self._write_monitor(_NOWHERE, 0)
                return False
        elif access.compares:
            compared = self._joined(access, values[0], values[1])
            stored = self._joined(access, values[2], values[3]) if compared == old else old
        else:
            operand = values[0] & (1 << 8 * access.size) - 1
            swaps = word >> 15 & 1
            stored = operand if swaps else _ARITHMETIC[word >> 12 & 7](old, operand, access.size)
        self._cpu.pc = self._cpu.pc - 4 & _MASK
        engine.set_x(scratch, stored & _MASK)
        raised = execute(rest | _STR | scratch)
        engine.set_x(scratch, kept)
        if raised:
            return True
        if access.exclusive:
            engine.set_x(s, 0)
            self._write_monitor(_NOWHERE, 0)
        elif access.compares:
            self._give(access, (s, s + 1 & 31), old)
        else:
            engine.set_x(word & 31, old)
        return False

    def _load_exclusive(self, access: Access, address: int, value: int) -> None:
        self._write_monitor(address, value)
        self._give(access, (access.word & 31, access.word >> 10 & 31), value)

    def _joined(self, access: Access, first: int, second: int) -> int:
        """What is stored of one register, or of two."""
        if not access.pair:
            return first & (1 << 8 * access.size) - 1
        low, high = (second, first) if self._big_endian else (first, second)
        return low & 0xFFFF_FFFF | (high & 0xFFFF_FFFF) << 32

    def _give(self, access: Access, numbers: tuple[int, int], value: int) -> None:
        """Write one register, or two."""
        engine = self._cpu.engine
        if not access.pair:
            engine.set_x(numbers[0], value)
            return
        first, second = reversed(numbers) if self._big_endian else numbers
        engine.set_x(first, value & 0xFFFF_FFFF)
        engine.set_x(second, value >> 32)

    @property
    def _big_endian(self) -> bool:
        controls = sctlr(self._cpu)
        return bool(controls.E0E if self._cpu.el == EL0 else controls.EE)

    def _watched(self) -> int:
        """The value that the last load-exclusive gave."""
        at = _monitor() + 8
        return int.from_bytes(bytes(self._cpu.engine.uc.context_save())[at : at + 8], "little")

    def _write_monitor(self, address: int, value: int) -> None:
        uc = self._cpu.engine.uc
        context = uc.context_save()
        data = struct.pack("<2q", signed(address), signed(value))
        ctypes.memmove(context.context.value + _monitor(), data, len(data))
        uc.context_restore(context)
