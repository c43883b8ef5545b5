"""The benchmark programs on QEMU, the second measure.

QEMU runs the same ELF file, with the number of iterations written into it, as nothing can write to
its guest's memory before the program reads it. What one run takes more than another with fewer
iterations is the work; the start of the process falls out.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from commands import QEMU, firmware, on_virt, qemu_seconds
from iterations import with_iterations
from sides import Run

LEAST_SECONDS: Final = 0.3
"""For the work of a run: the start of the process, which falls out, takes a tenth of a second."""


def is_here() -> bool:
    """Whether QEMU is installed."""
    return shutil.which(QEMU) is not None


def run(program: str, iterations: int) -> Run | None:
    """CPU seconds of iterations of a program; None where the host was too busy to tell.

    Raises ProgramError where a result is wrong.
    """
    elf = Path(firmware(f"bench_{program}")).read_bytes()
    few, many = (_seconds(with_iterations(elf, n)) for n in (1, 1 + iterations))
    return Run(iterations, many - few) if many > few else None


def _seconds(elf: bytes) -> float:
    with tempfile.NamedTemporaryFile(suffix=".elf") as file:
        file.write(elf)
        file.flush()
        return qemu_seconds(on_virt(file.name))
