"""The files behind the virtio disks of a machine."""

from __future__ import annotations

from typing import Final

from spe_unicorn.devices.virtio.block import SECTOR, Disk
from spe_unicorn.devices.virtio.overlay import Overlay
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.files import naming
from spe_unicorn.machine.inputs import Inputs, LoggedFile
from spe_unicorn.machine.storage.backing import READ_ONLY, HostFile, split_read_only

_WRITE: Final = ",write"
"""What stands behind the name of a disk whose file is written."""


class Drives:
    """The disks of ``MachineOptions.drive`` and their files. Raises LoadError.

    A file that is written is no part of a saved machine, so ``inputs`` keep what it answered.
    """

    def __init__(self, texts: tuple[str, ...], inputs: Inputs) -> None:
        self._inputs = inputs
        self.disks: list[Disk] = []
        self._files: list[HostFile] = []
        self._unchanged: list[HostFile] = []
        for text in texts:
            self.disks.append(self._disk(text))

    def _disk(self, text: str) -> Disk:
        written = text.removesuffix(_WRITE)
        name, read_only = split_read_only(written)
        file = HostFile(name if written != text else f"{name}{READ_ONLY}")
        self._files.append(file)
        if file.size < SECTOR:
            with naming(name):
                raise LoadError(f"has {file.size} bytes; a disk has {SECTOR} at least")
        if written == text:
            self._unchanged.append(file)
        if written != text:
            return LoggedFile(file, self._inputs)
        return file if read_only else Overlay(file)

    def digests(self) -> dict[str, str]:
        """What tells apart the contents of files that no guest changes, by their names."""
        return {str(file.path): file.digest() for file in self._unchanged}

    def close(self) -> None:
        """Give the files free."""
        for file in self._files:
            file.close()
