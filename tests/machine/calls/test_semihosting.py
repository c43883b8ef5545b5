from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from spe_unicorn.arch.spaces import PASpace
from spe_unicorn.machine.calls.semihosting import Exit, HeapInfo, Host, Semihosting
from spe_unicorn.machine.calls.shared_folder import SharedFolder
from tests.support.fakes import FakeMemory

MINUS_ONE = (1 << 64) - 1
BASE, SIZE = 0x4000_0000, 0x4_0000
RANGE = range(BASE, BASE + SIZE)
"""What is mapped; the last page of it is read-only."""
BLOCK, TEXT, BUFFER = BASE, BASE + 0x1000, BASE + 0x2000
OPEN, CLOSE, WRITEC, WRITE0, WRITE, READ, READC = 1, 2, 3, 4, 5, 6, 7
ISERROR, ISTTY, SEEK, FLEN, REMOVE, RENAME = 8, 9, 0xA, 0xC, 0xE, 0xF
CLOCK, TIME, SYSTEM, ERRNO, GET_CMDLINE, HEAPINFO = 0x10, 0x11, 0x12, 0x13, 0x15, 0x16
EXIT, EXIT_EXTENDED, ELAPSED, TICKFREQ = 0x18, 0x20, 0x30, 0x31
MODE_R, MODE_R_PLUS, MODE_W, MODE_W_PLUS, MODE_A = 0, 2, 4, 6, 8
APPLICATION_EXIT = 0x20026


class Guest:
    """A guest that calls, with its memory, console and clock in sight."""

    def __init__(self, folder: SharedFolder | None = None) -> None:
        self.memory = FakeMemory(RANGE, read_only=RANGE[-0x1000:])
        self.output = bytearray()
        self.input = b""
        self.now = 0
        self.stopping = False
        host = Host(
            write=self._write,
            read=self._read,
            stopping=lambda: self.stopping,
            nanoseconds=lambda: self.now,
            command_line=b"fw --fast",
            heap=HeapInfo(0x100, 0x200, 0x400, 0x300),
            folder=folder,
        )
        self.semihosting = Semihosting(self.memory, host)

    def _write(self, data: bytes) -> None:
        self.output += data

    def _read(self, size: int) -> bytes:
        data, self.input = self.input[:size], self.input[size:]
        return data

    def put(self, address: int, data: bytes) -> int:
        self.memory.bytes.update(enumerate(data, address))
        return address

    def get(self, address: int, size: int) -> bytes:
        return self.memory.read(address, size) or b""

    def call(self, operation: int, *fields: int) -> int | Exit:
        return self.semihosting.call(
            operation, self.put(BLOCK, struct.pack(f"<{len(fields)}Q", *fields))
        )

    def open(self, name: bytes, mode: int) -> int:
        return self.call(OPEN, self.put(TEXT, name + b"\0"), mode, len(name))

    def write(self, handle: int, data: bytes) -> int:
        return self.call(WRITE, handle, self.put(BUFFER, data), len(data))

    def read(self, handle: int, size: int) -> tuple[int, bytes]:
        left = self.call(READ, handle, BUFFER, size)
        return left, self.get(BUFFER, size - left)

    def errno(self) -> int:
        return self.call(ERRNO)


@pytest.fixture
def guest() -> Guest:
    return Guest()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[Guest, Path]]:
    folder = tmp_path / "shared"
    folder.mkdir()
    guest = Guest(SharedFolder(folder))
    yield guest, folder
    guest.semihosting.close()


# Console.


def test_writec_writes_the_character_that_its_parameter_points_to(guest: Guest) -> None:
    assert guest.semihosting.call(WRITEC, guest.put(TEXT, b"Ab")) == 0
    assert guest.output == b"A"


@pytest.mark.parametrize("length", [0, 1, 255, 256, 5000])
def test_write0_writes_up_to_the_nul(guest: Guest, length: int) -> None:
    text = bytes(i % 255 + 1 for i in range(length))
    guest.semihosting.call(WRITE0, guest.put(TEXT + 3, text + b"\0rest"))
    assert guest.output == text


def test_write0_reads_nothing_behind_the_end_of_the_string(guest: Guest) -> None:
    guest.semihosting.call(WRITE0, guest.put(BASE + SIZE - 4, b"end\0"))
    assert guest.output == b"end"


def test_write0_without_an_end_fails_where_memory_ends(guest: Guest) -> None:
    result = guest.semihosting.call(WRITE0, guest.put(BASE + SIZE - 4, b"open"))
    assert (result, guest.output, guest.errno()) == (MINUS_ONE, b"open", errno.EFAULT)


def test_readc_reads_one_character_and_minus_one_at_the_end(guest: Guest) -> None:
    guest.input = b"\xe9"
    assert guest.semihosting.call(READC, 0) == 0xE9
    assert guest.semihosting.call(READC, 0) == MINUS_ONE


@pytest.mark.parametrize("mode", range(4, 12))
def test_tt_opened_for_writing_or_appending_is_output(guest: Guest, mode: int) -> None:
    handle = guest.open(b":tt", mode)
    assert guest.write(handle, b"hi\n") == 0
    assert guest.output == b"hi\n"
    assert guest.call(ISTTY, handle) == 1
    assert guest.call(FLEN, handle) == 0
    assert guest.read(handle, 4) == (4, b"")


@pytest.mark.parametrize("mode", range(4))
def test_tt_opened_for_reading_is_input(guest: Guest, mode: int) -> None:
    guest.input = b"yes\n"
    handle = guest.open(b":tt", mode)
    assert guest.read(handle, 16) == (12, b"yes\n")
    assert guest.read(handle, 16) == (16, b"")
    assert guest.write(handle, b"x") == 1
    assert guest.errno() == errno.EBADF


def test_the_console_cannot_seek(guest: Guest) -> None:
    assert guest.call(SEEK, guest.open(b":tt", MODE_W), 0) == MINUS_ONE
    assert guest.errno() == errno.ESPIPE


def test_long_writes_arrive_whole(guest: Guest) -> None:
    data = bytes(range(256)) * 512
    guest.put(BUFFER, data)
    assert guest.call(WRITE, guest.open(b":tt", MODE_W), BUFFER, len(data)) == 0
    assert guest.output == data


def test_a_write_that_runs_out_of_memory_tells_how_much_is_left(guest: Guest) -> None:
    handle = guest.open(b":tt", MODE_W)
    # The range ends at a multiple of 64 KiB, the pieces in which it is read.
    assert guest.call(WRITE, handle, BASE + SIZE - 8, 1 << 60) == (1 << 60) - 8
    assert guest.errno() == errno.EFAULT


# Handles.


def test_handles_are_never_zero_and_are_used_again(guest: Guest) -> None:
    first, second = guest.open(b":tt", 0), guest.open(b":tt", 4)
    assert 0 < first != second > 0
    assert guest.call(CLOSE, first) == 0
    assert guest.open(b":tt", 0) == first


@pytest.mark.parametrize("operation", [CLOSE, ISTTY, SEEK, FLEN])
def test_closed_handles_fail(guest: Guest, operation: int) -> None:
    handle = guest.open(b":tt", 4)
    guest.call(CLOSE, handle)
    assert guest.call(operation, handle, 0) == MINUS_ONE
    assert guest.errno() == errno.EBADF


def test_reads_and_writes_of_closed_handles_transfer_nothing(guest: Guest) -> None:
    assert guest.write(5, b"abc") == 3
    assert guest.read(5, 3) == (3, b"")
    assert guest.errno() == errno.EBADF


def test_handles_run_out(guest: Guest) -> None:
    results = [guest.open(b":tt", 4) for _ in range(257)]
    assert MINUS_ONE not in results[:256]
    assert results[256] == MINUS_ONE
    assert guest.errno() == errno.EMFILE


def test_unknown_modes_fail(guest: Guest) -> None:
    assert guest.open(b":tt", 12) == MINUS_ONE
    assert guest.errno() == errno.EINVAL


def test_feature_bits_announce_exit_extended_and_stderr(guest: Guest) -> None:
    handle = guest.open(b":semihosting-features", MODE_R)
    assert guest.call(FLEN, handle) == 5
    assert guest.call(ISTTY, handle) == 0
    assert guest.read(handle, 5) == (0, b"SHFB\x03")
    assert guest.read(handle, 1) == (1, b"")
    assert guest.call(SEEK, handle, 4) == 0
    assert guest.read(handle, 1) == (0, b"\x03")
    assert guest.open(b":semihosting-features", MODE_W) == MINUS_ONE


# Host files.


def test_without_a_folder_no_file_opens(guest: Guest, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"x")
    assert guest.open(bytes(secret), MODE_R) == MINUS_ONE
    assert guest.errno() == errno.EACCES
    assert guest.call(REMOVE, guest.put(TEXT, bytes(secret)), len(bytes(secret))) == MINUS_ONE
    assert secret.exists()


def test_files_are_written_and_read_back(shared: tuple[Guest, Path]) -> None:
    guest, folder = shared
    handle = guest.open(b"out.txt", MODE_W)
    assert guest.write(handle, b"0123456789") == 0
    assert guest.call(CLOSE, handle) == 0
    assert (folder / "out.txt").read_bytes() == b"0123456789"

    handle = guest.open(b"./out.txt", MODE_R)
    assert guest.call(FLEN, handle) == 10
    assert guest.call(ISTTY, handle) == 0
    assert guest.call(SEEK, handle, 8) == 0
    assert guest.read(handle, 4) == (2, b"89")
    assert guest.read(handle, 4) == (4, b"")


def test_files_that_were_left_open_are_complete(shared: tuple[Guest, Path]) -> None:
    guest, folder = shared
    guest.write(guest.open(b"log", MODE_W), b"kept")
    assert (folder / "log").read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("mode", "contents"),
    [
        (MODE_R_PLUS, b"new45"),
        (MODE_W, b"new"),
        (MODE_W_PLUS, b"new"),
        (MODE_A, b"12345new"),
        (10, b"12345new"),
    ],
)
def test_modes_mean_what_they_mean_in_c(
    shared: tuple[Guest, Path], mode: int, contents: bytes
) -> None:
    guest, folder = shared
    (folder / "f").write_bytes(b"12345")
    assert guest.write(guest.open(b"f", mode), b"new") == 0
    assert (folder / "f").read_bytes() == contents


def test_a_file_opened_for_reading_cannot_be_written(shared: tuple[Guest, Path]) -> None:
    guest, folder = shared
    (folder / "f").write_bytes(b"12345")
    assert guest.write(guest.open(b"f", MODE_R), b"new") == 3
    assert (folder / "f").read_bytes() == b"12345"


def test_sub_folders_are_inside(shared: tuple[Guest, Path]) -> None:
    guest, folder = shared
    (folder / "logs").mkdir()
    assert guest.write(guest.open(b"logs/a", MODE_W), b"x") == 0
    assert (folder / "logs" / "a").read_bytes() == b"x"


@pytest.mark.parametrize(
    "name",
    [
        b"../secret",
        b"/etc/passwd",
        b"logs/../../secret",
        b"..",
        b".",
        b"",
        b"a\0b",
        b"link",
        b"out/secret",
        b"fifo",
        b"logs",
    ],
)
@pytest.mark.parametrize("mode", [MODE_R, MODE_W])
def test_nothing_outside_the_folder_opens(
    shared: tuple[Guest, Path], name: bytes, mode: int
) -> None:
    guest, folder = shared
    (folder.parent / "secret").write_bytes(b"secret")
    (folder / "logs").mkdir()
    (folder / "link").symlink_to("../secret")
    (folder / "out").symlink_to("..")
    os.mkfifo(folder / "fifo")
    assert guest.open(name, mode) == MINUS_ONE
    assert (folder.parent / "secret").read_bytes() == b"secret"


def test_a_missing_file_gives_its_error_number(shared: tuple[Guest, Path]) -> None:
    guest, _ = shared
    assert guest.open(b"missing", MODE_R) == MINUS_ONE
    assert guest.errno() == errno.ENOENT


def test_absurd_name_lengths_fail_before_memory_is_read(shared: tuple[Guest, Path]) -> None:
    guest, _ = shared
    assert guest.call(OPEN, TEXT, 0, 1 << 60) == MINUS_ONE
    assert guest.errno() == errno.ENAMETOOLONG


def test_files_are_renamed_and_removed_inside_the_folder(shared: tuple[Guest, Path]) -> None:
    guest, folder = shared
    (folder / "a").write_bytes(b"x")
    guest.put(TEXT, b"ab../b")
    assert guest.call(RENAME, TEXT, 1, TEXT + 1, 1) == 0
    assert [p.name for p in folder.iterdir()] == ["b"]
    assert guest.call(RENAME, TEXT + 1, 1, TEXT + 2, 4) == MINUS_ONE
    assert guest.call(REMOVE, TEXT + 1, 1) == 0
    assert list(folder.iterdir()) == []


# Time, and the rest.


def test_time_is_guest_time(guest: Guest) -> None:
    guest.now = 12_345_678_901
    assert guest.call(CLOCK) == 1234
    assert guest.call(TIME) == 12
    assert guest.call(TICKFREQ) == 1_000_000_000
    assert guest.semihosting.call(ELAPSED, BUFFER) == 0
    assert guest.get(BUFFER, 8) == (12_345_678_901).to_bytes(8, "little")


def test_iserror_looks_at_the_sign(guest: Guest) -> None:
    assert guest.call(ISERROR, MINUS_ONE) == 1
    assert guest.call(ISERROR, 0) == 0


def test_the_command_line_is_handed_out_with_its_length(guest: Guest) -> None:
    assert guest.call(GET_CMDLINE, BUFFER, 10) == 0
    assert guest.get(BUFFER, 10) == b"fw --fast\0"
    assert guest.get(BLOCK + 8, 8) == (9).to_bytes(8, "little")


def test_a_command_line_that_does_not_fit_is_not_handed_out(guest: Guest) -> None:
    assert guest.call(GET_CMDLINE, BUFFER, 9) == MINUS_ONE
    assert guest.get(BUFFER, 4) == bytes(4)


def test_heapinfo_fills_four_words(guest: Guest) -> None:
    assert guest.call(HEAPINFO, BUFFER) == 0
    assert struct.unpack("<4Q", guest.get(BUFFER, 32)) == (0x100, 0x200, 0x400, 0x300)


@pytest.mark.parametrize("operation", [EXIT, EXIT_EXTENDED])
@pytest.mark.parametrize(
    ("reason", "code", "status"),
    [
        (APPLICATION_EXIT, 0, 0),
        (APPLICATION_EXIT, 7, 7),
        (APPLICATION_EXIT, 256 + 3, 3),
        (0x20023, 0, 1),
    ],
)
def test_exit_carries_the_status_of_an_application_and_1_for_other_reasons(
    guest: Guest, operation: int, reason: int, code: int, status: int
) -> None:
    assert guest.call(operation, reason, code) == Exit(status)


@pytest.mark.parametrize("operation", [0, SYSTEM, 0x0D, 0x17, 0xFF, 0x100, 0x7FFF_FFFF])
def test_other_operations_are_not_supported(guest: Guest, operation: int) -> None:
    assert guest.call(operation, 0, 0) == MINUS_ONE
    assert guest.errno() == errno.ENOSYS


def test_only_the_low_word_of_the_operation_counts(guest):
    assert guest.semihosting.call(0xDEAD_0000_0000_0031, 0) == 1_000_000_000


@pytest.mark.parametrize("operation", [OPEN, CLOSE, WRITEC, WRITE, READ, EXIT, HEAPINFO, ELAPSED])
def test_a_parameter_block_in_unmapped_memory_is_a_fault_of_the_call(guest, operation):
    assert guest.semihosting.call(operation, 0x1000) == MINUS_ONE
    assert guest.errno() == errno.EFAULT


def test_results_that_cannot_be_stored_are_a_fault_of_the_call(guest):
    guest.input = b"abc"
    handle = guest.open(b":tt", 0)
    assert guest.call(READ, handle, BASE + SIZE - 16, 3) == 3
    assert guest.errno() == errno.EFAULT


class EndlessMemory(FakeMemory):
    """The same letter everywhere but where something else was written."""

    def read(self, address, size, space=PASpace.NonSecure):
        data = bytearray(b"a" * size)
        for place, byte in self.bytes.items():
            if 0 <= place - address < size:
                data[place - address] = byte
        return bytes(data)


@pytest.fixture
def endless(guest):
    guest.memory = guest.semihosting._memory = EndlessMemory(RANGE)
    return guest


def test_a_string_without_an_end_in_memory_without_an_end_comes_to_one(endless):
    assert endless.semihosting.call(WRITE0, BASE) == MINUS_ONE
    assert endless.errno() == errno.E2BIG
    assert len(endless.output) == 16 << 20


def test_a_string_ends_with_the_run(endless):
    endless.stopping = True
    assert endless.semihosting.call(WRITE0, BASE) == 0
    assert len(endless.output) == 0x1000


def test_a_write_ends_with_the_run_and_says_what_is_left(guest):
    handle = guest.open(b":tt", 4)
    guest.stopping = True
    assert guest.call(WRITE, handle, BASE, SIZE) == SIZE - len(guest.output)
    assert guest.output


def test_a_write_writes_no_more_than_there_is_memory(endless):
    handle = endless.open(b":tt", 4)
    assert endless.call(WRITE, handle, BASE, 1 << 60) == (1 << 60) - SIZE
    assert endless.errno() == errno.EFAULT
    assert len(endless.output) == SIZE


# Saved and restored


def test_files_that_were_open_go_on_where_they_were(tmp_path):
    (tmp_path / "in").write_bytes(b"0123456789")
    guest = Guest(SharedFolder(tmp_path))
    source, target = guest.open(b"in", 0), guest.open(b"out", 4)
    console, features = guest.open(b":tt", 4), guest.open(b":semihosting-features", 0)
    guest.read(source, 4)
    guest.write(target, b"ab")
    guest.read(features, 2)
    saved = guest.semihosting.save()
    guest.read(source, 3)
    guest.write(target, b"XY")
    other = Guest(SharedFolder(tmp_path))
    other.semihosting.restore(saved)
    assert other.read(source, 2) == (0, b"45")
    other.write(target, b"c")
    other.write(console, b"said")
    assert other.read(features, 1) == (0, b"F")
    other.semihosting.close()
    assert ((tmp_path / "out").read_bytes(), bytes(other.output)) == (b"abcY", b"said")


def test_a_file_that_is_gone_cannot_be_open_again(tmp_path):
    guest = Guest(SharedFolder(tmp_path))
    guest.open(b"out", 4)
    saved = guest.semihosting.save()
    (tmp_path / "out").unlink()
    other = Guest(SharedFolder(tmp_path))
    with pytest.raises(FileNotFoundError):
        other.semihosting.restore(saved)


def test_a_file_is_given_back_with_the_machine_that_nobody_closed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"contents")
    file = SharedFolder(tmp_path).open(b"a", MODE_R)
    number = file._descriptor
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_a_file_is_closed_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"contents")
    file = SharedFolder(tmp_path).open(b"a", MODE_R)
    file.close()
    there = os.open(tmp_path / "a", os.O_RDONLY)  # by the number that is free now
    file.close()
    assert os.read(there, 3) == b"con"
    os.close(there)
