"""Self-hosted debug, as rules: which breakpoint or watchpoint matches, and whether that counts.

Functions bear the names of Arm's pseudocode (Arm ARM J1.1.1 and J1.3.1, D2.8 to D2.11). Where a
choice is CONSTRAINED UNPREDICTABLE, what is reserved is disabled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3, PE, SecurityState
from spe_unicorn.arch.registers.debug import (
    BREAKPOINTS,
    CONTEXTS,
    DBGBCR,
    DBGBCRS,
    DBGBVRS,
    DBGPRCR_EL1,
    DBGWCR,
    DBGWCRS,
    DBGWVRS,
    MDSCR_EL1,
    OSDLR_EL1,
    OSLSR_EL1,
    WATCHPOINTS,
)
from spe_unicorn.arch.registers.system import (
    CONTEXTIDR_EL1,
    CONTEXTIDR_EL2,
    HCR_EL2,
    MDCR_EL2,
    MDCR_EL3,
    SPSR,
    VTCR_EL2,
    VTTBR_EL2,
)
from spe_unicorn.arch.rules.effective import (
    el2_enabled,
    el2_enabled_in,
    el_is_in_host,
    have_el,
    security_state_at,
)

TOP: Final = 48
"""DebugAddrTop(): the highest bit of an address that is compared."""
_ADDRESS: Final = (1 << TOP + 1) - 1
_LOW: Final = (1 << 32) - 1


def locked(pe: PE) -> bool:
    """Whether the OS lock or the OS double lock keeps debug exceptions away, but for BRK."""
    registers = pe.registers
    if registers.read(OSLSR_EL1).OSLK or pe.halted:
        return True
    if not registers.raw(OSDLR_EL1):
        return False
    return Feature.FEAT_DoubleLock in pe.features and not registers.raw(DBGPRCR_EL1)


def debug_target(pe: PE, state: SecurityState) -> int:
    """DebugTargetFrom(): the Exception level that takes debug exceptions of a Security state."""
    if not el2_enabled_in(pe, state):
        return EL1
    routed = pe.registers.read(HCR_EL2).TGE or pe.registers.read(MDCR_EL2).TDE
    return EL2 if routed else EL1


def generate_debug_exceptions_from(pe: PE, el: int, *, mask: bool) -> bool:
    """AArch64.GenerateDebugExceptionsFrom(), in the Security state that ``el`` has now.

    ``mask`` is PSTATE.D there.
    """
    if locked(pe):
        return False
    state = security_state_at(pe, el)
    target = debug_target(pe, state)
    if have_el(pe, EL3) and state is SecurityState.SECURE and pe.registers.read(MDCR_EL3).SDD:
        return False
    if el == target:
        return bool(pe.registers.read(MDSCR_EL1).KDE) and not mask
    return target > el


def debug_exception_return_ss(pe: PE, pstate: SPSR, el: int, spsr: SPSR) -> bool:
    """DebugExceptionReturnSS(): PSTATE.SS after an ERET to ``el``."""
    if MDSCR_EL1 not in pe.registers or not pe.registers.read(MDSCR_EL1).SS or not spsr.SS:
        return False
    if generate_debug_exceptions_from(pe, pe.el, mask=bool(pstate.D)):
        return False
    return generate_debug_exceptions_from(pe, el, mask=bool(spsr.D))


def step_is_pending(pe: PE, pstate: SPSR) -> bool:
    """CheckSoftwareStep(): whether a Software Step exception comes before the next operation."""
    if MDSCR_EL1 not in pe.registers or not pe.registers.read(MDSCR_EL1).SS or pstate.SS:
        return False
    return generate_debug_exceptions_from(pe, pe.el, mask=bool(pstate.D))


def comparing(pe: PE) -> bool:
    """Whether breakpoints and watchpoints are looked at at all: MDSCR_EL1.MDE, no lock."""
    return bool(pe.registers.read(MDSCR_EL1).MDE) and not locked(pe)


# State matching


def _reserved(pe: PE, hmc: int, ssc: int, pxc: int) -> bool:
    """CheckValidStateMatch(): whether HMC, SSC and PMC or PAC are a reserved combination."""
    el2, el3 = have_el(pe, EL2), have_el(pe, EL3)
    secure_el2 = Feature.FEAT_SEL2 in pe.features
    combined = hmc << 4 | ssc << 2 | pxc
    if not hmc and ((ssc == 3 and pxc == 2) or (pxc == 0 and ssc != 3)):
        return True
    if hmc and ((ssc == 0 and not pxc & 1) or (ssc >= 1 and pxc == 2)):
        return True
    if not el3 and not el2 and (hmc or ssc):
        return True
    if not el3 and ssc in (1, 2) and combined != 0b10100:
        return True
    if not el2 and combined == 0b11100:
        return True
    reserved = combined in (0b01100, 0b10100) or (ssc == 3 and pxc & 1)
    return not secure_el2 and bool(reserved)


def state_match(pe: PE, el: int, control: DBGBCR | DBGWCR) -> bool:
    """AArch64.StateMatch() without links: whether accesses made as ``el`` makes them count."""
    hmc, ssc = control.HMC, control.SSC
    pxc = control.PMC if isinstance(control, DBGBCR) else control.PAC
    if _reserved(pe, hmc, ssc, pxc):
        return False
    if el == EL3:
        privilege = have_el(pe, EL3) and bool(hmc) and not ssc & 1
    elif el == EL2:
        hypervisor = (hmc and (ssc, pxc) != (2, 0)) or ssc == 3
        privilege = have_el(pe, EL2) and hypervisor
    else:
        privilege = bool(pxc >> 1 - el & 1)
    if not privilege:
        return False
    state = security_state_at(pe, el)
    if ssc == 0:
        return bool(hmc) or state is not SecurityState.ROOT
    if ssc == 1:
        return state is SecurityState.NON_SECURE
    if ssc == 2:
        return state is SecurityState.SECURE or (bool(hmc) and state is SecurityState.ROOT)
    return state is SecurityState.SECURE or (bool(hmc) and state is not SecurityState.ROOT)


# Breakpoints


def is_context_aware(n: int) -> bool:
    """IsContextAwareBreakpoint()."""
    return BREAKPOINTS - CONTEXTS <= n < BREAKPOINTS


def matches_address(control: DBGBCR) -> bool:
    """Whether a breakpoint compares the address of an operation: DBGBCR<n>_EL1.BT."""
    return control.BT & 0b1110 == 0


def _reserved_type(pe: PE, n: int, bt: int) -> bool:
    """AArch64.ReservedBreakpointType()."""
    if bt & 0b1010 and not is_context_aware(n):
        return True
    if bt >> 3 and not have_el(pe, EL2):
        return True
    later = bt & 0b1110 == 0b0110 or bt >> 2 == 0b11
    if later and not {Feature.FEAT_VHE, Feature.FEAT_Debugv8p2} & pe.features:
        return True
    return bt & 0b1110 == 0b0100  # address mismatch needs AArch32 state at EL1


def _context_matches(pe: PE, n: int, bt: int) -> bool:
    """AArch64.BreakpointValueMatch() of a breakpoint that compares contexts."""
    registers = pe.registers
    value = registers.raw(DBGBVRS[n])
    host = el_is_in_host(pe, pe.el)
    low, guest = value & _LOW, pe.el <= EL1 and not host
    first = bt & 0b1110
    if first == 0b0010:
        own = CONTEXTIDR_EL2 if host else CONTEXTIDR_EL1
        if not (host or pe.el <= EL1) or registers.raw(own) & _LOW != low:
            return False
    elif bt & 0b0010 and (not guest or registers.raw(CONTEXTIDR_EL1) & _LOW != low):
        return False
    if bt >> 2 == 0b10:
        width = 16 if registers.read(VTCR_EL2).VS else 8
        mask = (1 << width) - 1
        vmid = registers.raw(VTTBR_EL2) >> 48 & mask
        return guest and el2_enabled(pe) and vmid == value >> 32 & mask
    if bt >> 2 == 0b11:
        known = pe.el != EL3 and el2_enabled(pe)
        return known and value >> 32 == registers.raw(CONTEXTIDR_EL2) & _LOW
    return True


def linked_match(pe: PE, n: int) -> bool:
    """Whether the breakpoint that something is linked to matches the context."""
    if not is_context_aware(n):
        return False
    control = pe.registers.read(DBGBCRS[n])
    bt = control.BT
    if not control.E or _reserved_type(pe, n, bt) or not (bt & 1 and bt & 0b1010):
        return False
    return _context_matches(pe, n, bt)


def breakpoint_matches(pe: PE, n: int, address: int) -> bool:
    """AArch64.BreakpointMatch(): whether breakpoint ``n`` matches the operation at ``address``."""
    control = pe.registers.read(DBGBCRS[n])
    bt = control.BT
    if not control.E or _reserved_type(pe, n, bt) or not state_match(pe, pe.el, control):
        return False
    if not matches_address(control):
        return not bt & 1 and _context_matches(pe, n, bt)
    if (pe.registers.raw(DBGBVRS[n]) ^ address) & _ADDRESS & ~3:
        return False
    return not bt & 1 or linked_match(pe, control.LBN)


def breaks(pe: PE, pstate: SPSR, address: int) -> bool:
    """Whether a Breakpoint exception comes in place of the operation at ``address``."""
    if not comparing(pe) or not generate_debug_exceptions_from(pe, pe.el, mask=bool(pstate.D)):
        return False
    return any(breakpoint_matches(pe, n, address) for n in range(BREAKPOINTS))


# Watchpoints


@dataclass(frozen=True, slots=True)
class Watched:
    """The addresses from ``first`` to ``last`` of a watchpoint, :data:`TOP` + 1 bits each.

    ``read`` and ``write`` are which accesses it is for.
    """

    first: int
    last: int
    read: bool
    write: bool


def watched(pe: PE, n: int) -> tuple[Watched, ...]:
    """AArch64.WatchpointByteMatch(), as ranges: what watchpoint ``n`` is for, if it is enabled.

    A reserved mask disables it; with a mask, BAS does not count, nor do masked bits of the address.
    """
    control = pe.registers.read(DBGWCRS[n])
    if not control.E or not control.LSC or control.MASK in (1, 2):
        return ()
    address = pe.registers.raw(DBGWVRS[n]) & _ADDRESS & ~3
    read, write = bool(control.LSC & 1), bool(control.LSC & 2)
    if control.MASK:
        size = 1 << control.MASK
        first = address & -size
        return (Watched(first, first + size - 1, read, write),)
    selected = control.BAS & 0xF if address & 4 else control.BAS
    return tuple(
        Watched(address + begin, address + end - 1, read, write) for begin, end in _runs(selected)
    )


def _runs(bits: int) -> Iterator[tuple[int, int]]:
    """Runs of ones: where each begins, and the place after its end."""
    place = 0
    while bits >> place:
        if not bits >> place & 1:
            place += 1
            continue
        begin = place
        while bits >> place & 1:
            place += 1
        yield begin, place


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A contiguous access: what AccessDescriptor tells of it, and its bytes.

    ``el`` is as which Exception level it is made (EL0 for LDTR and STTR).
    """

    address: int
    size: int
    el: int
    read: bool
    write: bool


def watchpoint_match(pe: PE, n: int, access: MemoryAccess) -> int | None:
    """AArch64.WatchpointMatch(): the first byte of ``access`` that watchpoint ``n`` watches."""
    for place in watched(pe, n):
        if not ((place.read and access.read) or (place.write and access.write)):
            continue
        found = _first_byte(place, access)
        if found is None:
            continue
        control = pe.registers.read(DBGWCRS[n])
        if not state_match(pe, access.el, control):
            return None
        return found if not control.WT or linked_match(pe, control.LBN) else None
    return None


def _first_byte(place: Watched, access: MemoryAccess) -> int | None:
    begin = access.address & _ADDRESS
    into = max(place.first - begin, 0)
    if into >= access.size or begin + into > place.last:
        return None
    return access.address + into & (1 << 64) - 1


def watches(pe: PE, pstate: SPSR, access: MemoryAccess) -> int | None:
    """AArch64.CheckWatchpoint(): the first byte whose access a Watchpoint exception prevents."""
    if not comparing(pe) or not generate_debug_exceptions_from(pe, pe.el, mask=bool(pstate.D)):
        return None
    found = (watchpoint_match(pe, n, access) for n in range(WATCHPOINTS))
    return min((byte for byte in found if byte is not None), default=None)


# What may happen at an Exception level, whatever PSTATE.D, addresses and contexts are


def armed_breakpoints(pe: PE, el: int) -> tuple[int, ...]:
    """The breakpoints that can match operations at ``el``."""
    if not comparing(pe) or not generate_debug_exceptions_from(pe, el, mask=False):
        return ()
    controls = [pe.registers.read(register) for register in DBGBCRS]
    return tuple(
        n
        for n, control in enumerate(controls)
        if control.E
        and not _reserved_type(pe, n, control.BT)
        and (matches_address(control) or not control.BT & 1)
        and state_match(pe, el, control)
    )


def armed_watchpoints(pe: PE, el: int) -> tuple[int, ...]:
    """The watchpoints that can match accesses of operations at ``el``."""
    if not comparing(pe) or not generate_debug_exceptions_from(pe, el, mask=False):
        return ()
    controls = [pe.registers.read(register) for register in DBGWCRS]
    return tuple(
        n
        for n, control in enumerate(controls)
        if control.E and any(state_match(pe, made, control) for made in {el, EL0})
    )
