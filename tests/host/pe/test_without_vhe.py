"""HCR_EL2.E2H on cores without FEAT_VHE: the engine has it, they have not."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.ports import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.host.guests import put
from tests.support import a64 as a
from tests.support.small_boards import board_at

E2H, TGE, RW = 1 << 34, 1 << 27, 1 << 31


@pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
@pytest.mark.parametrize(("core", "kept"), [("minimal", 0), ("generic", E2H)])
def test_e2h_is_res0_without_vhe(core: str, kept: int, runner: type[Runner]) -> None:
    hcr = astuple(system.HCR_EL2.encoding)
    code = [*put(system.HCR_EL2, E2H | TGE | RW), a.ISB, a.mrs(1, hcr), a.b(0)]
    board = board_at(code, el=2, runner=runner, core=load_core(core))
    assert board.run(len(code) + 2) is Ending.LIMIT
    assert board.cpu.engine.x(1) == kept | TGE | RW
    assert board.cpu.engine.system(system.HCR_EL2.encoding) & E2H == kept
