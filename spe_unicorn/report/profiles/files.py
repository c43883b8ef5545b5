"""The profiles by name, and how each is written to a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from spe_unicorn.report.export import whole_or_none
from spe_unicorn.report.profiles.branches import bolt, llvm_sample
from spe_unicorn.report.profiles.json_files import firefox, perfetto, speedscope
from spe_unicorn.report.profiles.pprof import pprof
from spe_unicorn.report.profiles.stacks import Profile
from spe_unicorn.report.profiles.text import folded, perf_script
from spe_unicorn.report.samples import Samples

_AT_ONCE = 1 << 20
"""Characters that are written at once."""

PROFILES: dict[str, Callable[[Profile], Iterable[str] | bytes]] = {
    "folded": folded,
    "speedscope": speedscope,
    "firefox": firefox,
    "pprof": pprof,
    "perfetto": perfetto,
    "perfscript": perf_script,
    "bolt": lambda profile: bolt(profile.samples),
    "llvm-sample": llvm_sample,
}
"""What makes a profile of stacks, by the word of ``--format``."""


def write_profile(path: Path, name: str, samples: Samples, by: str) -> None:
    """Write a profile, whole or not at all. ``name`` is of :data:`PROFILES`. Raises OSError."""
    made = profile_of(name, samples, by)
    with whole_or_none([path]) as temporary, temporary[path].open("wb") as file:
        file.writelines(made)


def profile_of(name: str, samples: Samples, by: str) -> Iterator[bytes]:
    """A profile, piece by piece."""
    made = PROFILES[name](Profile(samples, by))
    if isinstance(made, bytes):
        yield made
    else:
        for text in _pieces(made):
            yield text.encode(errors="backslashreplace")


def _pieces(parts: Iterable[str]) -> Iterator[str]:
    """Small texts as large ones."""
    waiting: list[str] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size > _AT_ONCE:
            yield "".join(waiting)
            waiting.clear()
            size = 0
    yield "".join(waiting)
