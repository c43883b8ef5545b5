"""The options of a machine: the one list of what can be chosen.

Everything here is plain data from which an equal machine can be built: no stream, no callback.
Messages name an option in backquotes: `smp`. The command line puts its own spelling there: --smp.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, get_args

from spe_unicorn.arch.counter import Rate
from spe_unicorn.cores.profile import Core, ModelName, load_core
from spe_unicorn.devices.gicv3 import MAX_PES
from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.events import one_event
from spe_unicorn.machine.memory_map import RAM_MAX, VIRTIO_SLOTS
from spe_unicorn.machine.storage.backing import split_read_only
from spe_unicorn.pmu.names import EventError, NamedEvent
from spe_unicorn.spe.filter import Filter, Flag, chosen_filter

File = str | os.PathLike[str]

KINDS: Final = {"load": Flag.LD, "store": Flag.ST, "branch": Flag.B}
"""Kinds of operation that sampling from outside can be restricted to."""

_PAGE: Final = 4096
_LONGEST: Final = 1 << 60
"""The most operations between two samples that compiled code can count."""
_SHIFTS: Final = {"": 0, "K": 10, "M": 20, "G": 30}


class OptionError(ValueError):
    """An option that no machine can have: one line that names it in backquotes."""


def parse_size(text: str) -> int:
    """Bytes, written as ``128M``, ``1G`` or ``0x8000000``. Raises ValueError for what is none."""
    match = re.fullmatch(r"(0x[0-9a-f]+|[0-9]+)([kmg]?)", text, re.ASCII | re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is no size; write 128M, 1G or a number of bytes")
    digits, suffix = match.groups()
    return int(digits, 16 if digits[:2] in ("0x", "0X") else 10) << _SHIFTS[suffix.upper()]


CHECKS: Final = ("text", "null", "uninitialised", "heap", "noncoherent")
"""The checks of memory that take nothing more than their name."""
_STACK_CHECK: Final = r"stack=([^:=]+)(:[^:=]+)?"
_RAM_FILL: Final = r"zero|random|0x[0-9a-fA-F]{2}"
_FILE: Final = "a file name"
_OF_KIND: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: type(value) is int),
    "str": ("a text", lambda value: isinstance(value, str)),
    "File": (_FILE, lambda value: isinstance(value, (str, os.PathLike))),
    "File | Image": (_FILE, lambda value: isinstance(value, (str, os.PathLike, Image))),
    "tuple[str, ...]": (
        "a list of texts",
        lambda value: isinstance(value, tuple) and all(isinstance(text, str) for text in value),
    ),
    "Sampling": ("a Sampling", lambda value: isinstance(value, Sampling)),
}
"""What values of a declared type are, in words, and whether a value is one."""
_WORDS: Final = {"ram": "a number of bytes, such as 128 << 20"}
"""What values of an option are, where its type says too little."""


def _of_declared_types(options: Any) -> None:
    """Raise OptionError for a value that is not of its option's type; make lists tuples."""
    for option in fields(options):
        value = getattr(options, option.name)
        kind = str(option.type).removesuffix(" | None")
        if kind not in _OF_KIND or (value is None and kind != option.type):
            continue
        if kind == "int" and hasattr(value, "__index__") and not isinstance(value, bool):
            value = operator.index(value)
        elif isinstance(value, list):
            value = tuple(value)
        words, is_one = _OF_KIND[kind]
        if not is_one(value):
            words = _WORDS.get(option.name, words)
            raise OptionError(f"`{option.name}` is {words}, got {value!r}")
        object.__setattr__(options, option.name, value)


@dataclass(frozen=True)
class Sampling:
    """Sampling from outside: every ``period``-th operation, of ``kinds`` (all if none is named).

    With ``jitter`` that is so on average: each distance is drawn by the seed, within an eighth of
    ``period`` around it. With ``event``, a name as ``spe-unicorn stat`` takes it, each PE's
    operations are sampled that make every ``period``-th of these events, exactly. ``kinds`` are
    some of :data:`KINDS`. Samples of fewer than ``min_latency`` cycles are dropped.
    """

    period: int
    kinds: tuple[str, ...] = ()
    min_latency: int = 0
    jitter: bool = True
    event: str | None = None

    def __post_init__(self) -> None:
        _of_declared_types(self)
        if self.period < 1:
            raise OptionError(f"`period` is a number of operations from 1 on, got {self.period}")
        if self.period > _LONGEST:
            raise OptionError(f"`period` is at most {_LONGEST}, got {self.period}")
        if self.event is not None:
            try:
                one_event(self.event)
            except EventError as error:
                raise OptionError(f"`event`: {error}") from None
        if self.min_latency < 0:
            raise OptionError(f"`min_latency` is a number of cycles, got {self.min_latency}")
        for kind in self.kinds:
            if kind not in KINDS:
                raise OptionError(f"`kinds`: {kind!r} is none; allowed are {', '.join(KINDS)}")

    @property
    def named(self) -> NamedEvent | None:
        """The event, None for operations."""
        return None if self.event is None else one_event(self.event)

    @property
    def filter(self) -> Filter:
        """What keeps the samples that were asked for."""
        return chosen_filter([KINDS[kind] for kind in self.kinds], self.min_latency)


LONGEST_TURN: Final = 1 << 14
"""Operations of the longest turn of a PE while another one has something to do."""


@dataclass(frozen=True)
class MachineOptions:
    """One machine. Raises OptionError for a value that no machine can have.

    What is started is ``firmware`` (an ELF file, or an image in memory) or a ``kernel``, from RAM,
    or ``bios`` (plain bytes) from the flash at 0x0. Files that are wrong are found when the machine
    is made, not here.
    """

    firmware: File | Image | None = None
    arguments: tuple[str, ...] = ()
    """What the guest gets by semihosting, after the name of its file."""
    kernel: File | None = None
    """Started instead of ``firmware``, with the address of the device tree in X0."""
    append: str | None = None
    """The kernel's command line."""
    initrd: File | None = None
    dtb: File | None = None
    """A device tree to use instead of the machine's own."""
    bios: File | None = None
    """Plain bytes for the first flash, at 0x0, where the PEs then start."""
    pflash: tuple[str, ...] = ()
    """Files of the flashes at 0x0 and 0x4000000, or with ``bios`` of the second alone.

    What the guest programs is in the file at once. ``FILE,readonly`` is not written.
    """
    fw_cfg: tuple[str, ...] = ()
    """``NAME=FILE``: files that firmware finds by name in fw_cfg."""
    drive: tuple[str, ...] = ()
    """Disks: ``FILE``, of which writes stay in the machine, ``FILE,readonly``, ``FILE,write``."""
    entropy: bool = False
    """A virtio source of random numbers, which come from the seed."""
    share: tuple[str, ...] = ()
    """Folders that the guest mounts as share0 and so on: ``DIR``, ``DIR,readonly``.

    It is by 9P, or with ``,virtiofs`` at the end by that.
    """
    virtio_console: bool = False
    """A virtio console of one port, beside the UART: hvc0 of Linux."""
    load: tuple[str, ...] = ()
    """``FILE@ADDRESS``: plain data in memory, from the start on."""
    core: str | Core = "generic"
    """A built-in profile's name, the path of a TOML file, or a profile."""
    strict: bool | None = None
    """Instructions that the core lacks are UNDEFINED; None for as its profile says."""
    model: ModelName = "none"
    """``none``, or ``cache``: caches, TLBs and a branch predictor."""
    ram: int = 128 << 20
    """Bytes of RAM at 0x40000000."""
    flash: bool = False
    """Memory at 0x0, which ``bios`` brings along."""
    secure: bool = False
    """Secure RAM, and a GIC with two Security states; firmware starts at EL3."""
    smp: int = 1
    """Number of PEs, up to 8."""
    turn: int = LONGEST_TURN
    """Operations of a PE's turn while another PE has something to do."""
    el: int | None = None
    """The Exception level to start at; None for what QEMU would choose."""
    check_alignment: bool = False
    """Device memory, SP and ordered accesses are checked everywhere, as silicon does; slow."""
    check: tuple[str, ...] = ()
    """Checks of memory: ``text``, ``null``, ``uninitialised``, ``heap``, ``noncoherent``,
    ``stack=LOW[:HIGH]``."""
    ram_fill: str = "zero"
    """What RAM holds where nothing was loaded: ``zero``, ``random`` by the seed, or ``0xNN``."""
    reboot: bool = True
    """A guest that resets the machine starts anew; without, it ends the run."""
    seed: int = 0
    """Source of all chance in the machine."""
    semihosting_dir: File | None = None
    """A folder in which the guest may open, change and remove files."""
    clock: int | None = None
    """Operations in a second of the guest, in whole kHz; None for what the core says, or 1 GHz."""
    sampling: Sampling | None = field(default=None)
    """Sampling from outside, in place of the SPE that the guest sees."""

    def __post_init__(self) -> None:
        _of_declared_types(self)
        if not 1 <= self.smp <= MAX_PES:
            raise OptionError(f"`smp` is a number of PEs from 1 to {MAX_PES}, got {self.smp}")
        if not 1 <= self.turn <= LONGEST_TURN:
            raise OptionError(f"`turn` is 1 to {LONGEST_TURN} operations, got {self.turn}")
        if not isinstance(self.core, (str, Core)):
            raise OptionError(f"`core` is a name, the path of a file or a Core, got {self.core!r}")
        if not 0 < self.ram <= RAM_MAX or self.ram % _PAGE:
            raise OptionError(f"`ram`: allowed are multiples of 4K up to 255G, got {self.ram:#x}")
        if len(self.pflash) > 2 - (self.bios is not None):
            raise OptionError("`pflash`: there are two flashes, and `bios` is in the first")
        others = self.entropy + self.virtio_console
        if len(self.drive) + len(self.share) + others > VIRTIO_SLOTS:
            raise OptionError(f"`drive`: there are {VIRTIO_SLOTS} places for virtio devices")
        if self.seed < 0:
            raise OptionError(f"`seed` is a number from 0 on, got {self.seed}")
        if self.clock is not None:
            try:
                Rate.of(self.clock)
            except ValueError as error:
                raise OptionError(f"`clock`: {error}") from None
        if self.el not in (None, 1, 2, 3):
            raise OptionError(f"`el` is 1, 2 or 3, got {self.el!r}")
        for text in self.check:
            if text not in CHECKS and re.fullmatch(_STACK_CHECK, text) is None:
                raise OptionError(
                    f"`check` is one of {', '.join(CHECKS)} or stack=SYMBOL[:SYMBOL], got {text!r}"
                )
        if re.fullmatch(_RAM_FILL, self.ram_fill) is None:
            raise OptionError(f"`ram_fill` is zero, random or 0xNN, got {self.ram_fill!r}")
        if self.model not in get_args(ModelName):
            raise OptionError(
                f"`model` is one of {', '.join(get_args(ModelName))}, got {self.model!r}"
            )

    @cached_property
    def profile(self) -> Core:
        """The core, loaded. Raises ``cores.profile.CoreError``."""
        core = load_core(self.core) if isinstance(self.core, str) else self.core
        return core if self.strict is None else replace(core, strict=self.strict)

    @property
    def frequency(self) -> int:
        """Operations in a second of the guest."""
        return self.clock or self.profile.clock

    @property
    def has_flash(self) -> bool:
        """Whether there is memory at 0x0."""
        return self.flash or self.bios is not None or bool(self.pflash)

    @property
    def starts_in_flash(self) -> bool:
        """Whether the PEs start at 0x0."""
        return self.bios is not None or bool(self.pflash)

    @property
    def names_a_program(self) -> bool:
        """Whether there is anything to start."""
        return (self.firmware, self.kernel) != (None, None) or self.starts_in_flash

    @property
    def command_line(self) -> bytes:
        """What SYS_GET_CMDLINE hands out: the file's name, ``append``, the arguments."""
        flash = self.bios or (split_read_only(self.pflash[0])[0] if self.pflash else None)
        started = self.kernel or flash or self.firmware
        if isinstance(started, Image):
            started = started.path
        name = () if started is None else (Path(started).name,)
        append = () if self.append is None else (self.append,)
        return os.fsencode(" ".join((*name, *append, *self.arguments)))


KINDS_OF_OPTIONS: Final = {f.name: str(f.type) for f in fields(MachineOptions)}
"""The declared type of each option by its name, for whoever takes them from a file or a table."""
SWITCHES: Final = tuple(name for name, kind in KINDS_OF_OPTIONS.items() if kind == "bool")
"""The options that are True or False."""
