"""Why there are no samples: each cause by a small driver that makes one mistake."""

from __future__ import annotations

import re

import pytest

from spe_unicorn.arch.pe import EL1, EL2
from spe_unicorn.arch.registers import spe
from spe_unicorn.arch.registers.system import MDCR_EL2 as MDCR
from spe_unicorn.arch.registers.system import VBAR_EL2
from spe_unicorn.debug.advice.no_samples import (
    Sampling,
    SamplingHistory,
    watch_sampling,
    why_few_samples,
    why_no_samples,
)
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.options import MachineOptions
from spe_unicorn.machine.options import Sampling as External
from spe_unicorn.spe.sampler import Statistics
from tests.support import a64 as a
from tests.support.machine_runs import image_of
from tests.support.small_boards import board_at

RAM = 0x4000_0000
CODE = RAM + 0x1_0000
BUFFER = RAM + 0x8_0000
Op = tuple[int, int, int, int, int]
PMSCR_EL1: Op = (3, 0, 9, 9, 0)
PMSICR_EL1: Op = (3, 0, 9, 9, 2)
PMSIRR_EL1: Op = (3, 0, 9, 9, 3)
PMSFCR_EL1: Op = (3, 0, 9, 9, 4)
PMSEVFR_EL1: Op = (3, 0, 9, 9, 5)
PMSLATFR_EL1: Op = (3, 0, 9, 9, 6)
PMBLIMITR_EL1: Op = (3, 0, 9, 10, 0)
PMBPTR_EL1: Op = (3, 0, 9, 10, 1)
PMBSR_EL1: Op = (3, 0, 9, 10, 3)
PMSCR_EL2: Op = (3, 4, 9, 9, 0)
MDCR_EL2: Op = (3, 4, 1, 1, 1)
MIDR_EL1: Op = (3, 0, 0, 0, 0)
WORK = 3 * 600


def write(op: Op, value: int) -> list[int]:
    return [*a.mov64(9, value), a.msr(op, 9)]


STEPS: dict[str, list[int]] = {
    "stop": write(PMSCR_EL1, 0),
    "status": write(PMBSR_EL1, 0),
    "pointer": write(PMBPTR_EL1, BUFFER),
    "limit": write(PMBLIMITR_EL1, BUFFER + 0x1_0000 | 1),
    "interval": write(PMSIRR_EL1, 1 << 8),
    "counter": write(PMSICR_EL1, 0),
    "filter": write(PMSFCR_EL1, 0),
    "fence": [a.ISB],
    "enable": [*write(PMSCR_EL1, 0b10), a.ISB],
}


def driver(loop: list[int] | None = None, **steps: list[int]) -> list[int]:
    """A driver whose steps are those of STEPS, but for some; then 600 times a loop of 3."""
    words = [word for name, step in STEPS.items() for word in steps.get(name, step)]
    body = [a.NOP] if loop is None else loop
    back = -4 * (len(body) + 1)
    work = [*a.mov64(0, 600), *body, a.sub_imm(0, 0, 1), a.cbnz(0, back)]
    stop = [a.msr(PMSCR_EL1, 31), a.ISB, a.PSB_CSYNC, a.msr(PMBLIMITR_EL1, 31)]
    return [*words, *work, *stop, a.b(0)]


def why(words: list[int], el: int = EL1, **options: object) -> str | None:
    board = Board(MachineOptions(ram=1 << 20, **options))  # type: ignore[arg-type]
    (history,) = watch_sampling(board)
    board.load(image_of({CODE: a.code(words)}, CODE))
    if el != EL1:
        board.reset(nonsecure=True)
        board.pes[0].start(el, CODE)
    board.run(len(words) + 10 * WORK)
    return why_no_samples(history.sampling())


def few(words: list[int], **registers: int) -> str | None:
    """Why there are few samples, of a driver that finds registers as they are said."""
    return why_few_samples(history_of(words, **registers).sampling())


def history_of(words: list[int], **registers: int) -> SamplingHistory:
    board = Board(MachineOptions(ram=1 << 20))
    (history,) = watch_sampling(board)
    board.load(image_of({CODE: a.code(words)}, CODE))
    for name, value in registers.items():
        board.cpu.registers.set_raw(getattr(spe, name), value)
    board.run(len(words) + 10 * WORK)
    return history


LONG = [a.NOP] * 10
"""600 times this loop with its counter are 7200 operations: 28 samples of an interval of 256."""


def test_as_many_samples_as_the_interval_promises_are_not_few() -> None:
    assert few(driver(LONG)) is None
    assert few(driver(LONG, interval=write(PMSIRR_EL1, 0x101))) is None  # RND
    assert few(driver(LONG, interval=write(PMSIRR_EL1, 0x2000))) is None  # none is promised


def test_a_first_sample_that_is_far_away_is_told_with_its_distance() -> None:
    text = few(driver(LONG, counter=write(PMSICR_EL1, 6500)))
    assert text is not None
    assert re.fullmatch(
        r"3 of 72\d\d profiled operations were selected, and the interval of PMSIRR_EL1 promises"
        r" about 28: PMSICR_EL1 held 0x1964, the distance to the first sample; write 0 to it before"
        r" profiling is enabled",
        text,
    )
    text = few(driver(LONG, counter=[]), PMSICR_EL1=6500)
    assert text is not None
    assert "28: PMSICR_EL1 was never written, and held 0x1964, the distance" in text


def test_a_stop_that_lasts_is_told_with_its_event() -> None:
    first = {"pointer": write(PMBPTR_EL1, BUFFER + 0x1_0000 - 192)}  # a record, and no second one
    text = few([*driver(LONG, **first)[:-5], a.b(0)])  # without the end, where software stops
    assert text is not None
    assert re.fullmatch(
        r"\d+ operations were profiled, and \d{4,5} have been executed since a management event"
        r" \(full\), operation \d+ stopped profiling: serve PMBIRQ, or look at PMBSR_ELx, and write"
        r" 0 to it",
        text,
    )
    assert few(driver(LONG, **first)) is None  # software has stopped by itself


def test_collisions_make_few_samples_of_many() -> None:
    def told(selected: int, collisions: int) -> str | None:
        counts = Statistics(1000, selected, collisions, written=selected - collisions)
        return why_few_samples(Sampling(counts, touched=True))

    assert told(100, 75) == (
        "75 of 100 selected operations collided with samples in flight: sample less often"
    )
    assert told(100, 74) is None
    assert told(7, 6) is None


def test_what_is_promised_counts_each_interval_for_its_time() -> None:
    def told(promised: int, selected: int) -> bool:
        counts = Statistics(10_000, selected, written=selected)
        return why_few_samples(Sampling(counts, touched=True, promised=promised)) is not None

    assert told(40, 10)
    assert not told(39, 10)
    assert not told(7, 1)
    assert told(8, 1)
    # 7200 operations at 256, then as many at 65536: 28 are promised, not 56
    slow = driver(LONG, interval=write(PMSIRR_EL1, 0x1_0000))
    history = history_of([*driver(LONG)[:-1], *slow])
    assert history.sampling().promised == 28


def test_an_interrupt_that_software_raises_by_the_status_is_no_wish_for_samples() -> None:
    assert why([*write(PMBSR_EL1, 1 << 17), a.msr(PMBSR_EL1, 31), a.b(0)]) is None


def test_a_driver_with_samples_needs_no_reason() -> None:
    assert why(driver()) is None


def test_nor_does_a_guest_that_wants_none() -> None:
    assert (
        why([a.mrs(0, PMBSR_EL1), a.msr(PMSCR_EL1, 31), a.msr(PMBLIMITR_EL1, 31), a.b(0)]) is None
    )


def test_a_level_that_was_not_chosen_is_named() -> None:
    text = why(driver(enable=write(PMSCR_EL1, 1 << 5)))
    assert text is not None
    assert re.fullmatch(
        r"PMSCR_EL1\.E1SPE and E0SPE are 0 since MSR PMSCR_EL1, 0x20 at 0x\w+, operation \d+:"
        r" set the one of the level to profile"
        r" \(the nearest to it was MSR PMSCR_EL1, 0x20 at 0x\w+, operation \d+\)",
        text,
    )


def test_a_buffer_that_is_off_is_named() -> None:
    text = why(driver(limit=write(PMBLIMITR_EL1, BUFFER + 0x1_0000)))
    assert text is not None
    assert text.startswith("PMBLIMITR_EL1.E is 0 since MSR PMBLIMITR_EL1, 0x40090000 at 0x4001001")
    assert "(the nearest to it was MSR PMSCR_EL1, 0x2 at 0x" in text


def test_a_status_that_was_never_cleared_is_named() -> None:
    board = Board(MachineOptions(ram=1 << 20))
    (history,) = watch_sampling(board)
    board.load(image_of({CODE: a.code(driver(status=[]))}, CODE))
    board.cpu.registers.set_raw(spe.PMBSR_EL1, 1 << 17)
    board.unit.reload()
    board.run(10 * WORK)
    text = why_no_samples(history.sampling())
    assert text is not None
    assert text.startswith(
        "PMBSR_EL1.S is 1 since the reset: write 0 to PMBSR_EL1 before profiling is enabled"
        " (the nearest to it was MSR PMSCR_EL1, 0x2 at 0x"
    )


def test_a_status_that_software_set_says_where() -> None:
    text = why(driver(status=write(PMBSR_EL1, 1 << 17)))
    assert text is not None
    assert text.startswith("PMBSR_EL1.S is 1 since MSR PMBSR_EL1, 0x20000 at 0x4001000c, operation")


def test_places_are_named_and_told_when_somebody_asks() -> None:
    board = Board(MachineOptions(ram=1 << 20))
    named: list[int] = []

    def symbolize(address: int) -> str:
        named.append(address)
        return "enable+0x4"

    history = SamplingHistory(board.cpu, board.unit, symbolize=symbolize)
    words = driver(limit=write(PMBLIMITR_EL1, BUFFER + 0x1_0000))
    board.load(image_of({CODE: a.code(words)}, CODE))
    board.run(10 * WORK)
    assert named == []
    text = why_no_samples(history.sampling())
    assert text is not None
    # the obstacle is that of then: software writes 0 to PMBLIMITR_EL1 at its end
    assert text.startswith(f"PMBLIMITR_EL1.E is 0 since MSR PMBLIMITR_EL1, {BUFFER + 0x1_0000:#x}")
    assert len(named) == 2
    assert all(words[(pc - CODE) // 4] >> 20 == 0xD51 for pc in named)  # MSR


def test_an_event_that_came_before_the_first_record_is_told_by_its_kind() -> None:
    text = why(driver(pointer=write(PMBPTR_EL1, BUFFER + 0xFFF0)))
    assert text is not None
    assert text.endswith(
        "records were lost (management events: full 1): look at PMBPTR_EL1 and PMBLIMITR_EL1"
    )


def test_an_owner_that_is_not_the_one_who_enables_is_named() -> None:
    stop = [*write(PMSCR_EL2, 0), *STEPS["stop"], *write(MDCR_EL2, 0b11 << 12)]
    text = why(driver(stop=stop, enable=[*write(PMSCR_EL2, 0b10), a.ISB]), EL2)
    assert text is not None
    assert "PMSCR_EL2.E2SPE means nothing while EL1 owns the buffer" in text


def test_a_level_at_which_nothing_ran_is_named() -> None:
    text = why(driver(enable=[*write(PMSCR_EL1, 0b01), a.ISB]))
    assert text is not None
    assert text.startswith("profiling was enabled at EL0 by MSR PMSCR_EL1, 0x1 at 0x")
    assert text.endswith(", and nothing was executed there")


def test_an_interval_that_was_never_written_is_told_to_be_unknown() -> None:
    text = why(driver(interval=[]))
    assert text is not None
    assert re.fullmatch(
        r"PMSIRR_EL1 was never written, so the interval is UNKNOWN, here \d+ (or more )?operations,"
        r" and only \d+ were profiled: write PMSIRR_EL1 before profiling is enabled",
        text,
    )


def test_a_counter_that_was_never_written_is_told_to_be_unknown() -> None:
    board = Board(MachineOptions(ram=1 << 20))
    (history,) = watch_sampling(board)
    board.load(image_of({CODE: a.code(driver(counter=[]))}, CODE))
    board.cpu.registers.set_raw(spe.PMSICR_EL1, 1 << 20)
    board.run(10 * WORK)
    text = why_no_samples(history.sampling())
    assert text is not None
    assert re.fullmatch(
        r"PMSICR_EL1 was never written, so the first sample is UNKNOWN operations away, and only"
        r" \d+ were profiled: write 0 to it before profiling is enabled",
        text,
    )


def test_an_interval_longer_than_the_run_is_told() -> None:
    assert why(driver(interval=write(PMSIRR_EL1, 0x10 << 8))) == (
        "the interval of PMSIRR_EL1 is 4097 operations, and only 1803 were profiled"
    )


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        (
            [*write(PMSLATFR_EL1, 5000), *write(PMSFCR_EL1, 1 << 2)],
            "PMSFCR_EL1.FL with MINLAT 5000",
        ),
        (
            [*write(PMSEVFR_EL1, 1 << 7), *write(PMSFCR_EL1, 1)],
            "PMSFCR_EL1.FE with PMSEVFR_EL1 0x80",
        ),
        (write(PMSFCR_EL1, 1 << 1 | 1 << 18), "PMSFCR_EL1.FT with ST"),
        (
            [*write(PMSLATFR_EL1, 1), *write(PMSFCR_EL1, 1 << 1 | 1 << 2 | 1 << 17)],
            "PMSFCR_EL1.FT with LD",
        ),
    ],
)
def test_the_filter_that_dropped_all_samples_is_named(filters: list[int], text: str) -> None:
    """The last one has two filters, and every operation passes that of latency."""
    loop = [a.NOP] * 4
    assert why(driver(loop, filter=filters)) == f"all 14 samples were filtered by {text}"


def test_samples_that_are_all_of_one_operation_are_told_with_the_loop_that_resonates() -> None:
    # 257 operations from sample to sample, and a loop of 257
    loop = [a.NOP] * 100 + [a.ldr(1, 2)] + [a.NOP] * 154
    ready = [*a.mov64(2, BUFFER), *STEPS["status"]]
    words = driver(loop, status=ready, filter=write(PMSFCR_EL1, 1 << 1 | 1 << 17))
    text = why(words)
    assert text is not None
    assert re.fullmatch(
        r"all \d+ samples were filtered by PMSFCR_EL1\.FT with LD; all were of one operation,"
        r" 0x4001\w+, since 257 operations from sample to sample are a multiple of its loop of 257:"
        r" set PMSIRR_EL1\.RND",
        text,
    )


def test_discarded_records_are_told() -> None:
    text = why(driver(limit=write(PMBLIMITR_EL1, BUFFER + 0x1_0000 | 2 << 1 | 1)))
    assert text is not None
    assert text.endswith("PMBLIMITR_EL1.FM 2 throws all records away; write 0 to it")


def test_selections_that_all_collide_are_told() -> None:
    counts = Statistics(population=5000, selected=7, collisions=7)
    text = why_no_samples(Sampling(counts, touched=True))
    assert text == ("all 7 selected operations collided with samples in flight: sample less often")


def test_a_recording_of_a_run_that_is_too_short_is_told() -> None:
    code = [a.NOP] * 50 + [0]
    assert why(code, sampling=External(1000)) == (
        "the guest executed 51 operations, fewer than `period` 1000"
    )


def test_a_recording_whose_filter_drops_all_is_told() -> None:
    text = why([a.NOP] * 500 + [0], sampling=External(10, kinds=("store",)))
    assert text is not None
    assert text.endswith("samples were filtered: none is what `kinds` and `min_latency` ask for")


def test_looking_changes_nothing() -> None:
    for words in (driver(), driver(filter=write(PMSFCR_EL1, 1 << 1 | 1 << 18))):
        boards = []
        for watched in (False, True):
            board = Board(MachineOptions(ram=1 << 20))
            if watched:
                watch_sampling(board)
            board.load(image_of({CODE: a.code(words)}, CODE))
            board.run(10 * WORK)
            boards.append(
                (board.cpu.registers.save(), board.unit.statistics, bytes(board.ram.bytes))
            )
        assert boards[0] == boards[1]


ELR_EL2: Op = (3, 4, 4, 0, 1)
VECTORS = RAM + 0x800
PASS_OVER = [a.mrs(9, ELR_EL2), a.add_imm(9, 9, 4), a.msr(ELR_EL2, 9), a.ERET]
"""A handler at EL2 that goes on after the access."""


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
def test_accesses_to_spe_that_trap_are_counted_by_register_and_level(runner: type[Runner]) -> None:
    accesses = [a.msr(PMSCR_EL1, 0), a.mrs(1, PMBPTR_EL1), a.msr(PMSCR_EL1, 0), a.mrs(2, MIDR_EL1)]
    board = board_at([a.NOP, *accesses, a.b(0)], el=EL1, runner=runner)
    (history,) = watch_sampling(board)
    board.memory.fill(VECTORS + 0x400, a.code(PASS_OVER))
    registers = board.cpu.registers
    registers.set_raw(VBAR_EL2, VECTORS)
    registers.set_raw(MDCR, registers.read(MDCR).replace(TPMS=1, E2PB=2).value)
    board.run(5 + 3 * len(PASS_OVER))
    (trapped,) = history.trapped(0)
    assert (trapped.cpu, trapped.target_el, trapped.el) == (0, 2, 1)
    assert trapped.counts == {"PMSCR_EL1": 2, "PMBPTR_EL1": 1}
    assert (trapped.first, trapped.place.pc) == ("MSR PMSCR_EL1", RAM + 4)
    assert str(trapped) == (
        "3 to EL2 (PMSCR_EL1 2, PMBPTR_EL1 1), the first MSR PMSCR_EL1 at 0x40000004 EL1:"
        " MDCR_EL2.TPMS is 1"
    )


def test_nothing_is_told_where_nothing_has_trapped() -> None:
    board = board_at([a.msr(PMSCR_EL1, 0), a.b(0)], el=EL1)
    (history,) = watch_sampling(board)
    board.run(4)
    assert list(history.trapped(0)) == []
