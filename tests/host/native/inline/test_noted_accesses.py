"""Accesses that compare their line by themselves: what is replaced, and that nobody sees it."""

from __future__ import annotations

import gc
from typing import Any

import capstone
import numpy as np
import pytest
from unicorn import unicorn_const

from spe_unicorn.compiled import entry, record_at
from spe_unicorn.cores.caches import LINES, PAGES, DataSide, Grain, Level, SharedCache
from spe_unicorn.host.engine import known
from spe_unicorn.host.native.inline.accesses import ACCESS_STUB, replace_accesses
from spe_unicorn.host.native.inline.checked import ASKED, LARGEST_RAM
from spe_unicorn.host.native.inline.recent import RECENT
from spe_unicorn.host.native.inline.shared import INLINE
from spe_unicorn.host.native.shadow.blocks import CheckedState
from spe_unicorn.host.native.shadow.marks import HEAP, UNWRITTEN
from spe_unicorn.host.native.state.whole import LAYOUT, State
from tests.host import stale_tables
from tests.support import a64 as a
from tests.support.machine_runs import Machine, Result, image_of
from tests.support.random_programs import RAM

pytestmark = pytest.mark.skipif(
    known.why_not() is not None, reason="inline counting is for Linux on x86-64"
)

# What the engine's code of an access is, and what takes its place


@entry("void", "pointer", "pointer", "int64", "int64")
def replaced(numbers: Any, state: Any, begin: Any, end: Any) -> None:
    replace_accesses(record_at(numbers, INLINE), record_at(state, LAYOUT), begin, end)


LOAD, LOAD_SLOW, STORE, STORE_SLOW, END = 16, 96, 16, 96, 160


def code_of(store: bool, what: int, move: bytes = b"\x48\x8b\xd3") -> bytearray:
    """The engine's code of an access from RBX, with the slow way behind it."""
    code = bytearray(b"\x90" * END)
    at = LOAD
    compare = b"\x48\x3b\x77\x08" if store else b"\x48\x3b\x37"
    jump = LOAD_SLOW - at - len(compare) - 3 - 5
    fast = b"\x48\x03\x77\x20" + (b"\x48\x89\x1e" if store else b"\x48\x8b\x1e")
    site = compare + b"\x48\x8b\xf3" + b"\xe9" + jump.to_bytes(4, "little") + fast
    code[at : at + len(site)] = site
    goes_on = at + len(site)
    slow = b"\x48\x8b\xfd" + (move if store else b"")
    slow += (b"\xb9" if store else b"\xba") + what.to_bytes(4, "little")
    back = goes_on - LOAD_SLOW - len(slow) - 7
    slow += (b"\x4c\x8d\x05" if store else b"\x48\x8d\x0d") + back.to_bytes(
        4, "little", signed=True
    )
    code[LOAD_SLOW : LOAD_SLOW + len(slow)] = slow
    return code


class Replaced:
    """The engine's code after :func:`replace_accesses`, and what it wrote."""

    def __init__(
        self,
        code: bytearray,
        line: int = 64,
        room: int = 4 * ACCESS_STUB,
        checked: CheckedState | None = None,
        recent: int = 0,
    ) -> None:
        level = Level(entries=4, ways=4)
        self.data = DataSide(
            l1_tlb=level,
            l2_tlb=level,
            l1d=level,
            l2=level,
            last=SharedCache(level),
            grain=Grain(line),
        )
        self.state = State()
        self.state.data_side = self.data.words.ctypes.data
        if checked is not None:
            self.state.checked = np.frombuffer(checked, np.uint8).ctypes.data
        self.bytes = np.zeros(END + room, np.uint8)
        self.bytes[:END] = list(code)
        self.at = self.bytes.ctypes.data
        self.numbers = np.zeros(1, INLINE)
        fields = {"free": END, "end": END + room, "common": END - 8, "common_store": END - 4}
        for name, offset in fields.items():
            self.numbers[name] = self.at + offset
        self.numbers["recent"] = recent and self.at + recent
        self.numbers["state"] = np.frombuffer(self.state, np.uint8).ctypes.data
        replaced(
            self.numbers.ctypes.data,
            int(self.numbers["state"][0]),
            self.at,
            self.at + END,
        )

    @property
    def code(self) -> bytes:
        return self.bytes[:END].tobytes()

    def stub(self, begin: int = END) -> list[str]:
        """What a disassembler reads, with addresses from the code's begin on."""
        reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        code = self.bytes[begin : int(self.numbers["free"][0]) - self.at].tobytes()
        return [f"{i.mnemonic} {i.op_str}".strip() for i in reader.disasm(code, begin)]


SIZES = [(0x02, 1), (0x12, 2), (0x22, 4), (0x32, 8), (0xB2, 8)]


def compared(done: Replaced, size: int, line: int, other: str) -> list[str]:
    """What a stub does up to ``other``, where the line at ``line`` is the one to compare with."""
    return [
        f"movabs rax, {int(done.numbers['state'][0]) + line:#x}",
        "mov rdi, rsi",
        "sub rdi, qword ptr [rax]",
        f"cmp rdi, {64 - size:#x}",
        f"ja {other}",
        f"movabs rax, {done.state.data_side + 8 * PAGES:#x}",
        "inc qword ptr [rax]",
        f"inc qword ptr [rax + {8 * (LINES - PAGES):#x}]",
    ]


def pushed(what: int) -> str:
    return f"push {what}" if what < 10 else f"push {what:#x}"


LOAD_BEHIND = LOAD + 3 + 3 + 5 + 4
RECENT_CODE = 8 * ACCESS_STUB
"""Where ``recent`` would begin: nothing is there."""


@pytest.mark.parametrize(("what", "size"), SIZES)
def test_a_load_compares_its_line_with_the_one_before(what: int, size: int) -> None:
    done = Replaced(code_of(False, what))
    assert done.code[LOAD + 6 : LOAD + 11] == b"\xe9" + (END - LOAD - 11).to_bytes(4, "little")
    assert done.stub() == [
        f"jne {LOAD_SLOW:#x}",
        "add rsi, qword ptr [rdi + 0x20]",
        *compared(done, size, State.line.offset, f"{END + 61:#x}"),
        f"jmp {LOAD_BEHIND:#x}",
        pushed(size),
        f"call {END - 8:#x}",
        "lea rsp, [rsp + 8]",
        f"je {LOAD_BEHIND:#x}",
        "mov rsi, rbx",
        f"jmp {LOAD_SLOW:#x}",
    ]


@pytest.mark.parametrize(("what", "size"), SIZES)
@pytest.mark.parametrize("store", [False, True])
def test_of_another_line_it_asks_what_is_recent(store: bool, what: int, size: int) -> None:
    """For one PE with caches the first store to a line is like all others."""
    done = Replaced(code_of(store, what), recent=RECENT_CODE)
    stub, behind = done.stub(), LOAD_BEHIND + store
    at = stub.index(f"jmp {behind:#x}")
    assert stub[2:at] == compared(done, size, State.line.offset, f"{END + 61:#x}")
    n = (1, 2, 4, 8).index(size) + 4 * store
    assert stub[at + 1 : at + 3] == [f"call {RECENT_CODE + n * RECENT:#x}", f"je {behind:#x}"]


IN_RAX, IN_RCX, IN_RDX, IN_RBX, IN_R8, IN_R10 = 0xF0, 0xF1, 0xF2, 0xF3, 0x1F0, 0x1F2
"""The register of ``mov rsi, register``: its last byte, and whether it is one of R8 to R15."""
DATA_IN = {
    IN_RAX: [b"\x48\x8b\xd0", b"\x8b\xd0"],
    IN_RCX: [b"\x48\x8b\xd1", b"\x40\x8b\xd1"],
    IN_RDX: [b""],
    IN_RBX: [b"\x48\x8b\xd3", b"\x8b\xd3"],
    IN_R8: [b"\x49\x8b\xd0", b"\x41\x8b\xd0"],
    IN_R10: [b"\x49\x8b\xd2"],
}


@pytest.mark.parametrize("address", DATA_IN)
@pytest.mark.parametrize("data", [None, *DATA_IN])
def test_where_an_input_lies_in_a_register_that_is_wanted_it_is_kept(
    address: int, data: int | None
) -> None:
    """The address is needed for the slow way, and what is stored behind the stub."""
    wanted = IN_RAX, IN_RCX, IN_RDX
    for move in DATA_IN[data] if data else [b""]:
        code = code_of(data is not None, 0x32, move)
        at = LOAD + (4 if data else 3)
        code[at : at + 3] = bytes([0x48 | address >> 8, 0x8B, address & 0xFF])
        done = Replaced(code, recent=RECENT_CODE)
        stub, behind = done.stub(), LOAD_BEHIND + (data is not None)
        kept = address in wanted or data in wanted
        first = "push rax" if kept else compared(done, 8, State.line.offset, "")[0]
        assert stub[2] == first
        if kept:
            end = stub.index(f"jmp {behind:#x}")
            what = 8 | (0x100 if data else 0)
            call = [pushed(what), f"call {END - 8:#x}", "lea rsp, [rsp + 8]", f"je {behind:#x}"]
            assert stub[3:end] == [
                *compared(done, 8, State.line.offset, f"{END + 63:#x}"),
                "pop rax",
            ]
            assert stub[end + 1 : end + 6] == ["pop rax", *call]


MOVES = [b"", b"\x48\x8b\xd3", b"\x8b\xd3", b"\x49\x8b\xd4", b"\x41\x8b\xd5"]


@pytest.mark.parametrize("move", MOVES)
def test_a_store_that_the_engine_does_not_know_asks_first(move: bytes) -> None:
    done = Replaced(code_of(True, 0x22, move))
    stub, state = done.stub(), int(done.numbers["state"][0])
    unknown = END + 112
    assert stub[0] == f"jne {unknown:#x}"
    assert f"movabs rax, {state + State.line_stored.offset:#x}" in stub
    assert "push 0x104" in stub
    assert done.stub(unknown) == [
        "push 4",
        f"call {END - 4:#x}",
        "lea rsp, [rsp + 8]",
        f"je {END + 6:#x}",
        f"jmp {STORE_SLOW:#x}",
    ]


@pytest.mark.parametrize("store", [False, True])
def test_one_byte_that_differs_leaves_the_access_alone(store: bool) -> None:
    code = code_of(store, 0x32)
    length = 4 if store else 3
    # not the distance of the jump, the number of the register, or what the slow way says of it
    compared = [*range(length + 2), length + 3, *range(length + 8, length + 12)]
    slow = [0, 1, 2, *([3, 6, 11, 12, 13] if store else [3, 8, 9, 10])]
    for at in [*(LOAD + n for n in compared), *(LOAD_SLOW + n for n in slow)]:
        other = bytearray(code)
        other[at] ^= 0x88
        assert Replaced(other).code == bytes(other), hex(at)


def test_an_access_whose_slow_way_is_not_the_block_s_is_left_alone() -> None:
    code = code_of(False, 0x32)
    code[LOAD + 7 : LOAD + 11] = (END + 8).to_bytes(4, "little")
    assert Replaced(code).code == bytes(code)


def test_lines_shorter_than_an_access_are_looked_at_by_the_hook() -> None:
    code = code_of(False, 0x32)
    assert Replaced(code, line=4).code == bytes(code)
    assert Replaced(code, line=8).code != bytes(code)


def test_without_room_for_a_stub_nothing_is_replaced() -> None:
    code = code_of(False, 0x32)
    assert Replaced(code, room=ACCESS_STUB - 1).code == bytes(code)


@pytest.mark.parametrize(("what", "size"), SIZES)
def test_a_load_that_may_be_noticed_takes_the_slow_way(what: int, size: int) -> None:
    checked = CheckedState(here=0x1234_5000, notices=1)
    stub = Replaced(code_of(False, what), checked=checked).stub(END + ASKED)
    noticed = 0x1234_5000 + CheckedState.noticed.offset
    assert stub[2:11] == [
        f"jne {LOAD_SLOW:#x}",
        "add rsi, qword ptr [rdi + 0x20]",
        "mov rdi, rsi",
        "push rax",
        f"movabs rax, {noticed:#x}",
        "sub rdi, qword ptr [rax]",
        "cmp rdi, qword ptr [rax + 8]",
        "pop rax",
        f"jb {END + ASKED:#x}",
    ]
    # a store is not asked
    stored = Replaced(code_of(True, what), checked=checked).stub(END + ASKED)
    assert not any(line.startswith("jb ") for line in stored)


@pytest.mark.parametrize("store", [False, True])
def test_the_largest_stub_has_room(store: bool) -> None:
    """All is looked for, of eight bytes: the stub looks at shadows, and then compares its line."""
    checked = CheckedState(
        looks=UNWRITTEN | HEAP, pages=1 << 40, lines=1 << 41, size=LARGEST_RAM, notices=1
    )
    done = Replaced(code_of(store, 0x32), checked=checked)
    assert 0 < int(done.numbers["free"][0]) - done.at - END <= ACCESS_STUB
    asked = 34
    stub = done.stub(END + asked)
    assert stub[:2] == ["mov rsi, rbx", f"jmp {STORE_SLOW if store else LOAD_SLOW:#x}"]
    assert [line for line in stub if line.startswith("call")] == [
        *([f"call {END - 4:#x}"] if store else []),
        f"call {END - 8:#x}",
    ]
    assert stub[-2:] == [f"je {LOAD + (19 if store else 18) - 3:#x}", f"jmp {END + asked:#x}"]


# Whole programs

PROGRAMS: list[tuple[str, str, int, int | None]] = [
    *((name, "generic", 1, None) for name in ("spe_copy", "spe_full", "spe_el0", "exceptions")),
    *((name, "generic", 1, None) for name in ("priv_el1", "spe_model", "pmu_levels")),
    *((f"bench_{name}", "generic", 1, 997) for name in ("sort", "store", "hash", "list", "crc")),
    ("spe_sve", "neoverse-v2", 1, None),
    ("spe_copy", "neoverse-v2", 1, None),
    ("bench_interp", "neoverse-n1", 1, 509),
    ("spe_smp", "generic", 2, None),
    ("spe_coherence", "generic", 4, None),
    ("spe_coherence", "neoverse-n1", 4, None),
]


def inline(monkeypatch: pytest.MonkeyPatch, on: bool) -> None:
    gc.collect()  # engines of other tests leave no memory near this one's code
    monkeypatch.setenv(known.OPTION, "1" if on else "0")


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "core", "smp", "period"), PROGRAMS)
def test_nobody_sees_a_difference(
    name: str, core: str, smp: int, period: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Result] = []
    for on in (False, True):
        inline(monkeypatch, on)
        machine = Machine(name, core=core, model="cache", smp=smp, period=period, together=True)
        seen.append(machine.run(600_000))
        all_counted = [pe.cpu.hooks.counted_inline for pe in machine.board.pes]
        assert {counted.on for counted in all_counted} == {on}
        assert any(counted.blocks for counted in all_counted) is on
        assert not any(counted.refused for counted in all_counted)
    assert seen[0].differences(seen[1]) == {}


def loop(body: list[int], times: int) -> list[int]:
    return [*a.mov64(9, times), *body, a.subs_imm(9, 9, 1), a.b_cond(a.NE, -4 * len(body) - 4)]


CODE, DATA, OTHER = 0x4000_0000, 0x4010_0000, 0x4020_0000


def run(
    words: list[int],
    monkeypatch: pytest.MonkeyPatch,
    operations: int,
    beside: dict[int, bytes] | None = None,
) -> Machine:
    """Run a program with and without accesses that compare: the machine that has them.

    ``beside`` the program there is other memory, by address.
    """
    segments = {CODE: a.code([*words, a.b(0)]), **(beside or {})}
    results = []
    for on in (False, True):
        inline(monkeypatch, on)
        ram = RAM if beside is None else 16 << 20
        machine = Machine(image_of(segments, CODE), model="cache", ram=ram)
        machine.board.run(64)  # then there is memory for stubs
        results.append(machine.run(operations))
    assert results[0].differences(results[1]) == {}
    return machine


def happened(machine: Machine) -> list[int]:
    """The model's counts: pages and lines that were looked at, lines that were not there."""
    data = machine.board.models[0].data
    return [int(data.words[n]) for n in (PAGES, LINES, LINES + 1)]


def test_an_access_to_the_same_line_is_counted_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    body = [a.ldr(1, 0), a.ldr(1, 0, 0x38), a.str_(1, 0, 0x20), a.ldr(2, 0, 0x3F, size=0)]
    machine = run([*a.mov64(0, DATA), *loop(body, 200)], monkeypatch, 4000)
    assert happened(machine) == [800, 800, 1]


def test_pairs_and_vectors_are_two_accesses_each(monkeypatch: pytest.MonkeyPatch) -> None:
    body = [a.pair(True, 1, 2, 0, 0x38), a.ldr_q(1, 0, 0x40), a.str_q(1, 0, 0x80)]
    enable = [*a.mov64(3, 0b11 << 20), a.msr((3, 0, 1, 0, 2), 3), a.ISB]
    machine = run([*enable, *a.mov64(0, DATA), *loop(body, 100)], monkeypatch, 4000)
    assert happened(machine) == [600, 600, 3]


def test_stores_to_two_pages_go_on_being_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    body = [a.str_(9, 0), a.str_(9, 1), a.ldr(2, 0), a.str_(9, 0, 8)]
    program = [*a.mov64(0, DATA), *a.mov64(1, OTHER), *loop(body, 300)]
    machine = run(program, monkeypatch, 4000)
    assert happened(machine) == [1200, 1200, 2]
    assert machine.board.memory.read(OTHER, 8) == (1).to_bytes(8, "little")


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize("pages", [2, 3, 4, 5, 8])
def test_accesses_to_several_pages_by_turns_keep_their_order(
    pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = [word for n in range(pages) for word in a.mov64(n, DATA + 0x1040 * n)]
    body = [op for n in range(pages) for op in (a.ldr(20, n), a.str_(20, n, 8))]
    machine = run([*begin, *loop(body, 100)], monkeypatch, 4000)
    assert happened(machine) == [200 * pages, 200 * pages, pages]


def test_unaligned_accesses_by_turns_touch_both_of_their_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = [*a.mov64(0, DATA + 0x3C), *a.mov64(1, OTHER + 0xFFC)]
    machine = run([*begin, *loop([a.ldr(2, 0), a.str_(2, 1)], 100)], monkeypatch, 4000)
    assert happened(machine) == [300, 400, 4]


@entry("void", "pointer", "int64", "int64", "pointer", "int64")
def tells_nothing(engine: Any, address: Any, size: Any, user: Any, back: Any) -> None:
    """A hook for blocks in place of the core model's."""


def test_blocks_that_run_often_tell_of_their_branches_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = [a.ldr(1, 0), a.b(8), a.NOP, a.bl(8), a.b(8), a.RET, a.ldr(1, 0)]
    inline(monkeypatch, True)
    program = a.code([*a.mov64(0, DATA), *loop(body, 10_000), a.b(0)])
    machine = Machine(image_of({CODE: program}, CODE), model="cache", ram=RAM)
    predictor = machine.board.models[0].predictor
    for _ in range(2):
        machine.board.run(8_000)
    resolved = predictor.resolved
    machine.board.cpu.hooks.state.model_hook = tells_nothing.address
    machine.board.run(8_000)
    # five branches of eight operations, but the block where the run began is translated anew
    assert predictor.resolved - resolved > 3_900


def test_dc_zva_is_seen_where_stores_have_become_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine zeroes by itself what its TLB lets it store to at once."""
    program = [*a.mov64(0, DATA), *loop([a.str_(9, 0), a.str_(9, 0, 0x40)], 20)]
    program += loop([a.str_(9, 0, 0x80), a.dc_zva(0), a.str_(9, 0, 0x80)], 20)
    run(program, monkeypatch, 400)


IC_IVAU = [a.DSB_SY, a.sys(3, 7, 5, 1, 0), a.DSB_SY, a.ISB]


def returning(value: int) -> list[int]:
    """Store a function that gives a number in X2 at [X0]: two instructions at once."""
    return [*a.mov64(1, a.RET << 32 | a.movz(2, value)), a.str_(1, 0)]


@pytest.mark.parametrize("maintained", [False, True])
def test_code_where_data_was_is_executed_as_it_was_written_last(
    maintained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = IC_IVAU if maintained else []
    call = [a.blr(0), a.add(3, 3, 2)]
    program = [*a.mov64(0, OTHER), *loop([a.str_(9, 0, 0x80), a.ldr(4, 0, 0x80)], 50)]
    for value in (1, 20, 300):
        program += [*returning(value), *after, *loop(call, 5)]
        program += loop([a.str_(9, 0, 0x80)], 10)
    machine = run(program, monkeypatch, 3000)
    assert machine.board.cpu.engine.general()[3] == 5 * 321


@pytest.mark.parametrize("translated", [False, True])
def test_code_is_stored_to_by_another_address_than_it_has(
    translated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pages are the same memory, and may both be executed; or there is no translation."""
    rows = {n: stale_tables.page(0, executed=True) for n in (0, 2)}
    beside = stale_tables.tables(rows) if translated else None
    data, code = stale_tables.PAGES, stale_tables.PAGES + 2 * stale_tables.PAGE
    if not translated:
        data = code = OTHER
    program = stale_tables.mapped() if translated else []
    program += [*a.mov64(0, data), *a.mov64(8, code)]
    program += loop([a.str_(9, 0, 0x80), a.ldr(4, 0, 0x80)], 50)
    program += returning(1)
    # the next time it is the next number
    stores = [*[a.str_(9, 0, 0x80)] * 3, a.str_(1, 0)]  # the first two of them may be slow
    program += loop([*stores, a.ISB, a.blr(8), a.add(3, 3, 2), a.add_imm(1, 1, 1 << 5)], 30)
    machine = run(program, monkeypatch, 3000, beside)
    assert machine.board.cpu.engine.general()[3] == sum(range(1, 31))
    assert machine.board.cpu.hooks.counted_inline.blocks


def test_code_is_seen_to_change_where_no_access_looks_by_itself_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stores to the page were fast before that."""
    inline(monkeypatch, True)
    program = [*a.mov64(0, OTHER), *loop([a.str_(9, 0, 0x80), a.str_(9, 0, 0x88)], 100)]
    program += returning(1)
    program += loop([a.str_(1, 0), a.ISB, a.blr(0), a.add(3, 3, 2), a.add_imm(1, 1, 1 << 5)], 30)
    image = image_of({CODE: a.code([*program, a.b(0)])}, CODE)
    machine = Machine(image, model="cache", ram=RAM)
    for _ in range(2):
        machine.board.run(150)
    layer = machine.board.cpu.hooks.inline
    assert layer is not None
    layer.stop("a test")
    machine.board.run(2_000)
    assert machine.board.cpu.engine.general()[3] == sum(range(1, 31))


def test_stores_to_pages_that_may_be_executed_become_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without translation all pages may be: there the engine takes its slow way each time."""
    inline(monkeypatch, True)
    program = [*a.mov64(0, DATA), *loop([a.str_(9, 0), a.str_(9, 0, 8)], 2_000)]
    machine = Machine(image_of({CODE: a.code([*program, a.b(0)])}, CODE), model="cache", ram=RAM)
    for _ in range(2):
        machine.board.run(1_000)
    slow: list[int] = []
    uc = machine.board.cpu.engine.uc
    uc.hook_add(unicorn_const.UC_HOOK_MEM_WRITE, lambda *arguments: slow.append(arguments[2]))
    before = happened(machine)[0]
    machine.board.run(4_000)
    assert happened(machine)[0] - before == 2_000
    assert len(slow) < 20  # the block where the run began, until it has a stub


def test_code_whose_stores_are_to_itself_is_executed_as_it_was_written_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop changes the number that its own next instruction adds."""
    begin = [*a.mov64(0, CODE), *a.mov64(9, 40), *a.mov64(5, 0)]
    place = 4 * (len(begin) + 3)
    body = [a.add_imm(5, 5, 1), *a.mov64(6, a.add_imm(7, 7, 2))[:1], a.str_(6, 0, place, size=2)]
    program = [*begin, *body, a.add_imm(7, 7, 1), a.subs_imm(9, 9, 1), a.b_cond(a.NE, -20)]
    run(program, monkeypatch, 400)


def test_switched_off_and_on_in_the_middle_nobody_sees_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = []
    for on in (False, True):
        inline(monkeypatch, on)
        machine = Machine("bench_sort", model="cache", together=True)
        layer = machine.board.cpu.hooks.inline
        for part in range(6):
            machine.board.run(50_000)
            if layer is not None:
                layer.stop("a test") if part % 2 else layer.resume("a test")
        results.append(machine.run(50_000))
    assert results[0].differences(results[1]) == {}


def test_who_hooks_accesses_sees_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    inline(monkeypatch, True)
    body = [a.ldr(1, 0), a.ldr(1, 0, 8)]
    program = a.code([*a.mov64(0, DATA), *loop(body, 100), a.b(0)])
    machine = Machine(image_of({CODE: program}, CODE), model="cache", ram=RAM)
    hooks = machine.board.cpu.hooks
    machine.board.run(100)
    seen: list[int] = []
    hooks.engine.uc.hook_add(16 << 6, lambda *arguments: seen.append(arguments[2]))
    hooks.hook_accesses(wanted=True)
    before = happened(machine)[0]
    machine.board.run(101)
    assert len(seen) == happened(machine)[0] - before > 40
    assert hooks.counted_inline.why_not == "somebody is told of accesses"
    hooks.hook_accesses(wanted=False)
    assert hooks.counted_inline.on
