"""Flash on the board: read at full speed, programmed by commands, kept in files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.boot.image import LoadError
from spe_unicorn.machine.options import MachineOptions, OptionError
from tests.support import a64 as a

BANK = 64 << 20
SECOND = 0x0400_0000


def erased(path: Path) -> Path:
    """A file of a whole flash, with holes."""
    with path.open("wb") as file:
        file.truncate(BANK)
    return path


def program(address: int, value: int) -> list[int]:
    """Program a word at ``address``, then read it: status in X3, X4 the word in the array."""
    return [
        *a.mov64(1, address),
        a.movz(2, 0x40),
        a.str_(2, 1, 0, size=2),
        *a.mov64(2, value),
        a.str_(2, 1, 0, size=2),
        a.ldr(3, 1, 0, size=2),
        a.ldr(5, 1, 4, size=2),
        a.movz(2, 0xFF),
        a.str_(2, 1, 0, size=2),
        a.ldr(4, 1, 0, size=2),
        a.b(0),
    ]


def bios(path: Path, words: list[int]) -> Path:
    path.write_bytes(a.code(words))
    return path


def run(machine: Machine) -> Board:
    machine.run(operations=200)
    return machine.board


@pytest.mark.parametrize("secure", [False, True])
def test_code_in_flash_programs_the_other_flash_and_the_file_has_it(tmp_path, secure) -> None:
    file = erased(tmp_path / "vars")
    code = bios(tmp_path / "code", program(SECOND + 0x1000, 0x1234_5678))
    with Machine(bios=code, pflash=(str(file),), secure=secure) as machine:
        engine = run(machine).cpu.engine
        assert engine.x(3) == 0x80_0080
        assert engine.x(5) == 0x80_0080  # each read of its own, not the first alone
        assert engine.x(4) == 0x1234_5678
        with file.open("rb") as stream:
            stream.seek(0x1000)
            assert stream.read(4) == bytes.fromhex("78563412")
    with Machine(bios=code, pflash=(str(file),)) as again:
        assert again.memory.read(SECOND + 0x1000, 4) == bytes.fromhex("78563412")


def test_secure_flash_is_programmed_from_secure_state(tmp_path) -> None:
    code = bios(tmp_path / "code", program(0x10_0000, 0xABCD))
    machine = Machine(bios=code, secure=True)
    board = machine.board  # from RAM: flash that is being programmed answers no fetches
    for n, word in enumerate(program(0x10_0000, 0xABCD)):
        board.memory.write(0x4010_0000 + 4 * n, word.to_bytes(4, "little"))
    board.cpu.pc = 0x4010_0000
    machine.run(operations=40)
    assert board.cpu.engine.x(3) == 0x80_0080
    assert board.cpu.engine.x(4) == 0xABCD


def test_without_a_file_it_forgets(tmp_path) -> None:
    code = bios(tmp_path / "code", program(SECOND, 7))
    assert run(Machine(bios=code)).cpu.engine.x(4) == 7
    assert Machine(bios=code).memory.read(SECOND, 4) == bytes(4)


def test_a_file_that_is_read_only_says_so_in_the_status(tmp_path) -> None:
    file = erased(tmp_path / "vars")
    code = bios(tmp_path / "code", program(SECOND, 7))
    before = file.stat().st_mtime_ns
    engine = run(Machine(bios=code, pflash=(f"{file},readonly",))).cpu.engine
    assert (engine.x(3), engine.x(4)) == (0x90_0090, 0)
    assert file.stat().st_mtime_ns == before


def test_what_is_programmed_survives_the_end_of_the_process(tmp_path) -> None:
    file = erased(tmp_path / "vars")
    code = bios(tmp_path / "code", program(SECOND, 0x5555))
    words = [sys.executable, "-m", "spe_unicorn", "run", "-q", "--bios", code, "--pflash", file]
    with subprocess.Popen(list(map(str, words))) as process:
        while True:
            with file.open("rb") as stream:
                if stream.read(2) == b"\x55\x55":
                    break
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    with file.open("rb") as stream:
        assert stream.read(4) == b"\x55\x55\0\0"


def test_pflash_alone_is_where_the_pes_start(tmp_path) -> None:
    first = tmp_path / "first"
    first.write_bytes(a.code(program(SECOND, 9)).ljust(BANK, b"\0"))
    second = erased(tmp_path / "second")
    options = MachineOptions(pflash=(str(first), str(second)), el=1)
    with Machine(options) as machine:
        assert machine.board.cpu.pc == 0
        assert run(machine).cpu.engine.x(4) == 9


def refusal(**options) -> str:
    with pytest.raises(LoadError) as error:
        Machine(**options)
    return str(error.value).rpartition("/")[2]


def test_files_that_cannot_be_flash_are_refused(tmp_path) -> None:
    small, file = tmp_path / "small", erased(tmp_path / "file")
    small.write_bytes(b"x")
    assert refusal(pflash=(str(small),)) == "small: has 0x1 bytes; flash has 0x4000000"
    assert refusal(pflash=(str(tmp_path / "none"),)) == "none: No such file or directory"
    assert refusal(pflash=("/dev/null",)) == "null: is not a regular file"
    with Machine(pflash=(str(file),)):
        assert refusal(pflash=(str(file),)) == "file: is in use by another machine"
    with Machine(pflash=(f"{file},readonly",)), Machine(pflash=(f"{file},readonly",)):
        pass
    if os.geteuid() != 0:
        file.chmod(0o444)
        assert refusal(pflash=(str(file),)).startswith("file: is read-only: allow writes, or say")
    for options in ({"bios": "x", "pflash": ("a", "b")}, {"pflash": ("a", "b", "c")}):
        with pytest.raises(OptionError, match="`pflash`: there are two flashes"):
            MachineOptions(**options)


def test_load_puts_plain_data_into_memory(tmp_path) -> None:
    data, code = tmp_path / "data", bios(tmp_path / "code", [a.b(0)])
    data.write_bytes(b"hypervisor's guest")
    machine = Machine(bios=code, load=(f"{data}@0x44000000",))
    assert machine.memory.read(0x4400_0000, 10) == b"hypervisor"
    assert refusal(bios=code, load=(f"{data}@0x10000000",)).startswith("data: the board has no")
    for text in ("x", "@1", f"{data}@", f"{data}@x", f"{data}@-1"):
        assert "say it as FILE@ADDRESS" in refusal(bios=code, load=(text,))


def test_files_and_a_kernel_are_in_fw_cfg(tmp_path) -> None:
    kernel, code = tmp_path / "kernel", bios(tmp_path / "code", [a.b(0)])
    kernel.write_bytes(b"flat kernel")
    machine = Machine(bios=code, kernel=kernel, append="quiet", fw_cfg=(f"opt/k={kernel}",), smp=2)
    bus = machine.board.peripherals.bus

    def item(key: int, size: int) -> bytes:
        bus.write(0x0902_0008, 2, key << 8 & 0xFF00 | key >> 8)
        return bytes(bus.read(0x0902_0000, 1) for _ in range(size))

    assert item(0x05, 2) == b"\2\0"
    assert item(0x11, 11) == b"flat kernel"
    assert item(0x15, 6) == b"quiet\0"
    assert item(0x20, 11) == b"flat kernel"
    assert machine.board.cpu.pc == 0
    for text in ("x", "=x", "x=", "é=x", f"{'n' * 56}=x"):
        assert "`fw_cfg`" in refusal(bios=code, fw_cfg=(text,))
