"""The device tree of the board, and what we add to one that the user brings.

The nodes are those of QEMU's ``virt``, less what is not there; PCIe, because nothing can be plugged
in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spe_unicorn.arch.counter import CLOCK
from spe_unicorn.arch.rules.cache_identification import Cache, Caches
from spe_unicorn.devices import gicv3
from spe_unicorn.devices.empty import VIRTIO_SLOT_SIZE
from spe_unicorn.devices.gicv3 import mmio as gicv3_mmio
from spe_unicorn.machine import memory_map as board
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

_GIC_PHANDLE: Final = 1
_CLOCK_PHANDLE: Final = 2
_GPIO_PHANDLE: Final = 3
_SECURE_GPIO_PHANDLE: Final = 4
_FIRST_CACHE_PHANDLE: Final = 5
"""Of the cache that PEs share; those of the PEs' own follow."""
_FIRST_CPU_PHANDLE: Final = _FIRST_CACHE_PHANDLE + 1 + gicv3.MAX_PES
_KEY_POWER: Final = 116
"""Linux's number of the key."""
_SPI, _PPI = 0, 1
_EDGE_RISING, _LEVEL_HIGH = 1, 4
_APB_HZ: Final = 24_000_000


@dataclass(frozen=True)
class BoardDescription:
    """What the device tree has to say of one board.

    ``affinities`` are the PEs' MPIDR_EL1 affinity fields, ``conduit`` is PSCI's ``hvc`` or ``smc``
    (None: the guest has no PSCI), ``initrd`` its first address and the one after its last.
    """

    ram_size: int
    affinities: tuple[int, ...] = (0,)
    conduit: str | None = "hvc"
    bootargs: str = ""
    initrd: tuple[int, int] | None = None
    spe: bool = True
    pmu: bool = False
    virtio: bool = True
    guest_el2: bool = False
    """Whether EL2 may be the guest's: the GIC has a maintenance interrupt, EL2 a virtual timer."""
    secure: bool = False
    flash: bool = False
    clock: int = CLOCK
    """Operations in a second of the guest."""
    caches: Caches | None = None
    """Each PE has its own, but all share the last one. None: the tree says nothing of them."""
    cluster: int = gicv3.MAX_PES
    """PEs in a cluster, of which a tree of several PEs tells."""


def board_dtb(description: BoardDescription) -> bytes:
    """The flattened device tree of a board."""
    ram = board.ram(description.ram_size)
    root = Node(
        "",
        {
            "#address-cells": cells(2),
            "#size-cells": cells(2),
            "compatible": strings("linux,dummy-virt"),
            "model": strings("spe-unicorn,virt"),
            "interrupt-parent": cells(_GIC_PHANDLE),
        },
    )
    root.children = [
        _chosen(description),
        _memory(ram.base, ram.size),
        _cpus(description),
        *_psci(description),
        _timer(description),
        _clock(),
        _gic(description),
        _uart(board.UART, board.UART_SPI),
        _rtc(),
        _gpio(board.GPIO, board.GPIO_SPI, _GPIO_PHANDLE),
        _power_key(),
        _fw_cfg(),
        *_flash(description),
        *_profiling(description),
        *_virtio(description),
        *_secure(description),
    ]
    return to_bytes(DeviceTree(root, boot_cpu=description.affinities[0]))


def with_boot_data(
    dtb: bytes,
    *,
    ram_size: int | None = None,
    bootargs: str | None = None,
    initrd: tuple[int, int] | None = None,
) -> bytes:
    """A user's device tree, told of this run: RAM, kernel command line, initial RAM disk.

    What is None stays as it is. RAM replaces every memory node of the root that is not disabled;
    sizes are written with the root's own numbers of cells. Raises DeviceTreeError for bytes that
    are no device tree and for one without usable cell numbers.
    """
    tree = parse(dtb)
    root = tree.root
    if ram_size is not None:
        ram = board.ram(ram_size)
        root.children = [node for node in root.children if not _is_memory(node)]
        root.children.append(_memory(ram.base, ram.size))
        root.children[-1].properties["reg"] = _sized(
            (_cell_count(root, "#address-cells"), ram.base),
            (_cell_count(root, "#size-cells"), ram.size),
        )
    if bootargs is not None or initrd is not None:
        chosen = root.child("chosen")
        if chosen is None:
            chosen = Node("chosen")
            root.children.append(chosen)
        if bootargs is not None:
            chosen.properties["bootargs"] = strings(bootargs)
        if initrd is not None:
            count = _cell_count(root, "#address-cells")
            for name, address in zip(_INITRD, initrd, strict=True):
                chosen.properties[name] = _sized((count, address))
    return to_bytes(tree)


_INITRD: Final = ("linux,initrd-start", "linux,initrd-end")


def _is_memory(node: Node) -> bool:
    disabled = node.properties.get("status", b"okay\0") not in (b"okay\0", b"ok\0")
    return node.properties.get("device_type") == b"memory\0" and not disabled


def _cell_count(root: Node, name: str) -> int:
    """The root's number of cells. Raises DeviceTreeError for one that is not 1 or 2."""
    value = int.from_bytes(root.properties.get(name, b""), "big")
    if value not in (1, 2):
        raise DeviceTreeError(f"the device tree's {name} is {value}; it has to be 1 or 2")
    return value


def _sized(*values: tuple[int, int]) -> bytes:
    """Values, each with its number of cells. Raises DeviceTreeError for one that does not fit."""
    result = b""
    for count, value in values:
        if value >> 32 * count:
            raise DeviceTreeError(f"{value:#x} does not fit into the device tree's {count} cell")
        result += value.to_bytes(4 * count, "big")
    return result


def _chosen(description: BoardDescription) -> Node:
    node = Node("chosen", {"stdout-path": strings(f"/pl011@{board.UART.base:x}")})
    if description.bootargs:
        node.properties["bootargs"] = strings(description.bootargs)
    if description.initrd is not None:
        for name, address in zip(_INITRD, description.initrd, strict=True):
            node.properties[name] = wide(address)
    return node


def _memory(base: int, size: int) -> Node:
    return Node(f"memory@{base:x}", {"device_type": strings("memory"), "reg": wide(base, size)})


def _cpus(description: BoardDescription) -> Node:
    node = Node("cpus", {"#address-cells": cells(1), "#size-cells": cells(0)})
    for affinity in description.affinities:
        properties = {
            "device_type": strings("cpu"),
            "compatible": strings("arm,armv8"),
            "reg": cells(affinity),
            "clock-frequency": _number(description.clock),
        }
        if description.conduit is not None:
            properties["enable-method"] = strings("psci")
        cpu = Node(f"cpu@{affinity:x}", properties)
        node.children.append(cpu)
        if description.caches is not None:
            _own_caches(cpu, description.caches, _FIRST_CACHE_PHANDLE + 1 + affinity)
    cpus = tuple(node.children)
    if description.caches is not None:
        node.children.append(_last_cache(description.caches))
    if len(cpus) > 1:
        node.children.append(_cpu_map(cpus, description.cluster))
    return node


def _cpu_map(cpus: tuple[Node, ...], cluster: int) -> Node:
    """Which PEs are a cluster, by phandles that their nodes get."""
    socket = Node("socket0")
    for number, cpu in enumerate(cpus):
        phandle = cells(_FIRST_CPU_PHANDLE + number)
        cpu.properties["phandle"] = phandle
        if number % cluster == 0:
            socket.children.append(Node(f"cluster{number // cluster}"))
        core = Node(f"core{number % cluster}", {"cpu": phandle})
        socket.children[-1].children.append(core)
    return Node("cpu-map", children=[socket])


def _own_caches(cpu: Node, caches: Caches, phandle: int) -> None:
    """Add what a PE has of caches to its node."""
    second, _ = caches.unified
    cpu.properties |= {
        **_geometry("i-", caches.instruction),
        **_geometry("d-", caches.data),
        "next-level-cache": cells(phandle),
    }
    next_level = {"next-level-cache": cells(_FIRST_CACHE_PHANDLE), "phandle": cells(phandle)}
    cpu.children.append(Node("l2-cache", _unified(2, second) | next_level))


def _last_cache(caches: Caches) -> Node:
    return Node(
        "l3-cache", _unified(3, caches.unified[-1]) | {"phandle": cells(_FIRST_CACHE_PHANDLE)}
    )


def _unified(level: int, cache: Cache) -> dict[str, bytes]:
    return {
        "compatible": strings("cache"),
        "cache-level": cells(level),
        "cache-unified": b"",
        **_geometry("", cache),
    }


def _geometry(prefix: str, cache: Cache) -> dict[str, bytes]:
    """The sizes of a cache as the Devicetree Specification (3.8) names them."""
    return {
        f"{prefix}cache-size": _number(cache.size),
        f"{prefix}cache-line-size": cells(cache.line),
        f"{prefix}cache-sets": cells(cache.sets),
    }


def _number(value: int) -> bytes:
    """A frequency or size in as many cells as it takes, as the Devicetree Specification has it."""
    return cells(value) if value < 1 << 32 else wide(value)


def _psci(description: BoardDescription) -> list[Node]:
    if description.conduit is None:
        return []
    properties = {
        "compatible": strings("arm,psci-1.0", "arm,psci-0.2"),
        "method": strings(description.conduit),
    }
    return [Node("psci", properties)]


def _timer(description: BoardDescription) -> Node:
    interrupts = [
        gicv3.SECURE_PHYSICAL_TIMER,
        gicv3.PHYSICAL_TIMER,
        gicv3.VIRTUAL_TIMER,
        gicv3.EL2_PHYSICAL_TIMER,
    ]
    if description.guest_el2:
        interrupts.append(gicv3.EL2_VIRTUAL_TIMER)
    properties = {
        "compatible": strings("arm,armv8-timer", "arm,armv7-timer"),
        "always-on": b"",
        "interrupts": b"".join(_ppi(intid) for intid in interrupts),
    }
    return Node("timer", properties)


def _ppi(intid: int) -> bytes:
    return cells(_PPI, intid - 16, _LEVEL_HIGH)


def _clock() -> Node:
    properties = {
        "compatible": strings("fixed-clock"),
        "#clock-cells": cells(0),
        "clock-frequency": cells(_APB_HZ),
        "clock-output-names": strings("clk24mhz"),
        "phandle": cells(_CLOCK_PHANDLE),
    }
    return Node("apb-pclk", properties)


def _gic(description: BoardDescription) -> Node:
    redistributors = len(description.affinities) * gicv3_mmio.REDISTRIBUTOR_SIZE
    properties = {
        "compatible": strings("arm,gic-v3"),
        "#interrupt-cells": cells(3),
        "interrupt-controller": b"",
        "#address-cells": cells(2),
        "#size-cells": cells(2),
        "ranges": b"",
        "#redistributor-regions": cells(1),
        "reg": wide(
            board.GIC_DISTRIBUTOR.base,
            board.GIC_DISTRIBUTOR.size,
            board.GIC_REDISTRIBUTORS.base,
            redistributors,
        ),
        "phandle": cells(_GIC_PHANDLE),
    }
    if description.guest_el2:
        properties["interrupts"] = _ppi(gicv3.MAINTENANCE)
    return Node(f"intc@{board.GIC_DISTRIBUTOR.base:x}", properties)


def _uart(region: board.Region, spi: int) -> Node:
    properties = {
        "compatible": strings("arm,pl011", "arm,primecell"),
        "reg": wide(region.base, region.size),
        "interrupts": cells(_SPI, spi, _LEVEL_HIGH),
        "clocks": cells(_CLOCK_PHANDLE, _CLOCK_PHANDLE),
        "clock-names": strings("uartclk", "apb_pclk"),
    }
    return Node(f"pl011@{region.base:x}", properties)


def _rtc() -> Node:
    properties = {
        "compatible": strings("arm,pl031", "arm,primecell"),
        "reg": wide(board.RTC.base, board.RTC.size),
        "interrupts": cells(_SPI, board.RTC_SPI, _LEVEL_HIGH),
        "clocks": cells(_CLOCK_PHANDLE),
        "clock-names": strings("apb_pclk"),
    }
    return Node(f"pl031@{board.RTC.base:x}", properties)


def _profiling(description: BoardDescription) -> list[Node]:
    nodes = []
    if description.spe:
        properties = {
            "compatible": strings("arm,statistical-profiling-extension-v1"),
            "interrupts": _ppi(gicv3.PMBIRQ),
        }
        nodes.append(Node("spe-pmu", properties))
    if description.pmu:
        properties = {
            "compatible": strings("arm,armv8-pmuv3"),
            "interrupts": _ppi(gicv3.PMUIRQ),
        }
        nodes.append(Node("pmu", properties))
    return nodes


def _virtio(description: BoardDescription) -> list[Node]:
    if not description.virtio:
        return []
    return [
        Node(
            f"virtio_mmio@{base:x}",
            {
                "compatible": strings("virtio,mmio"),
                "reg": wide(base, VIRTIO_SLOT_SIZE),
                "interrupts": cells(_SPI, board.VIRTIO_SPI + number, _EDGE_RISING),
                "dma-coherent": b"",
            },
        )
        for number, base in enumerate(range(board.VIRTIO.base, board.VIRTIO.end, VIRTIO_SLOT_SIZE))
    ]


def _secure(description: BoardDescription) -> list[Node]:
    """What is in the Secure address space alone."""
    if not description.secure:
        return []
    region = board.SECURE_RAM
    memory = _memory(region.base, region.size)
    memory.name = f"secram@{region.base:x}"
    switches = [
        Node(
            f"gpio-{name}",
            {"compatible": strings(f"gpio-{name}"), "gpios": cells(_SECURE_GPIO_PHANDLE, pin, 0)},
        )
        for name, pin in (("poweroff", _pin("off")), ("restart", _pin("reset")))
    ]
    uart = _uart(board.SECURE_UART, board.SECURE_UART_SPI)
    gpio = _gpio(board.SECURE_GPIO, board.SECURE_GPIO_SPI, _SECURE_GPIO_PHANDLE)
    nodes = [uart, memory, gpio, *switches]
    for node in nodes:
        node.properties["status"] = strings("disabled")
        node.properties["secure-status"] = strings("okay")
    return [*nodes, Node("secure-chosen", {"stdout-path": strings(f"/{uart.name}")})]


def _pin(action: str) -> int:
    return next(pin for pin, does in board.POWER_PINS.items() if does == action)


def _gpio(region: board.Region, spi: int, phandle: int) -> Node:
    properties = {
        "compatible": strings("arm,pl061", "arm,primecell"),
        "reg": wide(region.base, region.size),
        "interrupts": cells(_SPI, spi, _LEVEL_HIGH),
        "clocks": cells(_CLOCK_PHANDLE),
        "clock-names": strings("apb_pclk"),
        "gpio-controller": b"",
        "#gpio-cells": cells(2),
        "phandle": cells(phandle),
    }
    return Node(f"pl061@{region.base:x}", properties)


def _power_key() -> Node:
    key = Node(
        "poweroff",
        {
            "label": strings("GPIO Key Poweroff"),
            "linux,code": cells(_KEY_POWER),
            "gpios": cells(_GPIO_PHANDLE, board.POWER_KEY_PIN, 0),
        },
    )
    return Node("gpio-keys", {"compatible": strings("gpio-keys")}, [key])


def _fw_cfg() -> Node:
    region = board.FW_CFG
    properties = {
        "compatible": strings("qemu,fw-cfg-mmio"),
        "reg": wide(region.base, region.size),
        "dma-coherent": b"",
    }
    return Node(f"fw-cfg@{region.base:x}", properties)


def _flash(description: BoardDescription) -> list[Node]:
    """Both flashes in a node, or in two where the first is in the Secure address space."""
    if not description.flash:
        return []
    first, second = board.SECURE_FLASH, board.OTHER_FLASH
    properties = {"compatible": strings("cfi-flash"), "bank-width": cells(4)}
    if not description.secure:
        places = wide(first.base, first.size, second.base, second.size)
        return [Node(f"flash@{first.base:x}", {**properties, "reg": places})]
    status = {"status": strings("disabled"), "secure-status": strings("okay")}
    return [
        Node(
            f"secflash@{first.base:x}",
            {**properties, "reg": wide(first.base, first.size), **status},
        ),
        Node(f"flash@{second.base:x}", {**properties, "reg": wide(second.base, second.size)}),
    ]
