"""Counting inline: what is written, when nothing is, and that nobody sees a difference."""

from __future__ import annotations

import ctypes
from dataclasses import replace as replace_fields

import capstone
import numpy as np
import pytest

from spe_unicorn import Machine
from spe_unicorn.arch.registers.pmu import PMCR_EL0
from spe_unicorn.compiled import entry, pointer_to, record_at
from spe_unicorn.cores.predictor import BRANCH
from spe_unicorn.host.engine import known
from spe_unicorn.host.native.inline.engine_code import DESCRIBED, code_end
from spe_unicorn.host.native.inline.replacing import replace, replace_checks
from spe_unicorn.host.native.inline.shared import INLINE
from spe_unicorn.host.native.inline.written import (
    CENTRE,
    EXIT,
    STUB,
    inline_length,
    put_check,
    put_counting,
    put_exit,
    put_inline,
    put_nothing,
    put_stub,
)
from spe_unicorn.host.native.state.block_table import ROW
from spe_unicorn.host.native.state.whole import State
from spe_unicorn.machine.shipped import shipped_firmware
from spe_unicorn.pmu.events import PMUEvent as E

ENGINE, STATE, HOOK, CHECK = 0x5555_0000_1000, 0x5555_0000_2000, 0x7F00_0000_3000, 0x7F00_0000_4000

needs_this_host = pytest.mark.skipif(
    known.why_not() is not None, reason="inline counting is for Linux on x86-64"
)


@entry("int64", "int64", "int64")
def write_inline(numbers, at):
    return put_inline(record_at(pointer_to(numbers), INLINE), at)


@entry("int64", "int64", "int64", "int64")
def write_stub(numbers, at, begin):
    return put_stub(record_at(pointer_to(numbers), INLINE), at, begin)


@entry("int64", "int64", "int64")
def write_counting(numbers, at):
    return put_counting(record_at(pointer_to(numbers), INLINE), at)


@entry("int64", "int64")
def length_at(numbers):
    return inline_length(record_at(pointer_to(numbers), INLINE))


@entry("int64", "int64", "int64")
def replaced(numbers, back):
    return replace(record_at(pointer_to(numbers), INLINE), back)


@entry("int64", "int64")
def looked_for_checks(numbers):
    replace_checks(record_at(pointer_to(numbers), INLINE))
    return 0


@entry("int64", "int64")
def code_end_at(begin):
    return code_end(begin)


@entry("int64", "int64", "int64", "int64")
def write_exit(numbers, at, after):
    return put_exit(record_at(pointer_to(numbers), INLINE), at, after)


@entry("int64", "int64", "int64", "int64")
def write_check(at, exit_, after):
    return put_check(at, exit_, after)


@entry("int64", "int64", "int64")
def write_nothing(at, end):
    return put_nothing(at, end)


class Shared:
    """A row of INLINE: the fields given, and the engine, the state and the hook of these tests."""

    def __init__(self, **fields: int) -> None:
        self.row = np.zeros(1, INLINE)
        self.at = self.row.ctypes.data
        named = {"engine": ENGINE, "state": STATE, "hook": HOOK, "check": CHECK}
        for name, value in {**named, **fields}.items():
            self.row[name] = value

    def __getitem__(self, name: str) -> int:
        return int(self.row[name][0])


def length_of(shared: Shared) -> int:
    return length_at(shared.at)


class Memory:
    """Bytes whose address is known."""

    def __init__(self, size: int) -> None:
        self.data = (ctypes.c_uint8 * size)()
        self.at = ctypes.addressof(self.data)

    def put(self, offset: int, data: bytes) -> int:
        self.data[offset : offset + len(data)] = list(data)
        return offset + len(data)

    def bytes_at(self, begin: int, size: int) -> bytes:
        return bytes(self.data)[begin - self.at : begin - self.at + size]

    def listing(self, begin: int, end: int) -> list[str]:
        """What a disassembler reads there."""
        reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        code = self.bytes_at(begin, end - begin)
        return [f"{i.mnemonic} {i.op_str}".strip() for i in reader.disasm(code, begin)]


def offset(field: str, further: int = 0) -> str:
    distance = getattr(State, field).offset - CENTRE + further
    assert -128 <= distance < 128
    if distance == 0:
        return "rcx"
    return f"rcx {'-' if distance < 0 else '+'} {number(abs(distance))}"


def number(value: int) -> str:
    """As the disassembler writes it."""
    return str(value) if 0 <= value < 10 else hex(value)


ADDRESSES = [
    (0x4008_0000, ["mov qword ptr [{block}], 0x40080000"]),
    (0x8008_0000, ["mov esi, 0x80080000", "mov qword ptr [{block}], rsi"]),
    (-0x7FFF_7FF8_0000, ["movabs rsi, 0xffff800080080000", "mov qword ptr [{block}], rsi"]),
]


def noted(stores: list[str], operations: int) -> list[str]:
    """Which block runs."""
    lines = [line.format(block=offset("block")) for line in stores]
    return [*lines, f"mov dword ptr [{offset('block_operations')}], {number(operations)}"]


@needs_this_host
@pytest.mark.parametrize("operations", [3, 127, 128, 600])
@pytest.mark.parametrize(("address", "stores"), ADDRESSES)
def test_a_replaced_block_counts_as_the_hook_does(operations, address, stores):
    memory = Memory(512)
    shared = Shared(address=address, size=4 * operations, back=memory.at + 300)
    shared.row["entry"] = memory.at + 308
    end = write_inline(shared.at, memory.at)
    assert end - memory.at == length_of(shared)
    assert memory.listing(memory.at, end) == [
        f"movabs rcx, {STATE + CENTRE:#x}",
        f"cmp dword ptr [{offset('attend')}], 0",
        f"jne {memory.at + 308:#x}",
        f"sub qword ptr [{offset('budget')}], {number(operations)}",
        f"js {memory.at + 300:#x}",
        *noted(stores, operations),
    ]


@needs_this_host
def test_what_a_replaced_block_holds_is_added_up_in_its_place() -> None:
    memory = Memory(512)
    row = np.array([1 << 32, 0, 0, 200, 0], np.int64)
    fields = {"number": 4 * 3, "row": row.ctypes.data, "address": 0x4008_0000, "size": 12}
    shared = Shared(**fields)
    end = write_inline(shared.at, memory.at)
    assert end - memory.at == length_of(shared)
    listing = memory.listing(memory.at, end)
    assert listing[1] == f"cmp dword ptr [{offset('attend')}], 0xc"
    assert listing[-2:] == [
        f"add dword ptr [{offset('tallied0', 4)}], 1",
        f"add dword ptr [{offset('tallied3')}], 0xc8",
    ]


@needs_this_host
@pytest.mark.parametrize("room", range(40))
def test_what_is_left_over_does_nothing_and_little_of_it(room):
    memory = Memory(64)
    assert write_nothing(memory.at, memory.at + room) == memory.at + room
    listing = memory.listing(memory.at, memory.at + room)
    if room > 16:
        assert listing[0] == f"jmp {memory.at + room:#x}"
    else:
        assert len(listing) == -(-room // 8)
        assert {line.split()[0] for line in listing} <= {"nop", "xchg"}  # 66 90 is xchg ax, ax
    assert bytes(memory.data)[room:] == bytes(64 - room)


@needs_this_host
@pytest.mark.parametrize("kind", [1, 2, 3, 128])
def test_what_else_is_counted_is_not_for_the_block_s_place(kind):
    assert length_of(Shared(address=0x4008_0000, size=12, number=kind)) == 0


def hook_called(address: int, size: int, after: int) -> list[str]:
    """The hook, the engine's check, and where the block goes on."""
    return [
        f"movabs rdi, {ENGINE:#x}",
        f"movabs rsi, {address % (1 << 64):#x}",
        f"mov edx, {size:#x}",
        f"movabs rcx, {STATE:#x}",
        f"movabs rax, {HOOK:#x}",
        "call rax",
        f"movabs rdi, {ENGINE:#x}",
        "xor esi, esi",
        f"movabs rax, {CHECK:#x}",
        "call rax",
        f"jmp {after:#x}",
    ]


@needs_this_host
def test_a_stub_gives_the_operations_back_and_calls_the_hook_and_the_check() -> None:
    memory = Memory(512)
    after = memory.at + 400
    shared = Shared(address=0x4008_0000, size=4 * 200, after=after)
    end = write_stub(shared.at, memory.at, memory.at + 300)
    assert memory.listing(memory.at, end)[:12] == [
        f"add qword ptr [{offset('budget')}], 0xc8",
        *hook_called(0x4008_0000, 0x320, after),
    ]
    assert shared["back"] == memory.at
    kept = [int.from_bytes(memory.bytes_at(end - 40 + 8 * n, 8), "little") for n in range(5)]
    assert kept == [memory.at + 300, after, CHECK, 0, 0]


MODEL, PREDICTOR, RESOLVE, MISPREDICTED = (0x7F11_0000_0000 + (n << 12) for n in range(4))


def resolving(address: int, at: int, wrong_paths: bool) -> list[str]:
    """The branch before the block: its predictor learns, and the model hears of wrong paths."""
    ending = f"qword ptr [{offset('ending')}]"
    centre = f"movabs rcx, {STATE + CENTRE:#x}"
    over = at + 4 + 3 + 6 + 30 + 2 + 10 + (66 if wrong_paths else 0)
    actual = f"movabs rdx, {address % (1 << 64):#x}"
    learns = [f"movabs rdi, {PREDICTOR:#x}", actual, f"movabs rax, {RESOLVE:#x}", "call rax"]
    lines = [f"mov rsi, {ending}", "test rsi, rsi", f"je {over:#x}", *learns, centre]
    if wrong_paths:
        lines += ["test rax, rax", f"je {over:#x}", f"mov rsi, {ending}", f"mov {ending}, 0"]
        lines += [f"movabs rdi, {MODEL:#x}", actual, "mov rcx, rax"]
        lines += [f"movabs rax, {MISPREDICTED:#x}", "call rax", centre]
    return lines


@needs_this_host
@pytest.mark.parametrize("wrong_paths", [False, True])
def test_a_stub_resolves_the_branch_before_its_block_first(wrong_paths: bool) -> None:
    memory = Memory(1024)
    address = 0x4008_0000
    fields = {"model": MODEL, "predictor": PREDICTOR, "resolve_at": RESOLVE}
    fields["mispredicted"] = MISPREDICTED if wrong_paths else 0
    shared = Shared(address=address, size=12, after=memory.at + 900, **fields)
    begin = write_stub(shared.at, memory.at, memory.at + 800)
    listing = memory.listing(memory.at, begin)
    # what comes before a block that gives its operations back is not resolved again by the hook
    assert listing[1] == f"mov qword ptr [{offset('ending')}], 0"
    end = write_counting(shared.at, begin)
    lines = memory.listing(shared["count"], end)
    expected = resolving(address, shared["count"] + 10 + 4 + 6, wrong_paths)
    assert lines[3 : 3 + len(expected)] == expected
    assert lines[3 + len(expected)] == f"sub qword ptr [{offset('budget')}], 3"


@needs_this_host
def test_the_largest_stub_is_no_larger_than_what_is_kept_free_for_one() -> None:
    memory = Memory(2 * STUB)
    row = np.array([1000 | 1000 << 32] * (ROW - 1) + [-1], np.int64)
    branch = np.zeros(1, BRANCH)
    fields = {"model": MODEL, "predictor": PREDICTOR, "resolve_at": RESOLVE}
    fields |= {"mispredicted": MISPREDICTED, "ending": branch.ctypes.data, "flow_next": 1}
    fields |= {"number": 2 * 255 + 3, "weight": 1000, "row": row.ctypes.data}
    address = -0x7FFF_7FF8_0000
    shared = Shared(address=address, size=4 * 600, after=memory.at + 2 * STUB, **fields)
    begin = write_stub(shared.at, memory.at, memory.at)
    assert STUB - 64 < write_counting(shared.at, begin) - memory.at <= STUB


@needs_this_host
@pytest.mark.parametrize("operations", [3, 200])
@pytest.mark.parametrize(("address", "stores"), ADDRESSES)
def test_a_block_that_weighs_and_adds_up_does_what_the_hook_would(operations, address, stores):
    memory = Memory(1024)
    after, size = memory.at + 800, 4 * operations
    lanes = [0, 2, 0, 0, 300, 1, 0, 0]
    words = [lanes[2 * n] | lanes[2 * n + 1] << 32 for n in range(4)]
    row = np.array([*words, -1], np.int64)
    assert len(row) == ROW
    tally = 2 * 5 + 1  # the fifth set of events, and ways of branches matter
    fields = {"number": 2 * tally + 1, "weight": 130, "row": row.ctypes.data}
    shared = Shared(address=address, size=size, after=after, **fields)
    begin = write_stub(shared.at, memory.at, memory.at + 300)
    back, weighed, entry_ = shared["back"], shared["members_back"], shared["entry"]
    assert memory.listing(weighed, begin)[:13] == [
        f"add qword ptr [{offset('members')}], 0x82",
        f"add qword ptr [{offset('budget')}], {number(operations)}",
        *hook_called(address, size, after),
    ]
    end = write_counting(shared.at, begin)
    assert shared["count"] == begin
    over = end - 5 - 4
    assert memory.listing(begin, end) == [
        f"movabs rcx, {STATE + CENTRE:#x}",
        f"cmp dword ptr [{offset('attend')}], {number(2 * tally + 1)}",
        f"jne {entry_:#x}",
        f"sub qword ptr [{offset('budget')}], {number(operations)}",
        f"js {back:#x}",
        f"sub qword ptr [{offset('members')}], 0x82",
        f"js {weighed:#x}",
        *noted(stores, operations),
        f"add dword ptr [{offset('tallied0', 4)}], 2",
        f"add dword ptr [{offset('tallied2')}], 0x12c",
        f"add dword ptr [{offset('tallied2', 4)}], 1",
        f"mov rax, qword ptr [{offset('falls_to')}]",
        "test rax, rax",
        f"je {over - 10:#x}",
        f"movabs rsi, {address % (1 << 64):#x}",
        "cmp rax, rsi",
        f"je {over - 10:#x}",
        f"inc qword ptr [{offset('jumps')}]",
        f"movabs rsi, {(address + size) % (1 << 64):#x}",
        f"mov qword ptr [{offset('falls_to')}], rsi",
        f"jmp {after:#x}",
    ]
    row[ROW - 1] = 0
    end = write_counting(shared.at, begin)
    assert memory.listing(begin, end)[-2:] == [
        f"mov qword ptr [{offset('falls_to')}], 0",
        f"jmp {after:#x}",
    ]


@needs_this_host
def test_a_number_of_several_bytes_is_compared_whole() -> None:
    memory = Memory(512)
    shared = Shared(address=0x4008_0000, size=12, number=0x1234)
    end = write_counting(shared.at, memory.at)
    assert f"cmp dword ptr [{offset('attend')}], 0x1234" in memory.listing(memory.at, end)


LOW_ENGINE, LOW_STATE = 0x0249_3A29, 0x248B_EF70
"""Where a Python that is not position-independent has its heap."""


def loaded(register: int, value: int, at: int) -> bytes:
    """How the engine has a register loaded by an instruction at ``at``."""
    if value == 0:
        return bytes([0x33, 0xC0 | register * 9])
    if 0 <= value < 1 << 32:
        return bytes([0xB8 | register]) + value.to_bytes(4, "little")
    if -(1 << 31) <= value < 0:
        return bytes([0x48, 0xC7, 0xC0 | register]) + value.to_bytes(4, "little", signed=True)
    if -(1 << 31) <= value - at - 7 < 1 << 31:
        distance = (value - at - 7).to_bytes(4, "little", signed=True)
        return bytes([0x48, 0x8D, 0x05 | register << 3]) + distance
    return bytes([0x48, 0xB8 | register]) + (value % (1 << 64)).to_bytes(8, "little")


def engine_code(
    memory: Memory,
    *,
    far: bool,
    address: int,
    size: int,
    engine: int = ENGINE,
    state: int = STATE,
) -> int:
    """The call of the hook as the engine writes it, at offset 64; where it returns to."""
    at = 64
    for register, value in ((7, engine), (6, address), (2, size), (1, state)):
        at = memory.put(at, loaded(register, value, memory.at + at))
    at = memory.put(at, b"\xff\x15\0\0\0\0" if far else b"\xe8\0\0\0\0")
    back = at
    at = memory.put(at, loaded(7, engine, memory.at + at) + b"\x33\xf6")
    if far:
        memory.put(at, b"\xff\x15" + (400 - at - 6).to_bytes(4, "little"))
        memory.put(400, (memory.at + 300).to_bytes(8, "little"))
    else:
        memory.put(at, b"\xe8" + (300 - at - 5).to_bytes(4, "little"))
    return back


def try_to_replace(memory: Memory, back: int, **fields: int) -> int:
    free = {"free": memory.at + 512, "end": memory.at + 1024}
    shared = Shared(**free, **fields)
    return replaced(shared.at, memory.at + back)


LOW = {"engine": LOW_ENGINE, "state": LOW_STATE}
PLACES = [
    (0x4008_0000, {}),
    (0x8008_0000, {}),
    (-0x7FFF_7FF8_0000, {}),
    (-0x7FF8_0000, {}),
    (0, {}),
    (0x4008_0000, LOW),
    (-0x7FFF_7FF8_0000, LOW),
    (0x4008_0000, {"state": LOW_STATE}),
]


@needs_this_host
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(("address", "where"), PLACES)
def test_the_engine_s_call_is_replaced_and_the_next_check_goes_on(far, address, where):
    memory = Memory(1024)
    back = engine_code(memory, far=far, address=address, size=12, **where)
    to = try_to_replace(memory, back, address=address, size=12, **where)
    engine = where.get("engine", ENGINE)
    after = memory.at + back + len(loaded(7, engine, 0)) + (8 if far else 7)
    check = memory.at + 300
    assert memory.listing(to, to + 29) == [
        f"movabs rdi, {engine:#x}",
        "xor esi, esi",
        f"movabs rax, {check:#x}",
        "call rax",
        f"jmp {after:#x}",
    ]
    begin = memory.at + 64
    length = length_of(Shared(address=address, size=12))
    if length > after - begin:
        count = to + 29 + 40
        assert memory.listing(begin, begin + 5) == [f"jmp {count:#x}"]
        counting = memory.listing(count, count + 200)
        assert counting[0] == f"movabs rcx, {where['state'] + CENTRE:#x}"
        assert f"jmp {after:#x}" in counting
        return
    left = memory.listing(begin + length, after)
    assert all(line.startswith(("nop", "xchg ax, ax")) for line in left)


@needs_this_host
@pytest.mark.parametrize("far", [False, True])
def test_a_state_or_engine_within_reach_of_the_code_is_loaded_by_its_distance(far):
    memory = Memory(1024)
    where = {"engine": memory.at + 0x1000, "state": memory.at - 0x2000}
    back = engine_code(memory, far=far, address=0x4008_0000, size=12, **where)
    assert try_to_replace(memory, back, address=0x4008_0000, size=12, **where)


@needs_this_host
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(("address", "where"), PLACES)
def test_one_byte_that_differs_keeps_all_of_them(far, address, where):
    pattern = Memory(1024)
    back = engine_code(pattern, far=far, address=address, size=12, **where)
    after = back + len(loaded(7, where.get("engine", ENGINE), 0)) + (8 if far else 7)
    targets = set(range(back - 4, back)) | set(range(after - 4, after))
    for place in sorted(set(range(64, after)) - targets):
        memory = Memory(1024)
        engine_code(memory, far=far, address=address, size=12, **where)
        memory.data[place] ^= 0x10
        before = bytes(memory.data)
        assert try_to_replace(memory, back, address=address, size=12, **where) == 0, place
        assert bytes(memory.data) == before, place


@needs_this_host
@pytest.mark.parametrize("length", [12, 13, 14, 15, 17, 18])
def test_behind_an_access_it_is_looked_at_whether_somebody_asked(length: int) -> None:
    memory = Memory(512)
    after = memory.at + length
    assert write_check(memory.at, memory.at + 300, after) == after
    looks, branches, nothing = memory.listing(memory.at, after)
    assert looks == "cmp dword ptr [rbp - 0x10], 0"
    assert branches == f"js {memory.at + 300:#x}"
    assert nothing.startswith("nop")


@needs_this_host
def test_if_so_the_engine_is_left_as_if_from_where_it_asks() -> None:
    memory = Memory(512)
    shared = Shared()
    end = write_exit(shared.at, memory.at, memory.at + 200)
    assert end - memory.at == EXIT
    assert memory.listing(memory.at, end) == [
        f"movabs rdi, {ENGINE:#x}",
        "xor esi, esi",
        f"movabs rax, {memory.at + 200:#x}",
        "push rax",
        f"movabs rax, {CHECK:#x}",
        "jmp rax",
    ]


@needs_this_host
@pytest.mark.parametrize("ends_after", [-1, 0, 1])
def test_a_check_that_goes_on_behind_the_block_s_code_is_left_alone(ends_after: int) -> None:
    memory = Memory(1024)
    at = memory.put(80, loaded(7, ENGINE, 0) + b"\x33\xf6")
    end = memory.put(at, b"\xe8" + (300 - at - 5).to_bytes(4, "little"))
    before = memory.listing(memory.at + 80, memory.at + end)
    free, check = memory.at + 512, memory.at + 300
    block = {"after": memory.at + 64, "code_end": memory.at + end + ends_after}
    shared = Shared(free=free, end=memory.at + 1024, check=check, **block)
    looked_for_checks(shared.at)
    is_left = memory.listing(memory.at + 80, memory.at + end) == before
    assert is_left is (ends_after < 0)


@needs_this_host
@pytest.mark.parametrize(
    ("says", "length", "begins", "found"),
    [
        (0, 112, 11, 112),
        (0, 112, 70, 112),  # the call begins in the second line of the code
        (64, 112, 11, 0),  # that is the description of something else
        (0, 11, 11, 0),  # the call would be behind it
        (0, 1 << 20, 11, 0),
        (0, -1, 11, 0),
    ],
)
def test_where_a_block_s_code_ends_stands_in_front_of_it(
    says: int, length: int, begins: int, found: int
) -> None:
    memory = Memory(1024)
    code = -(-(memory.at + 256) // 64) * 64
    words = (code + says).to_bytes(8, "little") + length.to_bytes(8, "little", signed=True)
    memory.put(code - DESCRIBED - memory.at, words)
    assert code_end_at(code + begins) == (code + found if found else 0)


@needs_this_host
@pytest.mark.parametrize(
    ("call", "is_looked_at"),
    [
        (b"\xe8" + (300 - 97).to_bytes(4, "little"), True),
        (b"\xff\x15" + (400 - 98).to_bytes(4, "little"), True),
        (b"\xff\x15\x8f\0\0\x98", False),  # half of it was written over: it leads anywhere
        (b"\xff\x15\0\0\0\x70", False),
        (b"\xff\x15" + (1017 - 98).to_bytes(4, "little"), False),
    ],
)
def test_what_is_left_of_older_code_is_read_nowhere_else(call: bytes, is_looked_at: bool) -> None:
    memory = Memory(2048)
    begin = 80
    at = memory.put(begin, loaded(7, ENGINE, 0) + b"\x33\xf6")
    assert memory.put(at, call) in (97, 98)
    memory.put(400, (memory.at + 300).to_bytes(8, "little"))
    shared = Shared(
        after=memory.at + 64,
        code_end=memory.at + 1024,
        free=memory.at + 1024,
        end=memory.at + 2048,
        check=memory.at + 300,
    )
    looked_for_checks(shared.at)
    looks = memory.listing(memory.at + begin, memory.at + begin + 4) == [
        "cmp dword ptr [rbp - 0x10], 0"
    ]
    assert looks is is_looked_at


PROGRAMS = [
    *((name, "generic") for name in ("hello", "spe_copy", "spe_irq_el1", "spe_full", "priv_timer")),
    *((name, "generic") for name in ("exceptions", "fp_trap", "pmu_levels", "pmu_basic")),
    *((name, "neoverse-v2") for name in ("spe_copy", "pmu_levels")),
]


@pytest.mark.sweep(first=True)
@needs_this_host
@pytest.mark.parametrize(("name", "core"), PROGRAMS)
def test_nobody_sees_a_difference(name: str, core: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for value in ("0", "1"):
        monkeypatch.setenv(known.OPTION, value)
        records = bytearray()
        with Machine(shipped_firmware(name), core=core) as machine:
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
def test_blocks_that_run_often_count_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(known.OPTION, "1")
    with Machine(shipped_firmware("spe_copy")) as machine:
        machine.run(operations=10_000)
        machine.run(operations=10_000)
        patched = machine.board.cpu.hooks.counted_inline.blocks
        assert patched
        machine.board.cpu.engine.forget_all_code()
        machine.run(operations=10_000)
        assert machine.board.cpu.hooks.counted_inline.blocks > patched


BRANCHES = (E.BR_RETIRED, E.LD_RETIRED)
WAYS = (E.PC_WRITE_RETIRED, E.ST_RETIRED, E.LD_RETIRED, E.MEM_ACCESS)
TURNS = (BRANCHES, WAYS, (), (E.CPU_CYCLES,), BRANCHES, WAYS)


def count(machine: Machine, events: tuple[E, ...]) -> None:
    """Have the PE count ``events`` from now on, from 0."""
    counting = machine.board.pes[0].counting
    counting.count_executed()
    state = counting.monitors.s
    for n, event in enumerate(events):
        counting.monitors.configure(n, event)
        state.values[n] = 0
    state.control = PMCR_EL0.of(E=1, LP=1).value
    state.enabled = (1 << len(events)) - 1
    counting.changed()


@needs_this_host
@pytest.mark.parametrize("core", ["generic", "neoverse-v2"])
def test_blocks_that_count_themselves_count_what_each_run_asks_for(
    core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for value in ("0", "1"):
        monkeypatch.setenv(known.OPTION, value)
        with Machine(shipped_firmware("bench_sort"), core=core) as machine:
            machine.run(operations=100_000)
            found = []
            for events in TURNS:
                count(machine, events)
                for operations in (3_000, 10_001):
                    machine.run(operations=operations)
                    counting = machine.board.pes[0].counting
                    counting.count_executed()
                    found.append(counting.monitors.s.values[: len(events)])
            seen.append(found)
            assert machine.board.cpu.hooks.counted_inline.refused == 0
            assert value == "0" or machine.board.cpu.hooks.counted_inline.blocks
    assert seen[0] == seen[1]
    assert all(any(values) for values in seen[0] if values)


@needs_this_host
def test_a_block_is_written_anew_for_what_is_counted_and_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(known.OPTION, "1")
    with Machine(shipped_firmware("bench_sort")) as machine:
        inline = machine.board.cpu.hooks.inline
        machine.run(operations=100_000)
        machine.run(operations=100_000)

        def written_anew() -> int:
            before = inline.anew
            machine.run(operations=10_000)
            return inline.anew - before

        assert not written_anew()
        count(machine, BRANCHES)
        assert written_anew()
        assert not written_anew()


@needs_this_host
def test_switched_off_in_the_middle_of_a_run_it_says_why_and_counts_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(known.OPTION, raising=False)
    with Machine(shipped_firmware("spe_copy")) as machine:
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
def test_the_environment_switches_it_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(known.OPTION, value)
    with Machine(shipped_firmware("hello")) as machine:
        assert machine.run().inline == (False, f"SPE_UNICORN_INLINE={value}", 0, 0)


@needs_this_host
def test_with_a_core_model_accesses_compare_their_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(known.OPTION, "1")
    with Machine(shipped_firmware("spe_copy"), model="cache") as machine:
        machine.run(operations=20_000)
        machine.run(operations=20_000)
        counted = machine.board.cpu.hooks.counted_inline
        assert counted.on
        assert counted.blocks
