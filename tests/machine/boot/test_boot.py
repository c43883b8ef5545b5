"""Where things go: Linux's boot protocol, and what QEMU's virt does (see test_boot_qemu.py)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.cores.profile import Core, load_core
from spe_unicorn.machine.boot.fdt import DeviceTree, Node, cells, parse, strings, to_bytes, wide
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.boot.plan import BootPlan, boot_plan, machine_dtb
from spe_unicorn.machine.options import MachineOptions, Sampling
from tests.support.boot_files import BRANCH_TO_ITSELF, MIB, arm64_image, packed
from tests.support.elf_builder import Elf, Load

RAM = 0x4000_0000
CORE = load_core("generic")
ALL = frozenset({Feature.FEAT_EL2, Feature.FEAT_EL3})
USERS_TREE = to_bytes(
    DeviceTree(
        Node(
            "",
            {"#address-cells": cells(2), "#size-cells": cells(2), "model": strings("mine")},
            [Node("chosen", {"bootargs": strings("old")})],
        )
    )
)


def core_with(features: Set[Feature]) -> Core:
    """A core with SPE and these Exception levels."""
    return replace(CORE, features=frozenset(features) | {Feature.FEAT_SPE})


class Files:
    """A folder for the files of one test, and plans made from them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plan(self, ram_mib: int = 128, features=ALL, **given) -> BootPlan:
        """Bytes become files, named as the option that they are for."""
        options = {
            name: self.file(name, value) if isinstance(value, bytes) else value
            for name, value in given.items()
        }
        return boot_plan(MachineOptions(core=core_with(features), ram=ram_mib * MIB, **options))

    def file(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return str(self.folder / name)

    def problem(self, **given) -> str:
        """The one line with which a plan is refused, less the folder."""
        with pytest.raises(LoadError) as error:
            self.plan(**given)
        assert "\n" not in str(error.value)
        return str(error.value).replace(f"{self.folder}/", "")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def elf(address: int = RAM, size: int = 0x1000) -> bytes:
    return Elf([Load(address, BRANCH_TO_ITSELF, memsz=size)], entry=address).build()


def places(plan: BootPlan) -> dict[str, int]:
    return {piece.name: piece.address for piece in plan.pieces}


def tree(plan: BootPlan) -> Node:
    return parse(plan.dtb).root


# Kernels: arm64 Image and flat image


def test_image_is_entered_at_its_first_byte_with_the_device_tree_in_x0(files: Files) -> None:
    plan = files.plan(kernel=arm64_image(text_offset=0x8_0000))
    assert plan.entry == RAM + 0x8_0000
    assert places(plan) == {"kernel": RAM + 0x8_0000, "device tree": RAM + 64 * MIB}
    assert plan.x == (RAM + 64 * MIB, 0, 0, 0)
    assert plan.dtb_address == RAM + 64 * MIB


def test_image_that_asks_for_the_start_of_ram_goes_2_mib_higher(files: Files) -> None:
    """QEMU's first instructions are there; so the same kernel is at the same place on both."""
    assert files.plan(kernel=arm64_image(text_offset=0)).entry == RAM + 2 * MIB
    assert files.plan(kernel=arm64_image(text_offset=0xFFC)).entry == RAM + 2 * MIB + 0xFFC
    assert files.plan(kernel=arm64_image(text_offset=0x1000)).entry == RAM + 0x1000


def test_flat_image_goes_to_512_kib(files: Files) -> None:
    plan = files.plan(kernel=BRANCH_TO_ITSELF * 4)
    assert plan.entry == RAM + 0x8_0000
    assert plan.x[0] == RAM + 64 * MIB


def test_kernel_claims_its_image_size(files: Files) -> None:
    """0x80000 + 80 MiB is beyond the middle of RAM, and so pushes the rest."""
    plan = files.plan(kernel=arm64_image(0x8_0000, 80 * MIB), initrd=b"initrd")
    kernel, initrd, _ = plan.pieces
    assert (kernel.size, len(kernel.data)) == (80 * MIB, 0x2000)
    assert initrd.address == RAM + 0x8_0000 + 80 * MIB
    assert plan.x[0] == RAM + 82 * MIB


@pytest.mark.parametrize(("ram_mib", "start_mib"), [(64, 32), (128, 64), (256, 128), (1024, 128)])
def test_initrd_goes_to_the_middle_of_ram_but_not_above_128_mib(
    files: Files, ram_mib: int, start_mib: int
) -> None:
    plan = files.plan(ram_mib=ram_mib, kernel=arm64_image(), initrd=b"i" * 5000)
    assert places(plan)["initrd"] == RAM + start_mib * MIB
    assert places(plan)["device tree"] == RAM + (start_mib + 2) * MIB


def test_initrd_begins_on_a_page_behind_the_kernel(files: Files) -> None:
    plan = files.plan(ram_mib=8, kernel=arm64_image(0x8_0000, 0x40_0001), initrd=b"i")
    assert places(plan)["initrd"] == RAM + 0x48_1000


def test_device_tree_tells_the_kernel_its_command_line_and_initrd(files: Files) -> None:
    chosen = tree(
        files.plan(kernel=arm64_image(), initrd=b"i" * 5000, append="console=ttyAMA0 quiet")
    ).child("chosen")
    assert chosen.properties == {
        "stdout-path": b"/pl011@9000000\0",
        "bootargs": b"console=ttyAMA0 quiet\0",
        "linux,initrd-start": wide(RAM + 64 * MIB),
        "linux,initrd-end": wide(RAM + 64 * MIB + 5000),
    }


def test_kernel_packed_by_gzip_starts_like_the_same_kernel_unpacked(files: Files) -> None:
    plan = files.plan(kernel=arm64_image())
    same = files.plan(kernel=packed(arm64_image()))
    assert (same.pieces, same.entry, same.x) == (plan.pieces, plan.entry, plan.x)


def test_linux_starts_at_el1_or_where_it_is_told_to(files: Files) -> None:
    assert files.plan(kernel=arm64_image()).el == EL1
    assert files.plan(kernel=arm64_image(), secure=True).el == EL1
    assert files.plan(kernel=arm64_image(), el=2).el == EL2
    assert not files.plan(kernel=arm64_image(), secure=True).secure


def test_kernel_as_elf_file_finds_the_device_tree_at_the_start_of_ram(files: Files) -> None:
    plan = files.plan(kernel=elf(RAM + 0x20_0000), initrd=b"i", append="x")
    assert places(plan) == {
        "kernel": RAM + 0x20_0000,
        "initrd": RAM + 64 * MIB,
        "device tree": RAM,
    }
    assert (plan.entry, plan.x) == (RAM + 0x20_0000, (RAM, 0, 0, 0))
    assert tree(plan).child("chosen").properties["bootargs"] == b"x\0"


def test_kernel_as_elf_file_at_the_start_of_ram_has_the_device_tree_behind_it(files: Files) -> None:
    plan = files.plan(kernel=elf(RAM, 65 * MIB))
    assert plan.x == (RAM + 66 * MIB, 0, 0, 0)


# Firmware in RAM


def test_firmware_finds_the_device_tree_below_itself(files: Files) -> None:
    plan = files.plan(firmware=elf(RAM + 0x20_0000))
    assert places(plan) == {"firmware": RAM + 0x20_0000, "device tree": RAM}
    assert (plan.entry, plan.el, plan.x) == (RAM + 0x20_0000, EL1, (RAM, 0, 0, 0))


def test_firmware_at_the_start_of_ram_has_no_device_tree(files: Files) -> None:
    plan = files.plan(firmware=elf(RAM))
    assert places(plan) == {"firmware": RAM}
    assert (plan.dtb_address, plan.x) == (None, (0, 0, 0, 0))


def test_device_tree_just_fits_below_firmware_or_does_not(files: Files) -> None:
    size = len(files.plan(firmware=elf(RAM)).dtb)
    fits = -(-size // 4) * 4
    assert files.plan(firmware=elf(RAM + fits)).dtb_address == RAM
    assert files.plan(firmware=elf(RAM + fits - 4)).dtb_address is None


def test_memory_of_firmware_without_bytes_in_the_file_is_claimed(files: Files) -> None:
    firmware = Elf([Load(RAM + 0x10_0000), Load(RAM, b"", memsz=16)], entry=RAM + 0x10_0000)
    assert files.plan(firmware=firmware.build()).dtb_address is None


def test_firmware_starts_at_the_level_of_a_board_with_el3_or_where_it_is_told_to(
    files: Files,
) -> None:
    assert files.plan(firmware=elf()).el == EL1
    assert files.plan(firmware=elf(), secure=True).el == EL3
    assert [files.plan(firmware=elf(), el=el).el for el in (1, 2, 3)] == [EL1, EL2, EL3]
    assert files.plan(firmware=elf(), el=1, secure=True).el == EL1


def test_start_at_el3_is_secure_and_one_below_is_not(files: Files) -> None:
    assert [files.plan(firmware=elf(), el=el).secure for el in (1, 2, 3)] == [False, False, True]


# Firmware in flash


def test_bios_is_entered_at_0_at_el3_with_the_device_tree_at_the_start_of_ram(files: Files) -> None:
    plan = files.plan(bios=b"flash")
    assert places(plan) == {"bios": 0, "device tree": RAM}
    assert (plan.entry, plan.el, plan.secure, plan.x) == (0, EL3, True, (0, 0, 0, 0))
    assert plan.image.path.name == "bios"


def test_bios_may_start_lower(files: Files) -> None:
    plan = files.plan(bios=b"flash", el=2)
    assert (plan.entry, plan.el, plan.conduit) == (0, EL2, "smc")


def test_bios_of_a_core_without_el3_starts_at_the_highest_level(files: Files) -> None:
    assert files.plan(bios=b"flash", features=frozenset({Feature.FEAT_EL2})).el == EL2
    assert files.plan(bios=b"flash", features=frozenset()).el == EL1


def test_bios_finds_firmware_in_ram(files: Files) -> None:
    plan = files.plan(bios=b"flash", firmware=elf(RAM + 0x20_0000))
    assert places(plan) == {"bios": 0, "firmware": RAM + 0x20_0000, "device tree": RAM}
    assert (plan.entry, plan.el) == (0, EL3)


def test_bios_fills_a_flash_bank_of_64_mib(files: Files) -> None:
    with (files.folder / "whole").open("wb") as stream:
        stream.truncate(64 * MIB)
    assert files.plan(bios=str(files.folder / "whole")).pieces[0].size == 64 * MIB
    with (files.folder / "more").open("wb") as stream:
        stream.truncate(64 * MIB + 1)
    problem = files.problem(bios=str(files.folder / "more"))
    assert problem == "more: is larger than the flash bank: 0x4000000 bytes"


# The machine in the device tree


@pytest.mark.parametrize(("el", "method"), [(1, b"hvc\0"), (2, b"smc\0")])
def test_psci_is_called_at_the_level_above(files: Files, el: int, method: bytes) -> None:
    plan = files.plan(firmware=elf(), el=el, smp=2)
    assert plan.conduit.encode() + b"\0" == method
    assert tree(plan).find("/psci").properties["method"] == method
    assert tree(plan).find("/cpus/cpu@1").properties["enable-method"] == b"psci\0"
    assert not plan.all_start


def test_guest_that_owns_el3_has_no_psci_and_so_all_pes_start(files: Files) -> None:
    plan = files.plan(firmware=elf(), el=3, smp=2)
    assert plan.conduit is None
    assert plan.all_start
    assert tree(plan).find("/psci") is None
    assert "enable-method" not in tree(plan).find("/cpus/cpu@1").properties


def test_every_pe_is_in_the_device_tree(files: Files) -> None:
    cpus = tree(files.plan(firmware=elf(), smp=8)).child("cpus")
    found = [node for node in cpus.children if node.name.startswith("cpu@")]
    assert [cpu.properties["reg"] for cpu in found] == [cells(n) for n in range(8)]


def test_ram_is_in_the_device_tree(files: Files) -> None:
    memory = tree(files.plan(ram_mib=640, firmware=elf())).child("memory@40000000")
    assert memory.properties["reg"] == wide(RAM, 640 * MIB)


def test_spe_is_in_the_device_tree_of_a_guest_that_finds_it(files: Files) -> None:
    assert tree(files.plan(firmware=elf())).find("/spe-pmu") is not None
    from_outside = files.plan(firmware=elf(), sampling=Sampling(1000))
    assert tree(from_outside).find("/spe-pmu") is None


def test_pmu_is_in_the_device_tree_of_a_core_that_has_it(files: Files) -> None:
    assert tree(files.plan(firmware=elf())).find("/pmu") is None
    options = MachineOptions(core=CORE, firmware=files.file("guest.elf", elf()))
    node = tree(boot_plan(options)).find("/pmu")
    assert node.properties["compatible"] == b"arm,armv8-pmuv3\0"
    assert node.properties["interrupts"] == b"".join(n.to_bytes(4, "big") for n in (1, 7, 4))


def test_secure_ram_is_in_the_device_tree_of_a_secure_board(files: Files) -> None:
    assert tree(files.plan(firmware=elf())).find("/secram@e000000") is None
    assert tree(files.plan(firmware=elf(), secure=True)).find("/secram@e000000") is not None


def test_interrupt_of_the_virtual_interface_is_for_those_who_can_use_it(files: Files) -> None:
    has = ["interrupts" in tree(files.plan(firmware=elf(), el=el)).find("/intc@8000000").properties
           for el in (1, 2, 3)]  # fmt: skip
    assert has == [False, True, True]


def test_tree_of_a_machine_with_nothing_loaded_is_that_of_a_start_without_files(
    files: Files,
) -> None:
    options = MachineOptions(core=core_with(ALL), el=2, smp=4)
    assert machine_dtb(options) == files.plan(firmware=elf(), el=2, smp=4).dtb


# Plain data


def test_plain_data_goes_beside_what_is_loaded_and_not_over_it(files: Files) -> None:
    data = files.file("data", b"x" * 0x1000)
    plan = files.plan(firmware=elf(RAM + MIB), load=(f"{data}@{RAM + MIB + 0x1000:#x}",))
    assert places(plan)["data"] == RAM + MIB + 0x1000
    said = files.problem(firmware=elf(RAM + MIB), load=(f"{data}@{RAM + MIB + 0xFFF:#x}",))
    assert said.startswith("`load` data@0x40100fff: ")
    assert said.endswith("(0x40100000 to 0x40100fff) is there already")
    twice = (f"{data}@{RAM + 4 * MIB:#x}",) * 2
    assert "data (0x40400000 to 0x40400fff)" in files.problem(firmware=elf(), load=twice)


# The user's device tree


def test_users_tree_is_told_of_ram_command_line_and_initrd(files: Files) -> None:
    plan = files.plan(kernel=arm64_image(), dtb=USERS_TREE, append="new", initrd=b"i")
    root = tree(plan)
    assert root.properties["model"] == b"mine\0"
    assert root.child("memory@40000000").properties["reg"] == wide(RAM, 128 * MIB)
    assert root.child("chosen").properties == {
        "bootargs": b"new\0",
        "linux,initrd-start": wide(RAM + 64 * MIB),
        "linux,initrd-end": wide(RAM + 64 * MIB + 1),
    }
    assert [node.name for node in root.children] == ["chosen", "memory@40000000"]


def test_users_command_line_stays_when_none_is_given(files: Files) -> None:
    plan = files.plan(kernel=arm64_image(), dtb=USERS_TREE)
    assert tree(plan).child("chosen").properties["bootargs"] == b"old\0"


def test_users_tree_is_never_left_out(files: Files) -> None:
    assert files.problem(firmware=elf(RAM), dtb=USERS_TREE).startswith("dtb: has 0x")
    assert files.plan(kernel=elf(RAM), dtb=USERS_TREE).x[0] == RAM + 64 * MIB


def test_users_tree_of_any_depth_is_taken(files: Files) -> None:
    root = Node("", {"#address-cells": cells(2), "#size-cells": cells(2)})
    node = root
    for _ in range(5000):
        node.children.append(Node("n"))
        node = node.children[0]
    plan = files.plan(kernel=arm64_image(), dtb=to_bytes(DeviceTree(root)))
    assert len(list(tree(plan).children)) == 2


# What is refused


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "nothing to run: name `firmware` or `kernel`"),
        ({"firmware": elf(), "append": ""}, "`append` is for a kernel: it needs `kernel`"),
        ({"bios": b"x", "initrd": b"i"}, "`initrd` is for a kernel: it needs `kernel`"),
        ({"firmware": elf(), "kernel": elf()}, "`firmware` and `kernel` are both what to start"),
        ({"bios": b"x", "append": "x"}, "`append` is for a kernel: it needs `kernel`"),
        ({"bios": elf()}, "bios: is an ELF file, but flash takes plain bytes"),
        ({"bios": b""}, "bios: is empty"),
        ({"kernel": b""}, "kernel: is empty"),
        ({"kernel": arm64_image(), "initrd": b""}, "initrd: is empty"),
        ({"kernel": arm64_image(flags=1)}, "kernel: is a big-endian kernel"),
        ({"kernel": arm64_image(), "el": 3}, "kernel: is a Linux kernel, which starts at EL2"),
        ({"kernel": Elf(elf_class=1).build()}, "kernel: is a 32-bit ELF file"),
        ({"kernel": elf(0)}, "kernel: segment 0x0 to 0xfff lies outside RAM"),
        ({"firmware": arm64_image()}, "firmware: is not an ELF file"),
        ({"firmware": elf(), "dtb": b"\x7fELF" + bytes(60)}, "dtb: not a device tree: it begins"),
        ({"firmware": elf(), "dtb": USERS_TREE[:-1]}, "dtb: the device tree is cut off"),
        ({"firmware": elf(), "dtb": b"x"}, "dtb: a device tree has at least 40 bytes"),
        ({"firmware": elf(), "dtb": bytes(2 * MIB + 1)}, "dtb: is larger than a device tree can"),
        ({"ram_mib": 2, "kernel": bytes(2 * MIB + 1)}, "kernel: is larger than RAM"),
        (
            {"ram_mib": 4, "kernel": arm64_image()},
            "kernel: needs 0x300000 bytes at 0x40200000, but RAM ends at 0x40400000: give it more",
        ),
        (
            {"ram_mib": 4, "kernel": arm64_image(1 << 63)},
            "kernel: needs 0x300000 bytes at 0x8000000040000000, but RAM ends at",
        ),
        (
            {"ram_mib": 8, "kernel": arm64_image(), "initrd": bytes(4 * MIB)},
            "initrd: has no room after the kernel: it needs 0x400000 bytes at 0x40500000, "
            "but RAM ends at 0x40800000: give it more RAM",
        ),
        (
            {"ram_mib": 6, "kernel": arm64_image()},
            "the device tree has no room after the kernel and initrd: it needs 0x",
        ),
    ],
)
def test_start_that_cannot_be_is_refused_with_one_line(
    files: Files, given: dict[Any, Any], problem: str
) -> None:
    assert files.problem(**given).startswith(problem)


@pytest.mark.parametrize("name", ["firmware", "kernel", "bios", "initrd", "dtb"])
def test_file_that_is_not_there_is_named(files: Files, name: str) -> None:
    given = {"kernel": arm64_image()} if name in ("initrd", "dtb") else {}
    problem = files.problem(**given, **{name: str(files.folder / "missing")})
    assert problem == "missing: No such file or directory"


@pytest.mark.parametrize("name", ["firmware", "kernel", "bios", "initrd", "dtb"])
def test_folder_is_no_file(files: Files, name: str) -> None:
    given = {"kernel": arm64_image()} if name in ("initrd", "dtb") else {}
    with pytest.raises(LoadError, match="is a directory, not a"):
        files.plan(**given, **{name: str(files.folder)})


@pytest.mark.parametrize(
    ("features", "given", "problem"),
    [
        ({Feature.FEAT_EL2}, {"el": 3}, "`el` 3: the core has no EL3"),
        ({Feature.FEAT_EL3}, {"el": 2}, "`el` 2: the core has no EL2"),
        ({Feature.FEAT_EL2}, {"secure": True}, "`secure`: the core has no EL3"),
    ],
)
def test_level_that_the_core_has_not_is_refused(
    files: Files, features: set[Feature], given: dict[str, bool] | dict[str, int], problem: str
) -> None:
    assert files.problem(firmware=elf(), features=frozenset(features), **given) == problem
