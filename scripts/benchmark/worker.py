"""A process that runs benchmark programs for the benchmark, on the package of one checkout.

    python worker.py CHECKOUT/scripts/benchmark

The checkout's own ``machines`` says how its machines are built, so that an older commit is measured
by its own interfaces. All that is asked of it are ``Program(name)``, ``bare``, ``board(...)``,
``per_instruction`` and ``per_block`` (machines), ``operations(program)``, and ``ProgramError``.

Each line of standard input is a request as JSON, each line of standard output its answer:

    {"program": NAME, "machine": {"kind": KIND, ...}, "iterations": N}
        -> {"iterations": N, "seconds": S, "events": N, "refused": N}
    {"program": NAME, "pieces": N, "iterations": N}
        -> {WAY: [[FIRST, SECOND], ...], ...}, as counted.seconds_of_pieces returns
    {"program": NAME} -> {"operations": N, "blocks": N}, of one iteration

or {"error": TEXT}.
"""

from __future__ import annotations

import gc
import json
import mmap
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAP_NORESERVE = 0x4000
LARGEST_HOLE = 2000
"""In units of 2 MiB."""


@contextmanager
def random_hole() -> Iterator[None]:
    """Reserve a part of the address space, so that the engine's code buffer lies elsewhere.

    One placement in twelve makes one program in a few much slower, round after round.
    """
    size = random.randrange(1, LARGEST_HOLE) << 21
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    hole = mmap.mmap(-1, size, flags=flags, prot=0)
    try:
        yield
    finally:
        gc.collect()  # the engine goes before the hole does
        hole.close()


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    import machines

    def machine(kind: str, **options: Any) -> Any:
        return machines.board(**options) if kind == "board" else getattr(machines, kind)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        program = machines.Program(request["program"])
        if "pieces" in request:
            import counted

            return counted.seconds_of_pieces(program, request["iterations"], request["pieces"])
        if "machine" not in request:
            blocks = machines.per_block(program, 1).events
            return {"operations": machines.operations(program), "blocks": blocks}
        run = machine(**request["machine"])(program, request["iterations"])
        names = ("iterations", "seconds", "events", "refused")
        return {name: getattr(run, name, 0) for name in names}

    for line in sys.stdin:
        try:
            with random_hole():
                answered = answer(json.loads(line))
        except machines.ProgramError as wrong:
            answered = {"error": str(wrong)}
        except Exception as error:  # what an older commit does not have
            answered = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answered), flush=True)


if __name__ == "__main__":
    main()
