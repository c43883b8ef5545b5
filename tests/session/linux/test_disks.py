"""Disks that are made and read here, beside what e2fsprogs says of them."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spe_unicorn.session.linux import disks
from spe_unicorn.session.linux.archive import GuestError
from spe_unicorn.session.linux.disks.making import make_disk
from spe_unicorn.session.linux.disks.reading import DiskError, read_disk

BLOCK = 4096
PIECE = os.urandom(BLOCK)
"""Not text of ours: no two of its 4-byte words are likely to be the number of a block."""


def e2fs(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if found is None:
        pytest.skip("no e2fsprogs here")
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files with direct, once and twice indirect blocks, a hole, links, and two blocks of names."""
    tree = tmp_path / "tree"
    (tree / "deep/empty").mkdir(parents=True)
    (tree / "deep/none").write_bytes(b"")
    (tree / "deep/program").write_bytes(b"#!/bin/sh\n")
    (tree / "deep/program").chmod(0o755)
    with (tree / "large").open("wb") as stream:
        for block in (0, 11, 12, 12 + 1023, 12 + 1024, 3000):
            stream.seek(block * BLOCK)
            stream.write(PIECE)
        stream.write(b"end")
    (tree / "names").mkdir()
    for number in range(300):
        (tree / f"names/a-file-with-a-long-name-{number}").write_bytes(b"%d" % number)
    (tree / "short").symlink_to("deep/program")
    (tree / "long").symlink_to("/" + "x" * 100)
    return tree


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_folder_comes_back_but_for_its_links(tree: Path, tmp_path: Path) -> None:
    make_disk(tmp_path / "disk", "name", tree, 1 << 20)
    left_out = read_disk(tmp_path / "disk", tmp_path / "back")
    assert files(tmp_path / "back") == files(tree)
    assert (tmp_path / "back/deep/empty").is_dir()
    assert os.access(tmp_path / "back/deep/program", os.X_OK)
    assert not os.access(tmp_path / "back/deep/none", os.X_OK)
    assert sorted(left_out) == ["long", "short"]


def test_e2fsck_finds_nothing_wrong_and_debugfs_reads_it(tree: Path, tmp_path: Path) -> None:
    for folder, room in ((tree, 1 << 20), (None, 1 << 30)):
        make_disk(tmp_path / "disk", "name", folder, room)
        words = [e2fs("e2fsck"), "-fn", str(tmp_path / "disk")]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        assert done.stdout.splitlines()[-1].startswith("name: ")
    make_disk(tmp_path / "disk", "name", tree, 1 << 20)

    def said(request: str) -> bytes:
        words = [e2fs("debugfs"), "-R", request, str(tmp_path / "disk")]
        return subprocess.run(words, capture_output=True, check=True).stdout

    assert said("cat /large") == (tree / "large").read_bytes()
    assert said("cat /names/a-file-with-a-long-name-299") == b"299"
    assert b"deep/program" in said("stat /short")
    assert b"x" * 100 in said("cat /long")


def test_what_e2fsprogs_writes_is_read(tree: Path, tmp_path: Path) -> None:
    """With the block and the inode size of ours, which is all that is read."""
    words = [e2fs("mke2fs"), "-q", "-t", "ext2", "-b", "4096", "-I", "256", "-d", str(tree)]
    subprocess.run([*words, str(tmp_path / "disk"), "64M"], check=True, capture_output=True)
    assert sorted(read_disk(tmp_path / "disk", tmp_path / "back")) == ["long", "short"]
    assert files(tmp_path / "back") == files(tree)


def test_the_same_folder_makes_the_same_disk(tree: Path, tmp_path: Path) -> None:
    for name in "ab":
        make_disk(tmp_path / name, "name", tree, 1 << 20)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_is_there_is_replaced_and_the_rest_stays(tree: Path, tmp_path: Path) -> None:
    make_disk(tmp_path / "disk", "name", tree, 0)
    outside = tmp_path / "outside"
    outside.mkdir()
    back = tmp_path / "back"
    (back / "deep").mkdir(parents=True)
    (back / "kept").write_bytes(b"1")
    (back / "large").write_bytes(b"old")
    (back / "deep/program").symlink_to(outside / "program")
    (back / "names").symlink_to(outside)
    read_disk(tmp_path / "disk", back)
    assert files(back) == {**files(tree), "kept": b"1"}
    assert list(outside.iterdir()) == []


# A disk that its guest has spoilt

ROOT_TABLE = 4 * BLOCK
"""Where inodes begin: behind the superblock, one block of groups, and two bitmaps."""


def spoil(disk: Path, at: int, data: bytes) -> None:
    with disk.open("r+b") as stream:
        stream.seek(at)
        stream.write(data)


def inode(number: int) -> int:
    return ROOT_TABLE + (number - 1) * 256


def first_block(disk: Path, number: int) -> int:
    return int(struct.unpack_from("<I", disk.read_bytes(), inode(number) + 40)[0])


def no_magic(disk: Path) -> None:
    spoil(disk, 1024 + 56, b"\0\0")


def no_inodes(disk: Path) -> None:
    spoil(disk, 1024 + 40, bytes(4))


def cut_off(disk: Path) -> None:
    os.truncate(disk, 1024)


def a_file_of_one_block_again_and_again(disk: Path) -> None:
    """All pointers of an indirect block, and all of a block of these, are to one block."""
    block = first_block(disk, 12)
    spoil(disk, block * BLOCK, struct.pack("<I", block) * 1024)
    spoil(disk, inode(12) + 40 + 14 * 4, struct.pack("<I", block))
    spoil(disk, inode(12) + 4, b"\xff" * 4)
    spoil(disk, inode(12) + 108, struct.pack("<I", 0x100))


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (no_magic, "holds no ext2"),
        (no_inodes, "holds no ext2"),
        (cut_off, "is too small"),
        (a_file_of_one_block_again_and_again, "has files that are larger than it is"),
    ],
)
def test_a_disk_that_was_spoilt_is_told(
    way: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(b"1")
    (tmp_path / "tree/b").write_bytes(b"2")
    make_disk(tmp_path / "disk", "name", tmp_path / "tree", 0)
    way(tmp_path / "disk")
    with pytest.raises(DiskError, match=said):
        read_disk(tmp_path / "disk", tmp_path / "back")


def test_names_that_lead_out_and_folders_in_themselves_are_left_out(tmp_path: Path) -> None:
    tree, disk = tmp_path / "tree", tmp_path / "disk"
    tree.mkdir()
    for name in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
        (tree / name).mkdir()
    make_disk(disk, "name", tree, 0)
    data = disk.read_bytes()
    spoil(disk, data.index(b"aaaaaaaa"), b"../../xx")
    spoil(disk, data.index(b"bbbbbbbb"), b"b\0bbbbbb")
    spoil(disk, data.index(b"cccccccc") - 8, struct.pack("<I", 2))  # the root
    assert read_disk(disk, tmp_path / "back") == ["cccccccc"]
    assert list((tmp_path / "back").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back", "disk", "tree"]


def test_blocks_outside_the_disk_are_holes(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(b"1" * 5000)
    make_disk(tmp_path / "disk", "name", tmp_path / "tree", 0)
    spoil(tmp_path / "disk", inode(11) + 40, struct.pack("<II", 0xFFFF_FFF0, 0))
    read_disk(tmp_path / "disk", tmp_path / "back")
    assert (tmp_path / "back/a").read_bytes() == bytes(5000)


def test_a_sentence_says_what_was_left_out(tree: Path, tmp_path: Path) -> None:
    drive = disks.drive_of(disks.OUT, tmp_path)
    assert disks.is_out(("else", drive))
    assert not disks.is_out((drive, f"{tmp_path}/else"))
    make_disk(tmp_path / "spe-out.disk", "name", tree, 0)
    said = disks.take_out(drive, tmp_path / "back")
    assert said is not None
    assert said.endswith("damaged: long, short")
    disks.make(drive)
    assert disks.take_out(drive, tmp_path / "empty") is None
    cut_off(tmp_path / "spe-out.disk")
    assert "cannot be read to its end: it is too small" in str(disks.take_out(drive, tmp_path))


def test_a_root_is_told_by_its_contents_and_out_by_nothing(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    out, root = (disks.drive_of(what, tmp_path) for what in (disks.OUT, disks.ROOT))
    before = disks.contents(out)
    disks.make(out)
    assert disks.contents(out) == before == disks.OUT
    disks.make(root, tmp_path / "tree")
    empty = disks.contents(root)
    (tmp_path / "tree/a").write_bytes(b"1")
    disks.make(root, tmp_path / "tree")
    assert len({before, empty, disks.contents(root)}) == 3


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="none: No such file"):
        make_disk(tmp_path / "disk", "name", tmp_path / "none", 0)
