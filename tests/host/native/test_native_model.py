"""What the model's hooks see: each access and each branch once, however it came to run."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from spe_unicorn.arch.operation import Mark
from spe_unicorn.arch.registers import system
from spe_unicorn.compiled import entry
from spe_unicorn.cores.cache_model import CacheModel
from spe_unicorn.cores.caches import LINES, PAGES
from spe_unicorn.cores.coherence import MODIFIED
from spe_unicorn.cores.predictor import Branch
from spe_unicorn.decode import decode
from spe_unicorn.host.accelerators import OPTION
from spe_unicorn.host.native.model import branch_of
from spe_unicorn.host.native.state.stops import Stop
from spe_unicorn.host.pe.checks.operations import FailedCheck
from spe_unicorn.host.run.host_operations import HostOperations
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.spe.record import PlacedRecord, Record, read_record
from tests.support import a64 as a
from tests.support.branch_kinds import branch_kind
from tests.support.machine_runs import Machine, image_of
from tests.support.random_programs import RAM
from tests.support.small_boards import RAM as RAM_BASE
from tests.support.small_boards import board_at

CODE = 0x4000_0000
DATA = 0x4010_0000
HIT, REFILL, WALK = 0b1_0110, 0b1_1110, 0b11_1110
"""Events: retired, L1D access, TLB access; and a refill; and a walk."""
MISPREDICTED = 1 << 7
EVENTS = 0xFE
"""Those of the retired operation, of L1D, TLB and branches."""

both_runners = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


def sample_all(
    words: list[int], members: int, runner: type[Runner], core: str = "max"
) -> list[Record]:
    """The records of the first members of a program that begins with X0 = DATA."""
    code = a.code([*a.mov64(0, DATA), *words])
    image = image_of({CODE: code}, CODE)
    machine = Machine(image, runner=runner, period=1, core=core, model="cache", ram=RAM)
    before = len(a.mov64(0, DATA))
    machine.run(before + members)
    placed = [read_record(s.record, 0) for s in machine.sampled[before : before + members]]
    return [p.record for p in placed if isinstance(p, PlacedRecord)]


def events(words: list[int], operations: int, runner: type[Runner]) -> list[int]:
    """The events of each operation of a program that begins with X0 = DATA."""
    return [record.events & EVENTS for record in sample_all(words, operations, runner)]


@both_runners
def test_pieces_of_a_pair_are_one_operation_s(runner: type[Runner]) -> None:
    program = [
        a.ldr(1, 0),
        a.pair(True, 2, 3, 0, 0x38),  # the second word lies in the next line
        a.pair(True, 2, 3, 0, 0x38),
        a.ldr(1, 0, 0x40),
    ]
    assert events(program, 4, runner) == [WALK, REFILL, HIT, HIT]


@both_runners
def test_micro_operations_of_a_pair_tell_of_their_own_halves(runner: type[Runner]) -> None:
    core = "neoverse-n1"
    records = sample_all([a.ldr(1, 0, 0x40), a.pair(True, 2, 3, 0, 0x38)], 3, runner, core)
    assert [r.data_source for r in records] == [0xE, 0xE, 0x0]


@both_runners
def test_dc_zva_is_one_store_of_its_block(runner: type[Runner]) -> None:
    records = sample_all([a.ldr(1, 0), a.add_imm(2, 0, 0x48), a.dc_zva(2)], 3, runner)
    assert [r.events & EVENTS for r in records] == [WALK, 2, REFILL]
    assert [r.data_source for r in records] == [0xE, None, None]


@both_runners
@pytest.mark.parametrize("way", ["", "none"], ids=["at once", "by the engine"])
def test_dc_zva_is_one_access_to_one_line(
    way: str, runner: type[Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are the stores of bytes around it, also to what it has zeroed."""
    monkeypatch.setenv(OPTION, way)
    stores = [a.str_(9, 0, place, size=0) for place in (0, 63, 64, 63)]
    words = [stores[0], a.dc_zva(0), *stores[1:]]
    image = image_of({CODE: a.code([*a.mov64(0, DATA), *words])}, CODE)
    machine = Machine(image, runner=runner, model="cache", ram=RAM)
    machine.run(len(a.mov64(0, DATA)) + len(words))
    model = machine.board.models[0]
    assert isinstance(model, CacheModel)
    assert (int(model.data.words[LINES]), int(model.data.words[PAGES])) == (5, 5)


@both_runners
def test_an_atomic_reads_and_writes_one_line(runner: type[Runner]) -> None:
    records = sample_all([a.ldadd(1, 2, 0), a.ldadd(1, 2, 0)], 2, runner)
    assert [(r.events & EVENTS, r.data_source) for r in records] == [(WALK, 0xE), (HIT, 0x0)]


@both_runners
def test_an_operation_without_accesses_tells_of_none_before_it(runner: type[Runner]) -> None:
    assert events([a.ldr(1, 0), a.NOP, a.add(1, 1, 1)], 3, runner) == [WALK, 2, 2]


@both_runners
def test_tlbi_of_all_entries_has_the_next_access_walk(runner: type[Runner]) -> None:
    tlbi_vmalle1, tlbi_vaae1 = a.sys(0, 8, 7, 0), a.sys(0, 8, 7, 3, 0)
    program = [a.ldr(1, 0), tlbi_vaae1, a.ldr(1, 0), tlbi_vmalle1, a.ldr(1, 0), a.ldr(1, 0)]
    # a walk without a refill: the line is still there
    assert events(program, 6, runner) == [WALK, 2, HIT, 2, HIT | WALK & ~REFILL, HIT]


@both_runners
def test_a_loop_is_mispredicted_until_each_history_of_it_is_known(runner: type[Runner]) -> None:
    program = [a.movz(1, 4), a.subs_imm(1, 1, 1), a.b_cond(a.NE, -4), a.NOP]
    found = events(program, 10, runner)
    # the directions so far are none, T, TT and TTT: a counter each, which starts with not taken
    branches = found[2:9:2]
    taken = 2 | MISPREDICTED
    assert branches == [taken, taken, taken, 2 | 1 << 6]


LDR, STR, LDXR, STXR = a.ldr(1, 0), a.str_(1, 0), a.ldxr(1, 0), a.stxr(2, 3, 0)


@both_runners
@pytest.mark.parametrize(
    ("words", "modified"),
    [
        ([LDR], [False]),
        ([STR], [True]),
        ([a.ldadd(1, 2, 0)], [True]),
        ([a.movz(1, 5), a.cas(1, 2, 0)], [True]),  # which finds 0 and stores nothing
        ([LDXR, STXR, STXR], [True]),
        ([LDXR], [False]),
        ([STXR], []),
        ([a.dc_zva(0)], [True]),
    ],
)
def test_stores_have_their_line_modified_where_there_are_other_pes(
    words: list[int], modified: list[bool], runner: type[Runner]
) -> None:
    image = image_of({CODE: a.code([*a.mov64(0, DATA), *words])}, CODE)
    machine = Machine(image, runner=runner, model="cache", smp=2, ram=RAM)
    machine.run(len(a.mov64(0, DATA)) + len(words))
    model = machine.board.models[0]
    assert isinstance(model, CacheModel)
    held = [int(word) for word in model.data.words if word > 0 and word & MODIFIED - 1 == DATA >> 6]
    assert [bool(word & MODIFIED) for word in held[:1]] == modified


class PlainPredictor:
    """The predictor of core ``max`` as the documentation tells it: dictionaries and a list."""

    def __init__(self) -> None:
        self.counters: dict[int, int] = {}
        self.history = 0
        self.targets: dict[int, tuple[int, int]] = {}
        self.returns: list[int] = []

    def mispredicts(self, word: int, pc: int, went: int) -> bool:
        """Whether the branch that went there was expected elsewhere."""
        instruction = decode(word)
        expected = pc + 4
        if instruction.procedure_return:
            expected = self.returns.pop() if self.returns else pc + 4
        elif instruction.indirect:
            branch, target = self.targets.get(pc // 4 % 1024, (0, 0))
            expected = target if branch == pc else pc + 4
            self.targets[pc // 4 % 1024] = pc, went
        elif instruction.conditional:
            index = (pc // 4 ^ self.history) % 4096
            state = self.counters.get(index, 1)
            taken = went != pc + 4
            expected = pc + (instruction.target_offset or 0) if state > 1 else pc + 4
            self.counters[index] = min(state + 1, 3) if taken else max(state - 1, 0)
            self.history = (self.history * 2 + taken) % 1024
        else:
            expected = pc + (instruction.target_offset or 0)
        if instruction.link:
            self.returns = [*self.returns[-15:], pc + 4]
        return expected != went


BRANCHES = [
    *a.mov64(1, 150),
    *a.mov64(2, 0x5851_F42D_4C95_7F2D),
    a.mul(3, 3, 2),  # chance
    a.add_imm(3, 3, 1),
    a.tbz(3, 33, 8),
    a.NOP,
    a.and_low_bits(4, 3, 35, 1),
    a.lsr_imm(4, 4, 32),  # 0 or 8
    a.adr(5, 12),
    a.add(5, 5, 4),
    a.br(5),
    a.b(12),
    a.NOP,
    a.b(4),
    a.bl(20),
    a.subs_imm(1, 1, 1),
    a.b_cond(a.NE, -56),
    a.movz(1, 150),
    a.b(-64),
    a.cbz(4, 8),
    a.ret(),
    a.ret(),
]
"""A loop with branches of every kind, some of them by chance."""


@both_runners
def test_branches_are_mispredicted_where_a_plain_predictor_says_so(runner: type[Runner]) -> None:
    operations = 2500
    records = sample_all(BRANCHES, operations, runner)
    words = [*a.mov64(0, DATA), *BRANCHES]
    plain = PlainPredictor()
    expected, found = [], []
    for record, following in pairwise(records):
        assert record.pc is not None
        assert following.pc is not None
        pc = record.pc.VA
        word = words[(pc - CODE) // 4]
        if branch_kind(decode(word)) is not Branch.NONE:
            expected.append(plain.mispredicts(word, pc, following.pc.VA))
            found.append(bool(record.events & MISPREDICTED))
    assert found == expected
    assert 100 < sum(found) < len(found) // 2


GROUPS = (
    *((group << 26, 0x03FF_FFFF) for group in (0b000101, 0b100101)),  # B, BL
    (0x5400_0000, 0x00FF_FFFF),  # B.cond, BC.cond
    *((group << 25, 0x81FF_FFFF) for group in (0b011010, 0b011011)),  # CBZ, CBNZ; TBZ, TBNZ
    *((0xD61F_0000 | kind << 21, 0x0100_0FFF) for kind in range(8)),  # BR, BLR, RET, ERET, ...
    (0, 0xFFFF_FFFF),
)
"""Fixed bits and free bits of what can be a branch, and all words there are."""
COMPARE_AND_BRANCH = 0x7400_0000
"""CB<cc>, which the decoder knows and the engine does not."""


@entry("int64", "int64")
def compiled_branch_of(word: Any) -> Any:
    kind, distance = branch_of(word)
    return distance << 8 | kind


@pytest.mark.parametrize("group", GROUPS, ids=[f"{fixed:#010x}" for fixed, _ in GROUPS])
def test_compiled_code_knows_the_branches_of_the_decoder(group: tuple[int, int]) -> None:
    fixed, free = group
    random = Random(fixed)
    for _ in range(2000):
        word = fixed | random.getrandbits(32) & free
        instruction = decode(word)
        kind, distance = branch_of(word)
        assert compiled_branch_of(word) == (distance << 8 | kind)
        expected = branch_kind(instruction)
        if instruction.mark is Mark.UNALLOCATED or word & 0x7E00_0000 == COMPARE_AND_BRANCH:
            assert Branch.NONE in (kind, expected)
        else:
            assert kind == expected, f"{word:#010x}"
            if instruction.target_offset is not None:
                assert distance == instruction.target_offset, f"{word:#010x}"


@pytest.mark.accelerated
def test_exceptions_stay_within_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 SVCs, each with a branch before it, Python carries out a few at most."""
    done: list[Stop] = []
    plain = HostOperations.execute

    def noted(self: HostOperations, stop: Stop, fault: FailedCheck | None = None) -> None:
        done.append(stop)
        plain(self, stop, fault)

    monkeypatch.setattr(HostOperations, "execute", noted)
    vectors = RAM_BASE + 0x2000
    loop = [a.b_cond(a.NE, 4), a.svc(0), a.subs_imm(19, 19, 1), a.b_cond(a.NE, -12)]
    start = [*a.mov64(0, vectors), a.msr(astuple(system.VBAR_EL1.encoding), 0)]
    start += a.mov64(19, 200)
    subject = board_at([*start, *loop, a.b(0)], el=1, core="neoverse-n1", model="cache")
    subject.memory.fill(vectors + 0x200, a.code([a.add_imm(20, 20, 1), a.ERET]))
    subject.run(len(start) + 200 * (len(loop) + 2))
    assert subject.cpu.engine.x(20) == 200
    assert len(done) < 10
