"""``spe-unicorn choices``: what Arm leaves to an implementation, and what software must do."""

from __future__ import annotations

from collections.abc import Iterator

import click

from spe_unicorn.arch.rules.choices import CHOICE, ROWS, Choice
from spe_unicorn.cli.commands.regs import RegsError, table
from spe_unicorn.cores.overrides import value_text


@click.command()
@click.argument("name", metavar="[NAME]", default="")
def choices(name: str) -> None:
    """List what Arm leaves to an implementation, or show one choice."""
    if name and name not in CHOICE:
        raise RegsError(f"{name}: no such choice; there are {', '.join(CHOICE)}")
    for line in show(CHOICE[name]) if name else listing():
        click.echo(line.rstrip())


def listing() -> Iterator[str]:
    """A line for each choice: its values and the default."""
    return table((row.name, _short(row.default), row.values.text) for row in ROWS)


def _short(value: object) -> str:
    everything = isinstance(value, frozenset) and len(value) == 64
    return "all" if everything else value_text(value) or "none"


def show(row: Choice) -> Iterator[str]:
    """All that is known of a choice."""
    yield f"{row.name}: {row.values.text}; {_short(row.default)} by default"
    yield f"  rule: {row.rule}"
    if row.safe:
        yield f"  software: {row.safe}"
    yield f"  use: --core NAME,{row.name}=VALUE"
