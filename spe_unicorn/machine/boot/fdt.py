"""Flattened device trees (Devicetree Specification 0.4, chapter 5): a tree to bytes and back."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

VERSION: Final = 17
_COMPATIBLE: Final = 16
_MAGIC: Final = 0xD00D_FEED
_HEADER: Final = struct.Struct(">10I")
_BEGIN_NODE, _END_NODE, _PROP, _NOP, _END = 1, 2, 3, 4, 9


class DeviceTreeError(ValueError):
    """Bytes that are no device tree, or one that lacks what it needs; the message is one line."""


@dataclass
class Node:
    """A node: its name with unit address, its properties in order, its children in order."""

    name: str
    properties: dict[str, bytes] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)

    def child(self, name: str) -> Node | None:
        """The child of that name, None if there is none."""
        return next((node for node in self.children if node.name == name), None)

    def walk(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """Every node with its path, this one first; parents come before their children."""
        here = f"{path}/{self.name}" if self.name else ""
        yield here or "/", self
        for node in self.children:
            yield from node.walk(here)

    def find(self, path: str) -> Node | None:
        """The node at an absolute path, such as ``/cpus/cpu@0``, seen from the root."""
        return next((node for place, node in self.walk() if place == path), None)


@dataclass
class DeviceTree:
    """A root node, the memory reservations ``(address, size)`` and the boot CPU's ``reg``."""

    root: Node
    reservations: list[tuple[int, int]] = field(default_factory=list)
    boot_cpu: int = 0


def cells(*values: int) -> bytes:
    """32-bit cells."""
    return struct.pack(f">{len(values)}I", *values)


def wide(*values: int) -> bytes:
    """64-bit values, each in two cells."""
    return struct.pack(f">{len(values)}Q", *values)


def strings(*values: str) -> bytes:
    """A string, or a list of strings; bytes that a command line could not decode survive."""
    return b"".join(value.encode("utf-8", "surrogateescape") + b"\0" for value in values)


def to_bytes(tree: DeviceTree) -> bytes:
    """The flattened tree."""
    names: dict[str, int] = {}
    structure = _flatten(tree.root, names) + cells(_END)
    string_block = b"".join(_name(name) for name in names)
    reservations = b"".join(wide(*entry) for entry in (*tree.reservations, (0, 0)))
    at_structure = _HEADER.size + len(reservations)
    at_strings = at_structure + len(structure)
    header = _HEADER.pack(
        _MAGIC,
        at_strings + len(string_block),
        at_structure,
        at_strings,
        _HEADER.size,
        VERSION,
        _COMPATIBLE,
        tree.boot_cpu,
        len(string_block),
        len(structure),
    )
    return header + reservations + structure + string_block


def _flatten(root: Node, names: dict[str, int]) -> bytes:
    """The structure block of a tree, as deep as it may be, and the names of its properties."""
    parts: list[bytes] = []
    at_string = 0
    open_nodes = [iter([root])]
    while open_nodes:
        node = next(open_nodes[-1], None)
        if node is None:
            open_nodes.pop()
            parts.append(cells(_END_NODE))
            continue
        parts += [cells(_BEGIN_NODE), _padded(_name(node.name))]
        for name, value in node.properties.items():
            if name not in names:
                names[name] = at_string
                at_string += len(_name(name))
            parts += [cells(_PROP, len(value), names[name]), _padded(value)]
        open_nodes.append(iter(node.children))
    return b"".join(parts[:-1])  # what surrounds the root is no node


def _name(name: str) -> bytes:
    # Latin-1, by which any byte of a foreign tree survives; the standard's names are ASCII.
    return name.encode("latin-1") + b"\0"


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def parse(data: bytes) -> DeviceTree:
    """The tree that ``data`` begins with; bytes after its total size are left alone.

    Raises DeviceTreeError for what is not one.
    """
    if len(data) < _HEADER.size:
        raise DeviceTreeError(f"a device tree has at least {_HEADER.size} bytes, not {len(data)}")
    (
        magic,
        total,
        at_structure,
        at_strings,
        at_reservations,
        _,
        compatible,
        boot_cpu,
        strings_size,
        structure_size,
    ) = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise DeviceTreeError(f"not a device tree: it begins with {magic:#010x}")
    if compatible > VERSION:
        raise DeviceTreeError(f"device tree version {compatible} is too new")
    if total > len(data):
        raise DeviceTreeError(f"the device tree is cut off: {len(data)} of {total} bytes")
    if at_structure + structure_size > total or at_strings + strings_size > total:
        raise DeviceTreeError("the device tree's blocks lie outside it")
    reader = _Reader(
        data[at_structure : at_structure + structure_size],
        data[at_strings : at_strings + strings_size],
    )
    return DeviceTree(reader.tree(), _reservations(data[:total], at_reservations), boot_cpu)


def _reservations(data: bytes, offset: int) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    while offset + 16 <= len(data):
        address, size = struct.unpack_from(">QQ", data, offset)
        if (address, size) == (0, 0):
            return result
        result.append((address, size))
        offset += 16
    raise DeviceTreeError("the device tree's memory reservations have no end")


class _Reader:
    """Reads the structure block."""

    def __init__(self, structure: bytes, names: bytes) -> None:
        self._structure = structure
        self._names = names
        self._offset = 0

    def tree(self) -> Node:
        """The root. The nesting is kept in a list, so no file is too deep."""
        open_nodes: list[Node] = []
        while True:
            token = self._cell()
            if token == _NOP:
                continue
            if token == _BEGIN_NODE:
                node = Node(self._name())
                if open_nodes:
                    open_nodes[-1].children.append(node)
                open_nodes.append(node)
            elif token == _PROP and open_nodes:
                size, name = self._cell(), self._cell()
                open_nodes[-1].properties[self._text(self._names, name)] = self._take(size)
            elif token == _END_NODE and open_nodes:
                node = open_nodes.pop()
                if not open_nodes:
                    return node
            else:
                raise DeviceTreeError(f"the device tree has {token:#x} where a node is expected")

    def _cell(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def _take(self, size: int) -> bytes:
        start = self._offset
        if start + size > len(self._structure):
            raise DeviceTreeError("the device tree ends inside a node")
        self._offset = start + size + -size % 4
        return self._structure[start : start + size]

    def _name(self) -> str:
        name = self._text(self._structure, self._offset)
        self._take(len(name) + 1)
        return name

    @staticmethod
    def _text(block: bytes, start: int) -> str:
        end = block.find(b"\0", start)
        if end < 0 or start > len(block):
            raise DeviceTreeError("the device tree has a name without an end")
        return block[start:end].decode("latin-1")
