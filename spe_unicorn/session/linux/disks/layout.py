"""Ext2 as it stands on a disk: Documentation/filesystems/ext2.rst and ext4/ of Linux."""

from __future__ import annotations

import struct
from typing import Final

BLOCK: Final = 4096
PER_GROUP: Final = 8 * BLOCK
"""Blocks of a group: as many as a block has bits."""
INODE_SIZE: Final = 256
ROOT: Final = 2
"""The inode of the folder in which everything is."""
FIRST_FREE: Final = 11
DIRECT: Final = 12
LEVELS: Final = 3
POINTERS: Final = BLOCK // 4
"""Numbers of blocks in a block."""
MAGIC: Final = 0xEF53
SUPERBLOCK_AT: Final = 1024
TYPE, FOLDER, FILE, LINK = 0xF000, 0x4000, 0x8000, 0xA000
"""The bits of a mode that say what an inode is, and their values."""
ENTRY_TYPES: Final = {FILE: 1, FOLDER: 2, LINK: 7}
LONGEST_NAME: Final = 255
LABEL_SIZE: Final = 16

SUPERBLOCK: Final = struct.Struct("<13I6H4I2HI2H3I16s16s")
"""From the number of inodes up to the name of the disk."""
GROUP: Final = struct.Struct("<3I3H14x")
"""Bitmap of blocks, bitmap of inodes, table of inodes; free blocks, free inodes, folders."""
INODE: Final = struct.Struct("<2H5I2H3I15I8xI")
"""From the mode up to the upper half of a file's size."""
ENTRY: Final = struct.Struct("<IHBB")
"""Inode, size of the entry, size of the name, type; the name follows."""


def has_backup(group: int) -> bool:
    """Whether a copy of the superblock and of the groups is at the start of a group."""
    if group < 2:
        return True
    return any(group == base**power for base in (3, 5, 7) for power in range(1, 20))
