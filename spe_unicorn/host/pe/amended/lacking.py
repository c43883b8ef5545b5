"""Instructions that the engine lacks and the core has: Python carries them out at the stop.

What each does is in ``spe_unicorn.instructions``. Compiled code does the same within a run of the
engine (``host.native.exceptions.lacking``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from unicorn import arm64_const as regs

from spe_unicorn.arch.access.tlb import PLACES, known_places
from spe_unicorn.arch.exceptions.routing import Routed, fp_access_trap, sve_access_trap
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import GCR_EL1, RGSR_EL1
from spe_unicorn.arch.rules.effective import sctlr
from spe_unicorn.bits import signed
from spe_unicorn.host.engine.engine import FPCR, FPSR
from spe_unicorn.host.engine.memory import RamMemory
from spe_unicorn.host.native.exceptions.lacking_record import (
    LACKING,
    LITTLE,
    NO_ROW,
    TAG_PAGE_WORDS,
    TAG_PAGES,
    TAGGED,
)
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.vectors import offsets, vector_bits
from spe_unicorn.instructions import at_stops, copying
from spe_unicorn.instructions.carry import carry_out
from spe_unicorn.instructions.decoder import NUMBER, ROWS, TABLE, find
from spe_unicorn.instructions.features import needs_met
from spe_unicorn.instructions.registers import REGISTERS, SCRATCH_ROWS, VECTOR_WORDS
from spe_unicorn.instructions.rows import Row, Uses
from spe_unicorn.instructions.sve2 import quadwords
from spe_unicorn.instructions.sve2.p1 import quadword_access
from spe_unicorn.instructions.table import NONE

_NZCV: Final = int(regs.UC_ARM64_REG_NZCV)
_MASK: Final = (1 << 64) - 1
_PAGE: Final = 4096


class _RecordCell:
    """The cell of a System register that instructions of this room read and write."""

    STATE = ("value",)
    __slots__ = ("_name", "_record")

    def __init__(self, record: np.ndarray[Any, Any], name: str) -> None:
        self._record = record
        self._name = name

    @property
    def value(self) -> int:
        """The raw 64-bit value."""
        return int(self._record[self._name][0])

    @value.setter
    def value(self, value: int) -> None:
        self._record[self._name] = signed(value)

    def get(self) -> int:
        """The raw 64-bit value."""
        return self.value & _MASK

    def set(self, value: int) -> None:
        """Store the raw 64-bit value."""
        self.value = value


_OF_TAGS: Final[dict[str, type[SysReg]]] = {"gcr": GCR_EL1, "rgsr": RGSR_EL1}
"""System registers that are kept in the record, by field."""


class Lacking:
    """Carries out instructions on the registers of one PE's engine."""

    def __init__(self, cpu: UnicornCPU) -> None:
        self._cpu = cpu
        self._has = int(needs_met(cpu.features))
        self._registers = np.zeros(1, REGISTERS)
        self._scratch = np.zeros((SCRATCH_ROWS, VECTOR_WORDS), np.int64)
        self._registers["scratch"] = self._scratch.ctypes.data
        for name, register in _OF_TAGS.items():
            if register in cpu.registers:
                cpu.registers.add(register, _RecordCell(self._registers, name))
        self._hooks_record = np.zeros(1, LACKING)
        self._hooks_record["row_end"] = NO_ROW
        self._pages = np.zeros((TAG_PAGES, TAG_PAGE_WORDS), np.int64)
        self._pages[:, 1] = -1  # no epoch
        self._maintenance = np.zeros(PLACES, np.uint8)
        for place, known in known_places(cpu.features).items():
            self._maintenance[place] = known
        self.by_hooks = False
        """Whether compiled code is to carry them out, too, once it is known that there are any."""

    def set_row_end(self, address: int | None) -> None:
        """Say where the run ends that begins now, if several may be carried out in a row in it.

        None: somebody has to see the blocks between them, or the engine halts elsewhere, too.
        """
        self._hooks_record["row_end"] = NO_ROW if address is None else signed(address)

    def find(self, word: int) -> Row | None:
        """The row of an instruction word; None if the core has none, or the engine has it."""
        place = find(TABLE, word, self._has)
        if place == NONE:
            return None
        row = ROWS[TABLE[place + NUMBER]]
        rooms = (at_stops, copying, quadwords, quadword_access)
        return None if any(room.is_undefined(row, word) for room in rooms) else row

    def trap(self, row: Row) -> Routed | None:
        """The trap of such an instruction at the PE's Exception level."""
        if row.uses & Uses.GENERAL:
            return None
        return sve_access_trap(self._cpu) if row.sve else fp_access_trap(self._cpu)

    @contextmanager
    def replaced(self, word: int, other: int) -> Iterator[None]:
        """For as long as this holds, there is at the PC another word than the guest's."""
        cpu = self._cpu
        pc = cpu.pc
        cpu.virtual.put_code(pc, other)
        cpu.engine.forget_code(pc, pc + 4)
        try:
            yield
        finally:
            cpu.engine.forget_code(pc, pc + 4)
            cpu.virtual.put_code(pc, word)

    def carry_out(self, row: Row, word: int) -> None:
        """Carry out ``word``, the operation at the PC, and go on to the next one."""
        cpu = self._cpu
        engine, uc, registers = cpu.engine, cpu.engine.uc, self._registers
        places = offsets()
        saved = uc.context_save()
        begin = saved.context.value
        registers["z"] = begin + places.vectors
        registers["p"] = begin + places.predicates
        registers["x"] = begin + places.general
        registers["bytes"] = vector_bits(cpu) >> 3
        registers["nzcv"] = engine.get(_NZCV)
        registers["fpcr"], registers["fpsr"] = engine.get(FPCR), engine.get(FPSR)
        registers["tags"] = cpu.state.tag_access >> cpu.el & 1
        carry_out(registers.ctypes.data, word, row.unit, row.form, row.kind)
        uc.context_restore(saved)
        if row.uses & Uses.FP:
            engine.put(FPSR, int(registers["fpsr"][0]))
        if row.uses & Uses.FLAGS:
            engine.put(_NZCV, int(registers["nzcv"][0]))
        cpu.pc = cpu.pc + 4 & _MASK
        self.tell_hooks()

    def know_page(self, address: int, *, tagged: bool) -> None:
        """Tell compiled code whether the page of a virtual address is Tagged, as things are now.

        The page is known by its address without a tag.
        """
        state, order = self._cpu.state, sctlr(self._cpu)
        page = (signed(address << 8 & _MASK) >> 8) & -_PAGE
        like = TAGGED * tagged | LITTLE * (not order.EE and not order.E0E)
        row = (page, int(state.epoch), int(state.writes), like)
        self._pages[page // _PAGE % TAG_PAGES] = row

    def tell_hooks(self) -> None:
        """There are such instructions: have compiled code carry them out from now on, if it may."""
        if not self.by_hooks or self._cpu.state.lacking:
            return
        record, places = self._hooks_record, offsets()
        record["accesses"] = self._cpu.whole and self._cpu.secure_memory is None
        record["pages"] = self._pages.ctypes.data
        record["masks"] = self._cpu.state.restored_by_host
        record["maintenance"] = self._maintenance.ctypes.data
        record["barriers"] = Feature.FEAT_XS in self._cpu.features
        record["carry"] = carry_out.address
        record["table"] = TABLE.ctypes.data
        record["has"] = self._has
        record["registers"] = self._registers.ctypes.data
        record["z"], record["p"] = places.vectors, places.predicates
        record["x"], record["zcr"] = places.general, places.lengths
        record["sctlr"] = places.system_controls
        memory, begin = self._cpu.memory, int(self._cpu.state.ram_begin)
        if isinstance(memory, RamMemory):
            record["ram"] = memory.host_address(begin, 1) or 0
        for name, place in zip(
            ("cpacr", "cptr_el2", "cptr_el3", "hcr"), places.controls, strict=True
        ):
            record[name] = place
        self._cpu.state.lacking = record.ctypes.data
