"""How long SVE vectors are: what the core has, ZCR_ELx, and what software above leaves.

Arm ARM D24.2.228 to D24.2.230, ZCR_ELx.LEN: a request beyond the longest vector gives the longest.
"""

from __future__ import annotations

from dataclasses import astuple

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.cores.profile import CoreError, load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.snapshot.board_state import BoardSaver
from tests.support import a64 as a
from tests.support.small_boards import board_at

RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])
ZCR = {1: (3, 0, 1, 2, 0), 2: (3, 4, 1, 2, 0), 3: (3, 6, 1, 2, 0)}
RDVL_X0, RDVL_X1, RDVL_X2 = 0x04BF_5020, 0x04BF_5021, 0x04BF_5022
"""The length of a vector in bytes."""
CPACR_ALL = [*a.mov64(9, 0x33 << 16), a.msr(astuple(system.CPACR_EL1.encoding), 9), a.ISB]
LONGEST = {
    "neoverse-v1": 256,
    "neoverse-n2": 128,
    "neoverse-v2": 128,
    "cortex-x4": 128,
    "max": 2048,
    "generic": 128,
    "qemu-max": 128,
}


def ask(el: int, length: int) -> list[int]:
    return [*a.mov64(10, length), a.msr(ZCR[el], 10), a.ISB]


@RUNNERS
@pytest.mark.parametrize("core", LONGEST)
@pytest.mark.parametrize("el", [1, 2, 3])
def test_all_of_the_core_is_there_wherever_software_starts(
    el: int, core: str, runner: type[Runner]
) -> None:
    """The level asks for everything that the architecture has, 2048 bits."""
    code = [*CPACR_ALL, RDVL_X0, *ask(el, 15), RDVL_X1, *ask(el, 0), RDVL_X2, a.b(0)]
    board = board_at(code, el=el, runner=runner, core=load_core(core))
    board.run(len(code))
    x = board.cpu.engine.x
    assert (8 * x(1), 8 * x(2)) == (LONGEST[core], 128)
    assert 8 * x(0) == 128  # the level itself has not asked


@RUNNERS
@pytest.mark.parametrize(("asked", "bits"), [(0, 128), (1, 256), (2, 256), (7, 256), (15, 256)])
def test_el3_gets_no_more_than_there_is(asked: int, bits: int, runner: type[Runner]) -> None:
    """What ZCR_EL3 reads as is what there is."""
    code = [*ask(3, asked), RDVL_X0, a.mrs(1, ZCR[3]), *ask(3, asked), RDVL_X2, a.b(0)]
    board = board_at(code, el=3, runner=runner, core=load_core("neoverse-v1"))
    board.run(len(code))
    x = board.cpu.engine.x
    assert (8 * x(0), x(1), 8 * x(2)) == (bits, bits // 128 - 1, bits)


def test_a_restored_machine_and_a_reset_one_have_the_same() -> None:
    core = load_core("neoverse-v1")
    code = [*ask(3, 15), RDVL_X0, a.b(0)]
    board, other = (board_at(code, el=3, core=core) for _ in range(2))
    board.run(len(code) - 2)
    BoardSaver(other).restore(BoardSaver(board).save())
    other.run(2)
    assert 8 * other.cpu.engine.x(0) == 256
    other.pes[0].start(3, other.cpu.pc - 4)
    other.run(1)
    assert 8 * other.cpu.engine.x(0) == 128


def test_a_length_that_no_vector_has_is_refused() -> None:
    with pytest.raises(CoreError, match="sve_bits = 384"):
        load_core("max,sve_bits=384")
