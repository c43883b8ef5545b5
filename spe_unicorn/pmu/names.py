"""Events as people write them: Arm's names in any case, perf's, rNNNN, with :u :k :h."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from spe_unicorn.arch.pe import EL0, EL1, EL2
from spe_unicorn.pmu.countable import MODELLED
from spe_unicorn.pmu.events import PMUEvent as E

ALIASES: Final[Mapping[str, E]] = {
    "cycles": E.CPU_CYCLES,
    "cpu-cycles": E.CPU_CYCLES,
    "instructions": E.INST_RETIRED,
    "branches": E.BR_RETIRED,
    "branch-instructions": E.BR_RETIRED,
    "branch-misses": E.BR_MIS_PRED_RETIRED,
    "cache-references": E.L1D_CACHE,
    "cache-misses": E.L1D_CACHE_REFILL,
    "l1-dcache-loads": E.L1D_CACHE,
    "l1-dcache-load-misses": E.L1D_CACHE_REFILL,
    "dtlb-loads": E.L1D_TLB,
    "dtlb-load-misses": E.L1D_TLB_REFILL,
}
"""perf's names of events."""
_LEVELS: Final = {"u": EL0, "k": EL1, "h": EL2}
_MOST: Final = 0xFFFF
_NEAR: Final = 3


class EventError(ValueError):
    """A name that is no event's; the message says what is near."""


@dataclass(frozen=True)
class NamedEvent:
    """An event as it was asked for, at the Exception levels ``levels``; None for all."""

    text: str
    number: int
    levels: frozenset[int] | None = None


def parse_events(text: str, others: Mapping[str, int]) -> tuple[NamedEvent, ...]:
    """The events of a list with commas; ``others`` are names besides those of PMUEvent.

    Raises :class:`EventError`.
    """
    names = {**{e.name.lower(): int(e) for e in E}, **{n.lower(): v for n, v in others.items()}}
    names |= {alias: int(event) for alias, event in ALIASES.items()}
    return tuple(_parsed(part.strip(), names) for part in text.split(","))


def _parsed(text: str, names: Mapping[str, int]) -> NamedEvent:
    name, colon, modifiers = text.partition(":")
    levels = None
    if colon:
        if not modifiers or not set(modifiers) <= _LEVELS.keys():
            raise EventError(f"{text}: after the colon stand u, k and h")
        levels = frozenset(_LEVELS[letter] for letter in modifiers)
    number = names.get(name.lower())
    if number is None:
        number = _number(name)
    if number is None:
        near = get_close_matches(name.lower(), names, _NEAR)
        raise EventError(f"{name!r} is no event{_hint(map(_shown, near))}")
    return NamedEvent(text, number, levels)


def _hint(near: Iterable[str]) -> str:
    text = ", ".join(near)
    return f"; near it are {text}" if text else ""


def _shown(name: str) -> str:
    return name if name in ALIASES else name.upper()


def _number(name: str) -> int | None:
    """rNNNN, or 0xNNNN."""
    digits = name[1:] if name[:1] in "rR" else name[2:] if name[:2].lower() == "0x" else ""
    try:
        number = int(digits, 16)
    except ValueError:
        return None
    return number if 0 <= number <= _MOST else None


def event_name(number: int, others: Mapping[str, int]) -> str:
    """Arm's name of an event; rNNNN for one without."""
    if number in E._value2member_map_:
        return E(number).name
    return next((name for name, n in others.items() if n == number), f"r{number:04X}")


def why_not(number: int, known: Collection[int]) -> str | None:
    """Why an event cannot be counted where ``known`` can; None if it can."""
    if number in known:
        return None
    if number in MODELLED:
        return "--model cache alone generates it"
    if number not in E._value2member_map_:
        return "nothing here generates it"
    others = [E(other).name for other in sorted(known) if other in E._value2member_map_]
    return f"nothing here generates it{_hint(get_close_matches(E(number).name, others, _NEAR))}"
