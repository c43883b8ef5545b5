"""Syndromes in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.access.verdicts import SysRegTable
from spe_unicorn.arch.exceptions.entry import ExceptionEntry, ExceptionRecord, ExceptionType
from spe_unicorn.arch.exceptions.syndromes import EC, Syndrome
from spe_unicorn.arch.memory.descriptors import Fault, FaultRecord
from spe_unicorn.arch.registers.sysreg import Encoding

_FAULTS: Final = {
    Fault.AddressSize: "address size fault",
    Fault.Translation: "translation fault",
    Fault.AccessFlag: "access flag fault",
    Fault.Permission: "permission fault",
    Fault.SyncExternal: "external abort",
    Fault.SyncExternalOnWalk: "external abort on a table walk",
    Fault.TagCheck: "tag check fault",
    Fault.Alignment: "alignment fault",
}
_ONE_CODE: Final = (Fault.SyncExternal, Fault.TagCheck, Fault.Alignment)
_BELOW_LEVEL_0: Final = (Fault.AddressSize, Fault.Translation, Fault.SyncExternalOnWalk)
_GPF_ON_WALK, _GPF = 0x24, 0x28
"""Granule protection faults: of a table walk at level 0, and of the access itself."""
_CALLS: Final = {
    EC.SupervisorCall: "SVC",
    EC.HypervisorCall: "HVC",
    EC.MonitorCall: "SMC",
    EC.SoftwareBreakpoint: "BRK",
}
_TABLE: Final = SysRegTable((*SPE_ACCESSORS, *STEERING_ACCESSORS))
_ABORTS: Final = (EC.InstructionAbort, EC.DataAbort)


def _fault_codes() -> Iterator[tuple[int, str]]:
    for fault, text in _FAULTS.items():
        if fault in _ONE_CODE:
            yield FaultRecord(fault, 0).fsc, text
        else:
            for level in range(-2 if fault in _BELOW_LEVEL_0 else 0, 4):
                yield FaultRecord(fault, level).fsc, f"{text}, level {level}"
    for level in range(-2, 4):
        yield _GPF_ON_WALK + level, f"granule protection fault on a table walk, level {level}"
    yield _GPF, "granule protection fault"


_FAULT_CODES: Final = dict(_fault_codes())


def fault_status_text(code: int) -> str:
    """A fault status code: DFSC, IFSC, PAR_EL1.FST or the FSC of PMBSR_ELx, six bits."""
    return _FAULT_CODES.get(code, f"fault status {code:#x}")


def syndrome_text(syndrome: Syndrome) -> str:
    """What ESR_ELx says, such as ``DataAbort (write, translation fault, level 1)``."""
    ec, iss = syndrome.ec, syndrome.iss
    if ec in _CALLS:
        return f"{_CALLS[EC(ec)]} #{iss & 0xFFFF:#x}"
    if ec - 1 in _ABORTS:  # taken without a change of Exception level
        ec -= 1
    name = EC(ec).name if ec in set(EC) else f"exception class {ec:#x}"
    if ec in _ABORTS:
        words = [fault_status_text(iss & 0x3F)]
        if ec == EC.DataAbort:
            words.insert(0, "write" if iss >> 6 & 1 else "read")
        return f"{name} ({', '.join(words)})"
    if ec == EC.SystemRegisterTrap:
        return f"{name} ({_access(iss)})"
    return name


def entry_text(record: ExceptionRecord, entry: ExceptionEntry) -> str:
    """An exception with the syndrome and the address that its entry leaves, if it leaves any."""
    return taken_text(record.kind, entry.esr, entry.far)


def taken_text(kind: ExceptionType, esr: int | None, far: int | None) -> str:
    """The same by the values that the entry wrote to ESR_ELx and FAR_ELx, None for nothing."""
    if esr is None:
        return kind.name
    text = f"{syndrome_text(Syndrome.of_esr(esr))} ESR {esr:#x}"
    return text if far is None else f"{text} FAR {far:#x}"


def _access(iss: int) -> str:
    """The MRS or MSR that an ISS describes, see ``Encoding.iss``."""
    encoding = Encoding(iss >> 20 & 3, iss >> 14 & 7, iss >> 10 & 15, iss >> 1 & 15, iss >> 17 & 7)
    accessor = _TABLE.get(encoding.key)
    name = str(encoding) if accessor is None else accessor.name
    rt = iss >> 5 & 31
    register = "XZR" if rt == 31 else f"X{rt}"
    return f"MRS {register}, {name}" if iss & 1 else f"MSR {name}, {register}"
