"""Finds the firmware that comes with the package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
FOLDERS = (_PACKAGE / "firmware", _PACKAGE.parent / "firmware" / "prebuilt")
"""Where prebuilt firmware may be: in an installed wheel, in a checkout."""
CORES = "cores"
"""The folder in each with the programs that are built for a core, ``NAME-CORE.elf``."""
_SOURCES = _PACKAGE.parent / "firmware"
"""Where their sources are: in a checkout alone."""


def source_folder(file: Path) -> Path | None:
    """The folder with the sources of a shipped program; None for any other file."""
    places = {place.resolve() for folder in FOLDERS for place in (folder, folder / CORES)}
    shipped = file.resolve().parent in places
    return _SOURCES if shipped and (_SOURCES / "prebuilt").is_dir() else None


def shipped_names() -> tuple[str, ...]:
    """The names of the programs that come with the package, sorted."""
    return tuple(sorted({file.stem for folder in FOLDERS for file in folder.glob("*.elf")}))


def shipped_firmware(name: str) -> Path:
    """The ELF file of the shipped program ``name``, such as ``hello``.

    Raises FileNotFoundError, listing the programs that exist.
    """
    if name in shipped_names():
        for folder in FOLDERS:
            file = folder / f"{name}.elf"
            if file.is_file():
                return file
    there = ", ".join(shipped_names()) or "none"
    raise FileNotFoundError(f"no shipped firmware is called {name!r}; there is: {there}")


def linux_program(name: str) -> Path:
    """A program for Linux guests that comes with the package: ``init`` or ``spe_client``."""
    for folder in FOLDERS:
        file = folder / "linux" / name
        if file.is_file():
            return file
    raise FileNotFoundError(f"the package lacks its program {name!r} for Linux")
