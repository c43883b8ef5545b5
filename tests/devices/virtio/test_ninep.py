"""9P2000.L by hand, after diod's protocol.md: messages to a server of a folder on the host."""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from pathlib import Path

import pytest

from spe_unicorn.devices.virtio.ninep.server import Fid, Server, ServerState
from spe_unicorn.devices.virtio.share import Share
from spe_unicorn.machine.storage.host_folder import HostFolder
from spe_unicorn.stateful import StateError
from tests.devices.virtio.bench import BUFFERS, DEVICE, NEXT, VERSION_1, WRITE, Driver

RLERROR = 7
ROOT, FILE, OTHER = 1, 2, 3
DT_DIR, DT_REG, DT_LNK = 4, 8, 10
O_WRONLY, O_RDWR, O_TRUNC, O_APPEND, O_DIRECTORY = 1, 2, 0o1000, 0o2000, 0o200000


def s(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<H", len(data)) + data


class Client:
    """Sends messages, and takes the answers apart."""

    def __init__(self, folder: HostFolder) -> None:
        self.server = Server(folder)
        self.tag = 0

    def ask(self, kind: int, body: bytes) -> bytes:
        """The answer's body; an error is an OSError."""
        self.tag += 1
        request = struct.pack("<IBH", 7 + len(body), kind, self.tag) + body
        answer = self.server.answer(request)
        self.server.follow(request, answer)
        size, answered, tag = struct.unpack_from("<IBH", answer)
        assert (size, tag) == (len(answer), self.tag)
        if answered == RLERROR:
            raise OSError(int.from_bytes(answer[7:], "little"), "")
        assert answered == kind + 1
        return answer[7:]

    def start(self) -> bytes:
        """Agree on the version and attach the folder as ROOT; its qid."""
        agreed = self.ask(100, struct.pack("<I", 8192) + s("9P2000.L"))
        assert agreed == struct.pack("<I", 8192) + s("9P2000.L")
        return self.ask(104, struct.pack("<II", ROOT, 0xFFFF_FFFF) + s("root") + s("") + bytes(4))

    def walk(self, names: str | list[bytes], fid: int = FILE, of: int = ROOT) -> list[bytes]:
        """The qids of a walk."""
        steps = [n.encode() for n in names.split("/")] if isinstance(names, str) else names
        body = struct.pack("<IIH", of, fid, len(steps)) + b"".join(map(s, steps))
        answer = self.ask(110, body)
        (count,) = struct.unpack_from("<H", answer)
        return [answer[2 + 13 * n : 15 + 13 * n] for n in range(count)]

    def open(self, fid: int, flags: int = 0) -> None:
        self.ask(12, struct.pack("<II", fid, flags))

    def clunk(self, fid: int) -> None:
        self.ask(120, struct.pack("<I", fid))

    def create(self, name: str, flags: int = O_RDWR, mode: int = 0o644, fid: int = FILE) -> None:
        self.walk([], fid)
        self.ask(14, struct.pack("<I", fid) + s(name) + struct.pack("<III", flags, mode, 0))

    def read(self, fid: int, offset: int, count: int) -> bytes:
        answer = self.ask(116, struct.pack("<IQI", fid, offset, count))
        assert int.from_bytes(answer[:4], "little") == len(answer) - 4
        return answer[4:]

    def write(self, fid: int, offset: int, data: bytes) -> int:
        return int.from_bytes(
            self.ask(118, struct.pack("<IQI", fid, offset, len(data)) + data), "little"
        )

    def names(self, fid: int, offset: int = 0, count: int = 8000) -> list[tuple[bytes, int, int]]:
        """Name, kind and place of the entries of an open folder."""
        data = self.ask(40, struct.pack("<IQI", fid, offset, count))[4:]
        found = []
        while data:
            place, kind, size = struct.unpack_from("<QBH", data, 13)
            found.append((data[24 : 24 + size], kind, place))
            data = data[24 + size :]
        return found

    def attributes(self, fid: int) -> tuple[int, ...]:
        """valid, then (after the qid) mode, uid, gid, links, rdev, size, block size, blocks ..."""
        answer = self.ask(24, struct.pack("<IQ", fid, 0x7FF))
        assert len(answer) == 8 + 13 + 12 + 15 * 8
        return (*struct.unpack_from("<Q", answer), *struct.unpack_from("<III15Q", answer, 21))


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
    made = Client(HostFolder(str(shared)))
    made.start()
    return made


def fails(number: int) -> object:
    return pytest.raises(OSError, match=rf"\[Errno {number}\]")


def test_a_share_is_device_9_with_a_tag_of_a_length(shared: Path) -> None:
    """Virtio's list of devices: 9 is a 9P transport, and its first feature is the tag."""
    driver = Driver(Share(b"tag", HostFolder(str(shared))), set_up=False)
    assert (driver[8], driver[0x10]) == (9, 1)
    assert driver.transport.read(0x100, 8) == int.from_bytes(b"\3\0tag", "little")


def test_version_and_attach(shared: Path) -> None:
    made = Client(HostFolder(str(shared)))
    kind, _, inode = struct.unpack("<BIQ", made.start())
    assert (kind, inode) == (0x80, shared.stat().st_ino)
    assert made.ask(100, struct.pack("<I", 1 << 30) + s("9P2000")) == struct.pack(
        "<I", 1 << 20
    ) + s("unknown")
    with fails(errno.EINVAL):
        made.ask(100, struct.pack("<I", 100) + s("9P2000.L"))
    with fails(errno.EOPNOTSUPP):
        made.ask(102, struct.pack("<I", 9) + s("") + s("") + bytes(4))


def test_reading_a_file(client: Client, shared: Path) -> None:
    folder, file = client.walk("below/b.txt")
    assert (folder[0], file[0]) == (0x80, 0)
    client.open(FILE)
    assert client.read(FILE, 1, 3) == b"elo"
    assert client.read(FILE, 5, 10) == b""
    valid, mode, uid, gid, links, _, size, _, blocks, *times = client.attributes(FILE)
    status = (shared / "below/b.txt").stat()
    assert (valid, mode, uid, gid, links, size, blocks) == (0x7FF, status.st_mode, 0, 0, 1, 5, 1)
    assert client.attributes(FILE)[7] == 4096
    assert times[2] * 10**9 + times[3] == status.st_mtime_ns
    client.clunk(FILE)
    with fails(errno.EBADF):
        client.read(FILE, 0, 1)


def test_a_read_is_no_longer_than_a_message(client: Client, shared: Path) -> None:
    (shared / "large").write_bytes(b"x" * 20_000)
    client.walk("large")
    client.open(FILE)
    assert len(client.read(FILE, 0, 20_000)) == 8192 - 11


def test_a_list_is_no_longer_than_a_message(client: Client, shared: Path) -> None:
    for number in range(300):
        (shared / f"of-a-name-of-24-bytes-{number:03}").touch()
    client.walk([])
    client.open(FILE, O_DIRECTORY)
    listed = client.ask(40, struct.pack("<IQI", FILE, 0, 20_000))
    assert 7 + len(listed) <= 8192


def test_a_message_that_ends_too_early_is_refused(client: Client, shared: Path) -> None:
    client.walk("a.txt")
    client.open(FILE, O_RDWR)
    write = struct.pack("<IQI", FILE, 0, 4) + b"abcd"
    for size in range(len(write)):
        with fails(errno.EINVAL):
            client.ask(118, write[:size])
    assert (shared / "a.txt").read_bytes() == b"0123456789"
    assert client.ask(118, write) == struct.pack("<I", 4)


def test_only_a_fid_that_is_there_and_not_open_is_opened_and_walked_from(client: Client) -> None:
    unknown = 77
    for kind, body in (
        (12, struct.pack("<II", unknown, 0)),
        (14, struct.pack("<I", unknown) + s("new") + struct.pack("<III", O_RDWR, 0o644, 0)),
        (110, struct.pack("<IIH", unknown, OTHER, 0)),
    ):
        with fails(errno.EBADF):
            client.ask(kind, body)
    client.walk([])
    client.open(FILE, O_DIRECTORY)
    for kind, body in (
        (12, struct.pack("<II", FILE, 0)),
        (14, struct.pack("<I", FILE) + s("new") + struct.pack("<III", O_RDWR, 0o644, 0)),
        (110, struct.pack("<IIH", FILE, FILE, 1) + s("below")),
    ):
        with fails(errno.EBADF):
            client.ask(kind, body)
    assert len(client.walk("below", OTHER, FILE)) == 1  # to another fid one may


def test_up_leads_one_folder_up(client: Client, shared: Path) -> None:
    (shared / "below" / "deep").mkdir()
    qids = client.walk([b"below", b"deep", b"..", b"b.txt"])
    assert struct.unpack("<BIQ", qids[-1])[2] == (shared / "below" / "b.txt").stat().st_ino


def test_writing_truncating_and_appending(client: Client, shared: Path) -> None:
    client.walk("a.txt")
    client.open(FILE, O_RDWR)
    assert client.write(FILE, 8, b"abc") == 3
    assert (shared / "a.txt").read_bytes() == b"01234567abc"
    client.clunk(FILE)
    client.walk("a.txt")
    client.open(FILE, O_WRONLY | O_TRUNC)
    assert (shared / "a.txt").read_bytes() == b""
    client.create("new", O_WRONLY | O_APPEND, 0o4755, OTHER)
    client.write(OTHER, 0, b"one")
    client.write(OTHER, 0, b"two")
    assert (shared / "new").read_bytes() == b"onetwo"
    assert (shared / "new").stat().st_mode & 0o7000 == 0  # nothing that runs as somebody else
    client.ask(50, struct.pack("<II", OTHER, 0))


def test_a_folder_lists_what_is_in_it_by_name(client: Client) -> None:
    client.walk([], FILE)
    client.open(FILE, O_DIRECTORY)
    listed = client.names(FILE)
    assert [name for name, _, _ in listed] == [b".", b"..", b"a.txt", b"below", b"out", b"up"]
    assert [kind for _, kind, _ in listed] == [DT_DIR, DT_DIR, DT_REG, DT_DIR, DT_LNK, DT_LNK]
    assert client.names(FILE, offset=listed[3][2]) == listed[4:]
    assert client.names(FILE, count=24 + 5) == listed[:1]  # "." takes 25 bytes, ".." 26
    assert client.names(FILE, offset=6) == []


def test_folders_links_and_names_are_made_moved_and_removed(client: Client, shared: Path) -> None:
    client.ask(72, struct.pack("<I", ROOT) + s("made") + struct.pack("<II", 0o755, 0))
    client.walk("a.txt")
    client.ask(70, struct.pack("<II", ROOT, FILE) + s("again"))
    assert (shared / "again").stat().st_nlink == 2
    client.walk("made", OTHER)
    client.ask(74, struct.pack("<I", ROOT) + s("again") + struct.pack("<I", OTHER) + s("moved"))
    assert (shared / "made/moved").read_bytes() == b"0123456789"
    with fails(errno.ENOTEMPTY):
        client.ask(76, struct.pack("<I", ROOT) + s("made") + struct.pack("<I", 0x200))
    client.ask(76, struct.pack("<I", OTHER) + s("moved") + bytes(4))
    client.ask(76, struct.pack("<I", ROOT) + s("made") + struct.pack("<I", 0x200))
    assert not (shared / "made").exists()
    client.ask(122, struct.pack("<I", FILE))
    assert not (shared / "a.txt").exists()
    with fails(errno.EBADF):
        client.clunk(FILE)


def test_a_name_of_something_goes_where_it_goes(client: Client, shared: Path) -> None:
    client.walk("below/b.txt")
    client.walk("below", OTHER)
    client.ask(20, struct.pack("<II", OTHER, ROOT) + s("moved"))
    client.open(FILE)
    assert client.read(FILE, 0, 5) == b"below"
    assert client.attributes(OTHER)[0] == 0x7FF


def test_a_lock_is_had_at_once_and_nobody_else_holds_one(client: Client) -> None:
    """Tlock is answered by P9_LOCK_SUCCESS, Tgetlock by P9_LOCK_TYPE_UNLCK and what was asked."""
    client.walk("a.txt")
    write_lock, unlocked = 1, 2
    start, length, process = 0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 0x2122_2324
    asked = struct.pack("<QQI", start, length, process) + s("guest")
    assert client.ask(52, struct.pack("<IBI", FILE, write_lock, 0) + asked) == b"\0"
    held = client.ask(54, struct.pack("<IB", FILE, write_lock) + asked)
    assert held == bytes([unlocked]) + asked
    with fails(errno.EBADF):
        client.ask(54, struct.pack("<IB", 99, write_lock) + asked)


def test_a_file_that_is_removed_stays_while_it_is_open(client: Client, shared: Path) -> None:
    client.walk("a.txt")
    client.open(FILE)
    client.ask(76, struct.pack("<I", ROOT) + s("a.txt") + bytes(4))
    assert client.read(FILE, 0, 4) == b"0123"


def test_attributes_are_changed(client: Client, shared: Path) -> None:
    client.walk("a.txt")
    sets = struct.pack("<IIIIIQQQQQ", FILE, 1 | 8 | 0x20 | 0x100, 0o6600, 7, 7, 4, 0, 0, 1000, 5)
    client.ask(26, sets)
    status = (shared / "a.txt").stat()
    assert (status.st_size, status.st_mode & 0o7777, status.st_mtime_ns) == (
        4,
        0o600,
        1000 * 10**9 + 5,
    )
    assert status.st_uid == os.getuid()


def test_a_time_that_the_host_cannot_name_is_refused(client: Client, shared: Path) -> None:
    client.walk("a.txt")
    before = (shared / "a.txt").stat().st_mtime_ns
    for seconds in (1 << 63, (1 << 64) - 1):
        with fails(errno.EINVAL):
            client.ask(26, struct.pack("<IIIIIQQQQQ", FILE, 0x120, 0, 0, 0, 0, 0, 0, seconds, 0))
    assert (shared / "a.txt").stat().st_mtime_ns == before
    client.ask(26, struct.pack("<IIIIIQQQQQ", FILE, 0x120, 0, 0, 0, 0, 0, 0, (1 << 63) - 1, 0))
    assert client.attributes(FILE)[0] == 0x7FF


def test_a_time_without_a_value_is_the_host_s_own(client: Client, shared: Path) -> None:
    """Tsetattr: P9_ATTR_ATIME without P9_ATTR_ATIME_SET asks for now, whatever the time says."""
    os.utime(shared / "a.txt", (5, 5))
    client.walk("a.txt")
    began = time.time()
    client.ask(26, struct.pack("<IIIIIQQQQQ", FILE, 0x10, 0, 0, 0, 0, 7, 0, 9, 0))
    status = (shared / "a.txt").stat()
    assert status.st_atime > began - 60
    assert status.st_mtime == 5


def test_the_file_system_is_of_a_size_of_its_own(client: Client) -> None:
    """Rstatfs: the host's own numbers would differ from run to run."""
    told = struct.unpack("<IIQQQQQQI", client.ask(8, struct.pack("<I", ROOT)))
    v9fs, block, names = 0x0102_1997, 4096, 255
    assert told == (v9fs, block, *[1 << 28] * 5, 0, names)


def test_folders_are_at_most_128_deep(client: Client, shared: Path) -> None:
    deepest = shared.joinpath(*["d"] * 128)
    deepest.mkdir(parents=True)
    (deepest / "d").mkdir()
    fid = ROOT
    for _ in range(8):
        assert len(client.walk([b"d"] * 16, OTHER, fid)) == 16
        fid = OTHER
    with fails(errno.ENAMETOOLONG):
        client.walk([b"d"], FILE, OTHER)


def test_a_symbolic_link_is_told_and_not_followed(client: Client) -> None:
    client.walk("out")
    assert client.ask(22, struct.pack("<I", FILE)) == s("../secret")
    with fails(errno.ELOOP):
        client.open(FILE)
    for way in ("up/secret", "up/shared/a.txt"):
        assert len(client.walk(way, OTHER)) == 1  # to the link, which is no folder
    with fails(errno.EBADF):
        client.clunk(OTHER)
    with fails(errno.EPERM):
        client.ask(16, struct.pack("<I", ROOT) + s("link") + s("/etc/passwd") + bytes(4))


@pytest.mark.parametrize("name", [b"..", b"", b".", b"a/b", b"../secret", b"a\0b", b"x" * 256])
def test_no_name_leads_outside(client: Client, shared: Path, name: bytes) -> None:
    before = sorted(os.listdir(shared)), sorted(os.listdir(shared.parent))
    for kind, body in (
        (14, struct.pack("<I", ROOT) + s(name) + struct.pack("<III", O_RDWR, 0o644, 0)),
        (72, struct.pack("<I", ROOT) + s(name) + struct.pack("<II", 0o755, 0)),
        (76, struct.pack("<I", ROOT) + s(name) + bytes(4)),
        (74, struct.pack("<I", ROOT) + s("a.txt") + struct.pack("<I", ROOT) + s(name)),
    ):
        with pytest.raises(OSError, match=r"\[Errno (22|36)\]"):
            client.ask(kind, body)
    assert (sorted(os.listdir(shared)), sorted(os.listdir(shared.parent))) == before


def test_up_from_the_folder_is_the_folder(client: Client, shared: Path) -> None:
    qids = client.walk([b"..", b"..", b"a.txt"])
    assert [struct.unpack("<BIQ", q)[2] for q in qids] == [
        shared.stat().st_ino,
        shared.stat().st_ino,
        (shared / "a.txt").stat().st_ino,
    ]


def test_what_is_no_file_is_not_opened(client: Client, shared: Path) -> None:
    os.mkfifo(shared / "fifo")
    client.walk("fifo")
    with fails(errno.EACCES):
        client.open(FILE)
    with fails(errno.EPERM):
        client.ask(18, struct.pack("<I", ROOT) + s("null") + struct.pack("<IIII", 0o20666, 1, 3, 0))


SET_MODE, SET_SIZE = 1, 8


def set_attributes(valid: int, mode: int = 0, size: int = 0) -> bytes:
    """The body of a setattr of FILE."""
    return struct.pack("<IIIIIQQQQQ", FILE, valid, mode, 0, 0, size, 0, 0, 0, 0)


@pytest.fixture(params=["fifo", "socket"])
def special(request: pytest.FixtureRequest, shared: Path) -> Path:
    """Something in the folder that is no regular file, no folder and no link."""
    path = shared / "special"
    if request.param == "fifo":
        os.mkfifo(path, 0o600)
    else:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
        path.chmod(0o600)
    return path


def test_what_is_no_regular_file_is_seen_and_told_of(client: Client, special: Path) -> None:
    client.walk([], FILE)
    client.open(FILE, O_DIRECTORY)
    assert {name: kind for name, kind, _ in client.names(FILE)}[b"special"] == 0
    client.walk("special", OTHER)
    assert client.attributes(OTHER)[1] == special.lstat().st_mode


def test_what_is_no_regular_file_is_not_even_opened_on_the_host(
    client: Client, special: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open a device, or a FIFO that somebody waits at, does something already."""
    opened: list[object] = []
    real = os.open

    def watched(path, *arguments, **keywords):
        opened.append(path)
        return real(path, *arguments, **keywords)

    monkeypatch.setattr(os, "open", watched)
    client.walk("special")
    for flags in (0, O_WRONLY, O_RDWR, O_TRUNC, O_APPEND | O_WRONLY):
        with fails(errno.EACCES):
            client.open(FILE, flags)
    with fails(errno.EACCES):
        client.ask(26, set_attributes(SET_SIZE))
    for flags in (O_RDWR, O_WRONLY, 0):
        with fails(errno.EACCES):
            client.create("special", flags, fid=OTHER)
        client.clunk(OTHER)
    assert b"special" not in opened
    assert opened  # its folder was


def test_what_is_no_regular_file_keeps_its_mode_and_gets_no_second_name(
    client: Client, special: Path
) -> None:
    client.walk("special")
    before = special.lstat()
    with fails(errno.EPERM):
        client.ask(26, set_attributes(SET_MODE, mode=0o777))
    with fails(errno.EPERM):
        client.ask(70, struct.pack("<II", ROOT, FILE) + s("again"))
    assert special.lstat().st_mode == before.st_mode
    assert special.lstat().st_nlink == 1


def test_a_folder_and_a_link_get_no_second_name_and_no_size(client: Client, shared: Path) -> None:
    for name, refusal in (("below", errno.EACCES), ("out", errno.ELOOP)):
        client.walk(name)
        with fails(errno.EPERM):
            client.ask(70, struct.pack("<II", ROOT, FILE) + s("again"))
        with fails(refusal):
            client.ask(26, set_attributes(SET_SIZE, size=1))
        client.clunk(FILE)
    assert (shared.parent / "secret").read_bytes() == b"not yours"


def test_a_file_that_became_something_else_is_not_opened_after_a_snapshot(
    client: Client, shared: Path
) -> None:
    client.walk("a.txt")
    client.open(FILE, O_RDWR)
    client.server.restore(client.server.save())  # nothing is open on the host any more
    (shared / "a.txt").unlink()
    os.mkfifo(shared / "a.txt")
    with fails(errno.EACCES):
        client.read(FILE, 0, 1)
    with fails(errno.EACCES):
        client.write(FILE, 0, b"x")
    (shared / "a.txt").unlink()
    (shared / "a.txt").symlink_to("../secret")
    with fails(errno.ELOOP):
        client.read(FILE, 0, 1)


def test_a_file_that_is_swapped_while_it_is_looked_at_is_not_kept(
    client: Client, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host replaces it between the look at it and its opening: it is looked at again."""
    os.mkfifo(shared / "fifo")
    client.walk("a.txt")
    real = os.open

    def swapped(path, flags, *arguments, **keywords):
        if path == b"a.txt":
            os.replace(shared / "fifo", shared / "a.txt")
        return real(path, flags, *arguments, **keywords)

    monkeypatch.setattr(os, "open", swapped)
    before = len(os.listdir("/proc/self/fd"))
    with fails(errno.EACCES):
        client.open(FILE)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_is_not_to_be_written_is_not(shared: Path) -> None:
    client = Client(HostFolder(f"{shared},readonly"))
    client.start()
    client.walk("a.txt")
    with fails(errno.EROFS):
        client.open(FILE, O_RDWR)
    with fails(errno.EROFS):
        client.open(FILE, O_TRUNC)
    client.open(FILE)
    assert client.read(FILE, 0, 1) == b"0"
    for kind, body in (
        (118, struct.pack("<IQI", FILE, 0, 1) + b"x"),
        (26, struct.pack("<IIIIIQQQQQ", FILE, 1, 0o600, 0, 0, 0, 0, 0, 0, 0)),
        (72, struct.pack("<I", ROOT) + s("made") + struct.pack("<II", 0o755, 0)),
        (76, struct.pack("<I", ROOT) + s("a.txt") + bytes(4)),
        (70, struct.pack("<II", ROOT, FILE) + s("again")),
        (74, struct.pack("<I", ROOT) + s("a.txt") + struct.pack("<I", ROOT) + s("b")),
        (122, struct.pack("<I", FILE)),
    ):
        with fails(errno.EROFS):
            client.ask(kind, body)
    assert (shared / "a.txt").read_bytes() == b"0123456789"


def test_what_a_guest_can_hold_is_limited(client: Client, shared: Path) -> None:
    for number in range(100, 100 + 4095):
        client.walk([], number)
    with fails(errno.ENFILE):
        client.walk([], 9999)
    for number in range(100, 356):
        client.ask(110, struct.pack("<IIH", number, number, 1) + s("a.txt"))
        client.open(number)
    client.ask(110, struct.pack("<IIH", 400, 400, 1) + s("a.txt"))
    with fails(errno.EMFILE):
        client.open(400)
    client.clunk(355)
    client.open(400)
    client.ask(100, struct.pack("<I", 8192) + s("9P2000.L"))
    assert client.server.s.fids == {}


def test_its_state_comes_back_and_files_are_opened_again(client: Client, shared: Path) -> None:
    client.walk("a.txt")
    client.open(FILE, O_RDWR | O_TRUNC)
    client.write(FILE, 0, b"kept")
    saved = client.server.save()
    client.clunk(FILE)
    client.server.restore(saved)
    assert client.read(FILE, 0, 10) == b"kept"


def test_a_replay_asks_nobody(shared: Path) -> None:
    """The same answers again, with the folder gone."""
    log: list[bytes] = []

    def live(ask) -> bytes:
        log.append(ask())
        return log[-1]

    def conversation(share: Share) -> bytes:
        driver = Driver(share)
        driver.set_up(VERSION_1 | 1)
        got = b""
        for kind, body in (
            (100, struct.pack("<I", 8192) + s("9P2000.L")),
            (104, struct.pack("<II", ROOT, 0xFFFF_FFFF) + s("") + s("") + bytes(4)),
            (110, struct.pack("<IIH", ROOT, FILE, 1) + s("a.txt")),
            (12, struct.pack("<II", FILE, O_TRUNC)),
            (116, struct.pack("<IQI", FILE, 0, 100)),
        ):
            request = struct.pack("<IBH", 7 + len(body), kind, 1) + body
            driver.ram.write(BUFFERS, request)
            driver.describe((BUFFERS, len(request), NEXT), (BUFFERS + 0x800, 0x800, WRITE))
            driver.send()
            driver.later()
            got += driver.ram.read(BUFFERS + 0x800, driver.used[2]) or b""
        return got

    first = conversation(Share(b"share0", HostFolder(str(shared)), live))
    (shared / "a.txt").write_bytes(b"not again")
    answers = iter(log)
    again = conversation(Share(b"share0", HostFolder(str(shared)), lambda ask: next(answers)))
    done, kinds = first, []
    while done:
        size, kind, _ = struct.unpack_from("<IBH", done)
        kinds.append(kind)
        done = done[size:]
    assert kinds == [101, 105, 111, 13, 117]
    assert first == again
    assert (shared / "a.txt").read_bytes() == b"not again"


def test_the_device_says_its_tag_and_takes_no_half_header(shared: Path) -> None:
    share = Share(b"share0", HostFolder(str(shared)))
    assert share.configuration() == b"\6\0share0"
    assert share.features & 1
    driver = Driver(share)
    driver.describe((BUFFERS, 5, NEXT), (BUFFERS + 0x100, 100, WRITE))
    driver.send()
    driver.later()
    assert driver.used == (1, 0, 0)


def sent(share: Driver, request: bytes, room: int = 0x800) -> bytes:
    """The kind of a share's answer to a message."""
    share.ram.write(BUFFERS, request)
    answer = BUFFERS + max(len(request), 0x100)
    share.describe((BUFFERS, len(request), NEXT), (answer, room, WRITE))
    share.send()
    share.later()
    return (share.ram.read(answer, share.used[2]) or b"")[4:5]


def test_a_message_of_a_header_alone_has_an_answer(shared: Path) -> None:
    driver = Driver(Share(b"share0", HostFolder(str(shared))))
    assert sent(driver, struct.pack("<IBH", 7, 120, 1)) == bytes((RLERROR,))


def test_a_driver_s_reset_forgets_what_it_had(shared: Path) -> None:
    driver = Driver(Share(b"share0", HostFolder(str(shared))))
    attach = struct.pack("<II", ROOT, 0xFFFF_FFFF) + s("") + s("") + bytes(4)
    message = struct.pack("<IBH", 7 + len(attach), 104, 1) + attach
    assert sent(driver, message) == bytes((105,))
    assert sent(driver, message) == bytes((RLERROR,))  # the fid is in use
    driver.sent = 0
    driver.ram.write(DEVICE + 2, bytes(2))
    driver.set_up()
    assert sent(driver, message) == bytes((105,))


def test_no_more_of_a_message_than_a_mebibyte_is_taken(shared: Path) -> None:
    (shared / "a.txt").chmod(0o600)
    driver = Driver(Share(b"share0", HostFolder(str(shared))), ram=4 << 20)
    for kind, body in (
        (104, struct.pack("<II", ROOT, 0xFFFF_FFFF) + s("") + s("") + bytes(4)),
        (110, struct.pack("<IIH", ROOT, FILE, 1) + s("a.txt")),
        (12, struct.pack("<II", FILE, O_RDWR)),
    ):
        request = struct.pack("<IBH", 7 + len(body), kind, 1) + body
        assert sent(driver, request) == bytes((kind + 1,))
    for over, kind in ((0, 119), (1, RLERROR)):
        size = (1 << 20) - 23 + over
        body = struct.pack("<IQI", FILE, 0, size) + bytes(size)
        assert sent(driver, struct.pack("<IBH", 7 + len(body), 118, 1) + body) == bytes((kind,))


def test_a_state_with_the_fid_that_is_none_is_refused(client: Client) -> None:
    client.server.check(ServerState(fids={7: Fid((b"below",))}))
    for number, path in ((0xFFFF_FFFF, ()), (7, (b"..",)), (7, (b"a/b",))):
        with pytest.raises(StateError):
            client.server.check(ServerState(fids={number: Fid(path)}))
