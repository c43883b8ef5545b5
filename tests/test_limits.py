"""Rows of docs/reference/limits.md: what a small program at EL1 comes to.

Each program ends with a semihosting exit whose status is what it found out, or with the class of
the exception that it took.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from unicorn import UC_ARCH_ARM64, UC_MODE_ARM, Uc, UcError, arm64_const

from spe_unicorn.host.engine import known, near_memory
from spe_unicorn.machine.options import Sampling
from spe_unicorn.plugin.attach import TrappedAccessError, attach
from spe_unicorn.session.machine import Machine
from spe_unicorn.session.snapshot import SnapshotError
from tests.host import stale_tables
from tests.host.stale_tables import CODE, MEMORY, PAGE, PAGES
from tests.support import a64 as a
from tests.support.elf_builder import RAM, Elf, Load
from tests.support.gdb import GDB, with_gdb
from tests.support.small_programs import program, words

ROOM = RAM + 0x1_0000
"""Memory for a program's data."""
VECTORS = RAM + 0x800
SCTLR_EL1, SPSR_EL1, ELR_EL1 = (3, 0, 1, 0, 0), (3, 0, 4, 0, 0), (3, 0, 4, 0, 1)
VBAR_EL1, ESR_EL1 = (3, 0, 12, 0, 0), (3, 0, 5, 2, 0)
MDCCSR_EL0, DBGDTRTX_EL0 = (2, 3, 0, 1, 0), (2, 3, 0, 5, 0)
ID_AA64MMFR1_EL1, TTBR0_EL1, TCR_EL1 = (3, 0, 0, 7, 1), (3, 0, 2, 0, 0), (3, 0, 2, 0, 2)
SP_ALIGNMENT, DATA_ABORT, SUPERVISOR_CALL = 0x26, 0x25, 0x15
"""Exception classes (ESR_EL1.EC)."""
ISB = 0xD503_3FDF
WFE = 0xD503_205F
HLT_F000 = 0xD45E_0000
MOV_W0_1, MOV_W0_2 = 0x5280_0020, 0x5280_0040

EXIT = [  # the status is in X0
    *a.mov64(1, ROOM + 0x100),
    *a.mov64(2, 0x20026),
    a.str_(2, 1),
    a.str_(0, 1, 8),
    *a.mov64(0, 0x18),
    HLT_F000,
]


def found(
    folder: Path,
    code: list[int],
    handler: list[int] | None = None,
    *,
    each: int = 1000,
    **options: Any,
) -> int | str | None:
    """The exit status of a program, or why it cannot go on.

    ``handler`` is for exceptions, also those of EL0. It leaves the status in X0. The machine runs
    ``each`` operations at a time, 1000 at most in all.
    """
    start = [*a.mov64(9, VECTORS), a.msr(VBAR_EL1, 9), ISB, *code, *EXIT]
    handler = [*(handler or [a.mrs(0, ESR_EL1), a.lsr_imm(0, 0, 26)]), *EXIT]
    vectors = words(*handler).ljust(0x200, b"\0") + words(*handler)
    data = words(*start).ljust(VECTORS + 0x200 - RAM, b"\0") + vectors
    path = folder / "program.elf"
    path.write_bytes(Elf(loads=[Load(data=data, memsz=0x2_0000, flags=7)]).build())
    with Machine(path, **options) as machine:
        outcome = machine.run(each)
        while outcome.ending == "limit" and machine.operations < 1000:
            outcome = machine.run(each)
    return outcome.cause if outcome.exit_status is None else outcome.exit_status


@pytest.mark.parametrize(("checked", "expected"), [(False, 0), (True, SP_ALIGNMENT)])
def test_the_alignment_of_sp_alone_is_checked_when_asked_for(
    tmp_path: Path, checked: bool, expected: int
) -> None:
    """SCTLR_EL1.SA (bit 3) is 1, A (bit 1) is 0."""
    code = [*a.mov64(3, 0x30D0_0808), a.msr(SCTLR_EL1, 3), ISB, *a.mov64(3, ROOM + 8)]
    code += [a.add_imm(31, 3, 0), a.ldr(0, 31), *a.mov64(0, 0)]
    assert found(tmp_path, code, check_alignment=checked) == expected


@pytest.mark.parametrize(("checked", "expected"), [(False, 0), (True, DATA_ABORT)])
def test_alignment_in_ram_without_translation_is_checked_when_asked_for(
    tmp_path: Path, checked: bool, expected: int
) -> None:
    code = [*a.mov64(3, ROOM + 1), a.ldr(0, 3), *a.mov64(0, 0)]
    assert found(tmp_path, code, check_alignment=checked) == expected


def test_nobody_takes_what_a_guest_sends_by_the_debug_channel(tmp_path: Path) -> None:
    """MDCCSR_EL0.TXfull is bit 29."""
    code = [a.msr(DBGDTRTX_EL0, 9), *[a.NOP] * 50, a.mrs(0, MDCCSR_EL0), a.lsr_imm(0, 0, 29)]
    assert found(tmp_path, code) == 1


@pytest.mark.parametrize("core", ["generic", "max", "neoverse-v2"])
def test_no_core_has_access_flags_by_hardware(tmp_path: Path, core: str) -> None:
    """ID_AA64MMFR1_EL1.HAFDBS is bits 3 to 0."""
    code = [a.mrs(0, ID_AA64MMFR1_EL1), a.and_low_bits(0, 0, 0, 4)]
    assert found(tmp_path, code, core=core) == 0


def test_a_return_to_aarch32_state_ends_the_run_with_a_sentence(tmp_path: Path) -> None:
    code = [*a.mov64(3, 0x1D0), a.msr(SPSR_EL1, 3), a.msr(ELR_EL1, 9), ISB, a.ERET]
    assert found(tmp_path, code) == "the guest switched to AArch32 state"


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 1), ({"sampling": Sampling(1)}, 1), ({"each": 1}, 2)],
    ids=["run", "record", "step"],
)
def test_a_store_into_its_own_block_counts_the_next_time_or_where_it_is_stepped_to(
    tmp_path: Path, options: dict[str, Any], expected: int
) -> None:
    code = [*a.mov64(3, MOV_W0_2), a.adr(4, 8), a.str_(3, 4, size=2), MOV_W0_1]
    assert found(tmp_path, code, **options) == expected


def test_a_store_of_the_same_value_leaves_an_exclusive_whole(tmp_path: Path) -> None:
    code = [*a.mov64(3, ROOM), a.ldxr(4, 3), a.str_(4, 3), a.stxr(0, 4, 3)]
    assert found(tmp_path, code) == 0


def test_a_walk_of_tables_where_nothing_is_finds_a_translation_fault(tmp_path: Path) -> None:
    """TCR_EL1.T0SZ is 25, so that the walk begins at level 1; the vectors are not mapped either."""
    code = [*a.mov64(3, 0x7F_0000_0000), a.msr(TTBR0_EL1, 3), *a.mov64(3, 0x5_0080_3519)]
    code += [a.msr(TCR_EL1, 3), ISB, *a.mov64(3, 0x30D0_0801), a.msr(SCTLR_EL1, 3), ISB, a.NOP]
    cause = str(found(tmp_path, code))
    assert cause.startswith("InstructionAbort (translation fault, level 1)"), cause


@pytest.mark.parametrize(
    ("instruction", "later", "expected"),
    [
        (a.dc_zva(3), a.ldr(1, 8), 8),
        (a.dc_zva(3), a.NOP, 16),
        (a.str_(3, 3), a.NOP, 0),
    ],
    ids=["DC ZVA, load", "DC ZVA", "STR"],
)
def test_a_dc_zva_where_nothing_is_aborts_at_the_next_access_or_behind_its_block(
    tmp_path: Path, instruction: int, later: int, expected: int
) -> None:
    """How far ELR_EL1 is behind the instruction. The block ends with a branch at 12."""
    code = [*a.mov64(3, 0x7F_0000_0000), *a.mov64(8, ROOM), a.adr(5, 8), a.b(4)]
    code += [instruction, a.NOP, later, a.b(4), *a.mov64(0, 1)]
    assert found(tmp_path, code, [a.mrs(4, ELR_EL1), a.subs(0, 4, 5)]) == expected


def test_a_wfe_of_el0_completes_at_once_and_so_is_not_trapped(tmp_path: Path) -> None:
    """SCTLR_EL1.nTWE (bit 18) is 0: one that waits would be trapped, with class 1."""
    code = [*a.mov64(3, 0x30D0_0800 & ~(1 << 18)), a.msr(SCTLR_EL1, 3), a.msr(SPSR_EL1, 31)]
    code += [a.adr(4, 16), a.msr(ELR_EL1, 4), ISB, a.ERET, WFE, WFE, WFE, a.svc(0)]
    assert found(tmp_path, code) == SUPERVISOR_CALL


OSLAR_EL1, MDSCR_EL1 = (2, 0, 1, 0, 4), (2, 0, 0, 2, 2)
DBGWVR0_EL1, DBGWCR0_EL1 = (2, 0, 0, 0, 6), (2, 0, 0, 0, 7)
DBGCLAIMSET_EL1 = (2, 0, 7, 8, 6)


def attached(code: list[int]) -> int:
    """X0 after code at EL1 of an attachment. Raises UcError."""
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_cpu_model(arm64_const.UC_CPU_ARM64_MAX)
    uc.mem_map(0x1000, 0x1000)
    uc.mem_write(0x1000, a.code(code))
    with attach(uc, core="max") as spe:
        spe.emu_start(0x1000, 0x1000 + 4 * len(code))
    value: int = uc.reg_read(arm64_const.UC_ARM64_REG_X0)
    return value


def test_the_engine_of_an_attachment_takes_no_watchpoints() -> None:
    """DBGWCR0_EL1: BAS, LSC, PAC and E match any access at EL1; MDSCR_EL1.MDE and KDE are 1."""
    code = [a.msr(OSLAR_EL1, 31), a.movz(1, 0x1800), a.msr(DBGWVR0_EL1, 1)]
    code += [a.movz(2, 0xFF << 5 | 3 << 3 | 3 << 1 | 1), a.msr(DBGWCR0_EL1, 2)]
    code += [a.movz(3, 1 << 15 | 1 << 13), a.msr(MDSCR_EL1, 3), a.daifclr(8), ISB]
    assert attached([*code, a.str_(1, 1), a.movz(0, 7)]) == 7


@pytest.mark.parametrize("register", [DBGCLAIMSET_EL1, DBGDTRTX_EL0])
def test_an_attachment_has_neither_claim_tags_nor_a_debug_channel(
    register: tuple[int, int, int, int, int],
) -> None:
    with pytest.raises(UcError):
        attached([a.msr(register, 1), a.movz(0, 7)])


DAIF = (3, 3, 4, 2, 1)


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_a_stop_at_a_register_does_not_see_msr_of_an_immediate(tmp_path: Path) -> None:
    code = a.code([a.daifclr(8), a.NOP, a.msr(DAIF, 31), a.b(0)])
    commands = ["monitor break-sysreg DAIF w", "continue", "p/x $pc"]
    session = with_gdb(Machine(program(tmp_path, code)), commands, tmp_path, operations=1000)
    assert f"$1 = {RAM + 12:#x}" in session.lines


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_gdb_does_not_read_devices(tmp_path: Path) -> None:
    """The UART: a read of its data register takes a character."""
    machine = Machine(program(tmp_path, a.code([a.b(0)])))
    session = with_gdb(machine, ["x/1xw 0x9000000"], tmp_path, operations=1000)
    assert "Cannot access memory at address 0x9000000" in session.text


@pytest.mark.skipif(GDB is None, reason="gdb-multiarch is not installed")
def test_watchpoints_do_not_see_what_semihosting_stores(tmp_path: Path) -> None:
    """SYS_ELAPSED (0x30) stores 8 bytes at X1; the store behind it is seen."""
    code = [*a.mov64(1, ROOM), *a.mov64(0, 0x30), HLT_F000, a.movz(2, 0x1234), a.str_(2, 1), a.b(0)]
    commands = [f"watch *(unsigned long *) {ROOM:#x}", "continue", "p/x $pc"]
    path = program(tmp_path, a.code(code).ljust(ROOM - RAM + 8, b"\0"))
    session = with_gdb(Machine(path), commands, tmp_path, operations=1000)
    assert "New value = 4660" in session.lines
    assert f"$1 = {RAM + 4 * (len(code) - 1):#x}" in session.lines


PMSCR_EL1, TPIDR_EL1 = (3, 0, 9, 9, 0), (3, 0, 13, 0, 4)


def test_an_attachment_takes_fine_grained_traps_of_spe_alone() -> None:
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_cpu_model(arm64_const.UC_CPU_ARM64_MAX)
    uc.mem_map(0x1000, 0x1000)
    uc.mem_write(0x1000, a.code([a.mrs(0, TPIDR_EL1), a.mrs(0, PMSCR_EL1), a.NOP]))
    with attach(uc, core="max") as spe:
        spe.registers.HDFGRTR_EL2.PMSCR_EL1 = 1
        spe.registers.HFGRTR_EL2.TPIDR_EL1 = 1
        with pytest.raises(TrappedAccessError, match=r"PMSCR_EL1 at 0x1004 traps to EL2"):
            spe.emu_start(0x1000, 0x100C)


# Snapshots, and where it runs

OLD, NEW = 1, 2


@pytest.mark.parametrize(("is_saved", "expected"), [(False, OLD), (True, NEW)])
def test_saving_forgets_translations_that_the_guest_has_not_maintained(
    tmp_path: Path, is_saved: bool, expected: int
) -> None:
    """A page is mapped to another place, without TLBI, and read after that."""
    before = [*stale_tables.mapped(), *stale_tables.load(1, PAGES), *stale_tables.map_to(0, 1)]
    code = [*before, *stale_tables.load(2, PAGES), a.b(0)]
    memory = bytearray(MEMORY + 2 * PAGE - CODE)
    places = {CODE: a.code(code), **stale_tables.tables()}
    places |= {MEMORY: bytes([OLD]), MEMORY + PAGE: bytes([NEW])}
    for at, data in places.items():
        memory[at - CODE : at - CODE + len(data)] = data
    path = tmp_path / "program.elf"
    path.write_bytes(Elf(loads=[Load(data=bytes(memory), memsz=len(memory), flags=7)]).build())
    with Machine(path) as machine:
        machine.run(len(before))
        if is_saved:
            machine.save()
        machine.run(100)
        found = machine.board.cpu.engine.x
        assert (found(1), found(2)) == (OLD, expected)


LARGE = (65 << 20) + 1
BETWEEN = (LARGE - 4096) * 300 // 16383 - 1
"""The byte before a place, some 64 behind the one before that."""


REFUSED = pytest.raises(SnapshotError, match="disk holds something else")


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((1 << 20) - 1, REFUSED),
        (BETWEEN, nullcontext()),
        (BETWEEN + 1, REFUSED),
        (LARGE - 1, REFUSED),
    ],
)
def test_of_a_large_drive_the_first_megabyte_and_places_are_compared(
    tmp_path: Path, at: int, expected: AbstractContextManager[object]
) -> None:
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(LARGE)
    path = program(tmp_path, a.code([a.b(0)]))
    with Machine(path, drive=(str(disk),)) as machine:
        saved = machine.save()
    with disk.open("r+b") as file:
        file.seek(at)
        file.write(b"x")
    with Machine(path, drive=(str(disk),)) as machine, expected:
        machine.restore(saved)


def test_flash_is_of_the_snapshot_and_its_file_of_what_was_stored_last(tmp_path: Path) -> None:
    """CFI: 0x40, then a word, programs it; 0xFF shows the array again. It starts in the first."""
    code = [*a.mov64(1, 0x0400_0000), a.movz(2, 0x40), a.str_(2, 1, size=2), a.movz(3, 0x77)]
    code += [a.str_(3, 1, size=2), a.movz(2, 0xFF), a.str_(2, 1, size=2), a.ldr(4, 1, size=2)]
    boot, flash = tmp_path / "boot", tmp_path / "flash"
    for name, data in ((boot, a.code([*code, a.b(0)])), (flash, b"\xff" * 4096)):
        name.write_bytes(data)
        os.truncate(name, 64 << 20)
    path = program(tmp_path, a.code([a.b(0)]))
    with Machine(path, pflash=(str(boot), str(flash))) as machine:
        saved = machine.save()
        machine.run(100)
        assert machine.board.cpu.engine.x(4) == 0x77
        machine.restore(saved)
        assert machine.board.memory.read(0x0400_0000, 1) == b"\xff"
    with flash.open("rb") as file:
        assert file.read(1) == b"\x77"


@pytest.mark.skipif(known.why_not() is not None, reason="inline counting is for Linux on x86-64")
def test_without_proc_blocks_do_not_count_themselves_and_the_outcome_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPE_UNICORN_INLINE", raising=False)
    monkeypatch.setattr(near_memory, "_MAPS", str(tmp_path / "maps"))
    with Machine(program(tmp_path, a.code([a.add_imm(0, 0, 1), a.b(-4)]))) as machine:
        outcome = machine.run(10_001)
        assert machine.board.cpu.engine.x(0) == 5001
    assert outcome.inline is not None
    assert outcome.inline.why_not == "the host gives no memory near the engine's code"
    assert known.why_not() is None  # which is what --version says
