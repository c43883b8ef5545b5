"""Makes the memory besides RAM: flash, filled from its files, and Secure RAM."""

from __future__ import annotations

from collections.abc import Mapping

from spe_unicorn.host.engine.memory import Ram
from spe_unicorn.machine import memory_map
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.files import naming
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.storage.backing import HostFile


def flash_files(options: MachineOptions) -> dict[int, HostFile]:
    """The files of the option ``pflash``, by the first address of the flash that each is for.

    With ``bios`` the first of them is for the second flash. Raises LoadError if a file is not as
    large as its flash.
    """
    banks = (memory_map.SECURE_FLASH, memory_map.OTHER_FLASH)
    files = {}
    for text, bank in zip(options.pflash, banks[options.bios is not None :], strict=False):
        file = HostFile(text)
        files[bank.base] = file
        if file.size != bank.size:
            with naming(file.path):
                raise LoadError(f"has {file.size:#x} bytes; flash has {bank.size:#x}")
    return files


def memory_of(options: MachineOptions) -> list[range]:
    """The physical addresses of all memory of a machine: nothing is opened or made for it."""
    regions = [range(memory_map.RAM_BASE, memory_map.RAM_BASE + options.ram)]
    if options.has_flash:
        regions += [range(memory_map.FLASH.base, memory_map.FLASH.end)]
    if options.secure:
        regions += [range(memory_map.SECURE_RAM.base, memory_map.SECURE_RAM.end)]
    return regions


def more_memory(options: MachineOptions, files: Mapping[int, HostFile]) -> list[Ram]:
    """The flash and Secure RAM that the options ask for; ``files`` are from :func:`flash_files`."""
    regions = []
    if options.has_flash:
        for flash, secure in (
            (memory_map.SECURE_FLASH, options.secure),
            (memory_map.OTHER_FLASH, False),
        ):
            regions.append(Ram(flash.base, flash.size, writable=False, secure=secure))
            if flash.base in files:
                regions[-1].bytes[:] = files[flash.base].read(0, flash.size) or bytes(flash.size)
    if options.secure:
        regions.append(Ram(memory_map.SECURE_RAM.base, memory_map.SECURE_RAM.size, secure=True))
    return regions
