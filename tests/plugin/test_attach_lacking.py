"""Instructions that the engine lacks, on an engine of somebody else's."""

from __future__ import annotations

import pytest
from unicorn import UC_ARCH_ARM64, UC_HOOK_INTR, UC_MODE_ARM, Uc, UcError, arm64_const

from spe_unicorn.host.pe.amended.lacking import Lacking
from spe_unicorn.instructions.rows import Row
from spe_unicorn.plugin.attach import attach
from tests.support import a64 as a
from tests.support.user_engine import CODE, end, engine


@pytest.mark.parametrize("interval", [1, 3])
def test_what_the_engine_lacks_is_carried_out_for_a_core_that_has_it(interval: int) -> None:
    """USDOT V3.4S, V1.16B, V2.16B, twice; on a core without FEAT_I8MM it ends the run."""
    usdot = 0x4E82_9C23
    code = [usdot, a.add_imm(1, 1, 1), usdot, a.add_imm(1, 1, 1)]
    for core in ("neoverse-v1", "neoverse-n1"):
        uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        uc.ctl_set_cpu_model(arm64_const.UC_CPU_ARM64_MAX)
        uc.mem_map(0x1000, 0x1000)
        uc.mem_write(0x1000, a.code(code))
        uc.reg_write(arm64_const.UC_ARM64_REG_CPACR_EL1, 0b11 << 20)
        uc.reg_write(arm64_const.UC_ARM64_REG_Q1, int.from_bytes(bytes([255] * 16), "little"))
        uc.reg_write(arm64_const.UC_ARM64_REG_Q2, int.from_bytes(bytes([2] * 16), "little"))
        with attach(uc, core=core) as spe:
            spe.program(interval)
            if core == "neoverse-n1":
                with pytest.raises(UcError):
                    spe.emu_start(0x1000, 0x1010)
            else:
                spe.emu_start(0x1000, 0x1010)
                assert spe.statistics.population == 4
        done = core == "neoverse-v1"
        assert uc.reg_read(arm64_const.UC_ARM64_REG_X1) == 2 * done
        assert uc.reg_read(arm64_const.UC_ARM64_REG_Q3) & 0xFFFF_FFFF == 2 * 2040 * done


def test_tags_are_put_into_registers_and_not_into_memory() -> None:
    """IRG X2, X1, ADDG X3, X2, #16, #1, and MSR TCO, #1; STG X2, [X1], which is left out."""
    code = [0x9ADF_1022, 0x9181_0443, 0xD503_419F, 0xD920_0822]
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_cpu_model(arm64_const.UC_CPU_ARM64_MAX)
    uc.mem_map(0x1000, 0x1000)
    uc.mem_write(0x1000, a.code(code))
    uc.reg_write(arm64_const.UC_ARM64_REG_X1, 0xF << 56 | 0x1800)
    with attach(uc, core="neoverse-n2") as spe, pytest.raises(UcError):
        spe.emu_start(0x1000, 0x1010)
    assert uc.reg_read(arm64_const.UC_ARM64_REG_X3) == 0x1810
    assert uc.reg_read(arm64_const.UC_ARM64_REG_PC) == 0x100C


def test_features_with_accesses_at_stops_are_not_there() -> None:
    """MRS X1, ID_AA64ZFR0_EL1 has SVEver 1 and no F64MM; PTRUE PN8.B is UNDEFINED."""
    code = [a.mrs(1, (3, 0, 0, 4, 4)), 0x2520_7810]
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    uc.ctl_set_cpu_model(arm64_const.UC_CPU_ARM64_MAX)
    uc.mem_map(0x1000, 0x1000)
    uc.mem_write(0x1000, a.code(code))
    uc.reg_write(arm64_const.UC_ARM64_REG_CPACR_EL1, 0b11 << 20 | 0b11 << 16)
    with attach(uc, core="max") as spe, pytest.raises(UcError):
        spe.emu_start(0x1000, 0x1008)
    assert uc.reg_read(arm64_const.UC_ARM64_REG_PC) == 0x1004
    shown = uc.reg_read(arm64_const.UC_ARM64_REG_X1)
    assert (shown & 15, shown >> 56 & 15) == (1, 0)


@pytest.mark.parametrize("first", [True, False])
def test_what_the_core_must_not_have_is_undefined_in_runs_of_the_attachment(first: bool) -> None:
    """CFINV, FEAT_FlagM, which Neoverse N1 lacks; in the very first block and in a later one."""
    cfinv = 0xD500_401F
    code = [*([] if first else [a.b(4)]), a.add_imm(1, 1, 1), cfinv, a.add_imm(1, 1, 1)]
    for core in ("neoverse-v1", "neoverse-n1"):
        uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        uc.ctl_set_cpu_model(arm64_const.UC_CPU_ARM64_MAX)
        uc.mem_map(0x1000, 0x1000)
        uc.mem_write(0x1000, a.code(code))
        seen: list[int] = []

        def note(uc: Uc, number: int, seen: list[int]) -> None:
            seen.append(uc.reg_read(arm64_const.UC_ARM64_REG_PC))
            uc.emu_stop()

        uc.hook_add(UC_HOOK_INTR, note, seen)
        with attach(uc, core=core) as spe:
            spe.emu_start(0x1000, 0x1000 + 4 * len(code))
        lacks = core == "neoverse-n1"
        assert seen == [0x1000 + 4 * code.index(cfinv)] * lacks
        assert uc.reg_read(arm64_const.UC_ARM64_REG_X1) == 1 + (not lacks)


@pytest.mark.accelerated
def test_the_engine_is_not_left_for_an_instruction_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python carries out the first one, and compiled code those that follow."""
    seen: list[int] = []
    plain = Lacking.carry_out

    def noted(self: Lacking, row: Row, word: int) -> None:
        seen.append(word)
        plain(self, row, word)

    monkeypatch.setattr(Lacking, "carry_out", noted)
    cnt = 0x5AC0_1C41  # CNT W1, W2
    words = [*a.mov64(5, 100), cnt, a.subs_imm(5, 5, 1), a.b_cond(a.NE, -8), a.NOP]
    spe = attach(engine(words), core="max")
    spe.emu_start(CODE, end(words))
    assert seen == [cnt]
