"""The libraries that a guest's programs need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

_LIBRARY_FOLDERS = ("lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu")


def shared_objects(program: Path, root: Path) -> Iterator[Path]:
    """The libraries that a program needs, and those that these need, as files below ``root``.

    Raises FileNotFoundError for one that is not there.
    """
    seen = set()
    todo = [program]
    while todo:
        for name in _needed(todo.pop()):
            if name in seen:
                continue
            seen.add(name)
            places = [root / folder / name for folder in _LIBRARY_FOLDERS]
            found = next((place for place in places if place.exists()), None)
            if found is None:
                raise FileNotFoundError(f"{program} needs {name}, which is not below {root}")
            yield found
            todo.append(found)


def _needed(file: Path) -> list[str]:
    with file.open("rb") as stream:
        sections = ELFFile(stream).iter_sections()
        dynamic = next((s for s in sections if isinstance(s, DynamicSection)), None)
        if dynamic is None:
            return []
        return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
