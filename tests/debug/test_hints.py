"""The usual first crashes, each by a small program, and the hint that names its cause."""

from __future__ import annotations

import pytest

from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.arch.registers.system import VBAR_EL1
from spe_unicorn.debug.advice.unavailable import watch_unavailable
from spe_unicorn.debug.report import failure_report
from spe_unicorn.debug.whereabouts import whereabouts
from spe_unicorn.host.ports import Ending
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.options import MachineOptions
from tests.support import a64 as a
from tests.support.machine_runs import image_of

RAM = 0x4000_0000
MIB = 1 << 20
CODE = RAM + 0x1_0000
CONDUITS = {EL1: "hvc", EL2: "smc", EL3: None}
FADD = 0x1E62_2820  # fadd d0, d1, d2
CNTB = 0x0420_E3E6  # cntb x6: SVE
MOV_SP_X0 = 0x9100_001F
PUSH = 0xA9BF_7BFD  # stp x29, x30, [sp, #-16]!
SMC = 0xD400_0003
ELR = (3, 0, 4, 0, 1)
PSCI_VERSION = 0x8400_0000


def crash(words: list[int], el: int = EL1, **options: object) -> Board:
    """A board whose guest cannot go on."""
    board = Board(MachineOptions(ram=MIB, **options))  # type: ignore[arg-type]
    board.load(image_of({CODE: a.code(words)}, CODE))
    board.firmware.conduit = CONDUITS[el]
    board.reset(nonsecure=el != EL3)
    board.pes[0].start(el, CODE)
    assert board.run(10_000) is Ending.FAILED
    return board


def hints(board: Board) -> list[str]:
    """Those of the report, but for the last one, which says what to do so that it goes on."""
    lines = failure_report(board).splitlines()
    found = [line.removeprefix("hint: ") for line in lines if line.startswith("hint: ")]
    return [hint for hint in found if not hint.startswith("set VBAR_EL")]


def test_floating_point_that_traps_names_the_field_that_traps_it() -> None:
    assert hints(crash([FADD])) == [
        "CPACR_EL1.FPEN is 0, which traps FP and SIMD at EL0 and EL1: write 3 to it (bits 21:20),"
        " then ISB. Compilers copy memory by SIMD registers, but for -mgeneral-regs-only"
    ]
    assert hints(crash([CNTB])) == [
        "CPACR_EL1.ZEN is 0, which traps SVE at EL0 and EL1: write 3 to it (bits 17:16), then ISB"
    ]


def test_floating_point_that_el2_traps_is_told_by_the_name_that_e2h_gives() -> None:
    trapped = [*a.mov64(0, 0x37FF), a.msr((3, 4, 1, 1, 2), 0), a.ISB, FADD]
    assert hints(crash(trapped, EL2)) == [
        "CPTR_EL2.TFP is 1, which traps FP and SIMD at EL2 and below: clear it, then ISB"
    ]
    host = [*a.mov64(0, 1 << 34 | 1 << 31), a.msr((3, 4, 1, 1, 0), 0), a.msr((3, 4, 1, 1, 2), 31)]
    assert hints(crash([*host, a.ISB, FADD], EL2))[0].startswith(
        "CPTR_EL2.FPEN is 0, which traps FP and SIMD at EL0 and EL2"
    )


def test_a_stack_pointer_that_nobody_has_set_is_told() -> None:
    board = crash([a.movz(0, 0), MOV_SP_X0, PUSH])
    assert hints(board) == [
        "SP is 0: nothing has set the stack pointer; set it before the first call"
    ]


def test_a_stack_that_ran_over_its_end_is_told_with_what_is_above() -> None:
    recursion = [*a.mov64(0, RAM + 64), MOV_SP_X0, PUSH, a.bl(-4)]
    (hint,) = hints(crash(recursion))
    assert hint == (
        "SP is 0x40000000, just below RAM at 0x40000000: the stack ran over its end; give it more"
        " room, or look for a recursion without an end"
    )


def test_a_stack_pointer_outside_memory_is_told_with_where_memory_is() -> None:
    (hint,) = hints(crash([*a.mov64(0, 0x5000_0000), MOV_SP_X0, PUSH]))
    assert hint == (
        "SP is 0x50000000, and RAM is 0x40000000 to 0x400fffff: set SP to the top of a stack"
    )


def test_a_call_through_a_null_pointer_is_told_with_its_place() -> None:
    assert hints(crash([a.movz(1, 0), a.NOP, a.blr(1)])) == [
        "the PC is 0x0 by the call at 0x40010008: a call or jump through a null pointer"
    ]
    assert hints(crash([a.movz(1, 0), a.br(1)])) == [
        "the PC is 0x0: a call or jump through a null pointer"
    ]


def test_a_return_address_that_is_none_is_told() -> None:
    (hint,) = hints(crash([*a.mov64(30, 0x7000_0000), a.RET]))
    assert hint == (
        "X30 holds the PC 0x70000000, where no code is: a return address that was overwritten or"
        " never set"
    )
    (hint,) = hints(crash([*a.mov64(1, 0x7000_0000), a.blr(1)]))
    assert hint.startswith("the PC is 0x70000000 by the call at 0x4001000")


@pytest.mark.parametrize(
    ("address", "board"),
    [
        (0x1C09_0000, "Arm's Versatile Express and FVP"),
        (0x3F20_1018, "Raspberry Pi 2 and 3"),
        (0xFE20_1000, "Raspberry Pi 4"),
        (0x6000_0018, "QEMU's sbsa-ref"),
    ],
)
def test_the_uart_of_another_board_is_told_with_where_ours_is(address: int, board: str) -> None:
    assert hints(crash([*a.mov64(1, address), a.movz(0, 65), a.str_(0, 1, size=2)])) == [
        f"{board} has a UART there; this machine's, a PL011, is at 0x9000000"
    ]


def test_a_wild_pointer_has_nothing_to_do_with_pcie() -> None:
    (hint,) = hints(crash([*a.mov64(1, 0x2345_6000), a.ldr(0, 1)]))
    assert hint == ("RAM begins at 0x40000000, above: a wrong pointer, or another board's address?")


def test_smc_at_a_start_at_el1_is_told_that_psci_is_called_by_hvc() -> None:
    board = crash([*a.mov64(0, PSCI_VERSION), SMC])
    assert hints(board) == [
        "a start at EL1 calls PSCI by HVC, as its device tree says: start with `el` 2 for SMC"
    ]
    assert "Uncategorized ESR 0x2000000" in failure_report(board)  # UNDEFINED, as without EL3


def test_hvc_at_a_start_at_el2_is_told_that_psci_is_called_by_smc() -> None:
    board = crash([*a.mov64(0, PSCI_VERSION), a.hvc(0)], EL2)
    assert hints(board) == [
        "a start at EL2 calls PSCI by SMC, as its device tree says: start with `el` 1 for HVC"
    ]
    assert "ESR_EL2 0x5a000000" in failure_report(board)


def test_a_hypercall_to_a_hypervisor_that_is_not_there_is_told_what_is_answered() -> None:
    assert hints(crash([*a.mov64(0, 0x8600_FF01), a.hvc(0)], EL2)) == [
        "HVC is the guest's own at this start; firmware answers SMC"
    ]


def test_a_start_at_el3_is_told_that_it_has_no_psci() -> None:
    (hint,) = hints(crash([*a.mov64(0, PSCI_VERSION), SMC], EL3))
    assert hint.startswith("this start begins at EL3, so whatever answers SMC is the guest's own")


@pytest.mark.parametrize(
    ("encoding", "text", "el"),
    [
        ((3, 4, 1, 1, 0), "hcr_el2", 2),
        ((3, 5, 1, 0, 0), "sctlr_el12", 2),
        ((3, 6, 1, 1, 0), "scr_el3", 3),
    ],
)
def test_a_register_of_a_higher_level_is_told_with_the_start_that_has_it(
    encoding: tuple[int, int, int, int, int], text: str, el: int
) -> None:
    (hint,) = hints(crash([a.mrs(0, encoding)]))
    assert hint == (
        f"mrs x0, {text}: a register of EL{el}, and this is EL1; start with `el` {el} for it"
    )


def test_an_instruction_that_is_just_undefined_has_no_hint() -> None:
    assert hints(crash([0])) == []


@pytest.mark.parametrize(
    ("core", "word", "hint"),
    [
        # CNTB is there on no core without SVE; MUL Z1.S, Z2.S, Z3.S; CFINV is in Armv8.4
        ("neoverse-n1", CNTB, "SVE instruction: neoverse-n1 has no SVE; `core` neoverse-v1 has"),
        (
            "neoverse-v1",
            0x04A3_6041,
            "SVE2 MUL (vectors, unpredicated): neoverse-v1 has no SVE2; `core` neoverse-n2 has",
        ),
        # BC.EQ, which came with Armv8.8
        ("neoverse-n2", 0x5400_0010, "HBC BC.cond: neoverse-n2 has no HBC; `core` max has"),
        # LD64B X0, [X1]
        ("neoverse-n2", 0xF83F_D020, "LS64 LD64B: neoverse-n2 has no LS64; `core` max has"),
        # STG X1, [X2]; GCSSTR X0, [X1], which is executed nowhere
        (
            "neoverse-v1",
            0xD920_0841,
            "MTE STG (signed offset): neoverse-v1 has no MTE; `core` neoverse-n2 has",
        ),
        (
            "neoverse-n2",
            0xD91F_0C20,
            "GCS GCSSTR, GCSSTTR: neoverse-n2 has no GCS, which this machine does not execute on"
            " any core",
        ),
    ],
)
def test_an_instruction_that_the_core_lacks_is_told_with_a_core_that_has_it(
    core: str, word: int, hint: str
) -> None:
    assert hints(crash([word], core=core)) == [hint]


def test_what_the_guests_own_vectors_take_is_told_once() -> None:
    board = Board(MachineOptions(ram=MIB, core="neoverse-v1"))
    mul = 0x04A3_6041  # MUL Z1.S, Z2.S, Z3.S, of SVE2
    skip = [a.mrs(0, ELR), a.add_imm(0, 0, 4), a.msr(ELR, 0), a.ERET]
    code = {CODE: a.code([mul, 0, mul, a.b(-12)]), RAM + 0x800: a.code([a.NOP] * 128 + skip)}
    board.load(image_of(code, CODE))
    board.cpu.registers.set_raw(VBAR_EL1, RAM + 0x800)
    told: list[str] = []
    watch_unavailable(board, told.append)
    assert board.run(1000) is Ending.LIMIT
    assert told == [
        f"UNDEFINED at {CODE:#x}: SVE2 MUL (vectors, unpredicated): neoverse-v1 has no SVE2; `core`"
        " neoverse-n2 has"
    ]


def test_a_handler_that_hangs_is_told_what_it_was_called_for() -> None:
    board = Board(MachineOptions(ram=MIB))
    board.load(image_of({CODE: a.code([FADD]), RAM + 0x800: a.code([a.b(0)] * 512)}, CODE))
    board.cpu.registers.set_raw(VBAR_EL1, RAM + 0x800)
    assert board.run(1000) is Ending.LIMIT
    (there,) = whereabouts(board)
    assert there.hints[0].startswith("CPACR_EL1.FPEN is 0")
    assert f"  hint: {there.hints[0]}" in str(there)


def test_what_traps_no_longer_is_no_hint() -> None:
    board = Board(MachineOptions(ram=MIB))
    handler = [*a.mov64(0, 3 << 20), a.msr((3, 0, 1, 0, 2), 0), a.ERET]
    code = {CODE: a.code([FADD, a.b(0)]), RAM + 0x800: a.code([a.b(0)] * 128 + handler)}
    board.load(image_of(code, CODE))
    board.cpu.registers.set_raw(VBAR_EL1, RAM + 0x800)
    assert board.run(1000) is Ending.LIMIT
    (there,) = whereabouts(board)
    assert there.place.pc == CODE + 4
    assert there.last_exception is not None
    assert there.hints == ()
