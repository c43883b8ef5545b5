"""Makes the command that runs a machine with given options."""

from __future__ import annotations

import os
import shlex
from dataclasses import fields

from spe_unicorn.cores.profile import Core
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.options import MachineOptions

_ELSEWHERE = frozenset({"firmware", "arguments", "sampling", "reboot", "flash"})
_VALUES = {"virtio_console": "stdio"}
"""The values on the command line of options that are True or False in Python."""


def command_line(options: MachineOptions) -> str:
    """``spe-unicorn run ...``, or ``record`` where the machine is sampled from outside."""
    return shlex.join(
        command_words(options, () if options.sampling is None else ("-o", "records.spe"))
    )


def command_words(options: MachineOptions, more: tuple[str, ...] = ()) -> list[str]:
    """The words of the command, with the words of ``more`` options."""
    sampling = options.sampling
    words = ["spe-unicorn", "run" if sampling is None else "record"]
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name in _ELSEWHERE or value == field.default:
            continue
        if isinstance(value, Core):
            value = value.name
        flag = f"--{field.name.replace('_', '-')}"
        if value is True:
            words += [flag, *_VALUES.get(field.name, "").split()]
            continue
        if value is False:
            words.append(f"--no-{flag[2:]}")
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [flag, os.fspath(each) if _is_path(each) else str(each)]
    if not options.reboot:
        words.append("--no-reboot")
    if sampling is not None:
        if sampling.event is not None:
            words += ["-e", sampling.event]
        words += ["-c", str(sampling.period)]
        if sampling.kinds:
            words += ["--filter", ",".join(sampling.kinds)]
        if sampling.min_latency:
            words += ["--min-latency", str(sampling.min_latency)]
        if not sampling.jitter and sampling.event is None:
            words.append("--no-jitter")
    words += more
    started = options.firmware
    if isinstance(started, Image):
        started = started.path
    if started is not None:
        words.append(os.fspath(started))
    if options.arguments:
        words += ["--", *options.arguments]
    return words


def piped(typed: bytes, command: str) -> str:
    """A command whose console's input is ``typed``, for a shell."""
    if not typed:
        return command
    octal = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\%" else f"\\{byte:03o}"
        for byte in typed
    )
    return f"printf {shlex.quote(octal)} | {command}"


def _is_path(value: object) -> bool:
    return isinstance(value, os.PathLike)
