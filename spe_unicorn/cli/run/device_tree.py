"""The device tree that a guest would find, in a file: ``--dump-dtb``."""

from __future__ import annotations

from spe_unicorn.cli.errors import UsageProblem
from spe_unicorn.cli.run.files import Files, complaint
from spe_unicorn.cli.run.settings import Settings
from spe_unicorn.cli.spelling import spelled
from spe_unicorn.cores.profile import CoreError
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.plan import boot_plan, machine_dtb


def dump_device_tree(settings: Settings, path: str) -> None:
    """Write the device tree to ``path``. Raises UsageProblem."""
    try:
        machine = settings.machine
        dtb = boot_plan(machine).dtb if machine.names_a_program else machine_dtb(machine)
    except (CoreError, LoadError) as error:
        raise UsageProblem(spelled(str(error))) from error
    problems: list[str] = []
    files = Files(settings.inputs, lambda name, error: problems.append(complaint(name, error)))
    files.binary(path).write(dtb)
    files.close()
    if problems:
        raise UsageProblem(problems[0])
