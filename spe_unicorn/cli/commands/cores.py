"""``spe-unicorn cores``: the core profiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, cast

import click

from spe_unicorn.arch.features import CHOICES, Feature
from spe_unicorn.arch.rules.identification import pmsidr_el1
from spe_unicorn.cli import completing
from spe_unicorn.cli.commands.regs import RegsError, table
from spe_unicorn.cores.profile import Core, CoreError, core_names, load_core
from spe_unicorn.debug.advice.lacking import core_has
from spe_unicorn.instructions.known.features import ISA, Here


@click.command()
@click.argument(
    "name", metavar="[NAME|FILE.toml]", default="", shell_complete=completing.core_profiles
)
def cores(name: str) -> None:
    """List the core profiles, or show one: a name, or a TOML file of your own."""
    try:
        lines = show(load_core(name)) if name else listing()
    except CoreError as error:
        raise RegsError(str(error)) from error
    for line in lines:
        click.echo(line.rstrip())


def listing() -> Iterator[str]:
    """A line for each built-in profile."""
    return table((name, load_core(name).description) for name in core_names())


def show(core: Core) -> Iterator[str]:
    """What a profile says, and what follows from it."""
    yield f"{core.name}: {core.description}"
    yield f"  MIDR_EL1      {core.midr:#010x}"
    if core.architecture is not None:
        yield f"  architecture  Armv{core.architecture}-A"
    if Feature.FEAT_SPE in core.features:
        yield f"  PMSIDR_EL1    {pmsidr_el1(core.features, core.impdef)}"
    if core.cracking is not None:
        yield "Micro-operations:"
        yield from table(
            (kind, ", ".join(words) or "none") for kind, words in core.cracking.rules.items()
        )
    if core.registers:
        yield "Registers of its own, which ignore writes, and what they are read as:"
        yield from table(
            (name, str(place), f"{core.register_values.get(name, 0):#x}")
            for name, place in core.registers.items()
        )
    if core.strict:
        yield "  strict        instructions that it lacks are UNDEFINED"
    yield "Features:"
    yield from (f"  {feature.value}" for feature in Feature if feature in core.features)
    yield "Instructions by feature: since when, its ID field, the core, this machine:"
    yield from table(_instructions(core))
    yield "Choices:"
    yield from table((choice.name, _value(getattr(core.impdef, choice.name))) for choice in CHOICES)
    if core.impdef.identity:
        yield "ID registers, as far as they can be executed:"
        yield from table((name, f"{value:#018x}") for name, value in core.impdef.identity)
    yield "With --model cache:"
    yield from (f"  {feature.value}" for feature in Feature if feature in core.model_features)
    if core.model_events:
        yield from table([("events besides", _value(core.model_events))])
    yield from table(
        (field.name, _number(getattr(core.numbers, field.name))) for field in fields(core.numbers)
    )


def _instructions(core: Core) -> Iterator[tuple[str, ...]]:
    for one in ISA:
        has = core_has(core, one)
        there = "not said" if has is None else "has it" if has else "has it not"
        here = "executes it"
        withheld = has is False and (core.strict or one.here is Here.OURS)
        if one.here is Here.NOBODY or withheld:
            here = "does not execute it"
        field = f"{one.register.__name__}.{one.field} >= {one.least}"
        yield f"FEAT_{one.name}", f"Armv{one.since}", field, there, here


def _number(value: object) -> str:
    """A number of the core model, or a group of them with their names."""
    if isinstance(value, int):
        return str(value)
    parts = ((f.name, getattr(value, f.name)) for f in fields(cast(Any, value)))
    return ", ".join(f"{name} {part}" for name, part in parts)


def _value(value: object) -> str:
    if isinstance(value, frozenset):
        return "all" if len(value) == 64 else ", ".join(map(str, sorted(value))) or "none"
    if isinstance(value, tuple):
        return ", ".join(f"{name} {number}" for name, number in value) or "none"
    return str(value).lower()
