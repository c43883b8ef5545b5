"""Pieces of one run, with the guest's counters and without, on one machine.

A machine's speed depends on where the engine's code lies, and a busy host changes it from one
second to the next. So what is compared takes turns on one machine, whose code stays where it is.
"""

from __future__ import annotations

import gc
import time
from typing import Final

from machines import (
    FOUR,
    INSTRUCTIONS,
    RAM,
    Program,
    ProgramError,
    count,
    named_core,
    operations,
)

import spe_unicorn
from spe_unicorn.machine.board import Board

WITHOUT, AGAIN, ALL = "without", "again", "four"
"""No counter; the same once more, which is what the figures are good for; all four."""
WAYS: Final[dict[str, tuple[int, ...]]] = {
    WITHOUT: (),
    AGAIN: (),
    **dict(zip(("INST_RETIRED", "CPU_CYCLES", "BR_RETIRED", "SAMPLE_POP"), zip(FOUR), strict=True)),
    ALL: FOUR,
}


def seconds_of_pieces(
    program: Program, iterations: int, pieces: int
) -> dict[str, list[tuple[float, float]]]:
    """CPU seconds of ``pieces`` pairs of pieces for each of :data:`WAYS`.

    A piece has ``iterations`` times the operations of one iteration. The first of a pair begins
    with the change of what is counted. Raises ProgramError if the program's result is wrong, or a
    counter at the end of a piece.
    """
    length = iterations * operations(program)
    machine = spe_unicorn.Machine(
        program.image, core=named_core(INSTRUCTIONS), ram=RAM, records=False
    )
    board = machine.board
    board.runner.run(until=program.at("main"))
    program.configure(board.memory, iterations * (2 * pieces * len(WAYS) + 2), 0)
    board.runner.run(until=program.at("bench_begin"))
    board.runner.run(operations=length)
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    gc.collect()
    gc.disable()
    for number in range(pieces):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            began = time.process_time()
            count(board, WAYS[way])
            board.runner.run(operations=length)
            between = time.process_time()
            board.runner.run(operations=length)
            found[way].append((between - began, time.process_time() - between))
            _check(board, WAYS[way], 2 * length, f"{program.name}: {way}")
    gc.enable()
    count(board, ())
    outcome = machine.run()
    if outcome.exit_status != 0:
        raise ProgramError(f"{program.name}: {outcome.cause or outcome}")
    return found


def _check(board: Board, events: tuple[int, ...], executed: int, what: str) -> None:
    counting = board.pes[0].counting
    counting.count_executed()
    for event, value in zip(events, counting.monitors.s.values, strict=False):
        if event in FOUR[:2] and value != executed:
            raise ProgramError(f"{what}: {value} of {executed} operations were counted")
