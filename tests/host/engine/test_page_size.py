"""The engine has an entry of its TLB for each page that A64 can have, and for none smaller."""

from __future__ import annotations

import pytest
from unicorn.unicorn_const import UC_HOOK_BLOCK

from spe_unicorn.host.engine.engine import Engine, new_engine
from tests.support import a64 as a

CODE, SIZE = 0x4000_0000, 0x4000
KIB = 1 << 10
FOUR_AND_A_BRANCH = [*[a.NOP] * 4, a.b(0)]


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        (CODE + KIB - 8, [CODE + KIB - 8]),
        (CODE + 4 * KIB - 8, [CODE + 4 * KIB - 8, CODE + 4 * KIB]),
    ],
)
def test_a_block_ends_at_4_kib_and_not_at_each(begin: int, expected: list[int]) -> None:
    uc = new_engine()
    assert Engine(uc).page_bits == 12
    uc.mem_map(CODE, SIZE)
    uc.mem_write(begin, a.code(FOUR_AND_A_BRANCH))
    seen: list[int] = []
    uc.hook_add(UC_HOOK_BLOCK, lambda uc, address, size, user: seen.append(address))
    uc.emu_start(begin, begin + 16)
    assert seen == expected
