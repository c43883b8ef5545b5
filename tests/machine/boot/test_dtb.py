from __future__ import annotations

import shutil
import struct
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spe_unicorn.machine.boot.dtb import BoardDescription, board_dtb, with_boot_data
from spe_unicorn.machine.boot.fdt import (
    DeviceTree,
    DeviceTreeError,
    Node,
    cells,
    parse,
    strings,
    to_bytes,
    wide,
)

MIB = 1 << 20


def board(**options) -> Node:
    return parse(board_dtb(BoardDescription(ram_size=128 * MIB, **options))).root


def words(value: bytes) -> list[int]:
    return list(struct.unpack(f">{len(value) // 4}I", value))


# The format


def test_smallest_tree_has_the_layout_of_the_standard() -> None:
    data = to_bytes(DeviceTree(Node("", {"a": b"\1"})))
    assert data == bytes.fromhex(
        "d00dfeed" "0000005a" "00000038" "00000058" "00000028" "00000011" "00000010" "00000000"
        "00000002" "00000020"  # header
        "0000000000000000" "0000000000000000"  # no reservations
        "00000001" "00000000"  # the root begins
        "00000003" "00000001" "00000000" "01000000"  # its property
        "00000002" "00000009"  # the root ends, the tree ends
        "6100"
    )  # fmt: skip


names = st.text("abcdefghijklmnopqrstuvwxyz0123456789,._+-#@", min_size=1, max_size=12)
nodes = st.recursive(
    st.builds(Node, names, st.dictionaries(names, st.binary(max_size=9), max_size=4)),
    lambda children: st.builds(
        Node,
        names,
        st.dictionaries(names, st.binary(max_size=9), max_size=2),
        st.lists(children, max_size=3),
    ),
    max_leaves=8,
)
u64 = st.integers(0, (1 << 64) - 1)
trees = st.builds(
    DeviceTree,
    nodes,
    st.lists(st.tuples(u64, st.integers(1, (1 << 64) - 1)), max_size=2),
    st.integers(0, 7),
)


@given(trees)
def test_parsing_gives_back_the_tree_that_was_written(tree):
    assert parse(to_bytes(tree)) == tree


@given(trees, st.data())
def test_every_cut_is_refused_with_one_line(tree, data):
    whole = to_bytes(tree)
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DeviceTreeError) as error:
        parse(whole[:length])
    assert "\n" not in str(error.value)


@given(trees, st.data())
def test_no_changed_byte_raises_anything_but_our_error(tree, data):
    broken = bytearray(to_bytes(tree))
    place = data.draw(st.integers(0, len(broken) - 1))
    broken[place] ^= data.draw(st.integers(1, 255))
    with suppress(DeviceTreeError):
        parse(bytes(broken))


def test_bytes_behind_the_tree_are_left_alone() -> None:
    tree = DeviceTree(Node("", {"a": b"x"}))
    assert parse(to_bytes(tree) + b"padding") == tree


def test_file_that_is_no_device_tree_is_named_by_its_first_word() -> None:
    with pytest.raises(DeviceTreeError, match="0x7f454c46"):
        parse(b"\x7fELF" + bytes(60))


def test_nesting_of_any_depth_is_read() -> None:
    structure = cells(1, 0) * 20_000 + cells(2) * 20_000 + cells(9)
    header = struct.pack(
        ">10I", 0xD00DFEED, 56 + len(structure), 56, 56, 40, 17, 16, 0, 0, len(structure)
    )
    tree = parse(header + bytes(16) + structure)
    assert len(tree.root.children) == 1


# The board


def test_board_has_these_nodes_and_no_others() -> None:
    root = board(virtio=False)
    assert [node.name for node in root.children] == [
        "chosen",
        "memory@40000000",
        "cpus",
        "psci",
        "timer",
        "apb-pclk",
        "intc@8000000",
        "pl011@9000000",
        "pl031@9010000",
        "pl061@9030000",
        "gpio-keys",
        "fw-cfg@9020000",
        "spe-pmu",
    ]


def test_memory_is_as_large_as_the_ram() -> None:
    memory = board().find("/memory@40000000")
    assert memory.properties["reg"] == wide(0x4000_0000, 128 * MIB)
    assert memory.properties["device_type"] == b"memory\0"


def test_spe_has_ppi_5_active_high() -> None:
    node = board().find("/spe-pmu")
    assert node.properties["compatible"] == b"arm,statistical-profiling-extension-v1\0"
    assert words(node.properties["interrupts"]) == [1, 5, 4]
    assert board(spe=False).find("/spe-pmu") is None


def test_pmu_is_described_when_there_is_one() -> None:
    assert board().find("/pmu") is None
    node = board(pmu=True).find("/pmu")
    assert node.properties["compatible"] == b"arm,armv8-pmuv3\0"
    assert words(node.properties["interrupts"]) == [1, 7, 4]


@pytest.mark.parametrize("guest_el2", [False, True])
def test_timer_has_the_virtual_one_of_el2_where_el2_may_be_the_guests(guest_el2: bool) -> None:
    timer = board(guest_el2=guest_el2).find("/timer")
    assert words(timer.properties["interrupts"]) == [
        *(1, 13, 4),  # Secure physical
        *(1, 14, 4),  # physical
        *(1, 11, 4),  # virtual
        *(1, 10, 4),  # of EL2, physical
        *((1, 12, 4) if guest_el2 else ()),
    ]


def test_gic_has_a_redistributor_for_each_pe() -> None:
    gic = board(affinities=(0, 1, 2)).find("/intc@8000000")
    assert gic.properties["reg"] == wide(0x0800_0000, 0x1_0000, 0x080A_0000, 0x6_0000)
    assert gic.properties["compatible"] == b"arm,gic-v3\0"
    assert "interrupts" not in gic.properties


def test_maintenance_interrupt_belongs_to_a_guest_el2() -> None:
    gic = board(guest_el2=True).find("/intc@8000000")
    assert words(gic.properties["interrupts"]) == [1, 9, 4]


def test_interrupt_parent_and_clocks_point_at_their_nodes() -> None:
    root = board()
    assert root.properties["interrupt-parent"] == root.find("/intc@8000000").properties["phandle"]
    clock = root.find("/apb-pclk").properties["phandle"]
    assert root.find("/pl011@9000000").properties["clocks"] == clock * 2
    assert root.find("/pl031@9010000").properties["clocks"] == clock


@pytest.mark.parametrize("conduit", ["hvc", "smc"])
def test_pes_are_started_by_psci(conduit: str) -> None:
    root = board(affinities=(0, 1), conduit=conduit)
    assert root.find("/psci").properties["method"] == conduit.encode() + b"\0"
    for name, reg in (("cpu@0", 0), ("cpu@1", 1)):
        cpu = root.find(f"/cpus/{name}")
        assert cpu.properties["reg"] == cells(reg)
        assert cpu.properties["enable-method"] == b"psci\0"


def test_the_map_of_several_pes_has_their_clusters() -> None:
    root = board(affinities=tuple(range(6)), cluster=4)
    told = {
        (socket.name, cluster.name, core.name): core.properties["cpu"]
        for socket in root.find("/cpus/cpu-map").children
        for cluster in socket.children
        for core in cluster.children
    }
    places = [("cluster0", f"core{n}") for n in range(4)]
    places += [("cluster1", "core0"), ("cluster1", "core1")]
    assert told == {
        ("socket0", *place): root.find(f"/cpus/cpu@{number}").properties["phandle"]
        for number, place in enumerate(places)
    }
    phandles = [n.properties["phandle"] for _, n in root.walk() if "phandle" in n.properties]
    assert len(set(phandles)) == len(phandles)


def test_one_pe_has_no_map() -> None:
    assert board().find("/cpus/cpu-map") is None


def test_guest_that_owns_el3_has_no_psci() -> None:
    root = board(conduit=None)
    assert root.find("/psci") is None
    assert "enable-method" not in root.find("/cpus/cpu@0").properties


def test_chosen_has_what_the_boot_needs() -> None:
    chosen = board(bootargs="console=ttyAMA0", initrd=(0x4400_0000, 0x4500_0000)).child("chosen")
    assert chosen.properties["bootargs"] == b"console=ttyAMA0\0"
    assert chosen.properties["linux,initrd-start"] == wide(0x4400_0000)
    assert chosen.properties["linux,initrd-end"] == wide(0x4500_0000)
    assert chosen.properties["stdout-path"] == b"/pl011@9000000\0"
    assert set(board().child("chosen").properties) == {"stdout-path"}


def test_virtio_slots_have_the_interrupts_of_the_virt_board() -> None:
    slots = [node for node in board().children if node.name.startswith("virtio_mmio")]
    assert len(slots) == 32
    assert slots[0].name == "virtio_mmio@a000000"
    assert slots[31].name == "virtio_mmio@a003e00"
    assert words(slots[0].properties["interrupts"]) == [0, 16, 1]
    assert words(slots[31].properties["interrupts"]) == [0, 47, 1]


@pytest.mark.parametrize("name", ["secram@e000000", "pl011@9040000"])
def test_what_is_secure_is_shown_to_secure_software_only(name: str) -> None:
    node = board(secure=True).find(f"/{name}")
    assert node.properties["status"] == b"disabled\0"
    assert node.properties["secure-status"] == b"okay\0"
    assert board().child(name) is None


def test_bytes_of_a_command_line_that_are_no_text_survive() -> None:
    raw = b"quiet \xff\xc3"
    chosen = board(bootargs=raw.decode("utf-8", "surrogateescape")).child("chosen")
    assert chosen.properties["bootargs"] == raw + b"\0"


# The tree that the user brings


def users_tree(address_cells: int = 2, size_cells: int = 2) -> bytes:
    root = Node(
        "",
        {"#address-cells": cells(address_cells), "#size-cells": cells(size_cells)},
        [
            Node("memory@0", {"device_type": strings("memory"), "reg": b""}),
            Node("memory@1", {"device_type": strings("memory"), "status": strings("disabled")}),
            Node("chosen", {"bootargs": strings("old"), "extra": b"kept"}),
        ],
    )
    return to_bytes(DeviceTree(root, [(0x4000_0000, 0x1000)], 3))


def test_user_tree_gets_ram_command_line_and_initrd() -> None:
    tree = parse(with_boot_data(users_tree(), ram_size=MIB, bootargs="new", initrd=(1, 2)))
    assert [n.name for n in tree.root.children] == ["memory@1", "chosen", "memory@40000000"]
    assert tree.root.child("memory@40000000").properties["reg"] == wide(0x4000_0000, MIB)
    assert tree.root.child("chosen").properties == {
        "bootargs": b"new\0",
        "extra": b"kept",
        "linux,initrd-start": wide(1),
        "linux,initrd-end": wide(2),
    }
    assert tree.reservations == [(0x4000_0000, 0x1000)]
    assert tree.boot_cpu == 3


def test_user_tree_is_left_alone_without_anything_to_say() -> None:
    assert parse(with_boot_data(users_tree())) == parse(users_tree())


def test_user_tree_keeps_its_own_cell_sizes() -> None:
    tree = parse(with_boot_data(users_tree(1, 1), ram_size=MIB, initrd=(1, 2)))
    assert tree.root.child("memory@40000000").properties["reg"] == cells(0x4000_0000, MIB)
    assert tree.root.child("chosen").properties["linux,initrd-end"] == cells(2)


def test_user_tree_without_chosen_gets_one() -> None:
    data = to_bytes(DeviceTree(Node("", {"#address-cells": cells(2)})))
    tree = parse(with_boot_data(data, bootargs="x"))
    assert tree.root.child("chosen").properties == {"bootargs": b"x\0"}


def test_user_tree_with_unusable_cells_is_refused() -> None:
    with pytest.raises(DeviceTreeError, match="#address-cells is 3"):
        with_boot_data(users_tree(3), ram_size=MIB)
    with pytest.raises(DeviceTreeError, match="0x100000000 does not fit"):
        with_boot_data(users_tree(2, 1), ram_size=1 << 32)


# Other tools as judges


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.mark.parametrize(
    "options",
    [{}, {"affinities": (0, 1, 2, 3), "pmu": True, "guest_el2": True, "secure": True}],
)
def test_dtc_reads_the_board_without_a_warning(
    tmp_path: Path, options: dict[Any, Any] | dict[str, bool | tuple[int, int, int, int]]
) -> None:
    path = tmp_path / "board.dtb"
    path.write_bytes(board_dtb(BoardDescription(ram_size=64 * MIB, bootargs="a b", **options)))
    done = subprocess.run(
        [tool("dtc"), "-I", "dtb", "-O", "dts", str(path)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 'bootargs = "a b";' in done.stdout
    assert "arm,statistical-profiling-extension-v1" in done.stdout


def test_tree_of_qemu_is_read_and_written_back(tmp_path: Path) -> None:
    path = tmp_path / "qemu.dtb"
    subprocess.run(
        [
            *(tool("qemu-system-aarch64"), "-display", "none", "-nic", "none"),
            *("-M", f"virt,gic-version=3,dumpdtb={path}", "-cpu", "max", "-m", "128M"),
        ],
        check=True,
        capture_output=True,
    )
    theirs = parse(path.read_bytes())
    assert parse(to_bytes(theirs)) == theirs
    ours = board()
    for place in ("/memory@40000000", "/pl011@9000000", "/pl031@9010000", "/virtio_mmio@a000000"):
        mine, reference = ours.find(place).properties, theirs.root.find(place).properties
        for name in ("reg", "interrupts", "compatible", "device_type"):
            assert mine.get(name) == reference.get(name), (place, name)
