"""The engine's own state, without the binding's overhead and with its quirks covered.

Reading one register costs 1.1 µs through the Python binding. Through ``ctypes``, with storage made
beforehand, it costs a third of that, and a sample needs several. Every call here is public C API.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NoReturn

from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc, UcError
from unicorn import arm64_const as regs
from unicorn import unicorn_const as uc_const
from unicorn.arm64_const import UC_CPU_ARM64_MAX
from unicorn.unicorn_const import UC_ERR_OK
from unicorn.unicorn_py3.arch.arm64 import UcRegCP64
from unicorn.unicorn_py3.unicorn import uclib

from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.host.engine.surviving import ABORTED, MOST_ABORTS, SurvivingStart
from spe_unicorn.signals import Signal

_LAST: Final = (1 << 64) - 1
"""The last virtual address."""
NEVER: Final = _LAST
"""An ``until`` that no guest reaches: it is not a multiple of 4."""

X: Final[tuple[int, ...]] = (
    *(regs.UC_ARM64_REG_X0 + n for n in range(29)),
    regs.UC_ARM64_REG_X29,
    regs.UC_ARM64_REG_X30,
)
"""Engine numbers of X0 to X30."""
PC: Final[int] = regs.UC_ARM64_REG_PC
SP: Final[int] = regs.UC_ARM64_REG_SP
PSTATE: Final[int] = regs.UC_ARM64_REG_PSTATE
NZCV: Final[int] = regs.UC_ARM64_REG_NZCV
FPSR: Final[int] = regs.UC_ARM64_REG_FPSR
FPCR: Final[int] = regs.UC_ARM64_REG_FPCR
SP_EL: Final[tuple[int, ...]] = (
    regs.UC_ARM64_REG_SP_EL0,
    regs.UC_ARM64_REG_SP_EL1,
    regs.UC_ARM64_REG_SP_EL2,
    regs.UC_ARM64_REG_SP_EL3,
)

_HCR_EL2: Final = Encoding(3, 4, 1, 1, 0)

lib: Final = uclib


def address_of(function: str) -> int:
    """Where a C function of the engine lies, for calls from compiled hooks."""
    return ctypes.cast(getattr(lib, function), ctypes.c_void_p).value or 0


_TRANSLATIONS: Final = 1 << 30
"""Bytes of translated code at most, of all engines of a machine together."""
_MOST_TRANSLATIONS: Final = 1 << 28
"""Bytes of translated code at most, of one engine. When they are full, the engine drops all of it.

Code that overwrites itself is translated anew each time, so it takes all of this memory. Debian's
kernel takes 26 MiB up to its first process.
"""
TO_FIND_OUT: Final = 256
"""``new_engine(TO_FIND_OUT)`` is for some instructions, by which something is found out.

What others reserve has to have room for the stubs beside it (``near_memory``).
"""


_PAGE: Final = 4096
"""Bytes of a page of the engine, of which its TLB has an entry each: A64 has no smaller ones.

By itself the engine has pages of 1024 bytes, as Armv5 had: four times as many entries for the same
memory, and four times as many places at which blocks end.
"""


def new_engine(among: int = 1) -> Uc:
    """Make an engine of the MAX model, the only one that has EL2, EL3 and the later features.

    ``among`` is the number of engines that share memory for translated code.
    """
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_page_size(_PAGE)
    uc.ctl_set_cpu_model(UC_CPU_ARM64_MAX)
    uc.ctl_set_tcg_buffer_size(min(_TRANSLATIONS // among, _MOST_TRANSLATIONS))
    return uc


class EngineGoneError(RuntimeError):
    """An engine is asked for something after it has been closed."""


class _Gone:
    """Stands for the C handle of a closed engine: no function of the engine takes it."""

    def _refuse(self) -> NoReturn:
        raise EngineGoneError("the engine is closed: nobody held its machine any more")

    _as_parameter_ = value = property(_refuse)


class Engine:
    """One ``Uc``: registers, execution and maintenance."""

    WIRING = ("uc", "handle")
    TRANSIT = ("aborts", "halts", "system_stores")

    def __init__(self, uc: Uc) -> None:
        self.uc = uc
        self.handle: Any = uc._uch  # the binding offers no public name for the C handle
        self._uc = weakref.ref(uc)
        self.page_bits: Final = uc.ctl_get_page_size().bit_length() - 1
        """Bits of an address within a page of the engine's TLB."""
        self._u64 = ctypes.c_uint64()
        self._u64_at = ctypes.byref(self._u64)
        self._cp = UcRegCP64()
        self._cp_at = ctypes.byref(self._cp)
        self._many = (ctypes.c_uint64 * 33)()
        numbers = (*X, SP, NZCV)
        self._many_ids = (ctypes.c_int32 * 33)(*numbers)
        stride = ctypes.sizeof(ctypes.c_uint64)
        first = ctypes.addressof(self._many)
        self._many_at = (ctypes.c_void_p * 33)(*(first + stride * n for n in range(33)))
        self._many_count = len(numbers)
        self._read = lib.uc_reg_read
        self._write = lib.uc_reg_write
        self._start = SurvivingStart(lib.uc_emu_start)
        self.code_forgotten: Signal[[]] = Signal()
        """Told when all translations have been dropped."""
        self.at_rest: Signal[[]] = Signal()
        """Told when a run has ended."""
        self.system_stores = 0
        """How often :meth:`set_system` has been called."""
        self.aborts = 0
        """How often a failed assertion of the engine ended a run."""
        self.halts: frozenset[int] = frozenset()
        """Addresses, besides ``until``, before which a run ends: see :meth:`halt_at`."""

    def lend(self) -> Uc:
        """Hold the ``Uc`` weakly from now on: it is closed when what is returned is no longer held.

        The objects of a machine refer to each other in circles, which only Python's garbage
        collector takes apart, some time. It does not know how much memory an engine has.
        """
        uc = self._uc()
        if uc is None:
            raise EngineGoneError("the engine is closed already")
        self.uc = weakref.proxy(uc, self._is_gone)
        return uc

    def _is_gone(self, _: object) -> None:
        self.handle = _Gone()

    def get(self, register: int) -> int:
        """The 64-bit value of an engine register."""
        self._u64.value = 0
        self._read(self.handle, register, self._u64_at)
        return self._u64.value

    def put(self, register: int, value: int) -> None:
        """Set an engine register to a 64-bit value."""
        self._u64.value = value
        self._write(self.handle, register, self._u64_at)

    def general(self) -> list[int]:
        """X0 to X30, then SP, then NZCV: 33 values in one call."""
        lib.uc_reg_read_batch(self.handle, self._many_ids, self._many_at, self._many_count)
        return list(self._many)

    def x(self, number: int) -> int:
        """X0 to X30 by number; 31 is XZR."""
        return 0 if number == 31 else self.get(X[number])

    def set_x(self, number: int, value: int) -> None:
        """Write X0 to X30 by number; 31 is XZR and ignores it."""
        if number != 31:
            self.put(X[number], value)

    def vector(self, number: int) -> int:
        """The 128 bits of V0 to V31 by number: of an SVE register the low ones."""
        return int(self.uc.reg_read(regs.UC_ARM64_REG_Q0 + number))

    def set_vector(self, number: int, value: int) -> None:
        """Write the 128 bits of V0 to V31 by number."""
        self.uc.reg_write(regs.UC_ARM64_REG_Q0 + number, value)

    def _named(self, encoding: Encoding) -> UcRegCP64:
        """The room for the value of a System register, which it names as the engine does."""
        cp = self._cp
        cp.op0 = encoding.op0
        cp.op1 = encoding.op1
        cp.op2 = encoding.op2
        cp.crn, cp.crm = encoding.crn, encoding.crm
        return cp

    def system(self, encoding: Encoding) -> int:
        """A System register that the engine has, as it is stored.

        Raises UcError for one that it does not have.
        """
        cp = self._named(encoding)
        status = self._read(self.handle, regs.UC_ARM64_REG_CP_REG, self._cp_at)
        if status != UC_ERR_OK:
            raise UcError(status)
        return int(cp.val)

    def set_system(self, encoding: Encoding, value: int) -> None:
        """Store a System register that the engine has.

        A store to any of them also makes the engine rebuild what it caches of the PE's state
        (Exception level, translation regime), which a write of only PSTATE does not.
        """
        self.system_stores += 1
        cp = self._named(encoding)
        cp.val = value
        status = self._write(self.handle, regs.UC_ARM64_REG_CP_REG, self._cp_at)
        if status != UC_ERR_OK:
            raise UcError(status)

    def rebuild(self) -> None:
        """Make the engine notice that PSTATE was written from outside."""
        self.set_system(_HCR_EL2, self.system(_HCR_EL2))

    def flush_tlb(self) -> None:
        """Forget cached translations, after a raw write to a register that steers them."""
        self.uc.ctl(uc_const.UC_CTL_TLB_FLUSH, uc_const.UC_CTL_IO_WRITE)

    def run(self, begin: int, until: int = NEVER) -> int:
        """Execute from ``begin`` until a stop; the engine's error number, 0 for none.

        The number is :data:`~spe_unicorn.host.engine.surviving.ABORTED` where an assertion of the
        engine failed. The PC is then at a block that the engine could not translate.
        """
        return self._run(begin, until, 0)

    def run_by(
        self, runs: Callable[..., int], user: int, begin: int, until: int, *more: int
    ) -> int:
        """As :meth:`run`, by compiled code that may run the engine several times.

        ``runs(engine, user, start, buffer, begin, until, *more)`` is called; ``start`` is the
        address of ``uc_emu_start``, whose arguments ``buffer`` precedes unless it is 0.
        """
        if self.halts:
            self._set_exits(until)
        start = self._start
        status = runs(self.handle.value, user, start.address, start.buffer, begin, until, *more)
        return self.ended(status)

    @property
    def started_by(self) -> tuple[int, int, int]:
        """What compiled code starts this engine by: ``engine``, ``start`` and ``buffer``."""
        return self.handle.value, self._start.address, self._start.buffer

    def ended(self, status: int) -> int:
        """A run by compiled code has ended with ``status``, which is returned."""
        if self.at_rest:
            self.at_rest()
        return status if status != ABORTED else self._ended(self._start.ended(status))

    def _run(self, begin: int, until: int, count: int) -> int:
        if self.halts:
            self._set_exits(until)
        status = self._start(self.handle, begin, until, 0, count)
        if self.at_rest:
            self.at_rest()
        return self._ended(status)

    def _set_exits(self, until: int) -> None:
        self.uc.ctl_set_exits([until, *self.halts])

    def _ended(self, status: int) -> int:
        if status == ABORTED:
            self.aborts += 1
        return status

    @property
    def exhausted(self) -> bool:
        """Whether one more failed assertion would end the process."""
        return self.aborts >= MOST_ABORTS

    def halt_at(self, addresses: Collection[int]) -> None:
        """Have runs end before these virtual addresses, in place of those given before.

        The engine does not translate what is there. As with ``until``, it ends the run by executing
        a WFI of its own. That WFI never ends while HCR_EL2.VI or VF is set in the engine.
        """
        if bool(addresses) != bool(self.halts):
            self.uc.ctl_exits_enabled(bool(addresses))
        self.halts = frozenset(addresses)

    def step(self, begin: int) -> int:
        """Execute one operation at ``begin``, and return as :meth:`run` does.

        The run can also fail because of the block after it. It executes exactly one operation only
        if nothing but steps has run on this engine.
        """
        return self._run(begin, NEVER, 1)

    def error(self, status: int) -> str:
        """The engine's sentence for one of its error numbers."""
        return str(UcError(status))

    def forget_code(self, begin: int, end: int) -> None:
        """Drop the translations of code in ``[begin, end)``, virtual addresses up to 2^64.

        Python forgets code only by this method and :meth:`forget_all_code`. Whoever adds or
        removes a hook, a mark or a breakpoint calls one of them.
        """
        # the engine takes no end beyond the last address, and each translation is of whole words
        self.uc.ctl_remove_cache(begin, min(end, _LAST))

    def forget_all_code(self) -> None:
        """Drop all translations."""
        self.uc.ctl_flush_tb()
        self.code_forgotten()


class SystemRegisters:
    """Reads several System registers of an engine in one call."""

    def __init__(self, engine: Engine, encodings: Sequence[Encoding]) -> None:
        count = len(encodings)
        self._engine = engine
        self._rows = (UcRegCP64 * count)()
        for row, encoding in zip(self._rows, encodings, strict=True):
            for field in ("crn", "crm", "op0", "op1", "op2"):
                setattr(row, field, getattr(encoding, field))
        self._count = count
        self._ids = (ctypes.c_int32 * count)(*[regs.UC_ARM64_REG_CP_REG] * count)
        self._at = (ctypes.c_void_p * count)(*map(ctypes.addressof, self._rows))

    def read(self) -> list[int]:
        """Their values as they are stored, in the order of the encodings."""
        lib.uc_reg_read_batch(self._engine.handle, self._ids, self._at, self._count)
        return [row.val for row in self._rows]
