"""Registers, their fields and their access rules as text, for ``regs`` and for the reference."""

from __future__ import annotations

from collections.abc import Iterator

from spe_unicorn.arch.access.verdicts import (
    Accessor,
    Rule,
    Step,
    SystemAccessTrap,
    Undefined,
    Verdict,
)
from spe_unicorn.arch.features import Features
from spe_unicorn.arch.registers.spe import PMBSR
from spe_unicorn.arch.registers.sysreg import RegisterFile, SysReg
from spe_unicorn.bits import UNKNOWN, Field, Res0, Res1
from spe_unicorn.debug.verdicts import outcome
from spe_unicorn.spe.management import status_text


def summary(accessor: Accessor) -> str:
    """The register's long name, or what the name stands for."""
    if accessor.register is None:
        return "not allocated"
    long_name = (accessor.register.__doc__ or "").partition("\n")[0].rstrip(".")
    if accessor.name != accessor.register.__name__:
        return f"{accessor.register.__name__}, from EL2 with HCR_EL2.E2H set"
    return long_name


def directions(accessor: Accessor) -> str:
    """``RW``, ``RO`` or ``WO``."""
    return {(True, True): "RW", (True, False): "RO", (False, True): "WO"}[
        accessor.read is not None, accessor.write is not None
    ]


def needs(accessor: Accessor) -> str:
    """What a core must have for the name to exist, empty for all cores."""
    levels = accessor.read or accessor.write
    rule = levels[3][0].verdict.rule if levels else None
    prefix = "the core does not have "
    return rule.text.removeprefix(prefix) if rule is not None and rule.name == "feature" else ""


def explained(verdict: Verdict, accessor: Accessor, rt: int = 0, *, read: bool) -> str:
    """A verdict with the syndrome of its exception and the rule that decided it."""
    text = outcome(verdict)
    if isinstance(verdict, SystemAccessTrap):
        text += f", ISS {accessor.encoding.iss(rt, read=read):#x}"
    return f"{text}: {verdict.rule.text} [{verdict.rule.name}]"


def steps(accessor: Accessor, el: int) -> Iterator[str]:
    """The access rules at an Exception level in their order, a line each."""
    read = accessor.read[el] if accessor.read is not None else None
    write = accessor.write[el] if accessor.write is not None else None
    if read is None or write is None:
        yield from (_step(step, step) for step in read or write or ())
        return
    writes = list(write)
    for step in read:
        same = next((n for n, other in enumerate(writes) if _kind(other) == _kind(step)), None)
        if same is None:
            yield f"for MRS {_step(step, step)}"
            continue
        yield from (f"for MSR {_step(other, other)}" for other in writes[:same])
        yield _step(step, writes[same])
        del writes[: same + 1]
    yield from (f"for MSR {_step(other, other)}" for other in writes)


def _kind(step: Step) -> tuple[str, str]:
    """What steps of a read and of a write have in common that are one step to a reader."""
    return step.verdict.rule.name, outcome(step.verdict)


def _step(read: Step, write: Step) -> str:
    does = outcome(read.verdict)
    if read.test is None:
        return does if isinstance(read.verdict, Undefined) else f"otherwise {does}"
    return f"{_either(read.verdict.rule, write.verdict.rule)}: {does}"


def _either(read: Rule, write: Rule) -> str:
    return read.text if read.text == write.text else f"{read.text}, for MSR {write.text}"


def field_rows(register: type[SysReg], features: Features | None) -> Iterator[tuple[str, ...]]:
    """Bits, name, reset value and meaning of each field, reserved ones included.

    Without ``features`` every field that any core can have is there; with them, those of one core.
    """
    fields = register.fields if features is None else register.active(features)
    for field in fields:
        if isinstance(field, (Res0, Res1)):
            yield field.bits, "RES1" if isinstance(field, Res1) else "RES0", "", ""
        else:
            yield field.bits, field.name, _reset(field, features), _meaning(field)


def _meaning(field: Field) -> str:
    if field.values is None:
        return field.doc
    values = ", ".join(f"{v.value:#x} {v.name}" for v in field.values)
    return f"{field.doc} {values}.".strip()


def _reset(field: Field, features: Features | None) -> str:
    if not field.writable:
        return "fixed"
    if callable(field.reset) and features is None:
        return "0 or UNKNOWN"
    reset = field.reset_in(features)
    return "UNKNOWN" if reset is UNKNOWN else f"{reset:#x}"


def decoded(
    register: type[SysReg], value: int, file: RegisterFile
) -> Iterator[tuple[str, str, str, str]]:
    """Bits, name, value and meaning of each field in a value, as one core has them."""
    for field in register.active(file.features):
        number = value >> field.lsb & field.max
        if isinstance(field, Res0):
            if number:
                yield field.bits, "RES0", f"{number:#x}", "not kept: reserved on this core"
        elif isinstance(field, Res1):
            if number != field.max:
                yield field.bits, "RES1", f"{number:#x}", "reads as ones"
        else:
            lost = number & ~(file.present(register) >> field.lsb)
            note = f" Bits {lost:#x} of it are RES0 on this core." if lost else ""
            meaning = field.doc
            if issubclass(register, PMBSR) and field.name == "MSS":
                meaning = f"Syndrome: {status_text(register(value))}."
            yield field.bits, field.name, field.text(number), meaning + note
    active = register.active(file.features)
    for field in register.fields:
        number = value >> field.lsb & field.max
        gone = field not in active and not isinstance(field, (Res0, Res1))
        if gone and number:
            yield field.bits, field.name, f"{number:#x}", "not kept: RES0 on this core"
