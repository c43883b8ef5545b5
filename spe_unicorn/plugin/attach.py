"""The plugin: SPE on a ``Uc`` that somebody else made, mapped and hooked.

Nothing of the user's is changed: no memory is mapped, no register written, no vector entered that
the guest has not set up. Accesses to SPE registers are answered in any run of the engine; sampling
happens in :meth:`Attachment.emu_start`, which means what the engine's own does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final
from weakref import WeakSet

from unicorn import Uc
from unicorn.arm64_const import UC_CPU_ARM64_MAX

from spe_unicorn.arch.access.pmu import pmu_accessors
from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.access.verdicts import (
    SysRegTable,
)
from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.pe import EL1, EL3
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.by_name import Registers
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.rules.start_state import firmware_state
from spe_unicorn.cores.profile import Core, ModelName
from spe_unicorn.host.counting.counting import monitored
from spe_unicorn.host.engine.engine import Engine, lib
from spe_unicorn.host.engine.memory import EngineMemory
from spe_unicorn.host.engine.surviving import not_surviving
from spe_unicorn.host.native.hooks import NativeHooks
from spe_unicorn.host.native.state.actions import Action
from spe_unicorn.host.pe.access import monitor_registers
from spe_unicorn.host.pe.at_rest import forget
from spe_unicorn.host.pe.cpu import Lent, UnicornCPU
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.models import core_models
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions.known.judging import absent
from spe_unicorn.plugin import saved
from spe_unicorn.plugin.answers import Answers
from spe_unicorn.plugin.around import NoLine, Raised, UsersHandler
from spe_unicorn.plugin.checks import (
    MOST,
    MOST_INTERVAL,
    MOST_LATENCY,
    AttachError,
    checked_address,
    checked_callback,
    checked_core,
    checked_engine,
    checked_model,
    checked_seed,
    checked_types,
    whole_number,
)
from spe_unicorn.plugin.errors import (
    DetachedError,
    ProfilingExceptionError,
    TrappedAccessError,
)
from spe_unicorn.plugin.turns import Turns
from spe_unicorn.pmu.junction import EventJunction
from spe_unicorn.signals import Signal
from spe_unicorn.spe.external import Asked, ExternalSampler
from spe_unicorn.spe.filter import Flag, chosen_filter
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from spe_unicorn.spe.sampler import SampledCore, Sampler, Statistics
from spe_unicorn.spe.unit import Lines, StatisticalProfilingUnit

__all__ = [
    "AttachError",
    "Attachment",
    "DetachedError",
    "ProfilingExceptionError",
    "RecordCallback",
    "TrappedAccessError",
    "attach",
]

RecordCallback = Callable[[Record, bytes], None]
"""Called with each record, decoded and as its bytes."""

_STEERING: Final = (
    system.SCR_EL3,
    system.MDCR_EL3,
    system.HCR_EL2,
    system.MDCR_EL2,
    system.CNTHCTL_EL2,
    system.CNTVOFF_EL2,
    system.CPTR_EL2,
    system.CPTR_EL3,
)
"""What firmware sets before it hands over: our own where no firmware has run on the engine."""
_NOT_BEFORE_VHE: Final = (system.TTBR1_EL2, system.CONTEXTIDR_EL2)
"""Registers that the engine's models other than MAX lack."""
_attached: Final[WeakSet[Uc]] = WeakSet()
"""Engines that have SPE now."""
_PUBLIC: Final = (
    "core",
    "detach",
    "emu_start",
    "events",
    "on_record",
    "program",
    "registers",
    "restore",
    "save",
    "statistics",
    "uc",
)
"""What an attachment is used by; its other attributes are its parts."""


class Attachment:
    """SPE on an engine of the user's; made by :func:`attach`, detached at the end of a ``with``.

    ``uc`` is the engine, ``core`` the profile, ``registers`` the SPE registers by name,
    ``statistics`` what sampling came to, ``events.counts`` its PMU events by number.
    """

    def __init__(self, uc: Uc, core: Core, seed: int, model: ModelName = "none") -> None:
        self.uc = uc
        self.core = core = core.with_model(model)
        engine = Engine(uc)
        random = RandomSource(seed)
        lacking = () if uc.ctl_get_cpu_model() == UC_CPU_ARM64_MAX else _NOT_BEFORE_VHE
        firmware = engine.system(system.SCR_EL3.encoding) != 0
        ours = (*lacking, *(() if firmware else _STEERING))
        self.memory = EngineMemory(uc)
        hooks = NativeHooks(engine)
        self._model, feeder = core_models(core, model)(hooks, None)
        use = Lent(self.memory, Action.ASK, ours)
        self.cpu = UnicornCPU(hooks, use, core.features, core.impdef, random, feeder)
        file = self.cpu.registers
        unknown = random.stream("reset").bits64
        for register in SPE_REGISTERS:
            if register in file:
                value = register.reset_value(core.features, unknown)
                file.set_raw(register, value & file.present(register))
        if not firmware:
            # no firmware has run: the documented state, in cells of ours alone
            if system.MDCR_EL2 in file:
                file.set_raw(system.MDCR_EL2, system.MDCR_EL2.of(HPMN=core.counters).value)
            firmware_state(file, min(max(self.cpu.el, EL1), EL3))
        self._identity = saved.identity(core, model)
        self._interval = random.stream("interval")
        self.events = EventJunction()
        """The PMU events of sampling as the guest programs it, by number: ``events.counts``."""
        self._interrupts = interrupts = Raised(self.cpu)
        self._programmed: saved.Programmed | None = None
        self._own_unit = StatisticalProfilingUnit(
            self.cpu,
            self.memory,
            SampledCore(self._model, core.cracking, core.wrong_path, self.events),
            self._interval,
            self.cpu.counted,
            Lines(exception=interrupts.profiling, serror=interrupts.pend_serror),
        )
        self.unit: Sampler = self._own_unit
        self._counting = monitored(
            self.cpu,
            core.counters,
            NoLine(),
            interrupts.monitors,
            self.events,
            cracker=core.cracking,
        )
        self._counting.totals.sampling = lambda: self._is_running and self.unit.enabled
        self._counting.reset(random.stream("PMU").bits64, self.cpu.el)
        monitors = pmu_accessors(core.counters)
        monitor_registers.install(self.cpu.hooks, monitors, Action.ASK)
        table = SysRegTable((*SPE_ACCESSORS, *STEERING_ACCESSORS, *monitors))
        self.registers = Registers(file)
        self._recorded: Signal[[Record, bytes]] = Signal()
        registers = self._counting.registers
        self.handler = UsersHandler(self.cpu, interrupts, table, registers)
        self._turns = Turns(self.cpu, self.handler, self._counting, interrupts)
        self._counting.totals.aside = self._turns.ran_aside
        self._emu_stop = uc.emu_stop
        self.cpu.hooks.ask_by(Answers(self.cpu, table, self.handler, interrupts, self._emu_stop))
        self.runner = Runner(self.cpu, self.unit, self.handler, self._counting)
        self._observe(self.unit)
        self.cpu.hooks.install(weighed=core.cracking is not None)
        if core.strict:
            self.handler.controls.withhold(absent(core.features, core.impdef, core.architecture))
            hooks.notice_new_code()
        engine.forget_all_code()
        self._turns.leave()
        uc.emu_stop = self._stop_asked_for
        self._is_attached = True
        _attached.add(uc)

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_attached:
            self.detach()

    def __repr__(self) -> str:
        counted = f"{self.statistics.written} records of {self.statistics.population} operations"
        detached = "" if self._is_attached else ", detached"
        return f"<SPE of core {self.core.name}: {counted}{detached}>"

    def __dir__(self) -> Iterator[str]:
        return iter(_PUBLIC)

    @property
    def _is_running(self) -> bool:
        """Whether :meth:`emu_start` is on its way."""
        return self._interrupts.running

    def _must_be_attached(self, what: str) -> None:
        if not self._is_attached:
            raise DetachedError(f"{what}: SPE was detached from this engine; attach it again")

    @property
    def statistics(self) -> Statistics:
        """What sampling came to so far."""
        return self.unit.statistics

    def on_record(self, callback: RecordCallback) -> Callable[[], None]:
        """Have ``callback(record, raw)`` called for each record: decoded, and as its bytes.

        Returns a function that ends it. Raises TypeError for what cannot be called.
        """
        self._must_be_attached("on_record")
        return self._recorded.connect(checked_callback(callback))

    def program(self, interval: int, *, types: Collection[Flag] = (), min_latency: int = 0) -> None:
        """Sample from outside: exactly every ``interval``-th operation, whatever the guest does.

        ``types`` keeps loads, stores or branches only (:class:`~spe_unicorn.spe.filter.Flag`),
        ``min_latency`` operations of that many cycles. Records go to the callbacks and nowhere
        else. Raises TypeError and ValueError for what is no interval (1 to 2^48), kind or latency
        (0 to 65535).
        """
        self._must_be_attached("program")
        interval = whole_number("interval", interval, 1, MOST_INTERVAL, "operations")
        min_latency = whole_number("min_latency", min_latency, 0, MOST_LATENCY, "cycles")
        types = checked_types(types)
        numbers = tuple(sorted(flag.value for flag in types))
        self._program(saved.Programmed(interval, numbers, min_latency))

    def _program(self, asked: saved.Programmed) -> None:
        self._programmed = asked
        flags = [Flag(number) for number in asked.types]
        core = self.core
        sampled = SampledCore(self._model, core.cracking, core.wrong_path, features=core.features)
        wanted = Asked(asked.interval, chosen_filter(flags, asked.min_latency))
        unit = ExternalSampler(self.cpu, wanted, sampled)
        self._observe(unit)
        self._sample_by(unit)

    def _sample_by(self, unit: Sampler) -> None:
        self.unit = unit
        if not self._is_running:
            self._turns.set_aside()  # the runner begins to count where the last one ended
        self.runner = Runner(self.cpu, unit, self.handler, self._counting)

    def save(self) -> dict[str, Any]:
        """SPE and the Performance Monitors as they stand, as JSON has it: for :meth:`restore`.

        It belongs to a ``uc.context_save()`` and a copy of memory of the same moment. The engine
        forgets its TLB and translated code. Raises RuntimeError within a run.
        """
        self._at_rest("save")
        self._turns.set_aside()
        forget(self.handler, self.unit)
        return saved.save(self, self.handler, self._identity, self._programmed)

    def restore(self, state: Mapping[str, object]) -> None:
        """Go on from what :meth:`save` gave, here or in an attachment of an equal core and model.

        Restore the engine's context and memory first. Callbacks stay. Raises AttachError for
        another attachment's state, or none, and RuntimeError within a run.
        """
        self._at_rest("restore")
        asked = saved.programmed(state, self._identity)
        before = self._programmed, self.unit, self.runner
        self._switch_to(asked)
        try:
            saved.restore(self, self.handler, state)
        except AttachError:
            self._programmed, self.unit, self.runner = before
            raise
        self.runner.restored()
        forget(self.handler, self.unit)
        self._turns.let_go()

    def _switch_to(self, asked: saved.Programmed | None) -> None:
        """Sample as ``program`` was called, None for as the guest programs it."""
        if asked == self._programmed:
            return
        if asked is None:
            self._programmed = None
            self._sample_by(self._own_unit)
        else:
            self._program(asked)

    def _at_rest(self, what: str) -> None:
        self._must_be_attached(what)
        if self._is_running:
            raise RuntimeError(f"{what}: emu_start is running; call it from no hook")

    def emu_start(self, begin: int, until: int, timeout: int = 0, count: int = 0) -> None:
        """As ``Uc.emu_start``, with sampling: from ``begin`` up to ``until``, which is not run.

        ``timeout`` is in microseconds, ``count`` in operations, both 0 for none; ``count`` and
        ``until`` are exact. Raises what the engine would raise: UcError, or what a hook of the
        user's raised; and :class:`TrappedAccessError`. Raises TypeError and ValueError for
        arguments that are none.
        """
        self._must_be_attached("emu_start")
        begin, until = checked_address("begin", begin), checked_address("until", until)
        timeout = whole_number("timeout", timeout, 0, MOST, "microseconds")
        count = whole_number("count", count, 0, MOST, "operations")
        if self._is_running:
            raise RuntimeError("emu_start is already running; call it from no hook")
        self._turns.enter()
        self.cpu.forget_el()
        self.unit.reload()
        self.uc._hook_exception = None  # where the binding keeps what a hook raised
        self.handler.error = None
        self.cpu.pc = begin
        deadline = time.monotonic() + timeout / 1e6 if timeout else None
        forget_clock = self.runner.slice_ended.connect(lambda: self._check_deadline(deadline))
        self._interrupts.running = True
        self.uc.emu_start = self._run_nested
        self._interrupts.update()
        try:
            self.runner.run(count or None, until)
        finally:
            self._interrupts.running = False
            del self.uc.emu_start
            forget_clock()
            self._turns.leave()
        error = self.uc._hook_exception or self.handler.error
        if error is not None:
            raise error

    def _run_nested(self, *arguments: int, **named: int) -> None:
        """Stands in for ``uc.emu_start`` in hooks: no abort may go past their frames."""
        with not_surviving(lib.uc_emu_start):
            type(self.uc).emu_start(self.uc, *arguments, **named)

    def detach(self) -> None:
        """Leave the engine as it was: no hook of ours, no register of SPE.

        What was counted stays to be read. Raises DetachedError the second time.
        """
        self._must_be_attached("detach")
        if self._is_running:
            raise RuntimeError("detach: emu_start is running; call it from no hook")
        self._is_attached = False
        _attached.discard(self.uc)
        self.cpu.hooks.remove()
        del self.uc.emu_stop

    def _observe(self, unit: Sampler) -> None:
        unit.recorded.connect(self._on_record)

    def _on_record(self, raw: bytes, operation: Operation) -> None:
        if self._recorded:
            placed = read_record(raw, 0)
            if not isinstance(placed, PlacedRecord):
                raise RuntimeError(f"a record of ours cannot be read: {placed}")
            self._recorded(placed.record, raw)

    def _check_deadline(self, deadline: float | None) -> None:
        if deadline is not None and time.monotonic() >= deadline:
            self.runner.stopping = True

    def _stop_asked_for(self) -> None:
        """Stands in for ``uc.emu_stop``: tells the user's stops from ours."""
        self.handler.ending = Ending.INTERRUPTED
        self._emu_stop()


def attach(
    uc: Uc,
    core: str | os.PathLike[str] | Core = "generic",
    seed: int = 0,
    model: ModelName = "none",
) -> Attachment:
    """Give an engine of the user's the Statistical Profiling Extension.

    ``core`` is a built-in profile's name, the path of a TOML file, or a profile; ``seed`` starts
    all randomness; ``model`` is ``"cache"`` for caches, TLBs and a branch predictor, which see what
    ``emu_start`` of the attachment runs. Raises :class:`AttachError` for an engine that cannot have
    SPE and for a choice that there is not, and ``cores.profile.CoreError`` for a core that is not
    there.

    Where no firmware has run (SCR_EL3 is 0), SPE behaves as after the documented start state; the
    engine's own registers stay as they are. Only one MRS and one MSR hook of an engine is ever
    called, so none may be there before, and one that is added later is not called.
    """
    if isinstance(uc, Uc) and uc in _attached:
        raise AttachError("this engine has SPE already: detach it first")
    choices = checked_core(core), checked_seed(seed), checked_model(model)
    return Attachment(checked_engine(uc), *choices)
