"""The source lines of a guest's kernel and modules: their debug information, put where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from spe_unicorn.session.linux.modules import module_name, unpacked
from spe_unicorn.symbols.choice import SymbolChoice
from spe_unicorn.symbols.elf import ElfError, read_elf
from spe_unicorn.symbols.kallsyms import address_in, modules_in, read_names
from spe_unicorn.symbols.linking import has_lines, linked

_ANCHOR = "_text"
"""Where a kernel begins, which its ELF file and the kernel itself both name."""


def placed(
    listing: Path,
    modules: Sequence[tuple[str, bytes]],
    given: Sequence[SymbolChoice],
    folder: Path,
) -> tuple[SymbolChoice, ...]:
    """What names a guest's addresses, first what knows lines; ``listing`` is what the guest tells.

    ``given`` may name the kernel's ELF file and modules, as ``vmlinux`` and ``arm_spe_pmu.ko``.
    Of ``modules``, those that the guest has loaded, some have lines. Files that are made stand in
    ``folder``. Raises ElfError and GuestError for a file that was given and cannot be used.
    """
    addresses = modules_in(listing)
    found: list[SymbolChoice] = []
    known: set[str] = set()
    for choice in given:
        path = Path(choice.path)
        if choice.address is None and ".ko" in path.suffixes:
            name = module_name(path)
            known.add(name)
            found.append(_linked(name, unpacked(path), addresses, folder))
        else:
            found.append(_slid(choice, listing))
    for name, data in modules:
        if name in addresses and name not in known and has_lines(data):
            with suppress(ElfError):  # the kernel takes it with debug information of any kind
                found.append(_linked(name, data, addresses, folder))
    return (*found, SymbolChoice(str(listing)))


def _linked(
    name: str, data: bytes, addresses: Mapping[str, Mapping[str, int]], folder: Path
) -> SymbolChoice:
    """A module's file that is linked where the guest has it."""
    file = folder / f"{name}.elf"
    try:
        file.write_bytes(linked(data, addresses.get(name, {})))
        read_elf(file)
    except ElfError as error:
        raise ElfError(f"module {name}: {str(error).removeprefix(f'{file}: ')}") from None
    return SymbolChoice(str(file))


def _slid(choice: SymbolChoice, listing: Path) -> SymbolChoice:
    """A kernel's file where the guest has its kernel; another one is where it was."""
    if choice.address is not None:
        return choice
    elf = read_names(Path(choice.path))
    linked_at, there = elf.symbols.named(_ANCHOR), address_in(listing, _ANCHOR)
    if not linked_at or there is None:
        return choice
    return SymbolChoice(choice.path, elf.lowest + there - linked_at[0])
