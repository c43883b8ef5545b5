"""How a machine starts: what lies where, and what the PEs begin with, as a value.

Placement and start are those of QEMU's ``virt`` for the same files; ``docs/how-to/boot.md`` has
them, and where they differ. Reading files is the only effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.machine.boot.dtb import BoardDescription, board_dtb, with_boot_data
from spe_unicorn.machine.boot.fdt import DeviceTreeError
from spe_unicorn.machine.boot.image import EXECUTE, READ, WRITE, Image, LoadError, Segment
from spe_unicorn.machine.boot.kernel_image import KernelImage, parse_kernel
from spe_unicorn.machine.boot.loader import load_elf
from spe_unicorn.machine.files import beginning, contents, naming
from spe_unicorn.machine.memory_map import FLASH, RAM_BASE
from spe_unicorn.machine.options import File, MachineOptions
from spe_unicorn.machine.storage.backing import split_read_only
from spe_unicorn.symbols.table import SymbolTable

FLASH_BANK: Final = FLASH.size // 2
"""Bytes of the flash bank at 0x0, into which ``bios`` goes."""
DTB_MAX: Final = 2 << 20
"""Bytes of a device tree that an arm64 kernel takes."""

_KERNEL_ALIGNMENT: Final = 2 << 20
_DTB_ALIGNMENT: Final = 2 << 20
_PAGE: Final = 4096
_LOWEST_OFFSET: Final = 4096
"""QEMU puts a few instructions below this; a kernel that asks to be there is put 2 MiB higher."""
_INITRD_OFFSET: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """What fills ``size`` bytes of physical memory from ``address`` on: ``data``, then zeros."""

    name: str
    address: int
    data: bytes
    size: int

    @property
    def end(self) -> int:
        """The first address after it."""
        return self.address + self.size


@dataclass(frozen=True)
class BootPlan:
    """A machine's first moment. All addresses are physical.

    ``image`` holds what the first PE starts in, for its name and symbols; ``pieces`` hold
    everything that is loaded, the image's segments among them. A PE starts at ``entry`` and ``el``,
    in ``x`` what is in X0 to X3; all other general-purpose registers are 0.
    """

    image: Image
    pieces: tuple[Piece, ...]
    entry: int
    el: int
    x: tuple[int, int, int, int]
    dtb: bytes
    dtb_address: int | None
    """Where the device tree is; None where the image leaves it no room."""
    conduit: str | None
    """How PSCI is called, ``hvc`` or ``smc``; None: the guest owns EL3, so there is no PSCI."""

    @property
    def secure(self) -> bool:
        """Whether the start is in Secure state: at EL3. What is below starts Non-secure."""
        return self.el == EL3

    @property
    def all_start(self) -> bool:
        """Whether every PE starts at the entry; else the first does, and PSCI starts the others."""
        return self.conduit is None


def boot_plan(options: MachineOptions) -> BootPlan:
    """The start that the options ask for.

    Raises LoadError, one line, for a file that cannot be used and for options that do not go
    together.
    """
    _check_combination(options)
    if options.kernel is None or options.starts_in_flash:
        plan = _firmware_plan(options)
    else:
        plan = _kernel_plan_of(options, options.kernel)
    pieces = plan.pieces
    for text in options.load:
        pieces = (*pieces, _beside(pieces, _loaded(text, options.ram)))
    return replace(plan, pieces=pieces)


def _beside(others: tuple[Piece, ...], piece: Piece) -> Piece:
    """``piece``, plain data. Raises LoadError if it overlaps one of ``others``."""
    for other in others:
        if piece.address < other.end and other.address < piece.end:
            what = f"{other.name} ({other.address:#x} to {other.end - 1:#x})"
            raise LoadError(f"`load` {piece.name}@{piece.address:#x}: {what} is there already")
    return piece


def _loaded(text: str, ram_size: int) -> Piece:
    """Plain data of ``FILE@ADDRESS``."""
    path, at, address = text.rpartition("@")
    try:
        place = int(address, 0)
    except ValueError:
        place = -1
    if not at or not path or place < 0:
        raise LoadError(f"`load` {text!r}: say it as FILE@ADDRESS, such as initrd@0x48000000")
    data = contents(path, ram_size, "RAM")
    return Piece(Path(path).name, place, data, len(data))


def _kernel_plan_of(options: MachineOptions, path: File) -> BootPlan:
    """The start of the kernel in the file ``path`` without firmware."""
    if beginning(path, 4) == b"\x7fELF":
        image = load_elf(path, RAM_BASE, options.ram)
        return _kernel_plan(options, image, starts_as_firmware=True)
    data = contents(path, options.ram, "RAM")
    with naming(path):
        kernel = parse_kernel(data, options.ram)
        if kernel.has_header and options.el == EL3:
            raise LoadError("is a Linux kernel, which starts at EL2 or EL1, not at EL3")
        image = _placed_kernel(Path(path), kernel, options.ram)
    return _kernel_plan(options, image, starts_as_firmware=False)


def machine_dtb(options: MachineOptions) -> bytes:
    """The device tree of the machine with nothing loaded. Raises LoadError as boot_plan does."""
    return _dtb(options, _exception_level(options, starts_as_firmware=True), None)


def _check_combination(options: MachineOptions) -> None:
    if not options.names_a_program:
        raise LoadError("nothing to run: name `firmware` or `kernel`")
    if options.kernel is None:
        for name in ("append", "initrd"):
            if getattr(options, name) is not None:
                raise LoadError(f"`{name}` is for a kernel: it needs `kernel`")
    elif options.firmware is not None:
        raise LoadError("`firmware` and `kernel` are both what to start: name one of them")


def _exception_level(options: MachineOptions, *, starts_as_firmware: bool) -> int:
    """Where the start is: the level asked for, or the one that QEMU would choose."""
    features = options.profile.features
    has = {EL1, *(el for el, feature in _LEVELS.items() if feature in features)}
    if options.secure and EL3 not in has:
        raise LoadError("`secure`: the core has no EL3")
    if options.el is not None:
        if options.el not in has:
            raise LoadError(f"`el` {options.el}: the core has no EL{options.el}")
        return options.el
    if options.starts_in_flash:
        return max(has)
    return EL3 if options.secure and starts_as_firmware else EL1


_LEVELS: Final = {EL2: Feature.FEAT_EL2, EL3: Feature.FEAT_EL3}
_CONDUITS: Final = {EL1: "hvc", EL2: "smc", EL3: None}


# Firmware: an ELF file in RAM, or --bios in flash, or both


def _firmware_plan(options: MachineOptions) -> BootPlan:
    el = _exception_level(options, starts_as_firmware=True)
    in_ram, in_flash = _ram_images(options), _flash_images(options)
    dtb = _dtb(options, el, None)
    dtb_address = _start_of_ram(in_ram, dtb, options.ram)
    if dtb_address is None and options.dtb is not None:
        with naming(options.dtb):
            raise LoadError(
                f"has {len(dtb):#x} bytes, for which there is no room at {RAM_BASE:#x} in RAM: "
                "link `firmware` higher, or start it by `kernel`"
            )
    # A PE that resets has no one who tells it; firmware in flash looks at the start of RAM.
    x0 = 0 if in_flash else dtb_address or 0
    return _plan([*in_flash, *in_ram], [], el, dtb, dtb_address, x0)


def _ram_images(options: MachineOptions) -> list[Image]:
    if options.firmware is None:
        return []
    if isinstance(options.firmware, Image):
        return [options.firmware]
    return [load_elf(options.firmware, RAM_BASE, options.ram)]


def _flash_images(options: MachineOptions) -> list[Image]:
    if options.bios is None:
        if not options.pflash:
            return []
        name, _ = split_read_only(options.pflash[0])
        return [Image(Path(name), entry=FLASH.base, segments=(), symbols=SymbolTable())]
    data = contents(options.bios, FLASH_BANK, "the flash bank")
    if data.startswith(b"\x7fELF"):
        with naming(options.bios):
            raise LoadError(
                "is an ELF file, but flash takes plain bytes (make them with objcopy -O binary)"
            )
    return [_flat_image(Path(options.bios), FLASH.base, data, len(data), READ | EXECUTE)]


# Kernels


def _placed_kernel(file: Path, kernel: KernelImage, ram_size: int) -> Image:
    offset = kernel.offset
    if offset < _LOWEST_OFFSET:
        offset += _KERNEL_ALIGNMENT
    if offset + kernel.size > ram_size:
        raise LoadError(
            f"needs {kernel.size:#x} bytes at {RAM_BASE + offset:#x}, "
            f"but RAM ends at {RAM_BASE + ram_size:#x}: give it more RAM"
        )
    everything = READ | WRITE | EXECUTE
    return _flat_image(file, RAM_BASE + offset, kernel.data, kernel.size, everything)


def _kernel_plan(options: MachineOptions, image: Image, *, starts_as_firmware: bool) -> BootPlan:
    el = _exception_level(options, starts_as_firmware=starts_as_firmware)
    ram_end = RAM_BASE + options.ram
    kernel_end = max(segment.end for segment in image.segments)
    start = RAM_BASE + min(options.ram // 2, _INITRD_OFFSET)
    free = _aligned(max(start, kernel_end), _PAGE)
    initrd = None
    more = []
    if options.initrd is not None:
        data = contents(options.initrd, options.ram, "RAM")
        initrd = (free, free + len(data))
        if initrd[1] > ram_end:
            with naming(options.initrd):
                raise LoadError(_no_room("kernel", len(data), free, ram_end))
        more.append(Piece("initrd", free, data, len(data)))
        free = initrd[1]
    dtb = _dtb(options, el, initrd)
    address = _start_of_ram([image], dtb, options.ram) if starts_as_firmware else None
    if address is None:
        address = _aligned(free, _DTB_ALIGNMENT)
        if address + len(dtb) > ram_end:
            problem = _no_room("kernel and initrd", len(dtb), address, ram_end)
            raise LoadError(f"the device tree {problem}")
    return _plan([image], more, el, dtb, address, x0=address)


def _no_room(before: str, size: int, address: int, ram_end: int) -> str:
    return (
        f"has no room after the {before}: it needs {size:#x} bytes at {address:#x}, "
        f"but RAM ends at {ram_end:#x}: give it more RAM"
    )


# Both


def _dtb(options: MachineOptions, el: int, initrd: tuple[int, int] | None) -> bytes:
    """The machine's own device tree, or the user's with this run's facts."""
    if options.dtb is None:
        return board_dtb(
            BoardDescription(
                ram_size=options.ram,
                affinities=tuple(range(options.smp)),
                conduit=_CONDUITS[el],
                bootargs=options.append or "",
                initrd=initrd,
                pmu=Feature.FEAT_PMUv3 in options.profile.features,
                spe=Feature.FEAT_SPE in options.profile.features and options.sampling is None,
                guest_el2=el >= EL2,
                secure=options.secure,
                clock=options.frequency,
                flash=options.has_flash,
                caches=options.profile.caches,
                cluster=options.profile.numbers.cluster,
            )
        )
    data = contents(options.dtb, DTB_MAX, "a device tree can be")
    with naming(options.dtb):
        try:
            return with_boot_data(
                data, ram_size=options.ram, bootargs=options.append, initrd=initrd
            )
        except DeviceTreeError as error:
            raise LoadError(str(error)) from None


def _start_of_ram(images: list[Image], dtb: bytes, ram_size: int) -> int | None:
    """The start of RAM, if the device tree fits between it and the lowest segment; else None."""
    lowest = [segment.address for image in images for segment in image.segments]
    room = min(lowest, default=RAM_BASE + ram_size) - RAM_BASE
    return RAM_BASE if len(dtb) <= room else None


def _flat_image(file: Path, address: int, data: bytes, size: int, flags: int) -> Image:
    segment = Segment(address, data, size, vaddr=address, flags=flags, offset=0)
    return Image(file, entry=address, segments=(segment,), symbols=SymbolTable())


def _plan(
    images: list[Image],
    more: list[Piece],
    el: int,
    dtb: bytes,
    dtb_address: int | None,
    x0: int,
) -> BootPlan:
    """The plan that starts in the first of the images."""
    pieces = [
        Piece(image.path.name, segment.address, segment.data, segment.size)
        for image in images
        for segment in image.segments
    ]
    if dtb_address is not None:
        more = [*more, Piece("device tree", dtb_address, dtb, len(dtb))]
    return BootPlan(
        image=images[0],
        pieces=(*pieces, *more),
        entry=images[0].entry,
        el=el,
        x=(x0, 0, 0, 0),
        dtb=dtb,
        dtb_address=dtb_address,
        conduit=_CONDUITS[el],
    )


def _aligned(address: int, alignment: int) -> int:
    return address + -address % alignment
