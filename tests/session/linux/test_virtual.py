"""A virtual machine of the guest's KVM: its files, and what has a command run in it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from spe_unicorn.cli import main
from spe_unicorn.machine.boot.fdt import parse
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.planned import Planned, Virtual, Wanted, planned
from spe_unicorn.session.linux.virtual import vm_files
from tests.session.linux.cpio import entries
from tests.support.elf_builder import Elf, Load

RAM, MIB = 0x4000_0000, 1 << 20
IMAGE = struct.pack("<8xQQQ24x4s4x", 0, 3 * MIB, 0, b"ARM\x64") + b"the kernel"


def places(plan: bytes) -> list[int]:
    return [int(line) for line in plan.split()]


def test_a_kernel_lies_where_linux_asks_for_and_the_rest_behind_it(tmp_path: Path) -> None:
    kernel = tmp_path / "Image"
    kernel.write_bytes(IMAGE)
    files = dict(vm_files(kernel, b"disk", b"steps"))
    ram, start, entry, tree, disk = places(files["vm/plan"])
    assert (ram, start, entry) == (256 * MIB, RAM + 2 * MIB, RAM + 2 * MIB)
    assert disk >= start + 3 * MIB
    assert tree >= disk + len(b"disk")
    assert tree % (2 * MIB) == 0  # Linux wants a tree within a block of 2 MiB
    assert tree + 2 * MIB <= RAM + ram
    assert (files["vm/kernel"], files["vm/initrd"], files["vm/steps"]) == (IMAGE, b"disk", b"steps")


def test_its_device_tree_has_what_the_program_has_and_room_for_the_command(tmp_path: Path) -> None:
    kernel = tmp_path / "Image"
    kernel.write_bytes(IMAGE)
    files = dict(vm_files(kernel, b"disk", b""))
    root = parse(files["vm/dtb"]).root
    names = {node.name for node in root.children}
    assert names == {
        *("chosen", "memory@40000000", "cpus", "psci", "timer", "apb-pclk"),
        *("intc@8000000", "pl011@9000000"),
    }
    chosen = root.child("chosen")
    assert chosen is not None
    start, end = (
        int.from_bytes(chosen.properties[f"linux,initrd-{what}"], "big")
        for what in ("start", "end")
    )
    assert start == places(files["vm/plan"])[4]
    assert end - start >= len(b"disk") + 8000  # the longest command that can be typed


def test_firmware_lies_where_it_was_linked() -> None:
    files = dict(vm_files(shipped_firmware("vm_spe"), b"", b""))
    _, start, entry, tree, _ = places(files["vm/plan"])
    assert start == entry == RAM + 0x8_0000
    assert tree == RAM


def test_each_segment_of_firmware_is_at_its_place(tmp_path: Path) -> None:
    pieces = [Load(RAM, b"first"), Load(RAM + 0x1000, b"second")]
    (tmp_path / "elf").write_bytes(Elf(pieces).build())
    data = dict(vm_files(tmp_path / "elf", b"", b""))["vm/kernel"]
    assert data == b"first".ljust(0x1000, b"\0") + b"second"


def test_a_file_that_is_neither_is_refused(tmp_path: Path) -> None:
    kernel = tmp_path / "bzImage"
    kernel.write_bytes(bytes(0x202) + b"HdrS" + bytes(64))
    with pytest.raises(LoadError, match="is an x86 kernel"):
        vm_files(kernel, b"", b"")


def wanted(tmp_path: Path, virtual: Virtual, **more: str) -> Planned:
    kernel, box = tmp_path / "Image", tmp_path / "box"
    kernel.write_bytes(IMAGE)
    box.write_bytes(b"box")
    return planned(Wanted(("echo", "a"), kernel, busybox=str(box), virtual=virtual, **more))


def test_the_guest_runs_the_virtual_machine_and_that_runs_the_command(tmp_path: Path) -> None:
    found = entries(wanted(tmp_path, Virtual(under=("spe_client", "-a"))).initrd)
    told = found["init.steps"][1].decode().split("\0")
    assert told[-8:] == ["run", "5", "spe_client", "-a", "vm", "echo", "a", ""]
    inner = entries(found["vm/initrd"][1])
    assert inner["bin/busybox"][1] == b"box"
    assert "vm/kernel" not in inner
    assert found["vm/steps"][1].decode().split("\0")[2:4] == ["/bin/busybox", "--install"]


def test_it_does_not_go_with_a_root(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="does not go with --root"):
        wanted(tmp_path, Virtual(), root=str(tmp_path))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--kvm-under", "x", "--", "true"), "--kvm-kernel and --kvm-under go with --kvm"),
        (("--kvm",), "--kvm needs a command"),
        (("--kvm", "--matrix", "."), "--kvm runs the commands of a file"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["linux", *words])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
