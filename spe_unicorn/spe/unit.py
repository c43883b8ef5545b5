"""The Statistical Profiling Unit: sampling as the guest programs it, through System registers.

It watches the register file, so that a write which enables, stops or restarts profiling acts at
once; it writes records into the Profiling Buffer and reports management events in PMBSR_ELx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.memory.descriptors import (
    AddressDescriptor,
    FaultRecord,
    MemoryAttributes,
    acc_desc_at,
    acc_desc_spe,
)
from spe_unicorn.arch.memory.regimes import TranslationContext, context_at
from spe_unicorn.arch.memory.translation import full_translate
from spe_unicorn.arch.operation import Calls, Operation, RegisterKind
from spe_unicorn.arch.pe import EL1, EL2, PE, SecurityState
from spe_unicorn.arch.ports import IRQLine, PhysicalMemory
from spe_unicorn.arch.random_source import RandomStream
from spe_unicorn.arch.registers.known import affecting
from spe_unicorn.arch.registers.roles import Affects
from spe_unicorn.arch.registers.spe import (
    PMBLIMITR_EL1,
    PMBMAR_EL1,
    PMBPTR_EL1,
    PMBSR_EL1,
    PMSDSFR_EL1,
    PMSEVFR_EL1,
    PMSFCR_EL1,
    PMSICR_EL1,
    PMSIRR_EL1,
    PMSLATFR_EL1,
    PMSNEVFR_EL1,
    event_filter_mask,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.rules.effective import (
    effective_pmblimitr_nvm,
    lower_security_state,
    profiling_buffer_owner,
)
from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.signals import Signal
from spe_unicorn.spe.batch import SELECTED_AT, Looked, Written
from spe_unicorn.spe.buffer import ProfilingBuffer
from spe_unicorn.spe.enabling import (
    collection,
    discards,
    profiling_buffer_enabled,
    profiling_stopped,
    statistical_profiling_enabled,
)
from spe_unicorn.spe.feed import SampleEvent
from spe_unicorn.spe.filter import Filter, FilterRegisters, programmed_filter
from spe_unicorn.spe.interval import BiasedInterval, IntervalCounters
from spe_unicorn.spe.lateness.whole import ON_TIME, Lateness
from spe_unicorn.spe.management import (
    PMBSR_BY_EL,
    ManagementEvent,
    exception_requested,
    not_allowed,
    pmbirq_level,
    recorded,
    reporting_el,
)
from spe_unicorn.spe.sample import Recorder
from spe_unicorn.spe.sampler import NOWHERE, Moving, SampledCore, Sampler

_NO_EL = -1

RECORDS: Final = affecting(Affects.RECORDS)
"""Registers that change what stands in records and nothing else."""
CONTROLS: Final = affecting(Affects.PROFILING)
"""Registers that say whether, where and what to sample.

Call :meth:`StatisticalProfilingUnit.reload` when one changes without the register file being told.
"""
TRANSLATION: Final = affecting(Affects.BUFFER)
"""Registers by which the buffer's addresses are translated.

Call :meth:`StatisticalProfilingUnit.forget_translations` when one changes without the register file
being told, and after TLB maintenance.
"""

_SERROR = 2
"""PMBIDR_EL1.EA: an External abort on record data generates an SError."""
_REPORTED = 1
"""ImpDef.disabled_record: a record whose buffer was disabled is an event."""
_WRITTEN_LATE = 2
"""ImpDef.disabled_record: such a record is written as if the buffer were still enabled."""
_PLENTY = 1 << 30
_MOST_PEEKED: Final = 1 << 12
"""The most pages whose translations are kept: 16 MiB of a buffer."""


class _ReadOnly:
    """Physical memory that takes no writes."""

    def __init__(self, memory: PhysicalMemory) -> None:
        self.read = memory.read

    def write(self, address: int, data: bytes, space: PASpace) -> bool:
        return False


class OwningRegime:
    """Translates addresses of the Profiling Buffer of ``pe`` as the owner of the buffer would.

    ``memory`` holds translation tables.
    """

    DERIVED = ("_context", "_peeked")

    def __init__(self, pe: PE, memory: PhysicalMemory) -> None:
        self._pe = pe
        self._memory = memory
        self._context: tuple[TranslationContext, int] | None = None
        self._peeked: dict[int, AddressDescriptor] = {}
        """Translations ahead of the buffer's pointer, by address, as in a TLB."""

    def forget(self) -> None:
        """Translate anew: registers or tables may have changed."""
        self._context = None
        self._peeked.clear()

    def translate(self, address: int) -> AddressDescriptor | FaultRecord:
        """Translate a write to ``address``."""
        return self.translate_by(address, self._memory)

    def translate_by(self, address: int, memory: PhysicalMemory) -> AddressDescriptor | FaultRecord:
        """As :meth:`translate`. Descriptors are read from ``memory``, and updated there."""
        if self._context is None:
            self._context = self._owning_context()
        context, el = self._context
        return full_translate(context, address, acc_desc_spe(el), memory)

    def peek(self, address: int) -> AddressDescriptor | FaultRecord:
        """As :meth:`translate`, a fault where a translation table would have to be updated.

        Translations are kept until :meth:`forget`.
        """
        known = self._peeked.get(address)
        if known is not None:
            return known
        found = self.translate_by(address, _ReadOnly(self._memory))
        if isinstance(found, AddressDescriptor):
            if len(self._peeked) >= _MOST_PEEKED:
                self._peeked.clear()
            self._peeked[address] = found
        return found

    def _owning_context(self) -> tuple[TranslationContext, int]:
        pe = self._pe
        owner = profiling_buffer_owner(pe)
        el = EL2 if owner is not None and owner.el == EL2 else EL1
        context = context_at(pe, el)
        if effective_pmblimitr_nvm(pe):
            attributes = pe.registers.read(PMBMAR_EL1)
            context = context.with_physical_pointers(
                MemoryAttributes(attributes.Attr, attributes.SH)
            )
        return context, el


@dataclass(frozen=True)
class Lines:
    """What the unit of a PE drives; None for what nobody listens to."""

    pmbirq: IRQLine | None = None
    """The interrupt of the Profiling Buffer."""
    exception: IRQLine | None = None
    """Asserted while an event asks for an SPE Profiling exception, and driven anew whenever what
    masks that may have changed."""
    serror: Callable[[], None] | None = None
    """Makes an SError pending."""
    lateness: Lateness = ON_TIME
    """What of that, and of the unit's other work, comes later than at once."""


class _Interrupts:
    """Drives the lines of a unit by what its registers say."""

    DERIVED = ("_level",)

    def __init__(self, pe: PE, lines: Lines) -> None:
        late = lines.lateness.line
        self._pe = pe
        self._pmbirq = lines.pmbirq if late is None else late
        self._exception = lines.exception if Feature.FEAT_SPE_EXC in pe.features else None
        self._level = False

    def drive(self) -> None:
        """Drive them anew: a register that they depend on may have changed."""
        level = pmbirq_level(self._pe)
        if level != self._level:
            self._level = level
            if self._pmbirq is not None:
                self._pmbirq.set_level(level)
        if self._exception is not None:
            self._exception.set_level(exception_requested(self._pe))


class StatisticalProfilingUnit(Sampler):
    """SPE of one PE. See :class:`~spe_unicorn.spe.sampler.Sampler` for how a host drives it.

    It puts cells of its own behind PMSICR_EL1, PMSIRR_EL1 and PMBPTR_EL1. ``random`` perturbs the
    sample interval, ``memory`` receives records and holds translation tables.

    ``cycles()`` is the number of cycles that the PE has executed. A sampled operation occupies the
    unit from its selection for its modelled total latency, and a selection while as many as
    possible are in flight collides.
    """

    DERIVED = ("_current", "_buffer_enabled", "_discards", "_el")
    TRANSIT = ("_selected_at",)

    def __init__(
        self,
        pe: PE,
        memory: PhysicalMemory,
        core: SampledCore,
        random: RandomStream,
        cycles: Callable[[], int],
        lines: Lines,
    ) -> None:
        counters = IntervalCounters(
            random,
            ernd=Feature.FEAT_SPE_ERnd in pe.features,
            choices=pe.impdef,
        )
        biased = pe.impdef.erratum_1694299
        super().__init__(pe, BiasedInterval(counters) if biased else counters, core)
        self._counters = counters
        self._regime = OwningRegime(pe, memory)
        v1p3 = Feature.FEAT_SPEv1p3 in pe.features
        self.buffer = ProfilingBuffer(
            memory if lines.lateness.data is None else lines.lateness.data,
            self._regime.translate,
            pe.impdef,
            reports_aborts=not v1p3 and pe.impdef.external_abort == 0,
            aborted=lines.serror if pe.impdef.external_abort == _SERROR else None,
            peek=self._regime.peek,
        )
        self.managed: Signal[[ManagementEvent, int]] = Signal()
        """Told of each management event, and of the EL whose PMBSR_ELx records it."""
        self._cycles = cycles
        self._capacity = pe.impdef.max_sampled_operations
        self._selected_at = 0
        self._memory = memory
        self.lateness = late = lines.lateness
        """What is done later than at once."""
        self._waiting = late.records
        if self._waiting is not None:
            self._waiting.write = self._write_out
            self._waiting.fit = self.buffer.fits
        self._interrupts = _Interrupts(pe, lines)
        self._current = False
        """Whether the fields below agree with the registers."""
        self._buffer_enabled = False
        self._discards = False
        self._el = _NO_EL
        registers = pe.registers
        for register, cell in (
            (PMSICR_EL1, counters.PMSICR),
            (PMSIRR_EL1, counters.PMSIRR),
            (PMBPTR_EL1, self.buffer.pointer),
        ):
            cell.set(registers.raw(register))
            registers.add(register, cell)
        registers.written.wire(self._on_write)
        self.reload()

    def reload(self) -> None:
        """Registers changed behind the register file's back, as by a reset: look at them anew."""
        self.forget_translations()
        self._changed()
        self.refresh()

    def reset(self) -> None:
        """The PE was reset: as :meth:`reload`, and nothing is late any more."""
        super().reset()
        self.lateness.forget()

    def _derive(self) -> None:
        self.forget_translations()
        self._changed()
        self._read_controls()
        # before refresh(), which loads counters when profiling becomes enabled
        self.enabled = self.enabled_at[self._pe.el]
        self.refresh()

    def recollect(self) -> None:
        """Registers changed behind the register file's back that only stand in records."""
        self._forget_recorders()
        self.refresh()

    def _forget_recorders(self) -> None:
        self._recorders = {}
        self._el = _NO_EL

    def forget_translations(self) -> None:
        """Translate the buffer's addresses anew, after TLB maintenance or a change of tables."""
        self._regime.forget()
        self.buffer.invalidate()

    def refresh(self) -> None:
        """Look again whether profiling is enabled. Cheap while nothing has changed."""
        el = self._pe.el
        if self._current and el == self._el:
            return
        self._el = el
        if not self._current:
            self._read_controls()
        enabled = self.enabled_at[el]
        if enabled:
            self._recorder(self._recorders, el)
            if not self.enabled:
                self._interval.enable()
        self.enabled = enabled

    def physical(self, address: int) -> int | None:
        """The physical address of a byte of the Profiling Buffer; None if it does not translate."""
        found = self._regime.translate(address)
        return None if isinstance(found, FaultRecord) else found.paddress

    def in_memory(self, address: int) -> bool | None:
        """Whether memory answers at a byte of the buffer; None if it does not translate."""
        found = self._regime.translate(address)
        if isinstance(found, FaultRecord):
            return None
        return self._memory.read(found.paddress, 1, found.paspace) is not None

    def profiles(self, el: int) -> bool:
        """Whether operations at an Exception level would belong to the population now."""
        return statistical_profiling_enabled(self._pe, el)

    def quiet_records(self) -> int:
        """How many records can surely be made without a management event, whatever they hold."""
        if self._bias is not None:
            return 0
        if self._discards:
            return _PLENTY
        if not self.enabled or self._waiting is not None:
            return 0
        # the PE may go on to any Exception level at which profiling is enabled
        levels = (el for el in range(4) if self.enabled_at[el])
        largest = max(self._recorder(self._recorders, el).largest for el in levels)
        return self.buffer.quiet_records(largest)

    def ahead(self) -> list[tuple[int, int]]:
        """Where in physical memory the records go that :meth:`quiet_records` counts."""
        return [] if self._discards else self.buffer.ahead()

    def moving(self, kinds: int) -> Moving | None:
        """What registers hold that samples move: see :meth:`Sampler.moving`."""
        if not self._current or not self._buffer_enabled or self._discards or self._sampling:
            return None
        if self._waiting is not None or self._bias is not None:
            return None
        recorders = {}
        for el, enabled in enumerate(self.enabled_at):
            if enabled:
                recorders[el] = recorder = self._recorder(self._recorders, el)
                if recorder.looks_further:
                    return None
        self._judge_by_filter()
        return Moving(
            self.buffer.pointer.value,
            self._pe.registers.raw(PMBSR_EL1),
            self._counters.counting_down,
            max(self.s.busy, default=0),
            self._batch.tables(kinds, recorders),
        )

    def _on_write(self, register: type[SysReg], old: int, new: int) -> None:
        if register is PMBLIMITR_EL1 and not (old ^ new) & PMBLIMITR_EL1.nVM.mask:
            self.buffer.invalidate()  # a driver's handler disables and enables the buffer
        elif register in TRANSLATION:
            self.forget_translations()
        if register in RECORDS:
            self._forget_recorders()
        elif register in CONTROLS:
            self._changed()

    def _changed(self) -> None:
        self._current = False
        self._interrupts.drive()

    def _read_controls(self) -> None:
        pe = self._pe
        self._current = True
        self._recorders = {}
        self.enabled_at = NOWHERE
        self.armed = False
        self._buffer_enabled = profiling_buffer_enabled(pe)
        if not self._buffer_enabled:
            return  # nothing else matters until another write
        self.enabled_at = tuple(statistical_profiling_enabled(pe, el) for el in range(4))
        self.armed = True in self.enabled_at
        self._discards = discards(pe)
        self.buffer.limit = pe.registers.read(PMBLIMITR_EL1).LIMIT << 12
        self._filter = self._programmed_filter()

    def _programmed_filter(self) -> Filter:
        pe = self._pe
        events = event_filter_mask(pe.features, pe.impdef)
        registers = FilterRegisters(
            pmsfcr=self._implemented_bits(PMSFCR_EL1),
            pmsevfr=self._implemented_bits(PMSEVFR_EL1) & events,
            pmsnevfr=self._implemented_bits(PMSNEVFR_EL1) & events,
            pmslatfr=self._implemented_bits(PMSLATFR_EL1),
            pmsdsfr=self._implemented_bits(PMSDSFR_EL1),
        )
        return programmed_filter(
            registers,
            eft=Feature.FEAT_SPE_EFT in pe.features,
            empty_filter_drops=pe.impdef.empty_filter_drops,
        )

    def _implemented_bits(self, register: type[SysReg]) -> int:
        registers = self._pe.registers
        return (
            registers.raw(register) & registers.writable(register) if register in registers else 0
        )

    def _recorder_at(self, el: int) -> Recorder:
        pe = self._pe
        collected = collection(pe, el, profiling_buffer_owner(pe))
        state = lower_security_state(pe)
        space = None if state is SecurityState.NON_SECURE else self._pa_space
        return Recorder(self._judge.format, collected, state, space, self._tagged)

    def _tagged(self, operation: Operation) -> bool:
        """Whether translation ignores the top byte of an operation's data address: TBI is 1."""
        pe = self._pe
        nested = operation.instruction.registers is RegisterKind.NESTED
        context = context_at(pe, EL2 if nested else operation.el)
        upper = context.upper if (operation.va or 0) >> 55 & 1 else None
        return (upper or context.lower).tbi

    def _pa_space(self, operation: Operation) -> PASpace:
        """The address space of an operation's data: Secure and Realm translations choose it."""
        pe = self._pe
        nested = operation.instruction.registers is RegisterKind.NESTED
        el = EL2 if nested else operation.el
        context = context_at(pe, el)
        access = acc_desc_at(el, write=False)
        found = full_translate(context, operation.va or 0, access, self._memory)
        return found.paspace if isinstance(found, AddressDescriptor) else context.paspace

    def _collides(self) -> bool:
        now = self._selected_at = self._cycles()
        if not self.s.busy and not self._sampling:
            return False
        self.s.busy = [end for end in self.s.busy if end > now]
        return len(self.s.busy) + len(self._sampling) >= self._capacity

    def _collide(self) -> None:
        register = PMBSR_BY_EL[reporting_el(self._pe, None)]
        registers = self._pe.registers
        registers.update(registers.read(register).replace(COLL=1))
        self.refresh()
        super()._collide()

    def _occupy(self, cycles: int) -> None:
        self.s.busy.append(self._selected_at + cycles)

    def _at_once(self, samples: NDArray[np.int64], looked: Looked) -> dict[int, Recorder] | None:
        if not self._current or self._pe.el != self._el or not self._buffer_enabled:
            return None
        if self._waiting is not None:
            return None
        if looked.overlap or any(end > samples[0, SELECTED_AT] for end in self.s.busy):
            return None  # one may collide with another
        recorders = self._recorders_of(looked)
        if any(recorder.looks_further for recorder in recorders.values()):
            return None
        largest = max(recorder.largest for recorder in recorders.values())
        fits = self._discards or self.buffer.quiet_records(largest) >= len(samples)
        return recorders if fits else None

    def _keep_all(
        self,
        samples: NDArray[np.int64],
        looked: Looked,
        written: Written,
        calls: Sequence[Calls],
    ) -> None:
        self._selected_at = int(samples[-1, SELECTED_AT])
        self.s.busy = [looked.ends]  # the others have ended
        if self._discards:
            self.statistics.discarded += written.records
        elif written.records:
            self.buffer.write_quietly(written.data)
            self._stream(written.data, written.records, calls)

    def _keep(self, record: bytes, operation: Operation) -> None:
        if self._waiting is None:
            self._write_out(record, operation)
        else:
            self._waiting.keep(record, operation)

    def _write_out(self, record: bytes, operation: Operation) -> None:
        # The operation itself may have disabled the buffer: then its record is dropped.
        self.refresh()
        if not self._buffer_enabled:
            disabled = not self._pe.registers.read(PMBLIMITR_EL1).E
            becomes = self._pe.impdef.disabled_record if disabled else 0
            if becomes != _WRITTEN_LATE or profiling_stopped(self._pe):
                self.statistics.lost += 1
                if becomes == _REPORTED:
                    self._manage(not_allowed(self.buffer.pointer.value))
                return
        if self._discards:
            self.statistics.discarded += 1
            return
        written, event = self.buffer.write(record)
        if written:
            self._written(record, operation)
        else:
            self.statistics.lost += 1
        if event is not None:
            self._manage(event)

    def _manage(self, event: ManagementEvent) -> None:
        """ReportSPEEvent(). Record a management event, which stops profiling."""
        el = reporting_el(self._pe, event)
        registers = self._pe.registers
        registers.update(recorded(registers.read(PMBSR_BY_EL[el]), event))
        counts = self.statistics.management_events
        counts[event.kind] = counts.get(event.kind, 0) + 1
        if event.is_full and self._events is not None:
            self._events.event(SampleEvent.BUFFER_FULL)
        self.refresh()
        self.managed(event, el)

    def translated(self, address: int, memory: PhysicalMemory) -> AddressDescriptor | FaultRecord:
        """Translate a write to ``address`` as the owner of the buffer would make it.

        Descriptors are read from ``memory``, and updated there.
        """
        return self._regime.translate_by(address, memory)
