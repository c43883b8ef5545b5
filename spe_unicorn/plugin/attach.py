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

from unicorn import Uc, UcError
from unicorn import unicorn_const as uc_const
from unicorn.arm64_const import UC_CPU_ARM64_MAX
from unicorn.unicorn_py3.unicorn import HOOK_INTR_CFUNC

from spe_unicorn.arch.access.pmu import pmu_accessors
from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.access.verdicts import (
    Accessor,
    SysRegTable,
    SystemAccessTrap,
    Undefined,
    access,
)
from spe_unicorn.arch.exceptions.entry import ExceptionRecord, ExceptionType
from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.pe import EL1, EL3
from spe_unicorn.arch.random_source import RandomSource
from spe_unicorn.arch.registers import banked
from spe_unicorn.arch.registers import system as s
from spe_unicorn.arch.registers.by_name import Registers
from spe_unicorn.arch.registers.spe import SPE_REGISTERS
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.arch.rules.start_state import firmware_state
from spe_unicorn.cores.profile import Core, ModelName
from spe_unicorn.host.counting.counting import monitored
from spe_unicorn.host.engine.engine import Engine, lib
from spe_unicorn.host.engine.memory import EngineMemory
from spe_unicorn.host.engine.surviving import not_surviving
from spe_unicorn.host.native.state import READ, UNBOUNDED, Action, Stop, grant
from spe_unicorn.host.pe.access import monitor_registers
from spe_unicorn.host.pe.at_rest import forget
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.interrupts import Interrupts
from spe_unicorn.host.pe.stops import StopHandler
from spe_unicorn.host.ports import NEVER_HAPPENS, DeviceRegister, Ending, EngineException
from spe_unicorn.host.run.models import core_models
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.plugin import saved
from spe_unicorn.plugin.checks import (
    MOST_INTERVAL,
    MOST_LATENCY,
    AttachError,
    checked_callback,
    checked_core,
    checked_engine,
    checked_model,
    checked_seed,
    checked_types,
    whole_number,
)
from spe_unicorn.pmu.junction import EventJunction
from spe_unicorn.spe.external import ExternalSampler
from spe_unicorn.spe.filter import Flag, chosen_filter
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from spe_unicorn.spe.sampler import Sampler, Statistics
from spe_unicorn.spe.unit import StatisticalProfilingUnit

RecordCallback = Callable[[Record, bytes], None]
"""Called with each record, decoded and as its bytes."""

_STEERING: Final = (
    *(s.SCR_EL3, s.MDCR_EL3, s.HCR_EL2, s.MDCR_EL2),
    *(s.CNTHCTL_EL2, s.CNTVOFF_EL2, s.CPTR_EL2, s.CPTR_EL3),
)
"""What firmware sets before it hands over: our own where no firmware has run on the engine."""
_NOT_BEFORE_VHE: Final = (s.TTBR1_EL2, s.CONTEXTIDR_EL2)
"""Registers that the engine's models other than MAX lack."""
_UNDEFINED: Final = 1
"""The engine's number for an Undefined exception."""
_DONE, _ENGINE, _STOP = 1, 0, 2
"""Answers to :attr:`Action.ASK`."""


_attached: Final[WeakSet[Uc]] = WeakSet()
"""Engines that have SPE now."""
_PUBLIC: Final = (
    *("core", "detach", "emu_start", "events", "on_record", "program", "registers", "restore"),
    *("save", "statistics", "uc"),
)
"""What an attachment is used by; its other attributes are its parts."""


class DetachedError(RuntimeError):
    """SPE was detached from the engine."""


class TrappedAccessError(Exception):
    """An access to an SPE register was trapped to an Exception level that has no vectors.

    ``verdict`` is the rules' answer, with the rule that decided it.
    """

    def __init__(self, name: str, pc: int, verdict: SystemAccessTrap) -> None:
        super().__init__(
            f"the access to {name} at {pc:#x} traps to EL{verdict.target_el}, whose VBAR is not"
            f" set: {verdict.rule.text}"
        )
        self.verdict = verdict


class ProfilingExceptionError(Exception):
    """What SPE raises has no vectors at the Exception level that takes it, ``target_el``."""

    def __init__(self, what: str, target_el: int, pc: int) -> None:
        super().__init__(f"{what} before {pc:#x} is taken to EL{target_el}, whose VBAR is not set")
        self.target_el = target_el


_RAISED: Final = {
    ExceptionType.SYNC: "the SPE Profiling exception",
    ExceptionType.SERROR: "an SError",
}
"""What SPE raises."""


class _Interrupts(Interrupts):
    """What SPE raises, in runs of the attachment's: nothing else interrupts the PE."""

    def __init__(self, cpu: UnicornCPU, attachment: Attachment) -> None:
        super().__init__(cpu)
        self._attachment = attachment

    def update(self) -> None:
        """Runs of the user's own are not to stop for what is pending."""
        if self._attachment.running:
            super().update()

    def _enter(self, record: ExceptionRecord, target_el: int) -> None:
        cpu = self._cpu
        what = _RAISED.get(record.kind)
        if what is None or cpu.registers.raw(banked.VBAR[target_el]):
            super()._enter(record, target_el)
        else:
            self._attachment.handler.end(ProfilingExceptionError(what, target_el, cpu.pc))


class _Handler(StopHandler):
    """What a stop asks for when everything around the PE is the user's."""

    error: Exception | None = None

    def __init__(
        self,
        cpu: UnicornCPU,
        attachment: Attachment,
        interrupts: Interrupts,
        table: SysRegTable,
        registers: Mapping[type[SysReg], DeviceRegister],
    ) -> None:
        super().__init__(cpu, _NoPlatform(), table, registers, interrupts)
        self._attachment = attachment

    def handle(self, stop: Stop) -> bool:
        """System accesses are ours; exceptions have already been with the user's hooks."""
        self.system.stopped()
        if stop is Stop.SYSTEM:
            return super().handle(stop)
        if stop is Stop.EXCEPTION and self._masks():
            return False
        if stop is Stop.TRAP and self._attachment._raise_undefined():
            return True
        if not self._attachment._handles_exceptions():
            self.end(UcError(uc_const.UC_ERR_EXCEPTION))
        return True

    def _masks(self) -> bool:
        """Whether the PE stands at an MSR PM, #<imm>; it is then done."""
        cpu = self.cpu
        words = cpu.virtual.code(cpu.pc, 1)
        if not words or not self.system.masks_profiling(words[0]):
            return False
        cpu.pc = cpu.pc + 4
        return True

    def idle(self) -> None:
        """WFI, the user's stop, or an error of the engine, which is the user's to see."""
        if self.status:
            self.end(UcError(self.status))
        self.ending = Ending.INTERRUPTED

    def prevents_trap(self, accessor: Accessor, trap: SystemAccessTrap) -> bool:
        """A trap enters the guest's vectors if it has any, else it is the caller's to see."""
        if self.cpu.registers.raw(banked.VBAR[trap.target_el]):
            return False
        self.end(TrappedAccessError(accessor.name, self.cpu.pc, trap))
        return True

    def fail(self, reason: str, hint: str = "") -> None:
        """What cannot go on is the caller's to see, too."""
        super().fail(reason, hint)
        self.end(RuntimeError(reason))

    def end(self, error: Exception) -> None:
        """The run is over, and raises ``error``."""
        self.error = error
        self.ending = Ending.FAILED


class _NoPlatform:
    """No device, no firmware, no host behind the PE, and nothing that happens by itself."""

    deadline = NEVER_HAPPENS

    def happen(self) -> None:
        """Nothing does."""

    def wait(self) -> bool:
        """Nothing ends the wait."""
        return False

    def claims(self, address: int) -> bool:
        """No device is ours."""
        return False

    def read(self, address: int, size: int) -> int:
        """Nobody asks."""
        raise LookupError(f"no device at {address:#x}")

    def write(self, address: int, size: int, value: int) -> None:
        """Nobody asks."""
        raise LookupError(f"no device at {address:#x}")

    def wait_for_event(self) -> None:
        """A WFE completes at once."""

    def send_event(self) -> None:
        """Nobody hears of it."""

    def call(self, exception: EngineException) -> bool:
        """HVC and SMC are the user's."""
        return False

    def semihosting(self) -> bool:
        """So is HLT."""
        return False


class _NoLine:
    """An interrupt that goes nowhere: there is no interrupt controller."""

    def set_level(self, level: bool) -> None:
        """Nobody hears of it."""


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
        firmware = engine.system(s.SCR_EL3.encoding) != 0
        ours = (*lacking, *(() if firmware else _STEERING))
        self.memory = EngineMemory(uc)
        self.cpu = UnicornCPU(
            engine, self.memory, core.features, core.impdef, random, answer=Action.ASK, ours=ours
        )
        self.cpu.hooks.ask_by(self._answer)
        file = self.cpu.registers
        unknown = random.stream("reset").bits64
        for register in SPE_REGISTERS:
            if register in file:
                value = register.reset_value(core.features, unknown)
                file.set_raw(register, value & file.present(register))
        if not firmware:
            # no firmware has run: the documented state, in cells of ours alone
            if s.MDCR_EL2 in file:
                file.set_raw(s.MDCR_EL2, s.MDCR_EL2.of(HPMN=core.counters).value)
            firmware_state(file, min(max(self.cpu.el, EL1), EL3))
        self._identity = saved.identity(core, model)
        self._interval = random.stream("interval")
        self._model = core_models(core, model)(self.cpu, None)
        self.running = False
        """Whether :meth:`emu_start` is on its way."""
        self.events = EventJunction()
        """The PMU events of sampling as the guest programs it, by number: ``events.counts``."""
        interrupts = _Interrupts(self.cpu, self)
        self._programmed: saved.Programmed | None = None
        self._own_unit = StatisticalProfilingUnit(
            self.cpu,
            self.memory,
            self._model,
            self._interval,
            self.cpu.counted,
            exception=interrupts.profiling,
            serror=interrupts.pend_serror,
            events=self.events,
            cracker=core.cracking,
            wrong_path=core.wrong_path,
        )
        self.unit: Sampler = self._own_unit
        self._counting = monitored(
            *(self.cpu, core.counters, _NoLine(), interrupts.monitors, self.events),
            cracker=core.cracking,
        )
        self._counting.totals.aside = self._ran_aside
        self._counting.totals.sampling = lambda: self.running and self.unit.enabled
        self._counting.reset(random.stream("PMU").bits64)
        monitors = pmu_accessors(core.counters)
        monitor_registers.install(self.cpu.hooks, monitors, Action.ASK)
        self._table = SysRegTable((*SPE_ACCESSORS, *STEERING_ACCESSORS, *monitors))
        self.registers = Registers(file)
        self._callbacks: list[RecordCallback] = []
        self._executed = 0
        registers = self._counting.registers
        self.handler = _Handler(self.cpu, self, interrupts, self._table, registers)
        self.runner = Runner(self.cpu, self.unit, self.handler, self._counting)
        self._observe(self.unit)
        self.cpu.hooks.install(weighed=core.cracking is not None)
        engine.forget_all_code()
        self._leave()
        self._emu_stop = uc.emu_stop
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

    def _must_be_attached(self, what: str) -> None:
        if not self._is_attached:
            raise DetachedError(f"{what}: SPE was detached from this engine; attach it again")

    @property
    def statistics(self) -> Statistics:
        """What sampling came to so far."""
        return self.unit.statistics

    def on_record(self, callback: RecordCallback) -> None:
        """Have ``callback(record, raw)`` called for each record: decoded, and as its bytes.

        Raises TypeError for what cannot be called.
        """
        self._must_be_attached("on_record")
        self._callbacks.append(checked_callback(callback))

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
        unit = ExternalSampler(
            self.cpu,
            asked.interval,
            self._model,
            chosen_filter(flags, asked.min_latency),
            self.core.features,
            self.core.cracking,
            self.core.wrong_path,
        )
        self._observe(unit)
        self._sample_by(unit)

    def _sample_by(self, unit: Sampler) -> None:
        self.unit = unit
        if not self.running:
            self._set_aside()  # the runner begins to count where the last one ended
        self.runner = Runner(self.cpu, unit, self.handler, self._counting)

    def save(self) -> dict[str, Any]:
        """SPE and the Performance Monitors as they stand, as JSON has it: for :meth:`restore`.

        It belongs to a ``uc.context_save()`` and a copy of memory of the same moment. The engine
        forgets its TLB and translated code. Raises RuntimeError within a run.
        """
        self._at_rest("save")
        self._set_aside()
        forget(self.handler, self.unit)
        return saved.save(self, self.handler, self._identity, self._programmed)

    def restore(self, state: Mapping[str, Any]) -> None:
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
        self._let_go()

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
        if self.running:
            raise RuntimeError(f"{what}: emu_start is running; call it from no hook")

    def emu_start(self, begin: int, until: int, timeout: int = 0, count: int = 0) -> None:
        """As ``Uc.emu_start``, with sampling: from ``begin`` up to ``until``, which is not run.

        ``timeout`` is in microseconds, ``count`` in operations, both 0 for none; ``count`` and
        ``until`` are exact. Raises what the engine would raise: UcError, or what a hook of the
        user's raised; and :class:`TrappedAccessError`.
        """
        self._must_be_attached("emu_start")
        if self.running:
            raise RuntimeError("emu_start is already running; call it from no hook")
        self._enter()
        self.cpu.forget_el()
        self.unit.reload()
        self.uc._hook_exception = None  # where the binding keeps what a hook raised
        self.handler.error = None
        self.cpu.pc = begin
        deadline = time.monotonic() + timeout / 1e6 if timeout else None
        forget_clock = self.runner.slice_ended.connect(lambda: self._look_at_clock(deadline))
        self.running = True
        self.uc.emu_start = self._run_nested
        self.handler.interrupts.update()
        try:
            self.runner.run(count or None, until)
        finally:
            self.running = False
            del self.uc.emu_start
            forget_clock()
            self._leave()
        error = self.uc._hook_exception or self.handler.error
        if error is not None:
            raise error

    def _set_aside(self) -> None:
        """What ran outside took its time, but is not counted."""
        state = self.cpu.state
        executed = self.cpu.executed - self._executed
        state.skipped += executed
        state.granted -= executed
        self._counting.changed()

    def _ran_aside(self) -> int:
        """Operations of a run of the user's own, until they are set aside."""
        return 0 if self.running else self.cpu.executed - self._executed

    def _enter(self) -> None:
        """Take over counts and exceptions."""
        cpu, state = self.cpu, self.cpu.state
        self.handler.system.stopped()
        self._counting.settle()
        self._set_aside()
        grant(state, 0)
        state.nothing_is_due()
        state.unattended = 0
        state.writes += 1
        state.epoch += 1  # the user may have written registers or tables
        if cpu.model is not None:
            cpu.model.stopped(executed=False, pc=cpu.pc)
        cpu.hooks.stop_at_exceptions()

    def _leave(self) -> None:
        """Have the user's own runs of the engine stop for nothing of ours."""
        self._let_go()
        self.cpu.hooks.ignore_exceptions()

    def _let_go(self) -> None:
        cpu, state = self.cpu, self.cpu.state
        self._executed = cpu.executed
        state.begin(UNBOUNDED)
        state.nothing_is_due()
        state.deliver = 0
        state.unattended = 1

    def _run_nested(self, *arguments: int, **named: int) -> None:
        """Stands in for ``uc.emu_start`` in hooks: no abort may go past their frames."""
        with not_surviving(lib.uc_emu_start):
            type(self.uc).emu_start(self.uc, *arguments, **named)

    def detach(self) -> None:
        """Leave the engine as it was: no hook of ours, no register of SPE.

        What was counted stays to be read. Raises DetachedError the second time.
        """
        self._must_be_attached("detach")
        if self.running:
            raise RuntimeError("detach: emu_start is running; call it from no hook")
        self._is_attached = False
        _attached.discard(self.uc)
        self.cpu.hooks.remove()
        del self.uc.emu_stop

    def _handles_exceptions(self) -> bool:
        """Whether the user has a hook that takes exceptions; without, the engine ends the run."""
        return any(isinstance(hook, HOOK_INTR_CFUNC) for hook in self.uc._callbacks.values())

    def _raise_undefined(self) -> bool:
        """Have the user's hooks see an Undefined exception, as the engine does; False for none."""
        hooks = [h for h in self.uc._callbacks.values() if isinstance(h, HOOK_INTR_CFUNC)]
        for hook in hooks:
            hook(self.uc._uch, _UNDEFINED, None)
        return bool(hooks)

    def _observe(self, unit: Sampler) -> None:
        unit.recorded.connect(self._on_record)

    def _on_record(self, raw: bytes, operation: Operation) -> None:
        if self._callbacks:
            placed = read_record(raw, 0)
            if not isinstance(placed, PlacedRecord):
                raise RuntimeError(f"a record of ours cannot be read: {placed}")
            for callback in self._callbacks:
                callback(placed.record, raw)

    def _look_at_clock(self, deadline: float | None) -> None:
        if deadline is not None and time.monotonic() >= deadline:
            self.runner.stopping = True

    def _stop_asked_for(self) -> None:
        """Stands in for ``uc.emu_stop``: tells the user's stops from ours."""
        self.handler.ending = Ending.INTERRUPTED
        self._emu_stop()

    def _answer(self) -> int:
        """An MRS or MSR of a register that the engine lacks; called in the middle of a run."""
        try:
            return self._decide()
        except BaseException as error:
            self._raise(error)
            return _DONE

    def _decide(self) -> int:
        cpu = self.cpu
        state = cpu.hooks.state
        accessor = self._table.get(state.key)
        if not self.running:
            state.writes += 1  # the user may have written registers
        if monitor_registers.is_engines(state.key):
            self.handler.system.stopped()
            return self.handler.system.answer()
        cpu.forget_el()
        verdict = None if accessor is None else access(cpu, accessor, state.kind == READ)
        if verdict is None or isinstance(verdict, Undefined):
            return _ENGINE
        if self.running:
            return _STOP
        self.handler.error = None
        self.handler.handle(Stop.SYSTEM)
        self.handler.system.redirected = None  # nothing was sampled
        if self.handler.error is not None:
            self._raise(self.handler.error)
        return _DONE

    def _raise(self, error: BaseException) -> None:
        """Stop the engine and have the binding raise ``error``, as for one in a user's hook."""
        self.uc._hook_exception = error
        self.cpu.pc = self.cpu.pc  # written, it is where the engine leaves its block
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
