"""What options hold, as click reads it from text. Each refuses a wrong text in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from spe_unicorn.arch.counter import CLOCK_STEP, Rate
from spe_unicorn.debug.tracing.filters import FilterError, TraceFilter, parse_filter
from spe_unicorn.machine.memory_map import RAM_MAX
from spe_unicorn.machine.options import parse_size

if TYPE_CHECKING:
    from spe_unicorn.debug.gdb.connection import Address

_PAGE = 4096

STANDARD_OUTPUT = "-"
"""The name of the file that standard output is."""

TRACES = ("sysreg", "exception", "irq", "mmu", "spe", "pmu", "insn", "memory")
"""What can be traced."""
OPERATIONS = ("load", "store", "branch")
"""Kinds of operation that a recording can be restricted to."""


@dataclass(frozen=True)
class TraceChoice:
    """What one ``--trace`` asks for, and the file that gets it, None for standard error."""

    kinds: tuple[str, ...]
    file: str | None

    @property
    def as_json(self) -> bool:
        """Whether lines are JSON objects."""
        return self.file is not None and self.file.endswith(".jsonl")


_TIMES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
"""What the letter behind a number multiplies it by."""


class Whole(click.IntRange):
    """A whole number in a range, such as ``5000000``, ``5M`` or ``1.5k``."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Raises click.BadParameter."""
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmg])", str(value), re.ASCII | re.IGNORECASE)
        if match is not None:
            times = Decimal(match[1]) * _TIMES[match[2].lower()]
            value = int(times) if times == int(times) else value
        result: int = super().convert(value, param, ctx)
        return result


def size(text: str) -> int:
    """Bytes of memory, such as ``128M`` or ``0x8000000``."""
    try:
        result = parse_size(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not 0 < result <= RAM_MAX or result % _PAGE:
        raise click.BadParameter(f"{text!r}: allowed are multiples of 4K up to 255G")
    return result


def context_ids(text: str) -> frozenset[int]:
    """Values of CONTEXTIDR with commas between them, decimal or hexadecimal (``0x``)."""
    try:
        values = frozenset(int(part, 0) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r}: say numbers, with commas between them") from None
    if not all(0 <= value < 1 << 32 for value in values):
        raise click.BadParameter(f"{text!r}: a CONTEXTIDR has 32 bits")
    return values


def hertz(text: str) -> int:
    """A frequency, such as ``100M``, ``62.5MHz`` or ``1000000000``, in whole kHz."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmg]?)(?:hz)?", text, re.ASCII | re.IGNORECASE)
    if match is None:
        raise click.BadParameter(
            f"{text!r} is no frequency; write 100M, 62.5MHz, 2.5G or a number of Hz"
        )
    digits, suffix = match.groups()
    value = Decimal(digits) * _TIMES[suffix.lower()]
    try:
        Rate.of(int(value))
    except ValueError:
        value = Decimal(0)
    if not value or value % CLOCK_STEP:
        raise click.BadParameter(f"{text!r}: allowed are whole kHz from 1M to 10G")
    return int(value)


def console(*words: str) -> Callable[[str], str]:
    """Where a console is: one of a few words, or a file after ``file:``."""

    def convert(text: str) -> str:
        if text not in words and not text.removeprefix("file:"):
            raise click.BadParameter(f"{text!r}: a file name is missing after the colon")
        if text not in words and not text.startswith("file:"):
            allowed = f"{', '.join(words)} and file:PATH"
            raise click.BadParameter(f"{text!r}: allowed are {allowed}")
        return text

    return convert


def address(text: str) -> Address:
    """Where a debugger connects."""
    from spe_unicorn.debug.gdb.connection import AddressError, parse_address

    try:
        return parse_address(text)
    except AddressError as error:
        raise click.BadParameter(str(error)) from None


def number(text: str) -> int:
    """A whole number, in decimal or with 0x."""
    try:
        return int(text, 0)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a whole number") from None


def seconds(text: str) -> float:
    """A time in seconds, more than none."""
    try:
        result = float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a number of seconds") from None
    if not 0 < result < float("inf"):
        raise click.BadParameter(f"{text!r}: a time is more than 0 seconds")
    return result


def words(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """Some of a few words, separated by commas: each once, in the order of ``allowed``."""

    def convert(text: str) -> tuple[str, ...]:
        given = text.split(",")
        for word in given:
            if word not in allowed:
                raise click.BadParameter(f"{word!r}: allowed are {', '.join(allowed)}")
        return tuple(word for word in allowed if word in given)

    return convert


_traces = words(*TRACES)


def trace(text: str) -> TraceChoice:
    """``KIND[,KIND...][:FILE]``."""
    kinds, colon, file = text.partition(":")
    if colon and not file:
        raise click.BadParameter(f"{text!r}: a file name is missing after the colon")
    return TraceChoice(_traces(kinds), file or None)


def trace_filter(text: str) -> TraceFilter:
    """``KEY=VALUE[,KEY=VALUE...]``."""
    try:
        return parse_filter(text)
    except FilterError as error:
        raise click.BadParameter(str(error)) from None
