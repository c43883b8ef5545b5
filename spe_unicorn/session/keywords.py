"""The options of a machine as keywords, so that editors and type checkers know them."""

from __future__ import annotations

from typing import TypeAlias, TypedDict

from spe_unicorn.cores.profile import Core, ModelName
from spe_unicorn.machine.options import File, Sampling

Texts: TypeAlias = tuple[str, ...] | list[str]


class MachineKeywords(TypedDict, total=False):
    """What ``Machine(firmware, **options)`` takes; MachineOptions says what each means."""

    arguments: Texts
    kernel: File | None
    append: str | None
    initrd: File | None
    dtb: File | None
    bios: File | None
    pflash: Texts
    fw_cfg: Texts
    drive: Texts
    entropy: bool
    share: Texts
    virtio_console: bool
    load: Texts
    core: str | Core
    strict: bool | None
    model: ModelName
    ram: int
    flash: bool
    secure: bool
    smp: int
    turn: int
    el: int | None
    check_alignment: bool
    check: Texts
    ram_fill: str
    reboot: bool
    seed: int
    semihosting_dir: File | None
    clock: int | None
    sampling: Sampling | None
