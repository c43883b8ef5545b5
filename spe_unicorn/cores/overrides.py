"""``NAME,KEY=VALUE,...``: a core profile with some of what it says said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spe_unicorn.arch.features import CHOICES, Feature
from spe_unicorn.cores.per_event import per_event

NOT_EXECUTED: Final = frozenset(
    {
        Feature.FEAT_SME,
        Feature.FEAT_SPE_SME,
        Feature.FEAT_GCS,
        Feature.FEAT_RME,
        Feature.FEAT_SEL2,
    }
)
"""Features that have to do with instructions or states that the engine lacks."""
_SWITCH: Final = {"on": True, "off": False}
_FEATURES: Final = {feature.value: feature for feature in Feature}
_CHOICES: Final = {choice.name: choice.default for choice in CHOICES}


class OverrideError(ValueError):
    """An override that cannot be: one line that begins with its key."""


@dataclass(frozen=True)
class Overrides:
    """What is said otherwise than in a profile."""

    midr: int | None = None
    strict: bool | None = None
    features: Mapping[Feature, bool] = field(default_factory=dict)
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``arch.features.ImpDef``."""


def split_overrides(text: str) -> tuple[str, Overrides]:
    """The profile's name or path, and what comes after it. Raises OverrideError."""
    name, *words = text.split(",")
    midr: int | None = None
    strict: bool | None = None
    features: dict[Feature, bool] = {}
    choices: dict[str, Any] = {}
    for word in words:
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals or not value:
            raise OverrideError(f"{word!r}: say it as KEY=VALUE")
        if key == "midr":
            midr = _number(key, value)
        elif key == "strict":
            strict = _switch(key, value)
        elif key in _FEATURES:
            features[_FEATURES[key]] = _switch(key, value)
        elif key in _CHOICES:
            choices[key] = _READERS[type(_CHOICES[key])](key, value)
        else:
            raise OverrideError(
                f"{key}: no such key; allowed are midr, strict, {', '.join(_CHOICES)} and features,"
                " such as FEAT_SVE=off"
            )
    for feature, there in features.items():
        if there and feature in NOT_EXECUTED:
            raise OverrideError(f"{feature.value}=on: the engine cannot execute what it brings")
    return name, Overrides(midr, strict, features, choices)


def _number(key: str, value: str) -> int:
    try:
        return int(value, 0)
    except ValueError:
        raise OverrideError(f"{key}={value}: allowed is a number") from None


def _switch(key: str, value: str) -> bool:
    if value not in _SWITCH:
        raise OverrideError(f"{key}={value}: allowed are on, off")
    return _SWITCH[value]


def _numbers(key: str, value: str) -> frozenset[int]:
    """Numbers with a plus sign between them, or none."""
    return frozenset() if value == "none" else frozenset(_number(key, n) for n in value.split("+"))


def _per_event(key: str, value: str) -> tuple[tuple[str, int], ...]:
    """A number for all events, or ``EVENT:NUMBER`` with a plus sign between them."""
    if ":" not in value:
        return per_event(_number(key, value))
    pairs = (word.partition(":") for word in value.split("+"))
    return per_event({name.upper(): _number(key, number) for name, _, number in pairs})


_READERS: Final[dict[type, Callable[[str, str], Any]]] = {
    int: _number,
    bool: _switch,
    frozenset: _numbers,
    tuple: _per_event,
}


def core_text(core: str, choices: Mapping[str, Any]) -> str:
    """``--core``'s value for a core with these choices."""
    return ",".join((core, *(f"{name}={value_text(value)}" for name, value in choices.items())))


def value_text(value: Any) -> str:
    """A value of a choice, as ``--core`` takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, frozenset):
        return "+".join(map(str, sorted(value))) or "none"
    if isinstance(value, tuple):
        return "+".join(f"{name}:{number}" for name, number in value)
    return str(value)
