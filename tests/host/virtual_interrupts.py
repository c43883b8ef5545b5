"""A hypervisor that writes HCR_EL2.VI and VF, run in many ways, each in a process of its own.

``python -m tests.host.virtual_interrupts WAY...`` prints a line of JSON for each way: its name and
what the guest has seen. A way that takes too much time of a processor prints that nothing was seen.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
from collections.abc import Callable
from dataclasses import astuple, replace
from functools import partial
from itertools import product

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL2, EL3
from spe_unicorn.arch.registers import banked, system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.engine.context import check_context, save_context
from spe_unicorn.host.engine.engine import Engine
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

SECONDS = 20
"""Of a processor, for each way: a run takes less than one."""
CODE, GUEST, VECTORS = RAM, RAM + 0x1000, RAM + 0x2000
LEVEL_1 = RAM + 0x4000
"""A stage 2 table that maps everything one to one."""
BITS = {"VI": system.HCR_EL2.VI.mask, "VF": system.HCR_EL2.VF.mask}
BITS["both"] = BITS["VI"] | BITS["VF"]
ROUTED = system.HCR_EL2.IMO.mask | system.HCR_EL2.FMO.mask
HCR = astuple(system.HCR_EL2.encoding)
EL1H_UNMASKED = 0x305
WRITES = 2
"""The hypervisor writes HCR_EL2 so often. The second write changes nothing."""


def written(bits: str) -> int:
    """What the hypervisor writes to HCR_EL2."""
    return system.HCR_EL2.RW.mask | system.HCR_EL2.VM.mask | ROUTED | BITS[bits]


def program(bits: str, el: int) -> tuple[dict[int, bytes], list[int]]:
    """Memory, and the addresses of the writes.

    X1, X2 are HCR_EL2 as read after each write; X3 is ISR_EL1 at the vector of EL1, X4 the offset
    of that vector.
    """
    code = [
        *put(system.VBAR_EL1, VECTORS),
        *put(system.SCTLR_EL1, 0x30D0_0800),
        *put(system.VTTBR_EL2, LEVEL_1),
        *put(system.VTCR_EL2, system.VTCR_EL2.of(T0SZ=25, SL0=1, PS=2).value | 1 << 31),
        *put(banked.SPSR[el], EL1H_UNMASKED),
        *put(banked.ELR[el], GUEST),
        *a.mov64(0, written(bits)),
    ]
    places = []
    for number in range(1, WRITES + 1):
        places.append(CODE + 4 * len(code))
        code += [a.msr(HCR, 0), a.mrs(number, HCR)]
    code.append(a.ERET)
    segments = {CODE: a.code(code), GUEST: a.code([a.NOP, a.b(0)])}
    for offset in range(0, 0x800, 0x80):
        vector = [a.mrs(3, astuple(system.ISR_EL1.encoding)), a.movz(4, offset), a.b(0)]
        segments[VECTORS + offset] = a.code(vector)
    blocks = (n << 30 | 0b11 << 6 | 1 << 10 | 0b11 << 8 | 0b1111 << 2 | 1 for n in range(512))
    segments[LEVEL_1] = struct.pack("<512Q", *blocks)
    return segments, places


def seen(machine: Machine) -> dict[str, int]:
    """What the guest has seen in the end, and what the registers are."""
    cpu = machine.board.cpu
    x = cpu.engine.x
    return {
        "first": x(1),
        "second": x(2),
        "isr": x(3),
        "vector": x(4),
        "hcr": cpu.registers.raw(system.HCR_EL2),
        "engine": cpu.engine.system(system.HCR_EL2.encoding),
        "operations": machine.board.executed,
    }


OPERATIONS = 100


def at_once(machine: Machine, places: list[int]) -> None:
    """In one run."""
    assert machine.board.run(OPERATIONS) is Ending.LIMIT


def to_limits(machine: Machine, places: list[int]) -> None:
    """In runs of one operation each."""
    for _ in range(OPERATIONS):
        assert machine.board.run(1) is Ending.LIMIT


def _debugged(machine: Machine, breakpoints: set[int], *, steps: bool) -> None:
    pe = machine.board.pes[0]
    begun = (pe.cpu.pc, pe.cpu.executed) if steps else None
    pe.runner.stops.resume(breakpoints, begun)
    assert machine.board.run(OPERATIONS) is Ending.STOPPED


def stepped(machine: Machine, places: list[int]) -> None:
    """A debugger steps over each write."""
    for place in places:
        _debugged(machine, {place}, steps=False)
        _debugged(machine, set(), steps=True)
        assert machine.board.cpu.pc == place + 4
    machine.board.pes[0].runner.stops.resume((), None)
    machine.board.run(OPERATIONS - machine.board.executed)


def to_breakpoints(machine: Machine, places: list[int]) -> None:
    """A debugger stops just after each write."""
    for place in places:
        _debugged(machine, {place + 4}, steps=False)
        assert machine.board.cpu.pc == place + 4
    machine.board.pes[0].runner.stops.resume((), None)
    machine.board.run(OPERATIONS - machine.board.executed)


def from_snapshots(machine: Machine, places: list[int]) -> None:
    """Saved and restored after each operation."""
    saver = BoardSaver(machine.board)
    for _ in range(OPERATIONS):
        assert machine.board.run(1) is Ending.LIMIT
        saver.restore(saver.save())


def _forged(engine: Engine) -> bytes:
    """The state of an engine as it would be with both bits in it."""
    hcr = system.HCR_EL2.encoding
    clean = engine.system(hcr)
    engine.set_system(hcr, clean | BITS["both"])
    state = save_context(engine.uc)
    engine.set_system(hcr, clean)
    return state


def from_forged_snapshots(machine: Machine, places: list[int]) -> None:
    """Saved and restored before each write, in snapshots in which the engine has both bits."""
    saver = BoardSaver(machine.board)
    for place in places:
        _debugged(machine, {place}, steps=False)
        saved = saver.save()
        context = _forged(machine.board.cpu.engine)
        engines = [replace(saved.engines[0], context=context)]
        saver.restore(replace(saved, engines=tuple(engines)))
        _debugged(machine, {place + 4}, steps=False)
    machine.board.pes[0].runner.stops.resume((), None)
    machine.board.run(OPERATIONS - machine.board.executed)


def after_refused_ones(machine: Machine, places: list[int]) -> None:
    """After snapshots were looked at and not restored, in which the engine has both bits."""
    for place in places:
        _debugged(machine, {place + 4}, steps=False)
        engine = machine.board.cpu.engine
        check_context(engine.uc, engine.rebuild, _forged(engine))
        _debugged(machine, {place + 8}, steps=False)  # nothing up to there writes HCR_EL2
    machine.board.pes[0].runner.stops.resume((), None)
    machine.board.run(OPERATIONS - machine.board.executed)


HOW: dict[str, Callable[[Machine, list[int]], None]] = {
    "at once": at_once,
    "to limits": to_limits,
    "stepped": stepped,
    "to breakpoints": to_breakpoints,
    "from snapshots": from_snapshots,
    "from forged snapshots": from_forged_snapshots,
    "after refused ones": after_refused_ones,
}
RUNNERS: dict[str, type[Runner]] = {"fast": Runner, "reference": ReferenceRunner}
PERIODS = (None, 1, 3)
WAYS = {
    f"{bits}, EL{el}, {how}, {runner}, period {period}": (bits, el, how, runner, period)
    for bits, el, how, runner, period in product(BITS, (EL2, EL3), HOW, RUNNERS, PERIODS)
    if period is None or how == "at once"
}


def run(bits: str, el: int, how: str, runner: str, period: int | None) -> dict[str, int]:
    """What the guest sees, run in this way."""
    segments, places = program(bits, el)
    options = {"runner": RUNNERS[runner], "period": period, "ram": 1 << 20, "el": el}
    machine = Machine(image_of(segments, CODE), **options)
    if el == EL3:
        # to EL1 as ERET at EL3 does, with EL2 enabled
        registers = machine.board.cpu.registers
        registers.set_raw(system.SCR_EL3, 0x531)
    HOW[how](machine, places)
    return seen(machine)


def without_el2_name(runner: str) -> str:
    """The way in which a core without EL2 is run."""
    return f"without EL2, {runner}"


def without_el2(runner: str) -> dict[str, int]:
    """What EL3 sees of HCR_EL2 on a core that has no EL2, where a debugger steps over its MSR."""
    core = load_core("minimal")
    core = replace(core, features=core.features - {Feature.FEAT_EL2})
    board = board_at(
        [*put(system.HCR_EL2, BITS["both"]), a.mrs(1, HCR), a.b(0)],
        core=core,
        runner=RUNNERS[runner],
    )
    last = RAM + 4 * len(a.mov64(0, BITS["both"])) + 4
    stops = board.pes[0].runner.stops
    stops.resume({last}, None)
    assert (board.run(OPERATIONS), board.cpu.pc) == (Ending.STOPPED, last)
    stops.resume((), None)
    assert board.run(OPERATIONS - board.executed) is Ending.LIMIT
    return {"first": board.cpu.engine.x(1), "operations": board.executed}


def _in_a_process(runs: Callable[[], dict[str, int]]) -> dict[str, int] | None:
    """What ``runs()`` gives, in a child that ends when its time is over; None if nothing."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        try:
            os.write(writes, json.dumps(runs()).encode())
        finally:
            os._exit(0)
    os.close(writes)
    os.waitpid(child, 0)
    with os.fdopen(reads, "rb") as answer:
        text = answer.read()
    return json.loads(text) if text else None


if __name__ == "__main__":
    run("VI", EL2, "at once", "fast", None)  # where this hangs, the limit of the caller ends it
    all_ways = {name: partial(run, *way) for name, way in WAYS.items()}
    all_ways |= {without_el2_name(runner): partial(without_el2, runner) for runner in RUNNERS}
    for name in sys.argv[1:]:
        print(json.dumps([name, _in_a_process(all_ways[name])]), flush=True)
