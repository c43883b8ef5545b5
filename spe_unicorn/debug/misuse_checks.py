"""Checks of the values that software writes, and of those with which profiling begins.

A check changes nothing. It gives problems: each is a broken rule, and a sentence with the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, PE
from spe_unicorn.arch.registers.spe import (
    PMBIDR_EL1,
    PMBLIMITR_EL1,
    PMBPTR_EL1,
    PMBSR,
    PMSCR_EL1,
    PMSCR_EL2,
    PMSDSFR_EL1,
    PMSEVFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIDR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
    PMSNEVFR_EL1,
    ExceptionEnable,
    FillMode,
    event_filter_mask,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.registers.system import (
    HCR_EL2,
    MDCR_EL2,
    MDCR_EL3,
    SCTLR_EL1,
    SCTLR_EL2,
    TCR_EL1,
    TCR_EL2,
    TTBR0_EL1,
    TTBR0_EL2,
    TTBR1_EL1,
    TTBR1_EL2,
    VTCR_EL2,
    VTTBR_EL2,
)
from spe_unicorn.arch.rules.effective import el_is_in_host, profiling_buffer_owner
from spe_unicorn.bits import Res0, Res1
from spe_unicorn.debug import misuse_rules as rules
from spe_unicorn.debug.misuse_rules import Rule
from spe_unicorn.spe.enabling import discards
from spe_unicorn.spe.management import buffer_bytes
from spe_unicorn.symbols.table import SymbolTable, printable

_LIMIT_CONTROLS: Final = 0xA7
"""Bits of PMBLIMITR_EL1 below LIMIT that are a control on some core: nVM, PMFZ, FM, E."""
_CHOOSES_BY_BIT: Final = frozenset({PMSEVFR_EL1, PMSNEVFR_EL1, PMSDSFR_EL1})
"""Registers to which software may write any bit, to find out which bits the core has."""
_INTERVALS: Final = {0: 256, 2: 512, 3: 768, 4: 1024, 5: 1536, 6: 2048, 7: 3072, 8: 4096}
"""PMSIDR_EL1.Interval in operations."""
_BELOW_INTERVAL: Final = 0xFE
"""Bits of PMSIRR_EL1 below INTERVAL that are RES0: all but RND."""
_BADDR: Final = (1 << 48) - 2
"""TTBR_ELx.BADDR: where the tables are, without the ASID."""


@dataclass(frozen=True)
class Problem:
    """A broken rule. ``registers`` are those whose values break it, the likeliest first."""

    rule: Rule
    what: str
    registers: tuple[type[SysReg], ...] = ()


def written(pe: PE, register: type[SysReg], value: int) -> Iterator[Problem]:
    """What is wrong with ``value``, as software writes it to an SPE register.

    An unaligned PMBPTR_EL1 is wrong only if profiling becomes enabled with it.
    """
    if register is PMBPTR_EL1:
        align = pe.registers.read(PMBIDR_EL1).Align
        if value & (1 << align) - 1:
            what = f"bits {align - 1}:0 are not 0, and PMBIDR_EL1.Align is {align}"
            yield Problem(rules.POINTER_UNALIGNED, what)
        return
    there = pe.registers.writable(register)
    extra = value & ~there & ~register.res1_mask(pe.features)
    if register is PMBLIMITR_EL1:
        granule = pe.impdef.granule
        if low := extra & (1 << granule) - 1 & ~_LIMIT_CONTROLS:
            what = f"{low:#x} is not a multiple of the granule, {1 << granule} bytes"
            yield Problem(rules.LIMIT_UNALIGNED, what)
        extra &= _LIMIT_CONTROLS
    if register is PMSCR_EL1 and Feature.FEAT_EL2 not in pe.features:
        extra &= ~PMSCR_EL1.PCT.mask  # writes are ignored
    if extra and register not in _CHOOSES_BY_BIT:
        what = f"this core has no {_bits(register, extra, there)}"
        if register is PMSIRR_EL1 and extra <= _BELOW_INTERVAL:
            what = f"INTERVAL is bits 31:8, in units of 256 operations: {_interval_of(value)}?"
        yield Problem(rules.RESERVED_BITS, what)
    yield from _reserved_values(pe, register, value)
    if register is PMSCR_EL2:
        owner = profiling_buffer_owner(pe)
        enables = value & (PMSCR_EL2.E2SPE.mask | PMSCR_EL2.E0HSPE.mask)
        if enables and owner is not None and owner.el == EL1:
            what = f"{_bits(register, enables)}: EL1 owns the buffer"
            yield Problem(rules.ENABLE_IGNORED, what)


def locked(pe: PE, register: type[SysReg], value: int, before: int) -> bool:
    """Whether a write to one of the buffer's registers comes while the buffer is enabled.

    ``before`` is what the register held. A write that clears PMBLIMITR_EL1.E is none of them.
    """
    if register is PMBLIMITR_EL1:
        return bool(before & value & PMBLIMITR_EL1.E.mask)
    return bool(pe.registers.read(PMBLIMITR_EL1).E)


def _interval_of(value: int) -> str:
    """What may be meant by a value of PMSIRR_EL1 with bits below INTERVAL, but for RND.

    A value that has no more bits is taken for one of the field, else for a number of operations.
    """
    if value <= _BELOW_INTERVAL + 1:
        return f"{value << PMSIRR_EL1.INTERVAL.lsb:#x}"
    step = 1 << PMSIRR_EL1.INTERVAL.lsb
    return f"{(value + step // 2) // step * step:#x}"


def _reserved_values(pe: PE, register: type[SysReg], value: int) -> Iterator[Problem]:
    if issubclass(register, PMBSR):
        return  # software writes back what it has read
    for field in register.active(pe.features):
        number = value >> field.lsb & field.max
        if field.values is None:
            continue
        try:
            meaning = field.values(number)
        except ValueError:
            defined = False
        else:
            defined = meaning is not FillMode.DISCARD or Feature.FEAT_SPEv1p2 in pe.features
            if register is PMSCR_EL1 and isinstance(meaning, ExceptionEnable):
                nested = meaning in (ExceptionEnable.DELEGATED, ExceptionEnable.OWN_EVENTS)
                defined = not nested or Feature.FEAT_NV in pe.features
        if not defined:
            yield Problem(rules.RESERVED_VALUE, f"{field.name} {number} is reserved on this core")


def _bits(register: type[SysReg], bits: int, there: int = 0) -> str:
    """Bits of a register by their names, also names that this core does not have.

    A field of which a part is ``there`` is named with the bits of it, as in MINLAT[15:12].
    """
    names = []
    for field in register.fields:
        some = bits & field.mask
        if some and not isinstance(field, (Res0, Res1)):
            last, first = some.bit_length() - 1, (some & -some).bit_length() - 1
            part = f"[{last - field.lsb}:{first - field.lsb}]" if there & field.mask else ""
            names.append(f"{field.name}{part}")
            bits &= ~field.mask
    names += [f"bit {bit}" for bit in range(64) if bits >> bit & 1]
    shown = names if len(names) < 6 else [*names[:4], f"{len(names) - 4} more"]
    return ", ".join(shown)


def steering(pe: PE, register: type[SysReg]) -> Iterator[Problem]:
    """What is wrong with the value of a register of EL2 or EL3 that says who owns the buffer."""
    if register is MDCR_EL2 and pe.registers.read(MDCR_EL2).E2PB == 0b01:
        yield Problem(rules.RESERVED_VALUE, "E2PB 1 is reserved")
    if register is MDCR_EL3 and Feature.FEAT_RME in pe.features:
        value = pe.registers.read(MDCR_EL3)
        if value.NSPBE and value.NSPB < 0b10:
            what = f"NSPBE 1 with NSPB {value.NSPB} is reserved"
            yield Problem(rules.RESERVED_VALUE, what)


def configuration(pe: PE) -> Iterator[Problem]:
    """What is wrong with the values of SPE's registers when profiling becomes enabled."""
    yield from _pointers(pe)
    yield from _interval(pe)
    yield from _filters(pe)


def needed(pe: PE) -> dict[type[SysReg], Rule]:
    """Registers that profiling looks at as they are, and what it is not to have written them.

    All of them are UNKNOWN after a reset. The registers of filters count where PMSFCR_EL1 enables
    their filter.
    """
    result: dict[type[SysReg], Rule] = {
        PMSIRR_EL1: rules.INTERVAL_UNKNOWN,
        PMSICR_EL1: rules.COUNTER_UNKNOWN,
    }
    if not discards(pe):
        result[PMBPTR_EL1] = rules.POINTER_UNKNOWN
    result[PMSFCR_EL1] = rules.FILTER_UNKNOWN
    control = pe.registers.read(PMSFCR_EL1)
    filters = (
        (control.FE, PMSEVFR_EL1),
        (control.FnE, PMSNEVFR_EL1),
        (control.FL, PMSLATFR_EL1),
        (control.FDS, PMSDSFR_EL1),
    )
    for enabled, register in filters:
        if enabled and register in pe.registers:
            result[register] = rules.FILTER_UNKNOWN
    return result


def _pointers(pe: PE) -> Iterator[Problem]:
    if discards(pe):
        return
    pointer = pe.registers.raw(PMBPTR_EL1)
    limit = pe.registers.read(PMBLIMITR_EL1).LIMIT << 12
    largest = 1 << pe.registers.read(PMSIDR_EL1).MaxSize
    both = (PMBPTR_EL1, PMBLIMITR_EL1)
    values = f"PMBPTR_EL1 {pointer:#x}, limit {limit:#x}"
    if (pointer ^ limit) >> 56:
        yield Problem(rules.POINTER_TOP_BYTE, values, both)
    elif pointer + largest > limit:
        yield Problem(rules.POINTER_TOO_HIGH, f"{values}, records of {largest} bytes", both)
    encoded = pe.registers.read(PMBIDR_EL1).MaxBuffSize
    most, size = buffer_bytes(encoded), limit - pointer
    if size > most:
        what = f"{values} are {size} bytes, PMBIDR_EL1.MaxBuffSize {encoded:#x} is {most}"
        yield Problem(rules.BUFFER_TOO_LARGE, what, both)


def buffer(
    pe: PE, in_memory: Callable[[int], bool | None], symbols: SymbolTable, sp: int | None
) -> Iterator[Problem]:
    """What is wrong with the place of the buffer when profiling becomes enabled.

    ``in_memory`` says whether memory answers at an address of the buffer, None if the address has
    no translation. ``symbols`` are the program's. ``sp`` is SP, None if it is not known.
    """
    if discards(pe):
        return
    start = pe.registers.raw(PMBPTR_EL1)
    limit = pe.registers.read(PMBLIMITR_EL1).LIMIT << 12
    if start >= limit:
        return  # POINTER_TOO_HIGH
    values = f"PMBPTR_EL1 {start:#x}, limit {limit:#x}"
    for address in (start, limit - 1):
        if in_memory(address) is False:
            what = f"{values}: nothing is at {address:#x}"
            yield Problem(rules.BUFFER_OUTSIDE_MEMORY, what, (PMBLIMITR_EL1, PMBPTR_EL1))
            return
    over = _over(start, limit, symbols, sp)
    if over is not None:
        what = f"{values}: {over} is in between"
        yield Problem(rules.BUFFER_OVER_PROGRAM, what, (PMBLIMITR_EL1, PMBPTR_EL1))


def _over(start: int, limit: int, symbols: SymbolTable, sp: int | None) -> str | None:
    """What of the program lies between two addresses and is no buffer; None for nothing."""
    if sp is not None and start < sp <= limit:
        return f"the stack, SP {sp:#x},"
    mine = symbols.at(start)
    for symbol in symbols.between(start, limit):
        beyond = mine is not None and mine.size and symbol is not mine and symbol.size
        if symbol.function or beyond:
            return f"{printable(symbol.name)} at {symbol.address:#x}"
    return None


def _interval(pe: PE) -> Iterator[Problem]:
    interval = pe.registers.read(PMSIRR_EL1).INTERVAL << 8
    encoded = pe.registers.read(PMSIDR_EL1).Interval
    least = _INTERVALS.get(encoded, 0)
    if not interval:
        yield Problem(rules.INTERVAL_ZERO, "PMSIRR_EL1.INTERVAL is 0", (PMSIRR_EL1,))
    elif interval < least:
        what = (
            f"PMSIRR_EL1.INTERVAL {interval >> 8:#x} is {interval} operations,"
            f" PMSIDR_EL1.Interval {encoded:#x} is {least}"
        )
        yield Problem(rules.INTERVAL_TOO_SHORT, what, (PMSIRR_EL1,))


def _filters(pe: PE) -> Iterator[Problem]:
    registers = pe.registers
    control = registers.read(PMSFCR_EL1)
    events = event_filter_mask(pe.features, pe.impdef)
    # E1 filters nothing on a core that samples retired operations alone; portable software sets it
    chosen = registers.raw(PMSEVFR_EL1) & (events | PMSEVFR_EL1.E1.mask)
    inverted = registers.raw(PMSNEVFR_EL1) & events if PMSNEVFR_EL1 in registers else 0
    fne = bool(control.FnE) and PMSNEVFR_EL1 in registers
    if control.FE and not chosen:
        what = f"FE is 1, PMSEVFR_EL1 is {registers.raw(PMSEVFR_EL1):#x}"
        yield Problem(rules.EVENT_FILTER_EMPTY, what, (PMSFCR_EL1, PMSEVFR_EL1))
    if fne and not inverted:
        what = f"FnE is 1, PMSNEVFR_EL1 is {registers.raw(PMSNEVFR_EL1):#x}"
        yield Problem(rules.INVERTED_FILTER_EMPTY, what, (PMSFCR_EL1, PMSNEVFR_EL1))
    if control.FE and fne and (both := chosen & inverted & events):
        what = f"PMSEVFR_EL1 and PMSNEVFR_EL1 have {both:#x} in common"
        yield Problem(rules.FILTERS_CONTRADICT, what, (PMSFCR_EL1, PMSEVFR_EL1, PMSNEVFR_EL1))
    if control.FL and not registers.read(PMSLATFR_EL1).MINLAT:
        what = "FL is 1, PMSLATFR_EL1.MINLAT is 0"
        yield Problem(rules.LATENCY_FILTER_ZERO, what, (PMSFCR_EL1, PMSLATFR_EL1))
    types = control.B or control.LD or control.ST
    if control.FT and not types and Feature.FEAT_SPE_EFT not in pe.features:
        what = "FT is 1, B, LD and ST are 0"
        yield Problem(rules.TYPE_FILTER_EMPTY, what, (PMSFCR_EL1,))


def translation(pe: PE) -> dict[str, int]:
    """The registers, by name, that translate the buffer's half of the address space."""
    owner = profiling_buffer_owner(pe)
    if owner is None:
        return {}
    registers = pe.registers
    el2 = owner.el == EL2
    upper = registers.raw(PMBPTR_EL1) >> 55 & 1
    sctlr, tcr = (SCTLR_EL2, TCR_EL2) if el2 else (SCTLR_EL1, TCR_EL1)
    table: type[SysReg]
    if el2:
        table = TTBR1_EL2 if upper and el_is_in_host(pe, EL2) else TTBR0_EL2
    else:
        table = TTBR1_EL1 if upper else TTBR0_EL1
    result = {
        "MDCR_EL2.E2PB": registers.read(MDCR_EL2).E2PB if MDCR_EL2 in registers else 0,
        f"{sctlr.__name__}.M": registers.raw(sctlr) & 1,
        tcr.__name__: registers.raw(tcr),
        f"{table.__name__}.BADDR": registers.raw(table) & _BADDR,
    }
    if not el2 and HCR_EL2 in registers and registers.read(HCR_EL2).VM:
        for register in (VTCR_EL2, VTTBR_EL2):
            result[register.__name__] = registers.raw(register)
    return result
