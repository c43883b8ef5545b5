"""Instructions of FEAT_SVE2p1 beside memory in guests: who has them, traps, counting, samples."""

from __future__ import annotations

from random import Random

import pytest

from spe_unicorn.arch.exceptions.syndromes import EC
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.id import ID_AA64ZFR0_EL1
from spe_unicorn.cores.profile import CoreError, load_core
from spe_unicorn.host.pe.vectors import predicate, set_predicate, vector
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.spe.packets import OperationClass
from spe_unicorn.spe.record import PlacedRecord, read_record
from tests.host.guests import put
from tests.instructions.harness import Case, here, random_state
from tests.instructions.sve2p1.model import PAGES, Registers
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.small_boards import RAM, board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
CORE = "max"
PAGE = {page.name: page for page in PAGES}
FPEN, ZEN = 0b11 << 20, 0b11 << 16
N, Z, C, V = 8, 4, 2, 1
UNDEFINED = 1 << 25
ZCR_EL1 = (3, 0, 1, 2, 0)


def setting(length: int, enabled: int = FPEN | ZEN) -> list[int]:
    """Vectors of so many bits at EL1, and vectors of exceptions 0x800 behind the start of RAM."""
    return [
        *(*put(system.VBAR_EL1, RAM + 0x800), *put(system.CPACR_EL1, FPEN | ZEN), a.ISB),
        *(*a.mov64(0, length // 128 - 1), a.msr(ZCR_EL1, 0)),
        *(*put(system.CPACR_EL1, enabled), a.ISB),
    ]


def ran(words: list[int], core: str, runner: type[Runner], length: int = 256,
        enabled: int = FPEN | ZEN) -> Board:  # fmt: skip
    """A board that has executed these words at EL1."""
    code = [*setting(length, enabled), *words]
    board = board_at([*code, a.b(0)], el=1, core=load_core(core), runner=runner)
    board.run(len(code))
    return board


@RUNNERS
@pytest.mark.parametrize("size", [16, 32, 256])
def test_a_guest_sees_what_the_model_does(size: int, runner: type[Runner]) -> None:
    random = Random(size)
    cases: list[Case] = []
    expected = []
    for page in PAGES:
        state, fields = random_state(random, size), page.random_fields(random)
        registers = Registers(state, size)
        page.operation(registers, fields)
        cases.append((page.word(fields), state))
        expected.append(registers.result())
    assert here(cases, size, CORE, runner) == expected


@RUNNERS
def test_counts_of_a_counter(runner: type[Runner]) -> None:
    """With vectors of 256 bits two have 16 words, four 32. XZR stays what it is, and so does SP."""
    counters = (
        (0x8004, 16, 32),  # all words
        (0x0000, 0, 0),
        (0x8000, 0, 0),
        (5 << 3 | 4, 5, 5),  # five words
        (0x8000 | 20 << 3 | 4, 0, 12),  # all but 20
        (5 << 4 | 8, 5, 5),  # five doublewords: a word is active by the bit of its lowest byte
        (0x8000 | 6 << 1 | 1, 14, 30),  # bytes from the seventh on, of which each fourth counts
    )
    for counter, two, four in counters:
        cntp = PAGE["CNTP, counter"]
        fields = {"size": 2, "PNn": 9}
        words = [
            *(cntp.word({**fields, "Rd": 1}), cntp.word({**fields, "vl": 1, "Rd": 2})),
            cntp.word({**fields, "Rd": 31}),
        ]
        board = ran([a.add_imm(3, 31, 0)], CORE, runner)
        cpu = board.cpu
        set_predicate(cpu, 9, 0xFFFF_0000 | counter, 32)
        board.memory.fill(cpu.pc, a.code([*words, a.add_imm(4, 31, 0)]))
        cpu.engine.forget_all_code()
        board.run(len(words) + 1)
        x = cpu.engine.x
        assert (x(1), x(2), x(4) - x(3)) == (two, four, 0)


@RUNNERS
@pytest.mark.parametrize(
    ("name", "operation", "first", "second", "flags"),
    [
        ("LT", {"lt": 1}, 0, 0, C | Z),
        ("LT", {"lt": 1}, 0, 4, N | C),
        ("LT", {"lt": 1}, 0, 16, N),
        ("LE", {"lt": 1, "eq": 1}, 0, 15, N),
        ("LO", {"U": 1, "lt": 1}, 1, (1 << 64) - 1, N),
        ("LS", {"U": 1, "lt": 1, "eq": 1}, 1, 0, C | Z),
        ("GE", {}, 3, 4, C | Z),
        ("GT", {"eq": 1}, 4, 0, 0),
        ("HS", {"U": 1}, 15, 0, N),
        ("HI", {"U": 1, "eq": 1}, 15, 0, 0),
    ],
)
@pytest.mark.parametrize("page", ["WHILE, pair", "WHILE, counter"])
def test_flags_of_while(
    page: str, name: str, operation: dict[str, int], first: int, second: int, flags: int,
    runner: type[Runner],
) -> None:  # fmt: skip
    """Of 16 words. First (N) and last (not C) are of the lowest and the highest element."""
    code = [*a.mov64(1, first), *a.mov64(2, second)]
    code += [PAGE[page].word({"size": 2, "Rn": 1, "Rm": 2, **operation}), a.mrs(5, (3, 3, 4, 2, 0))]
    board = ran(code, CORE, runner)
    assert board.cpu.engine.x(5) >> 28 == flags


@RUNNERS
def test_all_elements_are_counted_as_none_that_is_not(runner: type[Runner]) -> None:
    """EncodePredCount(): PTRUE PN8.H, and WHILELO PN9.B with as many as there are. No flags."""
    code = [
        *(PAGE["PTRUE, counter"].word({"size": 1}), a.mrs(5, (3, 3, 4, 2, 0)), *a.mov64(2, 64)),
        PAGE["WHILE, counter"].word({"U": 1, "lt": 1, "Rn": 31, "Rm": 2, "PNd": 1}),
    ]
    board = ran(code, CORE, runner)
    assert [predicate(board.cpu, n) & 0xFFFF_FFFF for n in (8, 9)] == [0x8002, 0x8001]
    assert board.cpu.engine.x(5) >> 28 == board.cpu.engine.x(6) >> 28


WORDS = [(page.name, page.word(page.least)) for page in PAGES]


@RUNNERS
@pytest.mark.parametrize("core", ["max,FEAT_SVE2p1=off", "neoverse-v2", "cortex-x4", "neoverse-v1"])
def test_cores_without_the_feature(core: str, runner: type[Runner]) -> None:
    for name, word in WORDS[:: 1 if core.startswith("max") else 9]:
        board = ran([word], core, runner)
        registers = board.cpu.registers
        assert (board.cpu.pc, registers.raw(system.ESR_EL1)) == (RAM + 0xA00, UNDEFINED), name
        assert registers.read(ID_AA64ZFR0_EL1).SVEver == (core != "neoverse-v1")


@RUNNERS
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("PSEL", {}),
        ("DUPQ", {}),
        ("FCLAMP", {}),
        ("FADDQV", {}),
        ("FMINQV", {}),
    ],
)
def test_sizes_that_there_are_not(name: str, fields: dict[str, int], runner: type[Runner]) -> None:
    """Elements of 8 bits of floating point, which FEAT_SVE_B16B16 uses, and of none."""
    board = ran([PAGE[name].word(fields)], CORE, runner)
    assert board.cpu.registers.raw(system.ESR_EL1) == UNDEFINED


@RUNNERS
@pytest.mark.parametrize(
    ("enabled", "trap"), [(FPEN, EC.SVEAccessTrap), (ZEN, EC.AdvSIMDFPAccessTrap)]
)
def test_traps_come_before_it(enabled: int, trap: EC, runner: type[Runner]) -> None:
    """The second time it is compiled code that asks."""
    for name, word in WORDS[::9]:
        for words in ([word], [PAGE["PTRUE, counter"].word({}), *put(system.CPACR_EL1, enabled),
                               a.ISB, word]):  # fmt: skip
            board = ran(words, CORE, runner, enabled=enabled if len(words) == 1 else FPEN | ZEN)
            assert board.cpu.pc == RAM + 0xA00, name
            assert board.cpu.registers.raw(system.ESR_EL1) >> 26 == trap


CODE = 0x4000_0000
LOOP = (
    PAGE["ADDQV"].word({"size": 2, "Pg": 1, "Zn": 1, "Vd": 2}),
    PAGE["FMAXQV"].word({"size": 2, "Pg": 1, "Zn": 1, "Vd": 3}),
    PAGE["REVD"].word({"Pg": 1, "Zn": 1, "Zd": 4}),
    PAGE["CNTP, counter"].word({"size": 2, "PNn": 8, "Rd": 6}),
    PAGE["PTRUE, counter"].word({"size": 2}),
    PAGE["WHILE, pair"].word({"size": 2, "lt": 1, "Rn": 31, "Rm": 6, "Pd": 2}),
    PAGE["FDOT (vectors)"].word({"Zn": 1, "Zm": 1, "Zda": 5}),
    a.add_imm(5, 5, 1),
)


def looped(**options: object) -> Machine:
    """A loop at EL1 with vectors of 256 bits and all elements of P1."""
    code = [
        *(*put(system.CPACR_EL1, FPEN | ZEN), *a.mov64(0, 1), a.msr(ZCR_EL1, 0), a.ISB),
        *(0x2598_E3E1, 0x04A0_4421, *LOOP, a.b(-4 * len(LOOP))),  # PTRUE P1.S; INDEX Z1.S, X1, #0
    ]
    return Machine(image_of({CODE: a.code(code)}, CODE), **{"core": CORE, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("period", [1, 3, None])
def test_both_runners_come_to_the_same(period: int | None) -> None:
    fast, reference = (looped(period=period, runner=r) for r in (Runner, ReferenceRunner))
    assert fast.run(150).differences(reference.run(150)) == {}
    assert fast.operations == reference.operations
    ours, theirs = ([vector(one.board.cpu, n, 256) for n in range(8)] for one in (fast, reference))
    assert ours == theirs


def test_records_tell_them() -> None:
    """Vectors of 256 bits have EVL 3. PRED is of what merges or zeroes a vector (D18.2)."""
    loop = looped(period=1)
    loop.run(60)
    found = {}
    for operation, raw in zip(loop.operations, loop.sampled, strict=True):
        placed = read_record(raw.record, 0)
        assert isinstance(placed, PlacedRecord)
        found[operation.instruction.word] = placed.record.op_class, placed.record.op_payload
    sve, fp, predicated = 1 << 3 | 3 << 4, 1 << 1, 1 << 2
    payloads = (sve, sve | fp, sve | predicated, *[sve] * 3, sve | fp)
    for word, payload in zip(LOOP[:-1], payloads, strict=True):
        assert found[word] == (OperationClass.OTHER, payload), hex(word)


def test_the_feature_goes_with_sve2() -> None:
    features = load_core("max,FEAT_SVE2=off").features
    assert not any("SVE2p1" in feature.value for feature in features)
    with pytest.raises(CoreError, match="FEAT_SVE2p1 needs FEAT_SVE2"):
        load_core("neoverse-v1,FEAT_SVE2p1=on")
    board = ran([], CORE, Runner)
    assert board.cpu.registers.read(ID_AA64ZFR0_EL1).SVEver == 2
    assert load_core("neoverse-v2,FEAT_SVE2p1=on")
