"""Everything of the host that a board's devices store in: files of flash and drives, folders."""

from __future__ import annotations

from spe_unicorn.machine.inputs import Inputs, LoggedFile
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.storage.drives import Drives
from spe_unicorn.machine.storage.flash_files import flash_files
from spe_unicorn.machine.storage.host_folder import HostFolder


class Stores:
    """The open files and folders of one board. Raises LoadError for one that cannot be used."""

    def __init__(self, options: MachineOptions, inputs: Inputs) -> None:
        self.flash = flash_files(options)
        """The files behind flash, by its address."""
        self.logged_flash = {at: LoggedFile(file, inputs) for at, file in self.flash.items()}
        """The same files as the guest uses them: what they answer is written down for a replay."""
        self.drives = Drives(options.drive, inputs)
        self.folders = [HostFolder(text) for text in options.share]
        """Those that are shared with the guest."""

    def close(self) -> None:
        """Close the files, and give the folders' locks back."""
        for file in self.flash.values():
            file.close()
        self.drives.close()
        for folder in self.folders:
            folder.give_back()
