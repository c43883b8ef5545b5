"""Counting inline: what is written, when nothing is, and that nobody sees a difference."""

from __future__ import annotations

import ctypes
from dataclasses import replace as replace_fields

import capstone
import pytest

from spe_unicorn import Machine
from spe_unicorn.compiled import entry, pointer_to, record_at
from spe_unicorn.host.engine import known
from spe_unicorn.host.native.inline import (
    INLINE,
    SHORT_ADDRESSES,
    inline_length,
    put_inline,
    put_stub,
    replace,
)
from spe_unicorn.host.native.state import State
from spe_unicorn.machine.shipped import shipped_firmware

ENGINE, STATE, HOOK, CHECK = 0x5555_0000_1000, 0x5555_0000_2000, 0x7F00_0000_3000, 0x7F00_0000_4000

needs_this_host = pytest.mark.skipif(
    known.why_not() is not None, reason="inline counting is for Linux on x86-64"
)


@entry("int64", "int64", "int64", "int64", "int64")
def write_inline(at, stub, address, operations):
    return put_inline(at, stub, STATE, address, operations)


@entry("int64", "int64", "int64", "int64", "int64")
def write_stub(at, address, size, after):
    return put_stub(at, ENGINE, STATE, HOOK, address, size, CHECK, after)


@entry("int64", "int64", "int64")
def length_of(address, operations):
    return inline_length(address, operations)


@entry("int64", "int64", "int64", "int64", "int64")
def replaced(numbers, address, size, back):
    return replace(record_at(pointer_to(numbers), INLINE), ENGINE, STATE, address, size, back)


def has_to_replace(machine: Machine) -> None:
    """A Python with a low heap keeps it from replacing anything: the test cannot pass there."""
    if machine.board.cpu.hooks.counted_inline.why_not == SHORT_ADDRESSES:
        pytest.xfail(SHORT_ADDRESSES)


class Memory:
    """Bytes whose address is known."""

    def __init__(self, size: int) -> None:
        self.data = (ctypes.c_uint8 * size)()
        self.at = ctypes.addressof(self.data)

    def put(self, offset: int, data: bytes) -> int:
        self.data[offset : offset + len(data)] = list(data)
        return offset + len(data)

    def listing(self, begin: int, end: int) -> list[str]:
        """What a disassembler reads there."""
        code = bytes(self.data)[begin - self.at : end - self.at]
        reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        return [f"{i.mnemonic} {i.op_str}".strip() for i in reader.disasm(code, begin)]


def offset(field: str) -> str:
    distance = getattr(State, field).offset - 96
    return f"rcx - {-distance:#x}" if distance < 0 else f"rcx + {distance:#x}"


@needs_this_host
@pytest.mark.parametrize("operations", [3, 127, 128, 600])
@pytest.mark.parametrize(
    ("address", "stores"),
    [
        (0x4008_0000, ["mov qword ptr [{block}], 0x40080000"]),
        (0x8008_0000, ["mov esi, 0x80080000", "mov qword ptr [{block}], rsi"]),
        (
            -0x7FFF_7FF8_0000,
            ["movabs rsi, 0xffff800080080000", "mov qword ptr [{block}], rsi"],
        ),
    ],
)
def test_a_replaced_block_counts_as_the_hook_does(operations, address, stores):
    memory = Memory(512)
    stub = memory.at + 256
    end = write_inline(memory.at, stub, address, operations)
    assert end - memory.at == length_of(address, operations)
    entry_ = stub + (5 if operations < 128 else 8)
    assert memory.listing(memory.at, end) == [
        f"movabs rcx, {STATE + 96:#x}",
        f"cmp qword ptr [{offset('attend')}], 0",
        f"jne {entry_:#x}",
        f"sub qword ptr [{offset('budget')}], {operations if operations < 10 else hex(operations)}",
        f"js {stub:#x}",
        *(line.format(block=offset("block")) for line in stores),
        f"mov qword ptr [{offset('block_operations')}], "
        f"{operations if operations < 10 else hex(operations)}",
    ]


@needs_this_host
def test_a_stub_gives_the_operations_back_and_calls_the_hook_and_the_check():
    memory = Memory(512)
    end = write_stub(memory.at, 0x4008_0000, 4 * 200, memory.at + 400)
    assert memory.listing(memory.at, end) == [
        f"add qword ptr [{offset('budget')}], 0xc8",
        f"movabs rdi, {ENGINE:#x}",
        "movabs rsi, 0x40080000",
        "mov edx, 0x320",
        f"movabs rcx, {STATE:#x}",
        f"movabs rax, {HOOK:#x}",
        "call rax",
        f"movabs rdi, {ENGINE:#x}",
        "xor esi, esi",
        f"movabs rax, {CHECK:#x}",
        "call rax",
        f"jmp {memory.at + 400:#x}",
    ]


def engine_code(memory: Memory, *, far: bool, address: int, size: int) -> int:
    """The call of the hook as the engine writes it, at offset 64; where it returns to."""
    at = memory.put(64, b"\x48\xbf" + ENGINE.to_bytes(8, "little"))
    if address >> 32:
        at = memory.put(at, b"\x48\xbe" + (address % (1 << 64)).to_bytes(8, "little"))
    else:
        at = memory.put(at, b"\xbe" + address.to_bytes(4, "little"))
    at = memory.put(at, b"\xba" + size.to_bytes(4, "little"))
    at = memory.put(at, b"\x48\xb9" + STATE.to_bytes(8, "little"))
    at = memory.put(at, b"\xff\x15\0\0\0\0" if far else b"\xe8\0\0\0\0")
    back = at
    at = memory.put(at, b"\x48\xbf" + ENGINE.to_bytes(8, "little") + b"\x33\xf6")
    if far:
        memory.put(at, b"\xff\x15" + (400 - at - 6).to_bytes(4, "little"))
        memory.put(400, CHECK.to_bytes(8, "little"))
    else:
        memory.put(at, b"\xe8" + (300 - at - 5).to_bytes(4, "little"))
    return back


def try_to_replace(memory: Memory, back: int, *, address: int, size: int) -> int:
    shared = (ctypes.c_int64 * (INLINE.itemsize // 8))()
    names = INLINE.names
    shared[names.index("free")] = memory.at + 512
    shared[names.index("end")] = memory.at + 1024
    shared[names.index("hook")] = HOOK
    return replaced(ctypes.addressof(shared), address, size, memory.at + back)


@needs_this_host
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("address", [0x4008_0000, 0x8008_0000, -0x7FFF_7FF8_0000])
def test_the_engine_s_call_is_replaced_and_the_next_check_goes_on(far, address):
    memory = Memory(1024)
    back = engine_code(memory, far=far, address=address, size=12)
    to = try_to_replace(memory, back, address=address, size=12)
    after = memory.at + back + (18 if far else 17)
    check = CHECK if far else memory.at + 300
    assert memory.listing(to, to + 29) == [
        f"movabs rdi, {ENGINE:#x}",
        "xor esi, esi",
        f"movabs rax, {check:#x}",
        "call rax",
        f"jmp {after:#x}",
    ]
    end = memory.at + 64 + length_of(address, 3)
    left = memory.listing(end, after)
    assert not left or left[0] in ("nop", f"jmp {after:#x}")


@needs_this_host
@pytest.mark.parametrize("far", [False, True])
def test_one_byte_that_differs_keeps_all_of_them(far):
    address = 0x4008_0000
    pattern = Memory(1024)
    back = engine_code(pattern, far=far, address=address, size=12)
    after = back + (18 if far else 17)
    targets = set(range(back - 4, back)) | set(range(after - 4, after))
    for place in sorted(set(range(64, after)) - targets):
        memory = Memory(1024)
        engine_code(memory, far=far, address=address, size=12)
        memory.data[place] ^= 0x10
        before = bytes(memory.data)
        assert try_to_replace(memory, back, address=address, size=12) == 0, place
        assert bytes(memory.data) == before, place


PROGRAMS = ("hello", "spe_copy", "spe_irq_el1", "spe_full", "priv_timer", "exceptions", "fp_trap")


@needs_this_host
@pytest.mark.parametrize("name", PROGRAMS)
def test_nobody_sees_a_difference(name, monkeypatch):
    seen = []
    for value in ("0", "1"):
        monkeypatch.setenv(known.OPTION, value)
        records = bytearray()
        with Machine(shipped_firmware(name)) as machine:
            machine.board.unit.streamed.connect(records.extend)
            outcome = machine.run(operations=20_000_000)
            hooks = machine.board.cpu.hooks
            assert (hooks.inline is not None) == (value == "1")
            if hooks.inline is not None:
                assert hooks.counted_inline.refused == 0
            timeless = replace_fields(outcome, seconds=0.0)
            seen.append((timeless, bytes(records), machine.console.text))
    assert seen[0] == seen[1]


@needs_this_host
def test_blocks_that_run_often_count_themselves(monkeypatch):
    monkeypatch.setenv(known.OPTION, "1")
    with Machine(shipped_firmware("spe_copy")) as machine:
        has_to_replace(machine)
        machine.run(operations=10_000)
        machine.run(operations=10_000)
        patched = machine.board.cpu.hooks.counted_inline.blocks
        assert patched
        machine.board.cpu.engine.forget_all_code()
        machine.run(operations=10_000)
        assert machine.board.cpu.hooks.counted_inline.blocks > patched


@needs_this_host
def test_switched_off_in_the_middle_of_a_run_it_says_why_and_counts_on(monkeypatch):
    monkeypatch.delenv(known.OPTION, raising=False)
    with Machine(shipped_firmware("spe_copy")) as machine:
        has_to_replace(machine)
        machine.run(operations=10_000)
        machine.run(operations=10_000)
        hooks = machine.board.cpu.hooks
        blocks = hooks.counted_inline.blocks
        hooks.stop_inline("instructions are traced")
        outcome = machine.run(operations=10_001)
        assert outcome.operations == 30_001
        assert outcome.inline == (False, "instructions are traced", blocks, 0)
        hooks.stop_inline("somebody else, too")
        hooks.inline.resume("instructions are traced")
        assert machine.run(operations=10_000).inline == (False, "somebody else, too", blocks, 0)
        hooks.inline.resume("somebody else, too")
        outcome = machine.run(operations=10_000)
        assert outcome.inline.on
        assert outcome.inline.blocks > blocks


@needs_this_host
@pytest.mark.parametrize("value", ["0", "off", "2"])
def test_the_environment_switches_it_off(value, monkeypatch):
    monkeypatch.setenv(known.OPTION, value)
    with Machine(shipped_firmware("hello")) as machine:
        assert machine.run().inline == (False, f"SPE_UNICORN_INLINE={value}", 0, 0)


def test_it_is_for_one_version_of_the_engine_on_one_kind_of_host(monkeypatch):
    monkeypatch.delenv(known.OPTION, raising=False)
    monkeypatch.setattr(known.sys, "platform", "linux")
    monkeypatch.setattr(known.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(known, "uc_version", lambda: (2, 1, 0x020104FF))
    assert known.why_not() is None
    monkeypatch.setattr(known, "uc_version", lambda: (2, 1, 0x020105FF))
    assert known.why_not() == "only with Unicorn 2.1.4, this is 2.1.5"
    monkeypatch.setattr(known.platform, "machine", lambda: "aarch64")
    assert known.why_not() == "only on Linux on x86-64"


@needs_this_host
def test_with_a_core_model_blocks_do_not_count_themselves(monkeypatch):
    monkeypatch.setenv(known.OPTION, "1")
    with Machine(shipped_firmware("hello"), model="cache") as machine:
        assert machine.board.cpu.hooks.inline is None
        assert machine.board.cpu.hooks.counted_inline.why_not == "a core model looks at blocks, too"
