"""FUSE by hand, after Linux's include/uapi/linux/fuse.h: messages to a server of a folder."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from spe_unicorn.devices.virtio.filesystem import FileSystem
from spe_unicorn.devices.virtio.fuse.server import Node, Opened, Server, ServerState
from spe_unicorn.machine.storage.host_folder import HostFolder
from spe_unicorn.stateful import StateError
from tests.devices.virtio.bench import BUFFERS, DEVICE, NEXT, WRITE, Driver

ROOT = 1
LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK = 1, 2, 3, 4, 5, 6
MKDIR, UNLINK, RMDIR, RENAME, LINK, OPEN, READ, WRITING, STATFS, RELEASE = (
    9,
    10,
    11,
    12,
    13,
    *range(14, 19),
)
FSYNC, GETXATTR, INIT, OPENDIR, READDIR, CREATE, INTERRUPT, DESTROY, BATCH_FORGET = (
    *(20, 22, 26, 27, 28, 35, 36, 38, 42),
)
DIRECT_IO = 1
MMAP = 1 << 36
DT_DIR, DT_REG, DT_LNK = 4, 8, 10


class Client:
    """Sends messages, and takes the answers apart."""

    def __init__(self, folder: HostFolder) -> None:
        self.server = Server(folder)
        self.unique = 0

    def ask(self, op: int, node: int, body: bytes = b"") -> bytes:
        """The answer's body; an error is an OSError."""
        self.unique += 1
        request = self.header(op, node, len(body)) + body
        answer = self.server.answer(request)
        self.server.follow(request, answer)
        size, error, unique = struct.unpack_from("<IiQ", answer)
        assert (size, unique) == (len(answer), self.unique)
        if error:
            assert len(answer) == 16
            raise OSError(-error, "")
        return answer[16:]

    def tell(self, op: int, node: int, body: bytes) -> None:
        """Send what is not answered."""
        request = self.header(op, node, len(body)) + body
        answer = self.server.answer(request)
        assert answer == b""
        self.server.follow(request, answer)

    def header(self, op: int, node: int, size: int) -> bytes:
        return struct.pack("<IIQQIIIHH", 40 + size, op, self.unique, node, 0, 0, 1, 0, 0)

    def start(self, flags: int = (1 << 64) - 1, minor: int = 41) -> tuple[int, ...]:
        """Major, minor, flags, largest write, pages of a request."""
        low, high = flags & 0xFFFF_FFFF, flags >> 32
        answer = self.ask(INIT, 0, struct.pack("<IIIII44x", 7, minor, 1 << 17, low, high))
        assert len(answer) == 64
        major, minor, ahead, low, _, _, size, grain, pages, _, high = struct.unpack_from(
            "<IIIIHHIIHHI", answer
        )
        assert (ahead, grain) == (1 << 17, 1)
        return major, minor, low | high << 32, size, pages

    def lookup(self, name: str | bytes, folder: int = ROOT) -> int:
        """The node of a name."""
        text = name.encode() if isinstance(name, str) else name
        return entry(self.ask(LOOKUP, folder, text + b"\0"))[0]

    def open(self, node: int, flags: int = os.O_RDONLY, op: int = OPEN) -> tuple[int, int]:
        """Handle, and how the kernel is to use it."""
        handle, how, _ = struct.unpack("<QII", self.ask(op, node, struct.pack("<II", flags, 0)))
        return handle, how

    def create(self, name: str, flags: int = os.O_RDWR, folder: int = ROOT) -> tuple[int, int]:
        """Node and handle."""
        body = struct.pack("<IIII", flags, 0o100644, 0o22, 0) + name.encode() + b"\0"
        answer = self.ask(CREATE, folder, body)
        handle, how, _ = struct.unpack_from("<QII", answer, 128)
        assert (len(answer), how) == (144, DIRECT_IO)
        return entry(answer)[0], handle

    def read(self, node: int, handle: int, offset: int, size: int) -> bytes:
        return self.ask(READ, node, struct.pack("<QQIIQII", handle, offset, size, 0, 0, 0, 0))

    def write(self, node: int, handle: int, offset: int, data: bytes) -> int:
        body = struct.pack("<QQIIQII", handle, offset, len(data), 0, 0, 0, 0) + data
        written, _ = struct.unpack("<II", self.ask(WRITING, node, body))
        return int(written)

    def release(self, node: int, handle: int) -> None:
        assert self.ask(RELEASE, node, struct.pack("<QIIQ", handle, 0, 0, 0)) == b""

    def names(
        self, offset: int = 0, size: int = 4096, folder: int = ROOT
    ) -> list[tuple[bytes, int, int]]:
        """Name, kind and place of what is in a folder."""
        handle, _ = self.open(folder, op=OPENDIR)
        body = struct.pack("<QQIIQII", handle, offset, size, 0, 0, 0, 0)
        data, found = self.ask(READDIR, folder, body), []
        assert len(data) <= size
        while data:
            _, place, length, kind = struct.unpack_from("<QQII", data)
            found.append((data[24 : 24 + length], kind, place))
            data = data[24 + (length + 7) // 8 * 8 :]
        return found

    def rename(self, old: str, new: str, source: int = ROOT, target: int = ROOT) -> None:
        body = struct.pack("<Q", target) + old.encode() + b"\0" + new.encode() + b"\0"
        assert self.ask(RENAME, source, body) == b""


def entry(answer: bytes) -> tuple[int, ...]:
    """Node, then the attributes as :func:`attributes` has them; none of it holds for any time."""
    node, generation, *valid = struct.unpack_from("<QQQQII", answer)
    assert (generation, valid) == (0, [0, 0, 0, 0])
    return (node, *attributes(answer[40:128]))


def attributes(data: bytes) -> tuple[int, ...]:
    """Inode, size, blocks, times and their nanoseconds, mode, links, uid, gid, rdev, block size."""
    found = struct.unpack("<QQQQQQIIIIIIIIII", data)
    assert found[-1] == 0
    return found[:-1]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    (folder / "below").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"0123456789")
    (folder / "below" / "b.txt").write_bytes(b"below")
    (tmp_path / "secret").write_bytes(b"not yours")
    (folder / "out").symlink_to("../secret")
    (folder / "up").symlink_to("..")
    return folder


@pytest.fixture
def client(shared: Path) -> Client:
    made = Client(HostFolder(f"{shared},virtiofs"))
    made.start()
    return made


def fails(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, match=rf"\[Errno {number}\]")


def test_it_is_device_26_with_a_tag_of_36_bytes_and_one_queue_for_requests(shared: Path) -> None:
    """Virtio 1.2, 5.11.4: the tag is padded with zeros; the urgent queue is not counted."""
    driver = Driver(FileSystem(b"tag", HostFolder(str(shared))), set_up=False)
    assert driver[8] == 26
    assert (
        bytes(driver.transport.read(0x100 + n, 1) for n in range(40))
        == b"tag".ljust(36, b"\0") + b"\1\0\0\0"
    )
    driver[0x30] = 1
    assert driver[0x34] == 256
    driver[0x30] = 2
    assert driver[0x34] == 0


def test_a_device_that_shares_no_memory_says_so(shared: Path) -> None:
    """Virtio 1.2, 4.2.2: a region that is not there has the length and the base of -1."""
    driver = Driver(FileSystem(b"tag", HostFolder(str(shared))), set_up=False)
    driver[0xAC] = 0
    assert {driver[at] for at in (0xB0, 0xB4, 0xB8, 0xBC)} == {0xFFFF_FFFF}


def test_what_is_agreed_on(shared: Path) -> None:
    made = Client(HostFolder(str(shared)))
    known = 1 << 3 | 1 << 5 | 1 << 22 | 1 << 28 | 1 << 30 | MMAP
    assert made.start() == (7, 36, known, 1 << 20, 256)
    assert made.start(1 << 5 | 1 << 16) == (7, 36, 1 << 5, 1 << 20, 256)


def test_a_name_leads_to_a_node_with_attributes(client: Client, shared: Path) -> None:
    _, inode, size, blocks, *rest = entry(client.ask(LOOKUP, ROOT, b"a.txt\0"))
    status = (shared / "a.txt").stat()
    times, parts, kept = rest[:3], rest[3:6], rest[6:]
    assert (inode, size, blocks) == (status.st_ino, 10, 1)
    assert times[1] * 10**9 + parts[1] == status.st_mtime_ns
    assert kept == [status.st_mode, 1, 0, 0, 0, 4096]
    node = client.lookup("b.txt", client.lookup("below"))
    answer = client.ask(GETATTR, node, bytes(16))
    assert (answer[:16], attributes(answer[16:])[1]) == (bytes(16), 5)
    with fails(errno.ENOENT):
        client.lookup("nothing")


def test_equal_names_are_equal_nodes(client: Client) -> None:
    assert client.lookup("a.txt") == client.lookup("a.txt") != client.lookup("below")


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b"])
def test_what_is_no_name_is_refused(client: Client, name: bytes) -> None:
    with fails(errno.EINVAL):
        client.lookup(name)


def test_a_name_that_does_not_end_and_one_that_is_too_long(client: Client) -> None:
    with fails(errno.EINVAL):
        client.ask(LOOKUP, ROOT, b"a.txt")
    with fails(errno.ENAMETOOLONG):
        client.lookup("x" * 256)


def test_reading_goes_by_the_cache_of_the_guest(client: Client) -> None:
    node = client.lookup("a.txt")
    handle, how = client.open(node)
    assert how == 0
    assert client.read(node, handle, 3, 4) == b"3456"
    assert client.read(node, handle, 8, 10) == b"89"
    assert client.read(node, handle, 10, 10) == b""
    client.release(node, handle)
    with fails(errno.EBADF):
        client.read(node, handle, 0, 1)


def test_what_is_written_is_there_at_once_and_goes_by_no_cache(
    client: Client, shared: Path
) -> None:
    node, handle = client.create("new")
    assert client.write(node, handle, 0, b"hello") == 5
    assert (shared / "new").read_bytes() == b"hello"
    assert client.write(node, handle, 7, b"you") == 3
    assert (shared / "new").read_bytes() == b"hello\0\0you"
    again = client.lookup("a.txt")
    assert client.open(again, os.O_WRONLY)[1] == DIRECT_IO
    assert client.open(again, os.O_RDWR)[1] == DIRECT_IO
    assert client.ask(FSYNC, node, struct.pack("<QII", handle, 0, 0)) == b""


@pytest.mark.parametrize(
    ("flags", "minor", "how"),
    [
        ((1 << 64) - 1, 41, DIRECT_IO),  # Linux 6.12
        ((1 << 64) - 1, 42, 0),  # Linux 6.14: perf's buffers cannot be written past the cache
        ((1 << 64) - 1 - MMAP, 38, 0),  # Linux 6.5 cannot map such a file
    ],
)
def test_which_kernels_write_past_their_cache(
    client: Client, flags: int, minor: int, how: int
) -> None:
    client.start(flags, minor)
    node = client.lookup("a.txt")
    assert client.open(node, os.O_RDWR)[1] == how
    assert client.open(node, os.O_RDONLY)[1] == 0


def test_a_write_of_less_than_it_says_changes_nothing(client: Client, shared: Path) -> None:
    node, handle = client.create("new")
    body = struct.pack("<QQIIQII", handle, 0, 10, 0, 0, 0, 0) + b"short"
    with fails(errno.EINVAL):
        client.ask(WRITING, node, body)
    assert (shared / "new").read_bytes() == b""


def test_an_open_may_cut_a_file_off(client: Client, shared: Path) -> None:
    client.open(client.lookup("a.txt"), os.O_WRONLY | 0o1000)
    assert (shared / "a.txt").read_bytes() == b""


def test_create_with_o_excl_fails_where_something_is(client: Client) -> None:
    with fails(errno.EEXIST):
        client.create("a.txt", os.O_RDWR | 0o200)


def test_a_folder_is_listed_by_name(client: Client) -> None:
    rows = [(b".", DT_DIR, 1), (b"..", DT_DIR, 2), (b"a.txt", DT_REG, 3), (b"below", DT_DIR, 4)]
    rows += [(b"out", DT_LNK, 5), (b"up", DT_LNK, 6)]
    assert client.names() == rows
    assert client.names(offset=4) == rows[4:]
    # 24 bytes and a name of up to 8 each: two have room in 64
    assert client.names(size=64) == rows[:2]
    assert client.names(size=63) == rows[:1]


def test_folders_come_and_go(client: Client, shared: Path) -> None:
    node = entry(client.ask(MKDIR, ROOT, struct.pack("<II", 0o755, 0) + b"made\0"))[0]
    assert (shared / "made").is_dir()
    client.create("file", folder=node)
    with fails(errno.ENOTEMPTY):
        client.ask(RMDIR, ROOT, b"made\0")
    assert client.ask(UNLINK, node, b"file\0") == b""
    assert client.ask(RMDIR, ROOT, b"made\0") == b""
    assert not (shared / "made").exists()
    with fails(errno.ESTALE):
        client.ask(GETATTR, node, bytes(16))


def test_a_file_that_is_removed_can_still_be_used(client: Client, shared: Path) -> None:
    node, handle = client.create("new")
    client.write(node, handle, 0, b"hello")
    client.ask(UNLINK, ROOT, b"new\0")
    assert client.write(node, handle, 5, b"!") == 1
    assert client.read(node, handle, 0, 10) == b"hello!"
    _, size, *rest = attributes(client.ask(GETATTR, node, bytes(16))[16:])
    assert (size, rest[8]) == (6, 0)  # no name leads to it
    assert client.create("new")[0] != node


def test_a_rename_takes_along_what_is_below_and_what_is_open(client: Client, shared: Path) -> None:
    below = client.lookup("below")
    node = client.lookup("b.txt", below)
    handle, _ = client.open(node, os.O_RDWR)
    client.rename("below", "moved")
    assert client.lookup("moved") == below
    assert attributes(client.ask(GETATTR, node, bytes(16))[16:])[1] == 5
    client.server.restore(client.server.save())  # what is open is opened again
    assert client.read(node, handle, 0, 10) == b"below"
    client.rename("b.txt", "c.txt", below, ROOT)
    assert client.lookup("c.txt") == node
    with fails(errno.EINVAL):
        client.rename("moved", "within", ROOT, below)


def test_what_a_rename_replaces_is_another_node(client: Client) -> None:
    old, new = client.create("old")[0], client.lookup("a.txt")
    client.rename("old", "a.txt")
    assert client.lookup("a.txt") == old
    with fails(errno.ESTALE):
        client.ask(GETATTR, new, bytes(16))


def test_another_name_for_a_file(client: Client, shared: Path) -> None:
    body = struct.pack("<Q", client.lookup("a.txt")) + b"again\0"
    assert entry(client.ask(LINK, ROOT, body))[11] == 2  # links
    assert (shared / "again").samefile(shared / "a.txt")


def test_symbolic_links_are_read_and_none_is_made(client: Client) -> None:
    assert client.ask(READLINK, client.lookup("out")) == b"../secret"
    with fails(errno.ELOOP):
        client.open(client.lookup("out"))
    with fails(errno.EPERM):
        client.ask(SYMLINK, ROOT, b"name\0target\0")


def test_nothing_beside_the_folder_is_reached(client: Client) -> None:
    with pytest.raises(OSError, match="Errno"):
        client.lookup("secret", client.lookup("up"))


def test_attributes_are_set(client: Client, shared: Path) -> None:
    node = client.lookup("a.txt")

    def change(valid: int, size: int = 0, modified: int = 0, part: int = 0, mode: int = 0) -> bytes:
        body = struct.pack("<IIQQQQQQ", valid, 0, 0, size, 0, 0, modified, 0)
        return client.ask(
            SETATTR, node, body + struct.pack("<IIIIIIII", 0, part, 0, mode, 0, 0, 0, 0)
        )

    assert attributes(change(1 << 3, size=4)[16:])[1] == 4
    assert (shared / "a.txt").read_bytes() == b"0123"
    change(1 << 0, mode=0o100600)
    assert (shared / "a.txt").stat().st_mode & 0o777 == 0o600
    change(1 << 5, modified=1000, part=7)
    assert (shared / "a.txt").stat().st_mtime_ns == 1000 * 10**9 + 7
    change(1 << 5 | 1 << 8)
    assert (shared / "a.txt").stat().st_mtime_ns > 10**15


def test_the_file_system_tells_its_room(client: Client) -> None:
    answer = client.ask(STATFS, ROOT)
    room = 1 << 28
    assert struct.unpack_from("<QQQQQIII", answer) == (*(room,) * 5, 4096, 255, 4096)
    assert len(answer) == 80


def test_what_is_forgotten_as_often_as_it_was_looked_up_is_gone(client: Client) -> None:
    node = client.lookup("a.txt")
    client.lookup("a.txt")
    client.tell(FORGET, node, struct.pack("<Q", 1))
    client.ask(GETATTR, node, bytes(16))
    client.tell(BATCH_FORGET, 0, struct.pack("<IIQQQQ", 2, 0, node, 1, 12345, 1))
    with fails(errno.ESTALE):
        client.ask(GETATTR, node, bytes(16))
    client.tell(FORGET, ROOT, struct.pack("<Q", 1000))
    client.ask(GETATTR, ROOT, bytes(16))


def test_a_list_to_forget_that_is_shorter_than_it_says(client: Client) -> None:
    client.tell(BATCH_FORGET, 0, struct.pack("<IIQQ", 0xFFFF_FFFF, 0, client.lookup("a.txt"), 1))
    client.tell(BATCH_FORGET, 0, b"\1")
    assert set(client.server.s.nodes) == {ROOT}


def test_other_requests(client: Client) -> None:
    with fails(errno.ENOSYS):
        client.ask(GETXATTR, ROOT, bytes(8) + b"security.capability\0")
    client.tell(INTERRUPT, 0, bytes(8))
    node = client.lookup("a.txt")
    assert client.ask(DESTROY, 0) == b""
    with fails(errno.ESTALE):
        client.ask(GETATTR, node, bytes(16))


@pytest.mark.parametrize("op", range(60))
def test_a_request_of_a_header_alone_does_no_harm(client: Client, op: int) -> None:
    request = client.header(op, ROOT, 0)
    client.server.follow(request, client.server.answer(request))


def test_a_folder_that_is_read_only(shared: Path) -> None:
    client = Client(HostFolder(f"{shared},readonly,virtiofs"))
    with fails(errno.EROFS):
        client.create("new")
    node = client.lookup("a.txt")
    with fails(errno.EROFS):
        client.open(node, os.O_WRONLY)
    assert client.read(node, client.open(node)[0], 0, 2) == b"01"


def test_a_saved_server_goes_on(client: Client, shared: Path) -> None:
    node, handle = client.create("new")
    client.write(node, handle, 0, b"hello")
    saved = client.server.save()
    other = Client(HostFolder(str(shared)))
    other.server.check(saved)
    other.server.restore(saved)
    assert other.read(node, handle, 1, 2) == b"el"
    assert other.lookup("new") == node
    assert other.lookup("a.txt") not in (node, handle)


@pytest.mark.parametrize(
    "state",
    [
        ServerState(nodes={1: Node(), 2: Node((b"..",))}, next=3),
        ServerState(nodes={2: Node((b"a",))}, next=3),
        ServerState(nodes={1: Node((b"a",))}, next=3),
        ServerState(nodes={1: Node(), 2: Node((b"a",)), 3: Node((b"a",))}, next=4),
        ServerState(nodes={1: Node(), 9: Node((b"a",))}, next=3),
        ServerState(handles={2: Opened(1, (b"a", b"..", b"b"), 0)}, next=3),
    ],
    ids=("leads up", "no root", "another root", "twice", "a number to come", "open above"),
)
def test_a_forged_state_is_refused(client: Client, state: ServerState) -> None:
    with pytest.raises(StateError):
        client.server.check(state)


def test_a_request_by_the_queue(shared: Path) -> None:
    """A message in two buffers, its answer in two more."""
    driver = Driver(FileSystem(b"tag", HostFolder(str(shared))))
    request = struct.pack("<IIQQIIIHH", 46, LOOKUP, 7, ROOT, 0, 0, 1, 0, 0) + b"a.txt\0"
    driver.ram.write(BUFFERS, request)
    room = BUFFERS + 0x1000
    driver.describe(
        (BUFFERS, 40, NEXT),
        (BUFFERS + 40, 6, NEXT),
        (room, 16, NEXT | WRITE),
        (room + 16, 128, WRITE),
    )
    driver.send()
    driver.later()
    answer = driver.ram.read(room, 144)
    assert answer is not None
    assert struct.unpack_from("<IiQ", answer) == (144, 0, 7)
    assert entry(answer[16:])[2] == 10  # bytes of the file
    assert driver.used == (1, 0, 144)
    assert driver.ram.read(DEVICE + 2, 2) == b"\1\0"
