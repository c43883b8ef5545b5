"""``spe-unicorn regs``: what the registers are, and what an access to one does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

import click

from spe_unicorn.arch.access.caches import CACHE_ACCESSORS
from spe_unicorn.arch.access.debug import DEBUG_ACCESSORS, FIRST_ACCESSORS
from spe_unicorn.arch.access.identity import IDENTITY_ACCESSORS
from spe_unicorn.arch.access.pmu import pmu_accessors
from spe_unicorn.arch.access.spe import SPE_ACCESSORS, STEERING_ACCESSORS
from spe_unicorn.arch.access.still import StillPE
from spe_unicorn.arch.access.verdicts import Accessor, SysRegTable, access
from spe_unicorn.arch.registers.sysreg import Encoding, SysReg
from spe_unicorn.arch.registers.system import MDCR_EL2
from spe_unicorn.arch.rules.start_state import firmware_state
from spe_unicorn.cli import completing, register_text
from spe_unicorn.cores.profile import Core, CoreError, load_core

_LEVELS: Final = ("EL0", "EL1", "EL2", "EL3")
_EVENT_COUNTERS: Final = 6
_PMU_ACCESSORS: Final = pmu_accessors(_EVENT_COUNTERS)
_TABLE: Final = SysRegTable(
    (
        *SPE_ACCESSORS,
        *STEERING_ACCESSORS,
        *IDENTITY_ACCESSORS,
        *CACHE_ACCESSORS,
        *_PMU_ACCESSORS,
        *DEBUG_ACCESSORS,
    )
)
_NUMBERED: Final = re.compile(r"PMEV(CNTR|TYPER)[1-9]\d*_EL0")


class RegsError(click.ClickException):
    """A usage error, said in one line; exit status 2."""

    exit_code = 2


@click.command()
@click.argument("name", metavar="[NAME[=VALUE]]", default="", shell_complete=completing.registers)
@click.option(
    "--core",
    "core_name",
    default="generic",
    help="Core profile: a name or a TOML file.",
    shell_complete=completing.core_profiles,
)
@click.option("--at", "level", metavar="EL", help="Explain an access from EL0, EL1, EL2 or EL3.")
@click.option(
    "--with",
    "settings",
    metavar="REG.FIELD=V,...",
    multiple=True,
    help="Controls that differ from what firmware leaves for a start at that level.",
)
def regs(name: str, core_name: str, level: str | None, settings: tuple[str, ...]) -> None:
    """List registers, describe NAME, decode VALUE, or explain an access to NAME.

    With --at, the controls are those that firmware leaves for a start at that Exception level in
    Non-secure state; --with changes them. EDSCR.SDD=1 stands for Debug state with that bit set.
    """
    try:
        core = load_core(core_name)
    except CoreError as error:
        raise RegsError(str(error)) from error
    if not name:
        if level is not None or settings:
            raise RegsError("--at and --with need the name of a register")
        lines = listing()
    else:
        wanted, equals, value = name.partition("=")
        accessor = find(wanted)
        if level is not None:
            if equals:
                raise RegsError("--at explains an access; leave out the value")
            lines = explanation(accessor, core, level, settings)
        elif settings:
            raise RegsError("--with needs --at")
        elif equals:
            lines = decoding(accessor, core, value)
        else:
            lines = description(accessor, core)
    for line in lines:
        click.echo(line.rstrip())


def find(name: str) -> Accessor:
    """The accessor called ``name``, in any case, or ``S3_0_C9_C9_2``. Raises :class:`RegsError`."""
    accessor = _TABLE.named(name.upper())
    if numbers := re.fullmatch(r"S(3)_([0-7])_C(\d|1[0-5])_C(\d|1[0-5])_([0-7])", name.upper()):
        accessor = _TABLE.get(Encoding(*map(int, numbers.groups())).key)
    if accessor is not None:
        return accessor
    near = get_close_matches(name.upper(), [a.name for a in _TABLE], 3)
    hint = f"; near are {', '.join(near)}" if near else "; 'regs' without a name lists them"
    raise RegsError(f"no register {name!r}{hint}")


def register_names() -> list[str]:
    """All names that can be asked for."""
    return sorted(accessor.name for accessor in _TABLE)


def listing() -> Iterator[str]:
    """All names, those of SPE first; of each event counter's registers the first."""
    monitors = [a for a in _PMU_ACCESSORS if not _NUMBERED.fullmatch(a.name)]
    for title, accessors in (
        ("SPE", SPE_ACCESSORS),
        ("What steers it", STEERING_ACCESSORS),
        ("The PE and its caches", (*IDENTITY_ACCESSORS, *CACHE_ACCESSORS)),
        ("Debug, number 0 of each breakpoint and watchpoint register", FIRST_ACCESSORS),
        ("Performance Monitors, number 0 of each event counter's registers", monitors),
    ):
        yield f"{title}:"
        yield from table(
            (
                a.name,
                str(a.encoding),
                register_text.directions(a),
                register_text.needs(a),
                register_text.summary(a),
            )
            for a in accessors
        )


def description(accessor: Accessor, core: Core) -> Iterator[str]:
    """Encoding, fields and access rules of one name, on one core."""
    register = _register(accessor)
    encoding = accessor.encoding
    yield f"{accessor.name}: {register_text.summary(accessor)}"
    needs = register_text.needs(accessor)
    if needs:
        absent = "" if register.implemented(core.features) else f"; {core.name} does not have it"
        yield f"  needs     {needs}{absent}"
    yield f"  encoding  {encoding}, op0,op1,CRn,CRm,op2 = {_numbers(accessor)}"
    for read, word in ((True, "MRS X0"), (False, "MSR X0")):
        levels = accessor.read if read else accessor.write
        code = f"{encoding.instruction(0, read=read):#010x}" if levels is not None else "UNDEFINED"
        yield f"  {word}    {code}"
    yield f"Fields on {core.name}:"
    yield from table(register_text.field_rows(register, core.features))
    for el, name in enumerate(_LEVELS):
        yield f"Access at {name}:"
        yield from (f"  {line}" for line in register_text.steps(accessor, el))


def decoding(accessor: Accessor, core: Core, text: str) -> Iterator[str]:
    """The fields of a value."""
    register = _register(accessor)
    value = _number(text, f"{accessor.name}={text}", 64)
    yield f"{accessor.name} = {value:#018x} on {core.name}"
    pe = StillPE(core.features, core.impdef)
    yield from table(register_text.decoded(register, value, pe.registers))


def explanation(
    accessor: Accessor, core: Core, level: str, settings: Iterable[str]
) -> Iterator[str]:
    """The verdicts for MRS and MSR."""
    if level.upper() not in _LEVELS:
        raise RegsError(f"--at {level}: allowed are {', '.join(_LEVELS)}")
    pe = StillPE(core.features, core.impdef, el=_LEVELS.index(level.upper()))
    pe.registers.set_raw(MDCR_EL2, MDCR_EL2.of(HPMN=_EVENT_COUNTERS).value)  # as reset leaves it
    firmware_state(pe.registers, pe.el)
    for setting in settings:
        for part in setting.split(","):
            apply(pe, part.strip())
    yield f"{accessor.name} at {level.upper()} on {core.name}:"
    for read, word in ((True, "MRS"), (False, "MSR")):
        verdict = access(pe, accessor, read=read)
        yield f"  {word}  {register_text.explained(verdict, accessor, read=read)}"


def apply(pe: StillPE, setting: str) -> None:
    """Change a control as ``REG.FIELD=V`` or ``REG=V`` says. Raises :class:`RegsError`."""
    target, equals, text = setting.partition("=")
    name, dot, field_name = target.partition(".")
    if not equals:
        raise RegsError(f"--with {setting}: write REG.FIELD=VALUE or REG=VALUE")
    if target == "EDSCR.SDD":
        pe.sdd = pe.halted = bool(_number(text, f"--with {setting}", 1))
        return
    register = next((r for r in pe.registers if r.__name__ == name), None)
    if register is None:
        raise RegsError(f"--with {setting}: no register {name}")
    old = pe.registers.read(register)
    if not dot:
        pe.registers.set_raw(register, _number(text, f"--with {setting}", 64))
        return
    try:
        field = register.field(field_name)
    except AttributeError as error:
        raise RegsError(f"--with {setting}: {error}") from error
    value = _number(text, f"--with {setting}", field.width)
    if not register.implemented(pe.features) or not field.exists(pe.features):
        raise RegsError(f"--with {setting}: this core does not have {target}")
    pe.registers.set_raw(register, old.replace(**{field_name: value}).value)


def table(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Rows in columns, two spaces apart."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))


def _register(accessor: Accessor) -> type[SysReg]:
    if accessor.register is None:
        raise RegsError(f"{accessor.name} is not allocated")
    return accessor.register


def _numbers(accessor: Accessor) -> str:
    e = accessor.encoding
    return f"{e.op0},{e.op1},{e.crn},{e.crm},{e.op2}"


def _number(text: str, where: str, bits: int) -> int:
    try:
        value = int(text, 0)
    except ValueError as error:
        raise RegsError(f"{where}: {text!r} is not a number") from error
    if not 0 <= value < 1 << bits:
        raise RegsError(f"{where}: allowed are {bits} bits")
    return value
