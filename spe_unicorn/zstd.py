"""Compression by zstd: of Python's own library where that has it, else of the package zstandard.

Python has it from 3.14 on, unless it was built without. The package is installed for versions of
Python below 3.15.
"""

from __future__ import annotations

from typing import Any

try:
    from compression import zstd as _own
except ImportError:
    import zstandard

    ZstdError: Any = zstandard.ZstdError

    def compress(data: bytes | memoryview, level: int) -> bytes:
        """One frame, which says how long ``data`` is."""
        return bytes(zstandard.ZstdCompressor(level=level).compress(data))

    def decompress(frame: bytes | memoryview) -> bytes:
        """What is in a frame that says its length. Raises ZstdError for anything else."""
        decompressor = zstandard.ZstdDecompressor()
        return bytes(decompressor.decompress(frame, allow_extra_data=False))

    def content_size(frame: bytes | memoryview) -> int:
        """Bytes in a frame, as it says; -1 if it does not. Raises ZstdError for no frame."""
        return int(zstandard.frame_content_size(frame))

else:
    ZstdError = _own.ZstdError

    def compress(data: bytes | memoryview, level: int) -> bytes:
        """One frame, which says how long ``data`` is."""
        return bytes(_own.compress(data, level))

    def decompress(frame: bytes | memoryview) -> bytes:
        """What is in a frame that says its length. Raises ZstdError for anything else."""
        size = content_size(frame)
        decompressor = _own.ZstdDecompressor()
        data = decompressor.decompress(frame, size)
        if size < 0 or len(data) != size or decompressor.unused_data:
            raise ZstdError("no frame of the length that it says")
        return bytes(data)

    def content_size(frame: bytes | memoryview) -> int:
        """Bytes in a frame, as it says; -1 if it does not. Raises ZstdError for no frame."""
        size = _own.get_frame_info(frame).decompressed_size
        return -1 if size is None else int(size)
