"""The trace of translation: faults with the walk that led there, TLB maintenance, AT, registers."""

from __future__ import annotations

from typing import Final, Literal

from spe_unicorn.arch.access.syndrome_text import entry_text, fault_status_text
from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord
from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.memory.address_translation import AT_OPERATIONS
from spe_unicorn.arch.memory.descriptors import (
    AccessDescriptor,
    AddressDescriptor,
    FaultRecord,
    acc_desc_gpr,
    acc_desc_ifetch,
)
from spe_unicorn.arch.memory.regimes import context_at
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.ports import PhysicalMemory
from spe_unicorn.arch.registers.spe import EventClass
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.debug.tracing.accesses import Access, AccessWatch, Registers
from spe_unicorn.debug.tracing.tracer import Tracer
from spe_unicorn.debug.verdicts import changes
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.host.native.state.actions import SYSTEM, WRITE
from spe_unicorn.spe.management import ManagementEvent
from spe_unicorn.spe.unit import StatisticalProfilingUnit

_TRANSLATION_FAULTS: Final = 0x10
"""Fault status codes below this: address size, translation, access flag and permission faults."""
_BUFFER_FAULTS: Final = {
    EventClass.STAGE1_ABORT: "stage 1",
    EventClass.STAGE2_ABORT: "stage 2",
}
"""The management events that are faults."""
_TLBI_CRN: Final = (8, 9)
_FETCHES: Final = frozenset({EC.InstructionAbort, EC.InstructionAbort + 1})
_DATA: Final = frozenset({EC.DataAbort, EC.DataAbort + 1})
_REGISTERS: Final = frozenset(
    f"{name}_EL{el}"
    for name, levels in {
        "TTBR0": "123",
        "TTBR1": "12",
        "TCR": "123",
        "MAIR": "123",
        "SCTLR": "123",
        "VTTBR": "2",
        "VSTTBR": "2",
        "VTCR": "2",
        "VSTCR": "2",
        "HCR": "2",
        "SCR": "3",
    }.items()
    for el in levels
)
"""The registers whose writes become lines."""
_PAR_F: Final = 1
_PAR_EL1: Final = Encoding(3, 0, 7, 4, 0)
_ADDRESS: Final = ((1 << 52) - 1) & ~0xFFF


class _SeenMemory:
    """Physical memory that notes reads and takes no writes."""

    def __init__(self, memory: PhysicalMemory) -> None:
        self._memory = memory
        self.seen: list[tuple[int, int]] = []
        """The addresses and values of descriptors that were read."""

    def read(self, address: int, size: int, space: PASpace = PASpace.Secure) -> bytes | None:
        """Bytes, None where there is no memory."""
        data = self._memory.read(address, size, space)
        if data is not None:
            self.seen.append((address, int.from_bytes(data, "little")))
        return data

    def write(self, address: int, data: bytes, space: PASpace = PASpace.Secure) -> bool:
        """Pretend to update a descriptor: this walk is for the trace alone."""
        return True


def trace_mmu(to: Tracer) -> None:
    """Faults of translation, TLBI and AT, and writes of the registers that steer translation.

    Faults of the Profiling Buffer are among them: their walk is that of the buffer's owner.
    """
    pe, unit = to.pe, to.pe.unit
    registers = Registers(pe)

    def walk(address: int, access: AccessDescriptor) -> tuple[str, list[dict[str, str]]]:
        """The walk to an address by the present registers, in words and as data."""
        memory = _SeenMemory(pe.cpu.memory)
        context = context_at(pe.cpu, pe.cpu.el)
        return _told(full_translate(context, address, access, memory), memory)

    def on_exception(record: ExceptionRecord, entry: ExceptionEntry) -> None:
        syndrome = record.syndrome
        if syndrome is None or syndrome.ec not in _FETCHES | _DATA:
            return
        el = entry.spsr >> 2 & 3
        if syndrome.iss & 0x3F >= _TRANSLATION_FAULTS or not to.wants(entry.elr, el):
            return
        address = entry.elr if record.vaddress is None else record.vaddress
        write = syndrome.ec in _DATA and bool(syndrome.iss >> 6 & 1)
        access = acc_desc_gpr(el, read=not write, write=write)
        if syndrome.ec in _FETCHES:
            access = acc_desc_ifetch(el)
        text, steps = walk(address, access)
        what = entry_text(record, entry)
        data = {"what": "fault", "fault": what, "address": hex(address), "walk": steps}
        to.tell("mmu", f"{to.place(entry.elr)} EL{el} fault {what}: {text}", data, entry.elr, el)

    def on_access(access: Access) -> None:
        pc, el = access.pc, access.el
        if to.board.inputs.replaying or not to.wants(pc, el):
            return
        where = f"{to.place(pc)} EL{el} "
        said = disassemble(access.word, pc)
        data: dict[str, object] = {"instruction": said, "value": hex(access.value)}
        if access.raised:
            to.tell("mmu", f"{where}{said}: raised an exception", data | _what("raised"), pc, el)
        elif access.kind == WRITE:
            register = registers.reached(access.key)
            name = said if register is None else register.__name__
            changed = _changed(register, access.old, registers.held(access.key), pe.cpu.features)
            data |= {"what": "register", "register": name}
            to.tell("mmu", f"{where}MSR {name}, {access.value:#x}{changed}", data, pc, el)
        elif access.key >> 7 & 0xF in _TLBI_CRN:
            told = _maintained(said, access.value)
            to.tell("mmu", f"{where}{said}{told}", data | _what("TLB maintenance"), pc, el)
        else:
            par = pe.cpu.engine.system(_PAR_EL1)
            result = f"fault, PAR_EL1 {par:#x}" if par & _PAR_F else f"{par & _ADDRESS:#x}"
            data |= {"what": "AT", "address": hex(access.value), "par": hex(par)}
            to.tell("mmu", f"{where}{said}: {access.value:#x} is {result}", data, pc, el)

    mine = [r for r in (*pe.cpu.registers,) if r.__name__ in _REGISTERS]
    system = {(WRITE, key) for register in mine for key in registers.keys(register)}
    system |= {
        (SYSTEM, Encoding(1, op1, crn, crm, op2).key)
        for crn in _TLBI_CRN
        for op1 in range(8)
        for crm in range(16)
        for op2 in range(8)
    }
    system |= {(SYSTEM, Encoding(1, op1, 7, crm, op2).key) for op1, crm, op2 in AT_OPERATIONS}
    watch = AccessWatch(pe, system, on_access, lambda _kind, key: registers.held(key))
    to.ends.callback(pe.handler.controls.checks.observe(watch))
    to.ends.callback(pe.cpu.exception_taken.connect(on_exception))
    if isinstance(unit, StatisticalProfilingUnit):
        _trace_buffer(to, unit)


def _trace_buffer(to: Tracer, unit: StatisticalProfilingUnit) -> None:
    """Faults of writes to the Profiling Buffer."""
    pe = to.pe

    def on_management(event: ManagementEvent, _el: int) -> None:
        pc, el = pe.cpu.pc, pe.cpu.el
        if event.EC not in _BUFFER_FAULTS or not to.wants(pc, el):
            return
        memory = _SeenMemory(pe.cpu.memory)
        text, steps = _told(unit.translated(event.address, memory), memory)
        what = (
            f"of the Profiling Buffer, {_BUFFER_FAULTS[event.EC]} {fault_status_text(event.status)}"
        )
        data = {"what": "buffer fault", "fault": what, "address": hex(event.address), "walk": steps}
        where = f"{to.place(pc)} EL{el}"
        to.tell("mmu", f"{where} fault {what} at {event.address:#x}: {text}", data, pc, el)

    to.ends.callback(unit.managed.connect(on_management))


def _told(
    found: AddressDescriptor | FaultRecord, memory: _SeenMemory
) -> tuple[str, list[dict[str, str]]]:
    """What a walk came to, and the descriptors that it read: in words and as data."""
    words = [f"{place:#x}: {word:#018x}" for place, word in memory.seen]
    end = f"physical {found.paddress:#x}" if isinstance(found, AddressDescriptor) else "fault"
    text = f"walk {', '.join([*words, end])}" if words else f"no table is read, {end}"
    steps = [{"address": hex(place), "descriptor": hex(word)} for place, word in memory.seen]
    return text, steps


def _what(what: Literal["raised", "TLB maintenance"]) -> dict[str, object]:
    return {"what": what}


def _changed(
    register: type[SysReg] | None, old: int | None, new: int | None, features: object
) -> str:
    if register is None or old is None or new is None:
        return ""
    return f": {changes(register, old, new, features)}"


def _maintained(instruction: str, value: int) -> str:
    """The operand of a TLBI in words, by its fields if it names one page."""
    name, _, operand = instruction.removeprefix("tlbi ").partition(",")
    if not operand:
        return ""
    asid = f"ASID {value >> 48}"
    if name.startswith("asid"):
        return f": {asid}"
    if name.startswith(("va", "ipas")):
        bits = value & (1 << 44) - 1
        page = bits << 12
        if name.startswith("va") and page >> 55:
            page |= 0xFF << 56
        told = f": address {page:#x}"
        return told if name.startswith(("vaa", "vaal", "ipas")) else f"{told}, {asid}"
    return f": {value:#x}"
