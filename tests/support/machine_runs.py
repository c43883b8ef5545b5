"""Runs a program on a board and keeps everything that can be looked at afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from unicorn import arm64_const as regs

from spe_unicorn.arch.operation import Operation
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.model import ConstantModel
from spe_unicorn.cores.profile import Core, ModelName
from spe_unicorn.host.pe.entry import TakenException
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import EXECUTE, READ, WRITE, Image, Segment
from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.console_ends import ConsoleEnds, always
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.machine.options import MachineOptions, Sampling
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.spe.external import Asked, ExternalSampler
from spe_unicorn.spe.sampler import SampledCore, Statistics
from spe_unicorn.spe.unit import StatisticalProfilingUnit
from spe_unicorn.symbols.table import SymbolTable

PAGE = 4096
_VECTORS = tuple(regs.UC_ARM64_REG_Q0 + n for n in range(32))


@dataclass(frozen=True)
class Sampled:
    """A record: the place of its operation in the run, counted from 1, and its bytes."""

    operation: int
    pc: int
    record: bytes
    pe: int = 0


@dataclass(frozen=True)
class Result:
    """What a run came to.

    ``stream`` are the bytes of all records of each PE, ``pmu`` how often its PMU events happened.
    ``memory`` holds the pages that are not zero, by address, ``model`` what a cache model knows.
    """

    ending: Ending
    exit_status: int | None
    failure: object
    operations: int
    console: bytes
    records: list[Sampled]
    events: list[tuple[int, object, int]]
    stream: list[bytes]
    pmu: list[dict[int, int]]
    statistics: list[Statistics]
    registers: list[int]
    vectors: list[int]
    system: dict[str, int]
    last_exception: list[TakenException | None]
    memory: dict[int, bytes]
    model: dict[str, bytes]

    def differences(self, other: Result, ignoring: Iterable[str] = ()) -> dict[str, str]:
        """What differs between two runs, each with a few words on where."""
        found = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if field.name not in ignoring and mine != theirs:
                found[field.name] = _where(mine, theirs)
        return found


def _where(mine: object, theirs: object) -> str:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        keys = [k for k in {**mine, **theirs} if mine.get(k) != theirs.get(k)]
        if all(isinstance(k, int) for k in keys):
            return "pages " + ", ".join(f"{k:#x}" for k in keys[:8])
        return ", ".join(f"{k}: {mine.get(k)} != {theirs.get(k)}" for k in keys)
    if isinstance(mine, list) and isinstance(theirs, list):
        at = next((n for n, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
        if at is None:
            return f"{len(mine)} != {len(theirs)} elements"
        return f"element {at} of {len(mine)} and {len(theirs)}: {mine[at]} != {theirs[at]}"
    return f"{mine} != {theirs}"


class Machine:
    """A board with an image, and notes of what it shows.

    ``together``: of records no more than their bytes is noted, so that many can be made at once.
    With ``period`` every such operation is sampled, with ``jitter`` on average only; with ``event``
    the one that makes every such event.
    """

    def __init__(
        self,
        image: Image | Path | str,
        *,
        runner: type[Runner] = Runner,
        period: int | None = None,
        jitter: bool = False,
        event: str | None = None,
        seed: int = 0,
        core: Core | str = "generic",
        model: ModelName = "none",
        ram: int = 128 << 20,
        el: int = EL1,
        smp: int = 1,
        together: bool = False,
    ) -> None:
        self.console = bytearray()
        self.sampled: list[Sampled] = []
        self.operations: list[Operation] = []
        self.events: list[tuple[int, object, int]] = []
        options = MachineOptions(
            core=core,
            ram=ram,
            seed=seed,
            sampling=None if period is None else Sampling(period, jitter=jitter, event=event),
            smp=smp,
            model=model,
        )
        ends = ConsoleEnds(write=self.console.extend, silent=always, patient=always)
        self.board = Board(options, ends, runner)
        if isinstance(image, str):
            image = shipped_firmware(image)
        if isinstance(image, Path):
            image = load_elf(image, RAM_BASE, ram)
        self.image = image
        self.board.load(image)
        if el != EL1:
            self._start_at(el)
        self.streams: list[bytearray] = []
        for pe in self.board.pes:
            self.streams.append(bytearray())
            pe.unit.streamed.connect(self.streams[-1].extend)
            if not together:
                pe.unit.recorded.connect(self._on_record)
            if isinstance(pe.unit, StatisticalProfilingUnit):
                pe.unit.managed.connect(self._on_event)

    def _start_at(self, el: int) -> None:
        board = self.board
        board.firmware.conduit = "smc" if el == EL2 else None
        board.reset(nonsecure=el != EL3)
        board.pes[0].start(el, self.image.entry)

    def _on_record(self, record: bytes, operation: Operation) -> None:
        pe = self.board.running
        self.sampled.append(Sampled(pe.cpu.counted(), operation.pc, bytes(record), pe.number))
        self.operations.append(operation)

    def _on_event(self, event: object, el: int) -> None:
        self.events.append((self.board.running.cpu.counted(), event, el))

    def symbol(self, name: str) -> int:
        """The address of a symbol of the image."""
        return next(s.address for s in self.image.symbols if s.name == name)

    def sample_everything(self) -> None:
        """Sample every operation of the first PE from now on; a runner has to be chosen anew."""
        pe = self.board.pes[0]
        features = self.board.options.profile.features
        pe.unit = ExternalSampler(pe.cpu, Asked(1), SampledCore(ConstantModel(), features=features))
        pe.unit.recorded.connect(self._on_record)

    def go_on_with(self, runner: type[Runner]) -> None:
        """From now on another way to run; translations made for the one so far are forgotten."""
        for pe in self.board.pes:
            pe.cpu.engine.uc.ctl_flush_tb()
            # a runner knows only the blocks that it entered
            pe.cpu.hooks.blocks.forget()
            pe.runner = runner(pe.cpu, pe.unit, pe.handler, pe.counting)

    def run(self, operations: int | None = None) -> Result:
        """Run, and say what it came to so far."""
        ending = self.board.run(operations)
        return self.result(ending)

    def result(self, ending: Ending) -> Result:
        """What there is to see now."""
        board = self.board
        cpus = [pe.cpu for pe in board.pes]
        return Result(
            ending,
            board.exit_status,
            board.running.handler.failure,
            board.executed,
            bytes(self.console),
            list(self.sampled),
            list(self.events),
            [bytes(stream) for stream in self.streams],
            [pe.events.counts for pe in board.pes],
            [pe.unit.statistics for pe in board.pes],
            [value for cpu in cpus for value in (*cpu.engine.general(), cpu.pc, cpu.pstate)],
            [cpu.engine.uc.reg_read(number) for cpu in cpus for number in _VECTORS],
            {
                f"{r.__name__} of {number}": cpu.registers.raw(r)
                for number, cpu in enumerate(cpus)
                for r in cpu.registers
            },
            [cpu.entries.last_exception for cpu in cpus],
            self.pages(),
            self.model(),
        )

    def model(self) -> dict[str, bytes]:
        """What the core model knows, but for what is noted of a sampled operation."""
        found = {}
        for number, model in enumerate(self.board.models):
            if isinstance(model, CacheModel):
                model.begin()
                found[f"data side of {number}"] = model.data.words.tobytes()
                found[f"predictor of {number}"] = model.predictor.words.tobytes()
                found["last level"] = model.data.last.words.tobytes()
        return found

    def pages(self) -> dict[int, bytes]:
        """The pages of RAM that are not zero, by address."""
        ram = self.board.ram
        words = np.frombuffer(ram.bytes, np.uint64).reshape(-1, PAGE // 8)
        return {
            ram.base + PAGE * int(n): words[n].tobytes() for n in words.any(axis=1).nonzero()[0]
        }


def image_of(segments: dict[int, bytes], entry: int) -> Image:
    """An image of pieces of memory by address."""
    return Image(
        Path("test"),
        entry,
        tuple(
            Segment(address, data, len(data), address, READ | WRITE | EXECUTE, 0)
            for address, data in segments.items()
        ),
        SymbolTable(),
    )
