"""What software finds of caches: the registers, and the device tree, are the core's model."""

from __future__ import annotations

from pathlib import Path

import pytest

from spe_unicorn.arch.pe import EL1, EL2, EL3
from spe_unicorn.cores.profile import core_names, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.boot.fdt import Node, parse
from spe_unicorn.machine.boot.plan import machine_dtb
from spe_unicorn.machine.options import MachineOptions
from tests.support import a64 as a
from tests.support.small_boards import board_at

CLIDR_EL1, CCSIDR_EL1 = (3, 1, 0, 0, 1), (3, 1, 0, 0, 0)
CSSELR_EL1, CTR_EL0 = (3, 2, 0, 0, 0), (3, 3, 0, 0, 1)
ID_AA64MMFR2_EL1 = (3, 0, 0, 7, 2)
SCTLR_EL1, VBAR_EL1 = (3, 0, 1, 0, 0), (3, 0, 12, 0, 0)
SPSR_EL1, ELR_EL1 = (3, 0, 4, 0, 0), (3, 0, 4, 0, 1)
SELECTORS = (0, 1, 2, 4)
"""L1 data, L1 instruction, L2, L3."""


def found(core: str, el: int = EL1, runner: type[Runner] = Runner) -> list[int]:
    """CLIDR_EL1, CTR_EL0, ID_AA64MMFR2_EL1, then CCSIDR_EL1 by each selector, as software reads."""
    code = [a.mrs(10, CLIDR_EL1), a.mrs(11, CTR_EL0), a.mrs(12, ID_AA64MMFR2_EL1)]
    for n, selector in enumerate(SELECTORS):
        code += [a.movz(1, selector), a.msr(CSSELR_EL1, 1), a.ISB, a.mrs(13 + n, CCSIDR_EL1)]
    board = board_at([*code, a.b(0)], el=el, runner=runner, core=load_core(core))
    board.run(len(code))
    return [board.cpu.engine.x(10 + n) for n in range(3 + len(SELECTORS))]


@pytest.mark.parametrize(("el", "runner"), [(EL1, Runner), (EL2, Runner), (EL3, ReferenceRunner)])
def test_neoverse_n1_shows_what_its_manual_says(el: int, runner: type[Runner]) -> None:
    clidr, ctr, mmfr2, *sizes = found("neoverse-n1", el, runner)
    assert (clidr, ctr) == (0x8200_0023, 0x8444_C004)
    assert sizes == [0x701F_E01A, 0x201F_E01A, 0x70FF_E03A, 0]
    assert mmfr2 >> 20 & 15 == 0


def test_neoverse_v2_has_the_format_of_ccidx() -> None:
    _, _, mmfr2, *sizes = found("neoverse-v2")
    assert mmfr2 >> 20 & 15 == 1
    # 64 KiB of 4 ways twice, 2 MiB of 8 ways
    assert sizes == [0xFF_0000_001A, 0xFF_0000_001A, 0xFFF_0000_003A, 0]


def test_generic_has_three_levels() -> None:
    clidr, ctr, _, *sizes = found("generic")
    assert (clidr, ctr) == (0x0B20_0123, 0x8444_C004)
    # 32 KiB of 4 ways twice, 256 KiB of 8, 2 MiB of 16
    assert sizes == [0x700F_E01A, 0x200F_E01A, 0x703F_E03A, 0x70FF_E07A]


def test_a_core_with_lines_of_its_own_shows_them_to_user_programs(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('name = "own"\nmidr = 1\nfeatures = ["EL2", "EL3"]\n[model]\nline = 128\n')
    assert found(str(file))[1] == 0x8555_C004
    for allowed in (True, False):
        code = [
            a.movz(1, 1 << 15 if allowed else 0),
            a.msr(SCTLR_EL1, 1),  # UCT
            a.msr(SPSR_EL1, 31),
            a.adr(2, 16),
            a.msr(VBAR_EL1, 2),
            a.msr(ELR_EL1, 2),
            a.ERET,
            a.mrs(11, CTR_EL0),
            a.b(0),
        ]
        board = board_at(code, el=EL1, core=load_core(str(file)))
        board.run(len(code) - 1)
        assert board.cpu.engine.x(11) == (0x8555_C004 if allowed else 0)
        assert board.cpu.el == (0 if allowed else 1)


@pytest.mark.parametrize("name", core_names())
def test_the_device_tree_has_the_sizes_of_the_model(name: str) -> None:
    core = load_core(name)
    root = parse(machine_dtb(MachineOptions(core=core, smp=2))).root
    numbers = core.numbers
    for n in range(2):
        cpu = root.find(f"/cpus/cpu@{n}")
        assert sizes(cpu, "i-") == (numbers.l1i.size, numbers.line, numbers.level("l1i").sets)
        assert sizes(cpu, "d-") == (numbers.l1d.size, numbers.line, numbers.level("l1d").sets)
        l2 = root.find(f"/cpus/cpu@{n}/l2-cache")
        assert sizes(l2) == (numbers.l2.size, numbers.line, numbers.level("l2").sets)
        assert cpu.properties["next-level-cache"] == l2.properties["phandle"]
        last = root.find("/cpus/l3-cache")
        assert l2.properties["next-level-cache"] == last.properties["phandle"]
    assert sizes(last) == (numbers.last.size, numbers.line, numbers.level("last").sets)


def sizes(node: Node, prefix: str = "") -> tuple[int, ...]:
    return tuple(
        int.from_bytes(node.properties[f"{prefix}cache-{what}"], "big")
        for what in ("size", "line-size", "sets")
    )
