"""The engine ends a block at each context synchronization event, which the hooks rely on."""

from __future__ import annotations

import pytest
from unicorn import UC_HOOK_BLOCK, Uc

from tests.support import a64 as a
from tests.support.user_engine import CODE, engine

ISB_ISH = 0xD503_3BDF
ELR_EL1, SPSR_EL1 = (3, 0, 4, 0, 1), (3, 0, 4, 0, 0)


def blocks(words: list[int]) -> list[tuple[int, int]]:
    """Place and length of each block that begins, in operations."""
    uc = engine(words)
    found: list[tuple[int, int]] = []

    def note(uc: Uc, address: int, size: int, user: object) -> None:
        found.append(((address - CODE) // 4, size // 4))

    uc.hook_add(UC_HOOK_BLOCK, note)
    uc.emu_start(CODE, CODE + 4 * len(words))
    return found


@pytest.mark.parametrize("isb", [a.ISB, ISB_ISH])
def test_an_isb_ends_its_block(isb: int) -> None:
    assert blocks([a.NOP, isb, a.NOP, a.NOP, isb, a.NOP])[:2] == [(0, 2), (2, 3)]


def test_an_eret_ends_its_block() -> None:
    back = [a.adr(9, 20), a.msr(ELR_EL1, 9), a.movz(9, 0x3C5), a.msr(SPSR_EL1, 9), a.ERET]
    assert (4, 1) in blocks([*back, a.NOP, a.NOP])
