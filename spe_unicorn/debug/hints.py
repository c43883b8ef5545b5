"""Hints: for each usual first crash a sentence about its likely cause.

:func:`hints` is a pure function of a :class:`Crash`, which :func:`crash_of` reads from a PE.
Options are named in backquotes, as in ``machine.options``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.exceptions.syndromes import EC, Syndrome
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.arch.registers.system import (
    CPACR_EL1,
    CPTR_EL2,
    CPTR_EL3,
    ELR_EL1,
    ELR_EL2,
    ELR_EL3,
    HCR_EL2,
)
from spe_unicorn.arch.rules.effective import security_state_at
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.cores.profile import Core
from spe_unicorn.debug.advice.lacking import unavailable
from spe_unicorn.debug.places import Place, place
from spe_unicorn.decode import decode
from spe_unicorn.host.engine.disassembly import disassemble
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.calls.psci import is_psci
from spe_unicorn.machine.memory_map import RAM_BASE, UART, wanting
from spe_unicorn.machine.pe import ProcessingElement

_PAGE: Final = 0x1000
_NEAR: Final = 64 << 10
"""Bytes below memory within which an access by SP is taken for a stack that ran over its end."""
_SP: Final = 31
_BLR, _ANY_BLR = 0xD63F_0000, 0xFFFF_FC1F
_MRS_OR_MSR, _ANY_MRS_MSR = 0xD510_0000, 0xFFD0_0000
"""The bits that all MRS and MSR of registers have in common, and the mask of those bits."""
_ELR: Final[dict[int, type[SysReg]]] = {EL1: ELR_EL1, EL2: ELR_EL2, EL3: ELR_EL3}
_UARTS: Final = {
    0x01C2_8000: "Allwinner A64 and H5",
    0x1000_0000: "QEMU's RISC-V virt",
    0x1000_9000: "Arm's Versatile Express A9",
    0x101F_1000: "Arm's Versatile PB",
    0x1C09_0000: "Arm's Versatile Express and FVP",
    0x1C0A_0000: "Arm's Versatile Express and FVP",
    0x2020_1000: "Raspberry Pi 1",
    0x2A40_0000: "Arm's N1SDP",
    0x3086_0000: "i.MX 8M",
    0x3089_0000: "i.MX 8M",
    0x3F20_1000: "Raspberry Pi 2 and 3",
    0x3F21_5000: "Raspberry Pi 2 and 3",
    0x6000_0000: "QEMU's sbsa-ref",
    0x7FF8_0000: "Arm's Juno",
    0xFE20_1000: "Raspberry Pi 4",
    0xFE21_5000: "Raspberry Pi 4",
    0xFF00_0000: "Zynq UltraScale+",
    0xFF01_0000: "Zynq UltraScale+",
    0xFF1A_0000: "RK3399",
}
"""Pages of the UARTs that firmware for other boards prints on."""


@dataclass(frozen=True)
class Crash:
    """An exception that may be why a guest cannot go on.

    It was taken from ``el`` to ``target_el``, and wrote ``esr``, ``far`` and ``elr``. ``word`` is
    the instruction at ``elr``, None where it cannot be read. ``x`` are X0 to X30 and SP as the
    exception found them, None where code has run since. ``physical`` is the physical address of a
    data abort, if nothing is there. ``controls`` are the fields that trap FP, SIMD and SVE, by
    name. ``conduit`` is how this start calls PSCI. ``memory`` are RAM and the image's segments:
    name, first address, end. ``caller`` is the BLR before the address in X30, if there is one.
    ``core`` is what the PE is.
    """

    el: int
    target_el: int
    esr: int
    far: int
    elr: int
    word: int | None
    x: tuple[int, ...] | None
    physical: int | None
    controls: dict[str, int]
    conduit: str | None
    memory: tuple[tuple[str, int, int], ...]
    caller: Place | None
    core: Core

    @property
    def syndrome(self) -> Syndrome:
        """ESR_ELx; the exception class is that of an exception from a lower level."""
        syndrome = Syndrome.of_esr(self.esr)
        if syndrome.ec - 1 in (EC.InstructionAbort, EC.DataAbort):
            return syndrome._replace(ec=syndrome.ec - 1)
        return syndrome

    @property
    def sp(self) -> int | None:
        """SP, if it is known and the operation accesses memory by it."""
        if self.x is None or self.word is None:
            return None
        access = decode(self.word).access
        by_sp = access is not None and access.base == _SP
        return self.x[_SP] if by_sp else None


def hints(crash: Crash) -> list[str]:
    """Sentences about what the crash may come from, the likeliest first."""
    ec = crash.syndrome.ec
    if ec in (EC.AdvSIMDFPAccessTrap, EC.SVEAccessTrap):
        return list(_trapped(crash))
    if ec in (EC.HypervisorCall, EC.MonitorCall):
        return [_call(crash)]
    if ec == EC.Uncategorized:
        return list(_undefined(crash))
    if ec == EC.InstructionAbort:
        return [_fetch(crash)]
    if ec == EC.DataAbort:
        return list(_access(crash))
    return []


def _trapped(crash: Crash) -> Iterator[str]:
    """FP, SIMD or SVE."""
    sve = crash.syndrome.ec == EC.SVEAccessTrap
    what = "SVE" if sve else "FP and SIMD"
    controls = crash.controls
    if crash.target_el == EL1 or (crash.target_el == EL2 and controls["HCR_EL2.E2H"]):
        field, bits = ("ZEN", "17:16") if sve else ("FPEN", "21:20")
        name = f"{'CPACR_EL1' if crash.target_el == EL1 else 'CPTR_EL2'}.{field}"
        levels = "EL0" if controls[name] == 1 else f"EL0 and EL{crash.target_el}"
        hint = f"{name} is {controls[name]}, which traps {what} at {levels}: write 3 to it"
        hint += f" (bits {bits}), then ISB"
        if not sve:
            hint += ". Compilers copy memory by SIMD registers, but for -mgeneral-regs-only"
        traps = controls[name] != 3
    else:
        where = "at EL2 and below" if crash.target_el == EL2 else "everywhere"
        field = ("TZ" if crash.target_el == EL2 else "EZ") if sve else "TFP"
        name = f"CPTR_EL{crash.target_el}.{field}"
        do = "set" if field == "EZ" else "clear"
        hint = f"{name} is {controls[name]}, which traps {what} {where}: {do} it, then ISB"
        traps = controls[name] != (field == "EZ")
    if traps:  # software may have switched the trap off since
        yield hint


_ANY_CALL: Final = 0xFFE0_001F
_SMC: Final = 0xD400_0003
_OTHER_CONDUIT: Final = (
    "a start at EL{} calls PSCI by {}, as its device tree says: start with `el` {} for {}"
)


def _call(crash: Crash) -> str:
    """An HVC or SMC that no firmware answered."""
    called_by = "HVC" if crash.syndrome.ec == EC.HypervisorCall else "SMC"
    if crash.conduit is None:
        return (
            f"this start begins at EL3, so whatever answers {called_by} is the guest's own: nobody"
            " provides PSCI. Start with `el` 1 or 2 for that"
        )
    if crash.x is not None and not is_psci(crash.x[0]):
        return f"{called_by} is the guest's own at this start; firmware answers SMC"
    return _OTHER_CONDUIT.format(EL2, "SMC", EL1, "HVC")


def _undefined(crash: Crash) -> Iterator[str]:
    """An instruction that does not exist here."""
    word = crash.word
    if word is not None and word & _ANY_CALL == _SMC and crash.conduit == "hvc":
        yield _OTHER_CONDUIT.format(EL1, "HVC", EL2, "SMC")
    said = None if word is None else unavailable(word, crash.core)
    if said is not None:
        yield said
    if word is None or word & _ANY_MRS_MSR != _MRS_OR_MSR:
        return
    owner = {4: EL2, 5: EL2, 6: EL3, 7: EL3}.get(word >> 16 & 7, 0)
    if crash.el < owner:
        yield (
            f"{disassemble(word, crash.elr)}: a register of EL{owner}, and this is EL{crash.el};"
            f" start with `el` {owner} for it"
        )


def _fetch(crash: Crash) -> str:
    """The PC leads nowhere."""
    by = f" by the call at {crash.caller}" if crash.caller is not None else ""
    if crash.elr < _PAGE:
        return f"the PC is {crash.elr:#x}{by}: a call or jump through a null pointer"
    if crash.x is not None and crash.elr == crash.x[30]:
        return (
            f"X30 holds the PC {crash.elr:#x}, where no code is: a return address that was"
            " overwritten or never set"
        )
    return f"the PC is {crash.elr:#x}{by}, where no code is: a wrong function pointer?"


def _access(crash: Crash) -> Iterator[str]:
    """A load or store that cannot be made."""
    if crash.sp is not None:
        yield from _stack(crash, crash.sp)
        return
    address = crash.far if crash.physical is None else crash.physical
    board = _UARTS.get(address & -_PAGE)
    if board is not None:
        yield f"{board} has a UART there; this machine's, a PL011, is at {UART.base:#x}"
    elif crash.physical is not None:
        yield wanting(crash.physical)
    elif crash.far < _PAGE:
        yield "a load or store through a null pointer"


def _stack(crash: Crash, sp: int) -> Iterator[str]:
    far = crash.far
    if not sp:
        yield "SP is 0: nothing has set the stack pointer; set it before the first call"
        return
    above = [(begin, name) for name, begin, _ in crash.memory if 0 < begin - far <= _NEAR]
    if above:
        begin, name = min(above)
        yield (
            f"SP is {sp:#x}, just below {name} at {begin:#x}: the stack ran over its end; give it"
            " more room, or look for a recursion without an end"
        )
    elif crash.physical is not None:
        name, begin, end = crash.memory[0]
        where = f"{name} is {begin:#x} to {end - 1:#x}"
        yield f"SP is {sp:#x}, and {where}: set SP to the top of a stack"


def is_ours(crash: Crash) -> bool:
    """Whether the exception goes to a level that is not the guest's, where it has no vectors."""
    return crash.target_el > {"hvc": EL1, "smc": EL2}.get(crash.conduit or "", EL3)


def crash_of(board: Board, pe: ProcessingElement) -> Crash | None:
    """The synchronous exception that ``pe`` has taken last; None if it came from elsewhere.

    It is why the PE is where it is if it could not be entered, or if the PE is in its handler.
    """
    cpu = pe.cpu
    taken = cpu.entries.last_exception
    if taken is None or taken.esr is None:
        return None
    undone = pe.handler.failure is not None and cpu.pc == taken.elr
    at_its_level = cpu.el == taken.target_el and cpu.registers.raw(_ELR[cpu.el]) == taken.elr
    if not undone and not at_its_level:
        return None
    words = cpu.virtual.code(taken.elr, 1)
    x = tuple(cpu.engine.general()[:32]) if undone else None
    far = taken.far or 0
    physical = None if taken.far is None else cpu.virtual.translate(far, write=False)
    if physical is not None:
        space = PASpace(security_state_at(cpu, cpu.el))
        if board.memory.read(physical, 1, space) is not None:
            physical = None
    return Crash(
        el=taken.from_el,
        target_el=taken.target_el,
        esr=taken.esr,
        far=far,
        elr=taken.elr,
        word=words[0] if words else None,
        x=x,
        physical=physical,
        controls=_controls(cpu.registers),
        conduit=board.firmware.conduit,
        memory=tuple(_memory(board)),
        caller=_caller(board, pe, x),
        core=board.core,
    )


def _controls(registers: RegisterFile) -> dict[str, int]:
    """The fields that trap FP, SIMD and SVE, by name; CPTR_EL2's by both of its layouts."""
    cpacr = registers.read(CPACR_EL1)
    result = {"CPACR_EL1.FPEN": cpacr.FPEN, "CPACR_EL1.ZEN": cpacr.ZEN, "HCR_EL2.E2H": 0}
    if CPTR_EL2 in registers:
        result["HCR_EL2.E2H"] = registers.read(HCR_EL2).E2H
        cptr = registers.raw(CPTR_EL2)
        result |= {"CPTR_EL2.FPEN": cptr >> 20 & 3, "CPTR_EL2.ZEN": cptr >> 16 & 3}
        result |= {"CPTR_EL2.TFP": cptr >> 10 & 1, "CPTR_EL2.TZ": cptr >> 8 & 1}
    if CPTR_EL3 in registers:
        el3 = registers.read(CPTR_EL3)
        result |= {"CPTR_EL3.TFP": el3.TFP, "CPTR_EL3.EZ": el3.EZ}
    return result


def _memory(board: Board) -> Iterator[tuple[str, int, int]]:
    yield "RAM", RAM_BASE, RAM_BASE + board.ram.size
    if board.image is not None:
        for segment in board.image.segments:
            yield "the image", segment.vaddr, segment.vaddr + segment.size
            yield "the image", segment.address, segment.end


def _caller(board: Board, pe: ProcessingElement, x: tuple[int, ...] | None) -> Place | None:
    if x is None:
        return None
    call = x[30] - 4
    words = pe.cpu.virtual.code(call, 1) if call >= 0 and call % 4 == 0 else None
    if not words or words[0] & _ANY_BLR != _BLR:
        return None
    return place(board, call)
