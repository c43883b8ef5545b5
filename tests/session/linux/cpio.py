"""A reader of cpio archives in the "newc" format, by its description."""

from __future__ import annotations


def entries(archive: bytes) -> dict[str, tuple[int, bytes, tuple[int, int]]]:
    """Mode, contents and device numbers by name, read by the format's description."""
    found: dict[str, tuple[int, bytes, tuple[int, int]]] = {}
    at = 0
    while True:
        header = archive[at : at + 110]
        assert header[:6] == b"070701"
        fields = [int(header[6 + 8 * n : 14 + 8 * n], 16) for n in range(13)]
        mode, size, major, minor, name_size = (fields[n] for n in (1, 6, 9, 10, 11))
        name = archive[at + 110 : at + 110 + name_size]
        assert name.endswith(b"\0")
        data = at + 110 + name_size + -(110 + name_size) % 4
        found[name[:-1].decode()] = mode, archive[data : data + size], (major, minor)
        at = data + size + -size % 4
        if name == b"TRAILER!!!\0":
            assert at == len(archive)
            return found
