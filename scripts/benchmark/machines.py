"""The machines that are compared, and one run of a benchmark program on each.

A program does its work between ``bench_begin`` and ``bench_end``, and that alone is timed, in
seconds of this process's CPU time: other work on the host disturbs it less than the wall clock.
``worker.py`` runs this file, also that of an older checkout, and says which of its names must stay.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from unicorn import UC_HOOK_BLOCK, UC_HOOK_CODE, Uc, UcError
from unicorn.unicorn_const import UC_ERR_EXCEPTION

import spe_unicorn
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.pmu import PMCR_EL0
from spe_unicorn.cores.profile import Core, ModelName, load_core
from spe_unicorn.host.engine.engine import NEVER, PC, PSTATE, Engine, new_engine
from spe_unicorn.host.engine.memory import Ram, RamMemory
from spe_unicorn.machine.board import RAM_BASE, Board
from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.options import Sampling
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.pmu.events import PMUEvent
from spe_unicorn.spe.feed import SampleEvent

RAM = 128 << 20
EL1H_MASKED = 0x3C5
"""PSTATE: EL1 with its own stack pointer, interrupts masked."""
SCR_EL3_FIRMWARE = 0x531
"""EL2 and below are Non-secure and AArch64."""
HCR_EL2_RW = 1 << 31
HLT_SEMIHOSTING = 0xD45E0000
SYS_EXIT_EXTENDED = 0x20


class ProgramError(Exception):
    """A program did not end with status 0, or did not leave the samples that it should."""


@dataclass(frozen=True)
class Run:
    """One run in the measured region: iterations, CPU seconds, and what was counted meanwhile.

    ``events`` are operations, blocks or samples, as the machine's description says. ``refused`` are
    blocks that could not be made to count themselves.
    """

    iterations: int
    seconds: float
    events: int = 0
    refused: int = 0

    @property
    def pace(self) -> float:
        """Seconds an iteration."""
        return self.seconds / self.iterations


class Program:
    """One of the ``bench_*`` programs that come with the package."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.image = load_elf(shipped_firmware(f"bench_{name}"), RAM_BASE, RAM)
        self._symbols = {symbol.name: symbol.address for symbol in self.image.symbols}

    def at(self, symbol: str) -> int:
        """The address of a symbol."""
        return self._symbols[symbol]

    def configure(self, memory: RamMemory, iterations: int, interval: int) -> None:
        """Set the program's two words, after its start-up code has cleared memory.

        ``interval`` is in operations, 0 for no sampling.
        """
        memory.write(self.at("bench_iterations"), iterations.to_bytes(8, "little"))
        memory.write(self.at("bench_spe"), interval.to_bytes(8, "little"))


Machine = Callable[[Program, int], Run]
"""Does a number of a program's iterations. Raises ProgramError."""


def timed(function: Callable[[], None]) -> float:
    """CPU seconds that a call takes, with nothing to collect left over from what came before."""
    gc.collect()
    began = time.process_time()
    function()
    seconds = time.process_time() - began
    gc.collect()
    return seconds


# The engine alone


class _BareEngine:
    """A plain ``Uc`` of our model with our memory map and no hook, at ``bench_begin``."""

    def __init__(self, program: Program, iterations: int) -> None:
        self._program = program
        self.uc = new_engine()
        self._engine = engine = Engine(self.uc)
        ram = Ram(RAM_BASE, RAM)
        ram.map_into(self.uc)
        self._memory = RamMemory(ram)
        for segment in program.image.segments:
            self._memory.write(segment.address, segment.data)
        engine.set_system(system.SCR_EL3.encoding, SCR_EL3_FIRMWARE)
        engine.set_system(system.HCR_EL2.encoding, HCR_EL2_RW)
        engine.put(PSTATE, EL1H_MASKED)
        engine.rebuild()
        engine.put(PC, program.image.entry)
        self._run_to("main")
        program.configure(self._memory, iterations, 0)
        self._run_to("bench_begin")

    def _run_to(self, symbol: str) -> None:
        until = self._program.at(symbol)
        self.uc.emu_start(self._engine.get(PC), until)
        if self._engine.get(PC) != until:
            raise ProgramError(f"{self._program.name}: the bare engine never came to {symbol}")

    def work(self) -> None:
        """The measured region."""
        self._run_to("bench_end")

    def finish(self) -> None:
        """Run to the program's last word, the semihosting call that carries its status.

        With no hook to take that, the engine ends there with an error of its own.
        """
        name, engine = self._program.name, self._engine
        try:
            self.uc.emu_start(engine.get(PC), NEVER)
        except UcError as error:
            if error.errno != UC_ERR_EXCEPTION:
                raise ProgramError(f"{name}: the bare engine stopped: {error}") from error
        at_call = self._memory.read(engine.get(PC), 4) == HLT_SEMIHOSTING.to_bytes(4, "little")
        if not at_call or engine.x(0) != SYS_EXIT_EXTENDED:
            raise ProgramError(f"{name}: the bare engine stopped at {engine.get(PC):#x}")
        if self._memory.read(engine.x(1) + 8, 8) != bytes(8):
            raise ProgramError(f"{name}: wrong result on the bare engine")


def bare(program: Program, iterations: int) -> Run:
    """The engine alone. Counts nothing."""
    machine = _BareEngine(program, iterations)
    seconds = timed(machine.work)
    machine.finish()
    return Run(iterations, seconds)


def hooked(kind: int) -> Machine:
    """The engine with a Python hook of one kind that counts, added for the measured region."""

    def run(program: Program, iterations: int) -> Run:
        machine = _BareEngine(program, iterations)
        count = 0

        def on_event(uc: Uc, address: int, size: int, user: Any) -> None:
            nonlocal count
            count += 1

        handle = machine.uc.hook_add(kind, on_event)
        machine.uc.ctl_flush_tb()
        seconds = timed(machine.work)
        machine.uc.hook_del(handle)
        machine.uc.ctl_flush_tb()
        machine.finish()
        return Run(iterations, seconds, count)

    return run


per_instruction = hooked(UC_HOOK_CODE)
per_block = hooked(UC_HOOK_BLOCK)


# Ours


FOUR: Final = (PMUEvent.INST_RETIRED, PMUEvent.CPU_CYCLES, PMUEvent.BR_RETIRED, SampleEvent.POP)
"""What the four counters count. The first two are the operations of a piece."""
INSTRUCTIONS, MICRO_OPERATIONS = "generic", "neoverse-v2"
"""Cores, by what they sample."""


@lru_cache(maxsize=4)
def named_core(name: str) -> Core:
    """A core that comes along."""
    return load_core(name)


def board(
    interval: int = 0,
    period: int = 0,
    model: ModelName = "none",
    core: str = INSTRUCTIONS,
    kinds: Sequence[str] = (),
    pes: int = 1,
    *,
    counters: bool = False,
    misuse: bool = False,
) -> Machine:
    """The board; events are samples.

    ``interval`` has the guest program SPE, ``period`` samples from outside; both in members of the
    population of ``core``, 0 for not at all. Of the samples from outside those of ``kinds`` are
    kept. The program runs on the first of ``pes`` PEs. ``counters``: four of the guest's counters
    count. ``misuse``: mistakes with SPE are looked for.
    """

    def run(program: Program, iterations: int) -> Run:
        sampling = Sampling(period, tuple(kinds)) if period else None
        machine = spe_unicorn.Machine(
            program.image,
            core=named_core(core),
            ram=RAM,
            sampling=sampling,
            model=model,
            records=False,
            smp=pes,
            misuse=misuse,
        )
        board = machine.board
        board.runner.run(until=program.at("main"))
        program.configure(board.memory, iterations, interval)
        board.runner.run(until=program.at("bench_begin"))
        if counters:
            count(board, FOUR)
        statistics = board.unit.statistics
        before = statistics.written
        seconds = timed(lambda: _work(board, program))
        samples = statistics.written - before
        if counters:
            count(board, ())
        outcome = machine.run()
        if outcome.exit_status != 0:
            why = outcome.cause or machine.console.text.strip()
            raise ProgramError(f"{program.name}: {why or outcome}")
        dropped = statistics.collisions + statistics.filtered
        if statistics.written != statistics.selected - dropped:
            raise ProgramError(f"{program.name}: samples without records: {statistics}")
        if bool(samples) != bool(interval or period):
            raise ProgramError(f"{program.name}: {samples} records")
        return Run(iterations, seconds, samples, board.cpu.hooks.counted_inline.refused)

    return run


def count(board: Board, events: tuple[int, ...]) -> None:
    """Have counters count ``events`` from 0 on, and no others, as the guest would."""
    counting = board.pes[0].counting
    counting.count_executed()
    state = counting.monitors.s
    for number, event in enumerate(events):
        counting.monitors.configure(number, int(event))
        state.values[number] = 0
    state.control = PMCR_EL0.of(E=1, LP=1).value
    state.enabled = (1 << len(events)) - 1
    state.noticed = state.overflowed = 0
    counting.changed()


def _work(board: Board, program: Program) -> None:
    board.runner.run(until=program.at("bench_end"))


def operations(program: Program) -> int:
    """The operations of one iteration."""
    board = spe_unicorn.Machine(
        program.image, core=named_core(INSTRUCTIONS), ram=RAM, records=False
    ).board
    board.runner.run(until=program.at("main"))
    program.configure(board.memory, 1, 0)
    board.runner.run(until=program.at("bench_begin"))
    before = board.cpu.executed
    _work(board, program)
    return board.cpu.executed - before
