"""SPE on an engine of somebody else's: what it gives, and what it leaves alone."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from unicorn import (
    UC_ARCH_ARM,
    UC_ARCH_ARM64,
    UC_HOOK_BLOCK,
    UC_HOOK_CODE,
    UC_HOOK_INSN,
    UC_HOOK_INTR,
    UC_HOOK_MEM_READ,
    UC_HOOK_MEM_WRITE,
    UC_MODE_ARM,
    Uc,
    UcError,
)
from unicorn import arm64_const as regs
from unicorn import unicorn_const as uc_const

import spe_unicorn
from spe_unicorn.arch.access.verdicts import SystemAccessTrap
from spe_unicorn.arch.registers.system import CONTEXTIDR_EL1, CONTEXTIDR_EL2
from spe_unicorn.cores.profile import CoreError, ModelName
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.plugin.attach import AttachError, TrappedAccessError
from spe_unicorn.spe.filter import Flag
from spe_unicorn.spe.record import PlacedRecord, Record, decode_stream
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.user_engine import (
    BUFFER,
    CODE,
    DATA,
    DEFAULT,
    LOOP,
    MAX,
    MODELS,
    PMSCR_EL1,
    SIZE,
    WORDS,
    collect,
    end,
    engine,
    guest,
    program,
)

PMSCR_EL2 = (3, 4, 9, 9, 0)
VBAR_EL2 = (3, 4, 12, 0, 0)
ID_AA64DFR0_EL1 = (3, 0, 0, 5, 0)
SCTLR_EL1 = (3, 0, 1, 0, 0)


def state(uc: Uc) -> dict[str, object]:
    """Registers and memory."""
    numbers = [regs.UC_ARM64_REG_X0 + n for n in range(29)]
    numbers += [regs.UC_ARM64_REG_X29, regs.UC_ARM64_REG_X30, regs.UC_ARM64_REG_SP]
    return {
        "registers": [uc.reg_read(n) for n in numbers],
        "vectors": [uc.reg_read(regs.UC_ARM64_REG_Q0 + n) for n in range(32)],
        "pc": uc.reg_read(regs.UC_ARM64_REG_PC),
        "pstate": uc.reg_read(regs.UC_ARM64_REG_PSTATE),
        "memory": bytes(uc.mem_read(CODE, SIZE)),
    }


def outcome(run: Callable[[], None]) -> int:
    """The engine's error number, 0 for none."""
    try:
        run()
    except UcError as error:
        return int(error.errno)
    return 0


# The same program gives the same records


@pytest.mark.sweep(first=True)
@pytest.mark.parametrize(
    ("period", "model"),
    [(1, "none"), (7, "none"), (257, "none"), (1009, "none"), (1, "cache"), (7, "cache")],
)
def test_attach_the_board_and_the_reference_give_the_same_bytes(
    period: int, model: ModelName
) -> None:
    words = program(700)
    image = image_of({CODE: a.code([*words[:-1], a.b(0)]), DATA: WORDS}, CODE)
    operations = 6_000
    of_boards = []
    for runner in (Runner, ReferenceRunner):
        machine = Machine(image, runner=runner, period=period, ram=SIZE, model=model)
        for register in (CONTEXTIDR_EL1, CONTEXTIDR_EL2):  # UNKNOWN on the board, 0 on a new Uc
            machine.board.cpu.registers.write(register, 0)
        of_boards.append([s.record for s in machine.run(operations).records])
    uc = engine([*words[:-1], a.b(0)], MAX)
    spe = spe_unicorn.attach(uc, model=model)
    records = collect(spe)
    spe.program(period)
    spe.emu_start(CODE, end(words), count=operations)
    assert of_boards[0] == of_boards[1]
    assert records == of_boards[0]
    assert len(records) == operations // period


def test_the_model_sees_what_the_attachment_runs_and_nothing_else() -> None:
    words = program(300)
    found = []
    for run_before in (False, True):
        uc = engine(words, MAX)
        spe = spe_unicorn.attach(uc, model="cache")
        events: list[int] = []
        spe.on_record(lambda record, _, events=events: events.append(record.events))
        if run_before:
            uc.emu_start(CODE, end(words) - 4)
        spe.program(13)
        spe.emu_start(CODE, end(words) - 4)
        found.append(events)
    refill = 1 << 3
    assert found[0] == found[1]
    assert any(event & refill for event in found[0])


def test_the_default_model_gives_the_same_bytes_as_max() -> None:
    words = program(300)
    found = []
    for model in (DEFAULT, MAX):
        spe = spe_unicorn.attach(engine(words, model))
        found.append(collect(spe))
        spe.program(13)
        spe.emu_start(CODE, end(words) - 4)
    assert found[0] == found[1] != []


# Sampling from outside


@MODELS
def test_sampling_from_outside_changes_no_register_and_no_memory(model: int) -> None:
    words = program(500)
    alone, sampled = engine(words, model), engine(words, model)
    alone.emu_start(CODE, end(words) - 4)
    spe = spe_unicorn.attach(sampled)
    records = collect(spe)
    spe.program(3)
    spe.emu_start(CODE, end(words) - 4)
    assert len(records) > 1000
    assert state(sampled) == state(alone)


def test_filters_keep_only_what_they_name() -> None:
    words = program(200)
    spe = spe_unicorn.attach(engine(words))
    seen: list[Record] = []
    spe.on_record(lambda record, raw: seen.append(record))
    spe.program(1, types=[Flag.ST])
    spe.emu_start(CODE, end(words) - 4)
    store = CODE + 4 * words.index(LOOP[1])
    assert [record.pc.VA for record in seen if record.pc is not None] == [store] * 200
    assert [record.va.VA for record in seen if record.va is not None] == [
        DATA + 0x4_0000 + 8 * n for n in range(200)
    ]


def test_a_record_is_handed_out_decoded_and_raw() -> None:
    words = program(50)
    spe = spe_unicorn.attach(engine(words))
    seen: list[tuple[Record, bytes]] = []
    spe.on_record(lambda record, raw: seen.append((record, raw)))
    spe.program(11)
    spe.emu_start(CODE, end(words) - 4)
    for record, raw in seen:
        (placed,) = decode_stream(raw)
        assert isinstance(placed, PlacedRecord)
        assert placed.record == record
    assert len(seen) == spe.statistics.population // 11


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_below_one_is_refused(interval: int) -> None:
    with pytest.raises(ValueError, match="1"):
        spe_unicorn.attach(engine([a.NOP])).program(interval)


# The guest programs SPE itself


@MODELS
def test_records_of_a_guest_that_profiles_itself_are_in_its_memory(model: int) -> None:
    words = guest(1000)
    uc = engine(words, model)
    spe = spe_unicorn.attach(uc)
    records = collect(spe)
    spe.emu_start(CODE, end(words) - 4)
    written = uc.reg_read(regs.UC_ARM64_REG_X10) - BUFFER
    assert uc.reg_read(regs.UC_ARM64_REG_X11) == 0
    assert b"".join(records) == bytes(uc.mem_read(BUFFER, written))
    # the ISB, the loop, PSB CSYNC and the MSR that disables it; one in 257 is sampled
    skipped = sum(1 for n in range(1000) if not _sum(n + 1) & 1)
    population = 1 + 8 * 1000 - skipped + 2
    assert spe.statistics.population == population
    assert len(records) == population // 257


def _sum(count: int) -> int:
    return sum(int.from_bytes(WORDS[8 * n : 8 * n + 8], "little") for n in range(count))


def test_equal_seeds_give_equal_unknown_values_and_others_do_not() -> None:
    values = [
        spe_unicorn.attach(engine([a.NOP]), seed=seed).registers.PMBPTR_EL1.value
        for seed in (1, 1, 2)
    ]
    assert values[0] == values[1] != values[2]


@MODELS
def test_sampling_works_behind_translation_tables_of_the_users(model: int) -> None:
    """Identity by one block of 1 GiB. EL1 is AArch64 to the engine's walker by SCR_EL3.RW only."""
    words = guest(1000)
    found = []
    for mmu in (0, 1):
        uc = engine(words, model)
        table = CODE + 0x1F_0000
        uc.mem_write(table + 8, (CODE | 0x701).to_bytes(8, "little"))
        system(uc, (3, 6, 1, 1, 0), 0x531)  # SCR_EL3: RW, HCE, SMD off, NS
        system(uc, (3, 4, 1, 1, 0), 1 << 31)  # HCR_EL2.RW
        system(uc, (3, 0, 10, 2, 0), 0xFF)  # MAIR_EL1
        system(uc, (3, 0, 2, 0, 0), table)  # TTBR0_EL1
        system(uc, (3, 0, 2, 0, 2), 25)  # TCR_EL1.T0SZ: the walk begins at level 1
        system(uc, SCTLR_EL1, uc.reg_read(regs.UC_ARM64_REG_CP_REG, (1, 0, 3, 0, 0)) | mmu)
        spe = spe_unicorn.attach(uc)
        spe.registers.MDCR_EL3.NSPB = 3  # as firmware leaves them: SCR_EL3 says that there was one
        spe.registers.MDCR_EL2.E2PB = 3
        found.append(collect(spe))
        spe.emu_start(CODE, end(words) - 4)
        assert uc.reg_read(regs.UC_ARM64_REG_X11) == 0
        assert b"".join(found[-1]) == bytes(uc.mem_read(BUFFER, 64 * len(found[-1])))
    assert found[0] == found[1] != []


def system(uc: Uc, op: tuple[int, int, int, int, int], value: int) -> None:
    op0, op1, crn, crm, op2 = op
    uc.reg_write(regs.UC_ARM64_REG_CP_REG, (crn, crm, op0, op1, op2, value))


# System registers


@MODELS
@pytest.mark.parametrize("sampled", [False, True], ids=["uc.emu_start", "spe.emu_start"])
def test_spe_registers_answer_inside_and_outside(model: int, sampled: bool) -> None:
    words = [
        a.movz(1, 0x33),
        a.msr(PMSCR_EL1, 1),
        a.mrs(2, PMSCR_EL1),
        a.mrs(3, ID_AA64DFR0_EL1),
        a.NOP,
    ]
    uc = engine(words, model)
    spe = spe_unicorn.attach(uc)
    (spe if sampled else uc).emu_start(CODE, end(words))
    assert uc.reg_read(regs.UC_ARM64_REG_X2) == 0x33
    assert spe.registers.PMSCR_EL1.value == 0x33
    assert uc.reg_read(regs.UC_ARM64_REG_X3) >> 32 & 15 == 3  # SPEv1p2, as the profile says
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == end(words)


def test_a_run_of_the_users_own_goes_on_behind_a_write_to_sctlr() -> None:
    words = [a.mrs(1, SCTLR_EL1), a.eor(1, 1, 2), a.msr(SCTLR_EL1, 1), a.movz(3, 9), a.NOP]
    uc = engine(words)
    uc.reg_write(regs.UC_ARM64_REG_X2, 1 << 12)
    spe_unicorn.attach(uc)
    uc.emu_start(CODE, end(words))
    assert uc.reg_read(regs.UC_ARM64_REG_X3) == 9
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == end(words)


def test_runs_of_the_users_own_are_not_sampled() -> None:
    words = program(100)
    uc = engine(words)
    spe = spe_unicorn.attach(uc)
    records = collect(spe)
    spe.program(1)
    uc.emu_start(CODE, end(words) - 4)
    assert (records, spe.statistics.population) == ([], 0)
    spe.emu_start(CODE, end(words) - 4, count=10)
    assert len(records) == 10


def test_fields_are_read_and_written_by_name() -> None:
    spe = spe_unicorn.attach(engine([a.NOP]))
    spe.registers.PMSCR_EL1 = 0
    spe.registers.PMSCR_EL1.E1SPE = 1
    spe.registers.PMSCR_EL1.PCT = 1
    assert spe.registers.PMSCR_EL1.value == 0x42
    assert int(spe.registers.PMSCR_EL1) == 0x42
    assert (spe.registers.PMSCR_EL1.E1SPE, spe.registers.PMSCR_EL1.E0SPE) == (1, 0)
    assert "E1SPE=1" in repr(spe.registers.PMSCR_EL1)
    assert "PMSCR_EL1" in dir(spe.registers)


def test_a_write_by_name_changes_only_bits_that_are_there() -> None:
    spe = spe_unicorn.attach(engine([a.NOP]))
    spe.registers.PMSLATFR_EL1 = (1 << 64) - 1
    assert spe.registers.PMSLATFR_EL1.value == 0xFFFF
    before = spe.registers.PMSIDR_EL1.value
    with pytest.raises(AttributeError, match="PMSIDR_EL1 is read-only"):
        spe.registers.PMSIDR_EL1 = 0
    assert spe.registers.PMSIDR_EL1.value == before


def test_names_that_are_not_there_are_attribute_errors() -> None:
    spe = spe_unicorn.attach(engine([a.NOP]))
    with pytest.raises(AttributeError, match="PMXYZ_EL1"):
        _ = spe.registers.PMXYZ_EL1
    with pytest.raises(AttributeError, match="PMXYZ_EL1"):
        spe.registers.PMXYZ_EL1 = 1
    with pytest.raises(AttributeError, match="NOFIELD"):
        _ = spe.registers.PMSCR_EL1.NOFIELD
    with pytest.raises(AttributeError, match="NOFIELD"):
        spe.registers.PMSCR_EL1.NOFIELD = 1
    with pytest.raises(ValueError, match="E1SPE"):
        spe.registers.PMSCR_EL1.E1SPE = 2


@pytest.mark.parametrize("sampled", [False, True], ids=["uc.emu_start", "spe.emu_start"])
def test_undefined_accesses_are_the_engines_to_raise(sampled: bool) -> None:
    words = [a.NOP, a.mrs(1, PMSCR_EL2), a.NOP]  # EL2's, at EL1
    alone = engine(words)
    status = outcome(lambda: alone.emu_start(CODE, end(words)))
    uc = engine(words)
    spe = spe_unicorn.attach(uc)
    start = spe.emu_start if sampled else uc.emu_start
    assert outcome(lambda: start(CODE, end(words))) == status == uc_const.UC_ERR_EXCEPTION
    assert state(uc) == state(alone)

    numbers: list[int] = []

    def on_interrupt(uc: Uc, number: int, data: object) -> None:
        numbers.append(number)
        uc.reg_write(regs.UC_ARM64_REG_PC, CODE + 8)

    uc.hook_add(UC_HOOK_INTR, on_interrupt)
    start(CODE, end(words))
    assert numbers == [1]
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == end(words)


@pytest.mark.parametrize("sampled", [False, True], ids=["uc.emu_start", "spe.emu_start"])
def test_a_trap_without_vectors_is_an_error_that_carries_the_rule(sampled: bool) -> None:
    words = [a.NOP, a.mrs(1, PMSCR_EL1), a.NOP]
    uc = engine(words)
    spe = spe_unicorn.attach(uc)
    spe.registers.MDCR_EL2 = 1 << 14  # TPMS
    with pytest.raises(TrappedAccessError, match="PMSCR_EL1 at 0x40000004 traps to EL2") as caught:
        (spe if sampled else uc).emu_start(CODE, end(words))
    assert isinstance(caught.value.verdict, SystemAccessTrap)
    assert caught.value.verdict.target_el == 2
    assert caught.value.verdict.rule.text in str(caught.value)
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == CODE + 4


def test_what_cannot_go_on_is_an_error_of_that_run_alone() -> None:
    words = [a.mrs(1, PMSCR_EL1), a.NOP]
    uc = engine(words)
    spe = spe_unicorn.attach(uc)
    spe.registers.MDCR_EL2 = 1 << 14  # TPMS
    system(uc, VBAR_EL2, DATA + SIZE)  # where nothing is mapped
    with pytest.raises(RuntimeError, match="no code at its vector"):
        spe.emu_start(CODE, end(words))
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == CODE

    system(uc, VBAR_EL2, DATA)
    spe.emu_start(CODE, DATA + 0x400)  # synchronous, from a lower level
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == DATA + 0x400


# emu_start means what the engine's own means


@pytest.mark.parametrize("period", [None, 1, 7, 97])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 10, 31, 100, 257, 1000])
def test_count_is_exact(count: int, period: int | None) -> None:
    words = program(500)
    alone, uc = engine(words), engine(words)
    alone.emu_start(CODE, end(words), count=count)
    spe = spe_unicorn.attach(uc)
    if period is not None:
        spe.program(period)
    spe.emu_start(CODE, end(words), count=count)
    assert state(uc) == state(alone)
    if period is not None:
        assert spe.statistics.population == count


@pytest.mark.parametrize("period", [None, 1, 7])
def test_until_is_exact_at_every_operation(period: int | None) -> None:
    words = program(20)
    alone, uc = engine(words), engine(words)
    spe = spe_unicorn.attach(uc)
    if period is not None:
        spe.program(period)
    for until in range(CODE + 4, end(words), 4):
        alone.ctl_flush_tb()
        alone.emu_start(CODE, until)
        spe.emu_start(CODE, until)
        assert state(uc) == state(alone), hex(until)


def test_runs_in_pieces_give_the_records_of_one_run() -> None:
    words = program(200)
    found = []
    for piece in (0, 1, 5, 64):
        uc = engine(words)
        spe = spe_unicorn.attach(uc)
        found.append(collect(spe))
        spe.program(17)
        at = CODE
        while at != end(words) - 4:
            spe.emu_start(at, end(words) - 4, count=piece)
            at = uc.reg_read(regs.UC_ARM64_REG_PC)
    assert found[1:] == found[:1] * 3
    assert found[0] != []


def test_timeout_ends_a_loop_without_end() -> None:
    uc = engine([a.b(0)])
    spe = spe_unicorn.attach(uc)
    began = time.monotonic()
    spe.emu_start(CODE, CODE + 4, timeout=100_000)
    assert time.monotonic() - began >= 0.1
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == CODE


def test_wfi_ends_the_run_as_the_engine_does() -> None:
    words = [a.NOP, a.WFI, a.NOP, a.NOP]
    alone, uc = engine(words), engine(words)
    alone.emu_start(CODE, end(words))
    spe_unicorn.attach(uc).emu_start(CODE, end(words))
    assert state(uc) == state(alone)


# The user's hooks


def counting(uc: Uc) -> dict[str, int]:
    """Hooks of every kind that a script may have, and how often each was called."""
    seen = {"code": 0, "read": 0, "write": 0, "interrupt": 0}

    def on_code(uc: Uc, address: int, size: int, data: object) -> None:
        seen["code"] += 1

    def on_memory(uc: Uc, kind: int, at: int, size: int, value: int, data: object) -> None:
        seen["read" if kind == uc_const.UC_MEM_READ else "write"] += 1

    def on_interrupt(uc: Uc, number: int, data: object) -> None:
        assert number == 2
        seen["interrupt"] += 1

    uc.hook_add(UC_HOOK_CODE, on_code)
    uc.hook_add(UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE, on_memory)
    uc.hook_add(UC_HOOK_INTR, on_interrupt)
    return seen


CALLING = [*program(100)[:-2], a.svc(0), a.b_cond(a.NE, -32), a.NOP]


@pytest.mark.parametrize("period", [1, 5, 100])
@pytest.mark.parametrize("before", [True, False], ids=["hooks first", "attached first"])
def test_hooks_of_the_user_see_what_they_saw_before(period: int, before: bool) -> None:
    alone = engine(CALLING)
    expected = counting(alone)
    alone.emu_start(CODE, end(CALLING) - 4)
    uc = engine(CALLING)
    seen = counting(uc) if before else {}
    spe = spe_unicorn.attach(uc)
    if not before:
        seen = counting(uc)
    spe.program(period)
    spe.emu_start(CODE, end(CALLING) - 4)
    assert expected["interrupt"] == 100
    assert seen == expected
    assert state(uc) == state(alone)


def test_every_block_is_seen_at_least_once_and_in_order() -> None:
    words = program(100)

    def blocks(uc: Uc) -> list[int]:
        seen: list[int] = []

        def on_block(uc: Uc, address: int, size: int, data: object) -> None:
            seen.append(address)

        uc.hook_add(UC_HOOK_BLOCK, on_block)
        return seen

    alone, uc = engine(words), engine(words)
    expected, seen = blocks(alone), blocks(uc)
    alone.emu_start(CODE, end(words) - 4)
    spe = spe_unicorn.attach(uc)
    spe.program(37)
    spe.emu_start(CODE, end(words) - 4)
    rest = iter(seen)
    assert all(address in rest for address in expected)


@pytest.mark.parametrize("period", [None, 1, 7])
def test_a_stop_by_a_hook_of_the_users_ends_the_run(period: int | None) -> None:
    words = program(100)
    spot = CODE + 4 * words.index(LOOP[3])

    def stopping(uc: Uc) -> None:
        left = [10]

        def on_code(uc: Uc, address: int, size: int, data: object) -> None:
            left[0] -= 1
            if not left[0]:
                uc.emu_stop()

        uc.hook_add(UC_HOOK_CODE, on_code, begin=spot, end=spot)

    alone, uc = engine(words), engine(words)
    stopping(alone)
    stopping(uc)
    alone.emu_start(CODE, end(words) - 4)
    spe = spe_unicorn.attach(uc)
    if period is not None:
        spe.program(period)
    spe.emu_start(CODE, end(words) - 4)
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == spot
    assert state(uc) == state(alone)


@pytest.mark.parametrize("period", [None, 3])
def test_what_a_hook_of_the_users_raises_comes_out(period: int | None) -> None:
    words = program(10)
    uc = engine(words)

    def on_code(uc: Uc, address: int, size: int, data: object) -> None:
        raise KeyError("mine")

    uc.hook_add(UC_HOOK_CODE, on_code, begin=CODE + 8, end=CODE + 8)
    spe = spe_unicorn.attach(uc)
    if period is not None:
        spe.program(period)
    with pytest.raises(KeyError, match="mine"):
        spe.emu_start(CODE, end(words))


def test_emu_start_within_a_hook_is_refused() -> None:
    uc = engine([a.NOP, a.NOP])
    spe = spe_unicorn.attach(uc)
    uc.hook_add(UC_HOOK_CODE, lambda *_: spe.emu_start(CODE, CODE + 4))
    with pytest.raises(RuntimeError, match="already running"):
        spe.emu_start(CODE, CODE + 8)


# Errors of the engine

AWAY = 0x1000
UNMAPPED = {"load": a.ldr(0, 1), "store": a.str_(0, 1), "fetch": a.br(1)}


@pytest.mark.parametrize("period", [None, 1, 2])
@pytest.mark.parametrize("kind", UNMAPPED)
def test_unmapped_memory_is_the_engines_error_and_can_be_tried_again(
    kind: str, period: int | None
) -> None:
    words = [a.NOP, a.movz(1, AWAY), UNMAPPED[kind], a.movz(2, 5), a.NOP]
    alone, uc = engine(words), engine(words)
    spe = spe_unicorn.attach(uc)
    if period is not None:
        spe.program(period)
    status = outcome(lambda: alone.emu_start(CODE, end(words)))
    assert status != 0
    assert outcome(lambda: spe.emu_start(CODE, end(words))) == status
    assert state(uc) == state(alone)
    for one in (alone, uc):
        one.mem_map(AWAY, 0x1000)
        one.mem_write(AWAY, a.code([a.movz(2, 5), a.NOP]))
    until = AWAY + 4 if kind == "fetch" else end(words)
    spe.emu_start(uc.reg_read(regs.UC_ARM64_REG_PC), until)
    alone.emu_start(alone.reg_read(regs.UC_ARM64_REG_PC), until)
    assert uc.reg_read(regs.UC_ARM64_REG_X2) == 5
    assert state(uc) == state(alone)


@pytest.mark.parametrize("word", [a.svc(1), a.hvc(1), a.brk(1), a.udf(0)])
@pytest.mark.parametrize("period", [None, 1, 2])
def test_exceptions_that_nobody_handles_are_the_engines_error(
    word: int, period: int | None
) -> None:
    words = [a.NOP, word, a.NOP]
    alone, uc = engine(words), engine(words)
    spe = spe_unicorn.attach(uc)
    if period is not None:
        spe.program(period)
    status = outcome(lambda: alone.emu_start(CODE, end(words)))
    assert outcome(lambda: spe.emu_start(CODE, end(words))) == status == uc_const.UC_ERR_EXCEPTION
    assert state(uc) == state(alone)


# Coming and going


@MODELS
def test_detach_leaves_the_engine_as_it_was(model: int) -> None:
    words = [a.NOP, a.mrs(1, PMSCR_EL1), a.NOP]
    alone, uc = engine(words, model), engine(words, model)
    spe = spe_unicorn.attach(uc)
    spe.emu_start(CODE, end(words))
    assert "emu_stop" in vars(uc)
    spe.detach()
    assert "emu_stop" not in vars(uc)
    uc.reg_write(regs.UC_ARM64_REG_X1, 0)
    for start in (alone.emu_start, uc.emu_start):
        with pytest.raises(UcError) as caught:
            start(CODE, end(words))
        assert caught.value.errno == uc_const.UC_ERR_EXCEPTION
    assert state(uc) == state(alone)


def test_attaching_again_after_detaching_samples_as_the_first_time() -> None:
    words = program(100)
    uc = engine(words)
    found = []
    for _ in range(2):
        spe = spe_unicorn.attach(uc)
        found.append(collect(spe))
        spe.program(9)
        spe.emu_start(CODE, end(words) - 4)
        spe.detach()
        uc.emu_start(CODE, end(words) - 4)
    assert found[0] == found[1] != []


def test_an_engine_of_another_architecture_is_refused() -> None:
    with pytest.raises(AttachError, match="AArch64"):
        spe_unicorn.attach(Uc(UC_ARCH_ARM, UC_MODE_ARM))


@pytest.mark.parametrize("instruction", [regs.UC_ARM64_INS_MRS, regs.UC_ARM64_INS_MSR])
def test_an_engine_with_a_hook_for_system_registers_is_refused(instruction: int) -> None:
    uc = engine([a.NOP])
    uc.hook_add(UC_HOOK_INSN, lambda *_: False, aux1=instruction)
    with pytest.raises(AttachError, match="attach first"):
        spe_unicorn.attach(uc)


def test_a_core_that_is_not_there_is_refused() -> None:
    with pytest.raises(CoreError, match="no-such-core"):
        spe_unicorn.attach(engine([a.NOP]), core="no-such-core")


@pytest.mark.parametrize(
    ("count", "pc"), [(2, 0x10008), (3, 0x1000C), (4, 0x10010), (5, 0x10004), (10, 0x10008)]
)
def test_count_is_exact_when_a_hook_of_the_users_moves_the_pc(count: int, pc: int) -> None:
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.mem_map(0x10000, 0x1000)
    nop, undefined, back_to_it = 0xD503_201F, 0, 0x17FF_FFFD
    words = (nop, undefined, nop, nop, back_to_it)
    uc.mem_write(0x10000, b"".join(word.to_bytes(4, "little") for word in words))
    uc.hook_add(
        uc_const.UC_HOOK_INTR,
        lambda uc, number, data: uc.reg_write(regs.UC_ARM64_REG_PC, 0x10008),
    )
    spe = spe_unicorn.attach(uc)
    spe.program(interval=3)
    spe.emu_start(0x10000, 0x11000, count=count)
    assert uc.reg_read(regs.UC_ARM64_REG_PC) == pc
    assert spe.statistics.population == count
