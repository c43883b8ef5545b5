"""The stub with the real GDB in batch mode."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spe_unicorn import Machine
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import GDB, with_gdb
from tests.support.small_programs import CRASH, CRASH_SYMBOLS, EXIT_7, LOOP, SLEEP, program

pytestmark = pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")


def python(*lines: str) -> list[str]:
    return ["python", *lines, "end"]


def test_gdb_attaches_breaks_and_sees_symbols_and_lines(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(shipped_firmware("spe_irq_el1")),
        ["break main", "hbreak spe_probe", "continue", "bt", "continue", "detach"],
        tmp_path,
    )
    assert "Breakpoint 1, main ()" in session.text
    assert "#0  main ()" in session.text
    assert "Breakpoint 2, spe_probe ()" in session.text
    assert (session.outcome.ending, session.outcome.exit_status) == ("exit", 0)


def test_registers_of_every_kind_are_read_and_written(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, LOOP)),
        [
            *("set $x3 = 0x1122334455667788", "p/x $x3", "set $sp = 0x40001000", "p/x $sp"),
            *("p $cpsr", "set $cpsr = 0x3c4", "p $cpsr"),
            *("set $v7.d.u[1] = 5", "p $v7.d.u[1]", "set $fpcr = 0x01000000", "p $vg", "p/x $z7"),
            *("p/x $fpcr", "set $PMSIRR_EL1 = (long)0x12300", "p $PMSIRR_EL1"),
            *("set $PMSCR_EL1 = 3ull", "p $PMSCR_EL1", "info registers spe", "p/x $ICC_PMR_EL1"),
            *("set $pc = 0x40000004", "p/x $pc", "p/x $CNTPCT_EL0", "p $SCTLR_EL1"),
        ],
        tmp_path,
    )
    for said in (
        *("0x1122334455667788", "0x40001000", "[ SP EL=1 F I A D ]", "[ EL=1 F I A D ]"),
        *("= 5", "0x1000000", "INTERVAL=291 ]", "[ E0SPE E1SPE", "PMBSR_EL1"),
        "= 0x40000004",
    ):
        assert said in session.text, said


def test_memory_is_read_and_written_through_the_translation_and_physically(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, LOOP)),
        [
            *(
                "set *(int*)0x40002000 = 0x11223344",
                "x/1xw 0x40002000",
                "maint packet qqemu.PhyMemMode",
            ),
            *("maint packet Qqemu.PhyMemMode:1", "x/1xw 0x40002000", "x/1xw 0x1000"),
        ],
        tmp_path,
    )
    assert session.text.count("0x40002000:\t0x11223344") == 2
    assert "Cannot access memory at address 0x1000" in session.text


def test_a_step_is_one_operation_and_a_call_leads_to_the_vector(tmp_path: Path) -> None:
    vectors = RAM + 0x800
    code = [*a64.mov64(0, vectors), a64.msr((3, 0, 12, 0, 0), 0), a64.svc(0), a64.b(0)]
    data = a64.code(code)
    data += bytes(0xA00 - len(data)) + a64.code([a64.add_imm(1, 1, 1), a64.b(0)])
    call = RAM + 4 * (len(code) - 2)
    session = with_gdb(
        Machine(program(tmp_path, data)),
        [f"break *{call:#x}", "continue", "stepi", "p/x $pc", "stepi", "p/x $pc", "p $x1"],
        tmp_path,
        operations=1000,
    )
    assert f"= {vectors + 0x200:#x}" in session.text
    assert f"= {vectors + 0x204:#x}" in session.text
    assert session.lines[-2:] == ["$3 = 1", "[Inferior 1 (Remote target) detached]"]


def test_a_thread_is_a_pe_and_others_run_on_while_one_steps(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(shipped_firmware("spe_smp"), smp=4),
        [
            *("info threads", "break work3", "continue", "thread", "delete"),
            *("thread 3", "p $pc != 0", "stepi", "thread", "thread apply all p/x $PMBIDR_EL1"),
            "continue",
        ],
        tmp_path,
    )
    assert "Thread 4 hit Breakpoint 1" in session.text
    assert "[Current thread is 4 (Thread 4)]" in session.text
    assert "[Current thread is 3 (Thread 3)]" in session.text
    assert session.text.count("= 0x126") == 4
    assert "cpu 3: off" in session.text
    assert session.outcome.exit_status == 0
    assert "exited normally" in session.text


def test_ctrl_c_stops_a_loop(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, LOOP)),
        [
            *python(
                "import gdb, threading",
                "threading.Timer(1, lambda: gdb.post_event(lambda: gdb.execute('interrupt')))",
            ),
            *("shell (sleep 1; kill -INT $PPID) &", "continue", "p/x $pc", "kill"),
        ],
        tmp_path,
    )
    assert "Program received signal SIGINT" in session.text
    assert "0x40000000" in session.text
    assert session.outcome.ending == "interrupted"


def test_the_end_of_the_guest_is_told_with_its_status(tmp_path: Path) -> None:
    session = with_gdb(Machine(program(tmp_path, EXIT_7)), ["continue"], tmp_path)
    assert "exited with code 07" in session.text
    assert session.outcome.exit_status == 7


def test_a_second_gdb_reads_that_there_is_one_and_the_first_goes_on(tmp_path: Path) -> None:
    second = f"{GDB} -batch -nx -ex 'target remote {tmp_path}/socket' 2>&1"
    session = with_gdb(
        Machine(shipped_firmware("spe_irq_el1")),
        ["break main", "continue", f"shell {second}", "stepi", "detach"],
        tmp_path,
    )
    # GDB 14 and later leave the "E." out.
    assert re.search(
        r"Remote failure reply: (E\.)?another debugger holds this machine", session.text
    )
    assert session.said == ["a second debugger was turned away: one holds this machine already"]
    assert session.outcome.exit_status == 0


def test_a_guest_that_sleeps_for_ever_or_fails_can_be_looked_at(tmp_path: Path) -> None:
    asleep = with_gdb(
        Machine(program(tmp_path, SLEEP)), ["continue", "p/x $pc", "info threads"], tmp_path
    )
    assert "cpu 0: asleep in a WFI" in asleep.text
    assert asleep.outcome.ending == "asleep"
    failed = with_gdb(
        Machine(program(tmp_path, CRASH, CRASH_SYMBOLS)), ["continue", "bt", "continue"], tmp_path
    )
    assert "SIGABRT" in failed.text
    assert "exited with code 0176" in failed.text  # 126
    assert failed.outcome.ending == "failed"


def test_a_limit_stops_and_nothing_goes_on_after_it(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, LOOP)), ["continue", "continue"], tmp_path, operations=5000
    )
    assert "exited with code 0174" in session.text
    assert (session.outcome.ending, session.outcome.operations) == ("limit", 5000)


def test_monitor_answers(tmp_path: Path) -> None:
    commands = [
        *("help", "regs spe", "regs PMSCR_EL1", "spe", "irq", "records 2", "translate 0x40080000"),
        *("translate 0x40080000 el2", "translate 0x0", "why-no-samples", "nonsense", "records x"),
        *("break-sysreg PMBPTR_EL1 w", "set PMSIRR_EL1.INTERVAL 0x123", "records 0"),
        *("set PMSIDR_EL1 1", "set ICC_RPR_EL1 1", "regs"),
    ]
    session = with_gdb(
        Machine(shipped_firmware("spe_irq_el1")),
        [*(f"monitor {c}" for c in commands), "continue", "p/x $pc", "monitor reset", "detach"],
        tmp_path,
    )
    for said in (
        *("translate VA [EL]", "PMSCR_EL1(0x", "profiling is disabled", "nothing asserted"),
        *("cpu 0 has no records", "0x40080000 is physical address 0x40080000 (NonSecure) at EL1"),
        *("there is no `nonsense`", "it is written: monitor records [N]"),
        *("a cpu stops after each write of PMBPTR_EL1", "PMSIRR_EL1(0x", "INTERVAL=0x123"),
        *("PMBPTR_EL1 was written at", "the machine was reset", "PMSIDR_EL1 is read-only"),
        "ICC_RPR_EL1 is read-only",
    ):
        assert said in session.text, said
    assert session.text.count("it is written: monitor records [N]") == 2
    assert session.outcome.exit_status == 0


def test_a_register_that_is_only_read_is_not_written(tmp_path: Path) -> None:
    session = with_gdb(Machine(shipped_firmware("hello")), ["p $PMSIDR_EL1 = 1ull"], tmp_path)
    assert 'Could not write register "PMSIDR_EL1"' in session.text


def test_accesses_that_the_engine_answers_stop_the_machine(tmp_path: Path) -> None:
    """After the access itself, with the PC behind it; by a register's generic name as well."""
    commands = [
        *("monitor break-sysreg ttbr0_el1 w", "continue", "x/i $pc - 4", "p/x $TTBR0_EL1"),
        *(
            "monitor break-sysreg TTBR0_EL1 off",
            "monitor break-sysreg S3_0_C12_C0_0 w",
            "monitor break-sysreg S3_3_C13_C0_2 r",
        ),
        *("monitor break-sysreg CNTVCT_EL0 rw", "monitor break-sysreg NOWHERE_EL1 w"),
        *("monitor break-sysreg TTBR0_EL1 off", "detach"),
    ]
    session = with_gdb(Machine(shipped_firmware("spe_irq_el1")), commands, tmp_path)
    for said in (
        "a cpu stops after each write of TTBR0_EL1",
        "TTBR0_EL1 was written at 0x40084948: 0x400c2000 (BADDR 0x20061000)",
        "msr\tttbr0_el1, x1",
        "TTBR0_EL1 stops nothing",
        "a cpu stops after each write of VBAR_EL1",
        "a cpu stops after each read of S3_3_C13_C0_2",
        "a cpu stops after each read and write of CNTVCT_EL0",
        "there is no System register `NOWHERE_EL1`",
        "nothing stops at `TTBR0_EL1`",
    ):
        assert said in session.text, said
    assert session.outcome.exit_status == 0


def test_the_guests_breakpoint_comes_before_one_at_the_same_place(tmp_path: Path) -> None:
    """debug_break walks once without a breakpoint of its own, then with one at walk_first."""
    commands = ["break *&walk_first", "break on_trap", *["continue"] * 3]
    commands += ["p/x $ELR_EL1 == &walk_first", "delete", "continue"]
    session = with_gdb(Machine(shipped_firmware("debug_break")), commands, tmp_path)
    hits = [line for line in session.lines if re.match(r"Breakpoint \d, ", line)]
    assert "walk_first" in hits[0]
    assert all("on_trap" in line for line in hits[1:3])
    assert "$1 = 0x1" in session.text
    assert session.outcome.exit_status == 0


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("buffer-full", "the Profiling Buffer is full at"),
        ("irq", "IRQ"),
        ("exception", "SVC"),
    ],
)
def test_events_stop_the_machine(tmp_path: Path, event: str, said: str) -> None:
    session = with_gdb(
        Machine(shipped_firmware("spe_irq_el1")),
        [f"monitor break-event {event}", "continue", "p/x $pc", "detach"],
        tmp_path,
    )
    assert "SIGTRAP" in session.text
    assert said in session.text
    assert session.outcome.exit_status == 0


def test_a_breakpoint_in_a_loop_is_hit_each_time(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, a64.code([a64.movz(0, 0), a64.add_imm(0, 0, 1), a64.b(-4)]))),
        [f"break *{RAM + 4:#x}", "continue", "continue", "continue", "p $x0", "info breakpoints"],
        tmp_path,
        operations=1000,
    )
    assert "$1 = 2" in session.text
    assert "already hit 3 times" in session.text


@pytest.mark.parametrize(
    ("operation", "watched", "kind"),
    [
        (a64.str_(2, 0), "*(long*)0x40004000", "watch"),
        (a64.str_(2, 0, size=0), "*(char*)0x40004000", "watch"),
        (a64.pair(load=False, rt=2, rt2=3, rn=0), "*(int*)0x40004008", "watch"),
        (a64.str9(2, 0, -4, 0), "*(char*)0x40003fff", "awatch"),  # over the end of a page
        (a64.ldr(4, 0), "*(long*)0x40004000", "rwatch"),
        (a64.ldr_q(4, 0), "*(char*)0x4000400f", "awatch"),
        (a64.dc_zva(0), "*(char*)0x4000403f", "awatch"),
        (0xF822_0004, "*(long*)0x40004000", "watch"),  # LDADD X2, X4, [X0]
        (0xE400_E000, "*(char*)0x40004001", "awatch"),  # ST1B {Z0.B}, P0, [X0]
    ],
)
def test_a_watchpoint_stops_before_the_access(
    tmp_path: Path, operation: int, watched: str, kind: str
) -> None:
    code = [
        *a64.mov64(0, RAM + 0x4000),
        *a64.mov64(5, 0b11 << 20 | 0b11 << 16),
        a64.msr((3, 0, 1, 0, 2), 5),  # CPACR_EL1: FP and SVE
        0xD503_3FDF,  # ISB
        0x2518_E3E0,  # PTRUE P0.B
        *(a64.movz(2, 7), a64.movz(3, 9), 0x4E08_0C40),  # DUP V0.2D, X2
        a64.add_imm(1, 1, 1),
        operation,
        a64.add_imm(1, 1, 1),
        a64.b(0),
    ]
    at = RAM + 4 * (len(code) - 3)
    session = with_gdb(
        Machine(program(tmp_path, a64.code(code))),
        [
            *python(
                "import gdb",
                "def stopped(event):",
                "    print('stopped at', hex(gdb.selected_frame().pc()))",
                "gdb.events.stop.connect(stopped)",
            ),
            *(f"{kind} {watched}", "maint set per-command space off", "set debug remote 1"),
            *("continue", "set debug remote 0", "p $x1", "delete", "stepi", "p $x1"),
        ],
        tmp_path,
        operations=5000,
    )
    assert f"{kind}:" in session.text.replace("hw ", "")
    assert f"stopped at {at + 4:#x}" in session.text  # GDB steps over what it has stopped before
    assert f"20:{at.to_bytes(8, 'little').hex()}" in session.text  # PC in the stop reply
    assert "$1 = 1" in session.text


STORES = [
    *a64.mov64(0, RAM + 0x4000),
    *(a64.movz(1, 1), a64.str_(1, 0)),  # the first store
    *(a64.movz(1, 2), a64.str_(1, 0)),  # the last one
    *(a64.movz(2, 20_000), a64.subs_imm(2, 2, 1), a64.b_cond(a64.NE, -4)),
    a64.add_imm(3, 3, 1),  # the end
    a64.b(0),
]
END = RAM + 4 * (len(STORES) - 2)
LAST_STORE = END - 4 * 4


def test_backwards_to_the_store_that_wrote_a_byte(tmp_path: Path) -> None:
    session = with_gdb(
        Machine(program(tmp_path, a64.code(STORES))),
        [
            *(f"break *{END:#x}", "continue", "p $x2", "watch *(long*)0x40004000"),
            *("reverse-continue", "p/x $pc", "x/1gx 0x40004000", "delete", "reverse-continue"),
            *("p/x $pc", "stepi", "p/x $pc"),
        ],
        tmp_path,
        operations=100_000,
    )
    assert "Hardware watchpoint 2: *(long*)0x40004000" in session.text
    assert "Old value = 2" in session.text
    assert "New value = 1" in session.text
    assert "0x40004000:\t0x0000000000000001" in session.text
    pcs = [line.split(" = ")[1] for line in session.lines if line.startswith("$") and "0x" in line]
    assert int(pcs[0], 16) in (LAST_STORE, LAST_STORE - 4)
    assert session.met_the_beginning
    assert pcs[1:] == [f"{RAM:#x}", f"{RAM + 4:#x}"]


def test_steps_back_undo_steps_and_the_run_goes_on_as_it_was(tmp_path: Path) -> None:
    plain = Machine(shipped_firmware("spe_irq_el1"))
    plain.run()
    machine = Machine(shipped_firmware("spe_irq_el1"))
    session = with_gdb(
        machine,
        [
            *("break spe_setup", "continue", "info registers pc sp x0", "stepi 20"),
            *("reverse-stepi 20", "info registers pc sp x0", "reverse-continue", "delete"),
            *("continue",),
        ],
        tmp_path,
    )
    shown = [line for line in session.lines if line.startswith(("pc ", "sp ", "x0 "))]
    assert len(shown) == 6
    assert shown[:3] == shown[3:]
    assert session.outcome.exit_status == 0
    assert machine.pes[0].records.raw == plain.pes[0].records.raw
    assert machine.console.output == plain.console.output
