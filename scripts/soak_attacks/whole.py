"""Records of whole runs, against which those of runs that were cut short are held."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

from attack import AttackError
from command import call

from spe_unicorn.machine.shipped import shipped_firmware

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("record", "-c", "2003", "bench_sort"),
    ("record", "-c", "307", "--no-jitter", "bench_hash"),
    ("record", "-c", "97", "--core", "max", "mix"),
    ("record", "-c", "103", "--smp", "4", "priv_smp"),
    ("run", "spe_copy"),
    ("run", "--core", "neoverse-v2", "spe_el0"),
)
"""Words of a command, without its output; a program's name is last. The same bytes every time."""


def chosen(random: Random, suffixes: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """A command, with the file of its program last, and a suffix for its output."""
    *words, name = random.choice(COMMANDS)
    return (*words, str(shipped_firmware(name))), random.choice(suffixes)


def decoded(file: Path) -> tuple[list[str], int]:
    """The records of a file, as JSON objects with their places left out, and decode's status."""
    result = call("decode", "--format", "json", file)
    found = []
    for line in result.stdout.splitlines():
        record = json.loads(line)
        if "error" in record:
            continue
        for place in ("offset", "index", "record"):
            record.pop(place, None)
        found.append(json.dumps(record, sort_keys=True))
    return found, result.exit_code


@functools.cache
def records_of(command: tuple[str, ...], suffix: str) -> tuple[str, ...]:
    """The records of the whole run of a command."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"whole{suffix}")
        call(*command[:-1], "--quiet", "-o", file, command[-1])
        return tuple(decoded(file)[0])


def check_beginning(command: tuple[str, ...], file: Path) -> int:
    """Of a file that was cut short, what can be read is how the whole run begins, on each PE.

    The number of its records; perf.data has those of each PE in pieces, which end where a run ends.
    Raises AttackError if they are others.
    """
    records, status = decoded(file)
    whole = _by_pe(records_of(command, file.suffix))
    for pe, those in _by_pe(records).items():
        if status not in (0, 1, 2) or those != whole.get(pe, [])[: len(those)]:
            pairs = enumerate(zip(those, whole.get(pe, []), strict=False))
            at = next((n for n, (a, b) in pairs if a != b), len(whole.get(pe, [])))
            raise AttackError(
                f"decode: {status}; PE {pe}: {len(those)} records, the first {at} are the same"
            )
    return len(records)


def _by_pe(records: Iterable[str]) -> dict[int, list[str]]:
    """Records by the number of the PE that made them, each PE's in order."""
    found: dict[int, list[str]] = {}
    for record in records:
        found.setdefault(json.loads(record).get("cpu", 0), []).append(record)
    return found
