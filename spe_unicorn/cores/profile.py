"""Core profiles: what a core implements, as TOML data.

A profile has ``name``, ``description``, ``midr``, ``features`` (a list), optionally
``architecture`` (such as ``"9.0"``), a table ``impdef`` with the IMPLEMENTATION DEFINED choices
of :class:`~spe_unicorn.arch.features.ImpDef`, and a table ``model`` with the numbers of the cache
model (:class:`~spe_unicorn.cores.model_numbers.ModelNumbers`) and, as ``features`` and ``events``,
what the core has besides where that model is chosen, and a table ``pmu`` with ``counters``, the
number of event counters of the Performance Monitors (0 to 31, else 6). A core that samples
micro-operations has ``cracking``: a table of rules, or the name of a set of them (see
:mod:`spe_unicorn.cores.cracking`). ``registers`` are the core's own registers, which ignore writes
and are read as zero, or as what is said: a table (``CPUECTLR_EL1 = "S3_0_C15_C1_4 = 0x96"``), or a
list of names of such tables, of which a later one goes before an earlier one.
``id`` are the core's ID registers as its manual has them (``ID_AA64ISAR0_EL1 = 0x...``): of what
can be executed, no field shows more. ``clock`` is how many operations a second of the guest has, in
whole kHz. ``strict`` is whether instructions that the core lacks are UNDEFINED, also those that the
engine executes.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from spe_unicorn.arch.access.core import encoding_of
from spe_unicorn.arch.counter import CLOCK, Rate
from spe_unicorn.arch.features import CHOICES, Feature, Features, ImpDef
from spe_unicorn.arch.registers.caches import CLIDR_EL1
from spe_unicorn.arch.registers.id import ID_REGISTERS
from spe_unicorn.arch.registers.pmu import MOST_COUNTERS
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.rules.cache_identification import Cache, Caches, untold
from spe_unicorn.arch.rules.feature_rules import broken_rules, wrong_choices
from spe_unicorn.cores.cracking import Cracking
from spe_unicorn.cores.errata import midr_with, wrong_errata
from spe_unicorn.cores.model_numbers import ModelNumbers, parse_numbers
from spe_unicorn.cores.overrides import OverrideError, Overrides, split_overrides
from spe_unicorn.cores.per_event import per_event

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_SHIPPED = Path(__file__).parent
"""The folder of the built-in profiles, and of what several of them share."""
_MOST_BYTES: Final = 1 << 20
"""The largest profile; those here have some KiB."""


class CoreError(ValueError):
    """A profile that cannot be used: one line that says which key, which value, what is allowed."""


ModelName = Literal["none", "cache"]
"""The core models: constant latencies, or caches, TLBs and a branch predictor."""


@dataclass(frozen=True)
class Core:
    """A core as its profile describes it."""

    name: str
    description: str
    midr: int
    """MIDR_EL1, 32 bits."""
    features: Features
    impdef: ImpDef
    architecture: str | None = None
    clock: int = CLOCK
    """Operations in a second of the guest."""
    strict: bool = False
    """Whether instructions that it lacks are UNDEFINED, also those that the engine executes."""
    cracking: Cracking | None = None
    """How instructions become micro-operations, None where each is one member of the population."""
    counters: int = 6
    """Event counters of the Performance Monitors."""
    wrong_path: int = 0
    """How many operations after a mispredicted branch belong to the population, 0 for none."""
    numbers: ModelNumbers = field(default_factory=ModelNumbers)
    """The numbers of the cache model."""
    model_features: Features = frozenset()
    model_events: frozenset[int] = frozenset()
    """What it has besides where the cache model is chosen."""
    registers: Mapping[str, Encoding] = field(default_factory=dict)
    """Its IMPLEMENTATION DEFINED registers by name."""
    register_values: Mapping[str, int] = field(default_factory=dict)
    """What those of them are read as that are not zero."""

    @property
    def caches(self) -> Caches:
        """The caches that software finds: those of the cache model, whether it is chosen or not."""
        numbers = self.numbers
        l1i, l1d, *unified = (
            Cache(level.sets, level.ways, numbers.line)
            for level in map(numbers.level, ("l1i", "l1d", "l2", "last"))
        )
        manual = dict(self.impdef.identity).get(CLIDR_EL1.__name__)
        return Caches(l1i, l1d, tuple(unified), manual)

    def with_model(self, model: ModelName) -> Core:
        """The core as software sees it where that model is chosen."""
        if model == "none":
            return self
        events = self.impdef.events | self.model_events
        core = replace(
            self,
            features=self.features | self.model_features,
            impdef=replace(self.impdef, events=events),
        )
        if not self.impdef.speculative:
            return core
        cracking = self.cracking or Cracking({})
        return replace(core, cracking=cracking, wrong_path=self.numbers.wrong_path)


def core_names() -> tuple[str, ...]:
    """The names of the built-in profiles, in alphabetical order."""
    names = (entry.name for entry in _SHIPPED.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_core(text: str) -> Core:
    """The built-in core of that name, or the core in a TOML file, as overrides behind it say.

    What has a suffix or a directory is a file, anything else a name; ``generic,midr=0x410fd0c1`` is
    ``generic`` but for one thing. Raises :class:`CoreError`.
    """
    try:
        name, overrides = split_overrides(text)
    except OverrideError as error:
        raise CoreError(f"core {text!r}: {error}") from None
    core = _loaded(name)
    if overrides == Overrides():
        return core
    try:
        return _checked(_overridden(core, overrides))
    except CoreError as error:
        raise CoreError(f"core {text!r}: {error}") from None


_OPTIONS_OF_SVE2: Final = (
    Feature.FEAT_SVE_BitPerm,
    Feature.FEAT_SVE_SHA3,
    Feature.FEAT_SVE_AES,
    Feature.FEAT_SVE_SM4,
    Feature.FEAT_SVE2p1,
)
_OPTIONS: Final = {
    Feature.FEAT_SVE: (
        Feature.FEAT_SVE2,
        Feature.FEAT_F32MM,
        Feature.FEAT_F64MM,
        *_OPTIONS_OF_SVE2,
    ),
    Feature.FEAT_SVE2: _OPTIONS_OF_SVE2,
}
"""Features that go with another one, where that is switched off."""


def _overridden(core: Core, overrides: Overrides) -> Core:
    """The core, with what is said otherwise; nothing is checked."""
    on = {feature for feature, there in overrides.features.items() if there}
    off = overrides.features.keys() - on
    off |= {feature for one in off for feature in _OPTIONS.get(one, ())} - on
    impdef = replace(core.impdef, **overrides.choices)
    return replace(
        core,
        midr=midr_with(impdef, core.midr) if overrides.midr is None else overrides.midr,
        strict=core.strict if overrides.strict is None else overrides.strict,
        features=core.features - off | on,
        model_features=core.model_features - off,
        impdef=impdef,
    )


def _loaded(name_or_path: str) -> Core:
    if "/" in name_or_path or "." in name_or_path:
        try:
            data = _contents(Path(name_or_path))
        except OSError as error:
            raise CoreError(f"{name_or_path}: {error.strerror}") from error
        except CoreError as error:
            raise CoreError(f"{name_or_path}: {error}") from None
        return parse_core(data, name_or_path)
    if name_or_path not in core_names():
        raise CoreError(
            f"core {name_or_path!r}: allowed are {', '.join(core_names())}, or a TOML file"
        )
    resource = f"{name_or_path}.toml"
    return parse_core((_SHIPPED / resource).read_bytes(), resource)


def _contents(file: Path) -> bytes:
    """The bytes of a file that a campaign plan may have named: a FIFO would wait."""
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode):
        raise CoreError("Is a directory" if stat.S_ISDIR(mode) else "is no regular file")
    with file.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise CoreError(f"is too large for a profile: at most {_MOST_BYTES >> 20} MiB")
    return data


def parse_core(data: bytes, source: str) -> Core:
    """The core in the bytes of a profile; ``source`` names it in messages.

    Raises :class:`CoreError` for the first thing that is wrong, but for all broken rules at once.
    """
    try:
        table = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # huge numbers, deep nesting
        raise CoreError(f"{source}: not TOML: {error}") from error
    try:
        return _core(table)
    except CoreError as error:
        raise CoreError(f"{source}: {error}") from error


_KEYS = (
    "name",
    "description",
    "midr",
    "architecture",
    "features",
    "impdef",
    "model",
    "cracking",
    "registers",
    "clock",
    "strict",
    "pmu",
    "id",
)
_RULES = _SHIPPED / "micro_operations"
_REGISTERS = _SHIPPED / "registers"
_CHOICES = {choice.name: choice for choice in CHOICES}


def _core(table: Mapping[str, object]) -> Core:
    _only(table, _KEYS, "key")
    features = _features("features", _take(table, "features", list, []))
    model = dict(_take(table, "model", dict, {}))
    model_features = _features(
        "model.features", _typed("model.features", model.pop("features", []), list)
    )
    model_events = _numbers("model.events", model.pop("events", []))
    try:
        numbers = parse_numbers(model)
    except ValueError as error:
        raise CoreError(str(error)) from error
    registers, register_values = _registers(table.get("registers", {}))
    core = Core(
        name=_take(table, "name", str),
        description=_take(table, "description", str, ""),
        midr=_take(table, "midr", int),
        features=features,
        impdef=replace(
            _impdef(_take(table, "impdef", dict, {})),
            identity=_identity(_take(table, "id", dict, {})),
        ),
        architecture=_take(table, "architecture", str, "") or None,
        clock=_take(table, "clock", int, CLOCK),
        strict=_take(table, "strict", bool, False),
        cracking=_cracking(table),
        counters=_counters(_take(table, "pmu", dict, {})),
        numbers=numbers,
        model_features=model_features,
        model_events=model_events,
        registers=registers,
        register_values=register_values,
    )
    return _checked(core)


def _checked(core: Core) -> Core:
    """The core. Raises CoreError for what the architecture, or we, do not allow together."""
    try:
        broken = broken_rules(core.features, core.architecture)
    except ValueError as error:
        raise CoreError(str(error)) from error
    broken += wrong_choices(core.impdef, core.features)
    broken += wrong_errata(core.impdef, core.midr)
    if broken:
        raise CoreError("; ".join(broken))
    if not 0 <= core.midr < 1 << 32:
        raise CoreError(f"midr = {core.midr:#x}: allowed are 32 bits")
    try:
        Rate.of(core.clock)
    except ValueError as error:
        raise CoreError(f"clock: {error}") from None
    if core.cracking is not None and Feature.FEAT_SPE_ArchInst in core.features:
        raise CoreError("cracking: FEAT_SPE_ArchInst samples architecture instructions; drop one")
    if sentences := list(untold(core.caches, core.features)):
        raise CoreError(f"model: {'; '.join(sentences)}")
    modelled = core.with_model("cache")
    broken = broken_rules(modelled.features, core.architecture)
    broken += wrong_choices(modelled.impdef, modelled.features)
    if broken:
        raise CoreError(f"model: {'; '.join(broken)}")
    return core


def _counters(table: Mapping[str, object]) -> int:
    _only(table, ("counters",), "key in pmu")
    counters: int = _take(table, "counters", int, Core.counters)
    if not 0 <= counters <= MOST_COUNTERS:
        raise CoreError(f"pmu.counters = {counters}: allowed are 0 to {MOST_COUNTERS}")
    return counters


def _cracking(table: Mapping[str, object]) -> Cracking | None:
    if "cracking" not in table:
        return None
    rules = table["cracking"]
    if isinstance(rules, str):
        rules = _shared("cracking", _RULES, rules)
    elif not isinstance(rules, dict):
        raise CoreError(f"cracking = {rules!r}: allowed is a table, or a name of one")
    for kind, words in rules.items():
        for word in _typed(f"cracking.{kind}", words, list):
            _typed(f"cracking.{kind}", word, str)
    try:
        return Cracking(rules)
    except ValueError as error:
        raise CoreError(f"cracking.{error}") from error


def _registers(value: object) -> tuple[Mapping[str, Encoding], Mapping[str, int]]:
    """The registers of a table, or of tables that profiles share, and what is read of them."""
    if isinstance(value, list):
        names = [_typed("registers", name, str) for name in value]
        tables = [_shared("registers", _REGISTERS, name) for name in names]
        value = {name: place for table in tables for name, place in table.items()}
    places: dict[str, Encoding] = {}
    values: dict[str, int] = {}
    for name, text in _typed("registers", value, dict).items():
        place, equals, number = _typed(f"registers.{name}", text, str).partition(" = ")
        try:
            places[name] = encoding_of(name, place)
        except ValueError as error:
            raise CoreError(f"registers: {error}") from error
        if equals:
            values[name] = _register_value(name, number)
    return places, values


def _register_value(name: str, text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 64:
        raise CoreError(f"registers.{name}: {text!r} is no number of 64 bits")
    return value


def _shared(key: str, folder: Path, name: str) -> Mapping[str, Any]:
    """A table that profiles share."""
    known = {
        entry.name.removesuffix(".toml"): entry for entry in folder.iterdir() if entry.is_file()
    }
    if name not in known:
        raise CoreError(f"{key} = {name!r}: allowed are {', '.join(sorted(known))}, or a table")
    return tomllib.loads(known[name].read_text())


_MISSING: Any = object()


def _take(table: Mapping[str, object], key: str, kind: type, default: object = _MISSING) -> Any:
    value = table.get(key, default)
    if value is _MISSING:
        raise CoreError(f"{key} is missing")
    return _typed(key, value, kind)


def _typed(key: str, value: object, kind: type) -> Any:
    if type(value) is not kind:  # a boolean is no number here
        raise CoreError(f"{key} = {value!r}: allowed is {_KINDS[kind]}")
    return value


_KINDS = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


def _only(table: Mapping[str, object], allowed: tuple[str, ...], what: str) -> None:
    for key in table:
        if key not in allowed:
            raise CoreError(f"{key}: no such {what}; allowed are {', '.join(allowed)}")


def _features(key: str, names: list[Any]) -> Features:
    known = {feature.value: feature for feature in Feature}
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise CoreError(f"{key}: {name!r} is unknown; allowed are {', '.join(known)}")
    return frozenset(known[name] for name in names)


def _numbers(key: str, value: object) -> frozenset[int]:
    return frozenset(_typed(key, number, int) for number in _typed(key, value, list))


def _identity(table: Mapping[str, object]) -> tuple[tuple[str, int], ...]:
    known = (*(register.__name__ for register in ID_REGISTERS), CLIDR_EL1.__name__)
    _only(table, known, "ID register")
    values = {name: _typed(f"id.{name}", value, int) for name, value in table.items()}
    for name, value in values.items():
        if not 0 <= value < 1 << 64:
            raise CoreError(f"id.{name} = {value:#x}: allowed are 64 bits")
    return tuple(sorted(values.items()))


def _impdef(table: Mapping[str, object]) -> ImpDef:
    _only(table, tuple(_CHOICES), "choice in impdef")
    choices: dict[str, Any] = {}
    for key, value in table.items():
        default = _CHOICES[key].default
        if isinstance(default, frozenset):
            choices[key] = _numbers(f"impdef.{key}", value)
        elif isinstance(default, tuple):
            if isinstance(value, dict):
                for name, number in value.items():
                    _typed(f"impdef.{key}.{name}", number, int)
                choices[key] = per_event(value)
            else:
                choices[key] = per_event(_typed(f"impdef.{key}", value, int))
        else:
            choices[key] = _typed(f"impdef.{key}", value, type(default))
    return ImpDef(**choices)
