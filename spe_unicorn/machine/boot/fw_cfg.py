"""What firmware in flash finds in fw_cfg: the kernel with what belongs to it, and files by name."""

from __future__ import annotations

from typing import Final

from spe_unicorn.devices.fw_cfg import FILES_MAX, NAME_MAX, items_of
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.kernel_image import parse_kernel
from spe_unicorn.machine.files import contents, naming
from spe_unicorn.machine.options import MachineOptions

_FILE_MAX: Final = 1 << 30
"""Bytes of a file; QEMU's own limit is that of 32 bits."""


def fw_cfg_items(options: MachineOptions) -> dict[int, bytes]:
    """The items of the device. Raises LoadError, one line, for a file that cannot be used."""
    kernel = initrd = b""
    if options.starts_in_flash and options.kernel is not None:
        data = contents(options.kernel, options.ram, "RAM")
        with naming(options.kernel):
            if data.startswith(b"\x7fELF"):
                raise LoadError("is an ELF file, which firmware in flash does not start")
            kernel = parse_kernel(data, options.ram).data
        if options.initrd is not None:
            initrd = contents(options.initrd, options.ram, "RAM")
    append = options.append
    line = None if append is None else append.encode("utf-8", "surrogateescape")
    return items_of(options.smp, kernel, initrd, line, _files(options.fw_cfg))


def _files(texts: tuple[str, ...]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise LoadError(f"`fw_cfg` {text!r}: say it as NAME=FILE")
        if not name.isascii() or not name.isprintable() or len(name) > NAME_MAX:
            raise LoadError(f"`fw_cfg` {name!r}: a name has at most {NAME_MAX} ASCII characters")
        if name in files:
            raise LoadError(f"`fw_cfg` {name}: named twice")
        if len(files) == FILES_MAX:
            raise LoadError(f"`fw_cfg`: there is room for {FILES_MAX} files")
        files[name] = contents(path, _FILE_MAX, "a file of fw_cfg can be")
    return files
